"""Polygons on the unit sphere whose edges are arcs of great circles: the cells of sites that reach far, as rows.

A row is a corner, with the edge that begins there: what other sites must cut to count, and how boxes see it
(``dtoss/cells/oriented_boxes.py``), stand in it as well. Corners go counter-clockwise, seen from inside.

A guard is a row amid an edge at which no tie counts. A site that is nearly as near to a far corner may cut all of an
edge beside the cell's own site, so a tie may take only what is as far as the corner: guards stand before all else.
"""

from __future__ import annotations

import numpy as np

from dtoss.cells.half_planes import in_plane, in_space, tangent
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, lanes_at, put_lanes
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.distance import SPHERE
from dtoss.geometry.rounding import NO_ARC2, OPPOSITE, RIM_CUT, STEEPEST_TIE, TIE

CORNER = 2 * WIDTH
"""Numbers of a corner, those below from these places on."""
X, KAPPA, V, EVEN = 0, 3, 4, 7
"""Its unit vector; how boxes see it; how much nearer than its own site another one may be."""
SLOPE, N, OWNER, GAP = 8, 9, 12, 13
"""``EVEN`` by the distance of the owner of an edge; the normal, owner and squared distance of the edge that begins."""
SEEN, DEPTH = 14, 15
"""Whether no chosen site cuts it off, or GUARD, and room for how far it lies beyond a plane."""
GUARD = 2.0
"""What ``SEEN`` is in a guard."""
_STEEP = 0.1
"""Sine of the least angle between a border and its site that has a nearest point told well."""
_ON_RIM = 3
"""Corners of a hemisphere: a third of a turn apart."""
_UPRIGHT = 0.5 * np.sqrt(3.0)
"""Sine of a third of a turn."""
_SHORT = -0.8
"""Cosine of the longest edge that needs no corner amid it."""
_NEAR2 = 0.5
"""Share of a corner's squared chord that is the way along an edge, up to which nothing there is much nearer: 0.29."""


@kernel
def plane_between(site, basis, a, b, c):
    """Return the unit normal of the plane between a site and the one at (a, b, c) from it, pointing there."""
    dx, dy = in_plane(a, b, c, basis)
    h = 0.5 * (a * a + b * b + c * c)
    f = 1.0 / np.sqrt(dx * dx + dy * dy + h * h)
    return (
        f * (dx * basis[0] + dy * basis[SPHERE] - h * site.x),
        f * (dx * basis[1] + dy * basis[SPHERE + 1] - h * site.y),
        f * (dx * basis[2] + dy * basis[SPHERE + 2] - h * site.z),
    )


@kernel
def _place(row, x, y, z, site, basis, before):
    """Fill the row of a corner in direction (x, y, z); ``before`` is how far the owner of the edge is that ends there.

    The edge that begins there is in the row already. A site is passed over that cuts a corner by at most ``EVEN``,
    and the nearer it is than the owners of both edges, the less: whoever asks from what is cut off sees one of these as
    near as it.
    """
    length = 1.0 / np.sqrt(x * x + y * y + z * z)
    x, y, z = x * length, y * length, z * length
    row[X], row[X + 1], row[X + 2] = x, y, z
    kappa = x * site.x + y * site.y + z * site.z
    u, v = in_plane(x, y, z, basis)
    row[V], row[V + 1], row[V + 2] = in_space(u, v, basis)
    row[KAPPA], row[EVEN] = kappa, TIE * (1.0 - kappa)
    row[SLOPE] = min(row[EVEN] / np.sqrt(max(before, row[GAP])), STEEPEST_TIE)
    row[SEEN] = 0.0


@kernel
def _edge(row, n, owner, gap):
    row[N], row[N + 1], row[N + 2], row[OWNER], row[GAP] = n[0], n[1], n[2], owner, gap


@kernel
def _copy(row, other):
    put_lanes(row, 0, lanes_at(other, 0))
    put_lanes(row, WIDTH, lanes_at(other, WIDTH))


