"""Cuts of a cell in 3-D by other sites: by some from all over the curve first, then by those found in a tree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtoss.cells.box_tree import CHILDREN, LEAF, SIDES, box_gaps
from dtoss.cells.cell_arguments import Corner
from dtoss.cells.half_planes import lanes_in, offset_of
from dtoss.cells.leaf_cuts import GUIDED, PLAIN
from dtoss.cells.oriented_boxes import ROW, least_along, least_upright, nearest_beyond, push_children
from dtoss.cells.rim_polygon import (
    CORNER,
    EVEN,
    KAPPA,
    OWNER,
    SEEN,
    SLOPE,
    V,
    cut_rim_by,
    guarded,
    without_guards,
    without_middles,
)
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.lanes8 import WIDTH, above, equal, lanes_at, larger, least, roots, splat, where
from dtoss.compiled.pointers import shift, trailing_zeros
from dtoss.geometry.distance import SPHERE
from dtoss.geometry.rounding import RIM_CUT

_CROWDED = 4.0
"""How much deeper a cut must be where more than GUIDED sites have cut a cell: many that meet in one corner, mostly."""
SPREAD = 32
"""Room for sites from all over the curve that cut first: two for each power of 8 below the number of sites."""
_APART = 8
"""How many times as far along the curve each of them is from the cell's own as the one before."""
_SITES_A_CUT = 16
"""A cell may be cut once more for each so many sites before the tree along lines is made: that takes as long."""
_SIDE = 0.9
"""Cosine of the widest angle between a corner and its site at which a disc round the corner ends before the horizon."""
_FIRST = 16
"""Cuts by these at the most."""
FULL, TOO_MANY = -1, -2
"""In place of a number of corners: there is room for no more, or too many sites have cut without a tree along lines."""


class Chosen(NamedTuple):
    """Sites from all over the curve: pointers to where they lie as seen from one, squared distances and numbers."""

    x: Any
    y: Any
    z: Any
    gap: Any
    number: Any


@kernel
def _corner(row):
    """Return a corner as boxes see it."""
    return Corner(row[V], row[V + 1], row[V + 2], row[KAPPA])


@kernel
def _level(row, far, rounding):
    """Return how deep sites at eight distances must cut a corner."""
    none = splat(0.0)
    shared = none - larger(far * -row[SLOPE], splat(-row[EVEN]))
    return none - larger(shared, far * rounding)


@kernel
def _rounding(cuts):
    """Return how deep a site must cut by its distance, after so many cuts."""
    return _CROWDED * RIM_CUT if cuts > GUIDED else RIM_CUT


@step
def _reaching(cell, m, tree, node, gaps, count, rounding):
    """Return the mask of those of a node's ``count`` children that may hold a site that cuts the cell.

    ``gaps`` are their squared distances.
    """
    inner = node - tree.starts[1]
    children, boxes = shift(tree.children, inner * SIDES * CHILDREN), shift(tree.boxes, inner * ROW * CHILDREN)
    among = lanes_in(count, 0)
    far, reaching = roots(gaps), 0
    for i in range(m):
        row = shift(cell.rows, i * CORNER)
        open_ = among ^ reaching
        if row[KAPPA] > _SIDE:
            # beyond the width of the disc round the corner through the site nothing is in it
            wide = row[V] * row[V] + row[V + 1] * row[V + 1] + row[V + 2] * row[V + 2]
            open_ &= ~above(gaps * (row[KAPPA] * row[KAPPA]), splat(4.0 * wide))
        if open_ == 0:
            continue
        if tree.aligned:
            bound = least_along(boxes, cell.site, _corner(row))
        else:
            bound = least_upright(children, cell.site, _corner(row))
        reaching |= above(_level(row, far, rounding), bound) & open_
        if reaching == among:
            break
    return reaching


@step
def _deepest_of(cell, m, a, b, c, left, rounding):
    """Return which of eight sites at (a, b, c) from the cell's cuts off a corner deepest, or -1."""
    gaps = a * a + b * b + c * c
    deepest, far, cutting = splat(np.inf), roots(gaps), 0
    for i in range(m):
        row = shift(cell.rows, i * CORNER)
        depth = gaps * (0.5 * row[KAPPA]) - (a * row[V] + b * row[V + 1] + c * row[V + 2])
        cuts = above(_level(row, far, rounding), depth) & left
        deepest = where(cuts & above(deepest, depth), depth, deepest)
        cutting |= cuts
    if cutting == 0:
        return -1
    return trailing_zeros(cutting & equal(deepest, splat(least(deepest))))


@kernel
def _deepest_corner(rows, m, a, b, c):
    """Return the row of the corner that the site at (a, b, c) from the cell's cuts off deepest."""
    deepest, corner, gap = np.inf, 0, a * a + b * b + c * c
    for i in range(m):
        row = shift(rows, i * CORNER)
        at = 0.5 * row[KAPPA] * gap - (row[V] * a + row[V + 1] * b + row[V + 2] * c)
        if at < deepest:
            deepest, corner = at, i
    return shift(rows, corner * CORNER)


@step
def _choose(cell, sites, number, chosen):
    """Choose sites that lie on the curve before and after one, 1, 8, 64, ... of them away; returns how many."""
    count, step = 0, 1
    while step < sites:
        for side in range(2):
            c = number + step if side == 0 else number - step
            if c < 0 or c >= sites:
                continue
            a, b, d = offset_of(cell.site, cell.positions, c)
            gap = a * a + b * b + d * d
            if gap > 0.0:
                chosen.x[count], chosen.y[count], chosen.z[count] = a, b, d
                chosen.gap[count], chosen.number[count] = gap, c
                count += 1
        step *= _APART
    return count


