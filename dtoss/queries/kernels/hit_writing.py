"""The hits of a query as they are written: squared distances made distances, in the order (distance, id) or in any."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import int64_at, shift
from dtoss.geometry.distance import near_distance
from dtoss.geometry.position import SPHERE
from dtoss.queries.kernels.address_table import IDS, row_of
from dtoss.queries.kernels.disc_blocks import ITEMS, PART_SHIFT, from_gaps
from dtoss.queries.kernels.hit_order import id_before, settle, settle_ids
from dtoss.queries.kernels.ring_sort import names_of, ring_sort


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
