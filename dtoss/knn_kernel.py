"""k nearest neighbours from the graph of blocks.

The k nearest sites lie in a disc, and the blocks that hold the sites of a disc are connected: from a block near the
query the search spreads to neighbours whose balls meet the disc, and looks at 16 sites at once. How wide the disc must
be is not known, so it is guessed from the query before, or from how dense the first block is. Too narrow, it is
widened, and only what it left out is looked at again; too wide, the k-th nearest of what was found bounds it.

Found sites are 64-bit keys: the upper bits of the squared distance, then where the site was found. What is left out of
the distance is added to the disc; the answer is ordered by reported distances.
"""

from __future__ import annotations

import numpy as np

from dtoss.blocks import BLOCK
from dtoss.distance import NEAR, near_distance
from dtoss.hits_kernel import heap_sort, reported, settle
from dtoss.kernels import kernel
from dtoss.knows import SLACK, knows, must_read, other_partition
from dtoss.lanes import LANES, append_near, at_most, sort_keys
from dtoss.pointers import (
    bits_float,
    float64_at,
    float_bits,
    int32_at,
    int64_at,
    pointer,
    prefetch,
    shifted,
    trailing_zeros,
    uint8_at,
)
from dtoss.regions import nearest_region, pivot_gap2
from dtoss.spread import consider, consider_rim, gaps_of, meets
from dtoss.table import (
    BALLS,
    IDS,
    MASK,
    OBJECTS,
    OWNED_SITES,
    SINGLE,
    SITE_COUNT,
    SITES,
)
from dtoss.walk import descend, fetch, fetch_blocks, fetch_graph, fetch_ids, fetch_sites, nearest_site, outside

NAME_BITS = 28
NAMES = (1 << NAME_BITS) - 1
"""The bits of a key that say where its site was found: the how manieth block visited, and which of its sites."""
COARSE = 1.0 + 2.0**-23
"""A squared distance read back from a key is at most this much too small."""
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
def _least(key):
    return bits_float(key & ~NAMES)


