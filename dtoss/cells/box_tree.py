"""A tree of bounding boxes over sites in curve order: which sites are near, however dense the place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

LEAF = 8
"""Consecutive sites in one leaf."""
CHILDREN = 8
"""Nodes under one node."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of ``LEAF`` consecutive sites, of ``CHILDREN`` such boxes, and so on up to one root."""

    # int64 (levels + 1,). Level l is the nodes ``starts[l]:starts[l + 1]``; level 0 is the leaves
    starts: NDArray[np.int64]
    low: NDArray[np.float64]  # low, high: float64 (nodes, dimension). The corners of each node's box
    high: NDArray[np.float64]


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1])")
def _fill(vectors, starts, low, high):
    n, dimension = vectors.shape
    for node in range(starts[1]):
        first = node * LEAF
        last = min(n, first + LEAF)
        for axis in range(dimension):
            a = vectors[first, axis]
            b = a
            for i in range(first + 1, last):
                a = min(a, vectors[i, axis])
                b = max(b, vectors[i, axis])
            low[node, axis] = a
            high[node, axis] = b
    for level in range(1, starts.size - 1):
        for node in range(starts[level], starts[level + 1]):
            first = starts[level - 1] + (node - starts[level]) * CHILDREN
            last = min(starts[level], first + CHILDREN)
            for axis in range(dimension):
                a = low[first, axis]
                b = high[first, axis]
                for i in range(first + 1, last):
                    a = min(a, low[i, axis])
                    b = max(b, high[i, axis])
                low[node, axis] = a
                high[node, axis] = b


def box_tree(vectors: NDArray[np.float64]) -> Boxes:
    """Return the boxes over vectors (n, dimension) in curve order, n >= 1. Cost O(n)."""
    sizes = [-(-len(vectors) // LEAF)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // CHILDREN))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    low = np.empty((starts[-1], vectors.shape[1]))
    high = np.empty_like(low)
    _fill(vectors, starts, low, high)
    return Boxes(starts, low, high)


@kernel("void(float64[:, ::1], float64[:, :, ::1])")
def _columns(vectors, columns):
    n, dimension = vectors.shape
    for i in range(n):
        for axis in range(dimension):
            columns[i // LEAF, axis, i % LEAF] = vectors[i, axis]
    for i in range(n, columns.shape[0] * LEAF):
        for axis in range(dimension):
            columns[i // LEAF, axis, i % LEAF] = np.inf


def leaf_columns(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sites of each leaf by coordinate, float64 (leaves, dimension, LEAF), padded with infinity."""
    columns = np.empty((-(-len(vectors) // LEAF), vectors.shape[1], LEAF))
    _columns(vectors, columns)
    return columns


@kernel("void(int64[::1], float64[:, ::1], float64[:, ::1], float64[:, :, ::1])")
def _children(starts, low, high, columns):
    leaves, dimension = starts[1], low.shape[1]
    for level in range(1, starts.size - 1):
        for node in range(starts[level], starts[level + 1]):
            first = starts[level - 1] + (node - starts[level]) * CHILDREN
            for lane in range(CHILDREN):
                child = first + lane
                for axis in range(dimension):
                    there = child < starts[level]
                    columns[node - leaves, 2 * axis, lane] = low[child, axis] if there else np.inf
                    columns[node - leaves, 2 * axis + 1, lane] = high[child, axis] if there else -np.inf


def child_columns(tree: Boxes) -> NDArray[np.float64]:
    """Return the boxes of each inner node's children by coordinate, float64 (inner nodes, 2 * dimension, CHILDREN).

    The rows of a node are the low and the high ends of its children in x, then in y, and so on; where there is no
    child the low end is infinity and the high end minus infinity.
    """
    dimension = tree.low.shape[1]
    columns = np.empty((len(tree.low) - int(tree.starts[1]), 2 * dimension, CHILDREN))
    _children(tree.starts, tree.low, tree.high, columns)
    return columns
