"""Cells of the sphere that reach far from their site, cut in 3-D.

The gnomonic picture of a cell ends before 90 degrees. A cell that reaches 80 degrees from its site is cut again with
unit vectors as vertices: start with the hemisphere against its nearest other site, cut by the planes of the other
sites. Their normal is the same line as in the tangent plane, ``dx * e1 + dy * e2 - h * s``, so both pictures agree
where they overlap.
"""

from __future__ import annotations

import numpy as np

from dtoss.boxes import FAN, LEAF
from dtoss.cell_kernel import DONE, GUIDED, MORE_NEIGHBOURS, MORE_VERTICES, PLAIN, THIN, tangent
from dtoss.eights import WIDTH, above, equal, greatest, lanes_at, larger, least, put_lanes, roots, splat, where
from dtoss.kernels import kernel
from dtoss.near import box_gaps
from dtoss.oriented import NEAREST, ROW, SEEN_ROWS, least_seen, least_upright, nearest_beyond, seen_from
from dtoss.pointers import pointer, shifted, trailing_zeros
from dtoss.polygon import lanes_in

_EPSILON = 4e-16
_NO_LENGTH = 1e-24
_EVEN = 1e-14
"""How much nearer than its own site another one may be to a corner of a cell, as a share of half the squared chord:
what the last digits of unit vectors say."""
_STEEPEST = 1e-8
"""By how much of its own distance a site may be passed over at the most: sites an ulp apart are cut as they stand."""
_CROWDED = 4.0
"""How much deeper a cut must be where more than GUIDED sites have cut a cell: many that meet in one corner, mostly."""
STACK = 1024
"""Room for nodes of the tree that wait."""
CORNER = 2 * WIDTH
"""Numbers of a corner, those below from these places on."""
X, KAPPA, V, EVEN = 0, 3, 4, 7
"""Its unit vector; how boxes see it (``dtoss/oriented.py``); how much nearer than its own site another one may be."""
SLOPE, N, OWNER, GAP = 8, 9, 12, 13
"""``EVEN`` by the distance of the owner of an edge; the normal, owner and squared distance of the edge that begins."""
SEEN, DEPTH = 14, 15
"""Whether no chosen site cuts it off, and room for how far it lies beyond a plane."""
SPREAD = 32
"""Room for sites from all over the curve that cut first: two for each power of 8 below the number of sites."""
_SITES_A_CUT = 512
"""A cell may be cut once more for each so many sites before the tree along lines is made: that takes O(n log n)."""
_VISITS_A_CELL = 8
"""Nodes visited for a cell, beside a quarter as many as there are sites, after which oriented boxes are asked for."""
_STEEP = 0.1
"""Sine of the least angle between a border and its site that has a nearest point told well."""
_UPRIGHT = 0.5 * np.sqrt(3.0)
"""Sine of a third of a turn."""
_SIDE = 0.9
"""Cosine of the widest angle between a corner and its site at which a disc round the corner ends before the horizon."""
_OPPOSITE = 1e-13
"""How far the normals of two borders may be from opposite where only digits tell: their sites are as near, and the
directions to them some thousandths of a turn apart or opposite."""
_SHORT = -0.8
"""Cosine of the longest edge that needs no corner amid it."""
_FIRST = 16
"""Cuts by these at the most."""


