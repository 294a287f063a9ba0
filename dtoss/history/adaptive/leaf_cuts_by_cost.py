"""Where a leaf is cut: a tree grown by what questions read, and pruned from below where a cut gains nothing.

The gain is C_d of the paper's section 4.2.2, C = sum of w x (g + bytes really read) in stead of points. One cut at a
time would stop too early, so trees are grown first (Breiman, Friedman, Olshen, Stone: CART, 1984).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dtoss.history.adaptive.cost import Points, Prices, cost_of, reads_of, run_of
from dtoss.history.questions import Questions

QUANTILES = 7
"""Cuts that are tried on each axis: the best of them has 95 % of the best gain there is, the median alone 81 %."""
IMAGINED, IMAGINED_SHARE = 64, 0.25
"""Questions that are imagined at the most, and how much all of them count beside all that were asked."""
Cell = tuple[float, float, float, float]
"""x0, y0, x1, y1 of a leaf: x0 < x <= x1, y0 < y <= y1."""


@dataclass(frozen=True)
class Cut:
    """A leaf as it would be cut."""

    # The rows of each new leaf, by ascending numbers, with its cell; side by side in the tree
    parts: list[tuple[NDArray[np.int64], Cell]]
    cost: NDArray[np.float64]  # float64 (m,). What each question would cost


def imagined(
    points: Points, questions: Questions, weights: NDArray[np.float64]
) -> tuple[Questions, NDArray[np.float64]]:
    """Return questions of the same shapes and intervals that were never asked, elsewhere among the rows; and weights.

    A leaf that is rewritten for what was asked in one corner is cut all over for the same price. Without them the rest
    stays one large leaf, which the next hotspot has to pay for again.

    ``questions``, ``weights``: float64 (m,). What was asked there, of which the last ones are moved.
    """
    there = np.flatnonzero(~np.isnan(points.vectors[:, 0]))
    placed = np.flatnonzero(np.diff(questions.begin) > 0)[-IMAGINED:]
    if not len(there) or not len(placed):
        return questions.take(placed[:0]), weights[:0]
    some = questions.take(placed)
    # rows lie by time, so evenly chosen ones are from all over; their order has nothing to do with the questions'
    where = points.vectors[there[(np.arange(len(some)) * len(there)) // len(some)]]
    first = some.begin[:-1]
    moved = where - (some.low[first] + some.high[first]) / 2
    each = np.repeat(moved, np.diff(some.begin), axis=0)
    count = np.full(len(some), IMAGINED_SHARE * weights.sum() / len(some))
    return replace(some, low=some.low + each, high=some.high + each), count


def best_cut(points: Points, cell: Cell, questions: Questions, weights: NDArray[np.float64], prices: Prices) -> Cut:
    """Return the tree that costs least among those that are tried; one part where no cut gains.

    ``questions``, ``weights``: float64 (m,). What is asked, and what each counts.

    Cost O(levels (rows quantiles + m blocks)). Rows of one place stay together.
    """
    rows = np.arange(len(points), dtype=np.int64)
    cost = _cost(points, rows, questions, prices)
    return _grown(points, rows, cell, questions, weights, cost, prices)


def _grown(
    points: Points,
    rows: NDArray[np.int64],
    cell: Cell,
    questions: Questions,
    weights: NDArray[np.float64],
    cost: NDArray[np.float64],
    prices: Prices,
) -> Cut:
    whole = Cut([(rows, cell)], cost)
    active = np.flatnonzero(cost > 0.0)
    if not len(active) or len(rows) * points.row_bytes < 2 * prices.least:
        return whole
    some, counts = questions.take(active), weights[active]
    found = _tried(points, rows, some, counts, prices)
    if found is None:
        return whole
    axis, at, costs = found
    left, right = _sides(points, rows, axis, at)
    cells = _cells(cell, axis, at)
    parts = [
        _grown(points, side, part, some, counts, of_side, prices)
        for side, part, of_side in zip((left, right), cells, costs, strict=True)
    ]
    together = parts[0].cost + parts[1].cost
    if together @ counts >= cost[active] @ counts:
        return whole
    after = np.zeros(len(questions))
    after[active] = together
    return Cut(parts[0].parts + parts[1].parts, after)


def _tried(
    points: Points,
    rows: NDArray[np.int64],
    questions: Questions,
    weights: NDArray[np.float64],
    prices: Prices,
) -> tuple[int, float, list[NDArray[np.float64]]] | None:
    """Return axis, place and costs of both sides of the cut of least cost; None where none can be made."""
    least = max(prices.least / points.row_bytes, 1.0)
    best = np.inf
    found = None
    for axis in range(2):
        values = points.positions[rows, axis]
        for at in _quantiles(values):
            left, right = _sides(points, rows, axis, at)
            if min(len(left), len(right)) < least:
                continue
            costs = [_cost(points, side, questions, prices) for side in (left, right)]
            total = float((costs[0] + costs[1]) @ weights)
            if total < best:
                best, found = total, (axis, at, costs)
    return found


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    known = np.sort(values[:: _stride(len(values))])
    known = known[~np.isnan(known)]
    if not len(known):
        return []
    at = np.arange(1, QUANTILES + 1) * len(known) // (QUANTILES + 1)
    return sorted({float(value) for value in known[at] if value < known[-1]})


_SAMPLED = 4096
"""Rows by which quantiles are known well enough."""


def _stride(rows: int) -> int:
    return max(rows // _SAMPLED, 1)


def _sides(points: Points, rows: NDArray[np.int64], axis: int, at: float) -> tuple[NDArray[np.int64], ...]:
    left = points.positions[rows, axis] <= at  # a deletion without a place goes right
    return rows[left], rows[~left]


def _cells(cell: Cell, axis: int, at: float) -> tuple[Cell, Cell]:
    x0, y0, x1, y1 = cell
    return ((x0, y0, at, y1), (at, y0, x1, y1)) if axis == 0 else ((x0, y0, x1, at), (x0, at, x1, y1))


def _cost(points: Points, rows: NDArray[np.int64], questions: Questions, prices: Prices) -> NDArray[np.float64]:
    return cost_of(reads_of(run_of(points, rows, prices), questions, prices), prices)
