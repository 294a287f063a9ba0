"""A file that cannot be read as the others are, in cycles and in windows: refused by name, the others count."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dtoss.errors import InputError
from dtoss.snapshots.store import Store
from dtoss.windows.storage.window_document import Home, head_of
from pipelines.loop.arriving_batches import Sources
from pipelines.loop.disposal import Disposal
from pipelines.loop.exposition import Metrics
from pipelines.ticks.run import Ran
from pipelines.windowing.backfill_run import rebuild_windows
from pipelines.windowing.begin_windows import Which, read_asked
from pipelines.windowing.running_sets import How
from tests.pipelines.history_tasks.test_appending import rows_in
from tests.pipelines.loops import looped
from tests.pipelines.stores import objects_of
from tests.pipelines.windowing.counted_files import run_windows

BEGIN = 1_700_000_000
OLD = 1_600_000_000


@pytest.fixture
def place(session, tmp_path, monkeypatch):
    """Functions that write a file of rows and make a beat, and what was told."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "updates").mkdir()
    (tmp_path / "shops.csv").write_text("id,lon,lat\n0,8.1,50.1\n1,8.3,50.1\n")
    (tmp_path / "shops.toml").write_text('name = "shops"\nlengths = "20s"\nslide = "10s"\nby = "sites:shops.csv"\n')
    told = []

    def put(name, ids, second=0, **columns):
        count = len(ids)
        rows = {"id": ids, "lon": [8.2] * count, "lat": [50.0] * count, "t": [BEGIN + second] * count, "v": [1] * count}
        path = tmp_path / "updates" / f"{name}.parquet"
        pq.write_table(pa.table(rows | columns), path)
        os.utime(path, (OLD, OLD))
        return path

    def beat(**options):
        wanted = {"every": 0.01, "cycles": 1, "columns": {"time": "t"}, "max_ahead": None, "first": {"partitions": 2}}
        return looped("updates", "s", lambda: session, warn=told.append, **wanted | options)

    return put, beat, told


def refused(store="s"):
    return set(Store(store).manifest()["ledger"].get("refused", {}))


def test_odd_files_are_refused_by_store_history_and_windows(place, tmp_path):
    """Other ids, another type of a column, a column that is lacking, no Parquet: one cycle of the others, counted."""
    pytest.importorskip("prometheus_client")
    put, beat, told = place
    options = {"history": "h", "windows": [read_asked("shops.toml")]}
    put("a", [1, 2])
    assert beat(**options) == Ran(cycles=1)
    odd = [
        put("b", ["x", "y"], 5),
        put("c", [3, 4], 5, v=["p", "q"]),
        put("d", [5], 5),
        tmp_path / "updates" / "e.parquet",
    ]
    pq.write_table(pq.read_table(odd[2]).drop_columns(["v"]), odd[2])
    odd[3].write_bytes(b"no Parquet at all")
    for path in odd[2:]:
        os.utime(path, (OLD, OLD))
    put("good", [1, 6], 5)
    metrics = Metrics(file=str(tmp_path / "m.prom"))
    assert beat(**options, metrics=metrics, disposal=Disposal(None), keep=1) == Ran(cycles=1)
    assert set(objects_of("s")) == {1, 2, 6}
    assert refused() == {str(path) for path in odd}
    assert sorted({one[0] for one in rows_in("h")}) == [1, 2, 6]
    assert set(head_of(Home("s", "shops")).ledger.refused) == {str(path) for path in odd}
    assert head_of(Home("s", "shops")).commit.document["totals"]["rows"] == 4
    assert "dtoss_files_refused_total 4.0\n" in (tmp_path / "m.prom").read_text()
    for path in odd:
        assert path.exists(), "what nobody has read is not removed"
        assert [line for line in told if line.startswith(f"{path}: refused, none of its rows counts: ")]
    assert beat(**options) == Ran(skipped=1)
    put("b", [7], 6)
    os.utime(odd[0], (OLD + 9, OLD + 9))
    assert beat(**options) == Ran(cycles=1)
    assert 7 in objects_of("s")
    assert refused() == {str(path) for path in odd[1:]}


