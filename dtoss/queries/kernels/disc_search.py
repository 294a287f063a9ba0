"""Finding the blocks of sites in a disc: from one to its neighbours, or down from runs of thousands, if it is large.

A search from block to block comes past no more than the disc and its border, and pays for each with a look at its
neighbours. A large disc, nearly as wide as the run of 16 blocks round its centre, holds whole runs of blocks along the
curve: those are taken at once.

One block of sites and a disc: which of its sites lie within, and their objects, counted or listed.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.lanes8 import WIDTH, lanes_at, put_lanes, splat
from dtoss.compiled.lanes16 import LANES, append_flagged, at_most
from dtoss.compiled.pointers import (
    bits_set,
    float64_at,
    int32_at,
    int64_at,
    prefetch,
    shift,
    trailing_zeros,
    uint8_at,
)
from dtoss.geometry.distance import NEAR_CHORD2, SPHERE, opposite_of, sphere_distances
from dtoss.geometry.rounding import PRUNE, SURE, TINY
from dtoss.partition import BLOCK, FAN, RADIUS
from dtoss.queries.kernels.address_table import (
    BALLS,
    BLOCK_FIRST,
    IDS,
    MASK,
    OBJECTS,
    OWNED_SITES,
    SINGLE,
    SITE_COUNT,
    SITES,
    row_of,
)
from dtoss.queries.kernels.hit_order import reported
from dtoss.queries.kernels.query_arguments import NO_ROOM, Disc
from dtoss.queries.kernels.walk import (
    CACHE_LINE,
    consider,
    consider_rim,
    descend,
    fetch_sites,
    forget,
    gaps_of,
    lost,
    nearest_site,
    outside,
    unsure,
)

FAN_BITS = 4
"""16 to the power of a level is one, shifted by so many for each level."""
LARGE = 0.6
"""Radii of the run of 16 blocks round its centre that a disc has at the least to be searched by runs."""
FETCHED = 3
"""Blocks of the queue ahead of the search that are asked for."""


@step
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


@step
def _is_large(snapshot, p, block, limit):
    """Return whether a disc is wider than a block and than the run round it, if there is one."""
    radius = float64_at(row_of(snapshot.rows, p)[BALLS])[(block << 2) + RADIUS]
    if limit <= radius * radius or snapshot.runs[p] <= 0:
        return False
    radius = LARGE * float64_at(snapshot.runs[p])[(block // FAN << 2) + RADIUS]
    return limit > radius * radius


@kernel
def search(snapshot, p, query, block, owned_only, asked, size, scratch):
    """List or count the objects of a partition within a radius; returns the new size, or ``NO_ROOM``.

    ``block`` is one near the query, or -1. Hits are listed with squared distances where ``from_gaps``, and else
    with reported ones. ``asked`` is ``COUNTS``, ``IDS_ONLY`` or ``PLACES``.
    """
    row, place = row_of(snapshot.rows, p), query.place
    if row[SITE_COUNT] == 0:
        return size
    stop = row[OWNED_SITES] if owned_only else row[SITE_COUNT]
    if block < 0 and row[OWNED_SITES] > 0:
        block = descend(row, place)
    if block >= 0 and _is_large(snapshot, p, block, query.limit):
        reach = np.sqrt(query.limit * (1.0 + SURE) + TINY) * (1.0 + PRUNE)
        sure = np.sqrt(max(query.limit * (1.0 - SURE) - TINY, 0.0)) * (1.0 - PRUNE)
        return _descend_runs(snapshot, p, Disc(query, reach, np.inf, sure, stop, asked), size, scratch)
    block, flood = _first_block(row, query, snapshot.bounds, block, scratch)
    if block < 0:
        return size
    reach = np.sqrt(flood) * (1.0 + PRUNE)
    end = 1
    scratch.queue[0] = block
    scratch.seen[block] = 1
    if outside(snapshot.bounds, place):
        end = consider_rim(row, place, reach, end, scratch)
    return _spread(row, p, Disc(query, reach, flood, 0.0, stop, asked), end, size, scratch)


@step
def _spread(row, p, disc, end, size, scratch):
    """Take the blocks of the queue, and their neighbours that the disc meets, and those of these."""
    place, queue, gaps = disc.query.place, scratch.queue, scratch.gaps
    counting = disc.asked == COUNTS
    taken = 0
    while taken < end and size >= 0:
        block = int(queue[taken])
        taken += 1
        if taken + FETCHED < end:
            fetch_ahead(row, int(queue[taken + FETCHED]), int(queue[taken + 1]), place.dimension, counting)
        gaps_of(row, place, block, gaps)
        if at_most(gaps, disc.flood) == 0:
            continue  # what the disc holds is connected through blocks with a site in it
        end = consider(row, place, disc.reach, block, end, scratch)
        size = take(row, p, disc, block, within(row, disc, block, gaps), size, scratch)
    forget(end, scratch)
    return size


@kernel
def _side(balls, run, place, reach, sure):
    """Return on which side of a disc's border a ball lies: -1 is without, 1 within, 0 is neither for sure."""
    at = run << 2
    a, b, c = balls[at] - place.x, balls[at + 1] - place.y, balls[at + 2] - place.z
    gap, beyond, left = a * a + b * b + c * c, reach + balls[at + RADIUS], sure - balls[at + RADIUS]
    if gap > beyond * beyond:
        return -1
    return 1 if left > 0.0 and gap <= left * left else 0


