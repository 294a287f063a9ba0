"""The nearest objects, or rows, of a place in an interval: a radius is guessed from the blocks, then verified.

The guess is the least radius within which twice the rows that are wanted can be expected. All blocks within it are
read. If the k-th distance lies within, the answer is found; else all blocks as near as that are read, and it is.
Where fewer than k were found a larger radius is guessed once, and then there is none. So the answer is exact whatever
the guess, after three rounds at the most. (AQWA, section 5, asks one round for a bound that reads ten to a hundred
times as much, and that is none once there is an interval or a condition.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.geometry.distance import distance
from dtoss.geometry.rounding import TINY
from dtoss.history.query.block_queries import BlockQueries, Spans, chords_of, least_chords
from dtoss.history.query.read_plan import ChosenBlocks, blocks_met, blocks_of, joined_chosen, plan
from dtoss.history.query.scan_blocks import FoundRows, Scan, in_order, joined_found, pieces_of
from dtoss.history.row_blocks import BY_PLACE, BY_TIME, Blocks, order_keys

Per = Literal["object", "row"]
EXPECTED = 2.0
"""Times k: rows that are expected within the first guess."""
ROWS_OF_OBJECT = 4.0
"""Rows that an object is expected to have near a place, where objects are wanted."""
SECOND_GUESS = 32.0
"""Times which more rows are expected within the second guess."""
_NEAREST = 4096
"""Blocks, the nearest ones, from which a radius is guessed."""


@dataclass
class Rounds:
    """What the rounds of a question were: for ``explain`` and the benches."""

    # rounds, blocks, needed: how many rounds, how many blocks were read, and how many of those are as near as the k-th
    # hit
    rounds: int = 0
    blocks: int = 0
    needed: int = 0
    plan: dict[str, Any] = field(default_factory=dict)  # The facts of the first plan


def nearest_rows(
    scan: Scan,
    centres: NDArray[np.float64],
    k: int,
    furthest: NDArray[np.float64],
    spans: Spans,
    per: Per,
) -> tuple[FoundRows, list[Rounds]]:
    """Return the k nearest of each question in order, and what its rounds were.

    ``centres``: float64 (m, dimension). Vectors; ``furthest``: float64 (m,). Distances up to which rows count; inf for
    all; ``per``: "object": of each object its nearest row, the earliest of such; "row": all rows.
    """
    parts, told = [], []
    for number in range(len(centres)):
        span = take_rows(spans, slice(number, number + 1))
        found, rounds = _one(scan, centres[number], k, float(furthest[number]), span, per)
        parts.append(FoundRows(np.full(len(found), number), found.distance, found.rows))
        told.append(rounds)
    return joined_found(parts, scan.names, scan.version.schema), told


def reached(found: FoundRows, count: int) -> NDArray[np.float64]:
    """Return how far the furthest hit of each question is, float64 (count,); 0 where there is none."""
    far = np.zeros(count)
    np.maximum.at(far, found.question, found.distance)
    return far


def facts_of(told: list[Rounds]) -> dict[str, Any]:
    """Return the facts of questions, for ``explain``: those of the first plan, and the rounds of all."""
    first = told[0].plan if told else {}
    return {**first, "rounds": [one.rounds for one in told], "needed": sum(one.needed for one in told)}


def _one(
    scan: Scan, centre: NDArray[np.float64], k: int, furthest: float, span: Spans, per: Per
) -> tuple[FoundRows, Rounds]:
    space = scan.version.schema.space
    told = Rounds()
    limit = float(chords_of(np.array([furthest]), space)[0])
    best = joined_found([], scan.names, scan.version.schema)
    read: ChosenBlocks | None = None
    within, wanted = -1.0, EXPECTED * k * (ROWS_OF_OBJECT if per == "object" else 1.0)
    for last in (False, False, True):
        bound = float(best.distance[k - 1]) if len(best) >= k else np.inf
        if bound < np.inf:
            chord = min(float(chords_of(np.array([bound]), space)[0]), limit)
        elif last:
            chord = limit
        else:
            chord = min(_guessed(scan, centre, span, wanted), limit)
            wanted *= SECOND_GUESS
        if read is not None and chord <= within:
            break
        within = max(within, chord)
        asked = BlockQueries(span, centre[None], np.array([chord]), np.zeros(1, np.int64))
        orders = None if read is None else _orders_of(scan, read)
        fresh = plan(scan.version, asked, orders) if orders is None else None
        chosen = _again(scan, asked, orders) if fresh is None else fresh.chosen
        if fresh is not None:
            told.plan = dict(fresh.facts)
        new = chosen if read is None else _unread(chosen, read)
        told.rounds += 1
        told.blocks += len(new)
        best = _kept(best, scan, new, asked, centre, k, furthest, per)
        read = new if read is None else joined_chosen([read, new])
        if chord >= limit:
            break
    told.needed = _needed(scan, read, centre, best, k, limit)
    return best, told


def _guessed(scan: Scan, centre: NDArray[np.float64], span: Spans, wanted: float) -> float:
    """Return the least distance of vectors within which so many rows are expected; inf where all are fewer."""
    version = scan.version
    asked = BlockQueries(span)
    has = (version.periods.orders >> np.uint8(BY_PLACE)) & np.uint8(1) == 1
    parts = []
    for code, periods in ((BY_PLACE, version.periods.number[has]), (BY_TIME, version.periods.number[~has])):
        chosen = blocks_met(version, asked, code)
        parts.append(chosen.take(np.isin(version.leaves.period[chosen.leaf], periods)))
    blocks = blocks_of(version, joined_chosen(parts))
    least, most = least_chords(blocks.low, blocks.high, centre)
    share = _share_of_time(blocks, span)
    rows = (blocks.rows - blocks.marks) * share
    if len(least) > _NEAREST:
        near = np.argpartition(least, _NEAREST)[:_NEAREST]
        if rows[near].sum() > EXPECTED * wanted:
            least, most, rows = least[near], most[near], rows[near]
    there = np.isfinite(least)
    least, most, rows = least[there], most[there], rows[there]
    if rows.sum() < wanted:
        return np.inf
    low, high = 0.0, float(most.max())
    power = min(len(centre), 2)
    for _ in range(30):
        middle = (low + high) / 2
        with np.errstate(over="ignore"):  # boxes of one place in a wide plane
            part = np.clip((middle - least) / np.maximum(most - least, TINY), 0.0, 1.0) ** power
        if float((part * rows).sum()) >= wanted:
            high = middle
        else:
            low = middle
    return high


def _share_of_time(blocks: Blocks, span: Spans) -> NDArray[np.float64]:
    """Return which share of a block's span of time the interval is, float64 (n,)."""
    begin = blocks.t_from.astype(np.float64)
    length = blocks.t_to.astype(np.float64) - begin
    overlap = np.minimum(blocks.t_to, span.last[0]).astype(np.float64)
    overlap -= np.maximum(blocks.t_from, span.first[0]).astype(np.float64)
    return np.where(length > 0, np.clip(overlap / np.maximum(length, TINY), 0.0, 1.0), 1.0)


