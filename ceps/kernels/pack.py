"""Packing items onto a given fleet: greedy start, and tabu search for the smallest relative peak.

State, shared by all kernels here and changed in place: `label` (M,) server of each item or -1; `load` (K, C) summed
columns; `peak` (K,) and `slot` (K,) each server's largest relative load and where; `scale` (K, 2) one over a
server's requests/s and one over its bytes; `held` (K, G) how many items of each exclusion group it holds.
The last column holds bytes, all others requests/s.
"""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel

_BLOCK = 32  # columns between two looks at the bound: long enough to run as vector code


@kernel(fastmath={"nnan", "nsz"})
def sum_peak(load, scale, k, item, sign, bound):
    """Largest relative load of server `k` with `item` added (sign 1) or taken away (-1); stops above `bound`."""
    last = load.shape[1] - 1
    worst = (load[k, last] + sign * item[last]) * scale[k, 1]
    top = 0.0
    rate = scale[k, 0]
    limit = bound / rate
    for begin in range(0, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        for c in range(begin, end):
            top = max(top, load[k, c] + sign * item[c])
        if top > limit:
            break
    return max(worst, top * rate)


@kernel(fastmath={"nnan", "nsz"})
def swap_peak(load, scale, k, come, leave, bound):
    """Largest relative load of server `k` after item `leave` is replaced by item `come`; stops above `bound`."""
    last = load.shape[1] - 1
    worst = (load[k, last] + (come[last] - leave[last])) * scale[k, 1]
    top = 0.0
    rate = scale[k, 0]
    limit = bound / rate
    for begin in range(0, last, _BLOCK):
        end = min(begin + _BLOCK, last)
        for c in range(begin, end):
            top = max(top, load[k, c] + (come[c] - leave[c]))
        if top > limit:
            break
    return max(worst, top * rate)


@kernel
def find_peak(load, scale, k, peak, slot):
    """Set `peak[k]` and `slot[k]` from the load of server `k`; ties go to the first column."""
    last = load.shape[1] - 1
    top, place = -1.0, 0
    for c in range(last):
        if load[k, c] > top:
            top = load[k, c]
            place = c
    top *= scale[k, 0]
    if load[k, last] * scale[k, 1] > top:
        top = load[k, last] * scale[k, 1]
        place = last
    peak[k] = top
    slot[k] = place


@kernel
def at(load, scale, k, c, change):
    """Relative load of server `k` in column `c` after `change` is added."""
    return (load[k, c] + change) * (scale[k, 1] if c == load.shape[1] - 1 else scale[k, 0])


@kernel
def excluded(k, item, leaving, held, group_start, group_of):
    """Whether server `k` holds, apart from item `leaving` (or -1), an item that may not stand beside `item`."""
    for g in range(group_start[item], group_start[item + 1]):
        count = held[k, group_of[g]]
        if count and leaving >= 0:
            for h in range(group_start[leaving], group_start[leaving + 1]):
                if group_of[h] == group_of[g]:
                    count -= 1
        if count:
            return True
    return False


@kernel
def shift(columns, load, held, group_start, group_of, item, k, sign):
    """Add `item` to server `k` (sign 1) or take it away (-1); peaks are the caller's business."""
    for c in range(load.shape[1]):
        load[k, c] += sign * columns[item, c]
    for g in range(group_start[item], group_start[item + 1]):
        held[k, group_of[g]] += sign


@kernel
def relocate(columns, load, held, group_start, group_of, label, item, k):
    """Move `item` from its server to server `k`; peaks are the caller's business."""
    shift(columns, load, held, group_start, group_of, item, label[item], -1)
    shift(columns, load, held, group_start, group_of, item, k, 1)
    label[item] = k


@kernel
def fill(columns, scale, order, label, load, peak, slot, held, group_start, group_of):
    """Put the items of `order` that have no server where the resulting relative peak is lowest.

    Servers are tried from the emptiest peak on; ties go to the lowest number. Returns how many items found no
    server because of exclusion. O(M K C) at worst.
    """
    servers = load.shape[0]
    homeless = 0
    for item in order:
        if label[item] >= 0:
            continue
        best, target = np.inf, -1
        row = columns[item]
        for k in range(servers):
            if at(load, scale, k, slot[k], row[slot[k]]) >= best:
                continue
            if excluded(k, item, -1, held, group_start, group_of):
                continue
            value = sum_peak(load, scale, k, row, 1.0, best)
            if value < best:
                best, target = value, k
        if target < 0:
            homeless += 1
            continue
        label[item] = target
        shift(columns, load, held, group_start, group_of, item, target, 1)
        find_peak(load, scale, target, peak, slot)
    return homeless


@kernel
def first_fit(columns, scale, order, limit, label, load, peak, slot, held, group_start, group_of):
    """Put each item of `order` on the first server that takes it; returns how many servers hold something.

    All servers are of one type and start empty; there must be as many as items, or fewer if that is known to do.
    """
    opened = 0
    for item in order:
        row = columns[item]
        for k in range(load.shape[0]):
            if at(load, scale, k, slot[k], row[slot[k]]) > limit:
                continue
            if excluded(k, item, -1, held, group_start, group_of):
                continue
            if sum_peak(load, scale, k, row, 1.0, limit) <= limit:
                label[item] = k
                shift(columns, load, held, group_start, group_of, item, k, 1)
                find_peak(load, scale, k, peak, slot)
                opened = max(opened, k + 1)
                break
    return opened


@kernel
def _draw(state):
    # xorshift64*: small, seeded, the same on every machine.
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(2685821657736338717)


@kernel
def by_server(label, servers, start, sorted_items):
    """Items by server: those of server k become `sorted_items[start[k]:start[k + 1]]`, in item order. O(M + K)."""
    start[:] = 0
    for i in range(len(label)):
        if label[i] >= 0:
            start[label[i] + 1] += 1
    for k in range(servers):
        start[k + 1] += start[k]
    for i in range(len(label)):
        if label[i] >= 0:
            sorted_items[start[label[i]]] = i
            start[label[i]] += 1
    for k in range(servers, 0, -1):
        start[k] = start[k - 1]
    start[0] = 0


@kernel
def best_move(columns, scale, load, slot, held, group_start, group_of, leavers, worst, forbidden, step, best):
    """Best move of one of `leavers` out of server `worst`: (value, item, server); item -1 if there is none.

    The value is the larger of the two servers' relative peaks afterwards. O(leavers K C), cut short by the best
    value so far. Moves that are forbidden until after `step` count only below `best`.
    """
    c = slot[worst]
    value, move, goal = np.inf, -1, -1
    for i in leavers:
        row = columns[i]
        if row[c] <= 0:
            continue
        left = sum_peak(load, scale, worst, row, -1.0, value)
        if left >= value:
            continue
        for k in range(load.shape[0]):
            if k == worst or at(load, scale, k, slot[k], row[slot[k]]) >= value:
                continue
            if at(load, scale, k, c, row[c]) >= value or excluded(k, i, -1, held, group_start, group_of):
                continue
            result = max(left, sum_peak(load, scale, k, row, 1.0, value))
            if result < value and (forbidden[k, i] <= step or result < best * (1 - 1e-12)):
                value, move, goal = result, i, k
    return value, move, goal


@kernel
def best_swap(
    columns, scale, load, slot, held, group_start, group_of, leavers, worst, k, partners, forbidden, step, best, value
):
    """Best swap of a leaver of `worst` with a partner of server `k` below `value`: (value, leaver, partner)."""
    c, p = slot[worst], slot[k]
    move, swap = -1, -1
    for j in partners:
        other = columns[j]
        for i in leavers:
            row = columns[i]
            gain = row[c] - other[c]
            if gain <= 0 or at(load, scale, worst, c, -gain) >= value or at(load, scale, k, c, gain) >= value:
                continue
            if at(load, scale, k, p, row[p] - other[p]) >= value:
                continue
            if excluded(k, i, j, held, group_start, group_of) or excluded(worst, j, i, held, group_start, group_of):
                continue
            result = swap_peak(load, scale, worst, other, row, value)
            if result >= value:
                continue
            result = max(result, swap_peak(load, scale, k, row, other, value))
            if result >= value:
                continue
            if (forbidden[k, i] <= step and forbidden[worst, j] <= step) or result < best * (1 - 1e-12):
                value, move, swap = result, i, j
    return value, move, swap


@kernel
def tabu(
    columns, scale, label, load, peak, slot, held, group_start, group_of,
    forbidden, state, best_label, best, step, steps, idle, pairs, target,
):  # fmt: skip
    """Tabu search: out of the server with the largest relative peak, by the best move or swap of each step.

    A step looks at every move out of that server and at about `pairs` swaps, first with the servers that have most
    room at its peak, and takes the one after which the larger peak of the two servers is smallest.
    `forbidden[k, i]` is the step until which item i may not return to server k, unless the best falls. Stops after
    `steps` steps, after `idle` steps without a better best, or when the largest relative peak is at most `target`.

    Changes the state in place; `best_label` keeps the best placement apart. Returns (best, step, step of the best).
    """
    count = len(columns)
    servers = load.shape[0]
    start = np.empty(servers + 1, dtype=np.int64)
    items = np.empty(count, dtype=np.int64)
    room = np.empty(servers)
    found_at = step
    end = step + steps
    while best > target and step < end and step - found_at < idle:
        worst = np.argmax(peak)
        by_server(label, servers, start, items)
        leavers = items[start[worst] : start[worst + 1]]
        value, move, goal = best_move(
            columns, scale, load, slot, held, group_start, group_of, leavers, worst, forbidden, step, best
        )
        swap = -1
        for k in range(servers):
            room[k] = at(load, scale, k, slot[worst], 0.0)
        budget = pairs
        for k in np.argsort(room):
            if k == worst or budget <= 0 or len(leavers) == 0:
                continue
            partners = items[start[k] : start[k + 1]]
            most = max(1, budget // len(leavers))
            if most < len(partners):
                begin = np.int64(_draw(state) % np.uint64(len(partners) - most + 1))
                partners = partners[begin : begin + most]
            budget -= len(partners) * len(leavers)
            result, i, j = best_swap(
                columns, scale, load, slot, held, group_start, group_of, leavers, worst, k, partners,
                forbidden, step, best, value,
            )  # fmt: skip
            if i >= 0:
                value, move, swap, goal = result, i, j, k
        if move < 0:
            break
        step += 1
        tenure = np.int64(10) + np.int64(_draw(state) % np.uint64(11))
        forbidden[worst, move] = step + tenure
        relocate(columns, load, held, group_start, group_of, label, move, goal)
        if swap >= 0:
            forbidden[goal, swap] = step + tenure
            relocate(columns, load, held, group_start, group_of, label, swap, worst)
        find_peak(load, scale, worst, peak, slot)
        find_peak(load, scale, goal, peak, slot)
        if peak.max() < best * (1 - 1e-12):
            best = peak.max()
            found_at = step
            best_label[:] = label
    return best, step, found_at
