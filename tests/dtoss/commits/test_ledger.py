"""What was read of sources: each file and batch once, and no more names than there are files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.commits.ledger import Ledger
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
        ({"files": {}, "batches": {"q": True}}, r"batches\['q'\] of the ledger is True"),
        ({"files": {}, "batches": {"q": "7"}}, r"batches\['q'\] of the ledger is '7'"),
    ],
)
def test_a_ledger_that_is_none(said, word):
    """An error names what is wrong."""
    with pytest.raises(StoreError, match=word):
        Ledger.of(said)