@kernel
def _normal(site, basis, a, b, c):
    """Return the unit normal of the plane between a site and the one at (a, b, c) from it, pointing there."""
    dx = a * basis[0] + b * basis[1] + c * basis[2]
    dy = a * basis[3] + b * basis[4] + c * basis[5]
    h = 0.5 * (a * a + b * b + c * c)
    f = 1.0 / np.sqrt(dx * dx + dy * dy + h * h)
    return (
        f * (dx * basis[0] + dy * basis[3] - h * site[0]),
        f * (dx * basis[1] + dy * basis[4] - h * site[1]),
        f * (dx * basis[2] + dy * basis[5] - h * site[2]),
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
    kappa = x * site[0] + y * site[1] + z * site[2]
    u, v = x * basis[0] + y * basis[1] + z * basis[2], x * basis[3] + y * basis[4] + z * basis[5]
    row[V] = u * basis[0] + v * basis[3]
    row[V + 1] = u * basis[1] + v * basis[4]
    row[V + 2] = u * basis[2] + v * basis[5]
    row[KAPPA], row[EVEN] = kappa, _EVEN * (1.0 - kappa)
    row[SLOPE] = min(row[EVEN] / np.sqrt(max(before, row[GAP])), _STEEPEST)
    row[SEEN] = 0.0


@kernel
def _edge(row, n, owner, gap):
    row[N], row[N + 1], row[N + 2], row[OWNER], row[GAP] = n[0], n[1], n[2], owner, gap


@kernel
def _copy(row, other):
    put_lanes(row, 0, lanes_at(other, 0))
    put_lanes(row, WIDTH, lanes_at(other, WIDTH))


@kernel
def _hemisphere(rows, n, owner, gap, site, basis):
    """Start from the hemisphere ``x . n <= 0``: three points on its rim, counter-clockwise seen from inside it.

    The first is the one nearest to the site: sites near by cut it off before any other of an edge between two poles.
    """
    inward = np.empty(7)
    u = pointer(inward)
    along = site[0] * n[0] + site[1] * n[1] + site[2] * n[2]
    a, b, c = site[0] - along * n[0], site[1] - along * n[1], site[2] - along * n[2]
    length = np.sqrt(a * a + b * b + c * c)
    if length > _STEEP:
        u[0], u[1], u[2] = a / length, b / length, c / length
        u[3], u[4], u[5] = u[1] * n[2] - u[2] * n[1], u[2] * n[0] - u[0] * n[2], u[0] * n[1] - u[1] * n[0]
    else:
        tangent(-n[0], -n[1], -n[2], u)
    for i in range(3):
        a = 1.0 if i == 0 else -0.5
        b = 0.0 if i == 0 else (_UPRIGHT if i == 1 else -_UPRIGHT)
        row = shifted(rows, i * CORNER)
        _edge(row, n, owner, gap)
        _place(row, a * u[0] + b * u[3], a * u[1] + b * u[4], a * u[2] + b * u[5], site, basis, gap)
    # keeps the basis alive while the pointer to it is used
    inward[6] = 0.0
    return 3


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
    if a * a + b * b + c * c > _OPPOSITE * _OPPOSITE:
        return -1
    for i in range(1, m):
        if rows[i * CORNER + OWNER] != rows[OWNER]:
            return -1
    # a pole is a quarter turn from the site; from it the way along the first rim, counter-clockwise seen from inside,
    # leads by the site
    first = shifted(rows, 0)
    a, b, c = first[N], first[N + 1], first[N + 2]
    before = first[GAP]
    p, q, r = b * site[2] - c * site[1], c * site[0] - a * site[2], a * site[1] - b * site[0]
    length = 1.0 / np.sqrt(p * p + q * q + r * r)
    p, q, r = p * length, q * length, r * length
    x, y, z = -(b * r - c * q), -(c * p - a * r), -(a * q - b * p)
    for i in range(4):
        row = shifted(rows, i * CORNER)
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
    deepest, far = _EPSILON, -1
    for i in range(m):
        row = shifted(rows, i * CORNER)
        depth = row[X] * n[0] + row[X + 1] * n[1] + row[X + 2] * n[2]
        row[DEPTH] = depth
        if depth > deepest:
            deepest, far = depth, i
    if far < 0:
        return -1
    last_out, enter = far, far + 1 if far + 1 < m else 0
    while enter != far and rows[enter * CORNER + DEPTH] > _EPSILON:
        last_out, enter = enter, enter + 1 if enter + 1 < m else 0
    if enter == far:
        return -1
    first_out, leave = far, far - 1 if far > 0 else m - 1
    while rows[leave * CORNER + DEPTH] > _EPSILON:
        first_out, leave = leave, leave - 1 if leave > 0 else m - 1

    out, kept = shifted(rows, last_out * CORNER), shifted(rows, enter * CORNER)
    _copy(spare, out)
    _between(spare, out, kept, site, basis, gap)
    size = 1
    i = enter
    while True:
        _copy(shifted(spare, size * CORNER), shifted(rows, i * CORNER))
        size += 1
        if i == leave:
            break
        i = i + 1 if i + 1 < m else 0
    out, kept = shifted(rows, first_out * CORNER), shifted(rows, leave * CORNER)
    row = shifted(spare, size * CORNER)
    _edge(row, n, owner, gap)
    _between(row, out, kept, site, basis, kept[GAP])
    size += 1
    # a lune's new edge is half a great circle: its middle keeps every arc shorter than that
    px, py, pz = row[X], row[X + 1], row[X + 2]
    if px * spare[X] + py * spare[X + 1] + pz * spare[X + 2] < -0.5:
        # along the great circle, counter-clockwise round the inside: -n x p
        x, y, z = -(n[1] * pz - n[2] * py), -(n[2] * px - n[0] * pz), -(n[0] * py - n[1] * px)
        row = shifted(spare, size * CORNER)
        _edge(row, n, owner, gap)
        _place(row, x, y, z, site, basis, gap)
        size += 1
    for i in range(size):
        _copy(shifted(rows, i * CORNER), shifted(spare, i * CORNER))
    return size


@kernel
def _area(rows, m):
    """Return the solid angle of a polygon by its angles: 2 pi less how much its border turns.

    A fan of triangles from the site would lose all digits at corners near its antipode. Edges of no length are passed
    over: where many planes meet in one corner, rounding puts them in any order.
    """
    if m == 0:
        return 4.0 * np.pi
    before, count = -1, 0
    for i in range(m):
        row, next_ = shifted(rows, i * CORNER), shifted(rows, (i + 1 if i + 1 < m else 0) * CORNER)
        a, b, c = next_[X] - row[X], next_[X + 1] - row[X + 1], next_[X + 2] - row[X + 2]
        row[DEPTH] = 1.0 if a * a + b * b + c * c > _NO_LENGTH else 0.0
        if row[DEPTH] > 0.0:
            before, count = i, count + 1
    turned = 0.0
    for i in range(m):
        row = shifted(rows, i * CORNER)
        if row[DEPTH] > 0.0:
            p = shifted(rows, before * CORNER + N)
            q = shifted(row, N)
            a, b, c = p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]
            # a border only turns to its left; where it turns back, rounding puts it anywhere
            sine = abs(a * row[X] + b * row[X + 1] + c * row[X + 2])
            turned += np.arctan2(sine, p[0] * q[0] + p[1] * q[1] + p[2] * q[2])
            before = i
    return 2.0 * np.pi - turned


