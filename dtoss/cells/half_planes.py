"""A convex polygon round the origin, cut by half-planes: the shape of a cell in the tangent plane of its site.

The plane is the plane itself; on the sphere it is the gnomonic projection centred at the site, where another site
cuts the cell by the line ``u * dx + v * dy = |chord|^2 / 2`` just as in the plane. (dx, dy) are the tangent
components of the other site seen from this one.

A polygon of m vertices is six columns behind pointers, an ``Outline`` (``dtoss/cells/cell_arguments.py``): vertices (u,
v) counter-clockwise; edge i runs from vertex i to vertex i + 1 on the line ``ex * u + ey * v = eh`` and belongs to site
``edge[i]``, or to the starting frame if that is negative.

The tangent plane at a site: the basis that spans it, and where others lie as seen from there.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, greatest, lanes_at, larger, put_lanes, roots, splat, total, where
from dtoss.compiled.pointers import bits_float, trailing_zeros
from dtoss.geometry.distance import SPHERE, YMAX
from dtoss.geometry.rounding import ACUTE, PARALLEL

FRAME = 5.671281819617709  # tan(80 degrees)
"""Half the side of the square that a spherical cell starts from; a cell that keeps a part of it is a rim cell."""
PAD = 8
"""Entries that must exist before and behind each column: eight are read and written at once."""
MASKED = 48
"""Polygons of more vertices are cut without masks."""
_LAST_SIDE = 3
"""The fourth side of a rectangle."""


_NARROW = 1e-3
"""Tangent of half a triangle's angle up to which four terms of a series are its angle."""
_ATAN_3, _ATAN_5, _ATAN_7 = 1.0 / 3.0, 0.2, 7.0
"""Coefficients of Taylor's series of the arctangent by the power of t; by the last one is divided."""


@kernel
def _put_row(outline, i, u, v, ex, ey, eh, number):
    outline.u[i], outline.v[i], outline.ex[i], outline.ey[i] = u, v, ex, ey
    outline.eh[i], outline.edge[i] = eh, number


@kernel
def frame(outline, site, bounds):
    """Start from the bounds, as seen from a site of the plane, or from the square of FRAME; its edges are -1.

    Returns the number of vertices.
    """
    u0, v0, u1, v1 = -FRAME, -FRAME, FRAME, FRAME
    if site.dimension == 2:
        u0, v0, u1, v1 = bounds[0] - site.x, bounds[1] - site.y, bounds[2] - site.x, bounds[YMAX] - site.y
    _put_row(outline, 0, u0, v0, 0.0, -1.0, -v0, -1)
    _put_row(outline, 1, u1, v0, 1.0, 0.0, u1, -1)
    _put_row(outline, 2, u1, v1, 0.0, 1.0, v1, -1)
    _put_row(outline, _LAST_SIDE, u0, v1, -1.0, 0.0, -u0, -1)
    return 4


@kernel
def is_framed(outline, m):
    """Return whether a polygon still has a part of its starting frame."""
    framed = False
    for i in range(m):
        framed |= outline.edge[i] < 0
    return framed


@kernel
def _between(u, v, i, j, dx, dy, h):
    # Where the cut crosses the chord from i to j: exact enough where the two lines are almost parallel.
    a = h - (u[i] * dx + v[i] * dy)
    b = h - (u[j] * dx + v[j] * dy)
    share = min(max(a / (a - b), 0.0), 1.0)
    return u[i] + share * (u[j] - u[i]), v[i] + share * (v[j] - v[i])


@kernel
def _furthest_run(u, v, m, dx, dy, h, tolerance):
    """Return the first and last of the run of vertices outside that holds the furthest one, or (-1, -1)."""
    far, deepest = -1, tolerance
    for i in range(m):
        depth = u[i] * dx + v[i] * dy - h
        if depth > deepest:
            far, deepest = i, depth
    if far < 0:
        return -1, -1
    first = far
    while True:
        i = first - 1 if first > 0 else m - 1
        if i == far or u[i] * dx + v[i] * dy - h <= tolerance:
            break
        first = i
    last = far
    while True:
        i = last + 1 if last + 1 < m else 0
        if i == far or u[i] * dx + v[i] * dy - h <= tolerance:
            break
        last = i
    return first, last


@kernel
def _outside(u, v, m, dx, dy, h, tolerance):
    """Return the mask of vertices outside."""
    outside = 0
    for base in range(0, m, WIDTH):
        outside |= above(lanes_at(u, base) * dx + lanes_at(v, base) * dy - h, splat(tolerance)) << base
    return outside & ((1 << m) - 1)


@kernel
def _put(column, low, offset, place, first, second, base):
    """Fill eight entries of a column: those of ``low`` stay, two are new, the rest come from ``offset`` further on."""
    values = where(low >> base, lanes_at(column, base), lanes_at(column, base + offset))
    values = where((1 << place) >> base, first, values)
    put_lanes(column, base, where((2 << place) >> base, second, values))


