"""k nearest neighbours from the Voronoi graph.

The i-th nearest site is a neighbour of one of the i - 1 nearer ones, so taking the nearest site of the frontier again
and again yields the sites in order. It goes on until the frontier is strictly further than the k-th object, with a
slack for the rounding of squared distances, because sites as far as the k-th may hold lower ids.

The frontier is one sorted array of 64-bit keys: the upper bits of the squared distance, then the site. What is left
out of the distance is added to the slack; the answer is ordered by reported distances.
"""

from __future__ import annotations

import numpy as np

from dtoss.hits_kernel import heap_sort, insert_sorted, reported
from dtoss.kernels import kernel
from dtoss.knows import SLACK, knows, must_read, other_partition
from dtoss.pointers import (
    bits_float,
    float64_at,
    float_bits,
    int32_at,
    int64_at,
    pointer,
    shifted,
    trailing_zeros,
    uint8_at,
)
from dtoss.regions import nearest_region, pivot_gap2
from dtoss.table import FIRST, IDS, MASK, NEIGHBOURS, OBJECTS, OWNED_SITES, RIM, RIM_COUNT, SITES
from dtoss.walk import fetch, fetch_graph, gap2, nearest_site, outside

SITE_BITS = 29
_LOW = (1 << (SITE_BITS + 1)) - 1
"""The bits of a key below the distance: the site, and whether it is expanded."""
_COARSE = 1.0 + 2.0**-21
"""A squared distance read back from a key is at most this much too small."""
NEIGHBOURHOOD = 32
"""Neighbours that are looked at together."""
AHEAD = 12
"""Queries ahead for which memory is asked for."""


@kernel
def _key(gap, site):
    return (float_bits(gap) & ~_LOW) | (site << 1)


@kernel
def _site(key):
    return (key & _LOW) >> 1


@kernel
def _least(key):
    return bits_float(key & ~_LOW)


@kernel
def _insert(keys, end, key):
    i = end
    while i > 0 and keys[i - 1] > key:
        keys[i] = keys[i - 1]
        i -= 1
    keys[i] = key


@kernel
def _cut_off(keys, end, bound, seen):
    while _least(keys[end - 1]) > bound:
        end -= 1
        site = _site(keys[end])
        seen[site >> 3] &= ~(1 << (site & 7))
    return end


@kernel
def _matching(mask, objects, site):
    count = 0
    for i in range(objects[site], objects[site + 1]):
        count += mask[i]
    return count


@kernel
def expand(rows, p, dimension, bounds, x, y, z, k, nearest, gap, limit, keys, room, seen, gaps):
    """List the sites nearest to a query that hold its k nearest objects, with all ties, almost in order.

    Sites beyond the squared distance ``limit`` are left out. Returns (sites listed, objects on them, a squared
    distance within which all of them lie); sites listed is -1 where ``room`` was too small. ``seen`` is a bit a site,
    all 0, and is left so.
    """
    masked = rows[p, MASK] != 0
    beyond = dimension == 2 and outside(bounds, x, y)
    bound = limit * (1.0 + SLACK)
    if gap > bound:
        return 0, 0, bound
    sites = float64_at(rows[p, SITES])
    objects = int32_at(rows[p, OBJECTS])
    first, neighbours = int32_at(rows[p, FIRST]), int32_at(rows[p, NEIGHBOURS])
    mask = uint8_at(rows[p, MASK])
    taken, count = 0, 0
    full = False
    keys[0] = _key(gap, nearest)
    end = 1
    seen[nearest >> 3] |= 1 << (nearest & 7)
    if beyond:
        rim = int32_at(rows[p, RIM])
        for t in range(rows[p, RIM_COUNT]):
            site = int(rim[t])
            if (seen[site >> 3] >> (site & 7)) & 1:
                continue
            gap = gap2(sites, site, dimension, x, y, z)
            if gap <= bound:
                if end == room:
                    end = -1 - end
                    break
                seen[site >> 3] |= 1 << (site & 7)
                _insert(keys, end, _key(gap, site))
                end += 1
                if not masked and end >= k and _least(keys[k - 1]) * _COARSE < bound:
                    bound = _least(keys[k - 1]) * _COARSE
                    end = _cut_off(keys, end, bound, seen)
    while 0 <= taken < end:
        key = keys[taken]
        if _least(key) > bound:
            break
        taken += 1
        if key & 1:
            continue
        keys[taken - 1] = key | 1
        here = _site(key)
        count += _matching(mask, objects, here) if masked else objects[here + 1] - objects[here]
        if not full and count >= k:
            full = True
            bound = min(bound, _least(key) * _COARSE)
        at = first[here]
        left = first[here + 1] - at
        while left > 0 and end >= 0:
            # no branch a neighbour: which are near and new is not to be predicted
            wanted = 0
            for t in range(min(left, NEIGHBOURHOOD)):
                site = int(neighbours[at + t])
                gap = gap2(sites, site, dimension, x, y, z)
                gaps[t] = gap
                wanted |= int((gap <= bound) & ((seen[site >> 3] >> (site & 7)) & 1 == 0)) << t
            while wanted != 0:
                t = trailing_zeros(wanted)
                wanted &= wanted - 1
                site = int(neighbours[at + t])
                if end == room:
                    end = -1 - end
                    break
                seen[site >> 3] |= 1 << (site & 7)
                new = _key(gaps[t], site)
                _insert(keys, end, new)
                end += 1
                if new < key:
                    taken = 0  # rounding of keys: it comes before one that is expanded
            if not masked and end >= k and _least(keys[k - 1]) * _COARSE < bound:
                # each site holds an object, so the k-th site listed is as far as the answer goes
                bound = _least(keys[k - 1]) * _COARSE
                end = _cut_off(keys, end, bound, seen)
            at += NEIGHBOURHOOD
            left -= NEIGHBOURHOOD
        if end < 0:
            break
    for i in range(end if end >= 0 else -1 - end):
        site = _site(keys[i])
        seen[site >> 3] &= ~(1 << (site & 7))
    if end < 0:
        return -1, 0, bound
    return taken, count, bound


