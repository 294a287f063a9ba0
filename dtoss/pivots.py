"""Choosing pivots: the dissertation's spread sets, and weighted pivots that give every partition the same load."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dtoss.curve import curve_keys, radix_order
from dtoss.kernels import kernel
from dtoss.regions import Regions

SAMPLE_PER_PARTITION = 8_000
"""Rows sampled for each partition: the sampling noise of a partition's size is then about 1.1 %."""


def choose_pivots(
    sample: NDArray[np.float64],
    partitions: int,
    *,
    method: str = "balanced",
    seed: int = 0,
    candidates: int = 250,
) -> Regions:
    """Return the pivots of at most ``partitions`` regions, chosen from a sample of the objects.

    Parameters
    ----------
    sample : (n, dimension) vectors in any order; the result does not depend on it.
    partitions : wanted; there are fewer where the sample has fewer distinct vectors, and one at least.
    method : "balanced", or "spread" (dissertation, section 3.1.1): of ``candidates`` random sets of P objects each,
        the one with the largest sum of pairwise distances. (The dissertation counts S = ``candidates * P`` candidate
        objects.)
    seed : of the random choices.

    Raises
    ------
    ValueError
        If ``partitions`` is less than 1 or the method is unknown.

    Notes
    -----
    Cost O(n log n) for "balanced", O(candidates * P^2) for "spread".
    """
    if partitions < 1:
        raise ValueError(f"partitions is {partitions}: at least 1 is wanted")
    if method not in ("balanced", "spread"):
        raise ValueError(f"pivot method {method!r} is not known: balanced or spread")
    dimension = sample.shape[1]
    if len(sample) == 0:
        origin = np.zeros((1, dimension))
        origin[0, -1] = 1.0 if dimension == 3 else 0.0
        return Regions(origin, np.zeros(1))
    sample = np.ascontiguousarray(sample[np.lexsort(sample.T[::-1])])
    distinct = np.concatenate([[True], (sample[1:] != sample[:-1]).any(axis=1)])
    partitions = min(partitions, int(distinct.sum()))
    if method == "spread":
        return Regions(
            _spread(sample[distinct], partitions, candidates, np.random.default_rng(seed)),
            np.zeros(partitions),
        )
    return _balanced(sample, partitions)


def _spread(sites: NDArray[np.float64], partitions: int, sets: int, rng: np.random.Generator) -> NDArray[np.float64]:
    best, most = sites[:partitions], -1.0
    for _ in range(max(sets, 1)):
        chosen = sites[rng.choice(len(sites), partitions, replace=False)]
        squares = (chosen**2).sum(axis=1)
        total = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2.0 * chosen @ chosen.T, 0.0)).sum()
        if total > most:
            best, most = chosen, float(total)
    return np.ascontiguousarray(best)


def _balanced(sample: NDArray[np.float64], partitions: int) -> Regions:
    sample = np.ascontiguousarray(sample[radix_order(curve_keys(sample))])
    group = np.zeros(len(sample), np.int32)
    _split(sample, np.arange(len(sample)), 0, partitions, group)
    pivots = _distinct(_medians(sample, group, partitions), sample)
    weights = _balancing_weights(sample, pivots) if partitions > 1 else np.zeros(1)
    return Regions(pivots, weights - weights.max())


def _split(
    sample: NDArray[np.float64], rows: NDArray[np.int64], first: int, parts: int, group: NDArray[np.int32]
) -> None:
    """Split rows into ``parts`` groups, numbered from ``first`` on, by equal cuts along the longest side."""
    if parts == 1:
        group[rows] = first
        return
    points = sample[rows]
    axis = int(np.argmax(points.max(axis=0) - points.min(axis=0)))
    left = parts // 2
    cut = len(rows) * left // parts
    order = np.argpartition(points[:, axis], min(cut, len(rows) - 1)) if len(rows) else np.zeros(0, np.int64)
    _split(sample, rows[order[:cut]], first, left, group)
    _split(sample, rows[order[cut:]], first + left, parts - left, group)


