"""One block of sites and a disc: which of its sites lie within, and their objects, counted or listed."""

from __future__ import annotations

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
from dtoss.geometry.distance import NEAR_CHORD2
from dtoss.geometry.position import SPHERE
from dtoss.geometry.rounding import SURE, TINY
from dtoss.partition import BLOCK
from dtoss.queries.kernels.address_table import BLOCK_FIRST, IDS, MASK, OBJECTS, SINGLE, SITE_COUNT, SITES
from dtoss.queries.kernels.hit_order import reported
from dtoss.queries.kernels.query_arguments import NO_ROOM
from dtoss.queries.kernels.walk import CACHE_LINE, fetch_sites

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
        for i in range(LANES):
            if (flags >> i) & 1:
                scratch.gaps[i] = reported(float64_at(row[SITES]), block * BLOCK + i, disc.query.place)
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
