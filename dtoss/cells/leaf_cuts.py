"""Cuts of a cell by the sites of leaves: of those listed for its own leaf first, then of those found in a tree."""

from __future__ import annotations

import numpy as np

from dtoss.cells.box_tree import ALL_SETTLED, CHILDREN, LEAF, LIST, box_gap, box_gaps
from dtoss.cells.cell_arguments import Corner
from dtoss.cells.half_planes import cut, furthest, in_plane, in_space, is_framed, lanes_in, seen_from
from dtoss.cells.oriented_boxes import ROW, least_along, nearest_beyond, push_children
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.lanes8 import WIDTH, above, equal, lanes_at, larger, least, put_lanes, roots, splat, where
from dtoss.compiled.pointers import bits_float, shift, trailing_zeros
from dtoss.geometry.distance import SPHERE, Place
from dtoss.geometry.rounding import CUT, DISC_TOLERANCE

COMPACT = 32.0 * 32.0
"""Squared ratio of the distances of a compact cell's furthest vertex and nearest edge, at the most."""
PLAIN, GUIDED = 8, 256
"""Cuts of a long cell after which, and up to which, it is the site nearest to a corner that cuts, not to its own site.

Most cells need fewer, and only rounding takes more."""


@kernel
def limit_of(outline, m, dimension):
    """Return the squared chord from the site beyond which nothing can cut the cell."""
    far = furthest(outline.u, outline.v, m)
    return 4.0 * far / (1.0 + far) if dimension == SPHERE else 4.0 * far


@kernel
def is_long(outline, m):
    """Return whether a cell keeps a part of the frame, or is much longer than wide."""
    nearest, framed = np.inf, False
    for i in range(m):
        nearest = min(nearest, outline.eh[i])
        framed |= outline.edge[i] < 0
    return framed or 2.0 * furthest(outline.u, outline.v, m) > COMPACT * nearest


@kernel
def _size(a):
    return larger(a, splat(0.0) - a)


@kernel
def _draw_discs(cell, m, discs):
    """Fill the discs round the vertices through the site: the influence region.

    A disc that reaches far is known to its size times rounding only, and a site near by may cut less of it: it is drawn
    so much larger.
    """
    u, v, basis = cell.outline.u, cell.outline.v, cell.basis
    x, y, z = cell.site.x, cell.site.y, cell.site.z
    if cell.site.dimension == 2:
        for i in range(0, m, WIDTH):
            a, b = lanes_at(u, i), lanes_at(v, i)
            put_lanes(discs.x, i, a + x)
            put_lanes(discs.y, i, b + y)
            wide = _size(a) + _size(b)
            put_lanes(discs.reach, i, a * a + b * b + wide * (wide + (abs(x) + abs(y))) * DISC_TOLERANCE)
        return
    for i in range(0, m, WIDTH):
        a, b = lanes_at(u, i), lanes_at(v, i)
        f = 1.0 / roots(1.0 + a * a + b * b)
        p = f * (x + a * basis[0] + b * basis[SPHERE])
        q = f * (y + a * basis[1] + b * basis[SPHERE + 1])
        r = f * (z + a * basis[2] + b * basis[SPHERE + 2])
        put_lanes(discs.x, i, p)
        put_lanes(discs.y, i, q)
        put_lanes(discs.z, i, r)
        p, q, r = p - x, q - y, r - z
        wide = _size(p) + _size(q) + _size(r)
        put_lanes(discs.reach, i, p * p + q * q + r * r + wide * (wide + 1.0) * DISC_TOLERANCE)


@kernel
def _meeting(discs, m, boxes, room, dimension):
    """Return the mask of those of eight boxes that meet a disc."""
    meeting = 0
    for i in range(m):
        centre = Place(discs.x[i], discs.y[i], discs.z[i], dimension)
        meeting |= above(splat(discs.reach[i]), box_gaps(boxes, room, centre, centre))
    return meeting


@kernel
def _corner(cell, i):
    """Return what leads from the site to a vertex: in space on the sphere."""
    a, b = cell.outline.u[i], cell.outline.v[i]
    if cell.site.dimension == 2:
        return Corner(a, b, 0.0, 1.0)
    a, b, c = in_space(a, b, cell.basis)
    return Corner(a, b, c, 1.0)


@kernel
def _deepest(u, v, m, dx, dy):
    """Return the vertex that lies furthest in a direction."""
    far, most = 0, -np.inf
    for i in range(m):
        depth = u[i] * dx + v[i] * dy
        if depth > most:
            far, most = i, depth
    return far


