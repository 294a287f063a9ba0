"""Many places at once, each with a radius and an interval of its own: which rows are near them, or nearest.

Where :mod:`dtoss.history.query.range_query` and :mod:`dtoss.history.query.nearest_query` answer place by place, here
blocks are read once for all places that they concern, and rows are compared by a kernel.

Many places of one question: blocks are read once for all of them, and rows are compared by a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.geometry.hilbert import curve_keys
from dtoss.history.query.block_pairs import Places, Rows, answers, guessed, pairs, time_keys, touched
from dtoss.history.query.block_queries import BlockQueries, Spans
from dtoss.history.query.read_plan import (
    ChosenBlocks,
    costs,
    every_block,
    gather_column,
    joined_chosen,
    plan,
    request_bytes,
)
from dtoss.history.query.scan_blocks import FoundRows, Piece, Scan, in_order, joined_found, pieces_of
from dtoss.history.row_blocks import BY_PLACE, BY_TIME, order_keys
from dtoss.history.versions import Version

MOST_HELD = 4_000_000
"""Rows held for several places above which they are asked in halves."""
_SURPLUS, _ROWS_AN_OBJECT = 2.0, 8.0
"""Rows that are looked for, for one that is wanted: of rows, and of objects, which stand there for a while."""
_FIRST_TRY = 1.0 / 32.0
"""Share of a radius within which the nearest are looked for first, among rows that were read."""
_ROUNDS = 8
"""Of growing radii, after which everything is asked."""


@dataclass(frozen=True)
class NeighbourQuery:
    """What is wanted of the rows near places."""

    k: int = 0  # The k nearest; 0 for all
    per_object: bool = False  # Of each id the nearest row only, the earliest of such
    own: pa.Array | None = None  # The id of each place, whose rows are left out; None where none is

    def take(self, rows: NDArray[np.int64]) -> NeighbourQuery:
        """Return what is wanted of some of the places."""
        return self if self.own is None else replace(self, own=self.own.take(pa.array(rows)))


def near(scan: Scan, places: Places, wanted: NeighbourQuery, most_held: int = MOST_HELD) -> Iterator[FoundRows]:
    """Yield the rows that answer places, some places at a time, each place once and whole, in order.

    ``most_held``: rows that are held at a time.

    The answers are the same whatever order is read of a period, and whatever radius is guessed for the nearest. What is
    held at a time is at most so many rows and a few blocks, or the answer of one place where that is more.
    """
    waiting = [np.arange(len(places))]
    while waiting:
        some = waiting.pop()
        search = _Search(scan, wanted.take(some), most_held)
        found = search.nearest(places.take(some)) if wanted.k else search.within(places.take(some))
        if found is None:
            half = len(some) // 2
            waiting += [some[half:], some[:half]]
        else:
            yield replace(found, question=some[found.question])


def chosen_for(version: Version, places: Places) -> ChosenBlocks:
    """Return the blocks that may hold answers: of each period in the order in which they cost least. Cost O(n m).

    As :func:`dtoss.history.query.read_plan.plan`, but a block is only chosen where it meets the disc and the interval
    of one and the same place.
    """
    leaves, periods = version.leaves, version.periods
    concerned = touched(leaves, places)
    parts, prices = [], []
    for code in (BY_TIME, BY_PLACE):
        rows = np.flatnonzero(concerned & (leaves.order == code))
        chosen = every_block(version, rows[np.lexsort((leaves.offset[rows], leaves.file[rows]))])
        chosen = chosen.take(touched(_Bounds(version, chosen), places))
        period = np.searchsorted(periods.number, leaves.period[chosen.leaf])
        ranges, size = costs(version, chosen, period, len(periods))
        has = periods.orders >> np.uint8(code) & np.uint8(1) == 1
        prices.append(np.where(has, size + float(request_bytes(version)) * ranges, np.inf))
        parts.append((chosen, period))
    cheapest = np.argmin(prices, axis=0)
    return joined_chosen([chosen.take(cheapest[period] == turn) for turn, (chosen, period) in enumerate(parts)])


class _Bounds:
    """Boxes and spans of chosen blocks."""

    def __init__(self, version: Version, chosen: ChosenBlocks) -> None:
        self.low, self.high = (gather_column(version, chosen, name) for name in ("low", "high"))
        self.t_from, self.t_to = (gather_column(version, chosen, name) for name in ("t_from", "t_to"))


@dataclass(frozen=True)
class _Search:
    scan: Scan
    wanted: NeighbourQuery
    most_held: int

    def within(self, places: Places) -> FoundRows | None:
        """Return all rows within the radii; None where they are too many for several places."""
        held: list[FoundRows] = []
        count = 0
        for rows, piece in self._pieces(places):
            held.append(self._near(rows, piece, places, np.arange(len(places))))
            count += len(held[-1])
            if count > self.most_held and len(places) > 1:
                return None
        return in_order(self._joined(held))

    def nearest(self, places: Places) -> FoundRows:
        """Return the k nearest rows or objects within the radii."""
        done: list[FoundRows] = []
        left = np.arange(len(places))
        guess = self._guessed(places)
        for turn in range(_ROUNDS + 1):
            radius = places.radius[left] if turn == _ROUNDS else np.minimum(guess[left], places.radius[left])
            search = replace(self, wanted=self.wanted.take(left))
            found = search._nearest_within(replace(places.take(left), radius=radius))
            count = np.bincount(found.question, minlength=len(left))
            enough = (count >= self.wanted.k) | (radius >= places.radius[left])
            whole = found.take(np.flatnonzero(enough[found.question]))
            done.append(replace(whole, question=left[whole.question]))
            # twice the area that would hold k of them, if they lay evenly
            guess[left] *= np.maximum(np.sqrt(2.0 * self.wanted.k / np.maximum(count, 0.5)), 2.0)
            left = left[~enough]
            if not len(left):
                break
        return in_order(self._joined(done))

    def _nearest_within(self, places: Places) -> FoundRows:
        held, radius = self._joined([]), places.radius.copy()
        for rows, piece in self._pieces(places):
            held = self._kept([held, *self._nearest_of(rows, piece, replace(places, radius=radius))])
            count = np.bincount(held.question, minlength=len(radius))
            full = np.flatnonzero(count >= self.wanted.k)
            # what is further than the k-th of a place is no answer
            radius[full] = np.minimum(radius[full], held.distance[np.cumsum(count)[full] - 1])
        return held

    def _nearest_of(self, rows: Rows, piece: Piece, places: Places) -> Iterator[FoundRows]:
        """Yield rows of a piece among which are the k nearest within the radii: not all of those, which may be many."""
        left = np.unique(pairs(piece.blocks, places)[1]).astype(np.int64)
        radius = np.where(np.isfinite(places.radius), places.radius * _FIRST_TRY, np.inf)
        while len(left):
            trial = np.minimum(radius[left], places.radius[left])
            found = self._near(rows, piece, replace(places.take(left), radius=trial), left)
            enough = self._distinct(found, len(places))[left] >= self.wanted.k
            enough |= trial >= places.radius[left]
            done = np.zeros(len(places), np.bool_)
            done[left[enough]] = True
            yield found.take(np.flatnonzero(done[found.question]))
            radius *= 2.0
            left = left[~enough]

    def _distinct(self, found: FoundRows, many: int) -> NDArray[np.int64]:
        """Return how many rows, or objects where those are wanted, were found for each place."""
        question = found.question
        if self.wanted.per_object and len(found):
            ids = order_keys(found.rows.column("id").combine_chunks())
            by = np.lexsort((ids, question))
            question, ids = question[by], ids[by]
            again = (question[1:] == question[:-1]) & (ids[1:] == ids[:-1])
            question = question[np.append(True, ~again)]
        return np.bincount(question, minlength=many)

    def _pieces(self, places: Places) -> Iterator[tuple[Rows, Piece]]:
        space = self.scan.version.schema.space
        for piece in pieces_of(self.scan, chosen_for(self.scan.version, places)):
            yield Rows.of(piece, space), piece

    def _near(self, rows: Rows, piece: Piece, places: Places, numbers: NDArray[np.int64]) -> FoundRows:
        """Return the rows of a piece within the radii of places, which are called by numbers."""
        place, row, far = answers(rows, piece.blocks, places)
        found = FoundRows(numbers[place], far, piece.rows.select(self.scan.names).take(pa.array(row)))
        return found if self.wanted.own is None else _of_others(found, self.wanted.own)

    def _kept(self, parts: Sequence[FoundRows]) -> FoundRows:
        """Return the k nearest of some rows, in order."""
        found = in_order(self._joined(parts))
        if self.wanted.per_object and len(found):
            # rows of an object are not side by side: they lie by their distance
            ids = order_keys(found.rows.column("id").combine_chunks())
            by = np.lexsort((np.arange(len(found)), ids, found.question))
            again = (ids[by[1:]] == ids[by[:-1]]) & (found.question[by[1:]] == found.question[by[:-1]])
            found = found.take(np.sort(by[np.append(True, ~again)]))
        before = np.searchsorted(found.question, found.question)
        return found.take(np.flatnonzero(np.arange(len(found)) - before < self.wanted.k))

    def _joined(self, parts: Sequence[FoundRows]) -> FoundRows:
        return joined_found(parts, self.scan.names, self.scan.version.schema)

    def _guessed(self, places: Places) -> NDArray[np.float64]:
        version = self.scan.version
        leaves, periods = version.leaves, version.periods
        placed = np.isin(leaves.period, periods.number[periods.orders >> np.uint8(BY_PLACE) & np.uint8(1) == 1])
        leaves = leaves.take(leaves.order == np.where(placed, BY_PLACE, BY_TIME))
        rows = self.wanted.k * (_ROWS_AN_OBJECT if self.wanted.per_object else _SURPLUS)
        return guessed(leaves, leaves.rows, places, rows, version.schema.space)


def _of_others(found: FoundRows, own: pa.Array) -> FoundRows:
    mine = own.take(pa.array(found.question)).cast(found.rows.schema.field("id").type)
    same = pc.fill_null(pc.equal(found.rows.column("id").combine_chunks(), mine), False)
    return found.take(np.flatnonzero(~same.to_numpy(zero_copy_only=False)))


def cuts(rows: NDArray[np.integer], most: int) -> list[tuple[int, int]]:
    """Return runs of blocks, as first and end, of about so many rows each.

    Examples
    --------
    >>> cuts(np.array([4, 4, 4, 1]), 8), cuts(np.array([], int), 8)
    ([(0, 2), (2, 4)], [])
    """
    if not len(rows):
        return []
    turn = (np.cumsum(rows, dtype=np.int64) - 1) // most
    firsts = np.flatnonzero(np.diff(turn, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True))


TOGETHER_FROM = 8
"""Places from which on they are asked together."""
_AT_ONCE = 1024
"""Places that are asked together, neighbours along a curve."""


def near_many(
    scan: Scan, centres: NDArray[np.float64], radii: NDArray[np.float64], spans: Spans, what: NeighbourQuery
) -> FoundRows:
    """Return the rows that answer places, in order: those of :mod:`dtoss.history.query.range_query` and ``nearest``.

    ``centres``: float64 (m, dimension); ``radii``: float64 (m,).
    """
    places = Places(centres, radii, time_keys(spans.first), time_keys(spans.last))
    order = np.argsort(curve_keys(np.ascontiguousarray(centres)), kind="stable")
    parts = []
    for begin in range(0, len(order), _AT_ONCE):
        some = order[begin : begin + _AT_ONCE]
        parts += [replace(one, question=some[one.question]) for one in near(scan, places.take(some), what)]
    return in_order(joined_found(parts, scan.names, scan.version.schema))


def facts_of_many(scan: Scan, asked: BlockQueries) -> dict[str, Any]:
    """Return what each order would read for all of the places, as the facts of a plan."""
    return dict(plan(scan.version, asked).facts)
