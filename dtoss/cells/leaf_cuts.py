"""Cuts of a cell by the sites of leaves: of those listed for its own leaf first, then of those found in a tree."""

from __future__ import annotations

import numpy as np

from dtoss.cells.arguments import Corner
from dtoss.cells.box_tree import FAN, LEAF
from dtoss.cells.clipping import SLACK, cut, furthest, is_framed, lanes_in
from dtoss.cells.near_leaves import ALL, LIST, box_gap, box_gaps
from dtoss.cells.oriented_boxes import ROW, least_along, nearest_beyond, push_children
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, equal, lanes_at, larger, least, put_lanes, roots, splat, where
from dtoss.compiled.pointers import bits_float, shifted, trailing_zeros
from dtoss.geometry.place import SPHERE, Place
from dtoss.geometry.tangent import in_plane, in_space, seen_from

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
def _draw_discs(cell, m, discs):
    """Fill the discs round the vertices through the site: the influence region."""
    u, v, basis = cell.outline.u, cell.outline.v, cell.basis
    x, y, z = cell.site.x, cell.site.y, cell.site.z
    if cell.site.dimension == 2:
        for i in range(0, m, WIDTH):
            a, b = lanes_at(u, i), lanes_at(v, i)
            put_lanes(discs.x, i, a + x)
            put_lanes(discs.y, i, b + y)
            put_lanes(discs.reach, i, a * a + b * b)
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
        put_lanes(discs.reach, i, p * p + q * q + r * r)


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


@kernel
def _cutting(u, v, m, dx, dy, level):
    """Return the mask of the lines ``u * dx + v * dy = level`` that have a vertex beyond them."""
    depth = u[0] * dx + v[0] * dy
    for i in range(1, m):
        depth = larger(u[i] * dx + v[i] * dy, depth)
    return above(depth, level)


@kernel
def _owns(edge, m, number):
    """Return whether an edge belongs to a site: its own line, rounded, must not cut it again."""
    owns = 0
    for i in range(0, m, WIDTH):
        owns |= equal(lanes_at(edge, i), splat(bits_float(number))) & lanes_in(m, i)
    return owns != 0


@kernel
def _beyond_corner(cell, m, c, tree, waiting):
    """Return the site nearest to the corner that site c cuts off deepest, or c itself."""
    px, py, _ = seen_from(cell.site, cell.basis, cell.positions, c)
    corner = _corner(cell, _deepest(cell.outline.u, cell.outline.v, m, px, py))
    best = nearest_beyond(tree, cell.site, corner, SLACK, 0.0, cell.outline.edge, m, waiting)
    return best if best >= 0 else c


@kernel
def _cut_by(cell, m, c):
    px, py, distance2 = seen_from(cell.site, cell.basis, cell.positions, c)
    return cut(cell.outline, m, px, py, 0.5 * distance2, c, SLACK * distance2)


@kernel
def _leaf_seen(cell, columns, leaf):
    """Return where the eight sites of a leaf lie, in the tangent plane, and their squared distances."""
    site = cell.site
    column = shifted(columns, leaf * LEAF * site.dimension)
    dx, dy = lanes_at(column, 0) - site.x, lanes_at(column, LEAF) - site.y
    gaps = dx * dx + dy * dy
    if site.dimension == SPHERE:
        d = lanes_at(column, 2 * LEAF) - site.z
        gaps = gaps + d * d
        dx, dy = in_plane(dx, dy, d, cell.basis)
    return dx, dy, gaps