@step
def _cutting(u, v, m, dx, dy, level):
    """Return the mask of the lines ``u * dx + v * dy = level`` that have a vertex beyond them."""
    depth = u[0] * dx + v[0] * dy
    for i in range(1, m):
        depth = larger(u[i] * dx + v[i] * dy, depth)
    return above(depth, level)


@step
def _owns(edge, m, number):
    """Return whether an edge belongs to a site: its own line, rounded, must not cut it again."""
    owns = 0
    for i in range(0, m, WIDTH):
        owns |= equal(lanes_at(edge, i), splat(bits_float(number))) & lanes_in(m, i)
    return owns != 0


@step
def _beyond_corner(cell, m, c, tree, waiting):
    """Return the site nearest to the corner that site c cuts off deepest, or c itself."""
    px, py, _ = seen_from(cell.site, cell.basis, cell.positions, c)
    corner = _corner(cell, _deepest(cell.outline.u, cell.outline.v, m, px, py))
    best = nearest_beyond(tree, cell.site, corner, CUT, 0.0, cell.outline.edge, m, waiting)
    return best if best >= 0 else c


@step
def cut_by(cell, m, c):
    """Cut the cell by a site; returns the new number of vertices, or -1 where nothing was cut."""
    px, py, distance2 = seen_from(cell.site, cell.basis, cell.positions, c)
    return cut(cell.outline, m, px, py, 0.5 * distance2, c, CUT * distance2)


@step
def _leaf_seen(cell, columns, leaf):
    """Return where the eight sites of a leaf lie, in the tangent plane, and their squared distances."""
    site = cell.site
    column = shift(columns, leaf * LEAF * site.dimension)
    dx, dy = lanes_at(column, 0) - site.x, lanes_at(column, LEAF) - site.y
    gaps = dx * dx + dy * dy
    if site.dimension == SPHERE:
        d = lanes_at(column, 2 * LEAF) - site.z
        gaps = gaps + d * d
        dx, dy = in_plane(dx, dy, d, cell.basis)
    return dx, dy, gaps


@step
def _cut_by_leaf(cell, m, limit, tree, leaf, left, guided, waiting):
    """Cut the cell by those sites of a leaf that the mask ``left`` names, nearest first.

    The sites nearest to a long cell's own may each cut off a little; the one nearest to the corner that such a site
    cuts off deepest cuts most. ``guided`` counts the cuts, from 1 on, to tell when that one goes first: never from 0.
    Returns the vertices, -1 where there is no room for more; the limit; ``guided``; and whether anything was cut.
    """
    outline, changed = cell.outline, False
    dx, dy, gaps = _leaf_seen(cell, tree.columns, leaf)
    left &= above(splat(limit), gaps) & above(gaps, splat(0.0))
    while left != 0:
        left &= _cutting(outline.u, outline.v, m, dx, dy, (0.5 + CUT) * gaps)
        if left == 0:
            break
        lane = trailing_zeros(left & equal(gaps, splat(least(where(left, gaps, splat(np.inf))))))
        left ^= 1 << lane
        c = int(tree.order[leaf * LEAF + lane]) if tree.aligned else leaf * LEAF + lane
        if _owns(outline.edge, m, c):
            continue
        by, size = c, -1
        guided += guided > 0
        if PLAIN < guided < GUIDED:
            by = _beyond_corner(cell, m, c, tree, waiting)
            if by != c:
                size = cut_by(cell, m, by)
        if size > 0:
            left |= 1 << lane  # and c may still cut
        else:
            size = cut_by(cell, m, c)
        if size < 0:
            continue
        m, changed = size, True
        if m + 2 > cell.capacity:
            m = -1
            break
        limit = limit_of(outline, m, cell.site.dimension)
    return m, limit, guided, changed


@step
def _unsettled(settled, leaf):
    """Return the mask of a leaf's sites that are not settled."""
    left = ALL_SETTLED
    if settled.first <= leaf < settled.last:
        left = ALL_SETTLED ^ settled.leaves[leaf - settled.first]
    return left


@step
def _along(cell, m, boxes, gaps, left):
    """Return the mask of those of eight boxes along their sites that may hold one that cuts off a vertex."""
    below, cuts, i = splat(0.0) - gaps * CUT, 0, 0
    while i < m and cuts & left != left:
        cuts |= above(below, least_along(boxes, cell.site, _corner(cell, i)))
        i += 1
    return left & cuts