@step
def _deepest_chosen(chosen, count, row):
    """Return the chosen site that cuts off a corner deepest, or -1."""
    deepest, best = 0.0, -1
    for i in range(0, count, WIDTH):
        a, b, c = lanes_at(chosen.x, i), lanes_at(chosen.y, i), lanes_at(chosen.z, i)
        gaps = lanes_at(chosen.gap, i)
        depth = gaps * (0.5 * row[KAPPA]) - (a * row[V] + b * row[V + 1] + c * row[V + 2])
        level = _level(row, roots(gaps), RIM_CUT)
        cuts = above(level, depth) & above(splat(deepest), depth) & lanes_in(count, i)
        if cuts != 0:
            deepest = least(where(cuts, depth, splat(0.0)))
            best = i + trailing_zeros(cuts & equal(depth, splat(deepest)))
    return best


@step
def cut_by_chosen(cell, m, sites, number, chosen):
    """Cut by sites from all over the curve, for each corner the one that cuts it off deepest; returns the corners.

    In a cell of a line all corners are close to one place or two, and each site cuts off a little of what a nearer one
    has left: the far ones leave least.
    """
    count, cuts, i = _choose(cell, sites, number, chosen), 0, 0
    while i < m and cuts < _FIRST:
        row = shift(cell.rows, i * CORNER)
        if row[SEEN] == 0.0:
            t = _deepest_chosen(chosen, count, row)
            size = -1
            if t >= 0:
                size = cut_rim_by(cell, m, chosen.number[t], chosen.x[t], chosen.y[t], chosen.z[t])
            if size > 0:
                m, i = size, 0
                cuts += 1
                continue
            row[SEEN] = 1.0
        i += 1
    return without_middles(cell.rows, m)


@step
def _beyond_corner(cell, m, c, tree, edge, waiting):
    """Return the site nearest to the corner that site c cuts off deepest, or c itself. ``edge`` is workspace.

    The nearest sites may each cut off a little; the one nearest to the corner cuts most.
    """
    a, b, d = offset_of(cell.site, cell.positions, c)
    row = _deepest_corner(cell.rows, m, a, b, d)
    for i in range(m):
        edge[i] = int(cell.rows[i * CORNER + OWNER])
    best = nearest_beyond(tree, cell.site, _corner(row), 0.0, RIM_CUT, edge, m, waiting)
    return best if best >= 0 else c


@step
def _cut_by_leaf(cell, m, tree, leaf, cuts, edge, waiting):
    """Cut the cell by the sites of a leaf, for as long as one of them cuts off a corner, the deepest first.

    Returns the corners, FULL or TOO_MANY, and how many cuts were tried, of ``cuts`` before.
    """
    column = shift(tree.columns, leaf * LEAF * SPHERE)
    p, q, r = (
        lanes_at(column, 0) - cell.site.x,
        lanes_at(column, LEAF) - cell.site.y,
        lanes_at(column, 2 * LEAF) - cell.site.z,
    )
    gaps = p * p + q * q + r * r
    left = above(gaps, splat(0.0)) & above(splat(np.inf), gaps)
    while left != 0:
        lane = _deepest_of(cell, m, p, q, r, left, _rounding(cuts))
        if lane < 0:
            break
        c = tree.order[leaf * LEAF + lane] if tree.aligned else leaf * LEAF + lane
        cuts += 1
        if not tree.aligned and tree.levels > 1 and cuts > 4 * PLAIN + tree.sites // _SITES_A_CUT:
            return TOO_MANY, cuts
        by = c
        if tree.aligned and 1 < cuts <= GUIDED:
            by = _beyond_corner(cell, m, c, tree, edge, waiting)
        x, y, z = offset_of(cell.site, cell.positions, by)
        size = cut_rim_by(cell, m, by, x, y, z)
        if size > 0:
            m = guarded(cell, size) if size + 2 < cell.capacity else -1
        if size < 0 or by == c:
            left ^= 1 << lane
        if m < 0 or m + 2 >= cell.capacity:
            return FULL, cuts
    return m, cuts


@step
def cut_from_rim_tree(cell, m, tree, edge, waiting, nearest):
    """Cut the cell by the sites of a tree that cut off a corner of it, the nearest nodes first.

    Returns the corners, FULL or TOO_MANY, and how many nodes were visited. ``edge`` has room for the owners of all
    edges.
    """
    starts, site = tree.starts, cell.site
    waiting.node[0], waiting.level[0] = starts[tree.levels] - 1, tree.levels - 1
    count, visits, cuts = 1, 0, 0
    m = guarded(cell, m)
    if m < 0 or m + 2 >= cell.capacity:
        return FULL, visits
    while count > 0:
        count -= 1
        node, level = waiting.node[count], waiting.level[count]
        visits += 1
        if level > 0:
            first = starts[level - 1] + (node - starts[level]) * CHILDREN
            gaps = box_gaps(shift(tree.children, (node - starts[1]) * SIDES * CHILDREN), CHILDREN, site, site)
            left = _reaching(cell, m, tree, node, gaps, starts[level] - first, _rounding(cuts))
            count = push_children(waiting, count, left, gaps, first, level - 1)
            continue
        m, cuts = _cut_by_leaf(cell, m, tree, node, cuts, edge, nearest)
        if m < 0:
            return m, visits
    return without_guards(cell.rows, m), visits
