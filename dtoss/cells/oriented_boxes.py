"""Boxes along their sites: which sites may cut a long cell, however the line they lie on is turned.

A cell between two sites of a line reaches far, and the discs round its far corners touch the line along much of its
length. An upright box round a few sites of a tilted line, or of a circle, sticks out into those discs; a box along the
sites does not. Seen from site s, with P = p - s, another site p is nearer to a corner than s where

    F(p) = kappa |P|^2 / 2 - V . P

is negative: in the plane, and in the gnomonic picture of the sphere, V leads from s to the corner and kappa is 1; for
a unit vector v as corner, kappa is v . s and V the rest of v. With p = c + e, about a site c of the node, F is linear
in e on the sphere, as ``c . e = -|e|^2 / 2``, and linear in (e, |e|^2) in the plane: its least value over a box is a
sum of three products. So arcs of circles are as flat as lines.

The tree of such boxes is made where upright ones fail: ``THIN`` is what a kernel returns when it has looked at too
many.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.box_tree import CHILDREN, LEAF, Boxes, box_gaps, box_tree, child_columns, leaf_columns
from dtoss.cells.half_planes import lanes_in
from dtoss.cells.line_order import line_order
from dtoss.compiled.kernel import kernel, step
from dtoss.compiled.lanes8 import above, equal, greatest, lanes_at, larger, least, roots, splat, where
from dtoss.compiled.pointers import shift, trailing_zeros
from dtoss.geometry.distance import SPHERE
from dtoss.geometry.hilbert import take_rows

_RADIUS, _AXES = SPHERE, SPHERE + 1
_ENDS = _AXES + SPHERE * SPHERE
_TOP = _ENDS + 2 * SPHERE
ROW = _TOP + 2
"""Numbers of a box: a site of it, its radius round that, three axes, three intervals along them, and, on the sphere,
one of ``c . e + |e|^2 / 2``, which is 0 but for the rounding of unit vectors. Those above are their places."""
LOOKS = 32
"""Nodes looked into for the site nearest to a corner at the most: where all are as near, any will do."""
NEAREST = LOOKS * CHILDREN
"""Room for the nodes that wait meanwhile."""


@kernel
def _offset(vectors, i, row, dimension):
    """Return where site i lies as seen from a box's own, as F is linear in it."""
    a, b = vectors[i, 0] - row[0], vectors[i, 1] - row[1]
    if dimension == SPHERE:
        return a, b, vectors[i, 2] - row[2]
    return a, b, 0.5 * (a * a + b * b) / row[_RADIUS] if row[_RADIUS] > 0.0 else 0.0


@step
def _furthest(vectors, begin, end, row):
    """Return the site of a run that is furthest from a box's own, and how far it is."""
    radius, far = 0.0, (begin + end) // 2
    for i in range(begin, end):
        gap = 0.0
        for axis in range(vectors.shape[1]):
            d = vectors[i, axis] - row[axis]
            gap += d * d
        if gap > radius:
            radius, far = gap, i
    return far, np.sqrt(radius)


@step
def _any_normal(a, b, c):
    """Return a vector at a right angle to (a, b, c)."""
    if abs(a) <= min(abs(b), abs(c)):
        return 0.0, c, -b
    if abs(b) <= abs(c):
        return -c, 0.0, a
    return b, -a, 0.0


@step
def _fill_axes(vectors, begin, end, far, row):
    """Fill the axes of a box: the first leads from its site to the furthest.

    The third is normal to that, and to the site furthest from their line.
    """
    dimension = vectors.shape[1]
    a, b, c = _offset(vectors, far, row, dimension)
    length = np.sqrt(a * a + b * b + c * c)
    a, b, c = (a / length, b / length, c / length) if length > 0.0 else (1.0, 0.0, 0.0)
    most, p, q, r = 0.0, 0.0, 0.0, 0.0
    for i in range(begin, end):
        e, f, g = _offset(vectors, i, row, dimension)
        along = a * e + b * f + c * g
        x, y, z = e - along * a, f - along * b, g - along * c
        gap = x * x + y * y + z * z
        if gap > most:
            most, p, q, r = gap, x, y, z
    x, y, z = b * r - c * q, c * p - a * r, a * q - b * p
    length = np.sqrt(x * x + y * y + z * z)
    if not length > 0.0:
        x, y, z = _any_normal(a, b, c)
        length = np.sqrt(x * x + y * y + z * z)
    x, y, z = x / length, y / length, z / length
    t = _AXES
    row[t], row[t + 1], row[t + 2] = a, b, c
    t += SPHERE
    row[t], row[t + 1], row[t + 2] = y * c - z * b, z * a - x * c, x * b - y * a
    t += SPHERE
    row[t], row[t + 1], row[t + 2] = x, y, z


