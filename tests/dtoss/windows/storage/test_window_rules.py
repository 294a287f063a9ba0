"""What is refused, and how it is said in a line: other specs, other writers, damage, what is not due or not kept."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dtoss
from dtoss.commits.chain import Conflict
from dtoss.commits.file_entry import HASHED_BYTES, FileEntry, write_entry
from dtoss.commits.offsets import Source
from dtoss.commits.table import remove_orphans
from dtoss.errors import InputError, StoreError
from dtoss.locks import Recent
from dtoss.windows.processing.windows_tables import table_of, verify_windows
from dtoss.windows.query.open_files import ResultFile
from dtoss.windows.storage.keys_file import of_sites, read_keys, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home, head_of
from dtoss.windows.storage.window_plan import Options, plan_batch
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import FAR_FUTURE, SECOND, SITES, begin, check, commit, made, rows_of, spec
from tests.dtoss.windows.window_batch import run_batch
from tests.refusals import REFUSAL, unopenable

ROWS = [(1, 3 * SECOND, 0.0, 0.0), (2, 9 * SECOND, 9.0, 1.0), (1, 12 * SECOND, 9.0, 0.0)]


def refused(kind, call, *arguments, **options):
    """The line of an error."""
    with pytest.raises(kind) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_name_stands_for_one_spec(tmp_path):
    """Once something was committed; another one is refused with the difference, other pivots with the reason."""
    home, fixed = begin(tmp_path)
    other = FixedSpec(spec("4s,20s", late="3s"), fixed.keys)
    fix(home, other)
    fix(home, fixed)
    commit(home, fixed, ROWS)
    fix(home, fixed)
    said = refused(InputError, fix, home, other)
    assert "--lengths is 4s,10s and 4s,20s is asked for; --late is 5s and 3s is asked for" in said
    assert "another name (--name NAME)" in said
    elsewhere = spec(sites=SITES + 1.0)
    assert "the digest of the keys" in refused(
        InputError, fix, home, FixedSpec(elsewhere, write_keys(home, of_sites(SITES)))
    )


def test_a_batch_that_was_committed_is_skipped_and_gaps_are_refused(tmp_path):
    """Batches of a query count once; one that does not go on from the commits is refused with the way out."""
    home, fixed = begin(tmp_path)
    assert "has no batch before it" in refused(InputError, commit, home, fixed, ROWS, Source(query="q", batch=3))
    commit(home, fixed, ROWS, Source(query="q", batch=0))
    assert commit(home, fixed, ROWS, Source(query="q", batch=0)) is None
    assert "would be lost" in refused(InputError, commit, home, fixed, ROWS, Source(query="q", batch=2))
    assert "--new-source" in refused(InputError, commit, home, fixed, ROWS, Source(query="r", batch=0))
    assert commit(home, fixed, ROWS, Source(query="r", batch=0), new_source=True).number == 2
    assert head_of(home).totals["losers"] == 3
    check(home, ROWS)


def test_of_two_writers_one_commits(tmp_path):
    """The other has lost, and nothing of its batch counts."""
    home, fixed = begin(tmp_path)
    plans = [plan_batch(home, fixed, ("int64", "double"), Source(), Options(), FAR_FUTURE, tasks) for tasks in (1, 2)]
    run_batch(plans[0], rows_of(ROWS))
    assert "version 1 was committed by" in refused(Conflict, run_batch, plans[1], rows_of(ROWS[:1]))
    assert head_of(home).totals["rows"] == 3


def test_rows_that_are_late_or_ahead_or_too_many_are_set_aside(tmp_path):
    """Each with its reason; more than are borne, and nothing counts."""
    home, fixed = begin(tmp_path)
    commit(home, fixed, ROWS, now_us=12 * SECOND)
    mark = head_of(home).watermark
    late, ahead = (5, mark - 5 * SECOND - 1, 0.0, 0.0), (6, 12 * SECOND + 300 * SECOND + 1, 0.0, 0.0)
    edge = [(7, mark - 5 * SECOND, 0.0, 0.0), (8, 312 * SECOND, 0.0, 0.0)]
    said = refused(InputError, commit, home, fixed, [late, ahead, *edge], now_us=12 * SECOND, max_bad=0.4)
    assert "2 of 4 rows are bad (1 later than --late, 1 time in the future)" in said
    assert head_of(home).number == 1
    document = commit(home, fixed, [late, ahead, *edge], now_us=12 * SECOND).document
    assert document["reasons"] == {"later than --late": 1, "time in the future": 1}
    assert document["counts"]["counted"] == 2
    found = dtoss.open_windows(home.store, home.name)
    assert found.counts["rows"] == 7
    assert found.reasons == document["reasons"]


def test_types_of_ids_and_times_stay(tmp_path):
    """Ids of text after numbers are another kind of rows."""
    home, fixed = begin(tmp_path)
    commit(home, fixed, ROWS)
    said = refused(InputError, commit, home, fixed, [("a", *ROWS[0][1:])])
    assert "have ids of type int64, these rows have string" in said


@pytest.mark.parametrize("ids", [[10, 20, 30], ["taxi", "bus", ""]])
def test_ids_are_numbers_or_texts(tmp_path, ids):
    """Both give the oracle's answers."""
    home, fixed = begin(tmp_path)
    batches = [[(ids[row[0] % 3], *row[1:]) for row in batch] for batch in made(9, batches=3)]
    for batch in batches:
        commit(home, fixed, batch, tasks=2)
    assert check(home, list(replayed(fixed.spec, batches))[-1][0]) > 20


