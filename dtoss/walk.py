"""Finding the site nearest to a query: down the hierarchy, then along the graph.

A site that is not the nearest has a neighbour nearer to the query, so a walk to the best neighbour ends in the nearest site. In the
plane the graph is clipped to the bounds and this holds inside them only; from outside, the nearest site is a rim site.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dtoss.partition import FAN
from dtoss.pointers import JIT, float64_at, int32_at
from dtoss.table import FIRST, LEVEL, LEVELS, NEIGHBOURS, OWNED_SITES, RIM, RIM_COUNT, SITE_COUNT, SITES


@njit(**JIT)
def gap2(sites, site, dimension, x, y, z):  # type: ignore[no-untyped-def]
    """Return the squared distance or chord from a site to (x, y, z)."""
    at = site * dimension
    a, b = sites[at] - x, sites[at + 1] - y
    if dimension == 2:
        return a * a + b * b
    c = sites[at + 2] - z
    return a * a + b * b + c * c


@njit(**JIT)
def walk(sites, first, neighbours, stride, dimension, x, y, z, start):  # type: ignore[no-untyped-def]
    """Return the node from which no neighbour is nearer, and its squared distance; node i is site ``i * stride``."""
    here = start
    least = gap2(sites, here * stride, dimension, x, y, z)
    while True:
        best = here
        for t in range(first[here], first[here + 1]):
            other = neighbours[t]
            gap = gap2(sites, other * stride, dimension, x, y, z)
            if gap < least:
                least, best = gap, other
        if best == here:
            return here, least
        here = best


@njit(**JIT)
def outside(bounds, x, y):  # type: ignore[no-untyped-def]
    """Return whether a place of the plane lies outside the bounds."""
    return x < bounds[0] or x > bounds[2] or y < bounds[1] or y > bounds[3]


@njit(**JIT)
def nearest_site(row, dimension, bounds, x, y, z, start):  # type: ignore[no-untyped-def]
    """Return the site of a partition nearest to a query and its squared distance; -1 where there are no sites.

    ``start`` is a site to walk from, or -1 to come down the hierarchy.
    """
    if row[SITE_COUNT] == 0:
        return -1, np.inf
    sites = float64_at(row[SITES])
    if dimension == 2 and outside(bounds, x, y):
        rim = int32_at(row[RIM])
        best, least = 0, np.inf
        for t in range(row[RIM_COUNT]):
            gap = gap2(sites, rim[t], dimension, x, y, z)
            if gap < least:
                best, least = int(rim[t]), gap
        return best, least
    if start < 0:
        start = 0
        owned = row[OWNED_SITES]
        if owned > 0:
            stride = FAN ** (row[LEVELS] + 1)
            least = np.inf
            node = 0
            for i in range((owned + stride - 1) // stride):
                gap = gap2(sites, i * stride, dimension, x, y, z)
                if gap < least:
                    node, least = i, gap
            for level in range(row[LEVELS] - 1, -1, -1):
                stride //= FAN
                first = int32_at(row[LEVEL + 2 * level])
                neighbours = int32_at(row[LEVEL + 2 * level + 1])
                node, least = walk(sites, first, neighbours, stride, dimension, x, y, z, node * FAN)
            start = node * FAN
    return walk(sites, int32_at(row[FIRST]), int32_at(row[NEIGHBOURS]), 1, dimension, x, y, z, start)