@step
def _fill_ends(vectors, begin, end, row):
    """Fill the intervals of a box along its axes, from a box of no width."""
    dimension = vectors.shape[1]
    for i in range(begin, end):
        e = _offset(vectors, i, row, dimension)
        for axis in range(SPHERE):
            t, ends = _AXES + SPHERE * axis, _ENDS + 2 * axis
            along = row[t] * e[0] + row[t + 1] * e[1] + row[t + 2] * e[2]
            row[ends] = min(row[ends], along)
            row[ends + 1] = max(row[ends + 1], along)
        if dimension == SPHERE:
            along = 0.0
            for axis in range(SPHERE):
                along += e[axis] * (row[axis] + 0.5 * e[axis])
            row[_TOP], row[_TOP + 1] = min(row[_TOP], along), max(row[_TOP + 1], along)


@kernel("void(float64[:, ::1], int64[::1], float64[:, :, ::1])")
def _fill(vectors, starts, columns):
    """Fill the boxes of all nodes but the root, those of one parent's children side by side."""
    n, dimension = vectors.shape
    width = LEAF
    row = np.empty(ROW)
    for level in range(starts.size - 2):
        for node in range(starts[level], starts[level + 1]):
            begin = (node - starts[level]) * width
            end = min(n, begin + width)
            row[:] = 0.0
            for axis in range(dimension):
                row[axis] = vectors[(begin + end) // 2, axis]
            far, radius = _furthest(vectors, begin, end, row)
            row[_RADIUS] = radius
            _fill_axes(vectors, begin, end, far, row)
            _fill_ends(vectors, begin, end, row)
            parent, lane = divmod(node - starts[level], CHILDREN)
            for i in range(ROW):
                columns[parent + starts[level + 1] - starts[1], i, lane] = row[i]
        width *= CHILDREN


def oriented_boxes(tree: Boxes, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the boxes along the sites of each inner node's children, float64 (inner nodes, ROW, CHILDREN).

    Numbers of children that there are not are 0. Cost O(n log n).
    """
    columns = np.zeros((len(tree.low) - int(tree.starts[1]), ROW, CHILDREN))
    _fill(vectors, tree.starts, columns)
    return columns


@dataclass(frozen=True, slots=True)
class Lines:
    """A tree over sites in the order of the lines that they lie on, as high as the tree in curve order."""

    order: NDArray[np.int32]  # int32 (n,). The sites of the tree's leaves, one after another
    # columns, children: the sites of each leaf, and the upright boxes of each inner node's children, by coordinate
    columns: NDArray[np.float64]
    children: NDArray[np.float64]
    # float64 (inner nodes, ROW, CHILDREN). The boxes along the sites of each inner node's children
    boxes: NDArray[np.float64]


NO_LINES = Lines(np.zeros(0, np.int32), *(np.zeros((0, 0, 0)) for _ in range(3)))


class Oriented:
    """The tree along lines, made when it is first asked for, for all threads."""

    def __init__(self, vectors: NDArray[np.float64]) -> None:
        self._vectors, self._lock = vectors, Lock()
        self._lines: Lines | None = None

    def lines(self) -> Lines:
        """Return the tree. Cost O(n log n), once."""
        with self._lock:
            if self._lines is None:
                order = line_order(self._vectors)
                vectors = take_rows(self._vectors, order)
                tree = box_tree(vectors)
                boxes = oriented_boxes(tree, vectors)
                self._lines = Lines(order, leaf_columns(vectors), child_columns(tree), boxes)
            return self._lines


@kernel
def least_along(boxes, site, corner):
    """Return the least F for a corner over each of eight boxes along their sites."""
    none = splat(0.0)
    v, w, u, k = corner.x, corner.y, corner.z, corner.kappa
    a, b, c = lanes_at(boxes, 0) - site.x, lanes_at(boxes, CHILDREN) - site.y, lanes_at(boxes, 2 * CHILDREN) - site.z
    # F at the site of the box, and the vector along which it falls from there
    if site.dimension == 2:
        bound = (a * a + b * b) * (0.5 * k) - (a * v + b * w)
        p, q, r = a * k - v, b * k - w, lanes_at(boxes, _RADIUS * CHILDREN) * k
    else:
        bound = (a * a + b * b + c * c) * (0.5 * k) - (a * v + b * w + c * u)
        at = shift(boxes, _TOP * CHILDREN)
        bound = bound - larger(lanes_at(at, 0) * -k, lanes_at(at, CHILDREN) * -k)
        p, q, r = splat(-(v + k * site.x)), splat(-(w + k * site.y)), splat(-(u + k * site.z))
    # how much it falls at the most along each axis
    for axis in range(SPHERE):
        at = shift(boxes, (_AXES + SPHERE * axis) * CHILDREN)
        g = none - (p * lanes_at(at, 0) + q * lanes_at(at, CHILDREN) + r * lanes_at(at, 2 * CHILDREN))
        at = shift(boxes, (_ENDS + 2 * axis) * CHILDREN)
        bound = bound - larger(g * lanes_at(at, 0), g * lanes_at(at, CHILDREN))
    return bound


@kernel
def least_upright(children, site, corner):
    """Return the least F for a corner over each of eight upright boxes, as ``child_columns`` has them."""
    bound, k = splat(0.0), corner.kappa
    for axis in range(site.dimension):
        at = site.x if axis == 0 else (site.y if axis == 1 else site.z)
        t = corner.x if axis == 0 else (corner.y if axis == 1 else corner.z)
        a, b = lanes_at(children, 2 * axis * CHILDREN) - at, lanes_at(children, (2 * axis + 1) * CHILDREN) - at
        ends = (splat(t) - a * (0.5 * k)) * a
        other = (splat(t) - b * (0.5 * k)) * b
        ends = splat(0.0) - larger(ends, other)
        if k > 0.0:
            inner = above(splat(t), a * k) & above(b * k, splat(t))
            ends = where(inner, splat(-0.5 * t * t / k), ends)
        bound = bound + ends
    return bound


@kernel
def push_children(waiting, count, left, keys, first, level):
    """Let those of eight nodes wait that are in the mask ``left``, that of the least key on top; returns how many do.

    They are ``first``, ``first + 1`` and so on; ``count`` wait already.
    """
    while left != 0:
        key = greatest(where(left, keys, splat(-np.inf)))
        lane = trailing_zeros(left & equal(keys, splat(key)))
        left ^= 1 << lane
        waiting.node[count], waiting.level[count], waiting.key[count] = first + lane, level, key
        count += 1
    return count


@step
def _deep_in_leaf(tree, node, site, corner):
    """Return F of the eight sites of a leaf, and their squared distances."""
    column = shift(tree.columns, node * LEAF * site.dimension)
    a, b = lanes_at(column, 0) - site.x, lanes_at(column, LEAF) - site.y
    gaps = a * a + b * b
    deep = a * corner.x + b * corner.y
    if site.dimension == SPHERE:
        c = lanes_at(column, 2 * LEAF) - site.z
        gaps, deep = gaps + c * c, deep + c * corner.z
    return gaps * (0.5 * corner.kappa) - deep, gaps


@step
def _has_edge(edge, m, number):
    """Return whether a site has one of m edges."""
    found = False
    for i in range(m):
        found |= edge[i] == number
    return found


@kernel
def nearest_beyond(tree, site, corner, share, angle, edge, m, waiting):
    """Return the site with the least F for a corner, -1 where none cuts it by more than rounding.

    It looks into LOOKS nodes of a tree along lines, those with the least bounds first: it may return another that cuts,
    or -2 where they hold none. Rounding is ``share |P|^2 + angle |P|``. Sites are passed over that have one of the m
    edges already. There is room for NEAREST nodes in ``waiting``.
    """
    starts, levels = tree.starts, tree.levels
    waiting.node[0], waiting.level[0], waiting.key[0] = starts[levels] - 1, levels - 1, -np.inf
    count, looks = 1, 0
    least_of_all, found = 0.0, -1
    none, infinite = splat(0.0), splat(np.inf)
    while count > 0:
        count -= 1
        if waiting.key[count] >= least_of_all and found >= 0:
            continue
        if looks == LOOKS:
            return found if found >= 0 else -2
        looks += 1
        node, level = waiting.node[count], waiting.level[count]
        if level > 0:
            # of its children those wait whose bound is below what was found, the least on top
            first, inner = starts[level - 1] + (node - starts[level]) * CHILDREN, node - starts[1]
            kids = shift(tree.children, inner * 2 * site.dimension * CHILDREN)
            gaps = box_gaps(kids, CHILDREN, site, site)
            bound = larger(
                least_upright(kids, site, corner),
                least_along(shift(tree.boxes, inner * ROW * CHILDREN), site, corner),
            )
            most = none - (gaps * share + roots(gaps) * angle)
            left = above(most, bound) & above(splat(least_of_all), bound) & lanes_in(starts[level] - first, 0)
            count = push_children(waiting, count, left, bound, first, level - 1)
            continue
        # of its sites the deepest counts that has no edge yet
        deep, gaps = _deep_in_leaf(tree, node, site, corner)
        left = above(none - (gaps * share + roots(gaps) * angle), deep) & above(gaps, none)
        left &= above(splat(least_of_all), deep) & lanes_in(tree.sites - node * LEAF, 0)
        while left != 0:
            far = least(where(left, deep, infinite))
            lane = trailing_zeros(left & equal(deep, splat(far)))
            left ^= 1 << lane
            if not _has_edge(edge, m, tree.order[node * LEAF + lane]):
                least_of_all, found = far, tree.order[node * LEAF + lane]
                break
    return found
