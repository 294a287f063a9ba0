"""Annealing of a placement on a given fleet: random moves and swaps, bad ones taken the more seldom the colder it is.

State and column layout as in `ceps.kernels.pack`. `anneal_squares` looks at products of items only, so a step costs
the same for any number of slots; `anneal_overload` looks at what counts, the overload of every slot.
"""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel
from ceps.kernels.overload_search import overload
from ceps.kernels.pack import _draw, excluded, relocate

_UNIT = 1.0 / 9007199254740993.0  # 1 / (2^53 + 1): a draw of 53 bits becomes a number in (0, 1)


@kernel
def anneal_squares(
    gram, table, weight, sizes, stored, room_weight, holds, held, group_start, group_of, label, state, heat, cooling,
    steps,
):  # fmt: skip
    """Lower the sum over servers of weight x |load|^2 + room_weight x bytes^2; returns the heat at the end.

    `gram` (M, M) holds the products of the items' columns, `table` (K, M) those of servers' loads and items, `sizes`
    (M,) bytes, `stored` (K,) their sums, `holds` (K, M) whether an item alone fits a server. All are kept up to date.
    Heat falls by `cooling` every M steps. A step is O(1), one that is taken O(M).
    """
    count = len(label)
    servers = len(weight)
    for step in range(steps):
        if step % count == 0:
            heat *= cooling
        i = np.int64(_draw(state) % np.uint64(count))
        drawn = _draw(state)
        j = np.int64((drawn >> np.uint64(8)) % np.uint64(count + count // 8 + 1))
        allowed = -heat * np.log((np.float64(_draw(state) >> np.uint64(11)) + 1.0) * _UNIT)
        k = label[i]
        if j < count:
            m = label[j]
            if m == k or not holds[k, j] or not holds[m, i]:
                continue
            square = gram[i, i] + gram[j, j] - 2 * gram[i, j]
            change = weight[k] * (2 * (table[k, j] - table[k, i]) + square)
            change += weight[m] * (2 * (table[m, i] - table[m, j]) + square)
            bytes_in = sizes[j] - sizes[i]
        else:
            m = np.int64((drawn >> np.uint64(40)) % np.uint64(servers))
            if m == k or not holds[m, i]:
                continue
            change = weight[k] * (gram[i, i] - 2 * table[k, i]) + weight[m] * (gram[i, i] + 2 * table[m, i])
            bytes_in = -sizes[i]
            j = np.int64(-1)
        change += room_weight[k] * bytes_in * (2 * stored[k] + bytes_in)
        change -= room_weight[m] * bytes_in * (2 * stored[m] - bytes_in)
        if change > allowed or excluded(m, i, j, held, group_start, group_of):
            continue
        if j >= 0 and excluded(k, j, i, held, group_start, group_of):
            continue
        for n in range(count):
            gone = gram[i, n] - (gram[j, n] if j >= 0 else 0.0)
            table[k, n] -= gone
            table[m, n] += gone
        stored[k] += bytes_in
        stored[m] -= bytes_in
        for g in range(group_start[i], group_start[i + 1]):
            held[k, group_of[g]] -= 1
            held[m, group_of[g]] += 1
        label[i] = m
        if j >= 0:
            for g in range(group_start[j], group_start[j + 1]):
                held[m, group_of[g]] -= 1
                held[k, group_of[g]] += 1
            label[j] = k
    return heat


@kernel
def anneal_overload(columns, scale, label, load, held, group_start, group_of, state, heat, cooling, steps):
    """Lower the total overload (`ceps.kernels.overload_search`) towards 0, where it stops; returns the heat at the end.

    Heat falls by `cooling` every M steps. A step is O(C) at worst, and cut short where it will not be taken.
    """
    count, width = columns.shape
    servers = len(load)
    nothing = np.zeros(width)
    cost = np.empty(servers)
    for k in range(servers):
        cost[k] = overload(load, scale, k, nothing, nothing, np.inf)
    for step in range(steps):
        if step % count == 0:
            heat *= cooling
            if cost.sum() <= 0:
                break
        i = np.int64(_draw(state) % np.uint64(count))
        drawn = _draw(state)
        j = np.int64((drawn >> np.uint64(8)) % np.uint64(count + count // 4 + 1))
        allowed = -heat * np.log((np.float64(_draw(state) >> np.uint64(11)) + 1.0) * _UNIT)
        k = label[i]
        come = nothing
        if j < count:
            m = label[j]
            come = columns[j]
        else:
            m = np.int64((drawn >> np.uint64(40)) % np.uint64(servers))
            j = np.int64(-1)
        if m == k:
            continue
        most = cost[k] + cost[m] + allowed
        there = overload(load, scale, m, columns[i], come, most)
        if there > most:
            continue
        here = overload(load, scale, k, come, columns[i], most - there)
        if here + there > most or excluded(m, i, j, held, group_start, group_of):
            continue
        if j >= 0 and excluded(k, j, i, held, group_start, group_of):
            continue
        relocate(columns, load, held, group_start, group_of, label, i, m)
        if j >= 0:
            relocate(columns, load, held, group_start, group_of, label, j, k)
        cost[k], cost[m] = here, there
    return heat
