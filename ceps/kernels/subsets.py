"""Sets of items that one server holds: all that fill it nearly, and the most that counts on it."""

from __future__ import annotations

import numpy as np

from ceps.kernels.jit import kernel


@kernel
def nearly_full(size, least, most, rest, out, steps):
    """Write to `out` (n, width) all sets of items with least <= sum <= most in every column; returns how many.

    `size` (M, C) is sorted by its first column, largest first; `rest` (M + 1, C) sums the items from each one on.
    A row of `out` holds items in rising order, then -1. Returns -1 where `out` is too short, a set is wider than it,
    or the search takes over `steps` steps.
    """
    count, width = size.shape
    load = np.zeros(width)
    stack = np.empty(out.shape[1], dtype=np.int64)
    depth, found, i = 0, 0, 0
    while True:
        steps -= 1
        if steps < 0:
            return -1
        reachable = True
        for c in range(width):
            if load[c] + rest[i, c] < least[c]:
                reachable = False
                break
        if reachable:
            while i < count:
                fits = True
                for c in range(width):
                    if load[c] + size[i, c] > most[c]:
                        fits = False
                        break
                if fits:
                    break
                i += 1
            if i < count:
                if depth == out.shape[1]:
                    return -1
                stack[depth] = i
                depth += 1
                full = True
                for c in range(width):
                    load[c] += size[i, c]
                    if load[c] < least[c]:
                        full = False
                if full:
                    if found == len(out):
                        return -1
                    out[found, :depth] = stack[:depth]
                    out[found, depth:] = -1
                    found += 1
                i += 1
                continue
        if depth == 0:
            return found
        depth -= 1
        i = stack[depth]
        for c in range(width):
            load[c] -= size[i, c]
        i += 1


@kernel
def least_sizes(size, worth, least):
    """Set `least[v]` to the smallest total size of items whose worth is v or more, for v = 0 .. len(least) - 1.

    `worth` (M,) are whole numbers, 0 or more. Infinite where all items together are worth less. O(M x len(least)).
    """
    least[:] = np.inf
    least[0] = 0.0
    top = len(least) - 1
    for i in range(len(size)):
        if worth[i] <= 0:
            continue
        for value in range(top, 0, -1):
            before = max(value - worth[i], 0)
            if least[before] + size[i] < least[value]:
                least[value] = least[before] + size[i]
