"""State in patches: batches of few objects tell what batches that write all state tell, and what the oracle says."""

from __future__ import annotations

import numpy as np
import pytest

from dtoss.commits.table import remove_orphans
from dtoss.windows.processing.windows_tables import table_of, verify_windows
from dtoss.windows.state import object_state, state_files
from dtoss.windows.state.state_files import Change, due, listed_after
from dtoss.windows.storage.window_document import Part, documents, head_of
from tests.dtoss.windows.brute import replayed
from tests.dtoss.windows.storage.kept import begin, check, commit, made, spec


def sparse(seed, kind=int):
    """Batches of which the first has most objects, and the others have few of them, late and repeated rows too."""
    first = made(seed, batches=1, rows=120, ids=60)
    later = made(seed + 1, batches=6, rows=4, ids=60, step=1.5)
    return [[(kind(one[0]), *one[1:]) for one in batch] for batch in first + later]


def play(folder, wanted, batches, tasks=(1, 3, 3)):
    """Commit batches, by other numbers of tasks at times, and clear what is replaced behind each."""
    home, fixed = begin(folder, wanted)
    for number, batch in enumerate(batches):
        commit(home, fixed, batch, tasks=tasks[number % len(tasks)])
        remove_orphans(table_of(home), 0.0)
        assert verify_windows(home).damaged == []
    return home


def told(home):
    """What commits say of results, and of how far objects have come."""
    said = [one.commit.document for one in documents(home, 1, head_of(home).number)]
    return [[one[name] for name in ("results", "counts", "watermark", "reached")] for one in said]


@pytest.mark.parametrize("seed", [0, 3])
def test_patches_tell_what_whole_states_tell_and_the_oracle(tmp_path, monkeypatch, seed):
    """With cut bases, merged patches, bases written anew in turn, other numbers of tasks, numbers and texts as ids."""
    kind = (int, lambda number: f"taxi {number}")[seed % 2]
    wanted = (spec(), spec(late="2s", expire="3s"))[seed // 2]
    batches = sparse(10 * seed, kind)
    monkeypatch.setattr(object_state, "BASE_OBJECTS", 8)
    patched = play(tmp_path / "patched", wanted, batches)
    files = head_of(patched).files
    assert all(any(part.patch for part in files[room]) for room in ("objects", "panes"))
    monkeypatch.setattr(state_files, "PATCHED", 1 << 40)
    whole = play(tmp_path / "whole", wanted, batches)
    assert not any(part.patch for part in head_of(whole).files["objects"])
    assert told(patched) == told(whole)
    assert check(patched, list(replayed(wanted, batches))[-1][0]) > 0


def part(name, of, rows=10, patch=False):
    """A file of state."""
    from dtoss.commits.file_entry import FileEntry

    return Part(FileEntry(name, rows, rows, "0" * 64), of, patch)


def test_what_a_commit_lists_of_state():
    """Bases lose what is written anew, patches that and what was merged; buckets of a task may be in any file."""
    before = [part("a", (0, 2)), part("b", (1, 3)), part("c", (0, 1, 2), patch=True), part("d", (1, 3), patch=True)]
    anew = Change((0, 1), (part("e", (0,)),), part("f", (1,), patch=True), 1)
    other = Change((2, 3), (), part("g", (2, 3), patch=True), 2)
    after = listed_after(before, [anew, other])
    assert [(one.file.name, one.of) for one in after] == [
        ("a", (2,)), ("b", (1, 3)), ("e", (0,)), ("c", (1, 2)), ("d", (3,)), ("f", (1,)), ("g", (2, 3)),
    ]  # fmt: skip
    assert [one.file.name for one in listed_after(before, [Change((0, 1, 2, 3), (part("h", (0, 1, 2, 3)),))])] == ["h"]


def test_bases_that_are_due_take_turns():
    """None is due at a quarter; of those that are the most patched go first, twice as many as the batch has of all."""
    bases = np.full(8, 100)
    assert due(bases, np.full(8, 25), 80).tolist() == []
    assert due(bases, np.array([26, 27, 28, 29, 30, 31, 32, 33]), 80).tolist() == [6, 7]
    assert due(bases, np.full(8, 60), 480).tolist() == list(range(8))
    assert due(np.array([0, 0]), np.array([1, 0]), 1).tolist() == [0]
