"""Weights that give every pivot the same number of rows: semi-discrete optimal transport, solved as a flow.

Rows belong to the pivot of least power. An over-full region passes rows on to under-full ones along the cheapest
chain of borders, where passing row r from i to j costs ``(|r - p_j|^2 - w_j) - (|r - p_i|^2 - w_i)``; the weights are
the flow's potentials, so after each chain every row still belongs to the pivot of least power. Unlike Newton's method
it needs no density along the borders: it crosses the empty land between towns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.partitioning.regions import Regions

FIRST_ROWS, GROWTH = 80, 4
"""Rows a region on the first level, and how many times as many on each next one."""
SHARE = 0.04
"""The share of a region's rows, those nearest to a border, that may pass it in one round."""
SHARE_ROWS = 400
"""Rows of a region that say where that share ends."""
LOOKED = 128
"""Rows of a region that say which borders are near."""
LISTED_BORDERS = 24
"""Borders of a region that rows may pass."""
FIRST_PAIRS = 1 << 21
"""Rows times borders on the first level, where towns far from each other share out."""
ENOUGH = 0.03
"""The share of rows in wrong regions from which one more round sets nearly all right."""
_MIDDLES = 8
"""Times that each weight moves half-way to the middle of what leaves all rows where they are."""
ROUNDS = 8
"""Rounds on a level at the most; one is enough but where rows have to cross whole regions."""


