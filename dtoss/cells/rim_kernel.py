"""Cells of the sphere that reach far from their site, cut in 3-D.

The gnomonic picture of a cell ends before 90 degrees. A cell that reaches 80 degrees from its site is cut again with
unit vectors as vertices: start with the hemisphere against its nearest other site, cut by the planes of the other
sites. Their normal is the same line as in the tangent plane, ``dx * e1 + dy * e2 - h * s``, so both pictures agree
where they overlap.
"""

from __future__ import annotations

import numpy as np

from dtoss.cells.box_tree import FAN, LEAF
from dtoss.cells.cell_kernel import DONE, GUIDED, MORE_NEIGHBOURS, MORE_VERTICES, PLAIN, THIN, tangent
from dtoss.cells.clipping import lanes_in
from dtoss.cells.near_leaves import box_gaps
from dtoss.cells.oriented_boxes import NEAREST, ROW, least_along, least_upright, nearest_beyond
from dtoss.cells.rim_polygon import (
    CORNER,
    EPSILON,
    EVEN,
    KAPPA,
    OWNER,
    SEEN,
    SLOPE,
    V,
    X,
    cut_by,
    hemisphere,
    plane_between,
    solid_angle,
    without_middles,
)
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import WIDTH, above, equal, greatest, lanes_at, larger, least, roots, splat, where
from dtoss.compiled.pointers import pointer, shifted, trailing_zeros

_CROWDED = 4.0
"""How much deeper a cut must be where more than GUIDED sites have cut a cell: many that meet in one corner, mostly."""
STACK = 1024
"""Room for nodes of the tree that wait."""
SPREAD = 32
"""Room for sites from all over the curve that cut first: two for each power of 8 below the number of sites."""
_SITES_A_CUT = 512
"""A cell may be cut once more for each so many sites before the tree along lines is made: that takes O(n log n)."""
_VISITS_A_CELL = 8
"""Nodes visited for a cell, beside a quarter as many as there are sites, after which oriented boxes are asked for."""
_SIDE = 0.9
"""Cosine of the widest angle between a corner and its site at which a disc round the corner ends before the horizon."""
_FIRST = 16
"""Cuts by these at the most."""


@kernel
def _level(row, far, rounding):
    """Return how deep sites at eight distances must cut a corner."""
    none = splat(0.0)
    shared = none - larger(far * -row[SLOPE], splat(-row[EVEN]))
    return none - larger(shared, far * rounding)


@kernel
def _reaching(children, boxes, aligned, gaps, count, site, rows, m, rounding):
    """Return the mask of those of eight nodes that may hold a site that cuts the cell; ``gaps`` are their distances."""
    among = lanes_in(count, 0)
    far, reaching = roots(gaps), 0
    x, y, z = site[0], site[1], site[2]
    for i in range(m):
        row = shifted(rows, i * CORNER)
        open_ = among ^ reaching
        if row[KAPPA] > _SIDE:
            # beyond the width of the disc round the corner through the site nothing is in it
            wide = row[V] * row[V] + row[V + 1] * row[V + 1] + row[V + 2] * row[V + 2]
            open_ &= ~above(gaps * (row[KAPPA] * row[KAPPA]), splat(4.0 * wide))
        if open_ == 0:
            continue
        if aligned:
            bound = least_along(boxes, 3, x, y, z, row[V], row[V + 1], row[V + 2], row[KAPPA])
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
        level = _level(row, roots(gaps), EPSILON)
        cuts = above(level, depth) & above(splat(deepest), depth) & lanes_in(count, i)
        if cuts != 0:
            deepest = least(where(cuts, depth, splat(0.0)))
            best = i + trailing_zeros(cuts & equal(depth, splat(deepest)))
    return best


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
    m = hemisphere(rows, plane_between(site, basis, a, b, d), nearest, least_gap, site, basis)
    for t in range(count):
        c = known[t]
        a, b, d = pos[3 * c] - site[0], pos[3 * c + 1] - site[1], pos[3 * c + 2] - site[2]
        if c == nearest or a * a + b * b + d * d == 0.0:
            continue
        size = cut_by(rows, spare, m, c, a, b, d, site, basis)
        if size > 0:
            m = size
        if m + 3 > capacity:
            return -1
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
                size = cut_by(rows, spare, m, numbers[t], a, b, d, site, basis)
            if size > 0:
                m, i = size, 0
                cuts += 1
                continue
            row[SEEN] = 1.0
        i += 1
    return without_middles(rows, m)


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
    how many nodes of the tree they visited. Once THIN was returned, the tree is the one along lines, with its boxes and
    order; until then there are none.
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
        cuts, rounding = 0, EPSILON
        while waiting > 0:
            waiting -= 1
            node, level = stack[waiting], level_of[waiting]
            visits += 1
            if level > 0:
                place = node - starts[1]
                kids, along = shifted(children, place * 6 * FAN), shifted(oriented, place * ROW * FAN)
                first = starts[level - 1] + (node - starts[level]) * FAN
                gaps = box_gaps(kids, FAN, 3, x, x, y, y, z, z)
                left = _reaching(kids, along, aligned, gaps, starts[level] - first, site, rows, m, rounding)
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
                    rounding = _CROWDED * EPSILON
                elif aligned and cuts > 1:
                    # the nearest sites may each cut off a little; the one nearest to the corner cuts most
                    row = shifted(rows, _deepest_corner(rows, m, a, b, d, a * a + b * b + d * d) * CORNER)
                    for i in range(m):
                        edge[i] = int(rows[i * CORNER + OWNER])
                    by = nearest_beyond(
                        columns, n, 3, starts, children, oriented, order, x, y, z, row[V], row[V + 1], row[V + 2],
                        row[KAPPA], 0.0, EPSILON, edge, m, nearest_stack, nearest_level, bound_of,
                    )  # fmt: skip
                    if by < 0:
                        by = c
                    a, b, d = pos[3 * by] - x, pos[3 * by + 1] - y, pos[3 * by + 2] - z
                size = cut_by(rows, spare, m, by, a, b, d, site, basis)
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
        area[r] = solid_angle(rows, m)
        radius[r] = np.sqrt(far) if m > 0 else 2.0
    # keeps the arrays alive while pointers to them are used
    basis_[6], chosen_[0], site_[0], numbers_[0] = 0.0, 0.0, 0.0, 0
    progress[0], progress[1], progress[2], progress[3] = sites.size, filled, drawn, visits
    return DONE
