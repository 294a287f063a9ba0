"""All objects within a radius: a search over blocks, from one that holds a site of the disc.

A query goes through these steps, a function each: :func:`search` at home, and at others where its home does not know
all, and :func:`write_hits`.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES, append_flagged, at_most
from dtoss.compiled.pointers import bits_set, float64_at, int32_at, int64_at, pointer, shifted, trailing_zeros, uint8_at
from dtoss.compiled.rank_sort import NAMES
from dtoss.geometry.distance import NEAR_CHORD2, near_distance
from dtoss.geometry.place import place_at
from dtoss.geometry.rounding import PRUNE, SURE, TINY
from dtoss.partition import BLOCK
from dtoss.partitioning.fences import fences_of
from dtoss.partitioning.regions import nearest_region
from dtoss.partitioning.routing import knows
from dtoss.queries.kernels.address_table import IDS, MASK, OBJECTS, OWNED_SITES, SINGLE, SITE_COUNT, SITES, row_of
from dtoss.queries.kernels.arguments import NO_ROOM, Answers, Query, Snapshot, scratch_of
from dtoss.queries.kernels.block_search import consider, consider_rim, forget, gaps_of
from dtoss.queries.kernels.hit_order import reported, settle
from dtoss.queries.kernels.knn_kernel import AHEAD
from dtoss.queries.kernels.next_to_read import next_to_read
from dtoss.queries.kernels.ring_sort import ring_sort
from dtoss.queries.kernels.walk import fetch_blocks, lost, nearest_site, outside, unsure

ALL_LANES = (1 << LANES) - 1
"""A flag for each site of a block."""
PART_SHIFT = 32
"""Bits of a hit's number below its partition: those of the object in it."""
ITEMS = (1 << PART_SHIFT) - 1
"""These bits."""


@kernel
def _within(row, query, block, stop, gaps):
    """Return a bit for each site of a block before ``stop`` whose reported distance is at most the radius."""
    near = at_most(gaps, query.limit * (1.0 - SURE) - TINY)
    doubt = at_most(gaps, query.limit * (1.0 + SURE) + TINY) & ~near
    while doubt != 0:
        i = trailing_zeros(doubt)
        doubt &= doubt - 1
        site = block * BLOCK + i
        if site < stop and reported(float64_at(row[SITES]), site, query.place) <= query.radius:
            near |= 1 << i
    lanes = stop - block * BLOCK
    if lanes < LANES:
        near &= (1 << max(lanes, 0)) - 1
    return near


@kernel
def _objects_of(row, block, flags, single):
    """Return how many objects of the flagged sites of a block count."""
    if single:
        return bits_set(flags)
    objects, mask = int32_at(row[OBJECTS]), uint8_at(row[MASK])
    if row[MASK] == 0 and flags == ALL_LANES:
        return int(objects[block * BLOCK + BLOCK] - objects[block * BLOCK])
    count = 0
    while flags != 0:
        site = block * BLOCK + trailing_zeros(flags)
        flags &= flags - 1
        if row[MASK] == 0:
            count += objects[site + 1] - objects[site]
        else:
            for i in range(objects[site], objects[site + 1]):
                count += mask[i]
    return count


@kernel
def _list(row, p, block, flags, single, size, scratch):
    """Append the objects of flagged sites with what the gaps say of each; returns the new size, or NO_ROOM."""
    distance, place, gaps, room = scratch.distance, scratch.part, scratch.gaps, scratch.room
    home = p << PART_SHIFT
    if single:
        if size + LANES > room:
            return NO_ROOM
        return size + append_flagged(flags, gaps, home | (block * BLOCK), shifted(distance, size), shifted(place, size))
    objects, mask = int32_at(row[OBJECTS]), uint8_at(row[MASK])
    while flags != 0:
        lane = trailing_zeros(flags)
        flags &= flags - 1
        site = block * BLOCK + lane
        if size + objects[site + 1] - objects[site] > room:
            return NO_ROOM
        for i in range(objects[site], objects[site + 1]):
            if row[MASK] == 0 or mask[i]:
                distance[size] = gaps[lane]
                place[size] = home | i
                size += 1
    return size


@kernel
def _first_block(row, query, bounds, block, scratch):
    """Return a block with a site of the disc, and a squared distance within which its sites are connected.

    ``block`` is one near the query, or -1; the one returned is -1 where no site lies in the disc.
    """
    place = query.place
    most = query.limit * (1.0 + PRUNE)
    flood = most + lost(place.dimension)
    if block >= 0 and not outside(bounds, place):
        gaps_of(row, place, block, scratch.gaps)
        if at_most(scratch.gaps, most) != 0:
            return block, flood
    nearest = nearest_site(row, place, bounds, -1, block)
    if nearest.gap > most:
        if not unsure(nearest, place.dimension):
            return -1, flood
        flood = nearest.gap * (1.0 + PRUNE) + lost(place.dimension)
    return nearest.site // BLOCK, flood


