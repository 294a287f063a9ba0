"""``dtoss export``: from a store to a file, without Spark."""

import subprocess
import sys

import geopandas
import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.snapshots.store import Store
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.stores import made


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of two snapshots of 2,000 taxis, the second in four partitions."""
    path = tmp_path_factory.mktemp("export") / "store"
    rng = np.random.default_rng(81)
    lon, lat = rng.normal(-122.4, 0.02, 2000).round(4), rng.normal(37.77, 0.02, 2000).round(4)
    table = pa.table({"id": np.arange(2000), "lon": lon, "lat": lat, "speed": rng.uniform(0, 30, 2000)})
    made(table.slice(0, 900), path, partitions=1)
    places = np.stack([lon, lat], axis=1)
    return stored(dtoss.build(table["id"], places, columns={"speed": table["speed"]}, partitions=4), path)


def test_cells_objects_and_regions_of_a_store(store, tmp_path, command):
    """Rows and areas are the manifest's; the message goes to stderr."""
    index = dtoss.open(store)
    for what, rows in (("cells", index.sites), ("objects", 2000), ("regions", 4)):
        out = tmp_path / f"{what}.parquet"
        said = command("export", "--store", store, "--what", what, "--out", out)
        assert said == (0, "", f"{rows:,} {what} in {out}\n")
        if what == "objects":
            found = geopandas.read_parquet(out).set_index("id").sort_index()
            assert found["speed"].tolist() == [index[i]["speed"] for i in range(2000)]
            continue
        with pytest.warns(UserWarning, match="spherical edges"):
            found = geopandas.read_parquet(out)
        assert len(found) == rows
        assert found["objects"].sum() == 2000
        assert found["area"].sum() == pytest.approx(4 * np.pi * EARTH_RADIUS**2, rel=1e-9)
        if what == "cells":
            assert found["area"].tolist() == pytest.approx([index.area(i) for i in found["id"].tolist()], rel=1e-9)
            assert found["neighbours"].tolist() == [len(index.neighbours(i)) for i in found["id"].tolist()]


def test_another_snapshot(store, tmp_path, command):
    """--snapshot names the one to read."""
    first = Store(store).snapshots()[0]
    out = tmp_path / "objects.parquet"
    assert command("export", "--store", store, "--what", "objects", "--out", out, "--snapshot", first).code == 0
    assert sorted(geopandas.read_parquet(out)["id"]) == list(range(900))


def test_a_boundary(store, tmp_path, command):
    """--clip keeps what lies inside."""
    boundary = tmp_path / "b.geojson"
    ring = [[-122.4, 37.7], [-122.3, 37.7], [-122.3, 37.9], [-122.4, 37.9], [-122.4, 37.7]]
    boundary.write_text(f'{{"type": "Polygon", "coordinates": [{ring}]}}')
    out = tmp_path / "cells.parquet"
    assert command("export", "--store", store, "--what", "cells", "--out", out, "--clip", boundary).code == 0
    found = geopandas.read_parquet(out)
    xmin, ymin, xmax, ymax = found.total_bounds
    assert (xmin, ymin, xmax, ymax) == pytest.approx((-122.4, 37.7, -122.3, 37.9), abs=1e-6)
    assert 500 < len(found) < 1700


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"--out": "cells.csv"}, "cells.csv ends in .csv"),
        ({"--store": "nowhere"}, "nowhere is not a store"),
        ({"--what": "roads"}, "roads"),
        ({"--snapshot": "gone"}, "'gone'"),
        ({"--clip": "no.geojson"}, "no.geojson"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_code_2(store, tmp_path, monkeypatch, command, changed, words):
    """What is wrong, on stderr; no file."""
    monkeypatch.chdir(tmp_path)
    options = {"--store": store, "--what": "cells", "--out": "cells.parquet"} | changed
    ran = command("export", *(text for pair in options.items() for text in pair))
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
    assert list(tmp_path.iterdir()) == []


def test_without_spark(store, tmp_path):
    """A server's machine has no pyspark."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from pipelines.command.main import main\n"
        f"main(['export', '--store', {store!r}, '--what', 'regions', '--out', {str(tmp_path / 'r.parquet')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.parquet").exists()
