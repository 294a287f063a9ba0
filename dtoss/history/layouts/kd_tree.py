"""A k-d tree over positions: half-open cells, equal coordinates never apart; it says where rows lie, not what is true.

AQWA, section 4.1: cut where the points are halved. Here along the longer side, until a leaf is small enough; where all
points have one place nothing can be cut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

NO_LEAF = -1
_STRETCH = 0.05
"""The least cosine of a latitude by which longitudes are measured, near the poles."""


@dataclass(frozen=True)
class Tree:
    """A tree of n nodes; node 0 is the root."""

    axis: NDArray[np.int8]  # int8 (n,). 0 where a node is cut by x, 1 by y, -1 of a leaf
    cut: NDArray[np.float64]  # float64 (n,). Positions up to it, and equal to it, go left
    # left, right: int32 (n,). Nodes; of a leaf its number and -1. Leaves are numbered from left to right
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    cells: NDArray[np.float64]  # float64 (leaves, 4). x0, y0, x1, y1: x0 < x <= x1, y0 < y <= y1

    def leaf_of(self, positions: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the leaf of each position (n, 2), int32 (n,); of one that is NaN some leaf, always the same."""
        out = np.empty(len(positions), np.int32)
        _leaf_of(np.ascontiguousarray(positions), self.axis, self.cut, self.left, self.right, out)
        return out


def even_tree(
    positions: NDArray[np.float64], most: float, *, degrees: bool, weights: NDArray[np.float64] | None = None
) -> Tree:
    """Return a tree whose leaves hold at most so many positions, unless they are all at one place.

    ``positions``: float64 (n, 2), finite; ``degrees``: whether they are lon, lat: a degree of longitude is shorter away
    from the equator; ``weights``: float64 (n,). As how many positions each counts; as one where None.

    Cost O(n log n).
    """
    axis: list[int] = []
    cut: list[float] = []
    left: list[int] = []
    right: list[int] = []
    cells: list[tuple[float, float, float, float]] = []

    def grow(points: NDArray[np.float64], heavy: NDArray[np.float64], cell: tuple[float, float, float, float]) -> int:
        node = len(axis)
        axis.append(-1)
        cut.append(0.0)
        left.append(len(cells))
        right.append(NO_LEAF)
        chosen = None if heavy.sum() <= most else _best_cut(points, degrees)
        if chosen is None:
            cells.append(cell)
            return node
        side, where = chosen
        low = points[:, side] <= where
        inner, outer = list(cell), list(cell)
        inner[2 + side], outer[side] = where, where
        axis[node], cut[node] = side, where
        left[node] = grow(points[low], heavy[low], (inner[0], inner[1], inner[2], inner[3]))
        right[node] = grow(points[~low], heavy[~low], (outer[0], outer[1], outer[2], outer[3]))
        return node

    points = np.asarray(positions, np.float64).reshape(-1, 2)
    heavy = np.ones(len(points)) if weights is None else weights
    grow(points, heavy, (-np.inf, -np.inf, np.inf, np.inf))
    return Tree(
        np.array(axis, np.int8),
        np.array(cut, np.float64),
        np.array(left, np.int32),
        np.array(right, np.int32),
        np.array(cells, np.float64).reshape(-1, 4),
    )


def tree_of_cells(cells: NDArray[np.float64]) -> Tree:
    """Return a tree whose leaves are cells of one that was cut before, in their order; float64 (leaves, 4)."""
    axis: list[int] = []
    cut: list[float] = []
    left: list[int] = []
    right: list[int] = []
    order: list[int] = []

    def grow(rows: NDArray[np.int64], cell: NDArray[np.float64]) -> int:
        node = len(axis)
        axis.append(-1)
        cut.append(0.0)
        left.append(len(order))
        right.append(NO_LEAF)
        if len(rows) == 1:
            order.append(int(rows[0]))
            return node
        for side in (0, 1):
            for where in np.unique(cells[rows, 2 + side]):
                low = cells[rows, 2 + side] <= where
                if where < cell[2 + side] and (low | (cells[rows, side] >= where)).all() and not low.all():
                    inner, outer = cell.copy(), cell.copy()
                    inner[2 + side], outer[side] = where, where
                    axis[node], cut[node] = side, float(where)
                    left[node] = grow(rows[low], inner)
                    right[node] = grow(rows[~low], outer)
                    return node
        raise ValueError(f"{len(rows)} cells are no leaves of a tree")

    grow(np.arange(len(cells)), np.array([-np.inf, -np.inf, np.inf, np.inf]))
    return Tree(
        np.array(axis, np.int8),
        np.array(cut, np.float64),
        np.array(left, np.int32),
        np.array(right, np.int32),
        np.asarray(cells, np.float64)[order],
    )


def _best_cut(points: NDArray[np.float64], degrees: bool) -> tuple[int, float] | None:
    """Return the side and place that halve points best along the longer side; the other side where that has no cut."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = high - low
    if degrees:
        size[0] *= max(np.cos(np.radians((low[1] + high[1]) / 2)), _STRETCH)
    for side in (0, 1) if size[0] >= size[1] else (1, 0):
        where = _halving(points[:, side])
        if where is not None:
            return side, where
    return None


def _halving(values: NDArray[np.float64]) -> float | None:
    """Return the value that halves values best, so that some are up to it and some above; None where all are equal."""
    middle = len(values) // 2
    pivot = float(np.partition(values, middle)[middle])
    below = values[values < pivot]
    up_to = int((values <= pivot).sum())
    if up_to < len(values) and up_to - middle <= middle - len(below):
        return pivot
    if len(below):
        return float(below.max())
    return pivot if up_to < len(values) else None


@kernel("void(float64[:, ::1], int8[::1], float64[::1], int32[::1], int32[::1], int32[::1])")
def _leaf_of(positions, axis, cut, left, right, out):
    for i in range(positions.shape[0]):
        node = 0
        while axis[node] >= 0:
            node = left[node] if positions[i, axis[node]] <= cut[node] else right[node]
        out[i] = left[node]