@kernel
def _cut_by_leaf(cell, m, limit, leaf, left):
    """Cut the cell by those sites of a leaf that the mask ``left`` names, nearest first.

    Returns the vertices, -1 where there is no room for more; the limit; and whether anything was cut.
    """
    outline, changed = cell.outline, False
    dx, dy, gaps = _leaf_seen(cell, cell.columns, leaf)
    left &= above(splat(limit), gaps) & above(gaps, splat(0.0))
    while left != 0:
        left &= _cutting(outline.u, outline.v, m, dx, dy, (0.5 + SLACK) * gaps)
        if left == 0:
            break
        lane = trailing_zeros(left & equal(gaps, splat(least(where(left, gaps, splat(np.inf))))))
        left ^= 1 << lane
        c = leaf * LEAF + lane
        if _owns(outline.edge, m, c):
            continue
        px, py, distance2 = seen_from(cell.site, cell.basis, cell.positions, c)
        size = cut(outline, m, px, py, 0.5 * distance2, c, SLACK * distance2)
        if size < 0:
            continue
        m, changed = size, True
        if m + 2 > cell.capacity:
            return -1, limit, True
        limit = limit_of(outline, m, cell.site.dimension)
    return m, limit, changed


@kernel
def _cut_by_line(cell, m, limit, tree, leaf, guided, waiting):
    """Cut the cell by the sites of a leaf of the tree along lines, nearest first, or those nearest to its corners.

    The sites nearest to a long cell's own may each cut off a little; the one nearest to the corner that such a site
    cuts off deepest cuts most. ``guided`` counts the cuts, from 1 on, to tell when that one goes first: never from 0.
    Returns the vertices, -1 where there is no room for more; the limit; whether anything was cut; and ``guided``.
    """
    outline, changed = cell.outline, False
    dx, dy, gaps = _leaf_seen(cell, tree.columns, leaf)
    left = above(splat(limit), gaps) & above(gaps, splat(0.0))
    while left != 0:
        left &= _cutting(outline.u, outline.v, m, dx, dy, (0.5 + SLACK) * gaps)
        if left == 0:
            break
        lane = trailing_zeros(left & equal(gaps, splat(least(where(left, gaps, splat(np.inf))))))
        left ^= 1 << lane
        c = int(tree.order[leaf * LEAF + lane])
        if _owns(outline.edge, m, c):
            continue
        guided += guided > 0
        by = _beyond_corner(cell, m, c, tree, waiting) if PLAIN < guided < GUIDED else c
        size = _cut_by(cell, m, by)
        if size < 0 and by != c:
            by, size = c, _cut_by(cell, m, c)
        if size < 0:
            continue
        if by != c:
            left |= 1 << lane  # and c may still cut
        m, changed = size, True
        if m + 2 > cell.capacity:
            return -1, limit, True, guided
        limit = limit_of(outline, m, cell.site.dimension)
    return m, limit, changed, guided


@kernel
def _unsettled(settled, leaf):
    """Return the mask of a leaf's sites that are not settled."""
    if settled.first <= leaf < settled.last:
        return ALL ^ settled.leaves[leaf - settled.first]
    return ALL


@kernel
def cut_from_list(cell, discs, m, limit, listed, count, settled, along_lines):
    """Cut the cell by the leaves listed for its own, nearest first, until no other can change it.

    Returns the vertices, -1 where there is no room for more; the limit; and whether the cell is cut again in 3-D, by
    any site: that of a line, most likely, which is at the frame after eight leaves where ``along_lines`` says so.
    """
    drawn, t, todo = False, 0, 0  # whether the discs are those of the polygon; todo: of the eight before t
    while True:
        if todo == 0:
            if along_lines and t == WIDTH and cell.site.dimension == SPHERE and is_framed(cell.outline, m):
                return m, limit, True
            if t >= count or listed.gap[t] >= limit:
                return m, limit, False
            # the next eight: those that the influence region meets, once the first eight have cut it down
            todo = above(splat(limit), lanes_at(listed.gap, t)) & lanes_in(count, t)
            if t > 0:
                if not drawn:
                    _draw_discs(cell, m, discs)
                    drawn = True
                todo &= _meeting(discs, m, shifted(listed.box, t), LIST, cell.site.dimension)
            t += WIDTH
            continue
        at = t - WIDTH + trailing_zeros(todo)
        todo &= todo - 1
        if listed.gap[at] >= limit:
            todo = 0
            continue
        left = _unsettled(settled, listed.leaf[at])
        if left == 0:
            continue
        m, limit, changed = _cut_by_leaf(cell, m, limit, listed.leaf[at], left)
        if m < 0:
            return m, limit, False
        drawn &= not changed


