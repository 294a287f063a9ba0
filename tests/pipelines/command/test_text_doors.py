"""The same 40 lines at each door that reads text: as many rows, the same bad ones, the same values.

The lines are made as GeoNames writes its own: quotes are text. Without an option a quote that opens a value takes 13
lines, and one stands before other text.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from datasets.tables.fields import Layout, read_fields
from datasets.tables.standard_rows import add_up
from pipelines.local_joins.file_join import read_places
from tests.pipelines.rows.reading import read_rows
from tests.pipelines.stores import made

LINES = Path(__file__).parents[2] / "samples" / "geonames.txt"
FIRST = 9_000_000
SWALLOWED, BEHIND = range(5, 18), 23
GOOD = [FIRST + i for i in range(40) if i not in (*SWALLOWED, BEHIND)]
ALL = [FIRST + i for i in range(40)]
NAMES = {"id": "c1", "x": "c6", "y": "c5"}
WRITTEN = {"delimiter": "tab", "header": False}
OPTIONS = ("--no-header", "--delimiter", "tab", "--id", "c1", "--x", "c6", "--y", "c5")
PLAIN = (*OPTIONS, "--quote", "none")
BAD = "14 of 40 rows are bad (13 line end inside quotes; 1 text behind a closing quote)"


@pytest.fixture(scope="module")
def arriving(tmp_path_factory):
    """The lines in a folder, written long ago."""
    folder = tmp_path_factory.mktemp("doors") / "in"
    folder.mkdir()
    shutil.copy(LINES, folder / "a.txt")
    os.utime(folder / "a.txt", (1, 1))
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with one object."""
    path = tmp_path_factory.mktemp("doors") / "store"
    return made(pa.table({"id": [7], "lon": [-2.08], "lat": [51.8]}), path, partitions=1)


def test_in_this_process():
    """Places of --queries: bad lines are nobody, and nowhere."""
    for quote, wanted in (('"', GOOD), ("none", ALL)):
        read = read_places(str(LINES), **NAMES, rows=WRITTEN | {"quote": quote})
        rows = [row for batch in read.batches() for row in batch.to_pylist()]
        assert len(rows) == 40
        assert [row["query_id"] for row in rows if row["x"] is not None] == wanted
        assert {row["query_id"] for row in rows if row["x"] is None} <= {None}


def test_raw_formats():
    """Their fields, and what is counted."""
    names = tuple(f"c{i + 1}" for i in range(19))
    for quote, wanted in (('"', GOOD), (None, ALL)):
        parts = list(read_fields(LINES, Layout(names, "\t", quote), ("c1", "c2")))
        counts = add_up(one for _, one in parts)
        found = {row["c1"]: row["c2"] for batch, _ in parts for row in batch.to_pylist()}
        assert list(found) == [str(i) for i in wanted]
        assert found["9000036"] == ("Sokol" if quote else '"Sokol"')
        assert sum(counts.dropped.values()) == 40 - len(wanted)


def test_in_tasks(spark):
    """Rows of a rebuild, and of whatever reads files in Spark."""
    for quote, wanted in (('"', GOOD), ("none", ALL)):
        rows = read_rows(spark, LINES, **NAMES, **WRITTEN, quote=quote)
        assert sorted(rows.by_id) == wanted
        assert rows.by_id[9_000_036]["c2"] == ('"Sokol"' if quote == "none" else "Sokol")
        assert len(rows.bad) == 40 - len(wanted)
        lines = LINES.read_text().splitlines()
        assert [row["_corrupt_record"] for _, row in rows.bad] == [
            lines[i] for i in range(40) if FIRST + i not in wanted
        ]


def test_a_rebuild(command, tmp_path):
    """Without an option more lines are bad than may be; with it all of them are objects."""
    store = tmp_path / "store"
    assert BAD in command.fails("rebuild", LINES, *OPTIONS, "--columns", "c2,c4", "--store", store)
    facts = command.works("rebuild", LINES, *PLAIN, "--columns", "c2,c4", "--store", store, "--json").json
    assert (facts["counts"]["read"], facts["counts"]["kept"]) == (40, 40)
    assert dtoss.open(str(store))[9_000_036]["c2"] == '"Sokol"'


@pytest.mark.parametrize("where", [(), pytest.param(("--master", "local[2]"), id="in Spark")])
def test_a_file_of_places(spark, command, store, tmp_path, where):
    """Which have a hit each, and which are bad has none."""
    for options, wanted in ((OPTIONS, GOOD), (PLAIN, ALL)):
        out = tmp_path / "out.parquet"
        asked = ("-k", "1", "--queries", LINES, "--out", out, "--store", store, *where)
        ran = command.works("knn", *asked, *options)
        assert sorted(pq.read_table(out)["query_id"].to_pylist()) == wanted
        assert ("of 40 queries, 14 " in ran.err) is (wanted is GOOD)


def test_options_of_text_want_a_file(command, store):
    """They say nothing of one place."""
    said = command.fails("knn", "--at", "1", "2", "--quote", "none", "--store", store)
    assert said == "--quote is for text in files: --queries FILE is wanted"


DEEP = pytest.mark.deep("each begins Spark's tasks anew; the rows that all of them read are those of test_in_tasks")
ONCE = ("--time", "c19", "--once")
DOORS = {
    "history append": lambda at: ("history", "append", LINES, "--history", at.new, "--time", "c19"),
    "watch": lambda at: ("watch", at.arriving, "--store", at.store, *ONCE),
    "windows run": lambda at: (
        "windows", "run", at.arriving, "--store", at.store, "--name", "w", *ONCE, "--lengths", "1d", "--slide", "1d",
        "--by", f"sites:{at.sites}", "--measures", "rows", "--witnesses", "1",
    ),
    "run": lambda at: (
        "run", "--updates", at.arriving, "--store", at.new, "--cycles", "1", "--partitions", "1", "--time", "c19",
    ),
    "patterns": lambda at: (
        "patterns", LINES, "--store", at.store, "--out", at.new.with_suffix(".parquet"), "--time", "c19",
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", [pytest.param(door, marks=() if door == "watch" else DEEP) for door in DOORS])
def test_doors_of_commands(command, arriving, tmp_path, door):
    """Each has the bad lines of a rebuild, and with the option all lines."""
    (tmp_path / "sites.csv").write_text("id,lon,lat\n1,-1.5,51\n")
    (tmp_path / "asked.jsonl").write_text('{"id":"a","lon":-2,"lat":51,"radius":1000000}\n')
    store = made(pa.table({"id": [7], "lon": [-2.08], "lat": [51.8]}), tmp_path / "store", partitions=1)
    at = SimpleNamespace(store=store, arriving=arriving, new=tmp_path / "new", sites=tmp_path / "sites.csv")
    if door == "watch":
        command.works("subscribe", tmp_path / "asked.jsonl", "--store", store)
    words, options = DOORS[door](at), OPTIONS if door != "patterns" else OPTIONS[:3] + OPTIONS[5:]
    said = command.fails(*words, *options)
    assert said.startswith("14 of 40 ")
    assert re.search("13 line end inside quotes[,;] 1 text behind a closing quote", said)
    ran = command.works(*words, *options, "--quote", "none", "--json")
    assert re.search(r'"(rows|read|appended)": 40\b', ran.out), ran.out
