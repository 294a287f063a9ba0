"""How even loads of workers are: the largest over its fair share, what noise explains of it, what it must be."""

from __future__ import annotations

import numpy as np

from ceps.model.problem import Floats, Ints, sum_by_label

THICK = 100
"""Rows a worker in a slot below which it says too little by itself: it is counted together with the next."""


def fair_shares(loads: Floats, workers: int) -> tuple[Floats, Floats]:
    """Return loads over the fair share of a worker, float64 (G, S), and the rows of each slot, float64 (S,).

    Thin slots are added to the next, the last ones to the one before. Where nothing was counted at all, each group
    counts alike, and the one slot has no rows. O(G T).

    ``loads``: float64 (G, T), rows of each group in each slot.
    """
    totals = loads.sum(axis=0)
    starts, held = [], np.inf
    for slot, rows in enumerate(totals.tolist()):
        if held >= THICK * workers:
            starts.append(slot)
            held = 0.0
        held += rows
    if len(starts) > 1 and held < THICK * workers:
        starts.pop()
    if not totals.any():
        return np.full((len(loads), 1), workers / max(len(loads), 1)), np.zeros(1)
    thick = np.add.reduceat(loads, starts, axis=1)
    totals = thick.sum(axis=0)
    return thick * (workers / totals), totals


def loads_of(shares: Floats, worker_of: Ints, workers: int) -> Floats:
    """Return what each worker has of its fair share in each slot, float64 (K, S); groups on -1 are nowhere. O(G S).

    ``shares``: float64 (G, S), loads of groups over the fair share; ``worker_of``: int64 (G,).
    """
    placed = np.flatnonzero(worker_of >= 0)
    sums = np.zeros((workers, shares.shape[1]))
    found = sum_by_label(shares[placed], worker_of[placed])
    sums[: len(found)] = found
    return sums


def imbalance(shares: Floats, worker_of: Ints, workers: int) -> float:
    """Return the largest share of a worker in a slot: 1 where all are even, also where there is nothing. O(G S)."""
    return float(loads_of(shares, worker_of, workers).max(initial=0.0)) if len(shares) else 1.0


def explained_by_noise(totals: Floats, workers: int, significance: float) -> Floats:
    """Return for each slot the largest share that noise explains, float64 (S,).

    Where each row falls to any worker alike, the load of one is binomial. The chance that any worker in any slot has
    more than this is at most `significance`. Infinite where nothing was counted.

    ``totals``: float64 (S,), rows of each slot; ``significance``: above 0, at most 1.

    Examples
    --------
    >>> explained_by_noise(np.array([80.0, 8_000.0, 800_000.0]), 8, 0.01).round(2).tolist()
    [2.1, 1.1, 1.01]
    """
    from scipy.special import betainc

    one = -np.expm1(np.log1p(-significance) / (workers * len(totals))) if significance < 1 else 1.0
    rows = np.round(totals)
    # The least m with P(X > m) = I_p(m + 1, n - m) at most `one`, by halving.
    low, high = np.full(len(rows), -1.0), rows.copy()
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        above = np.where(middle < rows, betainc(middle + 1, np.maximum(rows - middle, 1.0), 1 / workers), 0.0)
        few = (above <= one) | (middle < 0)
        high, low = np.where(few & (high - low > 1), middle, high), np.where(few, low, middle)
    return np.where(totals > 0, high * workers / np.maximum(totals, 1e-300), np.inf)


def least_imbalance(shares: Floats, bytes: Floats, home: Ints, workers: int, budget: float) -> float:
    """Return an imbalance that no placement undercuts which moves at most `budget` bytes.

    In each slot: a group is on one worker; two of any K + 1 groups are on the same one; and what a worker has above
    that must leave it, by the groups with most load for their bytes, the last one in part. O(S G log G).

    ``shares``: float64 (G, S); ``bytes``: float64 (G,); ``home``: int64 (G,), the worker of each group or -1;
    ``budget``: bytes.
    """
    if not len(shares):
        return 1.0
    ranked = -np.sort(-shares, axis=0)
    bound = max(1.0, float(ranked[0].max()))
    if len(shares) > workers:
        bound = max(bound, float((ranked[workers - 1] + ranked[workers]).max()))
    standing = np.flatnonzero(home >= 0)
    if budget >= bytes[standing].sum():
        return bound
    for share in shares.T:
        bound = _must_stay(share[standing], bytes[standing], home[standing], workers, budget, bound)
    return bound


def _must_stay(share: Floats, bytes: Floats, home: Ints, workers: int, budget: float, bound: float) -> float:
    """Return what the largest worker keeps in one slot, if that is above `bound`."""
    top = float(np.bincount(home, share, workers).max(initial=0.0))
    if top <= bound:
        return bound
    piles = []
    for k in range(workers):
        here = np.flatnonzero((home == k) & (share > 0))
        here = here[np.argsort(bytes[here] / share[here], kind="stable")]
        gone = np.concatenate([[0.0], np.cumsum(share[here])])
        piles.append((gone, np.concatenate([[0.0], np.cumsum(bytes[here])])))

    def needed(level: float) -> float:
        return sum(float(np.interp(gone[-1] - level, gone, paid)) for gone, paid in piles if gone[-1] > level)

    if needed(bound) <= budget:
        return bound
    low, high = bound, top
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= budget else (middle, high)
    return low
