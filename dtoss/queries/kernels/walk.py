"""Finding the site nearest to a query: down the hierarchy or from a place on the curve, then along the graph.

A site that is not the nearest has a neighbour nearer to the query, so a walk to the best neighbour ends in the
nearest site. In the plane the graph is clipped to the bounds and this holds inside them only; from outside, the
nearest site is a rim site (:func:`nearest_of_rim`). Where distances are equal within rounding a walk may end before
that (:func:`unsure`).

What searches over blocks share: squared distances of a block's sites, and whether its ball meets a disc.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import ball_meets, gaps_plane, gaps_sphere
from dtoss.compiled.pointers import float64_at, int32_at, int64_at, pointer, prefetch, shift
from dtoss.geometry.distance import SPHERE, XMAX, XMIN, YMAX, YMIN, place_at
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BALL, BLOCK, FAN, RADIUS
from dtoss.partitioning.partition_bounds import holds, inside_from, nowhere
from dtoss.partitioning.regions import fences_of, nearest_region
from dtoss.queries.kernels.address_table import (
    BALLS,
    BLOCK_FIRST,
    BLOCK_NEIGHBOURS,
    FIRST,
    IDS,
    KEYS,
    LEVEL,
    LEVELS,
    NEIGHBOURS,
    OBJECTS,
    OWNED_SITES,
    RIM,
    RIM_BALLS,
    RIM_COUNT,
    SITE_COUNT,
    SITES,
    row_of,
)
from dtoss.queries.kernels.query_arguments import Nearest

UNEVEN = (16 * 2.0**-53) ** 2
"""With lengths 1 + e and 1 + f, ``|a - b|^2`` has ``(e - f)^2`` that the sphere knows nothing of."""
SURELY = 1.0 + 4.0 * PRUNE
"""Times which a run of rim sites is further away, by rounding, than is told: what it holds is no tie either."""
CACHE_LINE = 8
"""Numbers of 64 bits in a line of the processor's cache, which is what it loads at a time."""
LINES_PLANE, LINES_SPHERE = 2 * FAN // CACHE_LINE, SPHERE * FAN // CACHE_LINE
"""Lines that the sites of a block take."""
FETCHED_NEIGHBOURS = 7 * FAN
"""Neighbours that are asked for with a run of sites: a site has fewer than six in the mean."""


@kernel
def gap2(sites, site, place):
    """Return the squared distance or chord from a site to a place."""
    at = site * place.dimension
    a, b = sites[at] - place.x, sites[at + 1] - place.y
    if place.dimension == 2:
        return a * a + b * b
    c = sites[at + 2] - place.z
    return a * a + b * b + c * c


@kernel
def walk(sites, first, neighbours, stride, place, start):
    """Return the node from which no neighbour is nearer, its squared distance, and that of its nearest neighbour.

    Node i of the graph is site ``i * stride``.
    """
    here = start
    least = gap2(sites, here * stride, place)
    while True:
        best, nearest = here, np.inf
        for t in range(first[here], first[here + 1]):
            other = int(neighbours[t])
            gap = gap2(sites, other * stride, place)
            if gap < nearest:
                best, nearest = other, gap
        if nearest >= least:
            return Nearest(here, least, nearest)
        here, least = best, nearest


@kernel
def lost(dimension):
    """Return what squared distances say wrong of places on the sphere, whose vectors are not of length 1 but nearly."""
    return UNEVEN if dimension == SPHERE else 0.0


@kernel
def unsure(nearest, dimension):
    """Return whether a walk may have ended too early: a neighbour is as far, within rounding.

    Seen from far away a crowd is a plateau, and whoever stands in the middle of it sees nobody who is nearer. The
    nearest site is then among those that are connected within ``nearest.gap`` and a little.
    """
    return 0.0 < nearest.second <= nearest.gap * (1.0 + PRUNE) + lost(dimension)


@kernel
def outside(bounds, place):
    """Return whether a place of the plane lies outside the bounds; none of the sphere does."""
    return place.dimension == 2 and (
        place.x < bounds[XMIN] or place.x > bounds[XMAX] or place.y < bounds[YMIN] or place.y > bounds[YMAX]
    )


