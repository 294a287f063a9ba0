"""Cells of the sphere that reach far from their site, cut in 3-D.

The gnomonic picture of a cell ends before 90 degrees. A cell that reaches 80 degrees from its site is cut again with
unit vectors as vertices: start with the hemisphere against its nearest other site, cut by the planes of the other
sites. Their normal is the same line as in the tangent plane, ``dx * e1 + dy * e2 - h * s``, so both pictures agree
where they overlap.
"""

from __future__ import annotations

import numpy as np

from dtoss.boxes import FAN, LEAF
from dtoss.cell_kernel import DONE, GUIDED, MORE_NEIGHBOURS, MORE_VERTICES, PLAIN, THIN, VISITS_A_CELL, tangent
from dtoss.eights import WIDTH, above, lanes_at, splat
from dtoss.kernels import kernel
from dtoss.oriented import NEAREST, least_in_box, least_of_lanes, nearest_beyond
from dtoss.pointers import pointer, shifted
from dtoss.polygon import PAD, lanes_in

_EPSILON = 4e-16
_NO_LENGTH = 1e-24
_CROWDED = 4.0
"""How much deeper a cut must be where more than GUIDED sites have cut a cell: many that meet in one corner, mostly."""
STACK = 1024


@kernel
def _normal(x, y, z, basis, a, b, c, out):
    """Fill the unit normal of the plane between (x, y, z) and the site at (a, b, c) from it, pointing there."""
    dx = a * basis[0] + b * basis[1] + c * basis[2]
    dy = a * basis[3] + b * basis[4] + c * basis[5]
    h = 0.5 * (a * a + b * b + c * c)
    f = 1.0 / np.sqrt(dx * dx + dy * dy + h * h)
    out[0] = f * (dx * basis[0] + dy * basis[3] - h * x)
    out[1] = f * (dx * basis[1] + dy * basis[4] - h * y)
    out[2] = f * (dx * basis[2] + dy * basis[5] - h * z)


@kernel
def _place(corner, edge, line, at, x, y, z, owner, nx, ny, nz):
    length = 1.0 / np.sqrt(x * x + y * y + z * z)
    corner[at, 0], corner[at, 1], corner[at, 2] = x * length, y * length, z * length
    edge[at] = owner
    line[at, 0], line[at, 1], line[at, 2] = nx, ny, nz


@kernel
def _hemisphere(corner, edge, line, n, owner):
    """Start from the hemisphere ``x . n <= 0``: four points on its rim, counter-clockwise seen from inside it."""
    inward = np.empty(7)
    tangent(-n[0], -n[1], -n[2], pointer(inward))
    for i in range(4):
        a = 1.0 if i == 0 else (-1.0 if i == 2 else 0.0)
        b = 1.0 if i == 1 else (-1.0 if i == 3 else 0.0)
        _place(
            corner,
            edge,
            line,
            i,
            a * inward[0] + b * inward[3],
            a * inward[1] + b * inward[4],
            a * inward[2] + b * inward[5],
            owner,
            n[0],
            n[1],
            n[2],
        )
    # keeps the basis alive while the pointer to it is used
    inward[6] = 0.0
    return 4


@kernel
def _depth(corner, i, n):
    return corner[i, 0] * n[0] + corner[i, 1] * n[1] + corner[i, 2] * n[2]


