"""Where pyspark is not installed, everything works that is no Spark job, and jobs say what is missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from pipelines.local_joins.file_join import read_places
from pipelines.rows.write_file import open_writer
from tests.dtoss.snapshots.damaged_stores import stored
from tests.pipelines.command.processes import commands_without

MISSING = ("pyspark", "py4j", "pandas")
FORMATS = (".parquet", ".csv", ".jsonl")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of two snapshots, and how far its objects are from the place that is asked about."""
    positions = np.random.default_rng(14).uniform(-5, 5, (300, 2))
    path = tmp_path_factory.mktemp("bare") / "store"
    for partitions in (3, 2):
        stored(dtoss.build(np.arange(300), positions, partitions=partitions), path)
    return path, distance(space_of().vectors(positions), space_of().vectors(np.array([[1.0, 2.0]]))[0])


def test_help_and_queries_run(store):
    """--help, info, knn, range and rollback."""
    path, far = store
    info = ("info", "--store", path, "--json")
    ran = commands_without(
        MISSING, ("--help",), info, ("knn", "--store", path, "--at", 1, 2, "-k", 4),
        ("range", "--store", path, "--at", 1, 2, "--radius", 2e5), ("rollback", "--store", path), info,
    )  # fmt: skip
    assert [(one.code, one.err) for one in ran] == [(0, "")] * len(ran)
    helped, before, nearest, within, _, after = ran
    assert "rebuild" in helped.out
    assert before.json["objects"] == 300
    order = np.lexsort((np.arange(300), far))
    assert nearest.out.splitlines()[1:] == [
        f"0,{i},{far[i].item()},{rank}" for rank, i in enumerate(order[:4].tolist(), 1)
    ]
    assert len(within.out.splitlines()) == 1 + (far <= 2e5).sum()
    assert (before.json["partitions"], after.json["partitions"]) == (2, 3)


def test_jobs_say_what_is_missing(store, tmp_path):
    """One line with the way out."""
    path, _ = store
    places = tmp_path / "a.csv"
    places.write_text("id,lon,lat\n1,2,3\n")
    asked = ("knn", "--store", path, "--queries", places, "--out", tmp_path / "o.csv", "--master", "local[1]")
    built = ("rebuild", places, "--store", tmp_path / "new", "--engine", "spark")
    ran = commands_without(MISSING, built, asked)
    assert ran == [(2, "", "error: this needs Spark: pip install 'dtoss[spark]'\n")] * 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]


def test_places_in_files_are_joined(store, tmp_path):
    """From any format to any other."""
    path, far = store
    table = pa.table({"id": ["a", "b"], "lon": [1.0, None], "lat": [2.0, 2.0]})
    for given in FORMATS:
        with open_writer(str(tmp_path / f"q{given}"), table.schema) as write:
            write(table.to_batches()[0])
    before = {file.name for file in tmp_path.iterdir()}
    pairs = {(given, suffix): tmp_path / f"from{given}{suffix}" for given in FORMATS for suffix in FORMATS}
    asked = ("knn", "--store", path, "-k", 3, "--how", "left")
    ran = commands_without(
        MISSING, *((*asked, "--queries", tmp_path / f"q{given}", "--out", out) for (given, _), out in pairs.items())
    )
    nearest = np.lexsort((np.arange(300), far))[:3].tolist()
    wanted = [("a", float(i), far[i].item()) for i in nearest] + [("b", None, None)]
    for (pair, out), one in zip(pairs.items(), ran, strict=True):
        assert (one.code, one.out) == (0, ""), pair
        rows = read_places(str(out), id="query_id", x="id", y="distance")
        assert [tuple(row.values()) for batch in rows.batches() for row in batch.to_pylist()] == wanted, pair
    assert {file.name for file in tmp_path.iterdir()} - before == {out.name for out in pairs.values()}
