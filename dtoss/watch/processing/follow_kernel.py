"""What is entered and left from row to row of an object: sorted lists of matches, held against one another."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtoss.compiled.kernel import kernel
from dtoss.watch.processing.event_table import ENTERS, INSIDES, LEAVES
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE

_FLAGS, _NUMBERS = "Array(bool_, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_SUBS, _BITS = "Array(int32, 1, 'C', readonly=True)", "Array(uint8, 1, 'C', readonly=True)"
_FAR = "Array(float64, 1, 'C', readonly=True)"
_NAN = float("nan")
_EVERY = (1 << 63) - 1
"""No version is later."""


class Matched(NamedTuple):
    """The matches of a row: those from ``begin`` to ``end``, by their subscriptions' places in the order of ids."""

    subs: Any
    far: Any
    turns: Any
    begin: Any
    end: Any


class Wanted(NamedTuple):
    """Of each subscription the events that it wants, as bits, and its version."""

    events: Any
    versions: Any


class Written(NamedTuple):
    """The columns of events."""

    row: Any
    sub: Any
    kind: Any
    far: Any


@kernel(
    f"int64(int64, {_NUMBERS}, {_SUBS}, {_FAR}, {_SUBS}, {_SUBS}, {_SUBS}, {_FLAGS}, {_FLAGS}, {_FLAGS}, {_NUMBERS},"
    f" {_BITS}, {_BITS}, {_NUMBERS}, int64[::1], int64, int64[::1], int32[::1], uint8[::1], float64[::1])"
)
def follow(
    first, ends, subs, far, turns, held, held_turns, starts, before, expired, changes, tells, events, versions, state,
    count, out_row, out_sub, out_kind, out_far,
):  # fmt: skip
    """Write events by row, kind and subscription until there is no room, and return how many there are then.

    ``first``: the first of the rows whose matches are given; ``ends``: int64 (rows,). Where the matches of each end;
    ``subs``, ``far``, ``turns``: (matches,). The subscription of each, its distance, and the subscription's place in
    the order of ids, which rises within a row; ``held``, ``held_turns``: int32. The subscriptions that hold the row
    before the first, and their places; ``starts``, ``before``, ``expired``, ``changes``: by row, as
    :class:`dtoss.watch.processing.object_rows.Tracks`; the first row of an object starts; ``tells``: uint8, by row. The
    events of it that are written, as bits: others may tell the rest; ``state``: int64 (2,). The row of these that comes
    next, and the room that it needs where there is too little.
    """
    wanted, out = Wanted(events, versions), Written(out_row, out_sub, out_kind, out_far)
    known = Matched(held, far, held_turns, 0, held.size)
    row = state[0]
    if row > 0:
        known = Matched(subs, far, turns, ends[row - 2] if row > 1 else 0, ends[row - 1])
    while row < ends.size:
        at = first + row
        now = Matched(subs, far, turns, ends[row - 1] if row > 0 else 0, ends[row])
        follows = not starts[at] and not expired[at - 1]
        need = 2 * (now.end - now.begin)
        if follows:
            need += known.end - known.begin
        if count + need > out_row.size:
            state[1] = need
            break
        if expired[at]:
            if tells[at] & LEAVE:
                count = _all(now, LEAVE, LEAVES, changes[at], wanted, at, count, out)
        elif follows:
            # the row before was judged under older subscriptions, or under the same ones
            since = changes[at - 1] if before[at - 1] else _EVERY
            if tells[at] & LEAVE:
                count = _left(known, now, since, wanted, at, count, out)
            if tells[at] & ENTER:
                count = _entered(known, now, since, wanted, at, count, out)
        elif not before[at] and tells[at] & ENTER:
            count = _all(now, ENTER, ENTERS, _EVERY, wanted, at, count, out)
        if not before[at] and tells[at] & INSIDE:
            count = _all(now, INSIDE, INSIDES, _EVERY, wanted, at, count, out)
        known = now
        row += 1
    state[0] = row
    return count


@kernel
def _all(now, bit, kind, since, wanted, at, count, out):
    """Write an event for each match that wants one, of versions up to ``since``; return how many events there are."""
    for i in range(now.begin, now.end):
        sub = now.subs[i]
        if wanted.events[sub] & bit and wanted.versions[sub] <= since:
            out.row[count], out.sub[count], out.kind[count] = at, sub, kind
            out.far[count] = _NAN if kind == LEAVES else now.far[i]
            count += 1
    return count


@kernel
def _left(known, now, since, wanted, at, count, out):
    """Write what held the row before and does not hold this one; return how many events there are."""
    j = now.begin
    for i in range(known.begin, known.end):
        sub = known.subs[i]
        if not wanted.events[sub] & LEAVE or wanted.versions[sub] > since:
            continue
        while j < now.end and now.turns[j] < known.turns[i]:
            j += 1
        if j == now.end or now.turns[j] != known.turns[i]:
            out.row[count], out.sub[count], out.kind[count], out.far[count] = at, sub, LEAVES, _NAN
            count += 1
    return count


@kernel
def _entered(known, now, since, wanted, at, count, out):
    """Write what holds this row and did not hold the one before; return how many events there are."""
    j = known.begin
    for i in range(now.begin, now.end):
        sub = now.subs[i]
        if not wanted.events[sub] & ENTER:
            continue
        while j < known.end and known.turns[j] < now.turns[i]:
            j += 1
        if j == known.end or known.turns[j] != now.turns[i] or wanted.versions[sub] > since:
            out.row[count], out.sub[count], out.kind[count], out.far[count] = at, sub, ENTERS, now.far[i]
            count += 1
    return count


@kernel(f"void({_NUMBERS}, {_SUBS}, {_SUBS}, int64, int64[::1])")
def by_turn(ends, subs, turns, small, out):
    """Write the matches of each row in the order of ids.

    ``ends``: int64 (rows,). Where the matches of each end; they rise by subscription within a row; ``subs``: int32
    (matches,); ``turns``: int32. The place of each subscription in the order of ids, which rises among those of each
    index; ``small``: the number of the first subscription of the small index; ``out``: int64 (matches,). Their numbers.
    """
    begin = 0
    for row in range(ends.size):
        end = ends[row]
        other = begin
        while other < end and subs[other] < small:
            other += 1
        i, j, at = begin, other, begin
        while at < end:
            if j == end or (i < other and turns[subs[i]] < turns[subs[j]]):
                out[at] = i
                i += 1
            else:
                out[at] = j
                j += 1
            at += 1
        begin = end
