"""A convex polygon round the origin, cut by half-planes: the shape of a cell in the tangent plane of its site.

The plane is the plane itself; on the sphere it is the gnomonic projection centred at the site, where another site
cuts the cell by the line ``u * dx + v * dy = |chord|^2 / 2`` just as in the plane. (dx, dy) are the tangent
components of the other site seen from this one.

A polygon of m vertices is six columns behind pointers: vertices (u, v) counter-clockwise; edge i runs from vertex i
to vertex i + 1 on the line ``ex * u + ey * v = eh`` and belongs to site ``edge[i]``, or to the starting frame if that
is negative.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, greatest, lanes_at, larger, put_lanes, roots, splat, total, where
from dtoss.compiled.pointers import bits_float, trailing_zeros

FRAME = 5.671281819617709  # tan(80 degrees)
"""Half the side of the square that a spherical cell starts from; a cell that keeps a part of it is a rim cell."""

PAD = 8
"""Entries that must exist before and behind each column: eight are read and written at once."""

MASKED = 48
"""Polygons of more vertices are cut without masks."""

ACUTE = 1e-2
"""Lines that cross at less than about this angle lose digits where they cross, which a second step finds again."""

SLACK = 4e-15
"""A cut shallower than this share of the squared distance to the other site is rounding, not an edge."""


@kernel
def frame(u, v, ex, ey, eh, edge, u0, v0, u1, v1):
    """Start from a rectangle round the origin; its edges are -1 to -4. Returns the number of vertices."""
    u[0], v[0], ex[0], ey[0], eh[0], edge[0] = u0, v0, 0.0, -1.0, -v0, -1
    u[1], v[1], ex[1], ey[1], eh[1], edge[1] = u1, v0, 1.0, 0.0, u1, -2
    u[2], v[2], ex[2], ey[2], eh[2], edge[2] = u1, v1, 0.0, 1.0, v1, -3
    u[3], v[3], ex[3], ey[3], eh[3], edge[3] = u0, v1, -1.0, 0.0, -u0, -4
    return 4


@kernel
def _between(u, v, i, j, dx, dy, h):
    # Where the cut crosses the chord from i to j: exact enough where the two lines are almost parallel.
    a = h - (u[i] * dx + v[i] * dy)
    b = h - (u[j] * dx + v[j] * dy)
    share = min(max(a / (a - b), 0.0), 1.0)
    return u[i] + share * (u[j] - u[i]), v[i] + share * (v[j] - v[i])


@kernel
def _furthest_run(u, v, m, dx, dy, h, slack):
    """Return the first and last of the run of vertices outside that holds the furthest one, or (-1, -1)."""
    far, deepest = -1, slack
    for i in range(m):
        depth = u[i] * dx + v[i] * dy - h
        if depth > deepest:
            far, deepest = i, depth
    if far < 0:
        return -1, -1
    first = far
    while True:
        i = first - 1 if first > 0 else m - 1
        if i == far or u[i] * dx + v[i] * dy - h <= slack:
            break
        first = i
    last = far
    while True:
        i = last + 1 if last + 1 < m else 0
        if i == far or u[i] * dx + v[i] * dy - h <= slack:
            break
        last = i
    return first, last


@kernel
def _outside(u, v, m, dx, dy, h, slack):
    """Return the mask of vertices outside."""
    outside = 0
    for base in range(0, m, WIDTH):
        outside |= above(lanes_at(u, base) * dx + lanes_at(v, base) * dy - h, splat(slack)) << base
    return outside & ((1 << m) - 1)


@kernel
def _put(column, low, offset, place, first, second, base):
    """Fill eight entries of a column: those of ``low`` stay, two are new, the rest come from ``offset`` further on."""
    values = where(low >> base, lanes_at(column, base), lanes_at(column, base + offset))
    values = where((1 << place) >> base, first, values)
    put_lanes(column, base, where((2 << place) >> base, second, values))


@kernel
def cut(u, v, ex, ey, eh, edge, m, dx, dy, h, number, slack):
    """Cut the polygon by ``u * dx + v * dy <= h`` for site ``number``.

    Returns the new number of vertices, at most m + 1, or -1 where nothing was cut. One run of vertices is removed, so
    the polygon stays convex when rounding leaves several.
    """
    if m <= MASKED:
        outside = _outside(u, v, m, dx, dy, h, slack)
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
            a, b = _furthest_run(u, v, m, dx, dy, h, slack)
            a = a - 1 if a > 0 else m - 1
            b = b + 1 if b + 1 < m else 0
    else:
        a, b = _furthest_run(u, v, m, dx, dy, h, slack)
        if a < 0:
            return -1
        a = a - 1 if a > 0 else m - 1
        b = b + 1 if b + 1 < m else 0
        if u[a] * dx + v[a] * dy - h > slack:
            return -1

    # a is the last vertex inside before the run, b the first after it; e is the edge that ends in b
    e = b - 1 if b > 0 else m - 1
    bx, by, bh, owner = ex[e], ey[e], eh[e], edge[e]
    p, q = ex[a] * dy, ey[a] * dx
    if abs(p - q) > 1e-6 * (abs(p) + abs(q)):
        f = 1.0 / (p - q)
        au, av = (eh[a] * dy - ey[a] * h) * f, (ex[a] * h - eh[a] * dx) * f
        if abs(p - q) < ACUTE * (abs(p) + abs(q)):
            # once more with what is left: near both lines again, not only near where they cross
            s, t = eh[a] - (ex[a] * au + ey[a] * av), h - (dx * au + dy * av)
            au, av = au + (s * dy - ey[a] * t) * f, av + (ex[a] * t - s * dx) * f
    else:
        au, av = _between(u, v, a, a + 1 if a + 1 < m else 0, dx, dy, h)
    p, q = bx * dy, by * dx
    if abs(p - q) > 1e-6 * (abs(p) + abs(q)):
        f = 1.0 / (p - q)
        bu, bv = (bh * dy - by * h) * f, (bx * h - bh * dx) * f
        if abs(p - q) < ACUTE * (abs(p) + abs(q)):
            s, t = bh - (bx * bu + by * bv), h - (dx * bu + dy * bv)
            bu, bv = bu + (s * dy - by * t) * f, bv + (bx * t - s * dx) * f
    else:
        bu, bv = _between(u, v, e, b, dx, dy, h)

    if b <= a:  # the vertices that stay are one run: it moves to the front
        place, offset, stay = a - b + 1, b, 0
        size = place + 2
    else:
        place, offset, stay = a + 1, b - a - 3, a + 1
        size = m - (b - a - 1) + 2
    if size <= MASKED:
        low = (1 << stay) - 1
        base = (size - 1) // WIDTH * WIDTH if offset < 0 else 0
        step = -WIDTH if offset < 0 else WIDTH
        while 0 <= base < size:
            _put(u, low, offset, place, splat(au), splat(bu), base)
            _put(v, low, offset, place, splat(av), splat(bv), base)
            _put(ex, low, offset, place, splat(dx), splat(bx), base)
            _put(ey, low, offset, place, splat(dy), splat(by), base)
            _put(eh, low, offset, place, splat(h), splat(bh), base)
            _put(edge, low, offset, place, splat(bits_float(number)), splat(bits_float(owner)), base)
            base += step
        return size
    if offset < 0:
        for i in range(m - 1, b - 1, -1):
            _copy(u, v, ex, ey, eh, edge, i, i - offset)
    elif offset > 0:
        for i in range(stay + 2, size) if stay > 0 else range(place):
            _copy(u, v, ex, ey, eh, edge, i + offset, i)
    u[place], v[place], ex[place], ey[place], eh[place], edge[place] = au, av, dx, dy, h, number
    place += 1
    u[place], v[place], ex[place], ey[place], eh[place], edge[place] = bu, bv, bx, by, bh, owner
    return size


@kernel
def _copy(u, v, ex, ey, eh, edge, i, j):
    u[j], v[j], ex[j], ey[j], eh[j], edge[j] = u[i], v[i], ex[i], ey[i], eh[i], edge[i]


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
        if above(s, splat(1e-6)) != 0:
            return _wide_sphere_area(u, v, m)
        series = t * (1.0 - s * (1.0 / 3.0 - s * (0.2 - s / 7.0)))
        half = half + where(lanes_in(m, base), series, splat(0.0))
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
        if abs(t) < 1e-3:
            s = t * t
            half += t * (1.0 - s * (1.0 / 3.0 - s * (0.2 - s / 7.0)))
        else:
            half += np.arctan2(cross, below)
        before = length
        j = i
    return 2.0 * half
