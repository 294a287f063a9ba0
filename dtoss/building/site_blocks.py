"""Blocks: runs of 16 sites along the curve, a ball round each, and which blocks are neighbours.

Two blocks are neighbours where a site of one is a Voronoi neighbour of a site of the other. The sites of a disc are
connected in the Voronoi graph, so the blocks that hold them are connected in the graph of blocks: a search that visits
neighbours of visited blocks, as far as their balls meet the disc, misses none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BLOCK, RADIUS, Blocks

FEWEST_LINKS = 64
"""Neighbours of blocks that there is room for at first, at the least."""


def make_blocks(sites: NDArray[np.float64], first: NDArray[np.int32], neighbours: NDArray[np.int32]) -> Blocks:
    """Return the blocks of sites (m, dimension) in curve order with their Voronoi graph. Cost O(m).

    Examples
    --------
    >>> sites = np.array([[float(i), 0.0] for i in range(20)])
    >>> first = np.array([0, *range(1, 39, 2), 38], np.int32)
    >>> neighbours = np.array([1, *(j for i in range(1, 19) for j in (i - 1, i + 1)), 18], np.int32)
    >>> blocks = make_blocks(sites, first, neighbours)
    >>> blocks.neighbours.tolist(), blocks.balls[1].round(6).tolist()
    ([1, 0], [17.5, 0.0, 0.0, 1.5])
    """
    return Blocks(*_blocks(operand(sites), operand(first), operand(neighbours)))


@kernel("Tuple((float64[:, ::1], int32[::1], int32[::1]))(float64[:, ::1], int32[::1], int32[::1])")
def _blocks(sites, first, neighbours):
    n, dimension = sites.shape
    count = (n + BLOCK - 1) // BLOCK
    balls = np.zeros((count, 4))
    starts = np.zeros(count + 1, np.int32)
    stamp = np.full(count, -1, np.int32)
    out = np.empty(max(neighbours.size // 4, FEWEST_LINKS), np.int32)
    end = 0
    for b in range(count):
        begin, stop = b * BLOCK, min(b * BLOCK + BLOCK, n)
        for axis in range(dimension):
            low = high = sites[begin, axis]
            for i in range(begin + 1, stop):
                low, high = min(low, sites[i, axis]), max(high, sites[i, axis])
            balls[b, axis] = 0.5 * (low + high)
        most = 0.0
        for i in range(begin, stop):
            gap = 0.0
            for axis in range(dimension):
                d = sites[i, axis] - balls[b, axis]
                gap += d * d
            most = max(most, gap)
        balls[b, RADIUS] = np.sqrt(most) * (1.0 + PRUNE)
        stamp[b] = b
        for t in range(first[begin], first[stop]):
            other = neighbours[t] // BLOCK
            if stamp[other] != b:
                stamp[other] = b
                if end == out.size:
                    more = np.empty(2 * end, np.int32)
                    more[:end] = out
                    out = more
                out[end] = other
                end += 1
        starts[b + 1] = end
    return balls, starts, out[:end].copy()
