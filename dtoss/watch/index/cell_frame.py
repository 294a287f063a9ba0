"""Where the cells of a grid are: rows of latitude and columns that grow fewer towards the poles, or squares of a plane.

Level k cuts the height of the world into 2^k rows. A row of the sphere has 2^(k + 1) (1 - (lat / 90)^2) columns, of its
middle latitude: a parabola in stead of the cosine, so that every machine finds the same column. Cells are as wide as
high at the equator, and narrower than high by a fifth at most elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, Space

FINEST_LEVEL = 24
"""Rows of about a metre on the sphere."""
_SAMPLE = 1 << 14
_FEW = 0.005
"""Share of the rectangles that may reach beyond a frame at a side."""
_ROW_BITS = 30
_LEVEL_BITS = 60


class Frame(NamedTuple):
    """The world that a grid cuts."""

    sphere: int  # 1 on the sphere, 0 in a plane
    x: float  # x, y: the lower left corner
    y: float
    side: float  # Its height; in a plane its width as well


GLOBE = Frame(1, -HALF_TURN, -QUARTER_TURN, HALF_TURN)


def frame_of(space: Space, rects: NDArray[np.float64]) -> Frame:
    """Return the frame of rectangles (n, 4): the globe, or a square of a plane in which most of them are.

    What lies beyond counts at its border, so that a few large or far ones do not make all cells large.
    """
    if space.metric == "sphere":
        return GLOBE
    if len(rects) == 0:
        return Frame(0, 0.0, 0.0, 1.0)
    some = rects[:: max(len(rects) // _SAMPLE, 1)]
    low = np.quantile(some[:, :2], _FEW, axis=0, method="lower")
    high = np.quantile(some[:, 2:], 1.0 - _FEW, axis=0, method="higher")
    side = float((high - low).max())
    x, y = low.tolist()
    return Frame(0, x, y, side * (1.0 + 1e-9) if side > 0.0 else 1.0)


def grid_positions(space: Space, positions: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where rows lie in a frame, float64 (n, 2): each place of the sphere by one of its names.

    The antimeridian is 180, and a pole has longitude 0, as :meth:`Space.vectors` has it.
    """
    if space.metric == "plane":
        return positions
    if space.to_lonlat:
        return lonlat_of(vectors)
    placed = positions.copy()
    placed[:, 0] = np.where(placed[:, 0] == -HALF_TURN, HALF_TURN, placed[:, 0])
    placed[:, 0] = np.where(np.abs(placed[:, 1]) == QUARTER_TURN, 0.0, placed[:, 0])
    return placed


def lonlat_of(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon and lat of unit vectors (n, 3) in degrees, within rounding."""
    x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
    return np.stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))], axis=1)


@kernel
def row_of(frame, level, y):
    """Return the row of a level in which y lies, the first or last one where it is beyond."""
    rows = 1 << level
    at = (y - frame.y) / frame.side * rows
    if not at > 0.0:
        return 0
    return int(at) if at < rows else rows - 1


@kernel
def columns_of(frame, level, row):
    """Return how many columns a row has."""
    if not frame.sphere:
        return 1 << level
    rows = 1 << level
    middle = 2.0 * (row + 0.5) / rows - 1.0
    return max(1, int(2.0 * rows * (1.0 - middle * middle)))


@kernel
def column_of(frame, columns, x):
    """Return the column in which x lies."""
    at = (x - frame.x) / (frame.side * (1 + frame.sphere)) * columns
    if not at > 0.0:
        return 0
    return int(at) if at < columns else columns - 1


@kernel
def cell_key(index, row, column):
    """Return the number of a cell of the level in place ``index`` of those that a grid has."""
    return (index << _LEVEL_BITS) | (row << _ROW_BITS) | column
