"""The hits of a query as they are written: squared distances made distances, in the order (distance, id) or in any.

Sorting the hits of a disc: counted into thousands of rings of equal area, by the two digits of a ring's number.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import bits_float, float_bits, int64_at, shift
from dtoss.compiled.rank_sort import heap_sort_keys, sort_window
from dtoss.geometry.distance import SPHERE, near_distance
from dtoss.queries.kernels.address_table import IDS, row_of
from dtoss.queries.kernels.disc_search import ITEMS, PART_SHIFT, from_gaps
from dtoss.queries.kernels.hit_order import id_before, settle, settle_ids


@kernel
def _distances(gaps, size, query, distance):
    """Fill distances with those that gaps stand for; both may be the same memory."""
    if not from_gaps(query):
        for t in range(size):
            distance[t] = gaps[t]
    elif query.place.dimension == SPHERE:
        for t in range(size):
            distance[t] = near_distance(gaps[t])
    else:
        for t in range(size):
            distance[t] = np.sqrt(gaps[t])


@kernel
def _in_order(rows, distance, name, named, size):
    """Return whether hits are in the order (distance, id)."""
    wrong = False
    if named:
        # without branches: of objects on one site, nobody foresees which comes next
        for t in range(1, size):
            less, same = distance[t] < distance[t - 1], distance[t] == distance[t - 1]
            wrong |= less | (same & (name[t] < name[t - 1]))
        return not wrong
    for t in range(1, size):
        if distance[t] <= distance[t - 1]:
            i, j = name[t - 1], name[t]
            if distance[t] < distance[t - 1] or id_before(rows, j >> PART_SHIFT, j & ITEMS, i >> PART_SHIFT, i & ITEMS):
                return False
    return True


@kernel
def _sort_hits(rows, query, named, size, distance, name, scratch, counters):
    """Fill distances and names of the hits that are listed, in the order (distance, id)."""
    gaps, keys, names = scratch.distance, scratch.ordered, names_of(size)
    ring_sort(gaps, size, scratch.keys, keys, counters)
    for t in range(size):
        i = keys[t] & names
        distance[t] = gaps[i]
        name[t] = scratch.part[i]
    _distances(distance, size, query, distance)
    if _in_order(rows, distance, name, named, size):
        return
    if named:
        settle_ids(distance, name, size)
        return
    part, item = scratch.part, scratch.keys
    for t in range(size):
        part[t], item[t] = name[t] >> PART_SHIFT, name[t] & ITEMS
    settle(rows, distance, part, item, 0, size)
    for t in range(size):
        name[t] = part[t] << PART_SHIFT | item[t]


@kernel
def write_hits(rows, query, size, total, scratch, counters, out):
    """Write the hits of a query behind the ``total`` that are written; in order, if that is asked for."""
    distance, named = shift(out.distance, total), not (out.places or out.strings)
    name = shift(out.id, total) if named else scratch.item
    if out.ordered:
        _sort_hits(rows, query, named, size, distance, name, scratch, counters)
    else:
        _distances(scratch.distance, size, query, distance)
        for t in range(size):
            name[t] = scratch.part[t]
    if out.places:
        for t in range(size):
            out.part[total + t] = name[t] >> PART_SHIFT
            out.item[total + t] = name[t] & ITEMS
        if not out.strings:
            for t in range(size):
                out.id[total + t] = int64_at(row_of(rows, name[t] >> PART_SHIFT)[IDS])[name[t] & ITEMS]


LEAST_DIGIT, MOST_DIGIT = 6, 11
"""Bits of a digit, at the least and at the most."""
RINGS = 2 << MOST_DIGIT
"""Counters of both digits at the most."""
BY_RANK = 48
"""Hits up to which counting who is less is faster."""
SPARSE = 32
"""The square of the greatest digit is so many times the number of hits, or more: few of them share a ring."""
NEARLY_SORTED = 4
"""Places a hit is moved in the mean by insertion at the most; where rings are fuller than that, a heap is faster."""


@kernel
def names_of(n):
    """Return the bits of a key that number n hits."""
    names = 1
    while names < n:
        names = 2 * names + 1
    return names


@kernel
def ring_sort(gaps, n, keys, ordered, counts):
    """Fill ``ordered[:n]`` with keys whose low bits, ``names_of(n)``, number the hits ``gaps[:n]``, almost in order.

    What the upper bits leave out of a squared distance, 2^-24 of it for millions of hits and less for fewer, may be
    out of order. ``keys`` has room for n + 16, ``counts`` for ``RINGS`` + 1.
    """
    names = names_of(n)
    if n <= BY_RANK:
        for i in range(n):
            keys[i] = (float_bits(gaps[i]) & ~names) | i
        sort_window(keys, n, ordered)
        return
    furthest = 0
    for i in range(n):
        key = (float_bits(gaps[i]) & ~names) | i
        ordered[i] = key
        furthest = max(furthest, key)
    digit = LEAST_DIGIT
    while digit < MOST_DIGIT and n * SPARSE > 1 << (2 * digit):
        digit += 1
    last = (1 << (2 * digit)) - 1
    most = bits_float(furthest & ~names)
    # a furthest hit that is 0 or infinitely far leaves all in one ring
    scale = last / most if most > 0.0 and last / most < np.inf else 0.0
    low, high, below = counts, shift(counts, 1 << digit), (1 << digit) - 1
    for c in range(2 << digit):
        counts[c] = 0
    for i in range(n):
        ring = _ring(ordered[i], names, scale, last)
        low[ring & below] += 1
        high[ring >> digit] += 1
    under, over = 0, 0
    for c in range(1 << digit):
        here, there = low[c], high[c]
        low[c], high[c] = under, over
        under += here
        over += there
    for i in range(n):
        c = _ring(ordered[i], names, scale, last) & below
        keys[low[c]] = ordered[i]
        low[c] += 1
    for i in range(n):
        c = _ring(keys[i], names, scale, last) >> digit
        ordered[high[c]] = keys[i]
        high[c] += 1
    _insert(ordered, n)


@kernel
def _ring(key, names, scale, last):
    # of the shortened number: keys that differ in their low bits only fall into one ring
    ring = bits_float(key & ~names) * scale
    return int(ring) if ring < last else last


@kernel
def _insert(keys, n):
    """Sort keys that are nearly in order."""
    left = NEARLY_SORTED * n
    for t in range(1, n):
        key = keys[t]
        if keys[t - 1] <= key:
            continue
        i = t
        while i > 0 and keys[i - 1] > key:
            keys[i] = keys[i - 1]
            i -= 1
        keys[i] = key
        left -= t - i
        if left < 0:
            heap_sort_keys(keys, n)
            return