def _medians(sample: NDArray[np.float64], group: NDArray[np.int32], partitions: int) -> NDArray[np.float64]:
    """Return the median of each group, axis by axis: means would follow far outliers and leave the crowd."""
    order = np.argsort(group, kind="stable")
    first = np.searchsorted(group[order], np.arange(partitions + 1))
    medians = np.stack([np.median(sample[order[a:b]], axis=0) for a, b in pairwise(first.tolist())])
    if sample.shape[1] == 3:
        length = np.linalg.norm(medians, axis=1)[:, None]
        middle = sample[order[(first[:-1] + first[1:]) // 2]]
        medians = np.where(length > 1e-6, medians / np.maximum(length, 1e-6), middle)
    return np.ascontiguousarray(medians)


def _distinct(pivots: NDArray[np.float64], sample: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pivots with each repeated one put on a sampled site that holds none yet."""
    _, kept = np.unique(pivots, axis=0, return_index=True)
    if len(kept) == len(pivots):
        return pivots
    taken = {tuple(row) for row in pivots[kept].tolist()}
    free = (row for row in np.unique(sample, axis=0).tolist() if tuple(row) not in taken)
    pivots = pivots.copy()
    for i in sorted(set(range(len(pivots))) - set(kept.tolist())):
        pivots[i] = next(free)
    return pivots


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "int32[::1], int32[::1], float64[::1])"
)
def _two_nearest(sample, pivots, weights, order, distance, best, second, margin):
    """Fill the region of each row, the next one, and by how much more power; ``best`` holds guesses.

    Rows come in curve order. The next region may be missed where it is far, which only blurs an estimate.
    """
    n, dimension = sample.shape
    listed = order.shape[1]
    count = pivots.shape[0]
    for r in range(n):
        i = best[r]
        for _ in range(count):
            d = 0.0
            for axis in range(dimension):
                a = sample[r, axis] - pivots[i, axis]
                d += a * a
            least, next_least = d - weights[i], np.inf
            low, next_low = i, -1
            d = np.sqrt(d)
            for t in range(listed):
                if distance[i, t] > d and next_low >= 0:
                    break
                j = order[i, t]
                value = -weights[j]
                for axis in range(dimension):
                    a = sample[r, axis] - pivots[j, axis]
                    value += a * a
                if value < least or (value == least and j < low):
                    next_least, next_low = least, low
                    least, low = value, j
                elif value < next_least:
                    next_least, next_low = value, j
            if low == i:
                break
            i = low
        best[r] = low
        second[r] = max(next_low, 0)
        margin[r] = next_least - least


def _balancing_weights(sample: NDArray[np.float64], pivots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights that give each pivot the same number of rows, as nearly as rows on one site allow.

    Damped Newton steps for semi-discrete optimal transport (Kitagawa, Merigot, Thibert 2019): a step is taken only if
    it shrinks the error and leaves no region nearly empty. The Hessian is the density of rows along the borders,
    estimated from the rows that almost belong to the next region. Every 16th row, then every 4th, then all of them.
    """
    weights = np.zeros(len(pivots))
    for stride in (16, 4, 1):
        thin = np.ascontiguousarray(sample[stride // 2 :: stride])
        if stride == 1 or len(thin) >= 200 * len(pivots):
            weights = _newton(thin, pivots, weights)
    return weights


def _newton(
    sample: NDArray[np.float64], pivots: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    n, count = len(sample), len(pivots)
    wanted = n / count
    best, second, margin = np.zeros(n, np.int32), np.zeros(n, np.int32), np.empty(n)

    def excess_of(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        b = Regions(pivots, weights).borders
        _two_nearest(sample, pivots, weights, b.order, b.distance, best, second, margin)
        excess: NDArray[np.float64] = np.bincount(best, minlength=count).astype(np.float64) - wanted
        return excess

    excess = excess_of(weights)
    least = 0.5 * (min(float(excess.min()), 0.0) + wanted)
    for _ in range(60):
        if np.abs(excess).max() <= max(1.0, 0.3 * np.sqrt(wanted)):  # a third of the sampling noise
            break
        error = float(np.linalg.norm(excess))
        band = int(np.clip(error / np.sqrt(count), 10, 200))
        seen = best.copy(), second.copy(), margin.copy()
        for width in (band, 8 * band, max(band // 4, 4)):
            step = np.linalg.lstsq(_border_density(*seen, count, width), -excess, rcond=1e-12)[0]
            share = 1.0
            while share > 1e-2:
                trial = excess_of(weights + share * step)
                if trial.min() + wanted >= least and np.linalg.norm(trial) <= (1.0 - 0.5 * share) * error:
                    break
                share *= 0.5
            else:
                continue
            weights, excess = weights + share * step, trial
            break
        else:
            break  # what is left is rows that share a site
    return weights


def _border_density(
    best: NDArray[np.int32], second: NDArray[np.int32], margin: NDArray[np.float64], count: int, band: int
) -> NDArray[np.float64]:
    """Return how counts change with weights, (P, P): rows per power among the ``band`` rows next to each border."""
    low, high = np.minimum(best, second).astype(np.int64), np.maximum(best, second).astype(np.int64)
    order = np.lexsort((margin, low * count + high))
    key = (low * count + high)[order]
    pairs, first, size = np.unique(key, return_index=True, return_counts=True)
    taken = np.minimum(size, band)
    # rows on the border itself make it as dense as can be
    width = np.maximum(margin[order][first + taken - 1], 1e-290 * taken)
    density = np.zeros((count, count))
    density[pairs // count, pairs % count] = taken / width
    density += density.T
    np.fill_diagonal(density, 0.0)
    laplacian: NDArray[np.float64] = np.diag(density.sum(axis=1)) - density
    return laplacian
