"""How far past its borders each partition should know the objects: lambda, chosen on the sample.

Copies cost room in files and in the shuffle; cells that are not certified cost a second look. Exactness never depends
on it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells import voronoi
from dtoss.certificate import furthest_past, needed_reach
from dtoss.curve import curve_keys, radix_order
from dtoss.regions import Regions

UNCERTIFIED_COST = 4.0
"""What a cell that is not certified costs, in copies."""
MOST_COPIED = 0.10
"""The share of the objects that is copied at the most."""
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

    Parameters
    ----------
    sample : (n, dimension) vectors in any order.
    objects : how many the sample stands for.
    bounds : of a planar diagram.
    """
    count = len(regions)
    if count == 1:
        return np.full(1, np.inf)
    if len(sample) == 0:
        return np.zeros(count)
    sample = np.ascontiguousarray(sample[radix_order(curve_keys(sample))])
    keep = np.concatenate([[True], (sample[1:] != sample[:-1]).any(axis=1)])
    sites = sample[keep]
    # rows on one site: as objects grow, sites grow more slowly
    _, share_of_sites = len(sites), len(sites) / len(sample)
    share = min(len(sample) / max(objects, 1), 1.0)
    shrink = float(np.sqrt(share / max(share_of_sites, 1e-3))) if share < 1.0 else 1.0
    shrink = min(shrink, 1.0)
    diagram = voronoi(sites, bounds)
    home = regions.nearest(sites)
    objects_per_row = 1.0 / share
    row_home = regions.nearest(sample)
    first = diagram.first.astype(np.int64)
    reach = np.zeros(count)
    tried: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    # distance of every sampled row past the borders of the other partitions: rows near a border only
    past_of = _past(sample, row_home, regions)
    for j in range(count):
        mine = np.flatnonzero(home == j)
        margin = past_of[j]
        if len(mine) == 0:
            tried.append((np.zeros(1), np.zeros(1)))
            continue
        inner = furthest_past(sites[mine], regions, j)
        doubtful = mine[inner + 2.0 * shrink * diagram.radius[mine] > 0.0]
        if len(doubtful) == 0:
            tried.append((np.zeros(1), np.zeros(1)))
            continue
        counts = first[doubtful + 1] - first[doubtful]
        start = np.concatenate([[0], np.cumsum(counts)])
        at = np.arange(start[-1]) - np.repeat(start[:-1], counts) + np.repeat(first[doubtful], counts)
        wanted = needed_reach(sites[doubtful], start, sites[diagram.neighbours[at]], bounds, regions, j, shrink=shrink)
        wanted = np.sort(wanted[wanted > 0.0])
        if len(wanted) == 0:
            tried.append((np.zeros(1), np.zeros(1)))
            continue
        values = np.concatenate([[0.0], np.unique(wanted[np.linspace(0, len(wanted) - 1, STEPS).astype(int)])])
        values = values[np.isfinite(values)]
        copies = np.searchsorted(margin, values, side="right") * objects_per_row
        left = (len(wanted) - np.searchsorted(wanted, values, side="right")) * objects_per_row
        best = int(np.argmin(copies + UNCERTIFIED_COST * left))
        reach[j] = values[best]
        tried.append((values, copies))
    return _within(reach, tried, most_copied * objects)


def _past(sample: NDArray[np.float64], home: NDArray[np.int32], regions: Regions) -> list[NDArray[np.float64]]:
    """Return for each partition j the ascending ``-f_j(o)`` of the rows of all other partitions."""
    out: list[list[NDArray[np.float64]]] = [[] for _ in range(len(regions))]
    order = np.argsort(home, kind="stable")
    first = np.searchsorted(home[order], np.arange(len(regions) + 1))
    for i in range(len(regions)):
        rows = sample[order[first[i] : first[i + 1]]]
        if len(rows) == 0:
            continue
        past = -regions.past(rows, i)
        for j in range(len(regions)):
            if j != i:
                out[j].append(past[:, j])
    return [np.sort(np.concatenate(columns)) if columns else np.zeros(0) for columns in out]


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
