"""Where pyspark is not installed, everything works that is no Spark job, and jobs say what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from pipelines.files.places import read_places
from pipelines.rows.write_file import written
from tests.pipelines.stores import rebuilt

ROOT = Path(__file__).parents[3]
BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from pipelines.command.main import main
main(sys.argv[1:])
"""


def command(*arguments, code=0, said=""):
    """stdout of the command in a process that has no pyspark."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert said is None or (done.stderr == "") == (code == 0), done.stderr
    return done.stdout or done.stderr


@pytest.fixture(scope="module")
def store(spark, tmp_path_factory):
    rng = np.random.default_rng(14)
    path = tmp_path_factory.mktemp("bare") / "store"
    table = pa.table({"id": np.arange(300), "lon": rng.uniform(-5, 5, 300), "lat": rng.uniform(-5, 5, 300)})
    rebuilt(spark, table, path, partitions=3)
    rebuilt(spark, table, path, partitions=2)
    vectors = space_of().vectors(np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1))
    return path, distance(vectors, space_of().vectors(np.array([[1.0, 2.0]]))[0])


def test_help_and_queries_run(store):
    """--help, info, knn, range and rollback."""
    path, far = store
    assert "rebuild" in command("--help")
    assert json.loads(command("info", "--store", path, "--json"))["objects"] == 300
    order = np.lexsort((np.arange(300), far))
    lines = command("knn", "--store", path, "--at", 1, 2, "-k", 4).splitlines()[1:]
    assert lines == [f"0,{i},{far[i].item()},{rank}" for rank, i in enumerate(order[:4].tolist(), 1)]
    lines = command("range", "--store", path, "--at", 1, 2, "--radius", 2e5).splitlines()[1:]
    assert len(lines) == (far <= 2e5).sum()
    command("rollback", "--store", path)
    assert json.loads(command("info", "--store", path, "--json"))["partitions"] == 3


def test_jobs_say_what_is_missing(store, tmp_path):
    """One line with the way out."""
    path, _ = store
    wanted = "error: this needs Spark: pip install 'dtoss[spark]'\n"
    places = tmp_path / "a.csv"
    places.write_text("id,lon,lat\n1,2,3\n")
    assert command("rebuild", places, "--store", tmp_path / "new", code=2) == wanted
    assert not (tmp_path / "new").exists()
    asked = ("knn", "--store", path, "--queries", places, "--out", tmp_path / "o.csv", "--master", "local[1]")
    assert command(*asked, code=2) == wanted


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
@pytest.mark.parametrize("given", [".parquet", ".csv", ".jsonl"])
def test_places_in_a_file_are_joined(store, tmp_path, given, suffix):
    """From any format to any other."""
    path, far = store
    table = pa.table({"id": ["a", "b"], "lon": [1.0, None], "lat": [2.0, 2.0]})
    places, out = tmp_path / f"q{given}", tmp_path / f"o{suffix}"
    with written(str(places), table.schema) as write:
        write(table.to_batches()[0])
    command("knn", "--store", path, "--queries", places, "--out", out, "-k", 3, "--how", "left", said=None)
    nearest = np.lexsort((np.arange(300), far))[:3].tolist()
    wanted = [("a", i, far[i].item(), rank) for rank, i in enumerate(nearest, 1)] + [("b", None, None, None)]
    rows = read_places(str(out), id="query_id", x="id", y="distance")
    assert [tuple(row.values()) for batch in rows.batches() for row in batch.to_pylist()] == [
        (name, None if i is None else float(i), distance) for name, i, distance, _ in wanted
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([places.name, out.name])
