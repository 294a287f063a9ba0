"""Matches of rows that follow one another, as events: what is entered, left, and where each row is inside.

What is entered and left from row to row of an object: sorted lists of matches, held against one another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.compiled.kernel import kernel
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.crossings import crossing_pieces
from dtoss.watch.matching.matcher import StandingMatcher
from dtoss.watch.matching.matches import Matches
from dtoss.watch.processing.event_table import (
    CROSSES,
    DWELLS,
    ENTERS,
    EVENT_KINDS,
    INSIDES,
    LEAVES,
    carried_as,
    coded,
    kinds_of,
)
from dtoss.watch.processing.object_rows import StayEvents, Tracks, ranks_of, ways
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.subscription import CROSS, ENTER, INSIDE, LEAVE, PAIR_EVENTS, ROW_EVENTS
from dtoss.watch.watch_settings import Rows

EXPIRED = "expired"


@dataclass(frozen=True)
class _Events:
    """Events that are not written yet: the row, the subscription, the kind and the distance of each.

    Of a cross the distance is how far along its way the place is met, a share.
    """

    row: NDArray[np.int64]
    subscription: NDArray[np.int32]
    kind: NDArray[np.uint8]
    distance: NDArray[np.float64]
    t: NDArray[np.int64] | None = None  # When each was, where that is not the time of its row
    over: NDArray[np.bool_] | None = None  # Whether the object was silent, where its row does not say so

    @classmethod
    def room(cls, count: int) -> _Events:
        return cls(np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count))

    def until(self, count: int) -> _Events:
        return take_rows(self, slice(0, count))

    def __len__(self) -> int:
        return len(self.row)


class Out(Protocol):
    """Takes events as columns."""

    def add(self, columns: dict[str, Any], row: NDArray[np.int64], number: NDArray[np.int32]) -> None:
        """Take some events, in their order, with the row and the subscription of each."""


Choice = Callable[[Matches], Matches]
"""Returns those of some matches that are told here."""


def all_told(piece: Matches) -> Matches:
    """Return all matches."""
    return piece


def write_messages(plan: Plan, rows: Rows, out: Out, choice: Choice = all_told) -> dict[str, int]:
    """Write an event for each match of rows that are no objects' positions, and return how many.

    ``rows``: in the order of :func:`by_id`.
    """
    standing = plan.standing
    matcher = StandingMatcher(standing, standing.alive(plan.clock))
    total, room = 0, plan.home.limits.event_group_rows
    for piece in map(choice, matcher.pieces(rows, INSIDE)):
        placed = _Placed.of(standing, piece)
        kinds = np.full(len(piece), INSIDES, np.uint8)
        for at in range(0, len(piece), room):
            part = slice(at, at + room)
            some = _Events(placed.row[part], placed.subs[part], kinds[part], placed.far[part])
            _write(plan, standing, rows, some, None, out)
        total += len(piece)
    return {"inside": total}


def by_id(rows: Rows) -> NDArray[np.int64]:
    """Return rows by id, time, place, text and attributes: the same order, however they were given to tasks."""
    columns: dict[str, Any] = {"x": pa.array(rows.positions[:, 0]), "y": pa.array(rows.positions[:, 1])}
    if rows.t is not None:
        columns = {"t": pa.array(rows.t), **columns}
    if rows.ids is not None:
        columns = {"id": rows.ids, **columns}
    if rows.text is not None:
        columns["text"] = rows.text
    keys = [(name, "ascending") for name in columns]
    order = np.asarray(pc.sort_indices(pa.table(columns), sort_keys=keys)).astype(np.int64)
    alike = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in columns.values():
        alike &= _as_before(column.take(pa.array(order)))
    tied = np.append(alike, False) | np.append(False, alike)
    if alike.any() and rows.attributes:
        group = np.append(0, np.cumsum(~alike))[tied]
        many = order[tied]
        ranks = [ranks_of(rows.attributes[name].take(pa.array(many))) for name in sorted(rows.attributes)]
        order[tied] = many[np.lexsort((*ranks[::-1], group))]
    return order


def _as_before(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values but the first are equal to the one before, null to null."""
    null = np.asarray(column.is_null())
    equal = np.asarray(pc.equal(column[1:], column[:-1]).fill_null(False))
    return np.asarray(equal | (null[1:] & null[:-1]))


@dataclass(frozen=True)
class _Placed:
    """Matches of consecutive rows in the order of ids within a row: where those of each row end, and places of ids."""

    row: NDArray[np.int64]
    ends: NDArray[np.int64]
    subs: NDArray[np.int32]
    far: NDArray[np.float64]
    turns: NDArray[np.int32]

    @classmethod
    def of(cls, standing: Standing, piece: Matches) -> _Placed:
        row, subs, far = piece.row, piece.subscription, piece.distance
        ends = np.cumsum(np.bincount(row - piece.first_row, minlength=piece.last_row - piece.first_row))
        turns = standing.turns
        if len(turns) == 0:
            return cls(row, ends, subs, far, subs)
        order = np.empty(len(subs), np.int64)
        by_turn(ends, subs, turns, standing.parts[1][0], order)
        subs = subs[order]
        return cls(row, ends, subs, far[order], turns[subs])