@step
def _reached(cell, discs, m, limit, tree, node):
    """Return the mask of a node's children that the influence region meets, and their squared distances.

    Of the tree along lines only those that may hold a site that cuts.
    """
    dimension, inner = cell.site.dimension, node - tree.starts[1]
    boxes = shift(tree.children, inner * 2 * dimension * CHILDREN)
    gaps = box_gaps(boxes, CHILDREN, cell.site, cell.site)
    left = above(splat(limit), gaps)
    if left != 0:
        left &= _meeting(discs, m, boxes, CHILDREN, dimension)
    if tree.aligned and left != 0:
        left = _along(cell, m, shift(tree.boxes, inner * ROW * CHILDREN), gaps, left)
    return left, gaps


@step
def _is_listed(search, leaf):
    """Return whether a leaf is listed, and has cut already."""
    if search.within < 0.0:
        listed = leaf // CHILDREN == search.leaf // CHILDREN
    else:
        listed = box_gap(search.nodes, leaf, search.leaf) < search.within
    return listed


@kernel
def _wait_for_all(tree, waiting):
    """Let the root wait alone; returns 1, the number of nodes that do."""
    waiting.node[0], waiting.level[0], waiting.key[0] = tree.starts[tree.levels] - 1, tree.levels - 1, 0.0
    return 1


@step
def cut_by_leaves(cell, scratch, m, limit, search, strange):
    """Cut the cell by leaves, nearest first, until no other can change it: by the listed ones, then from the tree.

    First by sites that are not settled; by all where the cell is long, or ``strange``: neighbours say so. Returns the
    vertices, -1 where there is no room for more, and how many nodes of a tree were visited.
    """
    listed, lines, waiting, discs = search.listed, search.lines, scratch.waiting, scratch.discs
    sphere, tree, starts = cell.site.dimension == SPHERE, search.curve, search.curve.starts
    t, todo = 0, 0  # todo: of the eight listed leaves before t, those that are left
    from_tree, everyone, guided, count, visits = False, False, 0, 0, 0
    drawn = False  # whether the discs are those of the polygon as it is
    while m > 0:
        if not from_tree and todo == 0:
            if lines.aligned and sphere and t == WIDTH and is_framed(cell.outline, m):
                break  # a cell of a line, most likely: it is cut again in 3-D, by any site
            if t < search.leaves and listed.gap[t] < limit:
                # the next eight: those that the influence region meets, once the first eight have cut it down
                todo = above(splat(limit), lanes_at(listed.gap, t)) & lanes_in(search.leaves, t)
                if t > 0:
                    if not drawn:
                        _draw_discs(cell, m, discs)
                        drawn = True
                    todo &= _meeting(discs, m, shift(listed.box, t), LIST, cell.site.dimension)
                t += WIDTH
                continue
            from_tree = True
            if lines.aligned and (strange or is_long(cell.outline, m)):
                # all sites at once; and a cell that still reaches 80 degrees is cut again in 3-D
                if sphere and is_framed(cell.outline, m):
                    break
                tree, everyone, guided = lines, True, 1
            if everyone or limit > search.within:
                count = _wait_for_all(tree, waiting)
            continue
        if from_tree:
            if count == 0:
                # once more, by settled sites as well, if these may cut it
                if everyone or not (strange or is_long(cell.outline, m)):
                    break
                tree, everyone = lines if lines.aligned else search.curve, True
                count = _wait_for_all(tree, waiting)
            count -= 1
            if waiting.key[count] >= limit:
                continue
            leaf, level = waiting.node[count], waiting.level[count]
            visits += 1
            if level > 0:
                if not drawn:
                    _draw_discs(cell, m, discs)
                    drawn = True
                left, gaps = _reached(cell, discs, m, limit, tree, leaf)
                first = starts[level - 1] + (leaf - starts[level]) * CHILDREN
                count = push_children(waiting, count, left, gaps, first, level - 1)
                continue
            if not everyone and _is_listed(search, leaf):
                continue
        else:
            at = t - WIDTH + trailing_zeros(todo)
            todo &= todo - 1
            leaf = listed.leaf[at]
            if listed.gap[at] >= limit:
                todo = 0
                continue
        left = ALL_SETTLED if everyone else _unsettled(search.settled, leaf)
        if left != 0:
            m, limit, guided, changed = _cut_by_leaf(cell, m, limit, tree, leaf, left, guided, scratch.nearest)
            drawn &= not changed
    return m, visits
