"""Cells of the sphere that reach far from their site, cut in 3-D.

The gnomonic picture of a cell ends before 90 degrees. A cell that reaches 80 degrees from its site is cut again with
unit vectors as vertices: start with the hemisphere against its nearest other site, cut by the planes of the other
sites. Their normal is the same line as in the tangent plane, ``dx * e1 + dy * e2 - h * s``, so both pictures agree
where they overlap.
"""

from __future__ import annotations

import numpy as np

from dtoss.boxes import FAN, LEAF
from dtoss.cell_kernel import DONE, MORE_NEIGHBOURS, MORE_VERTICES, tangent
from dtoss.kernels import kernel
from dtoss.pointers import pointer

_EPSILON = 4e-16
_ROUNDING = 4e-15
_NO_LENGTH = 1e-24
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
def _reaches(low, high, node, corner, m, x, y, z):
    """Return whether a box may hold a site nearer to one of the corners than (x, y, z) is.

    A site is nearer to a corner than another just when it is further from the corner's antipode; boxes are tight for
    the first test near the corner and for the second near the antipode.
    """
    for i in range(m):
        a, b, c = corner[i, 0], corner[i, 1], corner[i, 2]
        near, far = 0.0, 0.0
        for axis in range(3):
            at = a if axis == 0 else (b if axis == 1 else c)
            gap = max(max(low[node, axis] - at, at - high[node, axis]), 0.0)
            near += gap * gap
            reach = max(abs(low[node, axis] + at), abs(high[node, axis] + at))
            far += reach * reach
        if near < (x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2 + _ROUNDING:
            opposite = (x + a) ** 2 + (y + b) ** 2 + (z + c) ** 2
            if far > opposite * (1.0 - _ROUNDING):
                return True
    return False


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], int32[::1], int64, "
    "int32[::1], int32[::1], float64[::1], float64[::1], float64[:, ::1], int64[::1], int64[::1])"
)
def cut_rim_cells(
    vectors,
    starts,
    low,
    high,
    sites,
    first_of,
    known,
    capacity,
    degree,
    neighbours,
    area,
    radius,
    corners,
    owner,
    corner_count,
):
    """Cut the cells of ``sites`` in 3-D.

    ``known[first_of[i]:first_of[i + 1]]`` are near sites to cut with first. Fills degree, neighbours, area (solid
    angle), radius (chord) and, where ``corners`` has rows, the corners of each cell one after another, each with the
    owner of the edge that begins in it. Returns DONE or what was too small.
    """
    n = vectors.shape[0]
    levels = starts.size - 1
    corner, line = np.empty((capacity, 3)), np.empty((capacity, 3))
    spare, spare_line = np.empty((capacity, 3)), np.empty((capacity, 3))
    edge, spare_edge = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    basis_ = np.empty(7)
    basis = pointer(basis_)
    normal = np.empty(3)
    stack, level_of = np.empty(STACK, np.int64), np.empty(STACK, np.int64)
    waiting_gap = np.empty(STACK)
    filled, drawn = 0, 0
    for r in range(sites.size):
        s = sites[r]
        x, y, z = vectors[s, 0], vectors[s, 1], vectors[s, 2]
        tangent(x, y, z, basis)
        nearest, gap = -1, np.inf
        for t in range(first_of[r], first_of[r + 1]):
            c = known[t]
            a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
            if a * a + b * b + d * d < gap and c != s:
                nearest, gap = c, a * a + b * b + d * d
        if nearest < 0:
            for c in range(n):
                a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
                if a * a + b * b + d * d < gap and c != s:
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
                if c in (s, nearest):
                    continue
                _normal(x, y, z, basis, vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z, normal)
                size = _cut(corner, edge, line, m, normal, c, spare, spare_edge, spare_line)
                if size > 0:
                    m = size
                if m + 3 > capacity:
                    return MORE_VERTICES
            stack[0], level_of[0], waiting_gap[0] = starts[levels] - 1, levels - 1, 0.0
            waiting = 1
            while waiting > 0:
                waiting -= 1
                node, level = stack[waiting], level_of[waiting]
                if not _reaches(low, high, node, corner, m, x, y, z):
                    continue
                if level > 0:
                    base = waiting
                    first = starts[level - 1] + (node - starts[level]) * FAN
                    for child in range(first, min(starts[level], first + FAN)):
                        a = max(max(low[child, 0] - x, x - high[child, 0]), 0.0)
                        b = max(max(low[child, 1] - y, y - high[child, 1]), 0.0)
                        d = max(max(low[child, 2] - z, z - high[child, 2]), 0.0)
                        gap = a * a + b * b + d * d
                        i = waiting
                        while i > base and waiting_gap[i - 1] < gap:
                            waiting_gap[i] = waiting_gap[i - 1]
                            stack[i] = stack[i - 1]
                            i -= 1
                        waiting_gap[i], stack[i] = gap, child
                        level_of[waiting] = level - 1
                        waiting += 1
                    continue
                for c in range(node * LEAF, min(n, node * LEAF + LEAF)):
                    if c == s:
                        continue
                    a, b, d = vectors[c, 0] - x, vectors[c, 1] - y, vectors[c, 2] - z
                    if a * a + b * b + d * d == 0.0:
                        continue
                    _normal(x, y, z, basis, a, b, d, normal)
                    size = _cut(corner, edge, line, m, normal, c, spare, spare_edge, spare_line)
                    if size > 0:
                        m = size
                    if m + 3 > capacity:
                        return MORE_VERTICES
        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        before = filled
        for i in range(m):
            listed = False
            for t in range(before, filled):
                listed |= neighbours[t] == edge[i]
            if not listed:
                neighbours[filled] = edge[i]
                filled += 1
        degree[r] = filled - before
        area[r] = _area(corner, line, m, spare_edge)
        far = 0.0
        for i in range(m):
            far = max(far, (corner[i, 0] - x) ** 2 + (corner[i, 1] - y) ** 2 + (corner[i, 2] - z) ** 2)
        radius[r] = np.sqrt(far) if m > 0 else 2.0
        if corners.shape[0] > 0:
            if drawn + m > corners.shape[0]:
                return MORE_VERTICES
            for i in range(m):
                for axis in range(3):
                    corners[drawn + i, axis] = corner[i, axis]
                owner[drawn + i] = edge[i]
            drawn += m
            corner_count[r] = m
    basis_[6] = 0.0
    return DONE
