"""What a partition knows round a query, and which other partitions a query must read."""

from __future__ import annotations

import numpy as np
from numba import njit

from dtoss.pointers import JIT
from dtoss.regions import past_border

SLACK = 1e-12
"""Relative slack of distances when something is left out for being too far."""


@njit(**JIT)
def pivot_distance(query, pivots, i):  # type: ignore[no-untyped-def]
    total = 0.0
    for axis in range(pivots.shape[1]):
        d = query[axis] - pivots[i, axis]
        total += d * d
    return np.sqrt(total)


@njit(**JIT)
def unlisted(border, home, nth, partitions):  # type: ignore[no-untyped-def]
    """Return the nth partition, by number, that is neither home nor among its listed borders."""
    left = nth
    for j in range(partitions):
        known = j == home
        for t in range(border.shape[1]):
            if border[home, t] == j:
                known = True
                break
        if not known:
            if left == 0:
                return j
            left -= 1
    return home


@njit(**JIT)
def knows(query, home, far, pivots, weights, border, border_distance, complete, reach):  # type: ignore[no-untyped-def]
    """Return whether home knows every object within ``far`` of the query: ``max_j f_j(q) + r <= lambda``."""
    partitions, dimension = pivots.shape
    d = pivot_distance(query, pivots, home)
    scale = 1.0 if dimension == 3 else abs(query[0]) + abs(query[1]) + d
    allowed = reach[home] - far - SLACK * (scale + far)
    for t in range(border.shape[1]):
        if d - border_distance[home, t] <= allowed:
            return True
        if past_border(query, pivots, weights, home, border[home, t]) > allowed:
            return False
    if complete:
        return True
    for j in range(partitions):
        if j != home and past_border(query, pivots, weights, home, j) > allowed:
            return False
    return True
