"""Tabu search on overload: the sum over servers and columns of (relative load - 1)^2 where it is above 1.

It sees every overloaded slot, not only the worst, so noisy patterns, whose slots are nearly all alike, pack better
than by their largest peak alone. State and column layout as in `ceps.kernels.pack`.
"""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel
from ceps.kernels.pack import _BLOCK, _draw, by_server, excluded, find_peak, relocate, sum_peak


@kernel(fastmath={"nnan", "nsz"})
def overload(load, scale, k, come, leave, bound):
    """Overload of server `k` after item `leave` is replaced by item `come`; stops above `bound`.

    Four sums side by side, always added in the same order: vector code, and the same bytes on every run.
    """
    last = load.shape[1] - 1
    excess = max(0.0, (load[k, last] + (come[last] - leave[last])) * scale[k, 1] - 1.0)
    total = excess * excess
    rate = scale[k, 0]
    for begin in range(0, last, _BLOCK):
        if total > bound:
            break
        a = b = c = d = 0.0
        for s in range(begin, min(begin + _BLOCK, last), 4):
            e = max(0.0, (load[k, s] + (come[s] - leave[s])) * rate - 1.0)
            f = max(0.0, (load[k, s + 1] + (come[s + 1] - leave[s + 1])) * rate - 1.0)
            g = max(0.0, (load[k, s + 2] + (come[s + 2] - leave[s + 2])) * rate - 1.0)
            h = max(0.0, (load[k, s + 3] + (come[s + 3] - leave[s + 3])) * rate - 1.0)
            a += e * e
            b += f * f
            c += g * g
            d += h * h
        total += (a + b) + (c + d)
    return total


@kernel
def carried(home, burden, item, source, target):
    """Change of the burden of moves when `item` goes from one server to another; 0 for an item without a home."""
    if home[item] < 0:
        return 0.0
    return burden[item] * (np.float64(target != home[item]) - np.float64(source != home[item]))


@kernel
def relieve(
    columns, scale, label, load, held, group_start, group_of, home, burden,
    forbidden, state, best_label, best, step, steps, idle, pairs,
):  # fmt: skip
    """Tabu search that lowers the total overload to 0: out of the most overloaded server, best move or swap.

    As `ceps.kernels.pack.tabu`, with the sum of the two servers' overloads as the value of a step. An item that
    leaves server `home[i]` adds `burden[i]` times the total overload to that value, so that little is moved when
    burdens are bytes; zeros switch it off. Returns (best total overload, step, step of the best).
    """
    count, width = columns.shape
    servers = load.shape[0]
    start = np.empty(servers + 1, dtype=np.int64)
    items = np.empty(count, dtype=np.int64)
    nothing = np.zeros(width)
    cost = np.empty(servers)
    for k in range(servers):
        cost[k] = overload(load, scale, k, nothing, nothing, np.inf)
    found_at = step
    end = step + steps
    while best > 0 and step < end and step - found_at < idle:
        worst = np.argmax(cost)
        if cost[worst] <= 0:
            break
        total = cost.sum()
        by_server(label, servers, start, items)
        leavers = items[start[worst] : start[worst + 1]]
        relief = np.empty(len(leavers))
        for m in range(len(leavers)):
            relief[m] = overload(load, scale, worst, nothing, columns[leavers[m]], np.inf) - cost[worst]
        ranked = np.argsort(relief, kind="mergesort")
        value, move, swap, goal = np.inf, -1, -1, -1
        for m in ranked:
            i = leavers[m]
            for k in range(servers):
                if k == worst:
                    continue
                extra = total * carried(home, burden, i, worst, k)
                change = relief[m] - cost[k]
                if change + extra >= value:
                    continue
                change += overload(load, scale, k, columns[i], nothing, value - change - extra)
                if change + extra >= value or excluded(k, i, -1, held, group_start, group_of):
                    continue
                if forbidden[k, i] <= step or total + change < best * (1 - 1e-9):
                    value, move, goal = change + extra, i, k
        budget = pairs
        first = np.int64(_draw(state) % np.uint64(count))
        for m in ranked:
            i = leavers[m]
            if budget <= 0:
                break
            budget -= count
            for n in range(count):
                j = items[(first + n) % count]
                k = label[j]
                if k == worst:
                    continue
                extra = total * (carried(home, burden, i, worst, k) + carried(home, burden, j, k, worst))
                change = relief[m] - cost[k]
                if change + extra >= value:
                    continue
                change += overload(load, scale, k, columns[i], columns[j], value - change - extra)
                if change + extra >= value:
                    continue
                change -= relief[m] + cost[worst]
                change += overload(load, scale, worst, columns[j], columns[i], value - change - extra)
                if change + extra >= value:
                    continue
                if excluded(k, i, j, held, group_start, group_of) or excluded(worst, j, i, held, group_start, group_of):
                    continue
                if (forbidden[k, i] <= step and forbidden[worst, j] <= step) or total + change < best * (1 - 1e-9):
                    value, move, swap, goal = change + extra, i, j, k
        if move < 0:
            break
        step += 1
        tenure = np.int64(10) + np.int64(_draw(state) % np.uint64(11))
        forbidden[worst, move] = step + tenure
        relocate(columns, load, held, group_start, group_of, label, move, goal)
        if swap >= 0:
            forbidden[goal, swap] = step + tenure
            relocate(columns, load, held, group_start, group_of, label, swap, worst)
        cost[worst] = overload(load, scale, worst, nothing, nothing, np.inf)
        cost[goal] = overload(load, scale, goal, nothing, nothing, np.inf)
        if cost.sum() < best * (1 - 1e-9):
            best = cost.sum()
            found_at = step
            best_label[:] = label
    return best, step, found_at


@kernel
def send_home(columns, scale, label, load, peak, slot, held, group_start, group_of, home, order, limit):
    """Move items of `order` back to their homes wherever no relative peak rises above `limit`; returns how many."""
    moved = 0
    again = True
    while again:
        again = False
        for i in order:
            k = home[i]
            if k < 0 or label[i] == k or excluded(k, i, -1, held, group_start, group_of):
                continue
            if sum_peak(load, scale, k, columns[i], 1.0, limit) > limit:
                continue
            source = label[i]
            relocate(columns, load, held, group_start, group_of, label, i, k)
            find_peak(load, scale, source, peak, slot)
            find_peak(load, scale, k, peak, slot)
            moved += 1
            again = True
    return moved
