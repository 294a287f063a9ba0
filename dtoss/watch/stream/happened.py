"""Matches of rows that follow one another, as events: what is entered, left, and where each row is inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.built.standing import Standing
from dtoss.watch.matching.matches import Matches
from dtoss.watch.matching.several import StandingMatcher
from dtoss.watch.rows import Rows
from dtoss.watch.stream.event_table import ENTERS, INSIDES, LEAVES, EventFile, coded, kinds_of
from dtoss.watch.stream.plan import Plan
from dtoss.watch.stream.tracks import Tracks
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE

EXPIRED = "expired"


def write_messages(plan: Plan, rows: Rows, out: EventFile) -> dict[str, int]:
    """Write an event for each match of rows that are no objects' positions, and return how many."""
    standing = plan.standing
    matcher = StandingMatcher(standing, standing.alive(plan.clock))
    order = _by_id(rows)
    rows = rows.take(order)
    total = 0
    for piece in matcher.pieces(rows, INSIDE):
        kinds = np.full(len(piece), INSIDES)
        _write(plan, standing, rows, piece.row, piece.subscription, kinds, piece.distance, None, out)
        total += len(piece)
    return {"inside": total}


def _by_id(rows: Rows) -> NDArray[np.int64]:
    """Return rows by id, time and place: the same order, however they were given to tasks."""
    columns: dict[str, Any] = {"x": rows.positions[:, 0], "y": rows.positions[:, 1]}
    if rows.t is not None:
        columns = {"t": rows.t, **columns}
    if rows.ids is not None:
        columns = {"id": rows.ids, **columns}
    if rows.text is not None:
        columns["text"] = rows.text
    keys = [(name, "ascending") for name in columns]
    return np.asarray(pc.sort_indices(pa.table(columns), sort_keys=keys)).astype(np.int64)


def write_events(plan: Plan, tracks: Tracks, out: EventFile) -> dict[str, int]:
    """Write the events of rows that follow one another, some rows at a time, and return how many of each kind."""
    standing = plan.standing
    matcher = StandingMatcher(standing, standing.alive(plan.clock))
    # of a row before only memberships count; it was inside when it came
    wants = np.where(tracks.before, ENTER | LEAVE, INSIDE | ENTER | LEAVE).astype(np.uint8)
    count = len(tracks.rows)
    starts = np.zeros(count + 1, np.bool_)
    starts[tracks.begin] = True
    totals = np.zeros(3, np.int64)
    subs = max(len(standing), 1)
    held = np.zeros(0, np.int64)  # memberships of the last row, as row times subs plus subscription
    for piece in matcher.pieces(tracks.rows, wants):
        events = standing.events[piece.subscription]
        counted = (events & (ENTER | LEAVE)) != 0
        member = counted & (
            ~tracks.before[piece.row] | (standing.versions[piece.subscription] <= tracks.changes[piece.row])
        )
        keys = piece.row[member] * subs + piece.subscription[member]
        entered = ~tracks.before[piece.row] & ((events & ENTER) != 0) & counted
        entered &= (
            starts[piece.row]
            | ~_among(np.concatenate([held, keys]), (piece.row - 1) * subs + piece.subscription)
            | (tracks.expired[np.maximum(piece.row - 1, 0)] & ~starts[piece.row])
        )
        inside = ~tracks.before[piece.row] & ((events & INSIDE) != 0)
        left, left_row = _left(tracks, standing, starts, np.concatenate([held, keys]), keys, piece, subs)
        rows = np.concatenate([left_row, piece.row[entered], piece.row[inside]])
        numbers = np.concatenate([left, piece.subscription[entered], piece.subscription[inside]]).astype(np.int32)
        far = np.concatenate([np.full(len(left), np.nan), piece.distance[entered], piece.distance[inside]])
        kinds = np.repeat([LEAVES, ENTERS, INSIDES], [len(left), int(entered.sum()), int(inside.sum())])
        totals += [len(left), int(entered.sum()), int(inside.sum())]
        order = np.lexsort((numbers, kinds, rows))
        _write(plan, standing, tracks.rows, rows[order], numbers[order], kinds[order], far[order], tracks, out)
        held = keys[keys >= (piece.last_row - 1) * subs] if piece.last_row > piece.first_row else held
    return {"leave": int(totals[0]), "enter": int(totals[1]), "inside": int(totals[2])}


def _among(keys: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which numbers are among some that rise."""
    if len(keys) == 0:
        return np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.asarray(keys[at] == asked)


def _left(
    tracks: Tracks,
    standing: Standing,
    starts: NDArray[np.bool_],
    before: NDArray[np.int64],
    keys: NDArray[np.int64],
    piece: Matches,
    subs: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the subscriptions that are left, and the row at which each is: the next of its object, or its own end."""
    row, number = before // subs, before % subs
    wants = (standing.events[number] & LEAVE) != 0
    over = tracks.expired[row]
    # the last row of a piece waits for the next one
    follows = ~starts[row + 1] & (row + 1 < piece.last_row) & ~over & (row + 1 >= piece.first_row)
    gone = wants & follows & ~_among(keys, before + subs)
    ended = wants & over & (row >= piece.first_row)
    return (
        np.concatenate([number[gone], number[ended]]),
        np.concatenate([row[gone] + 1, row[ended]]),
    )


def _write(
    plan: Plan,
    standing: Standing,
    rows: Rows,
    row: NDArray[np.int64],
    number: NDArray[np.int32],
    kinds: NDArray[np.int64],
    far: NDArray[np.float64],
    tracks: Tracks | None,
    out: EventFile,
) -> None:
    if len(row) == 0:
        return
    order = _by_subscription(standing, row, number, kinds)
    row, number, kinds, far = row[order], number[order], kinds[order], far[order]
    at = pa.array(row)
    table = standing.table
    columns: dict[str, Any] = {
        "kind": kinds_of(kinds),
        "subscription": coded(table.column("id").combine_chunks(), number),
        "version": standing.versions[number],
        "x": np.ascontiguousarray(rows.positions[row, 0]),
        "y": np.ascontiguousarray(rows.positions[row, 1]),
        "distance": far,
        "meta": coded(table.column("meta").combine_chunks(), number),
    }
    if rows.ids is not None:
        columns["object"] = rows.ids.take(at)
    if rows.t is not None:
        columns["t"] = pa.array(rows.t[row])
        if tracks is not None and tracks.expired[row].any():
            over = tracks.expired[row]
            assert plan.options.expire is not None
            columns["t"] = pa.array(np.where(over, rows.t[row] + plan.options.expire, rows.t[row]))
            columns["reason"] = pa.array([EXPIRED if one else None for one in over], pa.string()).dictionary_encode()
    for name in plan.options.carry:
        columns[name] = rows.attributes[name].take(at)
    out.add(columns)


def _by_subscription(
    standing: Standing, row: NDArray[np.int64], number: NDArray[np.int32], kinds: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return events, by row, kind and number, in the order of ids where the indexes' own orders meet."""
    order = np.arange(len(row))
    if len(standing.parts) < 2:
        return order
    second = number >= standing.parts[1][0]
    group = row * 4 + kinds
    mixed = np.isin(group, np.intersect1d(group[second], group[~second]))
    some = np.flatnonzero(mixed)
    if len(some) == 0:
        return order
    ids = standing.table.column("id").take(pa.array(number[some]))
    keys = [("group", "ascending"), ("id", "ascending")]
    sorted_ = np.asarray(pc.sort_indices(pa.table({"group": group[some], "id": ids}), sort_keys=keys))
    order[some] = some[sorted_.astype(np.int64)]
    return order
