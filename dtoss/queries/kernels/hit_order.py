"""Found objects in kernels: reported distances, the order (distance, id), and merging partitions."""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import float64_at, int64_at, uint8_at
from dtoss.geometry.distance import NEAR_CHORD2, near_distance, plane_distance, sphere_distance
from dtoss.queries.kernels.address_table import ID_OFFSETS, IDS, SITES, row_of

INSERTED = 24
"""Hits out of order up to which moving each to its place is faster than a heap."""
MOVES = 8
"""Places a hit is moved in the mean, where all are moved into order, up to which that is faster than a heap."""


@kernel
def reported(sites, site, place):
    """Return the distance from a site to a query as it is reported."""
    at = site * place.dimension
    if place.dimension == 2:
        return plane_distance(sites[at], sites[at + 1], place.x, place.y)
    return sphere_distance(sites[at], sites[at + 1], sites[at + 2], place.x, place.y, place.z)


@kernel
def far_of(row, place, site, gap):
    """Return the reported distance of a site whose squared distance is known."""
    if place.dimension == 2:
        return np.sqrt(gap)
    if gap <= NEAR_CHORD2:
        return near_distance(gap)
    return reported(float64_at(row[SITES]), site, place)


@kernel
def id_before(rows, p, i, q, j):
    """Return whether object i of partition p has a lower id than object j of partition q; strings by code point."""
    row, other = row_of(rows, p), row_of(rows, q)
    if row[ID_OFFSETS] == 0:
        return int64_at(row[IDS])[i] < int64_at(other[IDS])[j]
    a, a_at = uint8_at(row[IDS]), int64_at(row[ID_OFFSETS])
    b, b_at = uint8_at(other[IDS]), int64_at(other[ID_OFFSETS])
    m, n = a_at[i + 1] - a_at[i], b_at[j + 1] - b_at[j]
    for t in range(min(m, n)):
        s, r = a[a_at[i] + t], b[b_at[j] + t]
        if s != r:
            return s < r
    return m < n


@kernel
def comes_before(rows, distance, part, item, i, j):
    """Return whether hit i comes before hit j in the order (distance, id)."""
    if distance[i] != distance[j]:
        return distance[i] < distance[j]
    return id_before(rows, part[i], item[i], part[j], item[j])


@kernel
def _swap(distance, part, item, i, j):
    distance[i], distance[j] = distance[j], distance[i]
    part[i], part[j] = part[j], part[i]
    item[i], item[j] = item[j], item[i]


@kernel
def insert_sorted(rows, distance, part, item, first, last):
    """Sort hits ``first:last`` that are nearly in order."""
    for i in range(first + 1, last):
        j = i
        while j > first and comes_before(rows, distance, part, item, j, j - 1):
            _swap(distance, part, item, j, j - 1)
            j -= 1


@kernel
def heap_sort(rows, distance, part, item, first, last):
    """Sort hits ``first:last`` in any order, in place."""
    n = last - first
    for begin in range(n // 2 - 1, -1, -1):
        _sift(rows, distance, part, item, first, begin, n)
    for end in range(n - 1, 0, -1):
        _swap(distance, part, item, first, first + end)
        _sift(rows, distance, part, item, first, 0, end)


@kernel
def _sift(rows, distance, part, item, first, root, end):
    while True:
        child = 2 * root + 1
        if child >= end:
            return
        if child + 1 < end and comes_before(rows, distance, part, item, first + child, first + child + 1):
            child += 1
        if not comes_before(rows, distance, part, item, first + root, first + child):
            return
        _swap(distance, part, item, first + root, first + child)
        root = child


@kernel
def settle(rows, distance, part, item, first, last):
    """Sort hits ``first:last`` that are in order but for near and equal distances."""
    i = first + 1
    while i < last:
        # two of one id, as in a damaged file, are in order either way
        if distance[i - 1] < distance[i] or not comes_before(rows, distance, part, item, i, i - 1):
            i += 1
            continue
        begin, end, most = i - 1, i + 1, distance[i - 1]
        while begin > first and distance[begin - 1] >= distance[i]:
            begin -= 1
            most = max(most, distance[begin])
        while end < last and distance[end] <= most:
            end += 1
        if end - begin <= INSERTED:
            insert_sorted(rows, distance, part, item, begin, end)
        else:
            heap_sort(rows, distance, part, item, begin, end)
        # one that was further on may belong before the run
        i = max(begin, first + 1)


@kernel
def settle_ids(distance, ids, n):
    """Sort n hits of which the ids are at hand, and which are in order but for near and equal distances."""
    left = MOVES * n
    for t in range(1, n):
        far, name, i = distance[t], ids[t], t
        if distance[t - 1] < far or (distance[t - 1] == far and ids[t - 1] <= name):
            continue
        while i > 0 and (far < distance[i - 1] or (far == distance[i - 1] and name < ids[i - 1])):
            distance[i], ids[i] = distance[i - 1], ids[i - 1]
            i -= 1
        distance[i], ids[i] = far, name
        left -= t - i
        if left < 0:
            _heap_ids(distance, ids, n)
            return


@kernel
def _heap_ids(distance, ids, n):
    for begin in range(n // 2 - 1, -1, -1):
        _sift_ids(distance, ids, begin, n)
    for end in range(n - 1, 0, -1):
        distance[0], distance[end] = distance[end], distance[0]
        ids[0], ids[end] = ids[end], ids[0]
        _sift_ids(distance, ids, 0, end)


@kernel
def _sift_ids(distance, ids, root, end):
    far, name = distance[root], ids[root]
    while True:
        child = 2 * root + 1
        if child >= end:
            break
        other = child + 1
        if other < end and (
            distance[child] < distance[other] or (distance[child] == distance[other] and ids[child] < ids[other])
        ):
            child = other
        if distance[child] < far or (distance[child] == far and ids[child] <= name):
            break
        distance[root], ids[root] = distance[child], ids[child]
        root = child
    distance[root], ids[root] = far, name