def test_an_odd_file_alone_and_files_of_two_kinds(place, tmp_path):
    """A cycle without rows refuses it; of columns that are new the files are two cycles of one beat."""
    put, beat, _ = place
    put("a", [1, 2])
    beat()
    odd = put("b", ["x", "y"], 5)
    with pytest.raises(InputError, match="ids of the updates are string"):
        beat(on_odd_file="fail")
    assert beat() == Ran(cycles=1)
    assert refused() == {str(odd)}
    put("c", [3], 6, w=[1])
    put("d", [4], 6, w=["text"])
    assert beat() == Ran(cycles=1)
    assert set(objects_of("s")) == {1, 2, 3}
    assert refused() == {str(odd), str(tmp_path / "updates" / "d.parquet")}


def test_a_file_that_is_overwritten_with_as_many_bytes_counts(place):
    put, beat, _ = place
    path = put("latest", [1])
    beat()
    size = path.stat().st_size
    put("latest", [1], 5, lon=[8.3])
    assert path.stat().st_size == size
    assert beat() == Ran(skipped=1), "as old as it was: nothing says that it is another one"
    os.utime(path, (OLD + 1, OLD + 1))
    assert beat() == Ran(cycles=1)
    assert objects_of("s")[1][0] == 8.3


def test_a_file_that_was_only_touched_counts_once(place, tmp_path):
    """In windows its rows would be late by now, and more of them bad than are borne."""
    put, beat, told = place
    options = {"windows": [read_asked("shops.toml")]}
    first = put("a", [1, 2, 3])
    beat(**options)
    put("b", [1, 2, 3], 40_000)
    beat(**options)
    os.utime(first, (OLD + 9, OLD + 9))
    assert beat(**options) == Ran(skipped=1)
    run_windows("updates", "s", "shops", lambda: pytest.fail("Spark"), once=True, warn=told.append)
    assert head_of(Home("s", "shops")).commit.document["totals"]["rows"] == 6
    assert told == []


def test_windows_refuse_odd_files_and_count_anew_without_them(place, session, tmp_path):
    put, _, told = place

    def counted(**options):
        asked = {"lengths": "20s", "slide": "10s", "by": "sites:shops.csv", "measures": "rows"}
        return run_windows("updates", "s", "w", lambda: session, asked, once=True, warn=told.append, **options).counts

    for number in range(4):
        put(f"a{number}", [1, 2, 3], 10 * number)
    assert counted()["rows"] == 12
    odd = put("odd", ["x", "y"], 40)
    put("good", [1, 2, 3], 40)
    assert counted()["rows"] == 3
    assert set(head_of(Home("s", "w")).ledger.refused) == {str(odd)}
    assert counted() == {}
    which, span = Which(Home(Store("s").absolute.path, "w"), None, None), ((BEGIN - 5) * 10**6, (BEGIN + 25) * 10**6)
    done = rebuild_windows(which, Sources("updates"), How(warn=print), lambda: session, span)
    assert done.counts["rows"] > 0
    put("alone", ["z"], 50)
    with pytest.raises(InputError, match="column 'id' is string, and the ids of windows w are int64"):
        counted(on_odd_file="fail")
    counted()
    assert set(head_of(Home("s", "w")).ledger.refused) == {str(odd), str(tmp_path / "updates" / "alone.parquet")}


def test_no_update_is_to_blame_where_there_is_no_spark(place, tmp_path):
    put, beat, _ = place
    put("a", [1])
    beat()
    put("b", [2])

    def sessions():
        raise InputError("this needs Spark")

    with pytest.raises(InputError, match="this needs Spark"):
        looped("updates", "s", sessions, cycles=1, columns={"time": "t"}, warn=pytest.fail)
    assert beat() == Ran(cycles=1)
    assert refused() == set()
