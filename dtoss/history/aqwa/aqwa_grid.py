"""The grid of cells to which the paper rounds, and how many points and questions a rectangle has (4.1, 4.2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GRID_LINES = 1000
"""Cells an axis, as in the paper's experiments (7)."""


class Rectangle(NamedTuple):
    """Cells in rows [top, bottom) and columns [left, right); rows go up with y."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True)
class Grid:
    """Lines across both axes. A cell is half-open, (x[i], x[i + 1]]; the first one has its lower border too."""

    # x, y: where the lines are, ascending, float64 (columns + 1,) and (rows + 1,). The outermost may be infinite
    x: Floats
    y: Floats

    @property
    def rows(self) -> int:
        """How many cells a column has."""
        return len(self.y) - 1

    @property
    def columns(self) -> int:
        """How many cells a row has."""
        return len(self.x) - 1

    @property
    def everything(self) -> Rectangle:
        """All cells."""
        return Rectangle(0, 0, self.rows, self.columns)

    def cells(self, places: Floats) -> tuple[Ints, Ints]:
        """Return the row and the column of each place, int64 (n,).

        ``places``: float64 (n, 2): x, y.
        """
        places = np.asarray(places, np.float64).reshape(-1, 2)
        outside = ~(
            (places[:, 0] >= self.x[0])
            & (places[:, 0] <= self.x[-1])
            & (places[:, 1] >= self.y[0])
            & (places[:, 1] <= self.y[-1])
        )
        if outside.any():
            x, y = places[np.argmax(outside)]
            raise ValueError(
                f"place ({x:g}, {y:g}) is not within x {self.x[0]:g} to {self.x[-1]:g}, y {self.y[0]:g} to "
                f"{self.y[-1]:g}; make the grid over a larger box"
            )
        return _cell(self.y, places[:, 1]), _cell(self.x, places[:, 0])

    def touched(self, box: ArrayLike) -> Rectangle:
        """Return the cells that a box has places of; an empty rectangle where it is outside of the grid."""
        x0, y0, x1, y1 = np.asarray(box, np.float64)
        if x1 < self.x[0] or x0 > self.x[-1] or y1 < self.y[0] or y0 > self.y[-1] or x0 > x1 or y0 > y1:
            return Rectangle(0, 0, 0, 0)
        top, bottom = _cell(self.y, np.array([y0, y1]))
        left, right = _cell(self.x, np.array([x0, x1]))
        return Rectangle(int(top), int(left), int(bottom) + 1, int(right) + 1)

    def box(self, cells: Rectangle) -> tuple[float, float, float, float]:
        """Return what a rectangle of cells covers, half-open: least x, least y, greatest x, greatest y."""
        x0, y0, x1, y1 = self.x[cells.left], self.y[cells.top], self.x[cells.right], self.y[cells.bottom]
        return float(x0), float(y0), float(x1), float(y1)


def _cell(lines: Floats, values: Floats) -> Ints:
    return np.clip(np.searchsorted(lines, values, side="left") - 1, 0, len(lines) - 2).astype(np.int64)


At = int | Ints
"""A row or a column; or many, which are broadcast."""


@dataclass(frozen=True)
class PointCounts:
    """Points of each cell, summed along rows and then along columns."""

    sums: Ints  # int64 (rows + 1, columns + 1): [i, j] has the points in rows below i and columns below j

    @classmethod
    def of(cls, grid: Grid, places: NDArray[np.float64]) -> PointCounts:
        """Return the counts of places, float64 (n, 2). O(n + cells)."""
        return cls.of_parts(grid, [places])

    @classmethod
    def of_parts(cls, grid: Grid, parts: Iterable[NDArray[np.float64]]) -> PointCounts:
        """Return the counts of places that come in parts."""
        flat = np.zeros(grid.rows * grid.columns, np.int64)
        for places in parts:
            row, column = grid.cells(places)
            np.add.at(flat, row * grid.columns + column, 1)
        sums = np.zeros((grid.rows + 1, grid.columns + 1), np.int64)
        sums[1:, 1:] = flat.reshape(grid.rows, grid.columns).cumsum(axis=1).cumsum(axis=0)
        return cls(sums)

    def with_more(self, appended: PointCounts) -> PointCounts:
        """Return the counts after a batch, which was counted by itself (4.2.1)."""
        return PointCounts(self.sums + appended.sums)

    def within(self, top: At, left: At, bottom: At, right: At) -> Ints:
        """Return the points of rectangles of cells, by four look-ups each; int64, of the arguments' shape."""
        s = self.sums
        return np.asarray(s[bottom, right] - s[top, right] - s[bottom, left] + s[top, left])

    def cells(self, part: Rectangle) -> Ints:
        """Return the points of each cell of a part of the grid, int64 (rows, columns)."""
        s = self.sums[part.top : part.bottom + 1, part.left : part.right + 1]
        return np.asarray(np.diff(np.diff(s, axis=0), axis=1))


class QueryCounters:
    """How many questions overlap a rectangle of cells, each counted once, older ones with less weight.

    Each cell has four counters: of the questions that touch it, of those of them that do not touch the cell on its
    left, not the one above, neither. The second are summed along rows, the third along columns, the fourth along both.
    So a question counts for a rectangle at the first cell that they share, and nowhere else.

    Each counter has two parts. Every `fade_every` questions the old part becomes ``old / fading + new``, and the new
    one 0 (4.2.4).

    ``asked``: questions before the first, which count nowhere any more.
    """

    def __init__(self, grid: Grid, fade_every: int, fading: float, asked: int = 0) -> None:
        self.fade_every = fade_every
        self.fading = fading
        self.asked = asked
        self.old: Floats = np.zeros((4, grid.rows, grid.columns))
        self.new: Floats = np.zeros((4, grid.rows, grid.columns))

    def add(self, question: Rectangle) -> None:
        """Count a question by the cells that it touches. O(cells) at worst: all to its right and below."""
        top, left, bottom, right = question
        touching, not_left, not_above, neither = self.new
        if top < bottom and left < right:
            touching[top:bottom, left:right] += 1
            not_left[top:bottom, left:] += 1
            not_above[top:, left:right] += 1
            neither[top:, left:] += 1
        self.asked += 1
        if self.asked % self.fade_every == 0:
            self.old /= self.fading
            self.old += self.new
            self.new[:] = 0

    def overlapping(self, top: At, left: At, bottom: At, right: At) -> Floats:
        """Return the weight of the questions that overlap rectangles of at least one cell each; float64.

        Nine look-ups of each part. The arguments are broadcast.
        """
        return _counted(self.old, top, left, bottom, right) + _counted(self.new, top, left, bottom, right)


def _counted(tables: Floats, top: At, left: At, bottom: At, right: At) -> Floats:
    last_row, last_column = bottom - 1, right - 1
    touching, not_left, not_above, neither = tables
    return np.asarray(
        touching[top, left]
        + (not_left[top, last_column] - not_left[top, left])
        + (not_above[last_row, left] - not_above[top, left])
        + (neither[last_row, last_column] - neither[top, last_column] - neither[last_row, left] + neither[top, left])
    )
