"""k nearest neighbours: where each query's search begins and how wide, which partitions it reads, and its answer.

The disc to search is guessed from the query before, or from how dense the first block is
(:mod:`dtoss.queries.kernels.nearest_disc`). The answer is ordered by reported distances.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES
from dtoss.compiled.pointers import int32_at, int64_at, pointer, shifted, uint8_at
from dtoss.partition import BLOCK
from dtoss.partitioning.regions import nearest_region, pivot_gap2
from dtoss.partitioning.routing import SLACK, knows, must_read, other_partition
from dtoss.queries.kernels.address_table import IDS, MASK, OBJECTS, OWNED_SITES, SINGLE
from dtoss.queries.kernels.hit_order import far_of, heap_sort, settle
from dtoss.queries.kernels.nearest_disc import NAMES, by_density, expand, site_of
from dtoss.queries.kernels.walk import descend, fetch, fetch_blocks, fetch_graph, lost, nearest_site, unsure

WIDER = 1.05
"""How much larger than expected a disc is searched at first, in area."""
OUTSIDE = 4.0
"""How many times larger, in area, the last disc was than the sites near a query ask for, if both are far."""
DEEPER = 1.1
"""From outside, how much further beyond its nearest site a query searches than the last one had to."""
SHALLOW = 0.125
"""And the least it does, in radii of a disc that holds k objects: the last one's may have stood on one site."""
AHEAD = 12
"""Queries ahead for which memory is asked for."""


@kernel
def gather(
    rows, p, dimension, x, y, z, k, radius, owned_only, keys, listed, queue, gaps, distance, part, item, size, room
):
    """Append the objects of listed sites to the hits from ``size`` on; -1 where ``room`` was too small.

    At most k objects of one site can be among the k nearest; they stand in id order.
    """
    objects = int32_at(rows[p, OBJECTS])
    masked = rows[p, MASK] != 0
    mask = uint8_at(rows[p, MASK])
    for t in range(listed):
        site = site_of(keys[t], queue)
        if owned_only and site >= rows[p, OWNED_SITES]:
            continue
        d = far_of(rows, p, dimension, x, y, z, site, gaps[keys[t] & NAMES])
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


@kernel
def _write(
    rows, p, dimension, x, y, z, k, keys, listed, queue, gaps, strings, r, out_id, out_distance, out_part, out_item
):
    """Write the objects of listed sites as the answer to query r; returns how many, or -1 if they are out of order."""
    objects = int32_at(rows[p, OBJECTS])
    single = rows[p, SINGLE] != 0
    before = -1.0
    ordered = True
    size = 0
    for t in range(listed):
        site = site_of(keys[t], queue)
        d = far_of(rows, p, dimension, x, y, z, site, gaps[keys[t] & NAMES])
        ordered = ordered and d > before
        before = d
        begin, end = site, site + 1
        if not single:
            begin, end = int(objects[site]), int(objects[site + 1])
        for i in range(begin, min(end, begin + k - size)):
            out_distance[r, size], out_part[r, size], out_item[r, size] = d, p, i
            if not strings:
                out_id[r, size] = int64_at(rows[p, IDS])[i]
            size += 1
    return size if ordered else -1


