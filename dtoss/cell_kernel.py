"""The cell kernel: each Voronoi cell by itself, cut by nearer sites first, until no site left could change it.

Dissertation, section 3.1.2: start from a bounding polygon, cut it by sites in growing rings, stop when the next ring
lies outside the influence region. The rings are leaves of the box tree: first those near the site's own leaf, listed
once for all its sites, nearest first; where the list ends too early (the rim of a cluster, long thin cells), the tree
is searched by the discs round the cell's vertices, which are what could still hold a neighbour.
"""

from __future__ import annotations

import numpy as np

from dtoss.boxes import FAN, LEAF
from dtoss.kernels import kernel
from dtoss.pointers import pointer, shifted
from dtoss.polygon import FRAME, SLACK, chord, cut, frame, furthest, plane_area, sphere_area

NEAR = 128
"""Leaves listed for one parent node at the most."""
LIST = 48
"""Leaves kept of these for one leaf, the nearest first."""
STACK = 1024
REACH = 2.0
"""Half-width of the first ring, in mean distances between sites."""
FIRST = 9
"""Leaves cut without a look at the discs round the vertices."""

DONE, MORE_VERTICES, MORE_NEIGHBOURS = 0, 1, 2


@kernel
def _box_gap(low, high, a, b, dimension):
    gap = 0.0
    for axis in range(dimension):
        d = max(
            low[a * dimension + axis] - high[b * dimension + axis],
            low[b * dimension + axis] - high[a * dimension + axis],
        )
        if d > 0:
            gap += d * d
    return gap


@kernel
def _point_gap(low, high, node, x, y, z, dimension):
    at = node * dimension
    a = max(max(low[at] - x, x - high[at]), 0.0)
    b = max(max(low[at + 1] - y, y - high[at + 1]), 0.0)
    gap = a * a + b * b
    if dimension == 3:
        c = max(max(low[at + 2] - z, z - high[at + 2]), 0.0)
        gap += c * c
    return gap


@kernel
def _leaves_near(starts, levels, low, high, dimension, node, gap, found, stack, level_of):
    """List the leaves whose box lies within sqrt(gap) of a node's box; -1 if there are more than NEAR."""
    stack[0] = starts[levels] - 1
    level_of[0] = levels - 1
    waiting = 1
    count = 0
    while waiting > 0:
        waiting -= 1
        at, level = stack[waiting], level_of[waiting]
        if level == 0:
            if count == NEAR:
                return -1
            found[count] = at
            count += 1
            continue
        first = starts[level - 1] + (at - starts[level]) * FAN
        for child in range(first, min(starts[level], first + FAN)):
            if _box_gap(low, high, child, node, dimension) <= gap:
                stack[waiting] = child
                level_of[waiting] = level - 1
                waiting += 1
    return count


@kernel
def _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach):
    """Centres and squared radii of the discs round the vertices through the site: the influence region."""
    if basis[6] == 0.0:
        for i in range(m):
            cx[i], cy[i], cz[i] = x + u[i], y + v[i], 0.0
            reach[i] = u[i] * u[i] + v[i] * v[i]
        return
    for i in range(m):
        f = 1.0 / np.sqrt(1.0 + u[i] * u[i] + v[i] * v[i])
        cx[i] = f * (x + u[i] * basis[0] + v[i] * basis[3])
        cy[i] = f * (y + u[i] * basis[1] + v[i] * basis[4])
        cz[i] = f * (z + u[i] * basis[2] + v[i] * basis[5])
        a, b, c = cx[i] - x, cy[i] - y, cz[i] - z
        reach[i] = a * a + b * b + c * c


@kernel
def _meets(low, high, node, dimension, m, cx, cy, cz, reach):
    at = node * dimension
    x0, x1, y0, y1 = low[at], high[at], low[at + 1], high[at + 1]
    if dimension == 2:
        for i in range(m):
            a = max(max(x0 - cx[i], cx[i] - x1), 0.0)
            b = max(max(y0 - cy[i], cy[i] - y1), 0.0)
            if a * a + b * b < reach[i]:
                return True
        return False
    z0, z1 = low[at + 2], high[at + 2]
    for i in range(m):
        a = max(max(x0 - cx[i], cx[i] - x1), 0.0)
        b = max(max(y0 - cy[i], cy[i] - y1), 0.0)
        c = max(max(z0 - cz[i], cz[i] - z1), 0.0)
        if a * a + b * b + c * c < reach[i]:
            return True
    return False