@kernel
def _site(key, queue):
    name = key & NAMES
    return int(queue[name // BLOCK]) * BLOCK + name % BLOCK


@kernel
def _weight(rows, p, site):
    """Return how many objects of a site count."""
    objects = int32_at(rows[p, OBJECTS])
    if rows[p, MASK] == 0:
        return int(objects[site + 1] - objects[site])
    mask = uint8_at(rows[p, MASK])
    count = 0
    for i in range(objects[site], objects[site + 1]):
        count += mask[i]
    return count


@kernel
def _take(rows, p, slot, queue, gaps, near, bound, keys, listed, count):
    """Append the sites within the bound of the block visited as number ``slot``; returns sites and objects listed.

    Without a mask the objects are not counted: there are at least as many as sites.
    """
    here = shifted(gaps, slot * LANES)
    if rows[p, MASK] == 0:
        listed += append_near(here, bound, NAMES, slot * BLOCK, shifted(keys, listed))
        return listed, listed
    while near != 0:
        i = trailing_zeros(near)
        near &= near - 1
        weight = _weight(rows, p, int(queue[slot]) * BLOCK + i)
        if weight > 0:
            keys[listed] = (float_bits(here[i]) & ~NAMES) | (slot * BLOCK + i)
            listed += 1
            count += weight
    return listed, count


@kernel
def _count(rows, p, queue, keys, listed):
    """Return how many objects stand on listed sites, without a mask."""
    objects = int32_at(rows[p, OBJECTS])
    count = 0
    for t in range(listed):
        site = _site(keys[t], queue)
        count += objects[site + 1] - objects[site]
    return count


@kernel
def _cut(rows, p, single, k, queue, keys, listed, bound):
    """Cut sorted keys behind the k-th object and what may be as far.

    Returns (sites, objects, squared distance within which all are kept, a squared distance for the k-th object).
    """
    end, count = 0, 0
    if single:
        end = count = min(k, listed)
    else:
        objects, ids = int32_at(rows[p, OBJECTS]), int64_at(rows[p, IDS])
        while end < listed and count < k:
            site = _site(keys[end], queue)
            prefetch(ids, int(objects[site]))
            count += _weight(rows, p, site)
            end += 1
    if count < k:
        return end, count, bound, np.inf
    last = _least(keys[end - 1]) * COARSE
    bound = min(bound, last)
    while end < listed and _least(keys[end]) <= bound:
        count += 1 if single else _weight(rows, p, _site(keys[end], queue))
        end += 1
    return end, count, bound, last


@kernel
def by_density(rows, p, k, block):
    """Return the squared radius of a disc that holds k objects if they are as dense as in a block."""
    begin = block * BLOCK
    end = min(begin + BLOCK, rows[p, SITE_COUNT])
    objects = int32_at(rows[p, OBJECTS])
    radius = float64_at(rows[p, BALLS])[4 * block + 3]
    return radius * radius * (float(k) / float(objects[end] - objects[begin]))


@kernel
def expand(rows, p, dimension, bounds, x, y, z, k, start, guess, limit, keys, ordered, room, queue, gaps, seen):
    """List the sites nearest to a query that hold its k nearest objects, with all ties, almost in order.

    The search begins in block ``start`` with a disc of squared radius ``guess``. Sites beyond the squared distance
    ``limit`` are left out; unless that is infinite, ``start`` holds a site within it.

    Returns (sites listed, objects on them, a squared distance within which all of them lie, one for the k-th object);
    sites listed is -1 where ``room`` was too small. ``seen`` is a byte a block, all 0, and is left so.
    """
    single = rows[p, SINGLE] != 0 and rows[p, MASK] == 0
    multiple = rows[p, SINGLE] == 0 and rows[p, MASK] == 0
    balls, objects_on = float64_at(rows[p, BALLS]), int32_at(rows[p, OBJECTS])
    beyond = dimension == 2 and outside(bounds, x, y)
    most = limit * (1.0 + SLACK)
    bound = min(guess, most)
    reach = np.sqrt(bound) * (1.0 + SLACK)
    widen, enough, narrowed = 2.0, 2 * k + 2 * LANES, False
    taken, end, listed, count = 0, 1, 0, 0
    sites, objects, inside, last = 0, 0, bound, np.inf
    queue[0] = start
    seen[start] = 1
    if beyond:
        end = consider_rim(rows, p, x, y, z, reach, queue, end, seen)
    again = 0
    while True:
        if again < taken:
            slot = again
            again += 1
        elif taken < end:
            slot = taken
            block = int(queue[slot])
            taken += 1
            again = taken
            if narrowed and meets(balls, block, x, y, z, reach) == 0:
                continue
            gaps_of(rows, p, dimension, x, y, z, block, shifted(gaps, slot * LANES))
        else:
            if multiple and count < k:
                count = _count(rows, p, queue, keys, listed)
            if count >= k or bound >= most:
                sort_keys(keys, listed, ordered)
                sites, objects, inside, last = _cut(rows, p, single, k, queue, ordered, listed, bound)
                if last <= bound or bound >= most:
                    break
                # the k-th object stands at the very edge: what ties with it may lie behind
                bound = min(last, most)
            else:
                wider = bound * widen if bound > 0.0 else by_density(rows, p, 1, start)
                bound = min(wider, most) if wider > bound else most
                widen *= widen
            # what was looked at is listed anew, and its neighbours are asked again
            reach = np.sqrt(bound) * (1.0 + SLACK)
            if beyond:
                end = consider_rim(rows, p, x, y, z, reach, queue, end, seen)
            again, listed, count = 0, 0, 0
            continue
        if listed + LANES > room:
            sites = -1
            break
        near = at_most(shifted(gaps, slot * LANES), bound)
        if near == 0 and slot > 0:
            continue  # what the disc holds is connected through blocks with a site in it
        block = int(queue[slot])
        end = consider(rows, p, x, y, z, reach, block, queue, end, seen)
        fetch_sites(rows, p, int(queue[min(taken + 1, end - 1)]), dimension)
        if single:
            fetch_ids(rows, p, block)
        else:
            prefetch(objects_on, block * BLOCK)
        listed, count = _take(rows, p, slot, queue, gaps, near, bound, keys, listed, count)
        if count > enough:
            sort_keys(keys, listed, ordered)
            listed, count, bound, _ = _cut(rows, p, single, k, queue, ordered, listed, bound)
            for i in range(listed):
                keys[i] = ordered[i]
            reach = np.sqrt(bound) * (1.0 + SLACK)
            narrowed = True
            enough = max(enough, 2 * count)
    for t in range(end):
        seen[queue[t]] = 0
    return sites, objects, inside, last


@kernel
def _far(rows, p, dimension, x, y, z, site, gap):
    """Return the reported distance of a site whose squared distance is known."""
    if dimension == 2:
        return np.sqrt(gap)
    if gap <= NEAR:
        return near_distance(gap)
    return reported(float64_at(rows[p, SITES]), site, dimension, x, y, z)


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
        site = _site(keys[t], queue)
        if owned_only and site >= rows[p, OWNED_SITES]:
            continue
        d = _far(rows, p, dimension, x, y, z, site, gaps[keys[t] & NAMES])
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
        site = _site(keys[t], queue)
        d = _far(rows, p, dimension, x, y, z, site, gaps[keys[t] & NAMES])
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
            gap = 0.0
            if k == 1 or limit < np.inf:
                start, gap, second = nearest_site(rows, home, dimension, bounds, x, y, z, start, block)
                block = start // BLOCK
                sure = second > gap * (1.0 + SLACK) and gap <= limit * (1.0 + SLACK)
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
                        d = _far(rows, home, dimension, x, y, z, start, gap)
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
            if gap <= limit * (1.0 + SLACK):
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
                    limit,
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
                if gap > limit * (1.0 + SLACK):
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
                    limit,
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
