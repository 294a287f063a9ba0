"""What the AQWA paper would do with the leaves of a period: ``adapt(method="aqwa")``, for comparison.

Files are whole leaves, a question is the rectangle around it without its interval, and points are cost. Nothing is
merged. The same questions lead to the same cuts, and those of the leaves that come to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dtoss.history.adaptive.cost import Points, Prices
from dtoss.history.adaptive.leaf_cuts_by_cost import Cell
from dtoss.history.adaptive.rewrite_decisions import Decision, Leaf, Load, Rewriting
from dtoss.history.aqwa.aqwa_grid import PointCounts
from dtoss.history.aqwa.aqwa_partitions import PaperCuts, Rule, grid_of_leaves, paper_cuts
from dtoss.history.questions import Questions

Floats = NDArray[np.float64]
_EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)


def decide_by_paper(
    leaves: Sequence[Leaf], questions: Questions, load: Load, prices: Prices, most: float = np.inf
) -> Decision:
    """Return which leaves of a period the paper cuts. All rows are read twice to be counted.

    ``leaves``: all leaves of its place order; ``prices``: of them, the least bytes of a leaf are the paper's block: by
    them and the bytes of a row goes minCount; ``most``: bytes to be rewritten, beyond which no leaf is cut: the next
    decision goes on.
    """
    rows = sum(leaf.rows for leaf in leaves)
    box = _box(leaves, load)
    if box is None or not len(questions):
        return Decision([])
    cells = np.array([leaf.cell for leaf in leaves], np.float64)
    grid = grid_of_leaves(cells, box)
    counts = PointCounts.of_parts(grid, (_placed(load((number,))) for number in range(len(leaves))))
    row_bytes = sum(leaf.run.size for leaf in leaves) / max(rows, 1)
    made = paper_cuts(
        grid, counts, cells, boxes_of(questions), Rule(int(prices.least / row_bytes)), int(questions.number[0]) - 1
    )
    rewritings: list[Rewriting] = []
    for number in sorted(cut.part for cut in made.cuts if cut.part < len(leaves)):
        if sum(one.size for one in rewritings) >= most:
            break
        rewritings.append(_rewriting(number, leaves[number], load, made))
    return Decision(rewritings, {}, 2 * sum(leaf.run.size for leaf in leaves))


def boxes_of(questions: Questions) -> Iterator[tuple[float, float, float, float]]:
    """Yield the rectangle of x and y, or lon and lat, around each question; everything where it has no place.

    On the sphere it is all longitudes for what is near a pole or crosses the antimeridian.
    """
    for begin, end in zip(questions.begin[:-1], questions.begin[1:], strict=True):
        if begin == end:
            yield _EVERYWHERE
            continue
        reach = questions.reach[begin:end, None]
        low, high = questions.low[begin:end] - reach, questions.high[begin:end] + reach
        pieces = low, high
        if low.shape[1] == 2:
            x, y = (np.array([low[:, axis], high[:, axis]]) for axis in range(2))
        else:
            x, y = _degrees(*pieces)
        yield float(x.min()), float(y.min()), float(x.max()), float(y.max())


def _degrees(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return lon and lat between which boxes of vectors are, float64 (2, boxes) each, in degrees."""
    lat = np.degrees(np.arcsin(np.clip([low[:, 2], high[:, 2]], -1.0, 1.0)))
    corners = [np.degrees(np.arctan2(y[:, 1], x[:, 0])) for x in (low, high) for y in (low, high)]
    lon = np.array([np.min(corners, axis=0), np.max(corners, axis=0)])
    # a box that has the axis in it, or the half plane of 180 degrees across it
    behind = (low[:, 1] <= 0.0) & (high[:, 1] >= 0.0) & (low[:, 0] <= 0.0)
    lon[0, behind], lon[1, behind] = -180.0, 180.0
    return lon, lat


def _box(leaves: Sequence[Leaf], load: Load) -> tuple[float, float, float, float] | None:
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    for number in range(len(leaves)):
        places = _placed(load((number,)))
        if len(places):
            low, high = np.minimum(low, places.min(axis=0)), np.maximum(high, places.max(axis=0))
    if not (low <= high).all():
        return None
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _placed(points: Points) -> Floats:
    """Return the positions of rows that have one."""
    return points.positions[~np.isnan(points.positions).any(axis=1)]


def _rewriting(number: int, leaf: Leaf, load: Load, made: PaperCuts) -> Rewriting:
    """Return a leaf's rows by the leaves that come; a deletion without a place goes to the second half."""
    points = load((number,))
    held = {number: np.arange(len(points), dtype=np.int64)}
    cells: dict[int, Cell] = {number: leaf.cell}
    saved = 0.0
    for cut, at, gain in zip(made.cuts, made.at.tolist(), made.saved.tolist(), strict=True):
        if cut.part not in held:
            continue
        rows, (x0, y0, x1, y1) = held.pop(cut.part), cells.pop(cut.part)
        first = points.positions[rows, 1 if cut.across_rows else 0] <= at
        held[cut.first], held[cut.second] = rows[first], rows[~first]
        cells[cut.first] = (x0, y0, x1, at) if cut.across_rows else (x0, y0, at, y1)
        cells[cut.second] = (x0, at, x1, y1) if cut.across_rows else (at, y0, x1, y1)
        saved += gain * points.row_bytes
    return Rewriting((number,), points, [(held[part], cells[part]) for part in held], leaf.run.size, saved, saved)
