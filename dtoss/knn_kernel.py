"""k nearest neighbours from the Voronoi graph.

The i-th nearest site is a neighbour of one of the i - 1 nearer ones, so taking the nearest site of the frontier again and
again yields the sites in order. It goes on until the frontier is strictly further than the k-th object, with a slack for the
rounding of squared distances, because sites as far as the k-th may hold lower ids.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dtoss.hits_kernel import heap_sort, insert_sorted, reported
from dtoss.knows import SLACK, knows, pivot_distance, unlisted
from dtoss.pointers import JIT, float64_at, int32_at, int64_at, pointer, uint8_at
from dtoss.regions import nearest_region, past_border
from dtoss.table import (
    FIRST,
    IDS,
    MASK,
    NEIGHBOURS,
    OBJECTS,
    OWNED_SITES,
    RIM,
    RIM_COUNT,
    SITES,
)
from dtoss.walk import gap2, nearest_site, outside


@njit(**JIT)
def _insert(gaps, found, end, gap, site):  # type: ignore[no-untyped-def]
    i = end
    while i > 0 and gaps[i - 1] > gap:
        gaps[i] = gaps[i - 1]
        found[i] = found[i - 1]
        i -= 1
    gaps[i] = gap
    found[i] = site


@njit(**JIT)
def _cut_off(gaps, found, end, bound, seen):  # type: ignore[no-untyped-def]
    while gaps[end - 1] > bound:
        end -= 1
        seen[found[end] >> 3] &= ~(1 << (found[end] & 7))
    return end


@njit(**JIT)
def _matching(mask, objects, site):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(objects[site], objects[site + 1]):
        count += mask[i]
    return count


@njit(**JIT)
def expand(row, dimension, bounds, x, y, z, k, start, limit, gaps, found, room, seen):  # type: ignore[no-untyped-def]
    """List the sites nearest to a query that hold its k nearest objects, with all ties, nearest first.

    Sites beyond the squared distance ``limit`` are left out. Returns (sites listed, objects on them, nearest site); sites listed
    is -1 where ``room`` was too small. ``seen`` is a bit a site, all 0, and is left so.
    """
    nearest, gap = nearest_site(row, dimension, bounds, x, y, z, start)
    if nearest < 0:
        return 0, 0, -1
    sites = float64_at(row[SITES])
    objects = int32_at(row[OBJECTS])
    first, neighbours = int32_at(row[FIRST]), int32_at(row[NEIGHBOURS])
    masked = row[MASK] != 0
    mask = uint8_at(row[MASK])
    end, taken, count = 0, 0, 0
    bound = limit * (1.0 + SLACK)
    full = False
    if gap <= bound:
        gaps[0], found[0] = gap, nearest
        end = 1
        seen[nearest >> 3] |= 1 << (nearest & 7)
    if dimension == 2 and outside(bounds, x, y):
        rim = int32_at(row[RIM])
        for t in range(row[RIM_COUNT]):
            site = rim[t]
            if (seen[site >> 3] >> (site & 7)) & 1:
                continue
            gap = gap2(sites, site, dimension, x, y, z)
            if gap <= bound:
                if end == room:
                    end = -1 - end
                    break
                seen[site >> 3] |= 1 << (site & 7)
                _insert(gaps, found, end, gap, site)
                end += 1
                if not masked and end >= k and gaps[k - 1] * (1.0 + SLACK) < bound:
                    bound = gaps[k - 1] * (1.0 + SLACK)
                    end = _cut_off(gaps, found, end, bound, seen)
    while 0 <= taken < end:
        here = found[taken]
        if gaps[taken] > bound:
            break
        taken += 1
        count += _matching(mask, objects, here) if masked else objects[here + 1] - objects[here]
        if not full and count >= k:
            full = True
            bound = min(bound, gaps[taken - 1] * (1.0 + SLACK))
        for t in range(first[here], first[here + 1]):
            site = int(neighbours[t])
            gap = gap2(sites, site, dimension, x, y, z)
            if gap > bound:
                continue
            if (seen[site >> 3] >> (site & 7)) & 1:
                continue
            if end == room:
                end = -1 - end
                break
            seen[site >> 3] |= 1 << (site & 7)
            _insert(gaps, found, end, gap, site)
            end += 1
            if not masked and end >= k and gaps[k - 1] * (1.0 + SLACK) < bound:
                # each site holds an object, so the k-th site listed is as far as the answer goes
                bound = gaps[k - 1] * (1.0 + SLACK)
                end = _cut_off(gaps, found, end, bound, seen)
        if end < 0:
            break
    listed = end if end >= 0 else -1 - end
    for i in range(listed):
        seen[found[i] >> 3] &= ~(1 << (found[i] & 7))
    if end < 0:
        return -1, 0, nearest
    return taken, count, nearest


@njit(**JIT)
def gather(rows, p, dimension, x, y, z, k, radius, owned_only, found, listed, distance, part, item, size, room):  # type: ignore[no-untyped-def]
    """Append the objects of listed sites to the hits from ``size`` on; -1 where ``room`` was too small.

    At most k objects of one site can be among the k nearest; they stand in id order.
    """
    row = rows[p]
    sites = float64_at(row[SITES])
    objects = int32_at(row[OBJECTS])
    masked = row[MASK] != 0
    mask = uint8_at(row[MASK])
    for t in range(listed):
        site = found[t]
        if owned_only and site >= row[OWNED_SITES]:
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


@njit(
    [
        "int64(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], boolean, float64[::1], "
        "float64[::1], float64[:, ::1], int64, int64[::1], float64[::1], float64[::1], float64[::1], int64[::1], uint8[::1], "
        "float64[::1], int64[::1], int64[:, ::1], float64[:, ::1], int32[:, ::1], int32[:, ::1], int64[::1], int32[::1])"
    ],
    **JIT,
)
def knn_kernel(  # type: ignore[no-untyped-def]
    rows,
    furthest,
    pivots,
    weights,
    border,
    border_distance,
    complete,
    reach,
    bounds,
    queries,
    begin,
    limits,
    radius,
    chord,
    gaps_,
    found_,
    seen_,
    hit_distance,
    hit_place,
    out_id,
    out_distance,
    out_part,
    out_item,
    out_count,
    out_reads,
):
    """Answer the queries from ``begin`` on; returns how far it came: all of them, or the one that had too little room.

    ``limits`` is k and then 1 where strings are ids; ``radius`` and ``chord`` are the largest distance of each query, reported
    and squared.
    """
    count, dimension = queries.shape
    partitions = pivots.shape[0]
    listed_borders = border.shape[1]
    most_k = limits[0]
    strings = limits[1] != 0
    gaps, found, seen = pointer(gaps_), pointer(found_), pointer(seen_)
    room = gaps_.size
    hit_room = hit_distance.size
    distance = pointer(hit_distance)
    part = pointer(hit_place)
    item = pointer(hit_place[hit_room:])
    home, start, last_home = 0, -1, -1
    for r in range(begin, count):
        query = queries[r]
        x, y = query[0], query[1]
        z = query[2] if dimension == 3 else 0.0
        k = most_k
        home = 0
        if partitions > 1:
            home = nearest_region(
                query, pivots, weights, border, border_distance, complete, max(last_home, 0)
            )
        if home != last_home:
            start = -1
        last_home = home
        reads = 0
        size = 0
        limit = chord[r]
        within = radius[r]
        alone = partitions == 1
        if rows[home, OWNED_SITES] > 0:
            reads = 1
            listed, objects, start = expand(
                rows[home], dimension, bounds, x, y, z, k, start, limit, gaps, found, room, seen
            )
            if listed < 0:
                return r
            if objects >= k:
                limit = min(limit, gaps[listed - 1] * (1.0 + SLACK))
            if not alone and limit < np.inf:
                alone = knows(
                    query, home, np.sqrt(limit), pivots, weights, border, border_distance, complete, reach
                )
            size = gather(
                rows, home, dimension, x, y, z, k, within, not alone, found, listed, distance, part, item, 0, hit_room
            )
            if size < 0:
                return r
        else:
            start = -1
        if not alone:
            for step in range(partitions - 1):
                far = np.sqrt(limit) * (1.0 + SLACK)
                if step < listed_borders:
                    j = border[home, step]
                    d = pivot_distance(query, pivots, home)
                    if border_distance[home, step] > d + far:
                        break
                else:
                    # rare: more partitions than borders are listed; the rest in the order of their numbers
                    j = unlisted(border, home, step - listed_borders, partitions)
                if rows[j, OWNED_SITES] == 0:
                    continue
                if past_border(query, pivots, weights, home, j) + far < 0.0:
                    continue
                if pivot_distance(query, pivots, j) - furthest[j] > far:
                    continue
                reads += 1
                listed, objects, _ = expand(
                    rows[j], dimension, bounds, x, y, z, k, -1, limit, gaps, found, room, seen
                )
                if listed < 0:
                    return r
                if objects >= k and listed > 0:
                    limit = min(limit, gaps[listed - 1] * (1.0 + SLACK))
                size = gather(
                    rows, j, dimension, x, y, z, k, within, True, found, listed, distance, part, item, size, hit_room
                )
                if size < 0:
                    return r
                if size > 4 * k + 64:
                    heap_sort(rows, distance, part, item, 0, size)
                    size = min(size, k)
            heap_sort(rows, distance, part, item, 0, size)
        else:
            insert_sorted(rows, distance, part, item, 0, size)
        size = min(size, k)
        for t in range(size):
            out_distance[r, t] = distance[t]
            out_part[r, t] = part[t]
            out_item[r, t] = item[t]
            if not strings:
                out_id[r, t] = int64_at(rows[part[t], IDS])[item[t]]
        out_count[r] = size
        out_reads[r] = reads
    return count
