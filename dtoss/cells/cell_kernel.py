"""The cell kernel: each Voronoi cell by itself, cut by nearer sites first, until no site left could change it.

Dissertation, section 3.1.2: start from a bounding polygon, cut it by sites in growing rings, stop when the next ring
lies outside the influence region. First come the sites that have been cut before and have this one as a neighbour. The
rings are leaves of the box tree: those near the site's own leaf, listed once for all its sites, nearest first; where
the list ends too early (the rim of a cluster, long thin cells), the tree is searched by the discs round the cell's
vertices, which are what could still hold a neighbour.

A site that has been cut before and whose cell is compact is *settled*: it is a neighbour only if it has said so, and is
passed over. Two sites may differ on an edge that is as short as rounding, and the longer a cell, the more of it lies
beyond such an edge: 4 CUT times the square of its length in widths. So a cell that is not compact neither counts as
settled nor passes over settled ones.
"""

from __future__ import annotations

import numpy as np

from dtoss.cells.box_tree import CHILDREN, LEAF, list_leaves, list_near
from dtoss.cells.cell_arguments import Earlier, Made, Nodes, Search, Settled, Tree, Workpiece, parts_of
from dtoss.cells.half_planes import chord, frame, furthest, plane_area, seen_from, sphere_area, tangent
from dtoss.cells.leaf_cuts import COMPACT, cut_by, cut_by_leaves, limit_of
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.lanes8 import equal, least, splat, where
from dtoss.compiled.pointers import pointer, shift, trailing_zeros
from dtoss.geometry.distance import SPHERE, place_at

EARLIER = 8
"""Neighbours before a site on the curve that are kept for it."""

BEYOND_SITES = 1 << 31
"""More than the number of any site."""

DONE, MORE_VERTICES, MORE_NEIGHBOURS, THIN = 0, 1, 2, 3
"""What a kernel of cells returns: whether it is done, or what was too small. THIN asks for the tree along lines."""

_VISITS, _VISITS_A_CELL = 4096, 32
"""Nodes that a piece may visit in the tree before it asks for oriented boxes: so many, and so many more a cell."""


@step
def _clear(column):
    for i in range(column.size):
        column[i] = 0


@step
def _first_cuts(cell, m, sites, count):
    """Cut by up to eight sites that have this one as a neighbour, nearest first.

    Returns the vertices, and the limit beyond which nothing can cut the cell.
    """
    if count == 0:
        return m, np.inf
    infinite = splat(np.inf)
    gaps = infinite
    for t in range(count):
        _, _, distance2 = seen_from(cell.site, cell.basis, cell.positions, sites[t])
        gaps = where(1 << t, splat(distance2), gaps)
    left = (1 << count) - 1
    while left != 0:
        lane = trailing_zeros(left & equal(gaps, splat(least(gaps))))
        left ^= 1 << lane
        gaps = where(1 << lane, infinite, gaps)
        size = cut_by(cell, m, sites[lane])
        if size > 0:
            m = size
    return m, limit_of(cell.outline, m, cell.site.dimension)


@step
def _first_edge(outline, m):
    """Return the edge of the site with the least number, 0 where there is none: the list of a cell begins with it."""
    first, least_number = 0, BEYOND_SITES
    for i in range(m):
        if 0 <= outline.edge[i] < least_number:
            first, least_number = i, outline.edge[i]
    return first


@step
def settle(cell, m, discs, made, at, filled):
    """Write what was made of a cell, its neighbours from place ``filled`` on; ``discs`` is room for its vertices.

    Returns how many neighbours are filled now, and whether the cell is compact.
    """
    before, nearest, touches_rim, outline = filled, np.inf, False, cell.outline
    u, v, t = discs.x, discs.y, _first_edge(outline, m)
    for i in range(m):
        u[i], v[i], c = outline.u[t], outline.v[t], outline.edge[t]
        if c < 0:
            touches_rim = True
        else:
            nearest = min(nearest, outline.eh[t])
            made.neighbours[filled] = c
            filled += 1
        t = t + 1 if t + 1 < m else 0
    made.degree[at] = filled - before
    made.rim[at] = touches_rim
    far = furthest(u, v, m)
    if cell.site.dimension == SPHERE:
        made.area[at] = sphere_area(u, v, m)
        made.radius[at] = chord(far)
    else:
        made.area[at] = plane_area(u, v, m)
        made.radius[at] = np.sqrt(far)
    return filled, not touches_rim and 2.0 * far <= COMPACT * nearest