@kernel
def hemisphere(rows, n, owner, gap, site, basis):
    """Start from the hemisphere ``x . n <= 0``: three points on its rim, counter-clockwise seen from inside it.

    The first is the one nearest to the site: sites near by cut it off before any other of an edge between two poles.
    """
    inward = np.empty(2 * SPHERE)
    u = pointer(inward)
    along = site.x * n[0] + site.y * n[1] + site.z * n[2]
    a, b, c = site.x - along * n[0], site.y - along * n[1], site.z - along * n[2]
    length = np.sqrt(a * a + b * b + c * c)
    if length > _STEEP:
        u[0], u[1], u[2] = a / length, b / length, c / length
        across = shift(u, SPHERE)
        across[0], across[1], across[2] = (
            u[1] * n[2] - u[2] * n[1],
            u[2] * n[0] - u[0] * n[2],
            u[0] * n[1] - u[1] * n[0],
        )
    else:
        tangent(-n[0], -n[1], -n[2], u)
    for i in range(_ON_RIM):
        a = 1.0 if i == 0 else -0.5
        b = 0.0 if i == 0 else (_UPRIGHT if i == 1 else -_UPRIGHT)
        row = shift(rows, i * CORNER)
        _edge(row, n, owner, gap)
        x, y, z = in_space(a, b, u)
        _place(row, x, y, z, site, basis, gap)
    # keeps the basis alive while the pointer to it is used
    inward[0] = 0.0
    return _ON_RIM


@kernel
def _between(row, out, kept, site, basis, before):
    """Fill the row of the corner where an edge leaves the cell between two corners, one of them kept."""
    b = min(kept[DEPTH], 0.0)
    f = out[DEPTH] / (out[DEPTH] - b)
    x = out[X] + f * (kept[X] - out[X])
    y = out[X + 1] + f * (kept[X + 1] - out[X + 1])
    z = out[X + 2] + f * (kept[X + 2] - out[X + 2])
    _place(row, x, y, z, site, basis, before)


@kernel
def _thin_lune(rows, m, n, owner, gap, site, basis):
    """Cut a hemisphere by the one opposite; returns the number of corners, or -1 where they are not opposite.

    The cell of a site between two others that are some ulps away: a lune so thin that all its corners lie on both rims,
    or beyond one of them by no more than rounding.
    """
    a, b, c = n[0] + rows[N], n[1] + rows[N + 1], n[2] + rows[N + 2]
    if a * a + b * b + c * c > OPPOSITE * OPPOSITE:
        return -1
    for i in range(1, m):
        if rows[i * CORNER + OWNER] != rows[OWNER]:
            return -1
    # a pole is a quarter turn from the site; from it the way along the first rim, counter-clockwise seen from inside,
    # leads by the site
    first = shift(rows, 0)
    a, b, c = first[N], first[N + 1], first[N + 2]
    before = first[GAP]
    p, q, r = b * site.z - c * site.y, c * site.x - a * site.z, a * site.y - b * site.x
    length = 1.0 / np.sqrt(p * p + q * q + r * r)
    p, q, r = p * length, q * length, r * length
    x, y, z = -(b * r - c * q), -(c * p - a * r), -(a * q - b * p)
    for i in range(4):
        row = shift(rows, i * CORNER)
        if i < 2:
            _copy(row, first)
        else:
            _edge(row, n, owner, gap)
        sign = 1.0 if i < 2 else -1.0
        end = before if i in (1, 2) else gap
        if i % 2 == 0:
            _place(row, sign * p, sign * q, sign * r, site, basis, end)
        else:
            _place(row, x, y, z, site, basis, end)
    return 4