@kernel
def search(snapshot, p, query, block, owned_only, counting, size, scratch):
    """List or count the objects of a partition within a radius; returns the new size, or :data:`NO_ROOM`.

    ``block`` is one near the query, or -1. Where hits are listed, it is with reported distances.
    """
    row, place = row_of(snapshot.rows, p), query.place
    queue, seen, gaps, distance = scratch.queue, scratch.seen, scratch.gaps, scratch.distance
    if row[SITE_COUNT] == 0:
        return size
    block, flood = _first_block(row, query, snapshot.bounds, block, scratch)
    if block < 0:
        return size
    single = row[SINGLE] != 0 and row[MASK] == 0
    stop = row[OWNED_SITES] if owned_only else row[SITE_COUNT]
    reach = np.sqrt(flood) * (1.0 + PRUNE)
    # squares are listed and made distances together, if all of them are short enough for that
    from_gaps = place.dimension == 2 or query.limit * (1.0 + SURE) + TINY <= NEAR_CHORD2
    before = size
    queue[0] = block
    seen[block] = 1
    taken, end = 0, 1
    if outside(snapshot.bounds, place):
        end = consider_rim(row, place, reach, end, scratch)
    while taken < end and size >= 0:
        block = int(queue[taken])
        taken += 1
        gaps_of(row, place, block, gaps)
        if at_most(gaps, flood) == 0:
            continue  # what the disc holds is connected through blocks with a site in it
        end = consider(row, place, reach, block, end, scratch)
        flags = _within(row, query, block, stop, gaps)
        if counting:
            size += _objects_of(row, block, flags, single)
        elif flags != 0:
            if not from_gaps:
                for i in range(LANES):
                    if (flags >> i) & 1:
                        gaps[i] = reported(float64_at(row[SITES]), block * BLOCK + i, place)
            size = _list(row, p, block, flags, single, size, scratch)
    forget(end, scratch)
    if from_gaps and not counting:
        if place.dimension == 2:
            for t in range(before, size):
                distance[t] = np.sqrt(distance[t])
        else:
            for t in range(before, size):
                distance[t] = near_distance(distance[t])
    return size


@kernel
def write_hits(rows, size, total, scratch, counters, out):
    """Write the hits of a query behind the ``total`` that are written, in order."""
    keys, distance, place = scratch.ordered, scratch.distance, scratch.part
    ring_sort(distance, size, scratch.keys, keys, counters)
    near = -1.0
    in_order = True
    for t in range(size):
        i = keys[t] & NAMES
        d = distance[i]
        in_order &= d > near
        near = d
        out.distance[total + t] = d
        out.part[total + t] = place[i] >> PART_SHIFT
        out.item[total + t] = place[i] & ITEMS
    if not in_order:
        settle(rows, out.distance, out.part, out.item, total, total + size)
    if not out.strings:
        for t in range(total, total + size):
            out.id[t] = int64_at(row_of(rows, int(out.part[t]))[IDS])[out.item[t]]


@kernel(
    "Tuple((int64, int64))(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "float64[::1], float64[::1], float64[:, ::1], int32[::1], int32[::1], int64, boolean, boolean, float64[::1], "
    "float64[::1], int64[::1], int32[::1], float64[::1], uint8[::1], float64[::1], int64[::1], float64[::1], "
    "int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], uint8[::1])"
)
def range_kernel(rows, furthest, pivots, weights, order, border, reach, bounds, queries, homes, blocks, begin, strings,
                 counting, radius, chord, places, visits, gaps, seen, distance, counts, out_distance, out_part,
                 out_item, out_id, out_count, out_reads, need):  # fmt: skip
    """Answer the queries from ``begin`` on as far as there is room; returns the query it came to and the hits written.

    The hits are negated and less one where a workspace was too small: the caller makes it larger. It keeps what is
    written, and comes again from the query that has no answer. Arguments as in ``knn_kernel``.
    """
    m, dimension = queries.shape
    fences = fences_of(pivots, weights, order, border)
    snapshot = Snapshot(pointer(rows), fences, pointer(reach), pointer(furthest), pointer(bounds))
    scratch = scratch_of(places, visits, gaps, seen, distance)
    out = Answers(pointer(out_id), pointer(out_distance), pointer(out_part), pointer(out_item), pointer(out_count),
                  pointer(out_reads), out_distance.size, strings)  # fmt: skip
    q, planned = pointer(queries), homes.size > 0
    total, home = 0, -1
    for r in range(begin, m):
        query = Query(r, place_at(q, r, dimension), radius[r], chord[r])
        far = np.sqrt(query.limit) * (1.0 + PRUNE)
        # which partition holds it, and which of its blocks is near: planned for a batch in curve order
        block = -1
        if planned:
            home, block = int(homes[r]), int(blocks[r])
            if r + AHEAD < m:
                fetch_blocks(row_of(snapshot.rows, int(homes[r + AHEAD])), int(blocks[r + AHEAD]), dimension)
        else:
            home = nearest_region(query.place, fences, max(home, 0))
        reads, size = 0, 0
        alone, missing = fences.partitions == 1, False
        # what the home has: all, where it knows everything within the radius
        owned = row_of(snapshot.rows, home)[OWNED_SITES]
        if owned < 0:
            need[home] = 1
            missing = True
        elif owned > 0:
            reads = 1
            if not alone and query.limit < np.inf:
                alone = knows(query.place, fences, snapshot.reach, home, far)
            size = search(snapshot, home, query, block, not alone, counting, 0, scratch)
        # what others own of it
        p, step = -1, -1
        if not alone:
            p, step = next_to_read(snapshot, query.place, home, far, step, False)
        while p >= 0 and size >= 0:
            if row_of(snapshot.rows, p)[OWNED_SITES] < 0:
                need[p] = 1
                missing = True
            else:
                reads += 1
                size = search(snapshot, p, query, -1, True, counting, size, scratch)
            p, step = next_to_read(snapshot, query.place, home, far, step, False)
        if size < 0:
            return r, -1 - total
        if missing:
            out.hits[r] = -1
            continue
        out.hits[r], out.reads[r] = size, reads
        if counting:
            continue
        if total + size > out.room:
            return r, total
        write_hits(snapshot.rows, size, total, scratch, pointer(counts), out)
        total += size
    return m, total
