"""``dtoss export``: from a store to a file, without Spark."""

import subprocess
import sys

import geopandas
import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.distance import EARTH_RADIUS
from pipelines.command.main import main
from pipelines.rebuild import rebuild


@pytest.fixture(scope="module")
def store(spark, tmp_path_factory):
    """A store of two snapshots of 2,000 taxis, the second in four partitions."""
    path = str(tmp_path_factory.mktemp("export") / "store")
    rng = np.random.default_rng(81)
    lon, lat = rng.normal(-122.4, 0.02, 2000).round(4), rng.normal(37.77, 0.02, 2000).round(4)
    table = pa.table({"id": np.arange(2000), "lon": lon, "lat": lat, "speed": rng.uniform(0, 30, 2000)})
    rebuild(spark.createDataFrame(table.slice(0, 900)), path, partitions=1)
    rebuild(spark.createDataFrame(table), path, partitions=4)
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["export", *arguments])
    return ended.value.code


def test_cells_objects_and_regions_of_a_store(store, tmp_path, capsys):
    """Rows and areas are the manifest's; the message goes to stderr."""
    index = dtoss.open(store)
    for what, rows in (("cells", index.sites), ("objects", 2000), ("regions", 4)):
        out = tmp_path / f"{what}.parquet"
        assert run("--store", store, "--what", what, "--out", str(out)) == 0
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err == f"{rows:,} {what} in {out}\n"
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


def test_another_snapshot(store, tmp_path):
    """--snapshot names the one to read."""
    from dtoss.snapshots.store import Store

    first = Store(store).snapshots()[0]
    out = tmp_path / "objects.parquet"
    assert run("--store", store, "--what", "objects", "--out", str(out), "--snapshot", first) == 0
    assert sorted(geopandas.read_parquet(out)["id"]) == list(range(900))


def test_a_boundary(store, tmp_path):
    """--clip keeps what lies inside."""
    boundary = tmp_path / "b.geojson"
    ring = [[-122.4, 37.7], [-122.3, 37.7], [-122.3, 37.9], [-122.4, 37.9], [-122.4, 37.7]]
    boundary.write_text(f'{{"type": "Polygon", "coordinates": [{ring}]}}')
    out = tmp_path / "cells.parquet"
    assert run("--store", store, "--what", "cells", "--out", str(out), "--clip", str(boundary)) == 0
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
def test_wrong_arguments_are_one_line_and_exit_code_2(store, tmp_path, monkeypatch, capsys, changed, words):
    """What is wrong, on stderr; no file."""
    monkeypatch.chdir(tmp_path)
    options = {"--store": store, "--what": "cells", "--out": "cells.parquet"} | changed
    assert run(*(text for pair in options.items() for text in pair)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_spark(store, tmp_path):
    """A server's machine has no pyspark."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from pipelines.command.main import main\n"
        f"main(['export', '--store', {store!r}, '--what', 'regions', '--out', {str(tmp_path / 'r.parquet')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.parquet").exists()