def test_a_byte_that_changes_is_named(tmp_path):
    """In any file that commits list; verification ends with the number of them."""
    home, fixed = begin(tmp_path)
    for batch in made(3, batches=3):
        commit(home, fixed, batch, tasks=2)
    commit(home, fixed, [(1, 0, 0.0, 0.0)])
    assert verify_windows(home).damaged == []
    head = head_of(home)
    assert verify_windows(home).held["results"] == head.totals["results"]
    rng = np.random.default_rng(0)
    names = {room: head.files[room][0].file.name for room in ("objects", "panes", "quarantine")}
    for room in ("keys", "results", "commits"):
        names[room] = home.folder.files(room)[-1]
    for room, name in names.items():
        path = tmp_path / "windows" / "w" / room / name
        whole = path.read_bytes()
        at = int(rng.integers(len(whole)))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        damaged = verify_windows(home).damaged
        assert damaged, room
        assert name in damaged[0], room
        if room in ("objects", "panes", "keys"):
            read_keys.cache_clear()
            assert name in refused(StoreError, commit, home, fixed, ROWS)
        path.unlink()
        assert any("missing" in line and name in line for line in verify_windows(home).damaged)
        path.write_bytes(whole)
    assert verify_windows(home).damaged == []


def test_results_that_are_held_hold_no_descriptor(tmp_path):
    """A file too large to hold is opened for each read; if it is refused then, that is not called damage."""
    home, _ = begin(tmp_path)
    rows = pa.table({"end": np.arange(600_000), "key": np.random.default_rng(0).integers(0, 1 << 62, 600_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=200_000, use_dictionary=False, compression="none")
    file = FileEntry.of(write_entry(home.folder, sink.getvalue(), len(rows), "parquet", "results"))
    assert file.bytes > HASHED_BYTES
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    found = ResultFile.opened(home, file, Recent(0))
    (some,) = found.between(7, 9, rows.column_names, None)
    assert (some.equals(rows.slice(7, 3)), found.bytes < file.bytes) == (True, True)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    with unopenable(Path(home.folder.path("results", file.name))):
        for ask in (lambda: list(found.between(7, 9, ["key"], None)), lambda: ResultFile.opened(home, file, Recent(0))):
            with pytest.raises(OSError, match=REFUSAL):
                ask()


def test_what_nothing_names_goes_and_what_is_young_stays(tmp_path):
    """State of commits before, and what a batch that ended early has left."""
    home, fixed = begin(tmp_path)
    for batch in made(4, batches=3):
        commit(home, fixed, batch, tasks=2)
    (tmp_path / "windows" / "w" / "results" / "left.parquet").write_bytes(b"left")
    there = {room: len(home.folder.files(room)) for room in ("objects", "panes", "results")}
    assert remove_orphans(table_of(home)).files == 0
    assert there["objects"] > 2
    assert remove_orphans(table_of(home), 0.0).files > 4
    assert set(home.folder.files("panes")) == {part.file.name for part in head_of(home).files["panes"]}
    assert len(home.folder.files("results")) == there["results"] - 1
    assert verify_windows(home).damaged == []


def test_what_is_asked_wrongly_is_said_in_a_line(tmp_path):
    """No such windows, not begun, not due, between two ends, no length of these, no flow."""
    store = str(tmp_path)
    assert "there are no windows 'w'" in refused(StoreError, dtoss.open_windows, store, "w")
    home, fixed = begin(tmp_path, spec(measures="rows,objects"))
    assert "have not begun" in refused(StoreError, dtoss.open_windows, store, "w")
    assert "the store has w" in refused(StoreError, dtoss.open_windows, store, "fleet")
    assert "cannot be a name" in refused(InputError, Home, store, "a/b")
    commit(home, fixed, ROWS)
    found = dtoss.open_windows(store, "w")
    mark = found.watermark // SECOND
    assert mark == 8
    assert "1970-01-01T00:00:20Z is not due: the watermark is 1970-01-01T00:00:08Z" in refused(
        InputError, found.at, 20, "4s"
    )
    assert "the nearest are 1970-01-01T00:00:02Z and 1970-01-01T00:00:04Z" in refused(InputError, found.at, 3, "4s")
    assert "the nearest are 4s and 6s" in refused(InputError, found.at, None, "5s")
    assert "the nearest are 10s" in refused(InputError, found.at, None, "1h")
    assert "was not declared" in refused(InputError, found.at, 4, "6s")
    assert "a number and a unit are wanted" in refused(InputError, found.at, None, "5 minutes")
    assert "have no flow: their measures are rows, objects" in refused(InputError, found.flow)
    assert "end is 'soon'" in refused(InputError, found.at, "soon", "4s")
    assert "at most 1,000,000 are returned" in refused(InputError, found.series, 0, "4s", -3_000_000)


def test_commits_of_other_versions_are_refused_with_the_way_out(tmp_path):
    """An earlier one cannot be read any more, a later one not yet."""
    home, fixed = begin(tmp_path)
    commit(home, fixed, ROWS)
    head = home.batches.head()
    anew = "count the rows anew under another --name"
    for form, way in ((1, anew), (3, "install a newer one"), (True, anew)):
        head = home.batches.append({**head.document, "format": form}, head)
        assert refused(StoreError, head_of, home).endswith(f"has format {form}, this dtoss reads 2: {way}")
