"""``dtoss knn`` and ``range`` with ``--queries``: as Spark, without what takes long to load, ended by signals."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from tests.dtoss.answering import answering
from tests.dtoss.snapshots.damaged_stores import stored

RUN = """
import sys
from pipelines.command.main import main
try:
    main(sys.argv[1:])
finally:
    print("\\nloaded", *sys.modules)
"""
START = "import sys; from pipelines.command.main import main; main(sys.argv[1:])"
LOST = "warning: of 63 queries, 2 without a position and 1 out of range have no hits\n"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A file of places as CSV, three of which can have no hits."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("places") / "q.csv"
    rows = [f"{i},{x},{y}" for i, (x, y) in enumerate(rng.uniform(-5, 5, (60, 2)).tolist())]
    path.write_text("\n".join(["who,east,north", *rows, "60,,1", "61,here,1", "62,1,91", ""]))
    return path


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A store without Spark."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("town") / "store"
    index = dtoss.build(np.arange(400), rng.uniform(-5, 5, (400, 2)), partitions=3, columns={"v": np.arange(400)})
    return str(stored(index, path, kinds={"v": "bigint"}))


NAMED = ("--id", "who", "--x", "east", "--y", "north")


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """A store of objects with texts as ids and attributes of several types."""
    rng = np.random.default_rng(1)
    positions = rng.uniform(-5, 5, (300, 2))
    day = pa.array(rng.integers(0, 10**15, 300), pa.timestamp("us", "UTC"))
    attributes = {"speed": rng.integers(0, 99, 300).astype(np.int16), "seen": day, "busy": rng.random(300) < 0.5}
    index = dtoss.build([f"o{i}" for i in range(300)], positions, partitions=3, columns=attributes)
    kinds = {"speed": "smallint", "seen": "timestamp", "busy": "boolean"}
    return stored(index, tmp_path_factory.mktemp("typed") / "store", kinds=kinds)


OTHER = pytest.mark.deep("the other question by the same two ways; tests/pipelines/jobs/test_in_process.py has both")


@pytest.mark.parametrize(
    "asked",
    [("knn", "-k", 5, "--how", "left"), pytest.param(("range", "--radius", 6e4), marks=OTHER)],
    ids=["knn", "range"],
)
def test_the_rows_are_those_of_spark(spark, tmp_path, command, places, typed, asked):
    """The same columns of the same types, the same rows, the same warning; the order is that of the file."""
    carried = ("--columns", "speed,seen,busy,lat", "--where", "speed > 10", "--having", "busy = true")
    outs = [tmp_path / "process.parquet", tmp_path / "spark.parquet"]
    errors = []
    for out, more in zip(outs, ((), ("--master", "local[2]")), strict=True):
        code, printed, err = command(
            *asked, "--store", typed, "--queries", places, "--out", out, *NAMED, *carried, *more
        )
        assert (code, printed) == (0, "")
        errors.append(err.replace(str(out), ""))
    assert errors[0] == errors[1]
    assert errors[0].endswith(LOST)
    ours, theirs = map(pq.read_table, outs)
    # Spark writes times as INT96, which say neither their unit nor UTC
    theirs = theirs.set_column(5, "seen", theirs["seen"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")))
    assert [(f.name, str(f.type).removeprefix("large_")) for f in ours.schema] == [
        (f.name, str(f.type)) for f in theirs.schema
    ]
    assert Counter(map(str, ours.to_pylist())) == Counter(map(str, theirs.to_pylist()))
    who = ours["query_id"].to_numpy()
    assert len(who) > 60
    assert (np.diff(who) >= 0).all()


@pytest.mark.parametrize("form", ["knn --how left --columns v --max-distance 1e5", "range --radius 5e4"])
def test_a_join_loads_what_it_needs(town, tmp_path, places, form):
    """Neither Spark nor pandas nor the parser of options, nor Arrow's datasets."""
    out = tmp_path / "o.parquet"
    run = [sys.executable, "-c", RUN, *form.split(), "--store", town, "--queries", str(places), "--out", str(out)]
    done = subprocess.run([*run, *NAMED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{pq.read_metadata(out).num_rows:,} rows in {out}\n{LOST}"
    loaded = set(done.stdout.rpartition("\nloaded ")[2].split())
    assert "pyarrow.csv" in loaded
    assert not loaded & {
        "pandas",
        "pydantic",
        "pyspark",
        "pyarrow.dataset",
        "sqlglot",
        "scipy.spatial",
        "rich",
        "pyproj",
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--id", "name"), "there is no column 'name' (--id NAME); the columns are who, east, north"),
        (("--id", "who"), "there is no column 'lon' (--x NAME); the columns are who, east, north"),
        ((*NAMED, "-k", "0"), "k is 0"),
        ((*NAMED, "--columns", "speed"), "speed"),
        ((*NAMED, "--snapshot", "none"), "no snapshot 'none'"),
        ((*NAMED, "--driver-memory", "1g"), "--driver-memory is for Spark: name --master too"),
        ((*NAMED, "--token-file", "f"), "--token-file is for a server"),
        ((*NAMED, "--out", "/proc/o.csv"), "--out /proc/o.csv cannot be written"),
    ],
)
def test_errors_are_one_line(town, tmp_path, places, command, more, words):
    """With exit code 2, and nothing is left."""
    out = tmp_path / "o.csv"
    assert words in command.fails("knn", "--store", town, "--queries", places, "--out", out, *more)
    assert not list(tmp_path.iterdir())


def test_a_server_is_asked_with_url(town, tmp_path, places, command):
    """The same file; what a server does not tell is said."""
    opened = dtoss.open(town)
    asked = ("--queries", places, "--columns", "v", "-k", 3, *NAMED)
    assert command("knn", "--store", town, "--out", tmp_path / "a.csv", *asked)[0] == 0
    with answering(opened, opened.snapshot) as served:
        there = command("knn", "--url", served.url, "--out", tmp_path / "b.csv", *asked)
        assert there == (0, "", f"180 rows in {tmp_path / 'b.csv'}\n{LOST}")
        assert len(served.heard.accesses) > 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    for more in (("--having", "v > 1"), ("--verify", "all"), ("--master", "local[1]"), ("--store", town)):
        command.fails("knn", "--url", served.url, "--out", tmp_path / "c.csv", *asked, *more)
    assert not (tmp_path / "c.csv").exists()


def begun(path):
    """Whether something stands in a file; one that only tried whether it can be written has gone again."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


TERM = pytest.mark.deep("SIGINT is in make test; both come to one handler")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=TERM)])
def test_a_signal_leaves_no_file(town, tmp_path, number):
    """One line; what was there before stays."""
    rows = 400_000
    table = pa.table({"id": np.arange(rows), "lon": np.zeros(rows), "lat": np.linspace(-5, 5, rows)})
    pq.write_table(table, tmp_path / "q.parquet")
    out = tmp_path / "o.csv"
    out.write_text("before")
    asked = ["knn", "--store", town, "--queries", tmp_path / "q.parquet", "--out", out, "-k", "400"]
    run = subprocess.Popen([sys.executable, "-c", START, *map(str, asked)], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not any(map(begun, tmp_path.glob(".o.csv*"))):
        assert run.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    run.send_signal(number)
    assert run.communicate(timeout=60)[1] == "error: interrupted\n"
    assert run.returncode == 1
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "q.parquet"]