@kernel
def _cut(rows, spare, m, n, owner, gap, site, basis):
    """Cut the polygon by ``x . n <= 0``; returns the number of corners, or -1 where nothing was cut.

    The run of corners outside that holds the furthest one is removed, and all others stay, whatever rounding says of
    them.
    """
    lune = _thin_lune(rows, m, n, owner, gap, site, basis) if m > 0 else -1
    if lune > 0:
        return lune
    deepest, far = RIM_CUT, -1
    for i in range(m):
        row = shift(rows, i * CORNER)
        depth = row[X] * n[0] + row[X + 1] * n[1] + row[X + 2] * n[2]
        row[DEPTH] = depth
        if depth > deepest:
            deepest, far = depth, i
    if far < 0:
        return -1
    last_out, enter = far, far + 1 if far + 1 < m else 0
    while enter != far and rows[enter * CORNER + DEPTH] > RIM_CUT:
        last_out, enter = enter, enter + 1 if enter + 1 < m else 0
    if enter == far:
        return -1
    first_out, leave = far, far - 1 if far > 0 else m - 1
    while rows[leave * CORNER + DEPTH] > RIM_CUT:
        first_out, leave = leave, leave - 1 if leave > 0 else m - 1

    out, kept = shift(rows, last_out * CORNER), shift(rows, enter * CORNER)
    _copy(spare, out)
    _between(spare, out, kept, site, basis, gap)
    size = 1
    i = enter
    while True:
        _copy(shift(spare, size * CORNER), shift(rows, i * CORNER))
        size += 1
        if i == leave:
            break
        i = i + 1 if i + 1 < m else 0
    out, kept = shift(rows, first_out * CORNER), shift(rows, leave * CORNER)
    row = shift(spare, size * CORNER)
    _edge(row, n, owner, gap)
    _between(row, out, kept, site, basis, kept[GAP])
    size += 1
    # a lune's new edge is half a great circle: its middle keeps every arc shorter than that
    px, py, pz = row[X], row[X + 1], row[X + 2]
    if px * spare[X] + py * spare[X + 1] + pz * spare[X + 2] < -0.5:
        # along the great circle, counter-clockwise round the inside: -n x p
        x, y, z = -(n[1] * pz - n[2] * py), -(n[2] * px - n[0] * pz), -(n[0] * py - n[1] * px)
        row = shift(spare, size * CORNER)
        _edge(row, n, owner, gap)
        _place(row, x, y, z, site, basis, gap)
        size += 1
    for i in range(size):
        _copy(shift(rows, i * CORNER), shift(spare, i * CORNER))
    return size


@kernel
def solid_angle(rows, m):
    """Return the solid angle of a polygon by its angles: 2 pi less how much its border turns.

    A fan of triangles from the site would lose all digits at corners near its antipode. Edges of no length are passed
    over: where many planes meet in one corner, rounding puts them in any order.
    """
    if m == 0:
        return 4.0 * np.pi
    before, count = -1, 0
    for i in range(m):
        row, next_ = shift(rows, i * CORNER), shift(rows, (i + 1 if i + 1 < m else 0) * CORNER)
        a, b, c = next_[X] - row[X], next_[X + 1] - row[X + 1], next_[X + 2] - row[X + 2]
        row[DEPTH] = 1.0 if a * a + b * b + c * c > NO_ARC2 else 0.0
        if row[DEPTH] > 0.0:
            before, count = i, count + 1
    turned = 0.0
    for i in range(m):
        row = shift(rows, i * CORNER)
        if row[DEPTH] > 0.0:
            p = shift(rows, before * CORNER + N)
            q = shift(row, N)
            a, b, c = p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]
            # a border only turns to its left; where it turns back, rounding puts it anywhere
            sine = abs(a * row[X] + b * row[X + 1] + c * row[X + 2])
            turned += np.arctan2(sine, p[0] * q[0] + p[1] * q[1] + p[2] * q[2])
            before = i
    return 2.0 * np.pi - turned


@kernel
def cut_rim_by(cell, m, owner, a, b, c):
    """Cut the polygon by the site ``owner`` at (a, b, c) from the cell's."""
    n = plane_between(cell.site, cell.basis, a, b, c)
    return _cut(cell.rows, cell.spare, m, n, owner, a * a + b * b + c * c, cell.site, cell.basis)