@kernel
def _descend_runs(snapshot, p, disc, size, scratch):
    """Take the blocks of a disc in their order on the curve: runs of them, cut where the disc's border meets them.

    A run of level l is 16^l blocks; those of level 0 are blocks.
    """
    row, place, gaps = row_of(snapshot.rows, p), disc.query.place, scratch.gaps
    own, runs = float64_at(row[BALLS]), float64_at(snapshot.runs[p])
    blocks = (row[SITE_COUNT] + BLOCK - 1) // BLOCK
    top = 0
    while blocks > FAN << FAN_BITS * top:
        top += 1
    at, level = 0, top
    while at < blocks and size >= 0:
        length = 1 << FAN_BITS * level
        # the balls of the levels stand one after another, the blocks' own by themselves
        balls, run = own, at
        if level > 0:
            balls, run = runs, at >> FAN_BITS * level
            for below in range(1, level):
                run += ((blocks - 1) >> FAN_BITS * below) + 1
        side = _side(balls, run, place, disc.reach, disc.sure)
        if side == 0 and level > 0:
            level -= 1
            continue
        if side > 0:
            size = _take_all(row, p, disc, at, min(at + length, blocks), size, scratch)
        elif side == 0:
            gaps_of(row, place, at, gaps)
            size = take(row, p, disc, at, within(row, disc, at, gaps), size, scratch)
        at += length
        while level < top and at & ((FAN << FAN_BITS * level) - 1) == 0:
            level += 1
    return size


@kernel
def _take_all(row, p, disc, begin, end, size, scratch):
    """Count or list blocks that lie within the disc."""
    if disc.asked == COUNTS and row[MASK] == 0:
        objects = int32_at(row[OBJECTS])
        first, last = begin * BLOCK, min(end * BLOCK, disc.stop)
        return size + int(objects[last] - objects[first]) if last > first else size
    place, gaps = disc.query.place, scratch.gaps
    for block in range(begin, end):
        if size >= 0:
            if disc.asked != COUNTS:
                gaps_of(row, place, block, gaps)
            size = take(row, p, disc, block, lanes_before(disc.stop, block), size, scratch)
    return size


ALL_LANES = (1 << LANES) - 1
"""A flag for each site of a block."""
PART_SHIFT = 32
"""Bits of a hit's number below its partition: those of the object in it."""
ITEMS = (1 << PART_SHIFT) - 1
"""These bits."""
LINES_OF_IDS = 3
"""Lines of the cache that the ids of a block take: two, where an object is on each site, and perhaps one more."""
COUNTS, IDS_ONLY, PLACES = range(3)
"""What a search is asked for: how many hits there are, or to list them by their ids, or by partition and object."""


@kernel
def from_gaps(query):
    """Return whether squared distances are listed and made distances together: all are short enough for that."""
    return query.place.dimension != SPHERE or query.limit * (1.0 + SURE) + TINY <= NEAR_CHORD2


@step
def within(row, disc, block, gaps):
    """Return a bit for each site of a block that counts and whose reported distance is at most the radius."""
    query = disc.query
    near = at_most(gaps, query.limit * (1.0 - SURE) - TINY)
    if near != ALL_LANES:
        doubt = at_most(gaps, query.limit * (1.0 + SURE) + TINY) & ~near
        while doubt != 0:
            i = trailing_zeros(doubt)
            doubt &= doubt - 1
            site = block * BLOCK + i
            if site < disc.stop and reported(float64_at(row[SITES]), site, query.place) <= query.radius:
                near |= 1 << i
    return near & lanes_before(disc.stop, block)