_NO_SUBS, _NO_ROWS = np.zeros(0, np.int32), np.zeros(0, np.int64)
_NOTHING_MET = _Placed(_NO_ROWS, _NO_ROWS, _NO_SUBS, np.zeros(0), _NO_SUBS)


def write_events(plan: Plan, tracks: Tracks, out: Out, choice: Choice = all_told) -> dict[str, int]:
    """Write the events of rows that follow one another, some at a time, and return how many of each kind."""
    standing = plan.standing
    alive = standing.alive(plan.clock)
    matcher = StandingMatcher(standing, alive)
    tells = np.full(len(tracks.rows), ROW_EVENTS, np.uint8) if tracks.tells is None else tracks.tells
    # of a row before only memberships count; it was inside when it came
    wants = np.where(tracks.before, PAIR_EVENTS, ROW_EVENTS).astype(np.uint8) & np.bitwise_or.reduce(tells, initial=0)
    starts = np.zeros(len(tracks.rows) + 1, np.bool_)
    starts[tracks.begin] = True
    led = _ways(plan, tracks, tells)
    totals = np.zeros(len(EVENT_KINDS), np.int64)
    events, versions = standing.events, standing.versions
    waiting, count = _Events.room(plan.home.limits.event_group_rows), 0
    held = held_turns = np.zeros(0, np.int32)

    stays = None if tracks.told is None else _in_order(standing, tracks.told)
    first_stay = 0

    def flush(upto: int) -> None:
        nonlocal first_stay
        some = waiting.until(count)
        if stays is not None:
            begin, first_stay = first_stay, int(np.searchsorted(stays.row, upto))
            some = _with_stays(plan, standing, tracks, some, stays, slice(begin, first_stay))
        totals[:] += np.bincount(some.kind, minlength=len(EVENT_KINDS))
        _write(plan, standing, tracks.rows, some, tracks, out)

    pieces = map(choice, matcher.pieces(tracks.rows, wants))
    for piece, met in (pair for whole in pieces for pair in crossing_pieces(standing, alive, tracks.rows, led, whole)):
        placed = _Placed.of(standing, piece)
        crossed = _Placed.of(standing, met) if len(met) else _NOTHING_MET
        state = np.zeros(2, np.int64)
        while True:
            count = follow(
                piece.first_row, placed.ends, placed.subs, placed.far, placed.turns, held, held_turns,
                crossed.ends, crossed.subs, crossed.far, crossed.turns, starts, tracks.before, tracks.expired,
                tracks.changes, tells, events, versions, state, count,
                waiting.row, waiting.subscription, waiting.kind, waiting.distance,
            )  # fmt: skip
            if state[0] == len(placed.ends):
                break
            flush(piece.first_row + int(state[0]))
            count = 0
            if state[1] > len(waiting):
                waiting = _Events.room(int(state[1]))
        if len(placed.ends):
            last = slice(int(placed.ends[-2]) if len(placed.ends) > 1 else 0, None)
            held, held_turns = placed.subs[last].copy(), placed.turns[last].copy()
    flush(len(tracks.rows))
    return {EVENT_KINDS[kind]: int(totals[kind]) for kind in kinds_told(standing)}


def kinds_told(standing: Standing) -> list[int]:
    """Return the kinds of events of objects that are counted, by their numbers."""
    crosses = [CROSSES] if standing.crosses else []
    return [LEAVES, ENTERS, INSIDES, *crosses, *([] if standing.stays is None else [DWELLS])]


def _in_order(standing: Standing, told: StayEvents) -> StayEvents:
    """Return what is told of stays by row, time, kind and the order of ids."""
    order = np.lexsort((_turns(standing, told.subscription), told.kind, told.t, told.row))
    return take_rows(told, order)


def _turns(standing: Standing, subscription: NDArray[np.int32]) -> NDArray[np.int32]:
    return standing.turns[subscription] if len(standing.turns) else subscription


def _with_stays(
    plan: Plan, standing: Standing, tracks: Tracks, some: _Events, stays: StayEvents, part: slice
) -> _Events:
    """Return events with some of those of stays, in their order."""
    t, over = _moments(plan, tracks, some)
    row, number = np.append(some.row, stays.row[part]), np.append(some.subscription, stays.subscription[part])
    kind, far = np.append(some.kind, stays.kind[part]), np.append(some.distance, stays.distance[part])
    t, over = np.append(t, stays.t[part]), np.append(over, stays.over[part])
    order = np.lexsort((_turns(standing, number), kind, t, row))
    return _Events(row[order], number[order], kind[order], far[order], t[order], over[order])


def _moments(plan: Plan, tracks: Tracks | None, events: _Events) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return when events were, and which are there because an object was silent."""
    if events.t is not None and events.over is not None:
        return events.t, events.over
    assert tracks is not None
    assert tracks.rows.t is not None
    over = tracks.expired[events.row]
    return tracks.rows.t[events.row] + over * (plan.options.expire or 0), over


def _ways(plan: Plan, tracks: Tracks, tells: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the rows to which there is a way from the row before, int64 (m,), if somebody wants to know."""
    t = tracks.rows.t
    if t is None or not plan.standing.crosses:
        return np.zeros(0, np.int64)
    found = ways(plan, t, tracks.begin[:-1], tracks.expired)
    places = tracks.rows.positions
    return found[((tells[found] & CROSS) != 0) & (places[found] != places[found - 1]).any(axis=1)]


