"""Which cells are globally exact: those whose influence region lies inside what their partition knows.

In partition i a vertex v of a cell with radius r = |v - o| is safe if ``max_j f_j(v) + r <= lambda_i``: no object
that i does not know can be nearer to v than o is. All vertices safe: the cell is exact (dissertation, section 3.1.2,
"fixing").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import shapes
from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import place_at
from dtoss.geometry.rounding import CERTIFY
from dtoss.partitioning.regions import Regions, fences_of, furthest_past_border
from dtoss.row_runs import offsets, runs


@kernel("void(float64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], int64, float64[::1])")
def _furthest_past(points, pivots, weights, order, distance, region, out):
    n, dimension = points.shape
    fences = fences_of(pivots, weights, order, distance)
    v = pointer(points)
    for r in range(n):
        out[r] = furthest_past_border(place_at(v, r, dimension), fences, region)


def furthest_past(points: NDArray[np.float64], regions: Regions, region: int) -> NDArray[np.float64]:
    """Return ``max_j f_j(x)``, float64 (n,), seen from a region: negative inside it; -inf where it is the only one.

    At least the true maximum, by no more than the tolerance of the borders.
    """
    points = operand(points)
    out = np.empty(len(points))
    _furthest_past(points, *regions.arrays, region, out)
    return out


def needed_reach(
    sites: NDArray[np.float64],
    first: NDArray[np.int64],
    others: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
    regions: Regions,
    region: int,
    *,
    shrink: float = 1.0,
) -> NDArray[np.float64]:
    """Return for each cell the lambda from which on it is certified: ``max over vertices of max_j f_j(v) + r``, (m,).

    ``sites``: (m, dimension). The sites of the cells; ``first``, ``others``: the neighbours of site i are
    ``others[first[i]:first[i + 1]]``; ``bounds``: of a planar diagram; None on the sphere.
    """
    cells = shapes(sites, first, others, bounds)
    size = np.diff(cells.first)
    owner = np.repeat(np.arange(len(sites)), size)
    points = cells.vertices
    if shrink != 1.0:
        points = sites[owner] + shrink * (points - sites[owner])
        if points.shape[1] == 3:
            points = points / np.linalg.norm(points, axis=1)[:, None]
    reach = np.sqrt(((points - sites[owner]) ** 2).sum(axis=1))
    past = furthest_past(points, regions, region) + reach + CERTIFY * (reach + np.abs(points).max(axis=1, initial=0.0))
    out = np.full(len(sites), -np.inf if len(regions) == 1 else np.inf)
    held = size > 0
    if held.any():
        out[held] = np.maximum.reduceat(past, cells.first[:-1][held])
    return out


def uncertified(
    sites: NDArray[np.float64],
    radius: NDArray[np.float64],
    first: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    owned: NDArray[np.bool_],
    bounds: NDArray[np.float64] | None,
    regions: Regions,
    region: int,
    reach: float,
) -> NDArray[np.int32]:
    """Return the owned sites of a partition, ascending, whose cells could be changed by objects it does not know.

    Most sites pass by ``max_j f_j(o) + 2 r <= lambda``; only the others' cells are cut again to look at each vertex.
    Cost O(n).
    """
    if len(regions) == 1 or not owned.any():
        return np.zeros(0, np.int32)
    mine = np.flatnonzero(owned)
    tolerance = CERTIFY * (radius[mine] + np.abs(sites[mine]).max(axis=1))
    doubtful = mine[furthest_past(sites[mine], regions, region) + 2.0 * radius[mine] + tolerance > reach]
    if len(doubtful) == 0:
        return doubtful.astype(np.int32)
    count = (first[doubtful + 1] - first[doubtful]).astype(np.int64)
    near = sites[neighbours[runs(first[doubtful], count)]]
    wanted = needed_reach(sites[doubtful], offsets(count), near, bounds, regions, region)
    return doubtful[wanted > reach].astype(np.int32)
