"""The cell kernel: each Voronoi cell by itself, cut by nearer sites first, until no site left could change it.

Dissertation, section 3.1.2: start from a bounding polygon, cut it by sites in growing rings, stop when the next ring
lies outside the influence region. First come the sites that have been cut before and have this one as a neighbour. The
rings are leaves of the box tree: those near the site's own leaf, listed once for all its sites, nearest first; where
the list ends too early (the rim of a cluster, long thin cells), the tree is searched by the discs round the cell's
vertices, which are what could still hold a neighbour.

A site that has been cut before and whose cell is compact is *settled*: it is a neighbour only if it has said so, and is
passed over. Two sites may differ on an edge that is as short as rounding, and the longer a cell, the more of it lies
beyond such an edge: 4 SLACK times the square of its length in widths. So a cell that is not compact neither counts as
settled nor passes over settled ones.
"""

from __future__ import annotations

import numpy as np

from dtoss.cells.box_tree import FAN, LEAF
from dtoss.cells.clipping import FRAME, PAD, SLACK, chord, cut, frame, furthest, lanes_in, plane_area, sphere_area
from dtoss.cells.near_leaves import ALL, LIST, NEAR, box_gap, box_gaps, list_leaves, list_near
from dtoss.cells.oriented_boxes import NEAREST, ROW, least_along, nearest_beyond
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, equal, greatest, lanes_at, larger, least, put_lanes, roots, splat, where
from dtoss.compiled.pointers import bits_float, pointer, shifted, trailing_zeros

STACK = 1024
EARLIER = 8
"""Neighbours before a site on the curve that are kept for it."""
COMPACT = 32.0 * 32.0
"""Squared ratio of the distances of a compact cell's furthest vertex and nearest edge, at the most."""

COLUMNS = 9
"""Columns of floats of a polygon: its own five, and four of the discs."""
BESIDES = 6 * NEAR + NEAR + 6 * LIST + LIST + STACK + NEAREST + 8
"""What the workspace of floats holds besides the polygon."""

DONE, MORE_VERTICES, MORE_NEIGHBOURS, THIN = 0, 1, 2, 3

VISITS, VISITS_A_CELL = 4096, 32
"""Nodes that a piece may visit in the tree before it asks for oriented boxes: so many, and so many more a cell."""
PLAIN, GUIDED = 8, 256
"""Cuts of a long cell after which, and up to which, it is the site nearest to a corner that cuts, not to its own site.

Most cells need fewer, and only rounding takes more."""


@kernel
def _meeting(boxes, room, dimension, m, cx, cy, cz, reach):
    """Return the mask of those of eight boxes that meet a disc."""
    meeting = 0
    for i in range(m):
        meeting |= above(splat(reach[i]), box_gaps(boxes, room, dimension, cx[i], cx[i], cy[i], cy[i], cz[i], cz[i]))
    return meeting


@kernel
def _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach):
    """Centres and squared radii of the discs round the vertices through the site: the influence region."""
    if basis[6] == 0.0:
        for i in range(0, m, WIDTH):
            a, b = lanes_at(u, i), lanes_at(v, i)
            put_lanes(cx, i, a + x)
            put_lanes(cy, i, b + y)
            put_lanes(reach, i, a * a + b * b)
        return
    for i in range(0, m, WIDTH):
        a, b = lanes_at(u, i), lanes_at(v, i)
        f = 1.0 / roots(1.0 + a * a + b * b)
        p = f * (x + a * basis[0] + b * basis[3])
        q = f * (y + a * basis[1] + b * basis[4])
        r = f * (z + a * basis[2] + b * basis[5])
        put_lanes(cx, i, p)
        put_lanes(cy, i, q)
        put_lanes(cz, i, r)
        p, q, r = p - x, q - y, r - z
        put_lanes(reach, i, p * p + q * q + r * r)