def _write(plan: Plan, standing: Standing, rows: Rows, events: _Events, tracks: Tracks | None, out: Out) -> None:
    if len(events) == 0:
        return
    row, number = events.row, events.subscription
    at = pa.array(row)
    columns: dict[str, Any] = {
        "kind": kinds_of(events.kind),
        "subscription": coded(standing.texts("id"), number),
        "version": standing.versions[number],
        "x": np.ascontiguousarray(rows.positions[row, 0]),
        "y": np.ascontiguousarray(rows.positions[row, 1]),
        "distance": events.distance,
        "meta": coded(standing.texts("meta"), number),
    }
    if rows.ids is not None:
        columns["object"] = rows.ids.take(at)
    if rows.t is not None:
        plain = events.t is None and (tracks is None or not tracks.expired.any())
        t, over = (rows.t[row], np.zeros(0, np.bool_)) if plain else _moments(plan, tracks, events)
        columns["t"] = pa.array(t)
        crossed = events.kind == CROSSES
        if crossed.any():
            before, share = rows.t[row - 1], np.where(crossed, events.distance, 0.0)
            met = before + np.rint(share * (rows.t[row] - before)).astype(np.int64)
            columns["t_before"], columns["t_cross"] = (pa.array(one, mask=~crossed) for one in (before, met))
            columns["distance"] = np.where(crossed, np.nan, events.distance)
        if over.any():
            codes = pa.array(np.zeros(len(row), np.int32), mask=~over)
            columns["reason"] = pa.DictionaryArray.from_arrays(codes, pa.array([EXPIRED]))
    for name, fresh in carried_as(plan.options.carry).items():
        columns[fresh] = rows.attributes[name].take(at)
    out.add(columns, row, number)


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
    f"int64(int64, {_NUMBERS}, {_SUBS}, {_FAR}, {_SUBS}, {_SUBS}, {_SUBS}, {_NUMBERS}, {_SUBS}, {_FAR},"
    f" {_SUBS}, {_FLAGS}, {_FLAGS}, {_FLAGS}, {_NUMBERS}, {_BITS}, {_BITS}, {_NUMBERS}, int64[::1], int64, int64[::1],"
    f" int32[::1], uint8[::1], float64[::1])"
)
def follow(
    first, ends, subs, far, turns, held, held_turns, met_ends, met_subs, met_far, met_turns, starts, before, expired,
    changes, tells, events, versions, state, count, out_row, out_sub, out_kind, out_far,
):  # fmt: skip
    """Write events by row, kind and subscription until there is no room, and return how many there are then.

    ``first``: the first of the rows whose matches are given; ``ends``: int64 (rows,). Where the matches of each end;
    ``subs``, ``far``, ``turns``: (matches,). The subscription of each, its distance, and the subscription's place in
    the order of ids, which rises within a row; ``held``, ``held_turns``: int32. The subscriptions that hold the row
    before the first, and their places; ``met_ends``, ``met_subs``, ``met_far``, ``met_turns``: the same of what is met
    on the way to each row, with how far along; ``starts``, ``before``, ``expired``, ``changes``: by row, as
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
            if met_subs.size:
                need += met_ends[row] - (met_ends[row - 1] if row > 0 else 0)
        if count + need > out_row.size:
            state[1] = need
            break
        if expired[at]:
            if tells[at] & LEAVE:
                count = _all(now, LEAVE, LEAVES, changes[at], wanted, at, count, out)
        elif follows:
            # the row before was judged under older subscriptions, or under the same ones
            since = changes[at - 1] if before[at - 1] else _EVERY
            if met_subs.size and tells[at] & CROSS:
                met = Matched(met_subs, met_far, met_turns, met_ends[row - 1] if row > 0 else 0, met_ends[row])
                count = _write_crosses(met, known, now, since, wanted, at, count, out)
            if tells[at] & LEAVE:
                count = _left(known, now, since, wanted, at, count, out)
            if tells[at] & ENTER:
                count = _write_entered(known, now, since, wanted, at, count, out)
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
def _write_crosses(met, known, now, since, wanted, at, count, out):
    """Write what is met on the way and holds neither end of it; return how many events there are."""
    i, j = known.begin, now.begin
    for k in range(met.begin, met.end):
        sub, turn = met.subs[k], met.turns[k]
        while i < known.end and known.turns[i] < turn:
            i += 1
        while j < now.end and now.turns[j] < turn:
            j += 1
        held = (i < known.end and known.turns[i] == turn) or (j < now.end and now.turns[j] == turn)
        if not held and wanted.versions[sub] <= since:
            out.row[count], out.sub[count], out.kind[count], out.far[count] = at, sub, CROSSES, met.far[k]
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
def _write_entered(known, now, since, wanted, at, count, out):
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
