"""What was read of sources: each file and batch once, and no more names than there are files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.offsets import Ledger, in_all
from dtoss.errors import StoreError

FILES = st.dictionaries(st.text("abc", min_size=1, max_size=2), st.integers(0, 3), max_size=6)


def test_a_file_is_fresh_until_it_was_read_in_this_size():
    """One that has grown, or was replaced by one of another size, is read again."""
    ledger = Ledger({"a": 1, "b": 2})
    assert ledger.fresh({"a": 1, "b": 3, "c": 0}) == {"b": 3, "c": 0}
    later = ledger.reading({"b": 3, "c": 0})
    assert later.fresh({"a": 1, "b": 3, "c": 0}) == {}
    assert ledger.files == {"a": 1, "b": 2}, "the old one stays what it was"


@settings(deadline=None)
@given(FILES, FILES, st.sets(st.text("abc", min_size=1, max_size=2)))
def test_a_ledger_is_bounded_by_the_folder(known, now, there):
    """It forgets what is gone; what it has read now it knows in any case."""
    ledger = Ledger(known).reading(now, there)
    assert set(ledger.files) == {name for name in known if name in there} | set(now)
    assert ledger.fresh(now) == {}
    assert Ledger.of(json.loads(json.dumps(ledger.as_json()))) == ledger


def test_a_file_that_was_written_again_is_fresh_and_one_of_an_earlier_ledger_by_its_bytes():
    """As far as both know when: what does not is as it was before ledgers knew times."""
    ledger = Ledger({"a": 1, "b": 1, "old": 1}, written={"a": 5, "b": 5})
    files = {"a": 1, "b": 1, "old": 1}
    assert ledger.fresh(files, {"a": 5, "b": 6, "old": 7}) == {"b": 1}
    assert ledger.fresh(files) == {}
    later = ledger.reading({"b": 1}, files, {"b": 6}, {"b": "f00"}, {"b": "cut"})
    assert (later.written, later.hashes, later.refused) == ({"a": 5, "b": 6}, {"b": "f00"}, {"b": "cut"})
    assert Ledger.of(json.loads(json.dumps(later.as_json()))) == later
    assert later.reading({"b": 1}, ["b"], {"b": 7}).as_json() == {"files": {"b": 1}, "batches": {}, "written": {"b": 7}}
    assert Ledger.of({"files": {"a": 1}, "batches": {}}) == Ledger({"a": 1}), "one of before"


def test_a_file_that_was_only_touched_was_read():
    ledger = Ledger({"a": 1, "b": 1}, written={"a": 5, "b": 5}, hashes={"a": "f00"})
    assert ledger.fresh({"a": 1, "b": 1}, {"a": 6, "b": 6}, {"a": "f00", "b": "f00"}) == {"b": 1}
    assert ledger.fresh({"a": 1}, {"a": 6}, {"a": "bad"}) == {"a": 1}
    assert ledger.fresh({"a": 2}, {"a": 5}, {"a": "f00"}) == {"a": 2}


def test_all_know_a_file_as_it_was_written_and_refused():
    one = Ledger({"a": 1, "b": 1, "c": 1}, written={"a": 5, "b": 5}, refused={"a": "cut"})
    other = Ledger({"a": 1, "b": 1, "c": 1}, written={"a": 5, "b": 6}, refused={"c": "odd"})
    found = in_all([one, other])
    assert (found.files, found.refused) == ({"a": 1, "c": 1}, {"a": "cut", "c": "odd"})
    assert in_all([]) == Ledger()


def test_batches_count_once_and_never_go_back():
    """Batch 0 is one; another stream has numbers of its own."""
    ledger = Ledger()
    assert not ledger.has_batch("q", 0)
    ledger = ledger.with_batch("q", 0).with_batch("q", 3).with_batch("q", 2)
    assert [ledger.has_batch("q", batch) for batch in (0, 2, 3, 4)] == [True, True, True, False]
    assert not ledger.has_batch("other", 0)
    assert Ledger.of(ledger.as_json()) == ledger
    assert Ledger.of(None) == Ledger()


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ([], r"the ledger is \[\]"),
        ({"files": {}}, "an object of files and batches is wanted"),
        ({"files": [], "batches": {}}, r"files of the ledger is \[\]"),
        ({"files": {"a": -1}, "batches": {}}, r"files\['a'\] of the ledger is -1, a whole number"),
        ({"files": {}, "batches": {}, "more": {}}, "an object of files and batches is wanted"),
        ({"files": {}, "batches": {}, "written": {"a": -1}}, r"written\['a'\] of the ledger is -1, a whole number"),
        ({"files": {}, "batches": {}, "refused": {"a": 1}}, r"refused of the ledger is \{'a': 1\}, an object of texts"),
        ({"files": {}, "batches": {"q": True}}, r"batches\['q'\] of the ledger is True"),
        ({"files": {}, "batches": {"q": "7"}}, r"batches\['q'\] of the ledger is '7'"),
    ],
)
def test_a_ledger_that_is_none(said, word):
    """An error names what is wrong."""
    with pytest.raises(StoreError, match=word):
        Ledger.of(said)