def _kept(
    best: FoundRows,
    scan: Scan,
    chosen: ChosenBlocks,
    asked: BlockQueries,
    centre: NDArray[np.float64],
    k: int,
    furthest: float,
    per: Per,
) -> FoundRows:
    """Return the k nearest of what is known and what chosen blocks hold."""
    space = scan.version.schema.space
    for piece in pieces_of(scan, chosen):
        good = piece.good & (piece.t >= asked.spans.first[0]) & (piece.t <= asked.spans.last[0])
        rows = np.flatnonzero(good)
        far = np.asarray(distance(space.vectors(piece.positions(rows)), centre[None])).reshape(len(rows))
        bound = min(furthest, float(best.distance[k - 1]) if len(best) >= k else np.inf)
        near = far <= bound
        rows, far = rows[near], far[near]
        if len(rows):
            more = FoundRows(np.zeros(len(rows), np.int64), far, piece.rows.take(rows).select(scan.names))
            best = _first(joined_found([best, more], scan.names, scan.version.schema), k, per)
    return best


def _first(found: FoundRows, k: int, per: Per) -> FoundRows:
    ordered = in_order(found)
    if per == "object":
        keys = _ids(ordered.rows)
        first = np.sort(np.unique(keys, return_index=True)[1])
        ordered = ordered.take(first[:k])
    return ordered.take(np.arange(min(k, len(ordered))))


def _ids(rows: pa.Table) -> NDArray[np.int64]:
    column = rows.column("id").combine_chunks()
    return order_keys(pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column)


def _orders_of(scan: Scan, read: ChosenBlocks) -> dict[int, int]:
    """Return the order in which each period was read, by its number; those of which nothing was are not there."""
    leaves = scan.version.leaves
    return dict(zip(leaves.period[read.leaf].tolist(), leaves.order[read.leaf].tolist(), strict=True))


def _again(scan: Scan, asked: BlockQueries, orders: dict[int, int] | None) -> ChosenBlocks:
    """Return the blocks that are met, of each period in the order that was read before, or else its cheapest."""
    version, known = scan.version, orders or {}
    fresh = plan(version, asked).chosen
    period = version.leaves.period[fresh.leaf]
    parts = [fresh.take(~np.isin(period, np.array(list(known), np.int64)))]
    for code in sorted(set(known.values())):
        mine = np.array([number for number, order in known.items() if order == code], np.int64)
        chosen = blocks_met(version, asked, code)
        parts.append(chosen.take(np.isin(version.leaves.period[chosen.leaf], mine)))
    return joined_chosen(parts)


def _unread(chosen: ChosenBlocks, read: ChosenBlocks) -> ChosenBlocks:
    """Return those of chosen blocks that were not read yet."""
    known = set(zip(read.segment.tolist(), read.block.tolist(), strict=True))
    fresh = [pair not in known for pair in zip(chosen.segment.tolist(), chosen.block.tolist(), strict=True)]
    return chosen.take(np.array(fresh, np.bool_))


def _needed(
    scan: Scan, read: ChosenBlocks | None, centre: NDArray[np.float64], best: FoundRows, k: int, limit: float
) -> int:
    """Return how many of the blocks that were read are as near as the k-th hit: no method could read fewer of them."""
    if read is None or not len(read):
        return 0
    blocks = blocks_of(scan.version, read)
    bound = limit
    if len(best) >= k:
        bound = min(bound, float(chords_of(best.distance[k - 1 : k], scan.version.schema.space)[0]))
    return int((least_chords(blocks.low, blocks.high, centre)[0] <= bound).sum())