@kernel
def _crossing(outline, i, j, dx, dy, h):
    """Return where the line of edge i, which leads from vertex i to vertex j, crosses a cut."""
    ex, ey, eh = outline.ex[i], outline.ey[i], outline.eh[i]
    p, q = ex * dy, ey * dx
    if abs(p - q) > PARALLEL * (abs(p) + abs(q)):
        f = 1.0 / (p - q)
        u, v = (eh * dy - ey * h) * f, (ex * h - eh * dx) * f
        if abs(p - q) < ACUTE * (abs(p) + abs(q)):
            # once more with what is left: near both lines again, not only near where they cross
            s, t = eh - (ex * u + ey * v), h - (dx * u + dy * v)
            u, v = u + (s * dy - ey * t) * f, v + (ex * t - s * dx) * f
        return u, v
    return _between(outline.u, outline.v, i, j, dx, dy, h)


@kernel
def cut(outline, m, dx, dy, h, number, tolerance):
    """Cut the polygon by ``u * dx + v * dy <= h`` for site ``number``.

    Returns the new number of vertices, at most m + 1, or -1 where nothing was cut. One run of vertices is removed, so
    the polygon stays convex when rounding leaves several.
    """
    # the run of vertices outside: a is the last one inside before it, b the first after it
    u, v = outline.u, outline.v
    if m <= MASKED:
        outside = _outside(u, v, m, dx, dy, h, tolerance)
        if outside == 0:
            return -1
        whole = (1 << m) - 1
        inside = whole ^ outside
        a = inside & ((outside >> 1) | ((outside & 1) << (m - 1)))
        if a == 0:
            return -1  # every vertex outside: only rounding round a site on the frame can do that
        if a & (a - 1) == 0:
            a = trailing_zeros(a)
            b = trailing_zeros(inside & (((outside << 1) | (outside >> (m - 1))) & whole))
        else:
            a, b = _furthest_run(u, v, m, dx, dy, h, tolerance)
            a = a - 1 if a > 0 else m - 1
            b = b + 1 if b + 1 < m else 0
    else:
        a, b = _furthest_run(u, v, m, dx, dy, h, tolerance)
        if a < 0:
            return -1
        a = a - 1 if a > 0 else m - 1
        b = b + 1 if b + 1 < m else 0
        if u[a] * dx + v[a] * dy - h > tolerance:
            return -1

    # where the cut crosses the edges that lead out and back; e is the one that ends in b
    e = b - 1 if b > 0 else m - 1
    bx, by, bh, owner = outline.ex[e], outline.ey[e], outline.eh[e], outline.edge[e]
    au, av = _crossing(outline, a, a + 1 if a + 1 < m else 0, dx, dy, h)
    bu, bv = _crossing(outline, e, b, dx, dy, h)

    # the two new vertices stand at place and behind it, what stays before and after them moves
    if b <= a:  # the vertices that stay are one run: it moves to the front
        place, offset, stay = a - b + 1, b, 0
        size = place + 2
    else:  # those from b on move to behind the two new ones
        place, offset, stay = a + 1, b - (a + 1) - 2, a + 1
        size = m - (b - a - 1) + 2
    if size <= MASKED:
        low = (1 << stay) - 1
        base = (size - 1) // WIDTH * WIDTH if offset < 0 else 0
        step = -WIDTH if offset < 0 else WIDTH
        while 0 <= base < size:
            _put(outline.u, low, offset, place, splat(au), splat(bu), base)
            _put(outline.v, low, offset, place, splat(av), splat(bv), base)
            _put(outline.ex, low, offset, place, splat(dx), splat(bx), base)
            _put(outline.ey, low, offset, place, splat(dy), splat(by), base)
            _put(outline.eh, low, offset, place, splat(h), splat(bh), base)
            _put(outline.edge, low, offset, place, splat(bits_float(number)), splat(bits_float(owner)), base)
            base += step
        return size
    if offset < 0:
        for i in range(m - 1, b - 1, -1):
            _copy(outline, i, i - offset)
    elif offset > 0:
        for i in range(stay + 2, size) if stay > 0 else range(place):
            _copy(outline, i + offset, i)
    _put_row(outline, place, au, av, dx, dy, h, number)
    _put_row(outline, place + 1, bu, bv, bx, by, bh, owner)
    return size


@kernel
def _copy(outline, i, j):
    _put_row(outline, j, outline.u[i], outline.v[i], outline.ex[i], outline.ey[i], outline.eh[i], outline.edge[i])


@kernel
def lanes_in(m, base):
    """Return the mask of the lanes from ``base`` on that hold vertices."""
    return (1 << min(m - base, WIDTH)) - 1


