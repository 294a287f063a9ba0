"""What is entered and left from row to row of an object: sorted lists of matches, held against one another."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.watch.stream.event_table import ENTERS, INSIDES, LEAVES
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE

_FLAGS, _NUMBERS = "Array(bool_, 1, 'C', readonly=True)", "Array(int64, 1, 'C', readonly=True)"
_SUBS, _BITS = "Array(int32, 1, 'C', readonly=True)", "Array(uint8, 1, 'C', readonly=True)"
_FAR = "Array(float64, 1, 'C', readonly=True)"
_NAN = float("nan")


@kernel(
    f"int64(int64, {_NUMBERS}, {_SUBS}, {_FAR}, {_SUBS}, {_SUBS}, {_SUBS}, {_FLAGS}, {_FLAGS}, {_FLAGS}, {_NUMBERS},"
    f" {_BITS}, {_NUMBERS}, int64[::1], int64, int64[::1], int32[::1], uint8[::1], float64[::1])"
)
def follow(
    first,
    ends,
    subs,
    far,
    turns,
    held,
    held_turns,
    starts,
    before,
    expired,
    changes,
    events,
    versions,
    state,
    count,
    out_row,
    out_sub,
    out_kind,
    out_far,
):
    """Write events by row, kind and subscription until there is no room, and return how many there are then.

    Parameters
    ----------
    first
        The first of the rows whose matches are given.
    ends
        int64 (rows,). Where the matches of each end.
    subs, far, turns
        (matches,). The subscription of each, its distance, and the subscription's place in the order of ids, which
        rises within a row.
    held, held_turns
        int32. The subscriptions that hold the row before the first, and their places.
    starts, before, expired, changes
        By row, as :class:`dtoss.watch.stream.tracks.Tracks`; the first row of an object starts.
    events, versions
        By subscription.
    state
        int64 (2,). The row of these that comes next, and the room that it needs where there is too little.
    count
        Events that are there already.
    out_row, out_sub, out_kind, out_far
        The events; there is no distance to what is left.
    """
    row = state[0]
    while row < ends.size:
        at = first + row
        begin, end = 0, ends[row]
        if row > 0:
            begin = ends[row - 1]
        follows = not starts[at] and not expired[at - 1]
        known_begin, known_end = 0, held.size
        if row > 0:
            known_begin, known_end = 0, begin
            if row > 1:
                known_begin = ends[row - 2]
        need = 2 * (end - begin)
        if follows:
            need += known_end - known_begin
        if count + need > out_row.size:
            state[1] = need
            break
        if expired[at]:
            for i in range(begin, end):
                if events[subs[i]] & LEAVE and versions[subs[i]] <= changes[at]:
                    out_row[count], out_sub[count], out_kind[count], out_far[count] = at, subs[i], LEAVES, _NAN
                    count += 1
        elif follows:
            # the row before was judged under older subscriptions, or under the same ones
            since = changes[at - 1]
            if not before[at - 1]:
                since = _ALL
            known, known_turns = subs, turns
            if row == 0:
                known, known_turns = held, held_turns
            count = _left(
                known, known_turns, known_begin, known_end, turns, begin, end, since, events, versions, at, count,
                out_row, out_sub, out_kind, out_far,
            )  # fmt: skip
            count = _entered(
                known_turns, known_begin, known_end, subs, far, turns, begin, end, since, events, versions, at, count,
                out_row, out_sub, out_kind, out_far,
            )  # fmt: skip
        elif not before[at]:
            for i in range(begin, end):
                if events[subs[i]] & ENTER:
                    out_row[count], out_sub[count], out_kind[count], out_far[count] = at, subs[i], ENTERS, far[i]
                    count += 1
        if not before[at]:
            for i in range(begin, end):
                if events[subs[i]] & INSIDE:
                    out_row[count], out_sub[count], out_kind[count], out_far[count] = at, subs[i], INSIDES, far[i]
                    count += 1
        row += 1
    state[0] = row
    return count


_ALL = (1 << 63) - 1


@kernel
def _left(known, known_turns, a, b, turns, begin, end, since, events, versions, at, count, row, sub, kind, far):
    """Write what held the row before and does not hold this one; return how many events there are."""
    j = begin
    for i in range(a, b):
        if not events[known[i]] & LEAVE or versions[known[i]] > since:
            continue
        while j < end and turns[j] < known_turns[i]:
            j += 1
        if j == end or turns[j] != known_turns[i]:
            row[count], sub[count], kind[count], far[count] = at, known[i], LEAVES, _NAN
            count += 1
    return count


@kernel
def _entered(known_turns, a, b, subs, far, turns, begin, end, since, events, versions, at, count, row, sub, kind, out):
    """Write what holds this row and did not hold the one before; return how many events there are."""
    j = a
    for i in range(begin, end):
        if not events[subs[i]] & ENTER:
            continue
        while j < b and known_turns[j] < turns[i]:
            j += 1
        if j == b or known_turns[j] != turns[i] or versions[subs[i]] > since:
            row[count], sub[count], kind[count], out[count] = at, subs[i], ENTERS, far[i]
            count += 1
    return count


@kernel(f"void({_NUMBERS}, {_SUBS}, {_SUBS}, int64, int64[::1])")
def by_turn(ends, subs, turns, small, out):
    """Write the matches of each row in the order of ids.

    Parameters
    ----------
    ends
        int64 (rows,). Where the matches of each end; they rise by subscription within a row.
    subs
        int32 (matches,).
    turns
        int32. The place of each subscription in the order of ids, which rises among those of each index.
    small
        The number of the first subscription of the small index.
    out
        int64 (matches,). Their numbers.
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
