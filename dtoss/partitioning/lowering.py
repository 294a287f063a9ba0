"""Weights of many pivots: a region with too many rows gives up those that it holds by least, all regions at once.

The auction of Oliker and Prussner. Only weights of over-full regions move, and only down: a round moves as many rows as
are too many, and so it is stable where the flow of :mod:`dtoss.partitioning.balance`, which lists the borders that it
knows, is not. Loads even out from neighbour to neighbour alone, so what is left over a long way stays uneven.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.partitioning.balance import FIRST_ROWS

FIRST_ROUNDS, LAST_ROUNDS = 12, 3
"""Rounds of few rows, and of all."""


def lowered_weights(sample: NDArray[np.float64], pivots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights, float64 (P,), 0 at the most, by which pivots have nearly as many rows each.

    ``sample``: (n, dimension) rows in curve order. Cost O(n log P).
    """
    stride = max(len(sample) // (FIRST_ROWS * len(pivots)), 1)
    weights = np.zeros(len(pivots))
    for rows, rounds in ((sample[::stride], FIRST_ROUNDS), (sample, LAST_ROUNDS)):
        for _ in range(rounds):
            weights += _lowering(rows, pivots, weights)
    return weights


def _lowering(
    rows: NDArray[np.float64], pivots: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how far each weight moves for the rows beyond a region's share to be nearer to others, all 0 or less."""
    from scipy.spatial import cKDTree

    count = len(pivots)
    # a power is a squared distance in a space with one axis more
    height = np.sqrt(weights.max() - weights)
    distance, region = cKDTree(np.column_stack([pivots, height])).query(np.column_stack([rows, np.zeros(len(rows))]), 2)
    home, gap = region[:, 0], distance[:, 1] ** 2 - distance[:, 0] ** 2
    order = np.lexsort((gap, home))
    first = np.searchsorted(home[order], np.arange(count + 1))
    over = np.diff(first) - -(-len(rows) // count)
    full = np.flatnonzero(over > 0)
    moved = np.zeros(count)
    moved[full] = -gap[order[first[full] + over[full] - 1]]
    return moved