@kernel
def _cut(corner, edge, line, m, n, owner, spare, spare_edge, spare_line):
    """Cut the polygon by ``x . n <= 0``; returns the number of corners, or -1 where nothing was cut.

    The run of corners outside that holds the furthest one is removed, and all others stay, whatever rounding says of
    them.
    """
    deepest, far = _EPSILON, -1
    for i in range(m):
        depth = _depth(corner, i, n)
        if depth > deepest:
            deepest, far = depth, i
    if far < 0:
        return -1
    last_out, enter = far, far + 1 if far + 1 < m else 0
    while enter != far and _depth(corner, enter, n) > _EPSILON:
        last_out, enter = enter, enter + 1 if enter + 1 < m else 0
    if enter == far:
        return -1
    first_out, leave = far, far - 1 if far > 0 else m - 1
    while _depth(corner, leave, n) > _EPSILON:
        first_out, leave = leave, leave - 1 if leave > 0 else m - 1

    a = _depth(corner, last_out, n)
    f = a / (a - min(_depth(corner, enter, n), 0.0))
    x = corner[last_out, 0] + f * (corner[enter, 0] - corner[last_out, 0])
    y = corner[last_out, 1] + f * (corner[enter, 1] - corner[last_out, 1])
    z = corner[last_out, 2] + f * (corner[enter, 2] - corner[last_out, 2])
    kept = line[last_out]
    _place(spare, spare_edge, spare_line, 0, x, y, z, edge[last_out], kept[0], kept[1], kept[2])
    size = 1
    i = enter
    while True:
        for axis in range(3):
            spare[size, axis] = corner[i, axis]
            spare_line[size, axis] = line[i, axis]
        spare_edge[size] = edge[i]
        size += 1
        if i == leave:
            break
        i = i + 1 if i + 1 < m else 0
    a = min(_depth(corner, leave, n), 0.0)
    f = a / (a - _depth(corner, first_out, n))
    x = corner[leave, 0] + f * (corner[first_out, 0] - corner[leave, 0])
    y = corner[leave, 1] + f * (corner[first_out, 1] - corner[leave, 1])
    z = corner[leave, 2] + f * (corner[first_out, 2] - corner[leave, 2])
    _place(spare, spare_edge, spare_line, size, x, y, z, owner, n[0], n[1], n[2])
    size += 1
    # a lune's new edge is half a great circle: its middle keeps every arc shorter than that
    px, py, pz = spare[size - 1, 0], spare[size - 1, 1], spare[size - 1, 2]
    if px * spare[0, 0] + py * spare[0, 1] + pz * spare[0, 2] < -0.5:
        # along the great circle, counter-clockwise round the inside: -n x p
        x, y, z = -(n[1] * pz - n[2] * py), -(n[2] * px - n[0] * pz), -(n[0] * py - n[1] * px)
        _place(spare, spare_edge, spare_line, size, x, y, z, owner, n[0], n[1], n[2])
        size += 1
    for i in range(size):
        for axis in range(3):
            corner[i, axis] = spare[i, axis]
            line[i, axis] = spare_line[i, axis]
        edge[i] = spare_edge[i]
    return size


@kernel
def _area(corner, line, m, kept):
    """Return the solid angle of a polygon by its angles: 2 pi less how much its border turns.

    A fan of triangles from the site would lose all digits at corners near its antipode. Edges of no length are passed
    over: where many planes meet in one corner, rounding puts them in any order.
    """
    if m == 0:
        return 4.0 * np.pi
    count = 0
    for i in range(m):
        j = i + 1 if i + 1 < m else 0
        a, b, c = corner[j, 0] - corner[i, 0], corner[j, 1] - corner[i, 1], corner[j, 2] - corner[i, 2]
        if a * a + b * b + c * c > _NO_LENGTH:
            kept[count] = i
            count += 1
    turned = 0.0
    before = kept[count - 1]
    for t in range(count):
        i = kept[t]
        px, py, pz = line[before, 0], line[before, 1], line[before, 2]
        qx, qy, qz = line[i, 0], line[i, 1], line[i, 2]
        a, b, c = py * qz - pz * qy, pz * qx - px * qz, px * qy - py * qx
        across = a * corner[i, 0] + b * corner[i, 1] + c * corner[i, 2]
        turned += np.arctan2(across, px * qx + py * qy + pz * qz)
        before = i
    return 2.0 * np.pi - turned


@kernel
def _corners(corner, m, x, y, z, basis, vx, vy, vz, kappa):
    """Fill the columns by which boxes see the corners (``dtoss/oriented.py``)."""
    for i in range(m):
        a, b, c = corner[i, 0], corner[i, 1], corner[i, 2]
        u, v = a * basis[0] + b * basis[1] + c * basis[2], a * basis[3] + b * basis[4] + c * basis[5]
        vx[i], vy[i], vz[i] = u * basis[0] + v * basis[3], u * basis[1] + v * basis[4], u * basis[2] + v * basis[5]
        kappa[i] = a * x + b * y + c * z


