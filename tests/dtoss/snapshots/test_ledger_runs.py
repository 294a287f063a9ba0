"""Ledgers of many files: what they know survives, whatever comes, goes or changes; a manifest says few itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.ledger_runs import decode_run, encode_run, fold_ledger, whole_ledger
from dtoss.commits.offsets import Ledger
from dtoss.errors import StoreError
from dtoss.snapshots.lineage import files_of
from dtoss.snapshots.read_file import ledger_of, link_runs, write_ledger
from dtoss.snapshots.store import Store

NAMES = st.integers(0, 40).map("day/{:02d}.parquet".format)
HOW = st.tuples(st.integers(0, 9), st.integers(1, 3) | st.none(), st.sampled_from(["f0", None]))
READ = st.dictionaries(NAMES, HOW)
STEPS = st.lists(st.tuples(READ, st.sets(NAMES) | st.none()), max_size=8)
BORDERS = {"file": "borders-0.arrow", "bytes": 1}


def facts(read, at):
    return {name: row[at] for name, row in read.items() if row[at] is not None}


@settings(deadline=None)
@given(STEPS)
def test_what_is_known_is_what_one_ledger_knows(steps):
    """Whatever is read, read again or gone; a commit says few files itself, and its runs hold at most so many each."""
    files, loose, runs = {}, Ledger().with_batch("q", 4), []

    def write(ledger):
        data = encode_run(ledger)
        files[str(len(files))] = data
        return {"file": str(len(files) - 1), "rows": len(ledger.files)}

    def read(run):
        return decode_run(files[run["file"]])

    one = loose
    for come, there in steps:
        odd = {name: "cut" for name, row in come.items() if row[0] == 0}
        how = (facts(come, 0), there, facts(come, 1), facts(come, 2), odd)
        one = one.reading(*how)
        assert whole_ledger(loose, map(read, runs)).reading(*how) == one
        loose, runs = fold_ledger(one, runs, read, write, said=3, most=8)
        assert whole_ledger(loose, map(read, runs)) == one
        assert len(loose.files) <= 3
        assert all(run["rows"] == len(read(run).files) <= 8 for run in runs)


def test_a_file_is_written_only_so_often_as_what_came_doubles():
    files, written, runs, ledger = {}, 0, [], Ledger()

    def write(some):
        nonlocal written
        written += len(some.files)
        files[len(files)] = some
        return {"file": len(files) - 1, "rows": len(some.files)}

    for number in range(600):
        ledger = ledger.reading({f"{number}": 1})
        _, runs = fold_ledger(ledger, runs, lambda run: files[run["file"]], write, said=0)
    assert written < 600 * 10
    assert len(runs) < 11


def test_a_snapshot_links_the_runs_of_the_one_before(tmp_path):
    """And they are among its files; a run that is cut short is an error, as is one that no ledger is."""
    store = Store(str(tmp_path))
    ledger = Ledger({f"{number:04d}": number for number in range(1001)}, {"q": 1}, {"0007": 5}, {}, {"0008": "cut"})
    with store.fresh() as first:
        said = write_ledger(store, first, ledger, None)
        assert said["files"] == {}
        assert said["batches"] == {"q": 1}
        made = {"snapshot": first, "ledger": json.loads(json.dumps(said)), "partitions": [], "borders": BORDERS}
        assert ledger_of(store, made) == ledger
        assert {run["file"] for run in said["runs"]} < set(files_of(made))
        with store.fresh() as second:
            later = ledger.reading({"new": 0}, [*ledger.files, "new"])
            again = write_ledger(store, second, later, made)
            assert again == said | {"files": {"new": 0}}
            assert ledger_of(store, {**made, "snapshot": second, "ledger": again}) == later
            anew = ledger.reading({"0001": 0}, None, {"0001": 9})
            written = write_ledger(store, second, anew, made)
            assert ledger_of(store, {**made, "snapshot": second, "ledger": written}) == anew
        with store.fresh() as third:
            link_runs(store, third, first, said["runs"])
            assert ledger_of(store, {**made, "snapshot": third}) == ledger
        store.write(first, said["runs"][0]["file"], encode_run(Ledger())[:-1])
        with pytest.raises(StoreError, match="bytes, the manifest says"):
            ledger_of(store, made)


def test_no_ledger_is_read_without_its_runs():
    """Who knows none of them must not take their files for new ones."""
    with pytest.raises(StoreError, match="an object of files and batches is wanted"):
        Ledger.of({"files": {}, "batches": {}, "runs": []})
    assert ledger_of(Store("nowhere"), None) == Ledger()