@kernel
def without_middles(rows, m):
    """Drop corners amid an edge that needs none, as it is shorter than half a circle by far; returns how many stay."""
    i = 0
    while i < m:
        row, before = shift(rows, i * CORNER), shift(rows, (i - 1 if i > 0 else m - 1) * CORNER)
        after = shift(rows, (i + 1 if i + 1 < m else 0) * CORNER)
        to_one = row[X] * before[X] + row[X + 1] * before[X + 1] + row[X + 2] * before[X + 2]
        to_other = row[X] * after[X] + row[X + 1] * after[X + 1] + row[X + 2] * after[X + 2]
        whole = before[X] * after[X] + before[X + 1] * after[X + 1] + before[X + 2] * after[X + 2]
        if row[OWNER] == before[OWNER] and to_one + to_other > 0.0 and whole > _SHORT:
            m -= 1
            for j in range(i, m):
                _copy(shift(rows, j * CORNER), shift(rows, (j + 1) * CORNER))
        else:
            i += 1
    return m


@kernel
def _to_site2(row, site):
    """Return the squared chord from a corner to the site."""
    a, b, c = row[X] - site.x, row[X + 1] - site.y, row[X + 2] - site.z
    return a * a + b * b + c * c


@kernel
def _ahead(row, n, site):
    """Return how far ahead of a corner, along an edge counter-clockwise, the place is that is nearest to the site."""
    a, b, c = site.x - row[X], site.y - row[X + 1], site.z - row[X + 2]
    return (
        a * (n[2] * row[X + 1] - n[1] * row[X + 2])
        + b * (n[0] * row[X + 2] - n[2] * row[X])
        + c * (n[1] * row[X] - n[0] * row[X + 1])
    )


@kernel
def _is_free(row, x, y, z, site):
    """Return whether a tie in a corner may take what lies on an edge as far as (x, y, z), the nearest place there."""
    a, b, c = row[X] - x, row[X + 1] - y, row[X + 2] - z
    return row[SEEN] == GUARD or a * a + b * b + c * c <= _NEAR2 * _to_site2(row, site)


@kernel
def _guard(row, edge, corner, x, y, z, site, basis):
    """Fill the row of a guard, half way from a corner to (x, y, z) on an edge."""
    _copy(row, edge)
    _place(row, corner[X] + x, corner[X + 1] + y, corner[X + 2] + z, site, basis, edge[GAP])
    row[EVEN], row[SLOPE], row[SEEN] = 0.0, 0.0, GUARD


@kernel
def guarded(cell, m):
    """Put guards on edges from a corner to a place that is much nearer to the site; returns how many rows there are.

    -1 where there is no room.
    """
    rows, spare, site, basis, size = cell.rows, cell.spare, cell.site, cell.basis, 0
    for i in range(m):
        if size + 2 >= cell.capacity:
            return -1
        row, next_ = shift(rows, i * CORNER), shift(rows, (i + 1 if i + 1 < m else 0) * CORNER)
        _copy(shift(spare, size * CORNER), row)
        size += 1
        if _is_free(row, next_[X], next_[X + 1], next_[X + 2], site) and _is_free(
            next_, row[X], row[X + 1], row[X + 2], site
        ):
            continue
        n = shift(row, N)
        along = site.x * n[0] + site.y * n[1] + site.z * n[2]
        x, y, z = site.x - along * n[0], site.y - along * n[1], site.z - along * n[2]
        length = np.sqrt(x * x + y * y + z * z)
        if length <= _STEEP:
            continue  # as far all along, and no place is the nearest for sure
        if _ahead(row, n, site) <= 0.0:
            x, y, z = row[X], row[X + 1], row[X + 2]
        elif _ahead(next_, n, site) >= 0.0:
            x, y, z = next_[X], next_[X + 1], next_[X + 2]
        else:
            x, y, z = x / length, y / length, z / length
        if not _is_free(row, x, y, z, site):
            _guard(shift(spare, size * CORNER), row, row, x, y, z, site, basis)
            size += 1
        if not _is_free(next_, x, y, z, site):
            _guard(shift(spare, size * CORNER), row, next_, x, y, z, site, basis)
            size += 1
    if size > m:
        for i in range(size):
            _copy(shift(rows, i * CORNER), shift(spare, i * CORNER))
    return size


@kernel
def without_guards(rows, m):
    """Drop all guards; returns how many corners stay."""
    size = 0
    for i in range(m):
        if rows[i * CORNER + SEEN] != GUARD:
            if size < i:
                _copy(shift(rows, size * CORNER), shift(rows, i * CORNER))
            size += 1
    return size
