"""The Voronoi diagram of one set of sites: neighbours, areas and influence radii, by our kernel or by scipy's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import LEAF
from dtoss.cells.cell_arguments import workspace
from dtoss.cells.cell_kernel import DONE, EARLIER, MORE_NEIGHBOURS, MORE_VERTICES, cut_cells
from dtoss.cells.cell_polygons import CellPolygons, shapes
from dtoss.cells.diagram import PIECE, Diagram, symmetric
from dtoss.cells.half_planes import FRAME
from dtoss.cells.neighbour_lists import with_lists
from dtoss.cells.oriented_boxes import NO_LINES
from dtoss.cells.rim import Search, rim_cells, search_of
from dtoss.compiled.kernel import kernel, operand
from dtoss.row_runs import offsets, runs

ROOM = 7
"""Room for neighbours, a site: six are enough where rounding makes no edges."""


def voronoi(
    sites: NDArray[np.float64],
    bounds: NDArray[np.float64] | None = None,
    *,
    wanted: NDArray[np.bool_] | None = None,
    threads: int = 1,
    engine: str = "kernel",
    piece: int = PIECE,
    room: int = ROOM,
    search: Search | None = None,
) -> Diagram:
    """Return the Voronoi diagram of distinct sites in curve order.

    ``sites``: (n, 2) in the plane or (n, 3) unit vectors on the sphere; distinct; any order is correct, curve order is
    fast; ``bounds``: plane only: float64 (4,) xmin, ymin, xmax, ymax that hold every site; cells are clipped to it;
    ``wanted``: only the cells of these sites are made, the others stay empty; all when None; ``threads``: the work is
    split among so many threads; the result is the same for any number; ``engine``: "kernel", or "scipy" for
    ``scipy.spatial.Voronoi`` and ``SphericalVoronoi``; ``room``: neighbours of a site that there is room for at first;
    ``search``: what finds these sites, where it is made already.

    Dissertation, sections 3.1.2; cost O(n). No site: an empty diagram. One site: the whole bounds, or the whole sphere.
    """
    n, dimension = sites.shape
    if dimension not in (2, 3):
        raise ValueError(f"sites have {dimension} coordinates; the plane takes 2, the sphere 3")
    if n > 300_000_000:
        raise ValueError(f"{n} sites are more than one diagram holds (300,000,000): use more partitions")
    if engine not in ("kernel", "scipy"):
        raise ValueError(f"engine {engine!r} is not known: kernel or scipy")
    if dimension == 2:
        if bounds is None:
            raise ValueError("bounds are missing: a planar diagram is clipped to them")
        bounds = operand(bounds, dtype=np.float64)
    else:
        bounds = np.zeros(4)
    sites = operand(sites, dtype=np.float64)
    if n == 0:
        empty, none = np.zeros(0), np.zeros(0, np.bool_)
        return Diagram(np.zeros(1, np.int32), np.zeros(0, np.int32), empty, empty, none, none)
    if engine == "scipy":
        return qhull_diagram(sites, bounds, wanted)
    search = search or search_of(sites)
    flags = np.zeros(0, np.uint8) if wanted is None else operand(wanted, dtype=np.uint8)
    made = _Made(np.empty(n, np.int32), np.empty(n), np.empty(n), *(np.empty(n, np.uint8) for _ in range(3)))
    begins = range(0, n, piece)
    shared = np.empty(room * n + 4096, np.int32)

    def cut_piece(begin: int) -> NDArray[np.int32]:
        end = min(begin + piece, n)
        own = shared[room * begin : room * end if end < n else len(shared)]
        return _cut_piece(sites, search, bounds, flags, begin, end, made, own)

    with ThreadPoolExecutor(threads) if threads > 1 and len(begins) > 1 else nullcontext() as pool:
        over = map if pool is None else pool.map
        lists = list(over(cut_piece, begins))
        first, neighbours = offsets(made.degree, np.int32), _join(lists, shared, room * piece)
        if dimension == 3 and made.rim.any():
            first, neighbours = _with_rim_cells(sites, search, first, neighbours, made)
        if wanted is None:
            first, neighbours = symmetric(first, neighbours, made.doubt, neighbours.base, over, piece)
    return Diagram(first, neighbours, made.area, made.radius, made.rim.view(np.bool_), made.compact.view(np.bool_))


@dataclass(frozen=True, slots=True)
class _Made:
    """What the kernel says of each site besides its neighbours; ``doubt``: one end alone may know of an edge."""

    degree: NDArray[np.int32]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    rim: NDArray[np.uint8]
    doubt: NDArray[np.uint8]
    compact: NDArray[np.uint8]


def _cut_piece(
    sites: NDArray[np.float64],
    search: Search,
    bounds: NDArray[np.float64],
    wanted: NDArray[np.uint8],
    begin: int,
    end: int,
    made: _Made,
    neighbours: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Cut the cells of ``begin:end``; fill their rows of ``made`` and return their neighbours, in the room for them.

    Where it is too small they are in an array of their own.
    """
    size = end - begin
    capacity = 256
    degree, rim, doubt = made.degree[begin:end], made.rim[begin:end], made.doubt[begin:end]
    earlier, earlier_count = np.empty(EARLIER * size, np.int32), np.empty(size, np.uint8)
    settled = np.empty(-(-end // LEAF) - begin // LEAF, np.uint8)
    lines, progress = NO_LINES, np.zeros(3, np.int64)
    while True:
        real, whole = workspace(capacity)
        status = cut_cells(
            sites,
            search.columns,
            search.children,
            search.tree.starts,
            search.tree.low,
            search.tree.high,
            bounds,
            begin,
            end,
            wanted,
            real,
            whole,
            earlier,
            earlier_count,
            settled,
            degree,
            neighbours,
            made.area[begin:end],
            made.radius[begin:end],
            rim,
            doubt,
            lines.columns,
            lines.children,
            lines.boxes,
            lines.order,
            progress,
        )
        if status == DONE:
            made.compact[begin:end] = np.unpackbits(settled, bitorder="little")[begin % LEAF :][:size]
            return neighbours[: progress[1]]
        if status == MORE_VERTICES:
            capacity *= 4
        elif status == MORE_NEIGHBOURS:
            neighbours = np.concatenate([neighbours, np.empty_like(neighbours)])
        else:
            lines = search.oriented.lines()


@kernel("void(int32[::1], int64[::1], int64[::1])")
def _close_up(room, starts, counts):
    """Move runs of entries to the front, one after another."""
    place = 0
    for r in range(starts.size):
        for t in range(starts[r], starts[r] + counts[r]):
            room[place] = room[t]
            place += 1


def _join(lists: list[NDArray[np.int32]], room: NDArray[np.int32], apart: int) -> NDArray[np.int32]:
    """Return the lists of all pieces one after another: in the room they share, so far apart, if they do."""
    if any(some.base is not room for some in lists):
        return np.concatenate(lists)
    counts = np.array([len(some) for some in lists], np.int64)
    _close_up(room, apart * np.arange(len(lists)), counts)
    return room[: counts.sum()]


def _with_rim_cells(
    sites: NDArray[np.float64],
    search: Search,
    first: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    made: _Made,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Put the cells of rim sites, cut in 3-D, in the place of their clipped ones."""
    which = np.flatnonzero(made.rim)
    counts = first[which + 1] - first[which]
    first_known = offsets(counts)
    known = neighbours[runs(first[which], counts)]
    cells = rim_cells(sites, search, which, first_known, known)
    made.area[which], made.radius[which], made.doubt[which] = cells.area, cells.radius, True
    return with_lists(first, neighbours, which, cells.degree, cells.neighbours)


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
