"""Matches of rows that follow one another, as events: what is entered, left, and where each row is inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.arriving_rows import Rows
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.match_all import StandingMatcher
from dtoss.watch.matching.matches import Matches
from dtoss.watch.processing.batch_rows import ranks_of
from dtoss.watch.processing.event_table import EVENT_KINDS, INSIDES, carried_as, coded, kinds_of
from dtoss.watch.processing.follow_kernel import by_turn, follow
from dtoss.watch.processing.object_rows import Tracks
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE

EXPIRED = "expired"


@dataclass(frozen=True)
class _Events:
    """Events that are not written yet: the row, the subscription, the kind and the distance of each."""

    row: NDArray[np.int64]
    subscription: NDArray[np.int32]
    kind: NDArray[np.uint8]
    distance: NDArray[np.float64]

    @classmethod
    def room(cls, count: int) -> _Events:
        return cls(np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count))

    def until(self, count: int) -> _Events:
        return _Events(self.row[:count], self.subscription[:count], self.kind[:count], self.distance[:count])

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


def write_events(plan: Plan, tracks: Tracks, out: Out, choice: Choice = all_told) -> dict[str, int]:
    """Write the events of rows that follow one another, some at a time, and return how many of each kind."""
    standing = plan.standing
    matcher = StandingMatcher(standing, standing.alive(plan.clock))
    # of a row before only memberships count; it was inside when it came
    wants = np.where(tracks.before, ENTER | LEAVE, INSIDE | ENTER | LEAVE).astype(np.uint8)
    starts = np.zeros(len(tracks.rows) + 1, np.bool_)
    starts[tracks.begin] = True
    tells = np.full(len(tracks.rows), INSIDE | ENTER | LEAVE, np.uint8) if tracks.tells is None else tracks.tells
    totals = np.zeros(len(EVENT_KINDS), np.int64)
    events, versions = standing.events, standing.versions
    waiting, count = _Events.room(plan.home.limits.event_group_rows), 0
    held = held_turns = np.zeros(0, np.int32)

    def flush() -> None:
        some = waiting.until(count)
        totals[:] += np.bincount(some.kind, minlength=len(EVENT_KINDS))
        _write(plan, standing, tracks.rows, some, tracks, out)

    for piece in map(choice, matcher.pieces(tracks.rows, wants)):
        placed = _Placed.of(standing, piece)
        state = np.zeros(2, np.int64)
        while True:
            count = follow(
                piece.first_row, placed.ends, placed.subs, placed.far, placed.turns, held, held_turns, starts,
                tracks.before, tracks.expired, tracks.changes, tells, events, versions, state, count,
                waiting.row, waiting.subscription, waiting.kind, waiting.distance,
            )  # fmt: skip
            if state[0] == len(placed.ends):
                break
            flush()
            count = 0
            if state[1] > len(waiting):
                waiting = _Events.room(int(state[1]))
        if len(placed.ends):
            last = slice(int(placed.ends[-2]) if len(placed.ends) > 1 else 0, None)
            held, held_turns = placed.subs[last].copy(), placed.turns[last].copy()
    flush()
    return {name: int(totals[kind]) for kind, name in enumerate(EVENT_KINDS) if name in ("leave", "enter", "inside")}


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
        columns["t"] = pa.array(rows.t[row])
        if tracks is not None and tracks.expired[row].any():
            over = tracks.expired[row]
            assert plan.options.expire is not None
            columns["t"] = pa.array(np.where(over, rows.t[row] + plan.options.expire, rows.t[row]))
            codes = pa.array(np.zeros(len(row), np.int32), mask=~over)
            columns["reason"] = pa.DictionaryArray.from_arrays(codes, pa.array([EXPIRED]))
    for name, fresh in carried_as(plan.options.carry).items():
        columns[fresh] = rows.attributes[name].take(at)
    out.add(columns, row, number)