@kernel
def descend(row, place):
    """Return a block near to a place, down the hierarchy of a partition; 0 where it owns no sites."""
    sites = float64_at(row[SITES])
    owned, levels = row[OWNED_SITES], row[LEVELS]
    stride = FAN ** (levels + 1)
    least = np.inf
    node = 0
    for i in range((owned + stride - 1) // stride):
        gap = gap2(sites, i * stride, place)
        if gap < least:
            node, least = i, gap
    for level in range(levels - 1, -1, -1):
        stride //= FAN
        first = int32_at(row[LEVEL + 2 * level])
        neighbours = int32_at(row[LEVEL + 2 * level + 1])
        node = walk(sites, first, neighbours, stride, place, node * FAN).site
    return node


@kernel
def nearest_of_rim(row, place, start):
    """Return the rim site nearest to a place outside the bounds, and squared distances of it and of the next nearest.

    The graph ends at the bounds, and the way to the nearest site leads through its cell there. Runs of rim sites that
    lie further away than the nearest so far, which is ``start`` at first, if there is one, are passed over.

    The next nearest is so among the rim sites and the neighbours of the nearest, which is enough to tell whether any
    site is as near: the straight way from a site of a disc to its centre leads through cells of sites that are ever
    nearer, and leaves the bounds in that of a rim site. So whatever is as near as the nearest is another rim site
    that is, or connected to one, or to the nearest itself, through sites that are.
    """
    sites, rim, balls = float64_at(row[SITES]), int32_at(row[RIM]), float64_at(row[RIM_BALLS])
    count = row[RIM_COUNT]
    best, least, second = start, np.inf, np.inf
    if start >= 0:
        least = gap2(sites, start, place)
    elif count > 0:
        # the first of the run whose centre is nearest is not far from the nearest
        run, near = 0, np.inf
        for t in range((count + FAN - 1) // FAN):
            a, b = balls[BALL * t] - place.x, balls[BALL * t + 1] - place.y
            if a * a + b * b < near:
                run, near = t, a * a + b * b
        best = int(rim[run * FAN])
        least = gap2(sites, best, place)
    reach = np.sqrt(least)
    for t in range((count + FAN - 1) // FAN):
        at = BALL * t
        a, b = balls[at] - place.x, balls[at + 1] - place.y
        far = (reach + balls[at + RADIUS]) * SURELY
        if a * a + b * b > far * far:
            continue
        for u in range(t * FAN, min((t + 1) * FAN, count)):
            site = int(rim[u])
            gap = gap2(sites, site, place)
            if gap < least:
                best, least, second = site, gap, least
                reach = np.sqrt(least)
            else:
                second = min(second, gap if site != best else np.inf)
    if best >= 0:
        first, neighbours = int32_at(row[FIRST]), int32_at(row[NEIGHBOURS])
        for t in range(first[best], first[best + 1]):
            second = min(second, gap2(sites, int(neighbours[t]), place))
    return Nearest(best, least, second)


@kernel
def nearest_site(row, place, bounds, start, block):
    """Return the site of a partition nearest to a place, its squared distance and that of its nearest neighbour.

    ``start`` is a site to walk from, or -1; ``block`` a run of F sites near the place on the curve, or -1. With
    neither, the walk comes down the hierarchy. (-1, inf, inf) where there are no sites. From outside the bounds the
    last is that of the next nearest site, if it is hardly further.
    """
    if row[SITE_COUNT] == 0:
        return Nearest(-1, np.inf, np.inf)
    sites = float64_at(row[SITES])
    if outside(bounds, place):
        return nearest_of_rim(row, place, start)
    if block >= 0:
        # the nearest of the run and of where the last walk ended
        least = np.inf
        if start >= 0:
            least = gap2(sites, start, place)
        for i in range(block * FAN, min(block * FAN + FAN, row[OWNED_SITES])):
            gap = gap2(sites, i, place)
            if gap < least:
                start, least = i, gap
    elif start < 0:
        start = descend(row, place) * FAN
    return walk(sites, int32_at(row[FIRST]), int32_at(row[NEIGHBOURS]), 1, place, start)


@kernel
def block_on_curve(row, key):
    """Return the last run of F sites of a partition whose key is at most a key, or the first one; -1 without sites."""
    places, size = int64_at(row[KEYS]), (row[OWNED_SITES] + FAN - 1) // FAN
    at, left = 0, size
    while left > 1:
        half = left >> 1
        if places[at + half] <= key:
            at += half
        left -= half
    return at if size > 0 else -1


@kernel(
    "void(int64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], "
    "int32[::1], int32[::1], int32[::1])"
)
def plan_starts(rows, pivots, weights, order, distance, queries, keys, asked, home, block):
    """Fill the home of each query of a batch in curve order, and the run of sites at its place on the curve.

    ``asked`` are the rows of the queries in this order, that of ``keys``; empty, they stand in it.
    """
    dimension = queries.shape[1]
    rearranged = asked.size > 0
    fences = fences_of(pivots, weights, order, distance)
    q = pointer(queries)
    p, at, size, inside = -1, 0, 0, nowhere(dimension)
    places = int64_at(0)
    for r in range(keys.size):
        place = place_at(q, int(asked[r]) if rearranged else r, dimension)
        j = p
        if p < 0 or not holds(inside, place):
            j = nearest_region(place, fences, max(p, 0))
            inside = inside_from(place, fences, j)
        key = keys[r]
        if j != p:
            # another partition: its run is searched for by halves
            p = j
            row = row_of(pointer(rows), p)
            places = int64_at(row[KEYS])
            size = (row[OWNED_SITES] + FAN - 1) // FAN
            at = 0
            left = size
            while left > 1:
                half = left >> 1
                if places[at + half] <= key:
                    at += half
                left -= half
        # the same: from the last query's run on
        while at + 1 < size and places[at + 1] <= key:
            at += 1
        home[r] = p
        block[r] = at if size > 0 else -1


@kernel
def fetch_sites(row, block, dimension):
    """Ask for the sites of a block."""
    sites = shift(float64_at(row[SITES]), block * FAN * dimension)
    for line in range(LINES_PLANE):
        prefetch(sites, line * CACHE_LINE)
    if dimension == SPHERE:
        for line in range(LINES_PLANE, LINES_SPHERE):
            prefetch(sites, line * CACHE_LINE)


@kernel
def fetch_ids(row, block):
    """Ask for the ids of a block's sites where each holds one object."""
    ids = int64_at(row[IDS])
    prefetch(ids, block * FAN)
    prefetch(ids, block * FAN + CACHE_LINE)


@kernel
def fetch(row, block, dimension):
    """Ask for what a query that starts in a run of sites will read first."""
    if block < 0:
        return
    fetch_sites(row, block, dimension)
    begin = block * FAN
    prefetch(int32_at(row[FIRST]), begin)
    prefetch(int32_at(row[OBJECTS]), begin)


@kernel
def fetch_graph(row, block):
    """Ask for the neighbours of a run of sites, once where they begin has come."""
    if block < 0:
        return
    begin = int32_at(row[FIRST])[block * FAN]
    neighbours = int32_at(row[NEIGHBOURS])
    for i in range(begin, begin + FETCHED_NEIGHBOURS, 2 * CACHE_LINE):
        prefetch(neighbours, i)


@kernel
def fetch_blocks(row, block, dimension):
    """Ask for what a search over blocks that starts in one will read first."""
    if block < 0:
        return
    fetch_sites(row, block, dimension)
    prefetch(float64_at(row[BALLS]), 4 * block)
    prefetch(int32_at(row[BLOCK_FIRST]), block)


@kernel
def gaps_of(row, place, block, out):
    """Fill ``out[:16]`` with squared distances of a block's sites; past the last one NaN, within nothing."""
    sites = float64_at(row[SITES])
    begin = block * BLOCK
    if begin + BLOCK <= row[SITE_COUNT]:
        if place.dimension == SPHERE:
            gaps_sphere(shift(sites, SPHERE * begin), place.x, place.y, place.z, out)
        else:
            gaps_plane(shift(sites, 2 * begin), place.x, place.y, out)
        return
    # the last block: sixteen at once would read past its end
    count = row[SITE_COUNT] - begin
    for i in range(BLOCK):
        out[i] = gap2(sites, begin + i, place) if i < count else np.nan


@kernel
def meets(balls, block, place, reach):
    """Return 1 if the ball of a block meets the disc of a radius, ``reach``, round a place, else 0."""
    return ball_meets(shift(balls, block << 2), place.x, place.y, place.z, reach)


@kernel
def consider(row, place, reach, block, end, scratch):
    """Append the neighbours of a block that were not seen to the queue if the disc meets them; returns its end."""
    queue, seen = scratch.queue, scratch.seen
    balls = float64_at(row[BALLS])
    first, neighbours = int32_at(row[BLOCK_FIRST]), int32_at(row[BLOCK_NEIGHBOURS])
    for t in range(first[block], first[block + 1]):
        other = int(neighbours[t])
        before = int(seen[other])
        now = before | meets(balls, other, place, reach)
        # written in any case, and kept where the end moves on: no branch
        queue[end] = other
        seen[other] = np.uint8(now)
        end += now - before
    return end


@kernel
def consider_rim(row, place, reach, end, scratch):
    """Append the blocks of rim sites that the disc meets, for a query outside the bounds; returns the queue's end.

    The graph ends at the bounds: what is in reach of such a query may be connected across them only. But the straight
    way to each site of the disc enters the bounds in the cell of a rim site that is no further.
    """
    queue, seen = scratch.queue, scratch.seen
    balls, rim, runs = float64_at(row[BALLS]), int32_at(row[RIM]), float64_at(row[RIM_BALLS])
    count = row[RIM_COUNT]
    for run in range((count + FAN - 1) // FAN):
        if meets(runs, run, place, reach) == 0:
            continue
        for t in range(run * FAN, min((run + 1) * FAN, count)):
            block = int(rim[t]) // BLOCK
            if seen[block] == 0 and meets(balls, block, place, reach) == 1:
                queue[end] = block
                seen[block] = 1
                end += 1
    return end


@kernel
def forget(end, scratch):
    """Leave ``seen`` all 0, as the next search finds it: only blocks in the queue are marked."""
    for t in range(end):
        scratch.seen[scratch.queue[t]] = 0
