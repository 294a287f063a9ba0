"""The disc that holds the k objects nearest to a query, from the graph of blocks.

The k nearest sites lie in a disc, and the blocks that hold the sites of a disc are connected: from a block near the
query the search spreads to neighbours whose balls meet the disc, and looks at 16 sites at once. How wide the disc must
be is not known and is guessed. Too narrow, it is widened, and only what it left out is looked at again; too wide, the
k-th nearest of what was found bounds it.

Found sites are listed by name: the place of its block in the queue, and which of the block's sites it is. To be sorted
they become 64-bit keys: the upper bits of the squared distance, then the name. What is left out of the distance is
added to the disc.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES, append_names, at_most
from dtoss.compiled.pointers import (
    bits_float,
    float64_at,
    float_bits,
    int32_at,
    int64_at,
    prefetch,
    shift,
    trailing_zeros,
    uint8_at,
)
from dtoss.compiled.rank_sort import NAMES, sort_keys
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BLOCK, RADIUS
from dtoss.queries.kernels.address_table import BALLS, IDS, MASK, OBJECTS, SINGLE, SITE_COUNT
from dtoss.queries.kernels.walk import (
    consider,
    consider_rim,
    fetch_ids,
    fetch_sites,
    forget,
    gaps_of,
    lost,
    meets,
    outside,
)

COARSE = 1.0 + 2.0**-23
"""A squared distance read back from a key is at most this much too small."""


@kernel
def _least(key):
    return bits_float(key & ~NAMES)


@kernel
def at_least(gap):
    """Return what is left of a squared distance in a key, made as large as it may have been."""
    return _least(float_bits(gap)) * COARSE


@kernel
def site_of(key, queue):
    """Return the site that a key names."""
    name = key & NAMES
    return int(queue[name // BLOCK]) * BLOCK + name % BLOCK


@kernel
def _weight(row, site):
    """Return how many objects of a site count."""
    objects = int32_at(row[OBJECTS])
    if row[MASK] == 0:
        return int(objects[site + 1] - objects[site])
    mask = uint8_at(row[MASK])
    count = 0
    for i in range(objects[site], objects[site + 1]):
        count += mask[i]
    return count


@kernel
def _take(row, slot, near, listed, count, scratch):
    """List the flagged sites of the block visited as number ``slot``; returns sites and objects listed.

    Without a mask the objects are not counted: there are at least as many as sites.
    """
    if row[MASK] == 0:
        listed += append_names(near, slot * BLOCK, shift(scratch.keys, listed))
        return listed, listed
    while near != 0:
        i = trailing_zeros(near)
        near &= near - 1
        weight = _weight(row, int(scratch.queue[slot]) * BLOCK + i)
        if weight > 0:
            scratch.keys[listed] = slot * BLOCK + i
            listed += 1
            count += weight
    return listed, count


@kernel
def _count(row, listed, scratch):
    """Return how many objects stand on listed sites, without a mask."""
    objects = int32_at(row[OBJECTS])
    count = 0
    for t in range(listed):
        site = site_of(scratch.keys[t], scratch.queue)
        count += objects[site + 1] - objects[site]
    return count


@kernel
def _sort(listed, scratch):
    """Fill ``scratch.ordered`` with the keys of listed sites in ascending order."""
    keys, gaps = scratch.keys, scratch.gaps
    for t in range(listed):
        name = keys[t]
        keys[t] = (float_bits(gaps[name]) & ~NAMES) | name
    sort_keys(keys, listed, scratch.ordered)


@kernel
def _cut(row, single, k, listed, bound, scratch):
    """Cut sorted keys behind the k-th object and what may be as far.

    Returns (sites, objects, squared distance within which all are kept, a squared distance for the k-th object).
    """
    keys, queue = scratch.ordered, scratch.queue
    end, count = 0, 0
    if single:
        end = count = min(k, listed)
    else:
        objects, ids = int32_at(row[OBJECTS]), int64_at(row[IDS])
        while end < listed and count < k:
            site = site_of(keys[end], queue)
            prefetch(ids, int(objects[site]))
            count += _weight(row, site)
            end += 1
    if count < k:
        return end, count, bound, np.inf
    last = at_least(bits_float(keys[end - 1]))
    bound = min(bound, last)
    while end < listed and _least(keys[end]) <= bound:
        count += 1 if single else _weight(row, site_of(keys[end], queue))
        end += 1
    return end, count, bound, last


@kernel
def by_density(row, k, block):
    """Return the squared radius of a disc that holds k objects if they are as dense as in a block."""
    begin = block * BLOCK
    end = min(begin + BLOCK, row[SITE_COUNT])
    objects = int32_at(row[OBJECTS])
    radius = float64_at(row[BALLS])[4 * block + RADIUS]
    return radius * radius * (float(k) / float(objects[end] - objects[begin]))


@kernel
def _wider(row, bound, times, first):
    """Return the square of a disc so many times as wide in area, or, from far outside, as deep."""
    if bound <= 0.0:
        return by_density(row, 1, first.block)
    if first.near == 0.0:
        return bound * times
    radius = first.near + (np.sqrt(bound) - first.near) * times
    return radius * radius


@kernel
def expand(row, place, bounds, k, first, limit, scratch):
    """List the sites nearest to a query that hold its k nearest objects, with all ties, almost in order.

    Sites beyond the squared distance ``limit`` are left out; unless that is infinite, the block that the search begins
    in holds a site within it.

    Returns (sites listed, objects on them, a squared distance within which all of them lie, one for the k-th object);
    sites listed is -1 where there was too little room. They stand in ``scratch.ordered``.
    """
    keys, ordered, queue, gaps, seen = scratch.keys, scratch.ordered, scratch.queue, scratch.gaps, scratch.seen
    single = row[SINGLE] != 0 and row[MASK] == 0
    multiple = row[SINGLE] == 0 and row[MASK] == 0
    balls, objects_on = float64_at(row[BALLS]), int32_at(row[OBJECTS])
    beyond = outside(bounds, place)
    most = limit * (1.0 + PRUNE)
    uneven = lost(place.dimension)  # the sites of a disc are connected within a little more
    bound = min(first.square, most)
    reach = np.sqrt(bound + uneven) * (1.0 + PRUNE)
    widen, enough, narrowed = 2.0, k + LANES, False
    # of the queue's ``end`` blocks, distances are known for ``taken``; ``again`` of them are listed
    taken, end, listed, count = 0, 1, 0, 0
    sites, objects, inside, last = 0, 0, bound, np.inf
    queue[0] = first.block
    seen[first.block] = 1
    if beyond:
        end = consider_rim(row, place, reach, end, scratch)
    again = 0
    while True:
        if again < taken:
            # after the disc was widened: a block whose distances are known
            slot = again
            again += 1
        elif taken < end:
            # a new block: its sixteen distances at once
            slot = taken
            block = int(queue[slot])
            taken += 1
            again = taken
            if narrowed and meets(balls, block, place, reach) == 0:
                continue
            gaps_of(row, place, block, shift(gaps, slot * LANES))
        else:
            # all that the disc meets is listed: does it hold k objects, and all that tie with the last?
            if multiple and count < k:
                count = _count(row, listed, scratch)
            if count >= k or bound >= most:
                _sort(listed, scratch)
                sites, objects, inside, last = _cut(row, single, k, listed, bound, scratch)
                if last <= bound or bound >= most:
                    break
                # the k-th object stands at the very edge: what ties with it may lie behind
                bound = min(last, most)
            else:
                wider = _wider(row, bound, widen, first)
                bound = min(wider, most) if wider > bound else most
                widen *= widen
            # what was looked at is listed anew, and its neighbours are asked again
            reach = np.sqrt(bound + uneven) * (1.0 + PRUNE)
            if beyond:
                end = consider_rim(row, place, reach, end, scratch)
            again, listed, count = 0, 0, 0
            continue
        if listed + LANES > scratch.room:
            sites = -1
            break
        near = at_most(shift(gaps, slot * LANES), bound + uneven)
        if near == 0 and slot > 0:
            continue  # what the disc holds is connected through blocks with a site in it
        block = int(queue[slot])
        end = consider(row, place, reach, block, end, scratch)
        fetch_sites(row, int(queue[min(taken + 1, end - 1)]), place.dimension)
        if single:
            fetch_ids(row, block)
        else:
            prefetch(objects_on, block * BLOCK)
        listed, count = _take(row, slot, near, listed, count, scratch)
        if count > enough:
            # far more than k: the k-th of them bounds the disc, and what lies behind is dropped
            _sort(listed, scratch)
            listed, count, bound, _ = _cut(row, single, k, listed, bound, scratch)
            for i in range(listed):
                keys[i] = ordered[i] & NAMES
            reach = np.sqrt(bound + uneven) * (1.0 + PRUNE)
            narrowed = True
            enough = max(enough, 2 * count)
    forget(end, scratch)
    return sites, objects, inside, last