@kernel
def _level(row, far, rounding):
    """Return how deep sites at eight distances must cut a corner."""
    none = splat(0.0)
    shared = none - larger(far * -row[SLOPE], splat(-row[EVEN]))
    return none - larger(shared, far * rounding)


@kernel
def _reaching(children, boxes, aligned, seen, gaps, count, site, rows, m, rounding):
    """Return the mask of those of eight nodes that may hold a site that cuts the cell; ``gaps`` are their distances."""
    among = lanes_in(count, 0)
    far, reaching = roots(gaps), 0
    x, y, z = site[0], site[1], site[2]
    if aligned:
        seen_from(boxes, x, y, z, seen)
    for i in range(m):
        row = shifted(rows, i * CORNER)
        open_ = among ^ reaching
        if row[KAPPA] > _SIDE:
            # nothing is nearer to the corner than the site that is further from it than the disc is wide
            wide = row[V] * row[V] + row[V + 1] * row[V + 1] + row[V + 2] * row[V + 2]
            open_ &= ~above(gaps * (row[KAPPA] * row[KAPPA]), splat(4.0 * wide))
        if open_ == 0:
            continue
        if aligned:
            bound = least_seen(boxes, seen, shifted(row, X), shifted(row, V), row[KAPPA])
        else:
            bound = least_upright(children, 3, x, y, z, row[V], row[V + 1], row[V + 2], row[KAPPA])
        reaching |= above(_level(row, far, rounding), bound) & open_
        if reaching == among:
            break
    return reaching


@kernel
def _deepest_of(a, b, c, gaps, left, rows, m, rounding):
    """Return which of eight sites at (a, b, c) from the cell's cuts off a corner deepest, or -1."""
    deepest, far, cutting = splat(np.inf), roots(gaps), 0
    for i in range(m):
        row = shifted(rows, i * CORNER)
        depth = gaps * (0.5 * row[KAPPA]) - (a * row[V] + b * row[V + 1] + c * row[V + 2])
        cuts = above(_level(row, far, rounding), depth) & left
        deepest = where(cuts & above(deepest, depth), depth, deepest)
        cutting |= cuts
    if cutting == 0:
        return -1
    return trailing_zeros(cutting & equal(deepest, splat(least(deepest))))


