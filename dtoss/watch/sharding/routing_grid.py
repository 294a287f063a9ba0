"""The routing grid: rows and columns over where subscriptions are; what lies beyond counts at the border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, Space
from dtoss.watch.index.cell_frame import grid_positions

SIDE = 128
"""Rows and columns of a grid where nothing else is said."""
_TURN = 2 * HALF_TURN
_FEW = 0.005
"""Share of places that may lie beyond the grid on each side."""
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class RoutingGrid:
    """Rows and columns of equal height and width; the number of a cell is ``row * columns + column``."""

    rows: int
    columns: int
    cut: float  # Of the sphere the longitude from which columns count eastwards, degrees; 0 in a plane
    x: float  # x, y: where the first column and row begin; ``x`` is east of the cut
    y: float
    width: float  # width, height: of all columns, and of all rows, in degrees or units of the CRS
    height: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.rows * self.columns


class CellRects(NamedTuple):
    """Rectangles of cells."""

    rects: NDArray[np.int64]  # int64 (p, 4). First column, first row, last column, last row
    of: NDArray[np.int64]  # int64 (p,). The rectangle of places that each belongs to, rising


def grid_of(space: Space, rects: NDArray[np.float64], rows: int = SIDE, columns: int = SIDE) -> RoutingGrid:
    """Return a grid over where most places are.

    ``rects``: float64 (n, 4). west, south, east, north, as :class:`dtoss.watch.index.covers.Covers` has them.

    Of no places it covers the globe, or a unit square of a plane. Cost O(1): of many, some are looked at.
    """
    sphere = space.metric == "sphere"
    some = rects[:: max(len(rects) // _SAMPLE, 1)]
    with np.errstate(over="ignore", invalid="ignore"):
        some = some[np.isfinite(some).all(axis=1)]
        east = np.where(sphere & (some[:, 0] > some[:, 2]), some[:, 2] + _TURN, some[:, 2])
        x, y = (some[:, 0] + east) / 2, (some[:, 1] + some[:, 3]) / 2
    whole = sphere & (east - some[:, 0] >= _TURN)
    x, y = x[~whole], y[~whole]
    if len(x) == 0:
        if sphere:
            return RoutingGrid(rows, columns, -HALF_TURN, 0.0, -QUARTER_TURN, _TURN, 2 * QUARTER_TURN)
        return RoutingGrid(rows, columns, 0.0, 0.0, 0.0, 1.0, 1.0)
    cut = _widest_gap(x) if sphere else 0.0
    first, wide = _extent(_east_of(x, cut, sphere))
    south, high = _extent(y)
    return RoutingGrid(rows, columns, cut, first, south, wide, high)


def _widest_gap(lon: NDArray[np.float64]) -> float:
    """Return a longitude in the middle of the widest stretch without places."""
    placed = np.sort(np.where(lon > HALF_TURN, lon - _TURN, lon))
    gaps = np.diff(placed, append=placed[0] + _TURN)
    at = int(gaps.argmax())
    middle = float(placed[at] + gaps[at] / 2)
    return middle - _TURN if middle > HALF_TURN else middle


def _extent(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, _FEW, method="lower"), np.quantile(values, 1.0 - _FEW, method="higher")
    size = float(high - low)
    # a border on each side, so that what lies at the edge has cells of its own
    return (float(low) - 0.02 * size, 1.04 * size) if size > 0.0 else (float(low) - 0.5, 1.0)


def _east_of(lon: NDArray[np.float64], cut: float, sphere: bool) -> NDArray[np.float64]:
    """Return how far east of the cut longitudes are; rising from the cut round to it."""
    return np.where(lon < cut, (lon - cut) + _TURN, lon - cut) if sphere else lon


def _numbers(values: NDArray[np.float64], first: float, size: float, count: int) -> NDArray[np.int64]:
    with np.errstate(over="ignore", invalid="ignore"):
        at = np.floor((values - first) / size * count)
    return np.clip(at, 0, count - 1).astype(np.int64)


def cells_of(grid: RoutingGrid, space: Space, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of each position, int64 (n,). Cost O(n).

    ``positions``: float64 (n, 2). Legal ones.
    """
    if len(positions) == 0:
        return np.zeros(0, np.int64)
    placed = grid_positions(space, positions, space.vectors(positions))
    sphere = space.metric == "sphere"
    column = _numbers(_east_of(placed[:, 0], grid.cut, sphere), grid.x, grid.width, grid.columns)
    return _numbers(placed[:, 1], grid.y, grid.height, grid.rows) * grid.columns + column


def rects_in(grid: RoutingGrid, space: Space, rects: NDArray[np.float64]) -> CellRects:
    """Return the cells that rectangles touch: each position in a rectangle lies in one of its cells. Cost O(n).

    ``rects``: float64 (n, 4). west, south, east, north; west > east across the antimeridian.
    """
    sphere = space.metric == "sphere"
    count = len(rects)
    west = _numbers(_east_of(rects[:, 0], grid.cut, sphere), grid.x, grid.width, grid.columns)
    east = _numbers(_east_of(rects[:, 2], grid.cut, sphere), grid.x, grid.width, grid.columns)
    south = _numbers(rects[:, 1], grid.y, grid.height, grid.rows)
    north = _numbers(rects[:, 3], grid.y, grid.height, grid.rows)
    first, last = np.zeros(count, np.int64), np.full(count, grid.columns - 1)
    each = np.arange(count)
    if not sphere:
        return CellRects(np.stack([west, south, east, north], axis=1), each)
    whole = rects[:, 2] - rects[:, 0] >= _TURN
    wrapped = _east_of(rects[:, 0], grid.cut, sphere) > _east_of(rects[:, 2], grid.cut, sphere)
    parts = [
        (each, np.stack([np.where(whole, first, west), south, np.where(whole | wrapped, last, east), north], axis=1)),
        _some(wrapped & ~whole, first, south, east, north),
        # a pole is one place, whatever its longitude
        _some(~whole & (rects[:, 3] >= QUARTER_TURN), first, north, last, north),
        _some(~whole & (rects[:, 1] <= -QUARTER_TURN), first, south, last, south),
    ]
    of = np.concatenate([some for some, _ in parts])
    order = np.argsort(of, kind="stable")
    return CellRects(np.concatenate([made for _, made in parts])[order], of[order])


def _some(where: NDArray[np.bool_], *sides: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = np.flatnonzero(where)
    return rows, np.stack([side[rows] for side in sides], axis=1)
