"""Agglomerative merging (algorithm 4.1) with cached row optima.

Each row keeps its best partner. A merge can only worsen what a row has cached, or offer it the merged cluster, so a
cached value whose partner changed is still a bound: the row is searched again only when that bound comes out on top.
The pairs merged are those that recomputing everything after each merge would find, ties by (value, row, column).
"""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel

_LANES = 4
_KEPT = 16  # best partners that a row remembers


@kernel
def distance(first, second):
    """Sum of |first + second|, four sums side by side, always in the same order."""
    a = b = c = d = 0.0
    whole = len(first) // _LANES * _LANES
    for t in range(0, whole, _LANES):
        a += abs(first[t] + second[t])
        b += abs(first[t + 1] + second[t + 1])
        c += abs(first[t + 2] + second[t + 2])
        d += abs(first[t + 3] + second[t + 3])
    for t in range(whole, len(first)):
        a += abs(first[t] + second[t])
    return (a + b) + (c + d)


@kernel
def _together(columns, rate, room, i, j, first, following, group_start, group_of, mark):
    """Whether clusters `i` and `j` may share one server: load, bytes and exclusion groups."""
    last = columns.shape[1] - 1
    if columns[i, last] + columns[j, last] > room:
        return False
    for t in range(last):
        if columns[i, t] + columns[j, t] > rate:
            return False
    if len(group_of) == 0:
        return True
    item = first[i]
    while item >= 0:
        for g in range(group_start[item], group_start[item + 1]):
            mark[group_of[g]] = i + 1
        item = following[item]
    free = True
    item = first[j]
    while item >= 0:
        for g in range(group_start[item], group_start[item + 1]):
            free &= mark[group_of[g]] != i + 1
        item = following[item]
    item = first[i]
    while item >= 0:
        for g in range(group_start[item], group_start[item + 1]):
            mark[group_of[g]] = 0
        item = following[item]
    return free


@kernel
def _join(columns, slopes, i, j, first, last, following, alive, count):
    """Cluster `i` takes over what `j` holds; `j` leaves the list of living clusters, which stays in order."""
    columns[i] += columns[j]
    slopes[i] += slopes[j]
    following[last[i]] = first[j]
    last[i] = last[j]
    place = np.searchsorted(alive[:count], j)
    alive[place : count - 1] = alive[place + 1 : count]
    return count - 1


@kernel
def _labels(first, following, alive, count):
    label = np.empty(len(following), dtype=np.int64)
    for n in range(count):
        item = first[alive[n]]
        while item >= 0:
            label[item] = n
            item = following[item]
    return label


@kernel
def merge_flattest(columns, slopes, rate, room, group_start, group_of, groups, wanted):
    """Merge the pair whose summed slopes have the smallest total variation, while `rate` and `room` allow it.

    `columns` (M, T + 1) and `slopes` (M, T) are changed in place. Stops at `wanted` clusters or when no pair may be
    merged. Returns the label (M,) of each item. O(M^2 T) time, 8 M^2 bytes.
    """
    count = len(columns)
    value = np.empty((count, count))
    for i in range(count):
        value[i, i] = np.inf
        for j in range(i + 1, count):
            value[i, j] = value[j, i] = distance(slopes[i], slopes[j])
    first, last, following = np.arange(count), np.arange(count), np.full(count, -1)
    mark = np.zeros(groups, dtype=np.int64)
    alive = np.arange(count)
    best = np.empty(count)
    partner = np.empty(count, dtype=np.int64)
    fresh = np.ones(count, dtype=np.bool_)
    for i in range(count):
        partner[i] = np.argmin(value[i])
        best[i] = value[i, partner[i]]
    while count > wanted:
        i = alive[0]
        for n in range(count):
            if best[alive[n]] < best[i]:
                i = alive[n]
        if best[i] == np.inf:
            break
        if not fresh[i]:
            best[i], partner[i] = np.inf, i
            for n in range(count):
                if value[i, alive[n]] < best[i]:
                    best[i], partner[i] = value[i, alive[n]], alive[n]
            fresh[i] = True
            continue
        j = partner[i]
        if not _together(columns, rate, room, i, j, first, following, group_start, group_of, mark):
            value[i, j] = value[j, i] = np.inf
            fresh[i] = False
            fresh[j] = fresh[j] and partner[j] != i
            continue
        i, j = min(i, j), max(i, j)
        count = _join(columns, slopes, i, j, first, last, following, alive, count)
        best[i], partner[i] = np.inf, i
        for n in range(count):
            x = alive[n]
            if x == i:
                continue
            apart = value[x, i] == np.inf or value[x, j] == np.inf
            value[x, i] = value[i, x] = np.inf if apart else distance(slopes[i], slopes[x])
            if value[i, x] < best[i]:
                best[i], partner[i] = value[i, x], x
            if partner[x] == i or partner[x] == j:
                fresh[x] = False
            if value[x, i] < best[x] or (value[x, i] == best[x] and fresh[x] and i < partner[x]):
                best[x], partner[x], fresh[x] = value[x, i], i, True
        fresh[i] = True
    return _labels(first, following, alive, count)