@kernel
def tangent(x, y, z, basis):
    """Fill ``basis[0:6]`` with two unit vectors that span the tangent plane of the sphere at (x, y, z)."""
    sign = 1.0 if z >= 0 else -1.0
    a = -1.0 / (sign + z)
    b = x * y * a
    basis[0], basis[1], basis[2] = 1.0 + sign * x * x * a, sign * b, -sign * x
    basis[3], basis[4], basis[5] = b, sign + y * y * a, -y


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1], float64[::1], int64, int64, uint8[::1], "
    "float64[::1], int64[::1], int32[::1], int32[::1], float64[::1], float64[::1], uint8[::1])"
)
def cut_cells(
    vectors,
    starts,
    low_,
    high_,
    bounds,
    begin,
    end,
    wanted,
    real,
    whole,
    degree,
    neighbours,
    area,
    radius,
    rim,
):
    """Cut the cells of the sites ``begin:end``; fill degree, neighbours, area, radius and rim for them.

    ``real`` and ``whole`` are workspaces; the polygon's capacity is what they hold. Returns DONE or what was too small.
    """
    n, dimension = vectors.shape
    levels = starts.size - 1
    sphere = dimension == 3
    pos = pointer(vectors)
    low, high = pointer(low_), pointer(high_)
    capacity = (real.size - 2 * LIST - 2 - STACK - 8) // 9
    r = pointer(real)
    u, v, ex, ey, eh = (
        r,
        shifted(r, capacity),
        shifted(r, 2 * capacity),
        shifted(r, 3 * capacity),
        shifted(r, 4 * capacity),
    )
    cx, cy, cz = shifted(r, 5 * capacity), shifted(r, 6 * capacity), shifted(r, 7 * capacity)
    reach = shifted(r, 8 * capacity)
    gap_of = shifted(r, 9 * capacity)
    waiting_gap = shifted(gap_of, LIST + 1)
    basis = shifted(waiting_gap, STACK)
    w = pointer(whole)
    edge, found, listed = w, shifted(w, capacity), shifted(w, capacity + NEAR)
    stack = shifted(listed, LIST + 1)
    level_of = shifted(stack, STACK)
    basis[6] = 1.0 if sphere else 0.0

    node, leaf = -1, -1
    near, listed_count = 0, 0
    parent_gap, leaf_gap = 0.0, 0.0
    filled = 0
    for s in range(begin, end):
        at = s - begin
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
            diagonal = 0.0
            for axis in range(dimension):
                side = high[node * dimension + axis] - low[node * dimension + axis]
                diagonal += side * side
            parent_gap = REACH * REACH * diagonal / (LEAF * FAN)
            near = -1
            for _ in range(3):
                near = _leaves_near(starts, levels, low, high, dimension, node, parent_gap, found, stack, level_of)
                if near >= 0:
                    break
                parent_gap *= 0.125
            if near < 0:
                # the box of this node covers other nodes' sites; its own leaves come first and the tree does the rest
                parent_gap = -1.0
                near = 0
                first = own // FAN * FAN
                for other in range(first, min(first + FAN, starts[1])):
                    found[near] = other
                    near += 1
        if own != leaf:
            leaf = own
            listed_count = 0
            leaf_gap = parent_gap
            for t in range(near):
                other = found[t]
                gap = _box_gap(low, high, other, leaf, dimension)
                if other == leaf:
                    gap = -1.0
                if gap >= leaf_gap >= 0.0:
                    continue  # others as near are not known here: left to the tree
                i = listed_count
                while i > 0 and gap_of[i - 1] > gap:
                    gap_of[i] = gap_of[i - 1]
                    listed[i] = listed[i - 1]
                    i -= 1
                gap_of[i] = gap
                listed[i] = other
                if listed_count == LIST:
                    leaf_gap = gap_of[LIST]
                else:
                    listed_count += 1

        x, y, z = pos[s * dimension], pos[s * dimension + 1], 0.0
        if sphere:
            z = pos[s * dimension + 2]
            tangent(x, y, z, basis)
            m = frame(u, v, ex, ey, eh, edge, -FRAME, -FRAME, FRAME, FRAME)
        else:
            m = frame(u, v, ex, ey, eh, edge, bounds[0] - x, bounds[1] - y, bounds[2] - x, bounds[3] - y)
        limit = np.inf  # squared chord from the site beyond which nothing can cut the cell
        from_tree, t, waiting = False, 0, 0
        drawn = False  # whether the discs belong to the polygon as it is
        while True:
            if not from_tree:
                if t == listed_count or gap_of[t] >= limit:
                    if limit <= leaf_gap:
                        break
                    from_tree = True
                    stack[0] = starts[levels] - 1
                    level_of[0] = levels - 1
                    waiting_gap[0] = 0.0
                    waiting = 1
                    continue
                other = listed[t]
                t += 1
                if t > FIRST:
                    if not drawn:
                        _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach)
                        drawn = True
                    if not _meets(low, high, other, dimension, m, cx, cy, cz, reach):
                        continue
            else:
                if waiting == 0:
                    break
                waiting -= 1
                if waiting_gap[waiting] >= limit:
                    continue
                other, level = stack[waiting], level_of[waiting]
                if not drawn:
                    _discs(u, v, m, x, y, z, basis, cx, cy, cz, reach)
                    drawn = True
                if not _meets(low, high, other, dimension, m, cx, cy, cz, reach):
                    continue
                if level > 0:
                    base = waiting
                    first = starts[level - 1] + (other - starts[level]) * FAN
                    for child in range(first, min(starts[level], first + FAN)):
                        gap = _point_gap(low, high, child, x, y, z, dimension)
                        if gap >= limit:
                            continue
                        i = waiting
                        while i > base and waiting_gap[i - 1] < gap:
                            waiting_gap[i] = waiting_gap[i - 1]
                            stack[i] = stack[i - 1]
                            i -= 1
                        waiting_gap[i] = gap
                        stack[i] = child
                        level_of[waiting] = level - 1
                        waiting += 1
                    continue
                if _box_gap(low, high, other, leaf, dimension) < leaf_gap or (
                    leaf_gap < 0.0 and other // FAN == leaf // FAN
                ):
                    continue  # cut already, from the list

            for c in range(other * LEAF, min(n, other * LEAF + LEAF)):
                if c == s:
                    continue
                a = pos[c * dimension] - x
                b = pos[c * dimension + 1] - y
                distance2 = a * a + b * b
                if sphere:
                    d = pos[c * dimension + 2] - z
                    distance2 += d * d
                    if distance2 >= limit:
                        continue
                    dx = a * basis[0] + b * basis[1] + d * basis[2]
                    dy = a * basis[3] + b * basis[4] + d * basis[5]
                else:
                    if distance2 >= limit:
                        continue
                    dx, dy = a, b
                if distance2 == 0.0:
                    continue
                size = cut(u, v, ex, ey, eh, edge, m, dx, dy, 0.5 * distance2, c, SLACK * distance2)
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
        touches = 0
        for i in range(m):
            if edge[i] < 0:
                touches = 1
                continue
            # rounding may cut a corner shared by four cells by the same site twice
            listed_before = False
            for t in range(before, filled):
                listed_before |= neighbours[t] == edge[i]
            if not listed_before:
                neighbours[filled] = edge[i]
                filled += 1
        degree[at] = filled - before
        rim[at] = touches
        far = furthest(u, v, m)
        if sphere:
            area[at] = sphere_area(u, v, m)
            radius[at] = chord(far)
        else:
            area[at] = plane_area(u, v, m)
            radius[at] = np.sqrt(far)
    return DONE