@kernel(
    "int64(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[::1], "
    "float64[::1], float64[:, ::1], int32[::1], int32[::1], int64, int64, boolean, float64[::1], float64[::1], "
    "int64[::1], int32[::1], float64[::1], uint8[::1], float64[::1], int64[:, ::1], float64[:, ::1], int32[:, ::1], "
    "int32[:, ::1], int64[::1], int32[::1], uint8[::1])"
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
    places_,
    visits_,
    gaps_,
    seen_,
    distance_,
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
    room = distance_.size
    keys = pointer(places_)
    ordered, part, item = shifted(keys, room + LANES), shifted(keys, 2 * room + LANES), shifted(keys, 3 * room + LANES)
    queue, gaps, seen, distance = pointer(visits_), pointer(gaps_), pointer(seen_), pointer(distance_)
    planned = homes.size > 0
    home, start = -1, -1
    before_last = depth = -1.0
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
                if k == 1:
                    fetch(rows, int(homes[r + AHEAD]), int(blocks[r + AHEAD]), dimension)
                    fetch_graph(rows, int(homes[r + AHEAD // 2]), int(blocks[r + AHEAD // 2]))
                else:
                    fetch_blocks(rows, int(homes[r + AHEAD]), int(blocks[r + AHEAD]), dimension)
        else:
            home = nearest_region(
                x, y, z, dimension, count, listed_borders, pivots, weights, order, border, max(before, 0)
            )
        if home != before or not planned:
            start = -1
            before_last = depth = -1.0
        reads, size = 0, 0
        limit, within = chord[r], radius[r]
        alone = count == 1
        if rows[home, OWNED_SITES] < 0:
            need[home] = 1
            out_count[r] = -1
            continue
        if rows[home, OWNED_SITES] > 0:
            reads = 1
            gap = second = 0.0
            if k == 1 or limit < np.inf:
                start, gap, second = nearest_site(rows, home, dimension, bounds, x, y, z, start, block)
                block = start // BLOCK
                sure = second > gap * (1.0 + SLACK) + lost(dimension) and gap <= limit * (1.0 + SLACK)
                if k == 1 and sure and rows[home, MASK] == 0:
                    if not alone:
                        alone = knows(
                            x,
                            y,
                            z,
                            dimension,
                            home,
                            np.sqrt(gap) * (1.0 + SLACK),
                            count,
                            listed_borders,
                            pivots,
                            weights,
                            order,
                            border,
                            reach,
                        )
                    if alone:
                        # the commonest question by far: one nearest site, and its lowest id
                        d = far_of(rows, home, dimension, x, y, z, start, gap)
                        out_count[r], out_reads[r] = 0, 1
                        if d <= within:
                            item_ = int32_at(rows[home, OBJECTS])[start]
                            out_distance[r, 0], out_part[r, 0], out_item[r, 0], out_count[r] = d, home, item_, 1
                            if not strings:
                                out_id[r, 0] = int64_at(rows[home, IDS])[item_]
                        continue
            elif block < 0:
                block = descend(rows, home, dimension, x, y, z)
            listed, objects, inside = 0, 0, limit
            some = gap <= limit * (1.0 + SLACK)
            if some or unsure(gap, second, dimension):
                guess = by_density(rows, home, k, block)
                if k == 1:
                    guess = gap * WIDER
                elif before_last > OUTSIDE * guess:
                    # far from all sites, where a disc crosses many more of them than a ball of its size holds
                    start, gap, _ = nearest_site(rows, home, dimension, bounds, x, y, z, start, block)
                    block = start // BLOCK
                    dense = np.sqrt(by_density(rows, home, k, block))
                    depth = DEEPER * max(depth, SHALLOW * dense) if depth >= 0.0 else dense
                    guess = (np.sqrt(gap) + depth) ** 2
                elif before_last >= 0.0:
                    guess = WIDER * np.sqrt(guess * before_last)
                listed, objects, inside, last = expand(
                    rows,
                    home,
                    dimension,
                    bounds,
                    x,
                    y,
                    z,
                    k,
                    block,
                    guess,
                    limit if some else np.inf,
                    keys,
                    ordered,
                    room,
                    queue,
                    gaps,
                    seen,
                )
                if listed < 0:
                    return r
                depth = np.sqrt(last) - np.sqrt(gap) if gap > 0.0 and last < np.inf else -1.0
                before_last = last if last < np.inf else -1.0
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
            if alone and within == np.inf and rows[home, MASK] == 0:
                size = _write(
                    rows,
                    home,
                    dimension,
                    x,
                    y,
                    z,
                    k,
                    ordered,
                    listed,
                    queue,
                    gaps,
                    strings,
                    r,
                    out_id,
                    out_distance,
                    out_part,
                    out_item,
                )
                if size >= 0:
                    out_count[r], out_reads[r] = size, 1
                    continue
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
                ordered,
                listed,
                queue,
                gaps,
                distance,
                part,
                item,
                0,
                room,
            )
            if size < 0:
                return r
        if alone:
            settle(rows, distance, part, item, 0, size)
        else:
            d = np.sqrt(pivot_gap2(x, y, z, dimension, pivots, home))
            missing = everything = False
            step = -1
            while True:
                step += 1
                far = np.sqrt(limit) * (1.0 + SLACK)
                if everything:
                    if step == count:
                        break
                    j = step
                elif step == count - 1 or (step < listed_borders and border[home * listed_borders + step] > d + far):
                    if size >= k or missing or limit == np.inf or within < np.inf:
                        break
                    # k replicas have been seen, and not all of their owners: whatever the reason, all are read
                    everything, step, size, reads, limit = True, -1, 0, 0, np.inf
                    continue
                else:
                    j = other_partition(home, step, count, listed_borders, order)
                if rows[j, OWNED_SITES] == 0:
                    continue
                if not everything and not must_read(x, y, z, dimension, home, j, far, pivots, weights, furthest):
                    continue
                if rows[j, OWNED_SITES] < 0:
                    need[j] = 1
                    missing = True
                    continue
                reads += 1
                near, gap, second = nearest_site(rows, j, dimension, bounds, x, y, z, -1, -1)
                some = gap <= limit * (1.0 + SLACK)
                if not some and not unsure(gap, second, dimension):
                    continue
                block = near // BLOCK
                wide = max(by_density(rows, j, k, block), gap * WIDER)
                listed, objects, inside, _ = expand(
                    rows,
                    j,
                    dimension,
                    bounds,
                    x,
                    y,
                    z,
                    k,
                    block,
                    wide,
                    limit if some else np.inf,
                    keys,
                    ordered,
                    room,
                    queue,
                    gaps,
                    seen,
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
                    ordered,
                    listed,
                    queue,
                    gaps,
                    distance,
                    part,
                    item,
                    size,
                    room,
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
