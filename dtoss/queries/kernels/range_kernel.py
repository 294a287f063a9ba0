"""All objects within a radius: a search over blocks, from one that holds a site of the disc."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES, append_flagged, at_most
from dtoss.compiled.pointers import bits_set, float64_at, int32_at, int64_at, pointer, shifted, trailing_zeros, uint8_at
from dtoss.geometry.distance import NEAR_CHORD2, near_distance
from dtoss.partition import BLOCK
from dtoss.partitioning.regions import nearest_region, pivot_gap2
from dtoss.partitioning.routing import SLACK, knows, must_read, other_partition
from dtoss.queries.kernels.address_table import IDS, MASK, OBJECTS, OWNED_SITES, SINGLE, SITE_COUNT, SITES
from dtoss.queries.kernels.block_search import consider, consider_rim, gaps_of
from dtoss.queries.kernels.hit_order import reported, settle
from dtoss.queries.kernels.knn_kernel import AHEAD
from dtoss.queries.kernels.ring_sort import NAMES, ring_sort
from dtoss.queries.kernels.walk import fetch_blocks, lost, nearest_site, outside, unsure

SURE = 1e-9
"""Relative slack of squared distances within which only the reported distance tells what lies in the disc."""
TINY = 1e-300
ALL = (1 << LANES) - 1
PART_SHIFT = 32
ITEMS = (1 << PART_SHIFT) - 1


@kernel
def _within(rows, p, dimension, x, y, z, block, stop, gaps, radius, limit):
    """Return a bit for each site of a block before ``stop`` whose reported distance is at most the radius."""
    near = at_most(gaps, limit * (1.0 - SURE) - TINY)
    doubt = at_most(gaps, limit * (1.0 + SURE) + TINY) & ~near
    while doubt != 0:
        i = trailing_zeros(doubt)
        doubt &= doubt - 1
        site = block * BLOCK + i
        if site < stop and reported(float64_at(rows[p, SITES]), site, dimension, x, y, z) <= radius:
            near |= 1 << i
    lanes = stop - block * BLOCK
    if lanes < LANES:
        near &= (1 << max(lanes, 0)) - 1
    return near


@kernel
def _objects_of(rows, p, block, flags, single):
    """Return how many objects of the flagged sites of a block count."""
    if single:
        return bits_set(flags)
    objects, mask = int32_at(rows[p, OBJECTS]), uint8_at(rows[p, MASK])
    if rows[p, MASK] == 0 and flags == ALL:
        return int(objects[block * BLOCK + BLOCK] - objects[block * BLOCK])
    count = 0
    while flags != 0:
        site = block * BLOCK + trailing_zeros(flags)
        flags &= flags - 1
        if rows[p, MASK] == 0:
            count += objects[site + 1] - objects[site]
        else:
            for i in range(objects[site], objects[site + 1]):
                count += mask[i]
    return count


@kernel
def _list(rows, p, block, flags, single, gaps, distance, place, size, room):
    """Append the objects of flagged sites with what ``gaps`` says of each; returns the new size, or -1."""
    home = p << PART_SHIFT
    if single:
        if size + LANES > room:
            return -1
        return size + append_flagged(flags, gaps, home | (block * BLOCK), shifted(distance, size), shifted(place, size))
    objects, mask = int32_at(rows[p, OBJECTS]), uint8_at(rows[p, MASK])
    while flags != 0:
        lane = trailing_zeros(flags)
        flags &= flags - 1
        site = block * BLOCK + lane
        if size + objects[site + 1] - objects[site] > room:
            return -1
        for i in range(objects[site], objects[site + 1]):
            if rows[p, MASK] == 0 or mask[i]:
                distance[size] = gaps[lane]
                place[size] = home | i
                size += 1
    return size


@kernel
def search(
    rows,
    p,
    dimension,
    bounds,
    x,
    y,
    z,
    block,
    owned_only,
    counting,
    radius,
    limit,
    distance,
    place,
    size,
    room,
    queue,
    gaps,
    seen,
):
    """List or count the objects of a partition within a radius; returns the new size, or -1 for lack of room.

    ``limit`` is the radius squared, as vectors see it, and ``block`` where to begin, or -1. Where ``distance`` is
    filled, it is with reported distances. ``seen`` is a byte a block, all 0, and is left so.
    """
    if rows[p, SITE_COUNT] == 0:
        return size
    most = limit * (1.0 + SLACK)
    flood = most + lost(dimension)
    beyond = dimension == 2 and outside(bounds, x, y)
    begins_inside = False
    if block >= 0 and not beyond:
        gaps_of(rows, p, dimension, x, y, z, block, gaps)
        begins_inside = at_most(gaps, most) != 0
    if not begins_inside:
        nearest, gap, second = nearest_site(rows, p, dimension, bounds, x, y, z, -1, block)
        if gap > most:
            if not unsure(gap, second, dimension):
                return size
            flood = gap * (1.0 + SLACK) + lost(dimension)
        block = nearest // BLOCK
    single = rows[p, SINGLE] != 0 and rows[p, MASK] == 0
    stop = rows[p, OWNED_SITES] if owned_only else rows[p, SITE_COUNT]
    reach = np.sqrt(flood) * (1.0 + SLACK)
    from_gaps = dimension == 2 or limit * (1.0 + SURE) + TINY <= NEAR_CHORD2
    before = size
    queue[0] = block
    seen[block] = 1
    taken, end = 0, 1
    if beyond:
        end = consider_rim(rows, p, x, y, z, reach, queue, end, seen)
    while taken < end and size >= 0:
        block = int(queue[taken])
        taken += 1
        gaps_of(rows, p, dimension, x, y, z, block, gaps)
        if at_most(gaps, flood) == 0:
            continue  # what the disc holds is connected through blocks with a site in it
        end = consider(rows, p, x, y, z, reach, block, queue, end, seen)
        flags = _within(rows, p, dimension, x, y, z, block, stop, gaps, radius, limit)
        if counting:
            size += _objects_of(rows, p, block, flags, single)
        elif flags != 0:
            if not from_gaps:
                for i in range(LANES):
                    if (flags >> i) & 1:
                        site = block * BLOCK + i
                        gaps[i] = reported(float64_at(rows[p, SITES]), site, dimension, x, y, z)
            size = _list(rows, p, block, flags, single, gaps, distance, place, size, room)
    for t in range(end):
        seen[queue[t]] = 0
    if from_gaps and not counting:
        if dimension == 2:
            for t in range(before, size):
                distance[t] = np.sqrt(distance[t])
        else:
            for t in range(before, size):
                distance[t] = near_distance(distance[t])
    return size


@kernel(
    "Tuple((int64, int64))(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "float64[::1], float64[::1], float64[:, ::1], int32[::1], int32[::1], int64, boolean, boolean, float64[::1], "
    "float64[::1], int64[::1], int32[::1], float64[::1], uint8[::1], float64[::1], int64[::1], float64[::1], "
    "int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], uint8[::1])"
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
    places_,
    visits_,
    gaps_,
    seen_,
    distance_,
    counts,
    out_distance_,
    out_part_,
    out_item_,
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
    room, out_room = distance_.size, out_distance_.size
    keys = pointer(places_)
    ordered, place = shifted(keys, room + LANES), shifted(keys, 2 * room + LANES)
    queue, gaps, seen, distance = pointer(visits_), pointer(gaps_), pointer(seen_), pointer(distance_)
    out_distance, out_part, out_item = pointer(out_distance_), pointer(out_part_), pointer(out_item_)
    counters = pointer(counts)
    planned = homes.size > 0
    total = 0
    home = -1
    for r in range(begin, m):
        at = r * dimension
        x, y, z = q[at], q[at + 1], 0.0
        if dimension == 3:
            z = q[at + 2]
        block = -1
        if planned:
            home, block = int(homes[r]), int(blocks[r])
            if r + AHEAD < m:
                fetch_blocks(rows, int(homes[r + AHEAD]), int(blocks[r + AHEAD]), dimension)
        else:
            home = nearest_region(
                x, y, z, dimension, count, listed_borders, pivots, weights, order, border, max(home, 0)
            )
        reads, size = 0, 0
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
            size = search(
                rows,
                home,
                dimension,
                bounds,
                x,
                y,
                z,
                block,
                not alone,
                counting,
                radius[r],
                limit,
                distance,
                place,
                0,
                room,
                queue,
                gaps,
                seen,
            )
            if size < 0:
                return r, -1 - total
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
                size = search(
                    rows,
                    j,
                    dimension,
                    bounds,
                    x,
                    y,
                    z,
                    -1,
                    True,
                    counting,
                    radius[r],
                    limit,
                    distance,
                    place,
                    size,
                    room,
                    queue,
                    gaps,
                    seen,
                )
                if size < 0:
                    return r, -1 - total
        if missing:
            out_count[r] = -1
            continue
        out_reads[r] = reads
        out_count[r] = size
        if counting:
            continue
        if total + size > out_room:
            return r, total
        ring_sort(distance, size, keys, ordered, counters)
        near = -1.0
        in_order = True
        for t in range(size):
            i = ordered[t] & NAMES
            d = distance[i]
            in_order &= d > near
            near = d
            out_distance[total + t] = d
            out_part[total + t] = place[i] >> PART_SHIFT
            out_item[total + t] = place[i] & ITEMS
        if not in_order:
            settle(rows, out_distance, out_part, out_item, total, total + size)
        if not strings:
            for t in range(total, total + size):
                out_id[t] = int64_at(rows[out_part[t], IDS])[out_item[t]]
        total += size
    return m, total