@kernel
def merge_gaining(columns, slopes, gram, rate, room, group_start, group_of, groups, wanted):
    """Merge the pair with the largest |d_i| + |d_j| - |d_i + d_j|, where d are slopes and |.| Euclidean norms.

    As `merge_flattest`, from `gram` float32 (M, M), the slopes' inner products, changed in place: a merge adds two
    of its rows, whatever T is. Each row keeps its few best partners, so that most stale ones are replaced without
    a search, and the rows' tops stand in a tournament tree. About O(M^2) time and memory beside the Gram matrix.
    """
    count = len(columns)
    first, last, following = np.arange(count), np.arange(count), np.full(count, -1)
    mark = np.zeros(groups, dtype=np.int64)
    alive = np.arange(count)
    born = np.zeros(count, dtype=np.int64)  # number of the merge that made a cluster; -1 once it is gone
    square = np.empty(count)
    for i in range(count):
        square[i] = np.dot(slopes[i], slopes[i])
    norm = np.sqrt(square)
    gains = np.empty(count)
    values = np.full((count, _KEPT), -np.inf)
    partners = np.full((count, _KEPT), -1)
    stamps = np.zeros((count, _KEPT), dtype=np.int64)
    kept = np.zeros(count, dtype=np.int64)
    floor = np.full(count, -np.inf)
    leaves = 1
    while leaves < count:
        leaves *= 2
    tree = np.full(2 * leaves, -np.inf)
    for i in range(count):
        gram[i, i] = np.inf
        _search_row(i, gram, born, norm, square, gains, values, partners, stamps, kept, floor)
        tree[leaves + i] = values[i, 0]
    for node in range(leaves - 1, 0, -1):
        tree[node] = max(tree[2 * node], tree[2 * node + 1])
    merges = 0
    while count > wanted and tree[1] > -np.inf:
        node = 1
        while node < leaves:
            node = 2 * node if tree[2 * node] == tree[1] else 2 * node + 1
        i = node - leaves
        if kept[i] == 0:
            _search_row(i, gram, born, norm, square, gains, values, partners, stamps, kept, floor)
            _raise(tree, leaves, i, values[i, 0] if kept[i] else -np.inf)
            continue
        j = partners[i, 0]
        if born[j] != stamps[i, 0]:
            _drop_top(i, values, partners, stamps, kept)
            _raise(tree, leaves, i, values[i, 0] if kept[i] else floor[i])
            continue
        if not _together(columns, rate, room, i, j, first, following, group_start, group_of, mark):
            gram[i, j] = gram[j, i] = np.inf
            _drop_top(i, values, partners, stamps, kept)
            _raise(tree, leaves, i, values[i, 0] if kept[i] else floor[i])
            continue
        i, j = min(i, j), max(i, j)
        count = _join(columns, slopes, i, j, first, last, following, alive, count)
        merges += 1
        born[i], born[j] = merges, -1
        square[i], square[j] = np.dot(slopes[i], slopes[i]), 0.0
        norm[i], norm[j] = np.sqrt(square[i]), -np.inf
        gram[i] += gram[j]
        _search_row(i, gram, born, norm, square, gains, values, partners, stamps, kept, floor)
        for n in range(count):
            x = alive[n]
            gram[x, i] = gram[i, x]
            if gains[x] > floor[x] and x != i:
                _keep(x, gains[x], i, merges, values, partners, stamps, kept, floor)
                if values[x, 0] == gains[x]:
                    _raise(tree, leaves, x, gains[x])
        _raise(tree, leaves, j, -np.inf)
        _raise(tree, leaves, i, values[i, 0] if kept[i] else -np.inf)
    return _labels(first, following, alive, count)


@kernel
def _search_row(i, gram, born, norm, square, gains, values, partners, stamps, kept, floor):
    """Fill `gains` with what merging cluster `i` with each other brings (-inf: may not), and keep the best."""
    for x in range(len(gains)):
        inner = square[i] + square[x] + 2.0 * gram[i, x]
        gains[x] = norm[i] + norm[x] - np.sqrt(max(0.0, inner))
    kept[i], floor[i] = 0, -np.inf
    for x in range(len(gains)):
        if gains[x] > floor[i]:
            _keep(i, gains[x], x, born[x], values, partners, stamps, kept, floor)


@kernel
def _keep(i, gain, x, stamp, values, partners, stamps, kept, floor):
    """Put partner `x` among the best of row `i`; what falls out of a full list becomes its floor."""
    place = kept[i]
    if place == _KEPT:
        place -= 1
        floor[i] = values[i, place]
    else:
        kept[i] += 1
    while place > 0 and values[i, place - 1] < gain:
        values[i, place] = values[i, place - 1]
        partners[i, place] = partners[i, place - 1]
        stamps[i, place] = stamps[i, place - 1]
        place -= 1
    values[i, place], partners[i, place], stamps[i, place] = gain, x, stamp


@kernel
def _drop_top(i, values, partners, stamps, kept):
    kept[i] -= 1
    for place in range(kept[i]):
        values[i, place] = values[i, place + 1]
        partners[i, place] = partners[i, place + 1]
        stamps[i, place] = stamps[i, place + 1]


@kernel
def _raise(tree, leaves, i, value):
    """Set leaf `i` of the tournament tree, O(log M)."""
    node = leaves + i
    tree[node] = value
    node //= 2
    while node:
        top = max(tree[2 * node], tree[2 * node + 1])
        if tree[node] == top:
            break
        tree[node] = top
        node //= 2