@kernel
def _corner(u, v, i, basis):
    """Return what leads from the site to a vertex: in space on the sphere."""
    if basis[6] == 0.0:
        return u[i], v[i], 0.0
    a, b = u[i], v[i]
    return a * basis[0] + b * basis[3], a * basis[1] + b * basis[4], a * basis[2] + b * basis[5]


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
def tangent(x, y, z, basis):
    """Fill ``basis[0:6]`` with two unit vectors that span the tangent plane of the sphere at (x, y, z)."""
    sign = 1.0 if z >= 0 else -1.0
    a = -1.0 / (sign + z)
    b = x * y * a
    basis[0], basis[1], basis[2] = 1.0 + sign * x * x * a, sign * b, -sign * x
    basis[3], basis[4], basis[5] = b, sign + y * y * a, -y


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
def _long(edge, eh, m, far):
    """Return whether a cell keeps a part of the frame, or is much longer than wide."""
    nearest, touches = np.inf, False
    for i in range(m):
        nearest = min(nearest, eh[i])
        touches |= edge[i] < 0
    return touches or 2.0 * far > COMPACT * nearest


@kernel
def _seen_from(pos, c, dimension, x, y, z, basis):
    """Return where a site lies as seen from the cell's, in the tangent plane, and the squared distance."""
    px, py = pos[c * dimension] - x, pos[c * dimension + 1] - y
    distance2 = px * px + py * py
    if dimension == 3:
        a, b, d = px, py, pos[c * dimension + 2] - z
        px, py = a * basis[0] + b * basis[1] + d * basis[2], a * basis[3] + b * basis[4] + d * basis[5]
        distance2 += d * d
    return px, py, distance2


@kernel
def _cut_by(u, v, ex, ey, eh, edge, m, pos, c, dimension, x, y, z, basis):
    """Cut the cell by a site; returns the new number of vertices, or -1 where nothing was cut."""
    px, py, distance2 = _seen_from(pos, c, dimension, x, y, z, basis)
    return cut(u, v, ex, ey, eh, edge, m, px, py, 0.5 * distance2, c, SLACK * distance2)


