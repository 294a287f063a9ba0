"""The grid of cells to which the paper rounds points, questions and cuts."""

from __future__ import annotations

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