@kernel
def _deepest_corner(rows, m, a, b, c, gap):
    """Return the corner that the site at (a, b, c) from the cell's cuts off deepest."""
    deepest, corner = np.inf, 0
    for i in range(m):
        row = shifted(rows, i * CORNER)
        at = 0.5 * row[KAPPA] * gap - (row[V] * a + row[V + 1] * b + row[V + 2] * c)
        if at < deepest:
            deepest, corner = at, i
    return corner


@kernel
def _spread(pos, n, number, site, chosen, numbers):
    """Choose sites that lie on the curve before and after one, 1, 8, 64, ... of them away; returns how many.

    Fills columns of ``SPREAD`` with where they lie as seen from it, and their squared distances.
    """
    count, step = 0, 1
    while step < n:
        for side in range(2):
            c = number + step if side == 0 else number - step
            if c < 0 or c >= n:
                continue
            a, b, d = pos[3 * c] - site[0], pos[3 * c + 1] - site[1], pos[3 * c + 2] - site[2]
            gap = a * a + b * b + d * d
            if gap > 0.0:
                chosen[count], chosen[SPREAD + count], chosen[2 * SPREAD + count] = a, b, d
                chosen[3 * SPREAD + count] = gap
                numbers[count] = c
                count += 1
        step *= 8
    return count


@kernel
def _deepest_spread(chosen, count, row):
    """Return the chosen site that cuts off a corner deepest, or -1."""
    deepest, best = 0.0, -1
    for i in range(0, count, WIDTH):
        a, b, c = lanes_at(chosen, i), lanes_at(chosen, SPREAD + i), lanes_at(chosen, 2 * SPREAD + i)
        gaps = lanes_at(chosen, 3 * SPREAD + i)
        depth = gaps * (0.5 * row[KAPPA]) - (a * row[V] + b * row[V + 1] + c * row[V + 2])
        level = _level(row, roots(gaps), _EPSILON)
        cuts = above(level, depth) & above(splat(deepest), depth) & lanes_in(count, i)
        if cuts != 0:
            deepest = least(where(cuts, depth, splat(0.0)))
            best = i + trailing_zeros(cuts & equal(depth, splat(deepest)))
    return best


@kernel
def _cut_by(rows, spare, m, owner, a, b, c, site, basis):
    """Cut the polygon by the site ``owner`` at (a, b, c) from the cell's."""
    return _cut(rows, spare, m, _normal(site, basis, a, b, c), owner, a * a + b * b + c * c, site, basis)


@kernel
def _begin(rows, spare, capacity, pos, n, known, count, site, basis, everyone):
    """Return the corners of the hemisphere against the nearest of the known sites, cut by all of these.

    Of all sites, if ``everyone`` and none is known. 0 where there is no other site, -1 where there is too little room.
    """
    nearest, least_gap = -1, np.inf
    for t in range(count if count > 0 or not everyone else n):
        c = known[t] if count > 0 else t
        a, b, d = pos[3 * c] - site[0], pos[3 * c + 1] - site[1], pos[3 * c + 2] - site[2]
        gap = a * a + b * b + d * d
        if 0.0 < gap < least_gap:
            nearest, least_gap = c, gap
    if nearest < 0:
        return 0
    a, b, d = pos[3 * nearest] - site[0], pos[3 * nearest + 1] - site[1], pos[3 * nearest + 2] - site[2]
    m = _hemisphere(rows, _normal(site, basis, a, b, d), nearest, least_gap, site, basis)
    for t in range(count):
        c = known[t]
        a, b, d = pos[3 * c] - site[0], pos[3 * c + 1] - site[1], pos[3 * c + 2] - site[2]
        if c == nearest or a * a + b * b + d * d == 0.0:
            continue
        size = _cut_by(rows, spare, m, c, a, b, d, site, basis)
        if size > 0:
            m = size
        if m + 3 > capacity:
            return -1
    return m


