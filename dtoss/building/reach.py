"""How far past its borders each partition should know the objects: lambda, chosen on the sample.

Copies cost room in files and in the shuffle; cells that are not certified cost a second look. Exactness never depends
on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.building.certificate import furthest_past, needed_reach
from dtoss.cells.voronoi import voronoi
from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import place_at
from dtoss.geometry.hilbert import curve_order
from dtoss.partitioning.regions import Regions, fences_of, past_border, pivot_gap2
from dtoss.row_runs import offsets, runs

UNCERTIFIED_COST = 4.0
"""What a cell that is not certified costs, in copies."""
MOST_COPIED = 0.10
"""The share of the objects that is copied at the most."""
ROWS_PER_PARTITION = 2_000
"""Rows of the sample that lambda is chosen by."""
STEPS = 64
"""Values of lambda tried for a partition."""


def choose_reach(
    sample: NDArray[np.float64],
    objects: int,
    regions: Regions,
    bounds: NDArray[np.float64] | None = None,
    *,
    most_copied: float = MOST_COPIED,
) -> NDArray[np.float64]:
    """Return lambda of each partition, float64 (P,): a distance in the plane, a chord on the sphere.

    For each receiving partition the value with the least ``copies + 4 x uncertified``, both estimated from a sample:
    its cells are taken smaller by the square root of its share. Where more than ``most_copied`` of the objects would
    be copied, all are made smaller by one factor. Infinity where there is one partition.

    ``sample``: (n, dimension) vectors in any order; ``most_copied``: the share of the objects that is copied at the
    most.
    """
    count = len(regions)
    if count == 1:
        return np.full(1, np.inf)
    if len(sample) == 0:
        return np.zeros(count)
    sample = operand(sample, dtype=np.float64)
    sample = sample[curve_order(sample, np.zeros(len(sample), np.int64))]
    # rows on one site: as objects grow, sites grow more slowly
    share_of_sites = float(_distinct(sample).mean())
    sample = np.ascontiguousarray(sample[:: max(len(sample) // (ROWS_PER_PARTITION * count), 1)])
    sites = np.ascontiguousarray(sample[_distinct(sample)])
    share = min(len(sample) / max(objects, 1), 1.0)
    shrink = min(float(np.sqrt(share / max(share_of_sites, 1e-3))), 1.0) if share < 1.0 else 1.0
    diagram = voronoi(sites, bounds)
    home = regions.nearest(sites)
    first = diagram.first.astype(np.int64)
    values, left = np.zeros((count, STEPS + 1)), np.zeros((count, STEPS + 1))
    by_home = np.split(np.argsort(home, kind="stable"), np.cumsum(np.bincount(home, minlength=count))[:-1])
    for j, mine in enumerate(by_home):
        inner = furthest_past(sites[mine], regions, j)
        doubtful = mine[inner + 2.0 * shrink * diagram.radius[mine] > 0.0]
        if len(doubtful) == 0:
            continue
        counts = first[doubtful + 1] - first[doubtful]
        near = sites[diagram.neighbours[runs(first[doubtful], counts)]]
        wanted = needed_reach(sites[doubtful], offsets(counts), near, bounds, regions, j, shrink=shrink)
        wanted = np.sort(wanted[wanted > 0.0])
        some = wanted[np.isfinite(wanted)]
        if len(some):
            values[j, 1:] = some[np.linspace(0, len(some) - 1, STEPS).astype(int)]
        left[j] = len(wanted) - np.searchsorted(wanted, values[j], side="right")
    copies = _copies(sample, regions, values) / share
    best = np.argmin(copies + UNCERTIFIED_COST * left / share, axis=1)
    reach = values[np.arange(count), best]
    return _within(reach, list(zip(values, copies, strict=True)), most_copied * objects)


def _distinct(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which of some sorted rows are the first of their kind."""
    return np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)])


def _copies(sample: NDArray[np.float64], regions: Regions, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many rows each region would know of others' for each value of its lambda, float64 (P, STEPS + 1)."""
    counts = np.zeros((len(regions), values.shape[1] + 1), np.int64)
    _count_copies(sample, regions.nearest(sample), *regions.arrays, values, counts)
    return np.cumsum(counts[:, :-1], axis=1).astype(np.float64)


@kernel(
    "void(float64[:, ::1], int32[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "float64[:, ::1], int64[:, ::1])"
)
def _count_copies(sample, home, pivots, weights, order, distance, values, counts):
    """Count each row of another region in the first of the ascending values that reaches it."""
    dimension, steps = sample.shape[1], values.shape[1]
    fences = fences_of(pivots, weights, order, distance)
    listed = fences.listed
    v = pointer(sample)
    furthest = 0.0
    for j in range(values.shape[0]):
        furthest = max(furthest, values[j, steps - 1])
    for r in range(sample.shape[0]):
        i = int(home[r])
        place = place_at(v, r, dimension)
        gap2 = pivot_gap2(place, fences, i)
        d = np.sqrt(gap2)
        for t in range(i * listed, (i + 1) * listed):
            if fences.border[t] > d + furthest:
                break
            j = int(fences.order[t])
            if fences.border[t] > d + values[j, steps - 1]:
                continue
            margin = -past_border(place, fences, i, j, gap2)
            if margin > values[j, steps - 1]:
                continue
            low, high = 0, steps - 1
            while low < high:
                middle = (low + high) // 2
                if values[j, middle] >= margin:
                    high = middle
                else:
                    low = middle + 1
            counts[j, low] += 1


def _within(
    reach: NDArray[np.float64],
    tried: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    allowed: float,
) -> NDArray[np.float64]:
    """Shrink all values by one factor until the copies are as few as allowed."""

    def copies(factor: float) -> float:
        total = 0.0
        for value, (values, counts) in zip(reach * factor, tried, strict=True):
            total += float(np.interp(value, values, counts))
        return total

    if copies(1.0) <= allowed:
        return reach
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if copies(middle) <= allowed else (low, middle)
    return reach * low