@kernel
def gather(rows, p, dimension, x, y, z, k, radius, owned_only, keys, listed, distance, part, item, size, room):
    """Append the objects of listed sites to the hits from ``size`` on; -1 where ``room`` was too small.

    At most k objects of one site can be among the k nearest; they stand in id order.
    """
    sites = float64_at(rows[p, SITES])
    objects = int32_at(rows[p, OBJECTS])
    masked = rows[p, MASK] != 0
    mask = uint8_at(rows[p, MASK])
    for t in range(listed):
        site = _site(keys[t])
        if owned_only and site >= rows[p, OWNED_SITES]:
            continue
        d = reported(sites, site, dimension, x, y, z)
        if d > radius:
            continue
        left = k
        for i in range(objects[site], objects[site + 1]):
            if left == 0:
                break
            if masked and mask[i] == 0:
                continue
            if size == room:
                return -1
            distance[size], part[size], item[size] = d, p, i
            size += 1
            left -= 1
    return size


@kernel(
    "int64(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[::1], "
    "float64[::1], float64[:, ::1], int32[::1], int32[::1], int64, int64, boolean, float64[::1], float64[::1], "
    "int64[::1], uint8[::1], float64[::1], int64[::1], int64[:, ::1], float64[:, ::1], int32[:, ::1], int32[:, ::1], "
    "int64[::1], int32[::1], uint8[::1])"
)
def knn_kernel(
    rows,
    furthest_,
    pivots_,
    weights_,
    order_,
    border_,
    reach_,
    bounds,
    queries,
    homes,
    blocks,
    begin,
    k,
    strings,
    radius,
    chord,
    keys_,
    seen_,
    hit_distance,
    hit_place,
    out_id,
    out_distance,
    out_part,
    out_item,
    out_count,
    out_reads,
    need,
):
    """Answer the queries from ``begin`` on; returns how far it came: all of them, or the one that had too little room.

    A query that has to read a partition which is not open sets its flag in ``need`` and gets a count of -1.

    ``homes`` and ``blocks`` say where the queries of a batch start; empty, each comes down the hierarchy. ``radius``
    and ``chord`` are the largest distance of each query, as it is reported and squared.
    """
    m, dimension = queries.shape
    count, listed_borders = pivots_.shape[0], order_.shape[1]
    furthest, pivots, weights = pointer(furthest_), pointer(pivots_), pointer(weights_)
    order, border, reach = pointer(order_), pointer(border_), pointer(reach_)
    q = pointer(queries)
    # the first places of the workspace hold the gaps of one site's neighbours
    gaps, keys, seen = pointer(hit_distance), pointer(keys_), pointer(seen_)
    room, hit_room = keys_.size, hit_distance.size - NEIGHBOURHOOD
    distance, part = shifted(gaps, NEIGHBOURHOOD), pointer(hit_place)
    item = shifted(part, hit_room)
    planned = homes.size > 0
    home, start = -1, -1
    for r in range(begin, m):
        at = r * dimension
        x, y, z = q[at], q[at + 1], 0.0
        if dimension == 3:
            z = q[at + 2]
        before = home
        block = -1
        if planned:
            home, block = int(homes[r]), int(blocks[r])
            if r + AHEAD < m:
                fetch(rows, int(homes[r + AHEAD]), int(blocks[r + AHEAD]), dimension)
                fetch_graph(rows, int(homes[r + AHEAD // 2]), int(blocks[r + AHEAD // 2]))
        else:
            home = nearest_region(
                x, y, z, dimension, count, listed_borders, pivots, weights, order, border, max(before, 0)
            )
        if home != before or not planned:
            start = -1
        reads, size = 0, 0
        limit, within = chord[r], radius[r]
        alone = count == 1
        if rows[home, OWNED_SITES] < 0:
            need[home] = 1
            out_count[r] = -1
            continue
        if rows[home, OWNED_SITES] > 0:
            reads = 1
            start, gap, second = nearest_site(rows, home, dimension, bounds, x, y, z, start, block)
            sure = k == 1 and rows[home, MASK] == 0 and second > gap * (1.0 + SLACK) and gap <= limit * (1.0 + SLACK)
            if sure and alone:
                # the commonest question by far: one nearest site, and its lowest id
                d = reported(float64_at(rows[home, SITES]), start, dimension, x, y, z)
                out_count[r], out_reads[r] = 0, 1
                if d <= within:
                    first_item = int32_at(rows[home, OBJECTS])[start]
                    out_distance[r, 0], out_part[r, 0], out_item[r, 0], out_count[r] = d, home, first_item, 1
                    if not strings:
                        out_id[r, 0] = int64_at(rows[home, IDS])[first_item]
                continue
            if sure:
                keys[0] = start << 1
                listed, objects, inside = 1, 1, gap * (1.0 + SLACK)
            else:
                listed, objects, inside = expand(
                    rows, home, dimension, bounds, x, y, z, k, start, gap, limit, keys, room, seen, gaps
                )
                if listed < 0:
                    return r
            if objects >= k:
                limit = min(limit, inside)
            if not alone and limit < np.inf:
                far = np.sqrt(limit) * (1.0 + SLACK)
                alone = knows(
                    x,
                    y,
                    z,
                    dimension,
                    home,
                    far,
                    count,
                    listed_borders,
                    pivots,
                    weights,
                    order,
                    border,
                    reach,
                )
            size = gather(
                rows,
                home,
                dimension,
                x,
                y,
                z,
                k,
                within,
                not alone,
                keys,
                listed,
                distance,
                part,
                item,
                0,
                hit_room,
            )
            if size < 0:
                return r
        if alone:
            insert_sorted(rows, distance, part, item, 0, size)
        else:
            d = np.sqrt(pivot_gap2(x, y, z, dimension, pivots, home))
            missing = False
            for step in range(count - 1):
                far = np.sqrt(limit) * (1.0 + SLACK)
                if step < listed_borders and border[home * listed_borders + step] > d + far:
                    break
                j = other_partition(home, step, count, listed_borders, order)
                if rows[j, OWNED_SITES] == 0:
                    continue
                if not must_read(x, y, z, dimension, home, j, far, pivots, weights, furthest):
                    continue
                if rows[j, OWNED_SITES] < 0:
                    need[j] = 1
                    missing = True
                    continue
                reads += 1
                near, gap, _ = nearest_site(rows, j, dimension, bounds, x, y, z, -1, -1)
                listed, objects, inside = expand(
                    rows, j, dimension, bounds, x, y, z, k, near, gap, limit, keys, room, seen, gaps
                )
                if listed < 0:
                    return r
                if objects >= k:
                    limit = min(limit, inside)
                size = gather(
                    rows,
                    j,
                    dimension,
                    x,
                    y,
                    z,
                    k,
                    within,
                    True,
                    keys,
                    listed,
                    distance,
                    part,
                    item,
                    size,
                    hit_room,
                )
                if size < 0:
                    return r
                if size > 4 * k + 64:
                    heap_sort(rows, distance, part, item, 0, size)
                    size = k
            if missing:
                out_count[r] = -1
                continue
            heap_sort(rows, distance, part, item, 0, size)
        size = min(size, k)
        for t in range(size):
            out_distance[r, t] = distance[t]
            out_part[r, t] = part[t]
            out_item[r, t] = item[t]
            if not strings:
                out_id[r, t] = int64_at(rows[part[t], IDS])[item[t]]
        out_count[r] = size
        out_reads[r] = reads
    return m
