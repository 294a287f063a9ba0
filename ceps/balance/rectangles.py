"""Rectangles of cells of a grid: sums over each, and how many of them hold each cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.balance.cell_layout import Flags, Floats, Ints

FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW = range(4)


def prefix_sums(shape: tuple[int, int], values: Floats | Ints | Flags) -> NDArray[Any]:
    """Return the sums of all cells below and to the left, (rows + 1, columns + 1): float64 of floats, else int64."""
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    sums = np.zeros((shape[0] + 1, shape[1] + 1), kind)
    sums[1:, 1:] = values.reshape(shape).cumsum(axis=0, dtype=kind).cumsum(axis=1)
    return sums


def sums_over(sums: NDArray[Any], rects: Ints) -> NDArray[Any]:
    """Return the sum over each rectangle of cells, (n,), of :func:`prefix_sums`."""
    west, south, east, north = (rects[:, at] for at in (FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW))
    return sums_within(sums, south, north, west, east)


def sums_within(sums: NDArray[Any], south: Ints, north: Ints, west: Ints, east: Ints) -> NDArray[Any]:
    """Return sums over rectangles by their sides, (n,), 0 where a rectangle has no cell."""
    top, right = np.maximum(north + 1, south), np.maximum(east + 1, west)
    found: NDArray[Any] = sums[top, right] - sums[south, right] - sums[top, west] + sums[south, west]
    return found


def spread(shape: tuple[int, int], rects: Ints, weight: Floats) -> Floats:
    """Return the sum of the weights of the rectangles that hold each cell, float64 (cells,).

    Cost O(rectangles + cells). Sums of differences miss 0 by a rounding, unless weights are whole numbers.
    """
    rows, columns = shape
    edges = np.zeros((rows + 1, columns + 1))
    for row, more in ((FIRST_ROW, 0), (LAST_ROW, 1)):
        for column, further in ((FIRST_COLUMN, 0), (LAST_COLUMN, 1)):
            sign = 1.0 if more == further else -1.0
            at = (rects[:, row] + more) * (columns + 1) + rects[:, column] + further
            edges += sign * np.bincount(at, weight, edges.size).reshape(edges.shape)
    return edges.cumsum(axis=0).cumsum(axis=1)[:-1, :-1].ravel()