@step
def lanes_before(stop, block):
    """Return a bit for each site of a block before ``stop``."""
    lanes = stop - block * BLOCK
    return ALL_LANES if lanes >= LANES else (1 << max(lanes, 0)) - 1


@kernel
def objects_of(row, block, flags):
    """Return how many objects of the flagged sites of a block count."""
    if row[SINGLE] != 0 and row[MASK] == 0:
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
def list_objects(row, p, block, flags, named, size, scratch):
    """Append the objects of flagged sites with what the gaps say of each; returns the new size, or NO_ROOM."""
    distance, name, gaps, room = scratch.distance, scratch.part, scratch.gaps, scratch.room
    ids, home, site = int64_at(row[IDS]), p << PART_SHIFT, block * BLOCK
    if row[MASK] == 0:
        item = site
        single = row[SINGLE] != 0
        if not single and site + BLOCK <= row[SITE_COUNT]:
            objects = int32_at(row[OBJECTS])
            item = int(objects[site])
            single = int(objects[site + BLOCK]) == item + BLOCK
        if single:
            # an object a site: sixteen at once
            if size + LANES > room:
                return NO_ROOM
            if flags != ALL_LANES:
                more = append_flagged(flags, gaps, home | item, shift(distance, size), shift(name, size))
                if named:
                    for t in range(size, size + more):
                        name[t] = ids[name[t] & ITEMS]
                return size + more
            for i in range(LANES):
                distance[size + i] = gaps[i]
            if named:
                for i in range(LANES):
                    name[size + i] = ids[item + i]
            else:
                for i in range(LANES):
                    name[size + i] = (home | item) + i
            return size + LANES
    objects, mask = int32_at(row[OBJECTS]), uint8_at(row[MASK])
    whole = row[MASK] == 0 and int(objects[row[SITE_COUNT]]) >= int(objects[min(site + BLOCK, row[SITE_COUNT])]) + WIDTH
    while flags != 0:
        lane = trailing_zeros(flags)
        flags &= flags - 1
        gap, first = gaps[lane], int(objects[site + lane])
        count = int(objects[site + lane + 1]) - first
        if size + count + WIDTH > room:
            return NO_ROOM
        if whole:
            # eight at once: most sites hold fewer, and what is too much the next one writes over
            for begin in range(0, count, WIDTH):
                put_lanes(distance, size + begin, splat(gap))
                if named:
                    put_lanes(name, size + begin, lanes_at(ids, first + begin))
                else:
                    for i in range(begin, begin + WIDTH):
                        name[size + i] = (home | first) + i
            size += count
            continue
        for i in range(first, first + count):
            if row[MASK] == 0 or mask[i]:
                distance[size] = gap
                name[size] = ids[i] if named else home | i
                size += 1
    return size


@step
def take(row, p, disc, block, flags, size, scratch):
    """Count or list the flagged sites of a block whose gaps are at hand; returns the new size, or NO_ROOM."""
    if flags == 0:
        return size
    if disc.asked == COUNTS:
        return size + objects_of(row, block, flags)
    if not from_gaps(disc.query):
        # of sixteen at once: behind the gaps of the block there is room for one more
        gaps, sums = scratch.gaps, shift(scratch.gaps, LANES)
        gaps_of(row, opposite_of(disc.query.place), block, sums)
        for i in range(0, LANES, WIDTH):
            put_lanes(gaps, i, sphere_distances(lanes_at(gaps, i), lanes_at(sums, i)))
    return list_objects(row, p, block, flags, disc.asked == IDS_ONLY, size, scratch)


@step
def fetch_ahead(row, soon, next_one, dimension, counting):
    """Ask for what a search reads of blocks that it comes to soon: all of one, and the ids of the next."""
    fetch_sites(row, soon, dimension)
    prefetch(int32_at(row[BLOCK_FIRST]), soon)
    if row[SINGLE] == 0:
        prefetch(int32_at(row[OBJECTS]), soon * BLOCK)
    if not counting:
        ids = int64_at(row[IDS])
        first = next_one * BLOCK
        if row[SINGLE] == 0:
            first = int(int32_at(row[OBJECTS])[first])
        for line in range(LINES_OF_IDS):
            prefetch(ids, first + line * CACHE_LINE)