@step
def _tell_later(made, earlier, begin, end, s, before, filled):
    """Tell the neighbours ``before:filled`` of site s that come after it, and note whether those before it agree.

    The edges with sites before this one must be those that they have listed: else they are in doubt.
    """
    known = earlier.count[s - begin]
    agreed, strange = 0, known > EARLIER
    for t in range(before, filled):
        c = made.neighbours[t]
        if s < c < end:
            k = earlier.count[c - begin]
            if k < EARLIER:
                earlier.site[(c - begin) * EARLIER + k] = s
            earlier.count[c - begin] = min(k + 1, EARLIER + 1)
        elif begin <= c < s:
            listed_before = False
            for i in range(min(known, EARLIER)):
                listed_before |= earlier.site[(s - begin) * EARLIER + i] == c
            agreed += 1
            strange |= not listed_before
        else:
            strange = True
    made.doubt[s - begin] = strange or agreed != known


@kernel(
    "int64(float64[:, ::1], float64[:, :, ::1], float64[:, :, ::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[::1], int64, int64, uint8[::1], float64[::1], int64[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], "
    "int32[::1], float64[::1], float64[::1], uint8[::1], uint8[::1], float64[:, :, ::1], float64[:, :, ::1], "
    "float64[:, :, ::1], int32[::1], int64[::1])"
)
def cut_cells(
    vectors, columns, children, starts, low, high, bounds, begin, end, wanted, real, whole, earlier_site,
    earlier_count, settled_leaves, degree, neighbours, area, radius, rim, doubt, line_columns, line_children,
    line_boxes, line_order, progress,
):  # fmt: skip
    """Cut the cells of the sites ``begin:end``; fill degree, neighbours, area, radius, rim and doubt for them.

    ``real`` and ``whole`` are workspaces; the polygon's capacity is what they hold. Returns DONE or what was too small:
    called again, it goes on. ``progress`` holds how many cells are done, how many of ``neighbours`` they fill, and how
    many nodes of the tree they visited. Once THIN was returned, the tree along lines finds what may cut long cells;
    until then it is empty.
    """
    n, dimension = vectors.shape
    levels = starts.size - 1
    if progress[0] == 0:
        _clear(earlier_count)
        _clear(settled_leaves)
    positions, order, first = pointer(vectors), pointer(line_order), pointer(starts)
    nodes = Nodes(first, levels, pointer(low), pointer(high), dimension)
    boxes, aligned, box = pointer(line_boxes), line_order.size > 0, pointer(bounds)
    curve = Tree(first, levels, n, pointer(columns), pointer(children), False, boxes, order)
    lines = Tree(first, levels, n, pointer(line_columns), pointer(line_children), aligned, boxes, order)
    earlier = Earlier(pointer(earlier_site), pointer(earlier_count))
    first_leaf = begin // LEAF
    settled = Settled(pointer(settled_leaves), first_leaf, first_leaf + settled_leaves.size)
    made = Made(pointer(degree), pointer(neighbours), pointer(area), pointer(radius), pointer(rim), pointer(doubt))
    outline, near, listed, scratch, basis, capacity = parts_of(real, whole)

    node, leaf = -1, -1
    near_count, listed_count, parent_gap, leaf_gap = 0, 0, 0.0, 0.0
    filled, visits = progress[1], progress[2]
    for s in range(begin + progress[0], end):
        at = s - begin
        progress[0], progress[1], progress[2] = at, filled, visits
        if not aligned and visits > _VISITS + _VISITS_A_CELL * at:
            return THIN
        degree[at], rim[at] = 0, 0
        if wanted.size > 0 and wanted[s] == 0:
            area[at], radius[at] = 0.0, 0.0
            continue
        # list the leaves near this one, once for all its sites, from those near its parent
        own = s // LEAF
        parent = starts[1] + own // CHILDREN if levels > 1 else 0
        if parent != node:
            node = parent
            near_count, parent_gap = list_near(nodes, own, node, near, scratch.waiting)
        if own != leaf:
            leaf = own
            listed_count, leaf_gap = list_leaves(nodes, leaf, near, near_count, parent_gap, settled, listed)
        # cut: by neighbours among the sites before it, from the list, and from the tree what the list does not hold
        cell = Workpiece(place_at(positions, s, dimension), basis, outline, positions, capacity)
        known = earlier_count[at]
        if dimension == SPHERE:
            tangent(cell.site.x, cell.site.y, cell.site.z, basis)
        m = frame(outline, cell.site, box)
        m, limit = _first_cuts(cell, m, shift(earlier.site, at * EARLIER), min(known, EARLIER))
        search = Search(curve, lines, nodes, settled, listed, listed_count, leaf, leaf_gap)
        m, more = cut_by_leaves(cell, scratch, m, limit, search, known > EARLIER)
        visits += more
        if m < 0:
            return MORE_VERTICES
        # write it, settle the site if it is compact, and tell those after it
        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        before = filled
        filled, compact = settle(cell, m, scratch.discs, made, at, filled)
        if compact:
            settled_leaves[own - first_leaf] |= 1 << (s % LEAF)
        _tell_later(made, earlier, begin, end, s, before, filled)
    progress[0], progress[1], progress[2] = end - begin, filled, visits
    return DONE
