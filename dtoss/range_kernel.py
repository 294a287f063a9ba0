"""All objects within a radius: the sites of a disc are connected in the Voronoi graph, so a flood finds them."""

from __future__ import annotations

import numpy as np

from dtoss.hits_kernel import bucket_sort, reported
from dtoss.kernels import kernel
from dtoss.knn_kernel import AHEAD, NEIGHBOURHOOD
from dtoss.knows import SLACK, knows, must_read, other_partition
from dtoss.pointers import float64_at, int32_at, int64_at, pointer, shifted, trailing_zeros, uint8_at
from dtoss.regions import nearest_region, pivot_gap2
from dtoss.table import FIRST, IDS, MASK, NEIGHBOURS, OBJECTS, OWNED_SITES, RIM, RIM_COUNT, SITES
from dtoss.walk import fetch, fetch_graph, gap2, nearest_site, outside


@kernel
def flood(rows, p, dimension, bounds, x, y, z, start, block, limit, found, room, seen):
    """List the sites within the squared distance ``limit`` of a query, with a slack, in no order.

    Returns (sites listed, nearest site); -1 where ``room`` was too small. ``seen`` is a bit a site, all 0, and is
    left so.
    """
    nearest, gap, _ = nearest_site(rows, p, dimension, bounds, x, y, z, start, block)
    if nearest < 0:
        return 0, -1
    sites = float64_at(rows[p, SITES])
    first, neighbours = int32_at(rows[p, FIRST]), int32_at(rows[p, NEIGHBOURS])
    bound = limit * (1.0 + SLACK)
    if gap > bound:
        return 0, nearest
    found[0] = nearest
    seen[nearest >> 3] |= 1 << (nearest & 7)
    end, taken = 1, 0
    if dimension == 2 and outside(bounds, x, y):
        rim = int32_at(rows[p, RIM])
        for t in range(rows[p, RIM_COUNT]):
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
        at = first[here]
        left = first[here + 1] - at
        while left > 0 and taken > 0:
            wanted = 0
            for t in range(min(left, NEIGHBOURHOOD)):
                site = int(neighbours[at + t])
                gap = gap2(sites, site, dimension, x, y, z)
                wanted |= int((gap <= bound) & ((seen[site >> 3] >> (site & 7)) & 1 == 0)) << t
            while wanted != 0:
                site = int(neighbours[at + trailing_zeros(wanted)])
                wanted &= wanted - 1
                if end == room:
                    taken = -1
                    break
                seen[site >> 3] |= 1 << (site & 7)
                found[end] = site
                end += 1
            at += NEIGHBOURHOOD
            left -= NEIGHBOURHOOD
    for i in range(end):
        site = found[i]
        seen[site >> 3] &= ~(1 << (site & 7))
    if taken < 0:
        return -1, nearest
    return end, nearest


@kernel
def _collect(rows, p, dimension, x, y, z, radius, owned_only, found, listed, distance, part, item, size, room):
    """Append the objects of listed sites within the radius to the hits; returns the new size, or -1 for lack of room.

    Where ``part`` has no room at all, objects are only counted.
    """
    sites = float64_at(rows[p, SITES])
    objects = int32_at(rows[p, OBJECTS])
    masked = rows[p, MASK] != 0
    mask = uint8_at(rows[p, MASK])
    for t in range(listed):
        site = found[t]
        if owned_only and site >= rows[p, OWNED_SITES]:
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


@kernel(
    "Tuple((int64, int64))(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "float64[::1], float64[::1], float64[:, ::1], int32[::1], int32[::1], int64, boolean, boolean, float64[::1], "
    "float64[::1], int64[::1], uint8[::1], float64[::1], int64[::1], int64[::1], float64[::1], int32[::1], int32[::1], "
    "int64[::1], int64[::1], int32[::1], uint8[::1])"
)
def range_kernel(
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
    need,
):
    """Answer the queries from ``begin`` on as far as there is room; returns the query it came to and the hits written.

    The hits are negated and less one where a workspace was too small. Arguments as in ``knn_kernel``.
    """
    m, dimension = queries.shape
    count, listed_borders = pivots_.shape[0], order_.shape[1]
    furthest, pivots, weights = pointer(furthest_), pointer(pivots_), pointer(weights_)
    order, border, reach = pointer(order_), pointer(border_), pointer(reach_)
    q = pointer(queries)
    found, seen = pointer(found_), pointer(seen_)
    distance, part, item = pointer(out_distance), pointer(out_part), pointer(out_item)
    room, site_room, spare_room = out_distance.size, found_.size, spare_distance.size - NEIGHBOURHOOD
    spare_d, spare_p = pointer(spare_distance), pointer(spare_place)
    spare_i = shifted(spare_p, spare_room)
    counters = pointer(counts)
    planned = homes.size > 0
    total = 0
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
        reads = 0
        size = 0 if counting else total
        limit = chord[r]
        far = np.sqrt(limit) * (1.0 + SLACK)
        alone = count == 1
        missing = False
        if rows[home, OWNED_SITES] < 0:
            need[home] = 1
            missing = True
        elif rows[home, OWNED_SITES] > 0:
            reads = 1
            if not alone and limit < np.inf:
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
            listed, start = flood(rows, home, dimension, bounds, x, y, z, start, block, limit, found, site_room, seen)
            if listed < 0:
                return r, -1 - total
            size = _collect(
                rows,
                home,
                dimension,
                x,
                y,
                z,
                radius[r],
                not alone,
                found,
                listed,
                distance,
                part,
                item,
                size,
                room,
            )
            if size < 0:
                return r, total
        if not alone:
            d = np.sqrt(pivot_gap2(x, y, z, dimension, pivots, home))
            for step in range(count - 1):
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
                listed, _ = flood(rows, j, dimension, bounds, x, y, z, -1, -1, limit, found, site_room, seen)
                if listed < 0:
                    return r, -1 - total
                size = _collect(
                    rows,
                    j,
                    dimension,
                    x,
                    y,
                    z,
                    radius[r],
                    True,
                    found,
                    listed,
                    distance,
                    part,
                    item,
                    size,
                    room,
                )
                if size < 0:
                    return r, total
        if missing:
            out_count[r] = -1
            continue
        out_reads[r] = reads
        if counting:
            out_count[r] = size
            continue
        if size - total > spare_room:
            return r, -1 - total
        out_count[r] = size - total
        furthest_hit = 0.0
        for t in range(total, size):
            furthest_hit = max(furthest_hit, distance[t])
        bucket_sort(rows, distance, part, item, total, size, furthest_hit, spare_d, spare_p, spare_i, counters)
        if not strings:
            for t in range(total, size):
                out_id[t] = int64_at(rows[part[t], IDS])[item[t]]
        total = size
    return m, total
