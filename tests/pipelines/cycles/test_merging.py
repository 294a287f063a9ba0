"""The merge is a semilattice: of the slow, obvious version first, which all others are held against."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.history.row_blocks import latest
from tests.oracles import Update, apply, in_order, standing
from tests.update_worlds import NOW, cycles, table, updates

KINDS = pytest.mark.parametrize("string_ids", [False, True], ids=["int", "string"])


def compared(state):
    """A state with values that equal themselves: -0.0 is not 0.0, and NaN is NaN; deletions are their times."""
    return {
        id: (row.t, row.deleted) if row.deleted else (row.t, *map(in_order, (row.x, row.y, *row.attributes)))
        for id, row in state.items()
    }


def told(batches, nows, **rules):
    """The state after cycles, each at its clock."""
    state = {}
    for batch, now in zip(batches, nows, strict=True):
        state, _ = apply(state, batch, now=now, **rules)
    return state


@KINDS
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_order_repetition_and_splitting_change_nothing(string_ids, data):
    """Where tombstones stay: one cycle or several, each row once or often, with or without expiry on the way."""
    rows = data.draw(updates(string_ids=string_ids))
    batches = data.draw(cycles(rows))
    expire = data.draw(st.sampled_from([float("inf"), 60, 10]))
    nows = sorted(data.draw(st.lists(st.integers(0, NOW), min_size=len(batches), max_size=len(batches))))
    at_once = told([rows], [NOW], expire=expire)
    in_cycles = told(batches, [*nows[:-1], NOW], expire=expire)
    assert compared(standing(in_cycles)) == compared(standing(at_once))
    if expire == float("inf"):
        assert compared(in_cycles) == compared(at_once)


@KINDS
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_deleted_object_comes_back(string_ids, data):
    """However short tombstones stay: of an id that was deleted at d no row of d or before stands again."""
    batches = data.draw(cycles(data.draw(updates(string_ids=string_ids))))
    nows = sorted(data.draw(st.lists(st.integers(0, 150), min_size=len(batches), max_size=len(batches))))
    deleted_for = data.draw(st.sampled_from([0, 10, 60]))
    state, gone = {}, {}
    for batch, now in zip(batches, nows, strict=True):
        state, _ = apply(state, batch, now=now, deleted_for=deleted_for)
        for row in batch:
            if row.deleted:
                gone[row.id] = max(row.t, gone.get(row.id, row.t))
        stands = standing(state)
        assert not [id for id, t in gone.items() if id in stands and stands[id].t <= t]
        assert all(row.t >= now - deleted_for for row in state.values() if row.deleted)


@KINDS
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_same_updates_once_more_change_nothing_and_each_is_counted(string_ids, data):
    """Each row is quarantined, or stands for its id, or is behind the one that does."""
    rows = data.draw(updates(string_ids=string_ids))
    state = told(data.draw(cycles(data.draw(updates(string_ids=string_ids)), most=1)), [90], max_ahead=5)
    rules = {"now": 90, "max_ahead": 5, "deleted_for": data.draw(st.sampled_from([10, float("inf")]))}
    after, counts = apply(state, rows, **rules)
    again, recounted = apply(after, rows, **rules)
    assert compared(again) == compared(after)
    assert not {"updated", "added", "deleted", "deletions", "expired"} & set(+recounted)
    ahead = [row for row in rows if row.t > 95]
    assert counts["quarantined"] == len(ahead)
    assert not [row for row in after.values() if row.t > 95]
    fates = ("updated", "deletions", "unchanged", "late", "too_late", "outdated")
    assert sum(counts[fate] for fate in fates) == len({row.id for row in rows if row.t <= 95})
    gained = counts["added"] - counts["deleted"] - counts["expired"]
    assert len(standing(after)) == len(standing(state)) + gained


@KINDS
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_slow_version_orders_rows_as_a_rebuild_does(string_ids, data):
    """Rows without deletions: the first cycle keeps of each id the row that `latest` keeps."""
    rows = data.draw(updates(string_ids=string_ids, deletions=False))
    kept = latest(table(rows, string_ids=string_ids), ["lon", "lat", "name", "size"])
    found = {
        row["id"]: Update(row["id"], row["t"], row["lon"], row["lat"], (row["name"], row["size"]))
        for row in kept.to_pylist()
    }
    state, _ = apply(None, rows)
    assert compared(found) == compared(state)


def test_each_row_has_one_fate():
    """One world by hand: what is counted of every kind of row."""
    state = {
        1: Update(1, 90, 0.0, 0.0),
        2: Update(2, 90, 0.0, 0.0),
        3: Update(3, 60, 0.0, 0.0),
        4: Update(4, 85, deleted=True),
        5: Update(5, 20, 0.0, 0.0),
        6: Update(6, 70, deleted=True),
        10: Update(10, 90, 0.0, 0.0),
        12: Update(12, 45, 0.0, 0.0),
    }
    rows = [
        Update(1, 91, 1.0, 0.0),  # newer
        Update(2, 89, 1.0, 0.0),  # late
        Update(3, 60, deleted=True),  # deletion wins at equal times
        Update(4, 84, 1.0, 0.0),  # older than the tombstone
        Update(7, 79, 1.0, 0.0),  # too late: tombstones stay for 20
        Update(8, 104, 1.0, 0.0),  # a little ahead
        Update(9, 106, 1.0, 0.0),  # too far ahead
        Update(10, 90, 0.0, 0.0),  # as it stands
        Update(4, 83, 1.0, 0.0),  # behind another row of the same updates
        Update(11, 40, 0.0, 0.0),  # too late, and it would expire
        Update(12, 46, 0.0, 0.0),  # newer, and too old all the same
    ]
    after, counts = apply(state, rows, now=100, expire=50, deleted_for=20, max_ahead=5)
    assert set(standing(after)) == {1, 2, 8, 10}
    assert {id for id, row in after.items() if row.deleted} == {4}
    gone = Counter(deleted=1, deletions=1, expired=2, outdated=1)
    assert counts == gone + Counter(updated=2, added=1, late=2, too_late=2, quarantined=1, unchanged=1)
    first, counts = apply(None, rows, now=100, expire=70, deleted_for=20, max_ahead=5)
    assert set(standing(first)) == {1, 2, 4, 7, 8, 10, 11, 12}, "nothing is too late for a store's first snapshot"
    assert counts["too_late"] == 0
