"""Cells of the sphere that reach far from their site: the calls of the kernel that cuts them in 3-D.

Cells of the sphere that reach far from their site, cut in 3-D.

The gnomonic picture of a cell ends before 90 degrees. A cell that reaches 80 degrees from its site is cut again with
unit vectors as vertices: start with the hemisphere against its nearest other site, cut by the planes of the other
sites. Their normal is the same line as in the tangent plane, ``dx * e1 + dy * e2 - h * s``, so both pictures agree
where they overlap.

What cells are cut from: the sites in a tree of boxes, and a tree along lines for long cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import Boxes, box_tree, child_columns, leaf_columns
from dtoss.cells.cell_arguments import STACK, RimWorkpiece, Tree, Waiting
from dtoss.cells.cell_kernel import DONE, MORE_NEIGHBOURS, MORE_VERTICES, THIN
from dtoss.cells.half_planes import offset_of, tangent
from dtoss.cells.oriented_boxes import NEAREST, NO_LINES, Oriented
from dtoss.cells.rim_cuts import SPREAD, TOO_MANY, Chosen, cut_by_chosen, cut_from_rim_tree
from dtoss.cells.rim_polygon import CORNER, OWNER, X, cut_rim_by, hemisphere, plane_between, solid_angle
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.pointers import part_of, pointer, shift
from dtoss.geometry.distance import SPHERE, place_at


@dataclass(frozen=True, slots=True)
class RimCells:
    """Cells of the sphere cut in 3-D, as in :class:`.diagram.Diagram`.

    Corners are unit vectors with their edges' owners.
    ``visits`` counts the nodes of the tree that were looked into for all of them.
    """

    degree: NDArray[np.int32]
    neighbours: NDArray[np.int32]
    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    corners: NDArray[np.float64]
    owner: NDArray[np.int64]
    corner_count: NDArray[np.int64]
    visits: int


def rim_cells(
    sites: NDArray[np.float64],
    search: Search,
    which: NDArray[np.int64],
    first_known: NDArray[np.int64],
    known: NDArray[np.int32],
) -> RimCells:
    """Return the spherical cells of the sites ``which``, cut in 3-D.

    ``known[first_known[i]:first_known[i + 1]]`` are sites near ``which[i]`` to begin with; the search finds the others.
    """
    none = np.zeros(0, np.int64)
    return _rim_cells(sites[which], which, sites, search, first_known, known, none)


def drawn_rim_cells(centres: NDArray[np.float64], first: NDArray[np.int64], others: NDArray[np.float64]) -> RimCells:
    """Return spherical cells cut in 3-D by given sites alone, with their corners.

    The candidates of cell i are ``others[first[i]:first[i + 1]]``, and are what its neighbours and owners count.
    """
    known = np.arange(len(others), dtype=np.int32)
    return _rim_cells(centres, np.full(len(centres), -1), others, None, first, known, np.zeros(1, np.int64))


def _rim_cells(
    centres: NDArray[np.float64],
    which: NDArray[np.int64],
    sites: NDArray[np.float64],
    search: Search | None,
    first_known: NDArray[np.int64],
    known: NDArray[np.int32],
    owner: NDArray[np.int64],
) -> RimCells:
    count = len(which)
    capacity, room = 256, 8 * count + 64
    degree, area, radius = np.zeros(count, np.int32), np.zeros(count), np.zeros(count)
    corner_count = np.zeros(count, np.int64)
    neighbours = np.empty(room, np.int32)
    if len(owner):
        owner = np.empty(2 * room, np.int64)
    corners = np.empty((len(owner), 3))
    progress = np.zeros(4, np.int64)
    none = np.zeros((0, 0, 0))
    columns, children = (none, none) if search is None else (search.columns, search.children)
    lines = NO_LINES
    while True:
        real = np.empty(2 * CORNER * capacity)
        status = cut_rim_cells(
            centres,
            which,
            sites,
            np.zeros(1, np.int64) if search is None else search.tree.starts,
            columns,
            children,
            lines.boxes,
            lines.order,
            first_known,
            known,
            real,
            degree,
            neighbours,
            area,
            radius,
            corners,
            owner,
            corner_count,
            progress,
        )
        if status == DONE:
            break
        if status == MORE_VERTICES:
            capacity *= 4
        elif status == MORE_NEIGHBOURS:
            neighbours = np.concatenate([neighbours, np.empty_like(neighbours)])
            corners, owner = np.concatenate([corners, np.empty_like(corners)]), np.concatenate([owner, owner])
        elif search is not None:
            lines = search.oriented.lines()
            columns, children = lines.columns, lines.children
    made = int(progress[2])
    return RimCells(
        degree, neighbours[: progress[1]], area, radius, corners[:made], owner[:made], corner_count, int(progress[3])
    )


_VISITS_A_CELL = 8
"""Nodes visited for a cell, beside as many as there are sites, after which oriented boxes are asked for."""
_VISITED = 3
"""The place in ``progress`` of the number of nodes visited."""
_FLOATS, _WHOLE = 2 * SPHERE + 4 * SPREAD + STACK + NEAREST, SPREAD + 2 * STACK + 2 * NEAREST
"""Numbers of the workspaces: the basis, the chosen sites, and nodes that wait; the owners of all edges not counted."""


@step
def _parts_of(real, whole, capacity):
    """Return the parts of a workspace: basis, chosen sites, room for nodes that wait, and for the owners of edges."""
    basis, at = part_of(real, 0, 2 * SPHERE), 2 * SPHERE
    x, y = part_of(real, at, SPREAD), part_of(real, at + SPREAD, SPREAD)
    at += 2 * SPREAD
    z, gap = part_of(real, at, SPREAD), part_of(real, at + SPREAD, SPREAD)
    at += 2 * SPREAD
    key, bound = part_of(real, at, STACK), part_of(real, at + STACK, NEAREST)
    number, at = part_of(whole, 0, SPREAD), SPREAD
    node, level = part_of(whole, at, STACK), part_of(whole, at + STACK, STACK)
    at += 2 * STACK
    nearest_node, nearest_level = part_of(whole, at, NEAREST), part_of(whole, at + NEAREST, NEAREST)
    waiting, nearest = Waiting(node, level, key), Waiting(nearest_node, nearest_level, bound)
    return basis, Chosen(x, y, z, gap, number), waiting, nearest, part_of(whole, at + 2 * NEAREST, capacity)


@step
def _begin(cell, sites, known, count, everyone):
    """Return the corners of the hemisphere against the nearest of the known sites, cut by all of these.

    Of all sites, if ``everyone`` and none is known. 0 where there is no other site, -1 where there is too little room.
    """
    nearest, least_gap = -1, np.inf
    for t in range(count if count > 0 or not everyone else sites):
        c = known[t] if count > 0 else t
        a, b, d = offset_of(cell.site, cell.positions, c)
        gap = a * a + b * b + d * d
        if 0.0 < gap < least_gap:
            nearest, least_gap = c, gap
    if nearest < 0:
        return 0
    a, b, d = offset_of(cell.site, cell.positions, nearest)
    n = plane_between(cell.site, cell.basis, a, b, d)
    m = hemisphere(cell.rows, n, nearest, least_gap, cell.site, cell.basis)
    for t in range(count):
        c = known[t]
        a, b, d = offset_of(cell.site, cell.positions, c)
        if c == nearest or a * a + b * b + d * d == 0.0:
            continue
        size = cut_rim_by(cell, m, c, a, b, d)
        if size > 0:
            m = size
        if m + 2 >= cell.capacity:
            return -1
    return m


@step
def _list_owners(cell, m, neighbours, filled, listed, mark):
    """List the owners of a cell's edges, each once, the least first, from place ``filled`` on.

    ``listed`` holds the mark of the last cell that a site was listed for. Returns how many neighbours are filled now,
    and the chord to the furthest corner, 2 where there is none.
    """
    far, site, t = 0.0, cell.site, 0
    for i in range(1, m):
        if cell.rows[i * CORNER + OWNER] < cell.rows[t * CORNER + OWNER]:
            t = i
    for _ in range(m):
        row = shift(cell.rows, t * CORNER)
        t = t + 1 if t + 1 < m else 0
        c = int(row[OWNER])
        if listed[c] != mark:
            listed[c] = mark
            neighbours[filled] = c
            filled += 1
        a, b, d = row[X] - site.x, row[X + 1] - site.y, row[X + 2] - site.z
        far = max(far, a * a + b * b + d * d)
    return filled, np.sqrt(far) if m > 0 else 2.0


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[:, :, ::1], float64[:, :, ::1], "
    "float64[:, :, ::1], int32[::1], int64[::1], int32[::1], float64[::1], int32[::1], int32[::1], float64[::1], "
    "float64[::1], float64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def cut_rim_cells(
    centres, sites, vectors, starts, columns, children, boxes, order, first_of, known_, real, degree, neighbours, area,
    radius, corners, owner, corner_count, progress,
):  # fmt: skip
    """Cut cells in 3-D: those of ``centres``, the numbers ``sites`` of the vectors, -1 where they are none.

    ``known[first_of[i]:first_of[i + 1]]`` are near sites to cut with first; without a tree, all there are. Fills
    degree, neighbours, area (solid angle), radius (chord) and, where ``corners`` has rows, the corners of each cell one
    after another, each with the owner of the edge that begins in it. Returns DONE or what was too small: called again,
    it goes on. ``progress`` holds how many cells are done, how many of ``neighbours`` and of ``corners`` they fill, and
    how many nodes of the tree they visited. Once THIN was returned, the tree is the one along lines, with its boxes and
    order; until then there are none.
    """
    n, levels, aligned = vectors.shape[0], starts.size - 1, order.size > 0
    capacity = real.size // (2 * CORNER)
    rows = part_of(pointer(real), 0, capacity * CORNER)
    spare = part_of(pointer(real), capacity * CORNER, capacity * CORNER)
    places, positions, known = pointer(centres), pointer(vectors), pointer(known_)
    tree = Tree(
        pointer(starts), levels, n, pointer(columns), pointer(children), aligned, pointer(boxes), pointer(order)
    )
    floats, whole, listed = np.empty(_FLOATS), np.empty(_WHOLE + capacity, np.int64), np.full(n, -1, np.int32)
    basis, chosen, waiting, nearest, edge = _parts_of(pointer(floats), pointer(whole), capacity)
    filled, drawn, visits = progress[1], progress[2], progress[_VISITED]
    for r in range(progress[0], sites.size):
        progress[0], progress[1], progress[2], progress[_VISITED] = r, filled, drawn, visits
        if not aligned and levels > 1 and visits > n + _VISITS_A_CELL * r:
            return THIN
        # cut by what is near, then by some from all over the curve, then by the tree
        cell = RimWorkpiece(place_at(places, r, SPHERE), basis, rows, spare, positions, capacity)
        tangent(cell.site.x, cell.site.y, cell.site.z, basis)
        m = _begin(cell, n, shift(known, first_of[r]), first_of[r + 1] - first_of[r], levels > 0)
        if m < 0:
            return MORE_VERTICES
        if levels > 0 and m > 0:
            m = cut_by_chosen(cell, m, n, sites[r], chosen)
            if m + 2 >= capacity:
                return MORE_VERTICES
            m, more = cut_from_rim_tree(cell, m, tree, edge, waiting, nearest)
            visits += more
        if m < 0:
            return THIN if m == TOO_MANY else MORE_VERTICES
        # write its corners, where they are wanted, and its neighbours
        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        if corners.shape[0] > 0:
            if drawn + m > corners.shape[0]:
                return MORE_NEIGHBOURS
            for i in range(m):
                row = shift(rows, i * CORNER)
                corners[drawn + i, 0], corners[drawn + i, 1], corners[drawn + i, 2] = row[X], row[X + 1], row[X + 2]
                owner[drawn + i] = int(row[OWNER])
            drawn += m
        corner_count[r] = m
        before = filled
        filled, radius[r] = _list_owners(cell, m, pointer(neighbours), filled, pointer(listed), r)
        degree[r], area[r] = filled - before, solid_angle(rows, m)
    # keeps the arrays alive while pointers to them are used
    floats[0], whole[0], listed[:1] = 0.0, 0, -1
    progress[0], progress[1], progress[2], progress[_VISITED] = sites.size, filled, drawn, visits
    return DONE


@dataclass(frozen=True, slots=True)
class Search:
    """What finds the sites that may cut a cell: a tree of boxes, its leaves and inner nodes by coordinate.

    ``oriented`` makes the tree along lines when it is asked for.
    """

    tree: Boxes
    columns: NDArray[np.float64]
    children: NDArray[np.float64]
    oriented: Oriented


def search_of(sites: NDArray[np.float64]) -> Search:
    """Return what finds sites (n, dimension) in curve order, n >= 1. Cost O(n)."""
    tree = box_tree(sites)
    return Search(tree, leaf_columns(sites), child_columns(tree), Oriented(sites))
