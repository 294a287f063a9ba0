"""The second engine: scipy's Qhull finds the graph, our polygons give areas and radii."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons, shapes
from dtoss.cells.diagram import Diagram, symmetric
from dtoss.cells.half_planes import FRAME

THIN_HULL = 1e-4
"""Thickness of a hull, relative to its length, below which Qhull's edges are not to be trusted."""


def qhull_diagram(
    sites: NDArray[np.float64], bounds: NDArray[np.float64], wanted: NDArray[np.bool_] | None = None
) -> Diagram:
    """Return the same diagram as the kernel, from Qhull's Delaunay triangulation (plane) or convex hull (sphere).

    Qhull gets the sites less their mean: on uncentred metres it merges cells in silence. Sites on one line or circle
    have no triangulation; each is then a neighbour of the next ones along it.
    """
    n, dimension = sites.shape
    edges = _edges(sites)
    used = np.zeros(n, np.bool_)
    used[edges.ravel()] = True
    if n > 1 and not used.all():
        lost = int((~used).sum())
        raise ValueError(
            f"scipy's Qhull lost {lost} of {n} sites that lie within its rounding of others: use engine='kernel'"
        )
    both = np.concatenate([edges, edges[:, ::-1]]) if len(edges) else np.zeros((0, 2), np.int64)
    both = np.unique(both, axis=0)
    first = np.searchsorted(both[:, 0], np.arange(n + 1)).astype(np.int64)
    cells = shapes(sites, first, sites[both[:, 1]], bounds if dimension == 2 else None)
    if dimension == 3 and abs(cells.area.sum() / (4.0 * np.pi) - 1.0) > 1e-9:
        raise ValueError("scipy's Qhull lost edges between sites that lie within its rounding: use engine='kernel'")
    real = cells.owner >= 0
    owner_cell = np.repeat(np.arange(n), np.diff(cells.first))
    rim = _rim(cells, n) if dimension == 3 else np.bincount(owner_cell[~real], minlength=n) > 0
    listed = np.unique(np.stack([owner_cell[real], both[cells.owner[real], 1]], axis=1), axis=0)
    if wanted is not None:
        listed = listed[wanted[listed[:, 0]]]
    begin = np.searchsorted(listed[:, 0], np.arange(n + 1)).astype(np.int32)
    neighbours = listed[:, 1].astype(np.int32)
    if wanted is None:
        begin, neighbours = symmetric(begin, neighbours)
    return Diagram(begin, neighbours, cells.area, cells.radius, rim, np.zeros(n, np.bool_))


def _rim(cells: CellPolygons, n: int) -> NDArray[np.bool_]:
    # a cell whose furthest vertex is beyond the frame's corner was cut in 3-D, and none nearer than its side
    reach = np.sqrt(2.0 - 2.0 / np.sqrt(1.0 + FRAME * FRAME))
    return (cells.radius >= reach) | (np.diff(cells.first) == 0)[:n]


def _edges(sites: NDArray[np.float64]) -> NDArray[np.int64]:
    from scipy.spatial import ConvexHull, Delaunay, QhullError  # half a second that a server has no use for

    n, dimension = sites.shape
    if n == 1:
        return np.zeros((0, 2), np.int64)
    if n <= dimension + 1:
        return np.stack(np.triu_indices(n, 1), axis=1)
    outer = np.zeros((0, 2), np.int64)
    try:
        if dimension == 2:
            simplices = Delaunay(sites - sites.mean(axis=0)).simplices
        elif (flat := _stereographic(sites)) is not None:
            plane = Delaunay(flat)
            simplices = plane.simplices
            rim = np.unique(plane.convex_hull)
            outer = np.stack([rim[half] for half in np.triu_indices(len(rim), 1)], axis=1)
        else:
            simplices = ConvexHull(sites).simplices
            if _thin(sites):
                raise ValueError(
                    "scipy's Qhull lost edges: the hull of the sites is a needle or a disc: use engine='kernel'"
                )
    except QhullError:
        return _edges_in_row(sites)
    pairs = np.concatenate([simplices[:, [0, 1]], simplices[:, [1, 2]], simplices[:, [2, 0]], outer])
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64)


def _thin(sites: NDArray[np.float64]) -> bool:
    """Return whether the hull of vectors is so thin (two antipodal towns) that Qhull's rounding bends its facets."""
    axes = np.linalg.svd(sites - sites.mean(axis=0), compute_uv=False)
    return bool(axes[2] < THIN_HULL * axes[0])


def _stereographic(sites: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return sites that lie in one cap as a plane in which circles stay circles, or None.

    The hull of a town's sites is flatter than Qhull's rounding; in this plane their triangulation is the same but for
    edges between sites on its rim.
    """
    centre = sites.mean(axis=0)
    length = np.linalg.norm(centre)
    if length < 1e-3:
        return None
    centre /= length
    if (sites @ centre).min() < 0.2:
        return None
    e1, e2 = _tangent(centre)
    away = sites - centre
    return np.stack([away @ e1, away @ e2], axis=1) * (2.0 / (1.0 + sites @ centre))[:, None]


def _tangent(normal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    other = np.zeros(3)
    other[int(np.argmin(np.abs(normal)))] = 1.0
    e1 = np.cross(other, normal)
    e1 /= np.linalg.norm(e1)
    return e1, np.cross(normal, e1)


def _edges_in_row(sites: NDArray[np.float64]) -> NDArray[np.int64]:
    """Edges of sites on one line of the plane, or on one circle of the sphere."""
    dimension = sites.shape[1]
    centred = sites - sites.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    if dimension == 2:
        order = np.argsort(centred @ axes[0], kind="stable")
        return np.stack([order[:-1], order[1:]], axis=1)
    order = np.argsort(np.arctan2(centred @ axes[1], centred @ axes[0]), kind="stable")
    return np.stack([order, np.roll(order, -1)], axis=1)