@kernel
def furthest(u, v, m):
    """Return the squared distance from the origin to the furthest vertex, in the tangent plane."""
    far = splat(0.0)
    for base in range(0, m, WIDTH):
        a, b = lanes_at(u, base), lanes_at(v, base)
        far = larger(where(lanes_in(m, base), a * a + b * b, far), far)
    return greatest(far)


@kernel
def chord(far):
    """Return the chord from the site to a point whose squared distance in the tangent plane is ``far``."""
    root = np.sqrt(1.0 + far)
    return np.sqrt(2.0 * far / (root * (root + 1.0)))


@kernel
def _before(column, m, base):
    """Return the entries before eight of a column, going round."""
    values = lanes_at(column, base - 1)
    return where(1, splat(column[m - 1]), values) if base == 0 else values


@kernel
def plane_area(u, v, m):
    """Return the area of the polygon."""
    twice = splat(0.0)
    for base in range(0, m, WIDTH):
        cross = _before(u, m, base) * lanes_at(v, base) - _before(v, m, base) * lanes_at(u, base)
        twice = twice + where(lanes_in(m, base), cross, splat(0.0))
    return 0.5 * total(twice)


@kernel
def _half_angle(t, s):
    """Return arctan(t), where s is t squared: Taylor's series, the first term left out is below 1e-24 of it."""
    return t * (1.0 - s * (_ATAN_3 - s * (_ATAN_5 - s / _ATAN_7)))


@kernel
def sphere_area(u, v, m):
    """Return the solid angle of the spherical polygon whose gnomonic picture this is.

    A fan of triangles from the site: ``tan(angle / 2) = cross / (|a||b| + a.b + |a| + |b|)`` with a = (u, v, 1).
    """
    half = splat(0.0)
    for base in range(0, m, WIDTH):
        bu, bv, au, av = lanes_at(u, base), lanes_at(v, base), _before(u, m, base), _before(v, m, base)
        a, b = roots(1.0 + au * au + av * av), roots(1.0 + bu * bu + bv * bv)
        t = (au * bv - av * bu) / (a * b + au * bu + av * bv + 1.0 + a + b)
        s = where(lanes_in(m, base), t * t, splat(0.0))
        if above(s, splat(_NARROW * _NARROW)) != 0:
            return _wide_sphere_area(u, v, m)
        half = half + where(lanes_in(m, base), _half_angle(t, s), splat(0.0))
    return 2.0 * total(half)


@kernel
def _wide_sphere_area(u, v, m):
    half = 0.0
    j = m - 1
    before = np.sqrt(1.0 + u[j] * u[j] + v[j] * v[j])
    for i in range(m):
        length = np.sqrt(1.0 + u[i] * u[i] + v[i] * v[i])
        cross = u[j] * v[i] - v[j] * u[i]
        below = before * length + u[j] * u[i] + v[j] * v[i] + 1.0 + before + length
        t = cross / below
        if abs(t) < _NARROW:
            half += _half_angle(t, t * t)
        else:
            half += np.arctan2(cross, below)
        before = length
        j = i
    return 2.0 * half


@kernel
def tangent(x, y, z, basis):
    """Fill ``basis[0:6]`` with two unit vectors that span the tangent plane of the sphere at (x, y, z)."""
    sign = 1.0 if z >= 0 else -1.0
    a = -1.0 / (sign + z)
    b = x * y * a
    basis[0], basis[1], basis[2] = 1.0 + sign * x * x * a, sign * b, -sign * x
    basis[SPHERE], basis[SPHERE + 1], basis[SPHERE + 2] = b, sign + y * y * a, -y


@kernel
def in_plane(a, b, c, basis):
    """Return the components of (a, b, c), numbers or lanes, along the two vectors of a basis."""
    return (
        a * basis[0] + b * basis[1] + c * basis[2],
        a * basis[SPHERE] + b * basis[SPHERE + 1] + c * basis[SPHERE + 2],
    )


@kernel
def in_space(u, v, basis):
    """Return the vector with the components u and v, numbers or lanes, along the two vectors of a basis."""
    return (
        u * basis[0] + v * basis[SPHERE],
        u * basis[1] + v * basis[SPHERE + 1],
        u * basis[2] + v * basis[SPHERE + 2],
    )


@kernel
def seen_from(site, basis, positions, c):
    """Return where site c lies as seen from a place, in the tangent plane, and the squared distance."""
    at = c * site.dimension
    px, py = positions[at] - site.x, positions[at + 1] - site.y
    distance2 = px * px + py * py
    if site.dimension == SPHERE:
        d = positions[at + 2] - site.z
        px, py = in_plane(px, py, d, basis)
        distance2 += d * d
    return px, py, distance2


@kernel
def offset_of(site, positions, c):
    """Return what leads from a place on the sphere to site c."""
    return (
        positions[SPHERE * c] - site.x,
        positions[SPHERE * c + 1] - site.y,
        positions[SPHERE * c + 2] - site.z,
    )
