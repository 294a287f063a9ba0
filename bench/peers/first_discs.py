"""Searches for the k nearest that begin by the dissertation's ed(k) (3.3.2, after Tao et al. 2004), beside our own.

All are made of our kernels on an index of one partition, a place after another along the curve, and write no answers.
By ed(k) only the first disc is another one than ours. As written there are many discs, each a step wider.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import dtoss
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import bits_float, pointer
from dtoss.geometry.distance import place_at
from dtoss.partitioning.regions import fences_of
from dtoss.queries.kernels.address_table import row_of
from dtoss.queries.kernels.disc_search import COUNTS, PLACES, search
from dtoss.queries.kernels.knn_kernel import OUTSIDE, first_disc
from dtoss.queries.kernels.nearest_disc import at_least, expand, site_of
from dtoss.queries.kernels.query_arguments import FirstDisc, Nearest, Query, Ranged, Trail, scratch_of
from dtoss.queries.kernels.walk import descend
from dtoss.queries.open_snapshot import addresses_of_runs, arguments_of, keys_of, starts_of
from dtoss.queries.workspace import workspace

Floats = NDArray[np.float64]
ALONE, IN_A_BATCH, BY_COUNT = range(3)
"""The first disc by the block to which the hierarchy leads, as one place by itself has it; by that where a batch is
planned to begin, and the place before; by ed(k)."""


def expected_distance(objects: Floats, k: int) -> float:
    """Return ed(k): how far the k-th object is, were all of them uniform in their bounding box, as in a square."""
    side = np.sqrt(np.ptp(objects, axis=0).prod())
    return float(2 / np.sqrt(np.pi) * (1 - np.sqrt(1 - np.sqrt(k / len(objects)))) * side)


@kernel(
    "int64(int64[:, ::1], float64[::1], float64[:, ::1], int64[::1], int64, int64, float64, int64[::1], int32[::1],"
    " float64[::1], uint8[::1], float64[::1], float64[::1], int32[::1])"
)
def search_each(rows, bounds, queries, blocks, k, way, square, places, visits, gaps, seen, distance, first, noted):
    """Search the k nearest of each place, and write how wide it began, squared; return how many had room enough."""
    row, box = row_of(pointer(rows), 0), pointer(bounds)
    scratch = scratch_of(places, visits, gaps, seen, distance)
    trail = Trail(-1, -1.0, 0, 1.0, pointer(noted))
    for r in range(len(queries)):
        place = place_at(pointer(queries), r, queries.shape[1])
        block = descend(row, place) if way == ALONE else blocks[r]
        disc, nearest, dense = FirstDisc(block, square, 0.0), Nearest(-1, 0.0, 0.0), 1.0
        if way != BY_COUNT:
            disc, nearest, dense = first_disc(row, place, k, block, Nearest(trail.site, 0.0, 0.0), trail)
        listed, _, _, last = expand(row, place, box, k, disc, np.inf, scratch)
        if listed < 0:
            return r
        first[r] = disc.square
        if way == IN_A_BATCH:
            near = at_least(bits_float(scratch.ordered[0]))
            known = min(listed, k) if near > OUTSIDE * last else 0
            for t in range(known):
                noted[t] = site_of(scratch.ordered[t], scratch.queue)
            trail = Trail(nearest.site, last, known, dense, trail.sites)
    return len(queries)


@kernel(
    "int64(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[::1],"
    " float64[::1], int64[::1], float64[:, ::1], int64[::1], int64, float64, int64[::1], int32[::1], float64[::1],"
    " uint8[::1], float64[::1], int64[::1])"
)
def search_wider(rows, furthest, pivots, weights, order, border, reach, bounds, runs, queries, blocks, k, radius,
                 places, visits, gaps, seen, distance, discs):  # fmt: skip
    """Count in discs, each ``radius`` wider, until one holds k, and list that; return how many had room enough."""
    fences = fences_of(pivots, weights, order, border)
    snapshot = Ranged(pointer(rows), fences, pointer(reach), pointer(furthest), pointer(bounds), pointer(runs))
    scratch = scratch_of(places, visits, gaps, seen, distance)
    for r in range(len(queries)):
        place, found, discs[r] = place_at(pointer(queries), r, queries.shape[1]), 0, 0
        while found < k:
            discs[r] += 1
            far = discs[r] * radius
            query = Query(r, place, far, far * far, np.inf)
            found = search(snapshot, 0, query, blocks[r], False, COUNTS, 0, scratch)
        if search(snapshot, 0, query, blocks[r], False, PLACES, 0, scratch) < 0:
            return r
    return len(queries)


def first_radii(index: dtoss.Index, at: Floats, k: int, way: int, radius: float) -> Floats:
    """Search the k nearest of places, and return the radius that each begins with; ``radius`` is that by ed(k)."""
    opened, table = index.engine.opened, index.engine.opened.parts.table
    queries, blocks = _starts(index, at)
    first, noted = np.empty(len(at)), np.empty(k, np.int32)
    while search_each(
        table.rows, opened.box, queries, blocks, k, way, radius * radius, *workspace.arrays, first, noted
    ) < len(at):  # fmt: skip
        workspace.grow()
    return np.sqrt(first)


def discs_asked(index: dtoss.Index, at: Floats, k: int, radius: float) -> NDArray[np.int64]:
    """Search the k nearest of places in discs, each ``radius`` wider than the one before; return how many these are."""
    opened, table = index.engine.opened, index.engine.opened.parts.table
    queries, blocks = _starts(index, at)
    discs, arguments = np.empty(len(at), np.int64), (*arguments_of(opened, table), addresses_of_runs(table))
    while search_wider(*arguments, queries, blocks, k, radius, *workspace.arrays, discs) < len(at):
        workspace.grow()
    return discs


def _starts(index: dtoss.Index, at: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return places as vectors, and a block near each, as a batch is planned; there is room to work in."""
    opened, queries = index.engine.opened, np.ascontiguousarray(index.space.vectors(at))
    workspace.fit(opened.parts.table)
    keys, all_of_them = keys_of(opened, queries), np.zeros(0, np.int32)
    return queries, starts_of(opened, opened.parts.table, queries, keys, all_of_them)[1].astype(np.int64)
