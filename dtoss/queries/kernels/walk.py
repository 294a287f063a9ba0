"""Finding the site nearest to a query: down the hierarchy or from a place on the curve, then along the graph.

A site that is not the nearest has a neighbour nearer to the query, so a walk to the best neighbour ends in the
nearest site. In the plane the graph is clipped to the bounds and this holds inside them only; from outside, the
nearest site is a rim site. Where distances are equal within rounding a walk may end before that (:func:`unsure`).
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import float64_at, int32_at, int64_at, pointer, prefetch
from dtoss.partition import FAN
from dtoss.partitioning.regions import nearest_region
from dtoss.partitioning.routing import SLACK
from dtoss.queries.kernels.address_table import (
    BALLS,
    BLOCK_FIRST,
    FIRST,
    IDS,
    KEYS,
    LEVEL,
    LEVELS,
    NEIGHBOURS,
    OBJECTS,
    OWNED_SITES,
    RIM,
    RIM_COUNT,
    SITE_COUNT,
    SITES,
)

UNEVEN = (16 * 2.0**-53) ** 2
"""With lengths 1 + e and 1 + f, ``|a - b|^2`` has ``(e - f)^2`` that the sphere knows nothing of."""


@kernel
def gap2(sites, site, dimension, x, y, z):
    """Return the squared distance or chord from a site to (x, y, z)."""
    at = site * dimension
    a, b = sites[at] - x, sites[at + 1] - y
    if dimension == 2:
        return a * a + b * b
    c = sites[at + 2] - z
    return a * a + b * b + c * c


@kernel
def walk(sites, first, neighbours, stride, dimension, x, y, z, start):
    """Return the node from which no neighbour is nearer, its squared distance, and that of its nearest neighbour.

    Node i of the graph is site ``i * stride``.
    """
    here = start
    least = gap2(sites, here * stride, dimension, x, y, z)
    while True:
        best, nearest = here, np.inf
        for t in range(first[here], first[here + 1]):
            other = int(neighbours[t])
            gap = gap2(sites, other * stride, dimension, x, y, z)
            if gap < nearest:
                best, nearest = other, gap
        if nearest >= least:
            return here, least, nearest
        here, least = best, nearest


@kernel
def lost(dimension):
    """Return what squared distances say wrong of places on the sphere, whose vectors are not of length 1 but nearly."""
    return UNEVEN if dimension == 3 else 0.0


@kernel
def unsure(gap, second, dimension):
    """Return whether a walk may have ended too early: a neighbour is as far, within rounding.

    Seen from far away a crowd is a plateau, and whoever stands in the middle of it sees nobody who is nearer. The
    nearest site is then among those that are connected within ``gap`` and a little.
    """
    return 0.0 < second <= gap * (1.0 + SLACK) + lost(dimension)


@kernel
def outside(bounds, x, y):
    """Return whether a place of the plane lies outside the bounds."""
    return x < bounds[0] or x > bounds[2] or y < bounds[1] or y > bounds[3]


@kernel
def descend(rows, p, dimension, x, y, z):
    """Return a block near to a query, down the hierarchy of partition p; 0 where it owns no sites."""
    sites = float64_at(rows[p, SITES])
    owned, levels = rows[p, OWNED_SITES], rows[p, LEVELS]
    stride = FAN ** (levels + 1)
    least = np.inf
    node = 0
    for i in range((owned + stride - 1) // stride):
        gap = gap2(sites, i * stride, dimension, x, y, z)
        if gap < least:
            node, least = i, gap
    for level in range(levels - 1, -1, -1):
        stride //= FAN
        first = int32_at(rows[p, LEVEL + 2 * level])
        neighbours = int32_at(rows[p, LEVEL + 2 * level + 1])
        node, least, _ = walk(sites, first, neighbours, stride, dimension, x, y, z, node * FAN)
    return node


@kernel
def nearest_site(rows, p, dimension, bounds, x, y, z, start, block):
    """Return the site of partition p nearest to a query, its squared distance and that of its nearest neighbour.

    ``start`` is a site to walk from, or -1; ``block`` a run of F sites near the query on the curve, or -1. With
    neither, the walk comes down the hierarchy. (-1, inf, inf) where there are no sites. From outside the bounds the
    last is 0.
    """
    if rows[p, SITE_COUNT] == 0:
        return -1, np.inf, np.inf
    sites = float64_at(rows[p, SITES])
    if dimension == 2 and outside(bounds, x, y):
        rim = int32_at(rows[p, RIM])
        best, least = 0, np.inf
        for t in range(rows[p, RIM_COUNT]):
            gap = gap2(sites, int(rim[t]), dimension, x, y, z)
            if gap < least:
                best, least = int(rim[t]), gap
        return best, least, 0.0
    owned = rows[p, OWNED_SITES]
    if block >= 0:
        least = np.inf
        if start >= 0:
            least = gap2(sites, start, dimension, x, y, z)
        for i in range(block * FAN, min(block * FAN + FAN, owned)):
            gap = gap2(sites, i, dimension, x, y, z)
            if gap < least:
                start, least = i, gap
    elif start < 0:
        start = descend(rows, p, dimension, x, y, z) * FAN
    return walk(sites, int32_at(rows[p, FIRST]), int32_at(rows[p, NEIGHBOURS]), 1, dimension, x, y, z, start)


@kernel(
    "void(int64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], "
    "int32[::1], int32[::1])"
)
def plan_starts(rows, pivots_, weights_, order_, distance_, queries, keys, home, block):
    """Fill the home of each query of a batch in curve order, and the run of sites at its place on the curve."""
    n, dimension = queries.shape
    count, listed = pivots_.shape[0], order_.shape[1]
    pivots, weights, order, distance = (
        pointer(pivots_),
        pointer(weights_),
        pointer(order_),
        pointer(distance_),
    )
    q = pointer(queries)
    p, at, size = -1, 0, 0
    places = int64_at(0)
    for r in range(n):
        i = r * dimension
        z = q[i + 2] if dimension == 3 else 0.0
        j = nearest_region(q[i], q[i + 1], z, dimension, count, listed, pivots, weights, order, distance, max(p, 0))
        key = keys[r]
        if j != p:
            p = j
            places = int64_at(rows[p, KEYS])
            size = (rows[p, OWNED_SITES] + FAN - 1) // FAN
            at = 0
            left = size
            while left > 1:
                half = left >> 1
                if places[at + half] <= key:
                    at += half
                left -= half
        while at + 1 < size and places[at + 1] <= key:
            at += 1
        home[r] = p
        block[r] = at if size > 0 else -1


@kernel
def fetch_sites(rows, p, block, dimension):
    """Ask for the sites of a block."""
    sites = float64_at(rows[p, SITES])
    for i in range(block * FAN * dimension, (block + 1) * FAN * dimension, 8):
        prefetch(sites, i)


@kernel
def fetch_ids(rows, p, block):
    """Ask for the ids of a block's sites where each holds one object."""
    ids = int64_at(rows[p, IDS])
    prefetch(ids, block * FAN)
    prefetch(ids, block * FAN + 8)


@kernel
def fetch(rows, p, block, dimension):
    """Ask for what a query that starts in a run of sites will read first."""
    if block < 0:
        return
    fetch_sites(rows, p, block, dimension)
    begin = block * FAN
    prefetch(int32_at(rows[p, FIRST]), begin)
    prefetch(int32_at(rows[p, OBJECTS]), begin)


@kernel
def fetch_graph(rows, p, block):
    """Ask for the neighbours of a run of sites, once where they begin has come."""
    if block < 0:
        return
    begin = int32_at(rows[p, FIRST])[block * FAN]
    neighbours = int32_at(rows[p, NEIGHBOURS])
    for i in range(begin, begin + 7 * FAN, 16):
        prefetch(neighbours, i)


@kernel
def fetch_blocks(rows, p, block, dimension):
    """Ask for what a search over blocks that starts in one will read first."""
    if block < 0:
        return
    fetch_sites(rows, p, block, dimension)
    prefetch(float64_at(rows[p, BALLS]), 4 * block)
    prefetch(int32_at(rows[p, BLOCK_FIRST]), block)
