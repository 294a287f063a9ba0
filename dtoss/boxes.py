"""A tree of bounding boxes over sites in curve order: which sites are near, however dense the place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.kernels import kernel

LEAF = 8
"""Consecutive sites in one leaf."""
FAN = 8
"""Nodes under one node."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of ``LEAF`` consecutive sites, of ``FAN`` such boxes, and so on up to one root.

    Parameters
    ----------
    starts : int64 (levels + 1,): level l is the nodes ``starts[l]:starts[l + 1]``; level 0 is the leaves.
    low, high : float64 (nodes, dimension): the corners of each node's box.
    """

    starts: NDArray[np.int64]
    low: NDArray[np.float64]
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
            first = starts[level - 1] + (node - starts[level]) * FAN
            last = min(starts[level], first + FAN)
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
        sizes.append(-(-sizes[-1] // FAN))
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    low = np.empty((starts[-1], vectors.shape[1]))
    high = np.empty_like(low)
    _fill(vectors, starts, low, high)
    return Boxes(starts, low, high)