@kernel
def _without_middles(rows, m):
    """Drop corners amid an edge that needs none, as it is shorter than half a circle by far; returns how many stay."""
    i = 0
    while i < m:
        row, before = shifted(rows, i * CORNER), shifted(rows, (i - 1 if i > 0 else m - 1) * CORNER)
        after = shifted(rows, (i + 1 if i + 1 < m else 0) * CORNER)
        to_one = row[X] * before[X] + row[X + 1] * before[X + 1] + row[X + 2] * before[X + 2]
        to_other = row[X] * after[X] + row[X + 1] * after[X + 1] + row[X + 2] * after[X + 2]
        whole = before[X] * after[X] + before[X + 1] * after[X + 1] + before[X + 2] * after[X + 2]
        if row[OWNER] == before[OWNER] and to_one + to_other > 0.0 and whole > _SHORT:
            m -= 1
            for j in range(i, m):
                _copy(shifted(rows, j * CORNER), shifted(rows, (j + 1) * CORNER))
        else:
            i += 1
    return m


@kernel
def _cut_by_spread(rows, spare, m, pos, n, number, site, basis, chosen, numbers):
    """Cut by sites from all over the curve, for each corner the one that cuts it off deepest; returns the corners.

    In a cell of a line all corners are close to one place or two, and each site cuts off a little of what a nearer one
    has left: the far ones leave least.
    """
    count, cuts, i = _spread(pos, n, number, site, chosen, numbers), 0, 0
    while i < m and cuts < _FIRST:
        row = shifted(rows, i * CORNER)
        if row[SEEN] == 0.0:
            t = _deepest_spread(chosen, count, row)
            size = -1
            if t >= 0:
                a, b, d = chosen[t], chosen[SPREAD + t], chosen[2 * SPREAD + t]
                size = _cut_by(rows, spare, m, numbers[t], a, b, d, site, basis)
            if size > 0:
                m, i = size, 0
                cuts += 1
                continue
            row[SEEN] = 1.0
        i += 1
    return _without_middles(rows, m)