def balancing_weights(sample: NDArray[np.float64], pivots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights, float64 (P,), that give each pivot the same number of rows, as rows on one site allow.

    ``sample``: (n, dimension) rows in curve order; ``pivots``: float64 (P, dimension).

    Few rows first, then more, each level starting from the weights of the one before: what is left to move is that
    level's sampling noise. Cost O(n + moved rows x P).
    """
    weights = np.zeros(len(pivots))
    rows, first = FIRST_ROWS * len(pivots), True
    while True:
        stride = max(round(len(sample) / rows), 1)
        thin = np.ascontiguousarray(sample[stride // 2 :: stride])
        best, least = weights, np.inf
        for _ in range(ROUNDS):
            better, excess = _round(thin, pivots, weights, first)
            if excess < least:
                best, least = weights, excess
            elif not first:
                weights = best
                break
            weights = better
            if excess <= ENOUGH * len(thin):
                break
        if stride == 1:
            return _round(thin, pivots, weights, False, still=True)[0]
        rows, first = rows * GROWTH, False


def _round(
    sample: NDArray[np.float64],
    pivots: NDArray[np.float64],
    weights: NDArray[np.float64],
    first: bool,
    still: bool = False,
) -> tuple[NDArray[np.float64], int]:
    """Return better weights, and how many rows are too many in their regions by the given ones.

    Where all stand ``still``, borders only move off the rows that they pass through.
    """
    n, count = len(sample), len(pivots)
    regions = Regions(pivots, weights)
    home = regions.nearest(sample)
    order = np.argsort(home, kind="stable")
    begin = np.searchsorted(home[order], np.arange(count + 1))
    listed = min(max(FIRST_PAIRS // n, LISTED_BORDERS) if first else LISTED_BORDERS, count - 1)
    near = _nearest_borders(sample, order, begin, regions, listed)
    limit = np.full(near.shape, np.inf) if first else _limits(sample, order, begin, pivots, near)
    size = np.bincount(home, minlength=count)
    target = np.full(count, n // count)
    target[: n % count] += 1
    excess = size - target
    many = int(excess[excess > 0].sum())
    if still:
        excess[:] = 0
    weights = weights.copy()
    room = near.shape[1] * (4 * n if first else int(4 * SHARE * n) + 4 * FIRST_ROWS * count) + 1024
    _flow(sample, pivots, near, home, weights, excess, limit, np.empty(room), np.empty((room, 3), np.int32))
    return weights, many


def _nearest_borders(
    sample: NDArray[np.float64], order: NDArray[np.int64], begin: NDArray[np.int64], regions: Regions, listed: int
) -> NDArray[np.int32]:
    """Return for each region the other regions that some of its rows are nearest to joining, int32 (P, listed)."""
    middle = regions.pivots.mean(axis=0)
    pivots = regions.pivots - middle
    lift = (pivots**2).sum(axis=1) - regions.weights
    near = np.ascontiguousarray(regions.borders.order[:, :listed])
    if listed == len(pivots) - 1:
        return near
    for i in range(len(pivots)):
        rows = order[begin[i] : begin[i + 1]]
        if len(rows) == 0:
            continue
        power = lift - 2.0 * (sample[rows[:: max(len(rows) // LOOKED, 1)]] - middle) @ pivots.T
        least = (power - power[:, [i]]).min(axis=0)
        least[i] = np.inf
        near[i] = np.argpartition(least, listed - 1)[:listed]
    return near


def _limits(
    sample: NDArray[np.float64],
    order: NDArray[np.int64],
    begin: NDArray[np.int64],
    pivots: NDArray[np.float64],
    near: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Return for each border how much further from the other pivot than from its own a row may be to pass it."""
    limit = np.full(near.shape, np.inf)
    for i in range(len(pivots)):
        rows = order[begin[i] : begin[i + 1]]
        if len(rows) <= 2 * FIRST_ROWS:
            continue
        seen = sample[rows[:: max(len(rows) // SHARE_ROWS, 1)]]
        keys = ((seen[:, None] - pivots[near[i]]) ** 2).sum(axis=2) - ((seen - pivots[i]) ** 2).sum(axis=1)[:, None]
        at = max(int(SHARE * len(seen)), 8)
        limit[i] = np.partition(keys, at, axis=0)[at]
    return limit


@kernel
def _gap2(sample, r, pivots, i):
    gap = 0.0
    for axis in range(sample.shape[1]):
        a = sample[r, axis] - pivots[i, axis]
        gap += a * a
    return gap


class _Heaps(NamedTuple):
    """Skew heaps of rows, one for each border of each region."""

    heads: NDArray[np.int32]  # int32 (P, listed): the place of each heap's root, -1 where it is empty
    # pool, links: float64 (places,), int32 (places, 3): keys, and rows with the places of both children
    pool: NDArray[np.float64]
    links: NDArray[np.int32]


@kernel
def _melt(pool, links, a, b):
    """Merge two skew heaps: the least key stands at the root, and children change sides on the way down."""
    if a < 0:
        return b
    if b < 0:
        return a
    if pool[b] < pool[a]:
        a, b = b, a
    root = a
    while True:
        right = links[a, 2]
        links[a, 2] = links[a, 1]
        if right < 0:
            links[a, 1] = b
            return root
        if pool[b] < pool[right]:
            right, b = b, right
        links[a, 1] = right
        a = right


@kernel
def _push(sample, pivots, near, limit, r, i, heaps, used):
    """Put row r of region i into the heaps of the borders that it may pass; returns the used places."""
    heads, pool, links = heaps
    own = _gap2(sample, r, pivots, i)
    for k in range(near.shape[1]):
        key = _gap2(sample, r, pivots, near[i, k]) - own
        if key <= limit[i, k]:
            pool[used] = key
            links[used, 0], links[used, 1], links[used, 2] = r, -1, -1
            heads[i, k] = _melt(pool, links, heads[i, k], used)
            used += 1
    return used


@kernel
def _top(home, heads, pool, links, i, k):
    """Return the place of the cheapest row of region i for its border k, or -1; rows that have left are dropped."""
    head = heads[i, k]
    while head >= 0 and home[links[head, 0]] != i:
        head = _melt(pool, links, links[head, 1], links[head, 2])
    heads[i, k] = head
    return head


@kernel
def _centre(near, home, weights, heads, pool, links, limit):
    """Move each weight towards the middle of what leaves all rows where they are: no border through a row."""
    count, listed = near.shape
    low, high = np.empty(count), np.empty(count)
    for _ in range(_MIDDLES):
        low[:] = -np.inf
        high[:] = np.inf
        for i in range(count):
            for k in range(listed):
                place = _top(home, heads, pool, links, i, k)
                key = limit[i, k] if place < 0 else min(limit[i, k], pool[place])
                j = near[i, k]
                low[i] = max(low[i], weights[j] - key)
                high[j] = min(high[j], weights[i] + key)
        for i in range(count):
            if low[i] > -np.inf and high[i] < np.inf:
                weights[i] += 0.5 * (0.5 * (low[i] + high[i]) - weights[i])


@kernel(
    "void(float64[:, ::1], float64[:, ::1], int32[:, ::1], int32[::1], float64[::1], int64[::1], float64[:, ::1], "
    "float64[::1], int32[:, ::1])"
)
def _flow(sample, pivots, near, home, weights, excess, limit, pool, links):
    """Move rows until no region has too many or none can be reached; ``weights`` become the potentials.

    A row beyond the limit does not move but blocks the way: another round begins with other limits.
    """
    count, listed = near.shape
    heads = np.full((count, listed), -1, np.int32)
    heaps = _Heaps(heads, pool, links)
    used = 0
    for r in range(home.size):
        if used + listed > pool.size:
            return
        used = _push(sample, pivots, near, limit, r, home[r], heaps, used)
    far, before, through = np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)
    settled = np.empty(count, np.bool_)
    for source in range(count):
        while excess[source] > 0:
            far[:] = np.inf
            settled[:] = False
            far[source] = 0.0
            target = -1
            while True:
                u = -1
                for v in range(count):
                    if not settled[v] and far[v] < np.inf and (u < 0 or far[v] < far[u]):
                        u = v
                if u < 0:
                    break
                settled[u] = True
                if excess[u] < 0:
                    target = u
                    break
                for k in range(listed):
                    v = near[u, k]
                    if settled[v]:
                        continue
                    key, way = limit[u, k], -1
                    place = _top(home, heads, pool, links, u, k)
                    if place >= 0 and pool[place] <= key:
                        key, way = pool[place], k
                    # a border that was not listed before may cost less than nothing by now
                    beyond = far[u] + max(key + weights[u] - weights[v], 0.0)
                    if beyond < far[v]:
                        far[v], before[v], through[v] = beyond, u, way
            if target < 0:
                break
            for v in range(count):
                if settled[v]:
                    weights[v] += far[v] - far[target]
            blocked, steps, v = False, 0, target
            while v != source:
                blocked = blocked or through[v] < 0
                v = before[v]
                steps += 1
            if blocked or used + steps * listed > pool.size:
                break
            v = target
            while v != source:
                u = before[v]
                r = links[_top(home, heads, pool, links, u, through[v]), 0]
                home[r] = v
                used = _push(sample, pivots, near, limit, r, v, heaps, used)
                v = u
            excess[source] -= 1
            excess[target] += 1
    _centre(near, home, weights, heads, pool, links, limit)