@kernel
def _cut_corner(vx, vy, vz, kappa, m, a, b, c, gap, rounding):
    """Return the corner that the site at (a, b, c) from the cell's cuts off deepest, or -1."""
    below, cuts = splat(-rounding * np.sqrt(gap)), 0
    for i in range(0, m, WIDTH):
        lanes = lanes_at(kappa, i) * (0.5 * gap) - (lanes_at(vx, i) * a + lanes_at(vy, i) * b + lanes_at(vz, i) * c)
        cuts |= above(below, lanes) & lanes_in(m, i)
    if cuts == 0:
        return -1
    least, deepest = np.inf, -1
    for i in range(m):
        at = 0.5 * kappa[i] * gap - (vx[i] * a + vy[i] * b + vz[i] * c)
        if at < least:
            least, deepest = at, i
    return deepest


@kernel
def _reaches(low, high, aligned, oriented, node, gap, x, y, z, vx, vy, vz, kappa, m, rounding):
    """Return whether a node, ``sqrt(gap)`` away at the least, may hold a site that cuts the cell."""
    below, cuts = splat(-rounding * np.sqrt(gap)), 0
    for i in range(0, m, WIDTH):
        if aligned:
            lanes = least_of_lanes(oriented, node, 3, x, y, z, vx, vy, vz, kappa, i)
        else:
            lanes = least_in_box(low, high, node, x, y, z, vx, vy, vz, kappa, i)
        cuts |= above(below, lanes) & lanes_in(m, i)
    return cuts != 0


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1], "
    "float64[:, ::1], int64[::1], int32[::1], float64[::1], int32[::1], int32[::1], float64[::1], float64[::1], "
    "float64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def cut_rim_cells(
    centres,
    sites,
    vectors,
    starts,
    low_,
    high_,
    oriented_,
    first_of,
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
):
    """Cut cells in 3-D: those of ``centres``, the numbers ``sites`` of the vectors, -1 where they are none.

    ``known[first_of[i]:first_of[i + 1]]`` are near sites to cut with first; without a tree, all there are. Fills
    degree, neighbours, area (solid angle), radius (chord) and, where ``corners`` has rows, the corners of each cell one
    after another, each with the owner of the edge that begins in it. Returns DONE or what was too small: called again,
    it goes on. ``progress`` holds how many cells are done, how many of ``neighbours`` and of ``corners`` they fill, and
    how many nodes of the tree they visited. ``oriented_`` has no rows until THIN was returned.
    """
    n = vectors.shape[0]
    levels = starts.size - 1
    capacity = real.size // 4 - 2 * PAD
    vx = shifted(pointer(real), PAD)
    vy, vz, kappa = shifted(vx, real.size // 4), shifted(vx, real.size // 2), shifted(vx, real.size // 4 * 3)
    pos, low, high, oriented = pointer(vectors), pointer(low_), pointer(high_), pointer(oriented_)
    aligned = oriented_.shape[0] > 0
    corner, line = np.empty((capacity, 3)), np.empty((capacity, 3))
    spare, spare_line = np.empty((capacity, 3)), np.empty((capacity, 3))
    edge, spare_edge = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    basis_ = np.empty(7)
    basis = pointer(basis_)
    normal = np.empty(3)
    stack, level_of = np.empty(STACK, np.int64), np.empty(STACK, np.int64)
    waiting_gap = np.empty(STACK)
    nearest_stack, nearest_level = np.empty(NEAREST, np.int64), np.empty(NEAREST, np.int64)
    bound_of = np.empty(NEAREST)
    listed = np.full(n, -1, np.int32)
    filled, drawn, visits = progress[1], progress[2], progress[3]
    for r in range(progress[0], sites.size):
        progress[0], progress[1], progress[2], progress[3] = r, filled, drawn, visits
        if not aligned and levels > 0 and visits > n // 4 + VISITS_A_CELL * r:
            return THIN
        x, y, z = centres[r, 0], centres[r, 1], centres[r, 2]
        tangent(x, y, z, basis)
        nearest, gap = -1, np.inf
        for t in range(first_of[r], first_of[r + 1]):
            c = known[t]
            a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
            if 0.0 < a * a + b * b + d * d < gap:
                nearest, gap = c, a * a + b * b + d * d
        if nearest < 0 and levels > 0:
            for c in range(n):
                a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
                if 0.0 < a * a + b * b + d * d < gap:
                    nearest, gap = c, a * a + b * b + d * d
        m = 0
        if nearest >= 0:
            _normal(
                x,
                y,
                z,
                basis,
                vectors[nearest, 0] - x,
                vectors[nearest, 1] - y,
                vectors[nearest, 2] - z,
                normal,
            )
            m = _hemisphere(corner, edge, line, normal, nearest)
            for t in range(first_of[r], first_of[r + 1]):
                c = known[t]
                a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
                if c == nearest or a * a + b * b + d * d == 0.0:
                    continue
                _normal(x, y, z, basis, a, b, d, normal)
                size = _cut(corner, edge, line, m, normal, c, spare, spare_edge, spare_line)
                if size > 0:
                    m = size
                if m + 3 > capacity:
                    return MORE_VERTICES
            waiting = 0
            if levels > 0:
                stack[0], level_of[0], waiting_gap[0] = starts[levels] - 1, levels - 1, 0.0
                waiting = 1
            seen, cuts, rounding = False, 0, _EPSILON
            while waiting > 0:
                waiting -= 1
                visits += 1
                node, level = stack[waiting], level_of[waiting]
                if not seen:
                    _corners(corner, m, x, y, z, basis, vx, vy, vz, kappa)
                    seen = True
                if level > 0:
                    base = waiting
                    first = starts[level - 1] + (node - starts[level]) * FAN
                    for child in range(first, min(starts[level], first + FAN)):
                        a = max(max(low[child * 3] - x, x - high[child * 3]), 0.0)
                        b = max(max(low[child * 3 + 1] - y, y - high[child * 3 + 1]), 0.0)
                        d = max(max(low[child * 3 + 2] - z, z - high[child * 3 + 2]), 0.0)
                        gap = a * a + b * b + d * d
                        if not _reaches(
                            low, high, aligned, oriented, child, gap, x, y, z, vx, vy, vz, kappa, m, rounding
                        ):
                            continue
                        i = waiting
                        while i > base and waiting_gap[i - 1] < gap:
                            waiting_gap[i] = waiting_gap[i - 1]
                            stack[i] = stack[i - 1]
                            i -= 1
                        waiting_gap[i], stack[i] = gap, child
                        level_of[waiting] = level - 1
                        waiting += 1
                    continue
                c = node * LEAF
                while c < min(n, node * LEAF + LEAF):
                    a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
                    gap = a * a + b * b + d * d
                    if gap == 0.0:
                        c += 1
                        continue
                    if not seen:
                        _corners(corner, m, x, y, z, basis, vx, vy, vz, kappa)
                        seen = True
                    i = _cut_corner(vx, vy, vz, kappa, m, a, b, d, gap, rounding)
                    if i < 0:
                        c += 1
                        continue
                    by = c
                    cuts += 1
                    if cuts > GUIDED:
                        rounding = _CROWDED * _EPSILON
                    elif aligned and cuts > PLAIN:
                        # the nearest sites may each cut off a little; the one nearest to the corner cuts most
                        by = nearest_beyond(
                            pos, n, 3, starts, low, high, oriented, x, y, z, vx[i], vy[i], vz[i], kappa[i], 0.0,
                            _EPSILON, edge, m, nearest_stack, nearest_level, bound_of,
                        )  # fmt: skip
                        if by < 0:
                            by = c
                    a, b, d = vectors[by, 0] - x, vectors[by, 1] - y, vectors[by, 2] - z
                    _normal(x, y, z, basis, a, b, d, normal)
                    size = _cut(corner, edge, line, m, normal, by, spare, spare_edge, spare_line)
                    if size > 0:
                        m, seen = size, False
                    if size < 0 or by == c:
                        c += 1
                    if m + 3 > capacity:
                        return MORE_VERTICES
        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        if corners.shape[0] > 0:
            if drawn + m > corners.shape[0]:
                return MORE_NEIGHBOURS
            for i in range(m):
                for axis in range(3):
                    corners[drawn + i, axis] = corner[i, axis]
                owner[drawn + i] = edge[i]
            drawn += m
        corner_count[r] = m
        before = filled
        for i in range(m):
            if listed[edge[i]] != r:
                listed[edge[i]] = r
                neighbours[filled] = edge[i]
                filled += 1
        degree[r] = filled - before
        area[r] = _area(corner, line, m, spare_edge)
        far = 0.0
        for i in range(m):
            far = max(far, (corner[i, 0] - x) ** 2 + (corner[i, 1] - y) ** 2 + (corner[i, 2] - z) ** 2)
        radius[r] = np.sqrt(far) if m > 0 else 2.0
    basis_[6] = 0.0
    progress[0], progress[1], progress[2], progress[3] = sites.size, filled, drawn, visits
    return DONE
