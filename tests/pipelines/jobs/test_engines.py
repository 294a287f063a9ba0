"""Spark and this process do the same jobs: every byte of every file that a rebuild and a cycle commit is the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ceps
import dtoss
from dtoss.rows.input_columns import Columns
from pipelines.cycle import cycle
from pipelines.patterns import patterns
from pipelines.rebuild import rebuild
from pipelines.rows.access_rows import Asks, access_columns
from pipelines.rows.read_files import read_positions
from tests.pipelines.rows.reading import with_points
from tests.pipelines.stores import snapshot_bytes

RULES = {"partitions": 3, "seed": 1, "max_bad": 0.9}
AT = 1_700_000_000_000_000


def fleet(seed, many=400, text=False):
    """Rows of 150 objects, some of which cannot be used, with attributes of many types."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, 150, many)
    lon, lat = rng.uniform(-179, 179, many), rng.uniform(-89, 89, many)
    lon[::37], lat[5::41] = 200.0, np.nan
    t = AT + rng.integers(0, 10**8, many)
    return pa.table(
        {
            "id": [f"é {i}" for i in ids] if text else ids,
            "lon": lon,
            "lat": lat,
            "t": pa.array(t, pa.timestamp("us", "UTC")),
            "gone": pa.array((rng.integers(0, 30, many) == 0) | np.isin(np.arange(many), (37, 46))),
            "speed": pa.array(np.where(rng.integers(0, 9, many) == 0, np.nan, rng.normal(size=many)), from_pandas=True),
            "name": [None if i % 7 == 0 else f"car, {i}" for i in ids],
            "wheels": pa.array([None if i % 11 == 0 else [int(i), None] for i in ids], pa.list_(pa.int32())),
            "maker": pa.array([{"a": int(i), "b": "ü"} for i in ids]),
            "cost": pa.array([None] * many, pa.decimal128(9, 2)),
        }
    )


def flat(rows):
    return rows.drop_columns(["wheels", "maker", "cost"])


def as_parquet(rows, path):
    pq.write_table(rows, path, row_group_size=100)
    return path


def as_text(rows, path):
    """Delimited text, with rows that are none."""
    pa.csv.write_csv(flat(rows), path)
    text = path.read_text().splitlines()
    text[3], text[9:9] = text[3].replace('"', "", 1), ["1,2", "", "nobody,1,2,2023-11-14T22:13:20Z,false,fast,b"]
    path.write_text("\n".join(text) + "\n")
    return path


def as_json(rows, path):
    """JSON lines, with some that are none."""
    import json

    lines = [json.dumps(row, default=str) for row in flat(rows).to_pylist()]
    lines[4:4] = ["{", '{"id": [1]}', ""]
    path.write_text("\n".join(lines) + "\n")
    return path


KINDS = {
    "parquet": (as_parquet, "parquet", False, {}),
    "parquet, text ids": (as_parquet, "parquet", True, {}),
    "text": (as_text, "csv", False, {}),
    "text, text ids": (as_text, "csv", True, {"zone": "Europe/Berlin"}),
    "lines": (as_json, "jsonl", False, {}),
}


IN_TIERS = {"parquet": "parquet, text ids", "text, text ids": "text"}
"""Kinds in the deep tier, and from which of those in both each differs by one thing."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.deep(f"other ids than {IN_TIERS[kind]}") if kind in IN_TIERS else ())
        for kind in KINDS
    ],
)
def test_both_engines_commit_the_same_bytes(spark, tmp_path, kind):
    """A rebuild, a cycle of updates with deletions, one that renews all, and what each has set aside."""
    write, ends, text, said = KINDS[kind]
    columns = Columns(deleted="gone", **said)
    files = [write(fleet(seed, text=text), tmp_path / f"{seed}.{ends}") for seed in (1, 2, 3)]
    made = []
    for session in (spark, None):
        store = str(tmp_path / f"store of {session is None}")
        rows = [read_positions(session, [str(file)], columns) for file in files]
        first = read_positions(session, [str(files[0])], Columns(**said))
        rebuild(first, store, **RULES)
        done = [snapshot_bytes(store)]
        for updates, pivots in ((rows[1], "keep"), (rows[2], "balanced")):
            cycle(
                updates, store, deleted="gone", pivots=pivots, missing="null", now="2023-11-14T23:00:00Z", max_bad=0.9
            )
            done.append(snapshot_bytes(store))
        made.append(done)
    for one, other in zip(*made, strict=True):
        assert sorted(one) == sorted(other)
        for file in one:
            assert one[file] == other[file], file
    assert any(file.startswith("quarantine") for file in made[0][0])


TEXT = pytest.mark.deep("text is read as in test_both_engines_commit_the_same_bytes, by the same reader")


@pytest.mark.parametrize("kind", ["parquet", pytest.param("text", marks=TEXT), "lines"])
def test_patterns_of_accesses_are_the_same(spark, tmp_path, kind):
    """To the byte, and the rows that were set aside, by reason."""
    write, ends, _, said = KINDS[kind]
    store = tmp_path / "store"
    dtoss.build(fleet(1).select(["lon", "lat"]).to_pandas().query("lon < 180").dropna(), partitions=5).save(str(store))
    file = write(fleet(2), tmp_path / f"accesses.{ends}")
    asks = Asks(weight="speed", k="id", radius="lat", by_weekday=True, time_zone="America/St_Johns", slot_seconds=60)
    made = []
    for session in (spark, None):
        read = read_positions(session, [str(file)], access_columns(asks, **said))
        counted = patterns(read, str(store), asks, max_bad=1.0)
        ceps.write_patterns(tmp_path / "patterns", counted.patterns)
        made.append(((tmp_path / "patterns").read_bytes(), {**vars(counted), "patterns": None}))
    assert made[0] == made[1]
    assert len(made[0][1]["bad"]) > 3


def test_a_sample_is_the_same(spark, tmp_path):
    """Of more rows than pivots are chosen from."""
    rows = fleet(9, many=30_000).select(["id", "lon", "lat"])
    rows = as_parquet(rows.set_column(0, "id", pa.array(np.arange(30_000) * 7)), tmp_path / "many.parquet")
    made = []
    for session in (spark, None):
        store = str(tmp_path / f"{session is None}")
        rebuild(read_positions(session, [str(rows)], Columns()), store, partitions=2, seed=5, max_bad=0.9)
        made.append(snapshot_bytes(store))
    assert made[0] == made[1]


def test_points_of_a_file_that_states_its_crs(spark, tmp_path):
    with_points(tmp_path / "points.parquet", {"crs": None})
    made = []
    for session in (spark, None):
        read = read_positions(session, [str(tmp_path / "points.parquet")], Columns(crs="EPSG:32610"))
        rebuild(read, str(tmp_path / f"{session is None}"), crs="EPSG:32610", partitions=2)
        made.append(snapshot_bytes(tmp_path / f"{session is None}"))
    assert made[0] == made[1]
    assert len(dtoss.open(str(tmp_path / "True"))) == 3