@kernel
def _along(cell, m, boxes, gaps, left):
    """Return the mask of those of eight boxes along their sites that may hold one that cuts off a vertex."""
    below, cuts, i = splat(0.0) - gaps * SLACK, 0, 0
    while i < m and cuts & left != left:
        cuts |= above(below, least_along(boxes, cell.site, _corner(cell, i)))
        i += 1
    return left & cuts


@kernel
def _reached(cell, discs, m, limit, tree, node):
    """Return the mask of a node's children that the influence region meets, and their squared distances.

    Of the tree along lines only those that may hold a site that cuts.
    """
    dimension, inner = cell.site.dimension, node - tree.starts[1]
    boxes = shifted(tree.children, inner * 2 * dimension * FAN)
    gaps = box_gaps(boxes, FAN, cell.site, cell.site)
    left = above(splat(limit), gaps)
    if left != 0:
        left &= _meeting(discs, m, boxes, FAN, dimension)
    if tree.aligned and left != 0:
        left = _along(cell, m, shifted(tree.boxes, inner * ROW * FAN), gaps, left)
    return left, gaps


@kernel
def _is_passed(passed, leaf):
    """Return whether a leaf was listed, and has cut already."""
    if passed.within < 0.0 and leaf // FAN == passed.leaf // FAN:
        return True
    return box_gap(passed.nodes, leaf, passed.leaf) < passed.within


@kernel
def cut_from_tree(cell, scratch, m, limit, curve, lines, passed, strange):
    """Cut the cell by what the list does not hold, and by all sites where it is long, or ``strange``.

    Where nothing beyond the list may cut it, and it is neither, there is nothing to do. Returns the vertices, -1 where
    there is no room for more, and how many nodes were visited.
    """
    waiting, discs = scratch.waiting, scratch.discs
    tree, everyone, guided, count, visits, drawn = curve, False, 0, 0, 0, False
    if lines.aligned and (strange or is_long(cell.outline, m)):
        # all sites at once; and a cell that still reaches 80 degrees is cut again in 3-D
        if cell.site.dimension == SPHERE and is_framed(cell.outline, m):
            return m, 0
        tree, everyone, guided = lines, True, 1
    starts = tree.starts
    if everyone or limit > passed.within:
        waiting.node[0], waiting.level[0], waiting.key[0] = starts[tree.levels] - 1, tree.levels - 1, 0.0
        count = 1
    while True:
        if count == 0:
            # once more, by settled sites as well, if these may cut it
            if everyone or not (strange or is_long(cell.outline, m)):
                return m, visits
            tree, everyone = lines if lines.aligned else curve, True
            waiting.node[0], waiting.level[0], waiting.key[0] = starts[tree.levels] - 1, tree.levels - 1, 0.0
            count = 1
        count -= 1
        if waiting.key[count] >= limit:
            continue
        node, level = waiting.node[count], waiting.level[count]
        visits += 1
        if level > 0:
            if not drawn:
                _draw_discs(cell, m, discs)
                drawn = True
            left, gaps = _reached(cell, discs, m, limit, tree, node)
            first = starts[level - 1] + (node - starts[level]) * FAN
            count = push_children(waiting, count, left, gaps, first, level - 1)
        elif tree.aligned:
            m, limit, changed, guided = _cut_by_line(cell, m, limit, tree, node, guided, scratch.nearest)
            drawn &= not changed
        elif everyone or not _is_passed(passed, node):
            left = ALL if everyone else _unsettled(passed.settled, node)
            if left != 0:
                m, limit, changed = _cut_by_leaf(cell, m, limit, node, left)
                drawn &= not changed
        if m < 0:
            return m, visits
