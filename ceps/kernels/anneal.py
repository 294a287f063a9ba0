"""Annealing on a given fleet: fewer servers a request, while every server stays within its limit in every column.

State as in `ceps.kernels.pack`, and of the sets of items that requests read together: `net_start`, `net_item` the
items of each set, `item_start`, `item_net` the sets of each item, ascending, and `weight` of each set, whole numbers,
so that sums are exact. `count` (S, K) says how many items of a set each server holds. `bond` (M, K) sums the weights of
an item's sets that the server holds something of, `alone` (M,) of those that its own server holds nothing else of,
and `degree` (M,) of all its sets. So a move of item i to server k changes the calls by degree - bond[k] - alone.
"""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel
from ceps.kernels.pack import _draw, at, excluded, find_peak, relocate, sum_peak, swap_peak


@kernel
def tie(net_start, net_item, weight, label, count, bond, alone):
    """Fill `count`, `bond` and `alone`, which are all 0, from the labels; returns the calls. O(pins x servers)."""
    calls = 0.0
    servers = count.shape[1]
    for e in range(len(weight)):
        pins = net_item[net_start[e] : net_start[e + 1]]
        for i in pins:
            count[e, label[i]] += 1
        for k in range(servers):
            if count[e, k]:
                calls += weight[e]
                for i in pins:
                    bond[i, k] += weight[e]
        for i in pins:
            if count[e, label[i]] == 1:
                alone[i] += weight[e]
    return calls


@kernel
def change_sets(net_start, net_item, item_start, item_net, weight, label, count, bond, alone, i, goal):
    """Change `count`, `bond` and `alone` for a move of item `i` to server `goal`, before its label changes."""
    source = label[i]
    alone[i] = 0.0
    for t in range(item_start[i], item_start[i + 1]):
        e = item_net[t]
        w = weight[e]
        count[e, source] -= 1
        left = count[e, source]
        count[e, goal] += 1
        there = count[e, goal]
        if left > 1 and there > 2:
            continue
        if there == 1:
            alone[i] += w
        for s in range(net_start[e], net_start[e + 1]):
            j = net_item[s]
            if left == 0:
                bond[j, source] -= w
            if there == 1:
                bond[j, goal] += w
            if j != i:
                if left == 1 and label[j] == source:
                    alone[j] += w
                if there == 2 and label[j] == goal:
                    alone[j] -= w


@kernel
def shared_alone(item_start, item_net, weight, label, count, i, j):
    """Return what two changes counted apart miss when `i` and `j` change places: their common sets do not change."""
    missed = 0.0
    s, t = item_start[i], item_start[j]
    while s < item_start[i + 1] and t < item_start[j + 1]:
        if item_net[s] < item_net[t]:
            s += 1
        elif item_net[s] > item_net[t]:
            t += 1
        else:
            e = item_net[s]
            missed += weight[e] * (np.float64(count[e, label[i]] == 1) + np.float64(count[e, label[j]] == 1))
            s += 1
            t += 1
    return missed


@kernel
def _below(state, count):
    return np.int64(_draw(state) % np.uint64(count))


@kernel
def _unit(state):
    return (np.float64(_draw(state) >> np.uint64(11)) + 0.5) / 9007199254740992.0


@kernel
def _has_room(load, scale, slot, held, group_start, group_of, limit, k, item, row):
    if at(load, scale, k, slot[k], row[slot[k]]) > limit[k] or excluded(k, item, -1, held, group_start, group_of):
        return False
    return sum_peak(load, scale, k, row, 1.0, limit[k]) <= limit[k]


@kernel
def _partner(label, k, servers, state):
    """Return an item of server `k`, at random; -1 where none is found soon."""
    for _ in range(min(3 * servers, 60)):
        j = _below(state, len(label))
        if label[j] == k:
            return j
    return -1


@kernel
def _may_swap(columns, load, scale, slot, held, group_start, group_of, limit, a, b, i, j):
    """Whether item `i` of server `a` and item `j` of server `b` may change places."""
    row, other, c, d = columns[i], columns[j], slot[b], slot[a]
    if at(load, scale, b, c, row[c] - other[c]) > limit[b] or at(load, scale, a, d, other[d] - row[d]) > limit[a]:
        return False
    if excluded(b, i, j, held, group_start, group_of) or excluded(a, j, i, held, group_start, group_of):
        return False
    if swap_peak(load, scale, b, row, other, limit[b]) > limit[b]:
        return False
    return swap_peak(load, scale, a, other, row, limit[a]) <= limit[a]


@kernel
def anneal(
    columns, scale, label, load, peak, slot, held, group_start, group_of, limit,
    net_start, net_item, item_start, item_net, weight, degree, count, bond, alone,
    state, best_label, best, calls, heat, cooling, trials, fewest,
):  # fmt: skip
    """Make `trials` trials of moves and swaps at a falling temperature; returns (fewest calls, calls, `heat` now).

    A trial takes an item, and a server that holds something of one of its sets, or now and then any. Where the item
    has no room there, it may change places with one of that server's. A step that costs `heat` calls is made in one
    of e cases, and `heat` is multiplied by `cooling` at each trial. None pushes a server above its `limit`, (K,)
    relative peaks, and at least `fewest` servers hold something. Changes the state in place; `best_label` keeps the
    placement with the fewest calls apart.
    """
    items, servers = bond.shape
    size = np.zeros(servers, np.int64)
    for i in range(items):
        size[label[i]] += 1
    used = np.count_nonzero(size)
    for _ in range(trials):
        heat *= cooling
        i = _below(state, items)
        a, b = label[i], _below(state, servers)
        nets = item_start[i + 1] - item_start[i]
        if nets and _draw(state) & np.uint64(7) != 0:
            e = item_net[item_start[i] + _below(state, nets)]
            b = label[net_item[net_start[e] + _below(state, net_start[e + 1] - net_start[e])]]
        if a == b:
            continue
        row = columns[i]
        most = -heat * np.log(_unit(state))
        change = degree[i] - bond[i, b] - alone[i]
        j = -1
        empties = size[a] == 1 and size[b] > 0 and used <= fewest
        if change > most or empties or not _has_room(load, scale, slot, held, group_start, group_of, limit, b, i, row):
            j = _partner(label, b, servers, state)
            if j < 0:
                continue
            change += degree[j] - bond[j, a] - alone[j]
            if change > most:
                continue
            change += shared_alone(item_start, item_net, weight, label, count, i, j)
            if change > most:
                continue
            if not _may_swap(columns, load, scale, slot, held, group_start, group_of, limit, a, b, i, j):
                continue
        change_sets(net_start, net_item, item_start, item_net, weight, label, count, bond, alone, i, b)
        relocate(columns, load, held, group_start, group_of, label, i, b)
        if j < 0:
            size[a] -= 1
            size[b] += 1
            used += np.int64(size[b] == 1) - np.int64(size[a] == 0)
        else:
            change_sets(net_start, net_item, item_start, item_net, weight, label, count, bond, alone, j, a)
            relocate(columns, load, held, group_start, group_of, label, j, a)
        find_peak(load, scale, a, peak, slot)
        find_peak(load, scale, b, peak, slot)
        calls += change
        if calls < best:
            best = calls
            best_label[:] = label
    return best, calls, heat
