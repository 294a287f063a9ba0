"""The cells that hold the k nearest points of a place, by counts alone: kNN as one range question (5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.history.aqwa.aqwa_grid import Grid, PointCounts, Rectangle

Floats = NDArray[np.float64]
_FIRST_REACH = 4
"""Cells on each side of the place that are looked at first; twice as many each time that they do not do."""


def nearest_rectangle(grid: Grid, counts: PointCounts, place: tuple[float, float], k: int) -> Rectangle:
    """Return the rectangle of cells that holds the k nearest points; all cells where there are fewer points.

    Cells are gone through by their least distance until they have k points; M is the largest of the greatest distances
    of the cells that were seen, empty ones too. Cells nearer than M hold the answer, and their bounding rectangle is
    asked. That is loose: enough would be the greatest distance at which k points are counted.

    Distances are of the plane, in the grid's unit. Cells that are as near are gone through by row, then column.
    """
    if k < 1:
        raise ValueError(f"k is {k}: give 1 or more")
    if not np.isfinite(place).all():
        raise ValueError(f"the place {place} is not finite")
    if counts.within(*grid.everything) < k:
        return grid.everything
    x_least, x_most = _distances(grid.x, place[0])
    y_least, y_most = _distances(grid.y, place[1])
    reach = _FIRST_REACH
    while True:
        part = _around(x_least, y_least, reach)
        most = _greatest(part, counts, (x_least, x_most), (y_least, y_most), k)
        if most is not None:
            break
        reach *= 2
    columns = np.flatnonzero(x_least**2 + y_least.min() ** 2 <= most)
    rows = np.flatnonzero(y_least**2 + x_least.min() ** 2 <= most)
    return Rectangle(int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)


def _distances(lines: Floats, value: float) -> tuple[Floats, Floats]:
    """Return the least and the greatest distance along an axis to each interval between lines."""
    below, above = value - lines[:-1], lines[1:] - value
    return np.maximum(0.0, np.maximum(-below, -above)), np.maximum(below, above)


def _around(x_least: Floats, y_least: Floats, reach: int) -> Rectangle:
    column, row = int(np.argmin(x_least)), int(np.argmin(y_least))
    return Rectangle(
        max(row - reach, 0),
        max(column - reach, 0),
        min(row + reach + 1, len(y_least)),
        min(column + reach + 1, len(x_least)),
    )


def _greatest(
    part: Rectangle, counts: PointCounts, x: tuple[Floats, Floats], y: tuple[Floats, Floats], k: int
) -> float | None:
    """Return the square of M; None if cells outside of the part may come before those of it that have k points."""
    rows, columns = slice(part.top, part.bottom), slice(part.left, part.right)
    least = (y[0][rows, None] ** 2 + x[0][None, columns] ** 2).ravel()
    outside = [
        *(y[0][row] for row in (part.top - 1, part.bottom) if 0 <= row < len(y[0])),
        *(x[0][column] for column in (part.left - 1, part.right) if 0 <= column < len(x[0])),
    ]
    order = np.argsort(least, kind="stable")
    before = order if not outside else order[least[order] < min(outside) ** 2]
    found = counts.cells(part).ravel()[before].cumsum()
    enough = int(np.searchsorted(found, k))
    if enough == len(found):
        return None
    most = (y[1][rows, None] ** 2 + x[1][None, columns] ** 2).ravel()
    return float(most[before[: enough + 1]].max())