@kernel(
    "int64(float64[:, ::1], float64[:, :, ::1], float64[:, :, ::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[::1], int64, int64, uint8[::1], float64[::1], int64[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], "
    "int32[::1], float64[::1], float64[::1], uint8[::1], uint8[::1], float64[:, :, ::1], float64[:, :, ::1], "
    "float64[:, :, ::1], int32[::1], int64[::1])"
)
def cut_cells(
    vectors,
    columns_,
    children_,
    starts,
    low_,
    high_,
    bounds,
    begin,
    end,
    wanted,
    real,
    whole,
    earlier_,
    earlier_count_,
    settled_,
    degree,
    neighbours,
    area,
    radius,
    rim,
    doubt,
    line_columns_,
    line_children_,
    oriented_,
    order_,
    progress,
):
    """Cut the cells of the sites ``begin:end``; fill degree, neighbours, area, radius, rim and doubt for them.

    ``real`` and ``whole`` are workspaces; the polygon's capacity is what they hold. Returns DONE or what was too small:
    called again, it goes on. ``progress`` holds how many cells are done, how many of ``neighbours`` they fill, and how
    many nodes of the tree they visited. Once THIN was returned, the tree along lines finds what may cut long cells;
    until then it is empty.
    """
    dimension = vectors.shape[1]
    levels = starts.size - 1
    sphere = dimension == 3
    pos, columns, children = pointer(vectors), pointer(columns_), pointer(children_)
    low, high = pointer(low_), pointer(high_)
    earlier, earlier_count, settled = pointer(earlier_), pointer(earlier_count_), pointer(settled_)
    if progress[0] == 0:
        for i in range(earlier_count_.size):
            earlier_count[i] = 0
        for i in range(settled_.size):
            settled[i] = 0
    aligned = order_.size > 0
    line_columns, line_children = pointer(line_columns_), pointer(line_children_)
    oriented, order = pointer(oriented_), pointer(order_)
    first_leaf, last_leaf = begin // LEAF, begin // LEAF + settled_.size
    capacity = (real.size - BESIDES) // COLUMNS - 2 * PAD
    room = capacity + 2 * PAD
    r = shifted(pointer(real), PAD)
    u, v, ex, ey, eh = (r, shifted(r, room), shifted(r, 2 * room), shifted(r, 3 * room), shifted(r, 4 * room))
    cx, cy, cz = shifted(r, 5 * room), shifted(r, 6 * room), shifted(r, 7 * room)
    reach = shifted(r, 8 * room)
    near_box = shifted(pointer(real), COLUMNS * room)
    near_gap = shifted(near_box, 6 * NEAR)
    list_box = shifted(near_gap, NEAR)
    list_gap = shifted(list_box, 6 * LIST)
    waiting_gap = shifted(list_gap, LIST)
    bound_of = shifted(waiting_gap, STACK)
    basis = shifted(bound_of, NEAREST)
    w = pointer(whole)
    edge, found = shifted(w, PAD), shifted(w, room)
    candidate = shifted(found, NEAR)
    listed = shifted(candidate, NEAR)
    stack = shifted(listed, LIST)
    level_of = shifted(stack, STACK)
    nearest_stack = shifted(level_of, STACK)
    nearest_level = shifted(nearest_stack, NEAREST)
    basis[6] = 1.0 if sphere else 0.0
    infinite = splat(np.inf)

    node, leaf = -1, -1
    near, listed_count = 0, 0
    parent_gap, leaf_gap = 0.0, 0.0
    filled, visits = progress[1], progress[2]
    for s in range(begin + progress[0], end):
        at = s - begin
        progress[0], progress[1], progress[2] = at, filled, visits
        if not aligned and visits > VISITS + VISITS_A_CELL * at:
            return THIN
        degree[at] = 0
        rim[at] = 0
        if wanted.size > 0 and wanted[s] == 0:
            area[at] = 0.0
            radius[at] = 0.0
            continue
        own = s // LEAF
        parent = starts[1] + own // FAN if levels > 1 else 0
        if parent != node:
            node = parent
            near, parent_gap = list_near(
                starts, levels, low, high, dimension, own, node, found, near_box, stack, level_of
            )
        if own != leaf:
            leaf = own
            listed_count, leaf_gap = list_leaves(
                low,
                high,
                dimension,
                leaf,
                near,
                parent_gap,
                found,
                near_box,
                settled,
                first_leaf,
                last_leaf,
                candidate,
                near_gap,
                listed,
                list_gap,
                list_box,
            )

        x, y, z = pos[s * dimension], pos[s * dimension + 1], 0.0
        if sphere:
            z = pos[s * dimension + 2]
            tangent(x, y, z, basis)
            m = frame(u, v, ex, ey, eh, edge, -FRAME, -FRAME, FRAME, FRAME)
        else:
            m = frame(u, v, ex, ey, eh, edge, bounds[0] - x, bounds[1] - y, bounds[2] - x, bounds[3] - y)
        limit = np.inf  # squared chord from the site beyond which nothing can cut the cell
        known = earlier_count[at]
        if known > 0:
            gaps = infinite
            for t in range(min(known, EARLIER)):
                c = earlier[at * EARLIER + t]
                px, py = pos[c * dimension] - x, pos[c * dimension + 1] - y
                distance2 = px * px + py * py
                if sphere:
                    d = pos[c * dimension + 2] - z
                    distance2 += d * d
                gaps = where(1 << t, splat(distance2), gaps)
            left = (1 << min(known, EARLIER)) - 1
            while left != 0:
                distance2 = least(gaps)
                lane = trailing_zeros(left & equal(gaps, splat(distance2)))
                left ^= 1 << lane
                gaps = where(1 << lane, infinite, gaps)
                c = earlier[at * EARLIER + lane]
                px, py = pos[c * dimension] - x, pos[c * dimension + 1] - y
                if sphere:
                    pa, pb, pd = px, py, pos[c * dimension + 2] - z
                    px = pa * basis[0] + pb * basis[1] + pd * basis[2]
                    py = pa * basis[3] + pb * basis[4] + pd * basis[5]
                size = cut(u, v, ex, ey, eh, edge, m, px, py, 0.5 * distance2, c, SLACK * distance2)
                if size > 0:
                    m = size
            far = furthest(u, v, m)
            limit = 4.0 * far / (1.0 + far) if sphere else 4.0 * far

        all_of_them = False  # whether settled sites are looked at as well
        along_lines = False  # whether the tree is the one along lines
        from_tree, t, waiting = False, 0, 0
        todo = 0  # mask of listed leaves, from the eight before t
        drawn = False  # whether the discs belong to the polygon as it is
        guided = 0  # cuts of a long cell, counted from 1
        unbounded = False  # whether a corner on the frame is known to stay
        while not unbounded:
            if not from_tree:
                if todo == 0:
                    if aligned and sphere and t == WIDTH:
                        # a cell of a line, most likely: it is cut again in 3-D, by any site
                        for i in range(m):
                            unbounded |= edge[i] < 0
                        if unbounded:
                            continue
                    if t < listed_count and list_gap[t] < limit:
                        todo = above(splat(limit), lanes_at(list_gap, t)) & lanes_in(listed_count, t)
                        if t > 0:
                            if not drawn:
                                _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach)
                                drawn = True
                            todo &= _meeting(shifted(list_box, t), LIST, dimension, m, cx, cy, cz, reach)
                        t += WIDTH
                        continue
                    from_tree = True
                    if aligned and (known > EARLIER or _long(edge, eh, m, furthest(u, v, m))):
                        # all sites at once; and a cell that still reaches 80 degrees is cut again in 3-D
                        all_of_them, along_lines, guided = True, True, 1
                        stack[0], level_of[0], waiting_gap[0] = starts[levels] - 1, levels - 1, 0.0
                        waiting = 1
                        for i in range(m):
                            unbounded |= sphere and edge[i] < 0
                    elif limit > leaf_gap:
                        stack[0] = starts[levels] - 1
                        level_of[0] = levels - 1
                        waiting_gap[0] = 0.0
                        waiting = 1
                    continue
                lane = trailing_zeros(todo)
                todo &= todo - 1
                if list_gap[t - WIDTH + lane] >= limit:
                    todo = 0
                    continue
                other = listed[t - WIDTH + lane]
            else:
                if waiting == 0:
                    if all_of_them:
                        break
                    if known <= EARLIER and not _long(edge, eh, m, furthest(u, v, m)):
                        break
                    all_of_them, along_lines = True, aligned
                    stack[0] = starts[levels] - 1
                    level_of[0] = levels - 1
                    waiting_gap[0] = 0.0
                    waiting = 1
                waiting -= 1
                if waiting_gap[waiting] >= limit:
                    continue
                other, level = stack[waiting], level_of[waiting]
                visits += 1
                if level > 0:
                    if not drawn:
                        _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach)
                        drawn = True
                    nodes = line_children if along_lines else children
                    boxes = shifted(nodes, (other - starts[1]) * 2 * dimension * FAN)
                    gaps = box_gaps(boxes, FAN, dimension, x, x, y, y, z, z)
                    left = above(splat(limit), gaps)
                    if left != 0:
                        left &= _meeting(boxes, FAN, dimension, m, cx, cy, cz, reach)
                    first = starts[level - 1] + (other - starts[level]) * FAN
                    if along_lines and left != 0:
                        along = shifted(oriented, (other - starts[1]) * ROW * FAN)
                        below, cuts, i = splat(0.0) - gaps * SLACK, 0, 0
                        while i < m and cuts & left != left:
                            p, q, o = _corner(u, v, i, basis)
                            cuts |= above(below, least_along(along, dimension, x, y, z, p, q, o, 1.0))
                            i += 1
                        left &= cuts
                    while left != 0:  # the nearest on top
                        distance2 = greatest(where(left, gaps, splat(-1.0)))
                        lane = trailing_zeros(left & equal(gaps, splat(distance2)))
                        left ^= 1 << lane
                        waiting_gap[waiting] = distance2
                        stack[waiting] = first + lane
                        level_of[waiting] = level - 1
                        waiting += 1
                    continue
                if not all_of_them and (
                    box_gap(low, high, other, leaf, dimension) < leaf_gap
                    or (leaf_gap < 0.0 and other // FAN == leaf // FAN)
                ):
                    continue  # cut already, from the list

            left = ALL
            if not all_of_them and first_leaf <= other < last_leaf:
                left = ALL ^ settled[other - first_leaf]
                if left == 0:
                    continue
            column = shifted(line_columns if along_lines else columns, other * LEAF * dimension)
            dx, dy = lanes_at(column, 0) - x, lanes_at(column, LEAF) - y
            gaps = dx * dx + dy * dy
            if sphere:
                a, b, d = dx, dy, lanes_at(column, 2 * LEAF) - z
                gaps = gaps + d * d
                dx = a * basis[0] + b * basis[1] + d * basis[2]
                dy = a * basis[3] + b * basis[4] + d * basis[5]
            left &= above(splat(limit), gaps) & above(gaps, splat(0.0))
            while left != 0:
                left &= _cutting(u, v, m, dx, dy, (0.5 + SLACK) * gaps)
                if left == 0:
                    break
                distance2 = least(where(left, gaps, infinite))
                lane = trailing_zeros(left & equal(gaps, splat(distance2)))
                left ^= 1 << lane
                c = order[other * LEAF + lane] if along_lines else other * LEAF + lane
                if _owns(edge, m, c):
                    continue
                guided += guided > 0
                if PLAIN < guided < GUIDED:
                    # the nearest sites may each cut off a little; the one nearest to the corner cuts most
                    px, py, pd = _seen_from(pos, c, dimension, x, y, z, basis)
                    p, q, o = _corner(u, v, _deepest(u, v, m, px, py), basis)
                    best = nearest_beyond(
                        line_columns, vectors.shape[0], dimension, starts, line_children, oriented, order, x, y, z, p,
                        q, o, 1.0, SLACK, 0.0, edge, m, nearest_stack, nearest_level, bound_of,
                    )  # fmt: skip
                    if best >= 0 and best != c:
                        size = _cut_by(u, v, ex, ey, eh, edge, m, pos, best, dimension, x, y, z, basis)
                        if size > 0:
                            m = size
                            left |= 1 << lane
                            if m + 2 > capacity:
                                return MORE_VERTICES
                            drawn = False
                            far = furthest(u, v, m)
                            limit = 4.0 * far / (1.0 + far) if sphere else 4.0 * far
                            continue
                size = _cut_by(u, v, ex, ey, eh, edge, m, pos, c, dimension, x, y, z, basis)
                if size < 0:
                    continue
                m = size
                if m + 2 > capacity:
                    return MORE_VERTICES
                drawn = False
                far = furthest(u, v, m)
                limit = 4.0 * far / (1.0 + far) if sphere else 4.0 * far

        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        before = filled
        touches_rim = 0
        nearest = np.inf
        for i in range(m):
            if edge[i] < 0:
                touches_rim = 1
                continue
            nearest = min(nearest, eh[i])
            neighbours[filled] = edge[i]
            filled += 1
        degree[at] = filled - before
        rim[at] = touches_rim
        far = furthest(u, v, m)
        if sphere:
            area[at] = sphere_area(u, v, m)
            radius[at] = chord(far)
        else:
            area[at] = plane_area(u, v, m)
            radius[at] = np.sqrt(far)
        if touches_rim == 0 and 2.0 * far <= COMPACT * nearest:
            settled[own - first_leaf] |= 1 << (s % LEAF)
        # the edges with sites before this one must be those that they have listed
        agreed, strange = 0, known > EARLIER
        for t in range(before, filled):
            c = neighbours[t]
            if s < c < end:
                k = earlier_count[c - begin]
                if k < EARLIER:
                    earlier[(c - begin) * EARLIER + k] = s
                earlier_count[c - begin] = min(k + 1, EARLIER + 1)
            elif begin <= c < s:
                listed_before = False
                for i in range(min(known, EARLIER)):
                    listed_before |= earlier[at * EARLIER + i] == c
                agreed += 1
                strange |= not listed_before
            else:
                strange = True
        doubt[at] = strange or agreed != known
    progress[0], progress[1], progress[2] = end - begin, filled, visits
    return DONE
