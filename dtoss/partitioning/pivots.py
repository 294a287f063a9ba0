"""Choosing pivots: the dissertation's spread sets, and weighted pivots that give every partition the same load."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import operand
from dtoss.geometry.hilbert import curve_order
from dtoss.partitioning.balance import balancing_weights
from dtoss.partitioning.lowering import lowered_weights
from dtoss.partitioning.regions import Regions

OBJECTS_PER_PARTITION = 250_000
FEW = 512
"""Pivots of which each pair is measured."""
MOST_BY_FLOW = 320
"""Pivots that a flow balances. Of more it lists too few borders: where a third of all rows are in one city, it made a
region of 79 times the mean among 512, and of 349 among 1,000."""

SAMPLE_PER_PARTITION = 6_000
"""Rows sampled for each partition: the sampling noise of a partition's size is then about 1.3 %."""
MOST_SAMPLED = 6_000_000
"""Rows sampled for all partitions together, which come to one process: 1,000 partitions have 6,000 each."""
BLUR = 5e-12
"""How far rounding may move a border, as a share of the largest coordinate, for pivots to have weights at all."""
SPLIT_PER_PARTITION = 1_000
"""Rows for each partition that place the balanced pivots; their weights balance all rows."""


def sampled_one_in(rows: int, partitions: int) -> int:
    """Return of how many rows one is sampled: few enough for one process, however many partitions there are."""
    return max(rows // (SAMPLE_PER_PARTITION * partitions), -(-rows // MOST_SAMPLED), 1)


def choose_pivots(
    sample: NDArray[np.float64],
    partitions: int,
    *,
    method: str = "balanced",
    seed: int = 0,
    candidates: int = 250,
) -> Regions:
    """Return the pivots of at most ``partitions`` regions, chosen from a sample of the objects.

    ``sample``: (n, dimension) vectors in any order; the result does not depend on it; ``partitions``: wanted; there are
    fewer where the sample has fewer distinct vectors, and one at least; ``method``: "balanced", or "spread"
    (dissertation, section 3.1.1): of ``candidates`` random sets of P distinct sites each, the one with the largest sum
    of pairwise distances. (The dissertation draws objects, and counts S = ``candidates * P`` of them.); ``candidates``:
    random sets that "spread" chooses from.

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
    sample = operand(sample, dtype=np.float64)
    sample = sample[curve_order(sample, np.zeros(len(sample), np.int64))]
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
    thin = np.ascontiguousarray(sample[:: max(len(sample) // (SPLIT_PER_PARTITION * partitions), 1)])
    group = np.zeros(len(thin), np.int32)
    _split(thin, np.arange(len(thin)), 0, partitions, group)
    pivots = _distinct(_medians(thin, group, partitions), sample)
    if partitions == 1:
        return Regions(pivots, np.zeros(1))
    weights = (balancing_weights if partitions <= MOST_BY_FLOW else lowered_weights)(sample, pivots)
    weights -= weights.max()
    # a power is a squared distance less a weight: a large weight rounds the place of the nearest borders away
    nearest = _nearest_two(pivots)
    blur = np.finfo(np.float64).eps * np.abs(weights).max() / (2.0 * nearest)
    if blur > BLUR * np.abs(pivots).max():
        weights = np.zeros(partitions)
    return Regions(pivots, weights)


def _nearest_two(pivots: NDArray[np.float64]) -> float:
    """Return how far the two nearest pivots are from each other."""
    if len(pivots) > FEW:
        from scipy.spatial import cKDTree

        return float(cKDTree(pivots).query(pivots, 2)[0][:, 1].min())
    # to load a tree takes an eighth of a second
    squares = ((pivots[:, None] - pivots[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return float(np.sqrt(squares.min()))


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