@kernel(
    "int64(float64[:, ::1], int64[::1], float64[:, ::1], int64[::1], float64[:, :, ::1], float64[:, :, ::1], "
    "float64[:, :, ::1], int32[::1], int64[::1], int32[::1], float64[::1], int32[::1], int32[::1], float64[::1], "
    "float64[::1], float64[:, ::1], int64[::1], int64[::1], int64[::1])"
)
def cut_rim_cells(
    centres,
    sites,
    vectors,
    starts,
    columns_,
    children_,
    oriented_,
    order_,
    first_of,
    known_,
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
    how many nodes of the tree they visited. Once
    THIN was returned, the tree is the one along lines, with its boxes and order; until then it has none.
    """
    n = vectors.shape[0]
    levels = starts.size - 1
    capacity = real.size // (2 * CORNER)
    rows, spare = pointer(real), shifted(pointer(real), capacity * CORNER)
    pos, known = pointer(vectors), pointer(known_)
    columns, children, oriented, order = pointer(columns_), pointer(children_), pointer(oriented_), pointer(order_)
    aligned = order_.size > 0
    basis_, site_ = np.empty(7), np.empty(3)
    basis, site = pointer(basis_), pointer(site_)
    chosen_, numbers_ = np.empty(4 * SPREAD), np.empty(SPREAD, np.int64)
    chosen, numbers = pointer(chosen_), pointer(numbers_)
    seen_ = np.empty(SEEN_ROWS * FAN)
    seen = pointer(seen_)
    stack, level_of = np.empty(STACK, np.int64), np.empty(STACK, np.int64)
    edge = np.empty(capacity, np.int64)
    nearest_stack, nearest_level = np.empty(NEAREST, np.int64), np.empty(NEAREST, np.int64)
    bound_of = np.empty(NEAREST)
    listed = np.full(n, -1, np.int32)
    none, infinite = splat(0.0), splat(np.inf)
    filled, drawn, visits = progress[1], progress[2], progress[3]
    for r in range(progress[0], sites.size):
        progress[0], progress[1], progress[2], progress[3] = r, filled, drawn, visits
        if not aligned and levels > 1 and visits > n // 4 + _VISITS_A_CELL * r:
            return THIN
        x, y, z = centres[r, 0], centres[r, 1], centres[r, 2]
        site[0], site[1], site[2] = x, y, z
        tangent(x, y, z, basis)
        count = first_of[r + 1] - first_of[r]
        m = _begin(rows, spare, capacity, pos, n, shifted(known, first_of[r]), count, site, basis, levels > 0)
        if m < 0:
            return MORE_VERTICES
        waiting = 0
        if levels > 0 and m > 0:
            m = _cut_by_spread(rows, spare, m, pos, n, sites[r], site, basis, chosen, numbers)
            if m + 3 > capacity:
                return MORE_VERTICES
            stack[0], level_of[0] = starts[levels] - 1, levels - 1
            waiting = 1
        cuts, rounding = 0, _EPSILON
        while waiting > 0:
            waiting -= 1
            node, level = stack[waiting], level_of[waiting]
            visits += 1
            if level > 0:
                place = node - starts[1]
                kids, along = shifted(children, place * 6 * FAN), shifted(oriented, place * ROW * FAN)
                first = starts[level - 1] + (node - starts[level]) * FAN
                gaps = box_gaps(kids, FAN, 3, x, x, y, y, z, z)
                left = _reaching(kids, along, aligned, seen, gaps, starts[level] - first, site, rows, m, rounding)
                while left != 0:  # the nearest on top
                    gap = greatest(where(left, gaps, splat(-1.0)))
                    lane = trailing_zeros(left & equal(gaps, splat(gap)))
                    left ^= 1 << lane
                    stack[waiting], level_of[waiting] = first + lane, level - 1
                    waiting += 1
                continue
            column = shifted(columns, node * LEAF * 3)
            p, q, o = lanes_at(column, 0) - x, lanes_at(column, LEAF) - y, lanes_at(column, 2 * LEAF) - z
            gaps = p * p + q * q + o * o
            left = above(gaps, none) & above(infinite, gaps)
            while left != 0:
                lane = _deepest_of(p, q, o, gaps, left, rows, m, rounding)
                if lane < 0:
                    break
                c = order[node * LEAF + lane] if aligned else node * LEAF + lane
                by = c
                a, b, d = pos[3 * c] - x, pos[3 * c + 1] - y, pos[3 * c + 2] - z
                cuts += 1
                if not aligned and levels > 1 and cuts > 4 * PLAIN + n // _SITES_A_CUT:
                    return THIN
                if cuts > GUIDED:
                    rounding = _CROWDED * _EPSILON
                elif aligned and cuts > 1:
                    # the nearest sites may each cut off a little; the one nearest to the corner cuts most
                    row = shifted(rows, _deepest_corner(rows, m, a, b, d, a * a + b * b + d * d) * CORNER)
                    for i in range(m):
                        edge[i] = int(rows[i * CORNER + OWNER])
                    by = nearest_beyond(
                        columns, n, 3, starts, children, oriented, order, x, y, z, row[V], row[V + 1], row[V + 2],
                        row[KAPPA], 0.0, _EPSILON, edge, m, nearest_stack, nearest_level, bound_of,
                    )  # fmt: skip
                    if by < 0:
                        by = c
                    a, b, d = pos[3 * by] - x, pos[3 * by + 1] - y, pos[3 * by + 2] - z
                size = _cut_by(rows, spare, m, by, a, b, d, site, basis)
                if size > 0:
                    m = size
                if size < 0 or by == c:
                    left ^= 1 << lane
                if m + 3 > capacity:
                    return MORE_VERTICES
        if filled + m > neighbours.size:
            return MORE_NEIGHBOURS
        if corners.shape[0] > 0:
            if drawn + m > corners.shape[0]:
                return MORE_NEIGHBOURS
            for i in range(m):
                row = shifted(rows, i * CORNER)
                corners[drawn + i, 0], corners[drawn + i, 1], corners[drawn + i, 2] = row[X], row[X + 1], row[X + 2]
                owner[drawn + i] = int(row[OWNER])
            drawn += m
        corner_count[r] = m
        before, far = filled, 0.0
        for i in range(m):
            row = shifted(rows, i * CORNER)
            c = int(row[OWNER])
            if listed[c] != r:
                listed[c] = r
                neighbours[filled] = c
                filled += 1
            far = max(far, (row[X] - x) ** 2 + (row[X + 1] - y) ** 2 + (row[X + 2] - z) ** 2)
        degree[r] = filled - before
        area[r] = _area(rows, m)
        radius[r] = np.sqrt(far) if m > 0 else 2.0
    # keeps the arrays alive while pointers to them are used
    basis_[6], chosen_[0], site_[0], seen_[0], numbers_[0] = 0.0, 0.0, 0.0, 0.0, 0
    progress[0], progress[1], progress[2], progress[3] = sites.size, filled, drawn, visits
    return DONE
