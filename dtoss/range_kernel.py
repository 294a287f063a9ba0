"""All objects within a radius, from the Voronoi graph: the sites of a disc are connected, so a flood from the nearest finds them."""

from __future__ import annotations

import numpy as np
from numba import njit

from dtoss.hits_kernel import bucket_sort, reported
from dtoss.knows import SLACK, knows, pivot_distance, unlisted
from dtoss.pointers import JIT, float64_at, int32_at, int64_at, pointer, shifted, uint8_at
from dtoss.regions import nearest_region, past_border
from dtoss.table import FIRST, IDS, MASK, NEIGHBOURS, OBJECTS, OWNED_SITES, RIM, RIM_COUNT, SITES
from dtoss.walk import gap2, nearest_site, outside


@njit(**JIT)
def flood(row, dimension, bounds, x, y, z, start, limit, found, room, seen):  # type: ignore[no-untyped-def]
    """List the sites within the squared distance ``limit`` of a query, with a slack, in no order.

    Returns (sites listed, nearest site); -1 where ``room`` was too small. ``seen`` is a bit a site, all 0, and is left so.
    """
    nearest, gap = nearest_site(row, dimension, bounds, x, y, z, start)
    if nearest < 0:
        return 0, -1
    sites = float64_at(row[SITES])
    first, neighbours = int32_at(row[FIRST]), int32_at(row[NEIGHBOURS])
    bound = limit * (1.0 + SLACK)
    if gap > bound:
        return 0, nearest
    found[0] = nearest
    seen[nearest >> 3] |= 1 << (nearest & 7)
    end, taken = 1, 0
    if dimension == 2 and outside(bounds, x, y):
        rim = int32_at(row[RIM])
        for t in range(row[RIM_COUNT]):
            site = int(rim[t])
            if gap2(sites, site, dimension, x, y, z) <= bound and not (seen[site >> 3] >> (site & 7)) & 1:
                if end == room:
                    taken = -1
                    break
                seen[site >> 3] |= 1 << (site & 7)
                found[end] = site
                end += 1
    while 0 <= taken < end:
        here = found[taken]
        taken += 1
        for t in range(first[here], first[here + 1]):
            site = int(neighbours[t])
            if (seen[site >> 3] >> (site & 7)) & 1:
                continue
            if gap2(sites, site, dimension, x, y, z) > bound:
                continue
            if end == room:
                taken = -1
                break
            seen[site >> 3] |= 1 << (site & 7)
            found[end] = site
            end += 1
    for i in range(end):
        site = found[i]
        seen[site >> 3] &= ~(1 << (site & 7))
    if taken < 0:
        return -1, nearest
    return end, nearest


@njit(**JIT)
def _collect(rows, p, dimension, x, y, z, radius, owned_only, found, listed, distance, part, item, size, room):  # type: ignore[no-untyped-def]
    """Append the objects of listed sites within the radius to the hits; returns the new size, or -1 for lack of room.

    Where ``part`` has no room at all, objects are only counted.
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
        for i in range(objects[site], objects[site + 1]):
            if masked and mask[i] == 0:
                continue
            if room > 0:
                if size == room:
                    return -1
                distance[size], part[size], item[size] = d, p, i
            size += 1
    return size


@njit(
    [
        "Tuple((int64, int64))(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
        "boolean, float64[::1], float64[::1], float64[:, ::1], int64, boolean, boolean, float64[::1], float64[::1], int64[::1], "
        "uint8[::1], float64[::1], int64[::1], int64[::1], float64[::1], int32[::1], int32[::1], int64[::1], int64[::1], "
        "int32[::1])"
    ],
    **JIT,
)
def range_kernel(  # type: ignore[no-untyped-def]
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
    strings,
    counting,
    radius,
    chord,
    found_,
    seen_,
    spare_distance,
    spare_place,
    counts,
    out_distance,
    out_part,
    out_item,
    out_id,
    out_count,
    out_reads,
):
    """Answer the queries from ``begin`` on as far as there is room; returns the query it came to and the hits written.

    A query that had too little room in ``found_`` comes back with the hits so far negated and less one.
    """
    count, dimension = queries.shape
    partitions = pivots.shape[0]
    listed_borders = border.shape[1]
    found, seen = pointer(found_), pointer(seen_)
    distance, part, item = pointer(out_distance), pointer(out_part), pointer(out_item)
    room = out_distance.size
    spare_room = spare_distance.size
    spare_d, spare_p = pointer(spare_distance), pointer(spare_place)
    spare_i = shifted(spare_p, spare_room)
    counters = pointer(counts)
    total = 0
    home, start, last_home = 0, -1, -1
    for r in range(begin, count):
        query = queries[r]
        x, y = query[0], query[1]
        z = query[2] if dimension == 3 else 0.0
        home = 0
        if partitions > 1:
            home = nearest_region(query, pivots, weights, border, border_distance, complete, max(last_home, 0))
        if home != last_home:
            start = -1
        last_home = home
        reads = 0
        size = 0 if counting else total
        limit = chord[r]
        far = np.sqrt(limit) * (1.0 + SLACK)
        alone = partitions == 1
        if rows[home, OWNED_SITES] > 0:
            reads = 1
            if not alone and limit < np.inf:
                alone = knows(query, home, far, pivots, weights, border, border_distance, complete, reach)
            listed, start = flood(rows[home], dimension, bounds, x, y, z, start, limit, found, found_.size, seen)
            if listed < 0:
                return r, -1 - total
            size = _collect(
                rows, home, dimension, x, y, z, radius[r], not alone, found, listed, distance, part, item, size, room
            )
            if size < 0:
                return r, total
        else:
            start = -1
            alone = False
        if not alone:
            d = pivot_distance(query, pivots, home)
            for step in range(partitions - 1):
                if step < listed_borders:
                    j = int(border[home, step])
                    if border_distance[home, step] > d + far:
                        break
                else:
                    j = unlisted(border, home, step - listed_borders, partitions)
                if rows[j, OWNED_SITES] == 0:
                    continue
                if past_border(query, pivots, weights, home, j) + far < 0.0:
                    continue
                if pivot_distance(query, pivots, j) - furthest[j] > far:
                    continue
                reads += 1
                listed, _ = flood(rows[j], dimension, bounds, x, y, z, -1, limit, found, found_.size, seen)
                if listed < 0:
                    return r, -1 - total
                size = _collect(
                    rows, j, dimension, x, y, z, radius[r], True, found, listed, distance, part, item, size, room
                )
                if size < 0:
                    return r, total
        out_reads[r] = reads
        if counting:
            out_count[r] = size
            continue
        out_count[r] = size - total
        if size - total > spare_room:
            return r, -1 - total
        furthest_hit = 0.0
        for t in range(total, size):
            furthest_hit = max(furthest_hit, distance[t])
        bucket_sort(rows, distance, part, item, total, size, furthest_hit, spare_d, spare_p, spare_i, counters)
        if not strings:
            for t in range(total, size):
                out_id[t] = int64_at(rows[part[t], IDS])[item[t]]
        total = size
    return count, total
