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

from dtoss.cells.box_tree import FAN, LEAF, Boxes, box_tree, child_columns, leaf_columns
from dtoss.cells.clipping import lanes_in
from dtoss.cells.line_order import line_order
from dtoss.cells.near_leaves import box_gaps
from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes8 import above, equal, greatest, lanes_at, larger, least, roots, splat, where
from dtoss.compiled.pointers import shifted, trailing_zeros
from dtoss.geometry.curve import arranged

ROW = 21
"""Numbers of a box: a site of it, its radius round that, three axes, three intervals along them, and, on the sphere,
one of ``c . e + |e|^2 / 2``, which is 0 but for the rounding of unit vectors."""
LOOKS = 32
"""Nodes looked into for the site nearest to a corner at the most: where all are as near, any will do."""
NEAREST = LOOKS * FAN
"""Room for the nodes that wait meanwhile."""


@kernel
def _offset(vectors, i, row, dimension, e):
    e[0], e[1] = vectors[i, 0] - row[0], vectors[i, 1] - row[1]
    if dimension == 3:
        e[2] = vectors[i, 2] - row[2]
    else:
        e[2] = 0.5 * (e[0] * e[0] + e[1] * e[1]) / row[3] if row[3] > 0.0 else 0.0


@kernel("void(float64[:, ::1], int64[::1], float64[:, :, ::1])")
def _fill(vectors, starts, columns):
    n, dimension = vectors.shape
    width = LEAF
    e, row = np.empty(3), np.empty(ROW)
    for level in range(starts.size - 2):
        for node in range(starts[level], starts[level + 1]):
            begin = (node - starts[level]) * width
            end = min(n, begin + width)
            middle = (begin + end) // 2
            row[:] = 0.0
            for axis in range(dimension):
                row[axis] = vectors[middle, axis]
            radius, far = 0.0, middle
            for i in range(begin, end):
                gap = 0.0
                for axis in range(dimension):
                    gap += (vectors[i, axis] - row[axis]) ** 2
                if gap > radius:
                    radius, far = gap, i
            radius = np.sqrt(radius)
            row[3] = radius
            # the first axis leads from the middle site to the furthest, the third is normal to that and to the site
            # furthest from their line
            _offset(vectors, far, row, dimension, e)
            length = np.sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2])
            a, b, c = (e[0] / length, e[1] / length, e[2] / length) if length > 0.0 else (1.0, 0.0, 0.0)
            most, p, q, r = 0.0, 0.0, 0.0, 0.0
            for i in range(begin, end):
                _offset(vectors, i, row, dimension, e)
                along = a * e[0] + b * e[1] + c * e[2]
                x, y, z = e[0] - along * a, e[1] - along * b, e[2] - along * c
                gap = x * x + y * y + z * z
                if gap > most:
                    most, p, q, r = gap, x, y, z
            x, y, z = b * r - c * q, c * p - a * r, a * q - b * p
            length = np.sqrt(x * x + y * y + z * z)
            if not length > 0.0:
                if abs(a) <= min(abs(b), abs(c)):
                    x, y, z = 0.0, c, -b
                elif abs(b) <= abs(c):
                    x, y, z = -c, 0.0, a
                else:
                    x, y, z = b, -a, 0.0
                length = np.sqrt(x * x + y * y + z * z)
            x, y, z = x / length, y / length, z / length
            row[4], row[5], row[6] = a, b, c
            row[7], row[8], row[9] = y * c - z * b, z * a - x * c, x * b - y * a
            row[10], row[11], row[12] = x, y, z
            for i in range(begin, end):
                _offset(vectors, i, row, dimension, e)
                for axis in range(3):
                    t = 4 + 3 * axis
                    along = row[t] * e[0] + row[t + 1] * e[1] + row[t + 2] * e[2]
                    row[13 + 2 * axis] = min(row[13 + 2 * axis], along)
                    row[14 + 2 * axis] = max(row[14 + 2 * axis], along)
                if dimension == 3:
                    along = 0.0
                    for axis in range(3):
                        along += e[axis] * (row[axis] + 0.5 * e[axis])
                    row[19], row[20] = min(row[19], along), max(row[20], along)
            parent, lane = divmod(node - starts[level], FAN)
            for i in range(ROW):
                columns[parent + starts[level + 1] - starts[1], i, lane] = row[i]
        width *= FAN


def oriented_boxes(tree: Boxes, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the boxes along the sites of each inner node's children, float64 (inner nodes, ROW, FAN).

    Numbers of children that there are not are 0. Cost O(n log n).
    """
    columns = np.zeros((len(tree.low) - int(tree.starts[1]), ROW, FAN))
    _fill(vectors, tree.starts, columns)
    return columns


@dataclass(frozen=True, slots=True)
class Lines:
    """A tree over sites in the order of the lines that they lie on, as high as the tree in curve order.

    Parameters
    ----------
    order
        int32 (n,). The sites of the tree's leaves, one after another.
    columns, children
        The sites of each leaf, and the upright boxes of each inner node's children, by coordinate.
    boxes
        float64 (inner nodes, ROW, FAN). The boxes along the sites of each inner node's children.
    """

    order: NDArray[np.int32]
    columns: NDArray[np.float64]
    children: NDArray[np.float64]
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
                vectors = arranged(self._vectors, order)
                tree = box_tree(vectors)
                boxes = oriented_boxes(tree, vectors)
                self._lines = Lines(order, leaf_columns(vectors), child_columns(tree), boxes)
            return self._lines


@kernel
def least_along(boxes, dimension, x, y, z, v, w, u, k):
    """Return the least F for a corner over each of eight boxes along their sites."""
    none = splat(0.0)
    a, b, c = lanes_at(boxes, 0) - x, lanes_at(boxes, FAN) - y, lanes_at(boxes, 2 * FAN) - z
    if dimension == 2:
        bound = (a * a + b * b) * (0.5 * k) - (a * v + b * w)
        p, q, r = a * k - v, b * k - w, lanes_at(boxes, 3 * FAN) * k
    else:
        bound = (a * a + b * b + c * c) * (0.5 * k) - (a * v + b * w + c * u)
        bound = bound - larger(lanes_at(boxes, 19 * FAN) * -k, lanes_at(boxes, 20 * FAN) * -k)
        p, q, r = splat(-(v + k * x)), splat(-(w + k * y)), splat(-(u + k * z))
    for axis in range(3):
        at = shifted(boxes, (4 + 3 * axis) * FAN)
        g = none - (p * lanes_at(at, 0) + q * lanes_at(at, FAN) + r * lanes_at(at, 2 * FAN))
        at = shifted(boxes, (13 + 2 * axis) * FAN)
        bound = bound - larger(g * lanes_at(at, 0), g * lanes_at(at, FAN))
    return bound


@kernel
def least_upright(children, dimension, x, y, z, v, w, u, k):
    """Return the least F for a corner over each of eight upright boxes, as ``child_columns`` has them."""
    bound = splat(0.0)
    for axis in range(dimension):
        at = x if axis == 0 else (y if axis == 1 else z)
        t = v if axis == 0 else (w if axis == 1 else u)
        a, b = lanes_at(children, 2 * axis * FAN) - at, lanes_at(children, (2 * axis + 1) * FAN) - at
        ends = (splat(t) - a * (0.5 * k)) * a
        other = (splat(t) - b * (0.5 * k)) * b
        ends = splat(0.0) - larger(ends, other)
        if k > 0.0:
            inner = above(splat(t), a * k) & above(b * k, splat(t))
            ends = where(inner, splat(-0.5 * t * t / k), ends)
        bound = bound + ends
    return bound


@kernel
def nearest_beyond(
    columns, n, dimension, starts, children, boxes, order, x, y, z, v, w, u, k, share, angle, edge, m, stack, level_of,
    bound_of,
):  # fmt: skip
    """Return the site with the least F for a corner, -1 where none cuts it by more than rounding.

    It looks into LOOKS nodes, those with the least bounds first: it may return another that cuts, or -2 where they hold
    none. Rounding is ``share |P|^2 + angle |P|``. Sites that have an edge already are passed over. ``stack``,
    ``level_of`` and ``bound_of`` have room for NEAREST nodes.
    """
    levels = starts.size - 1
    stack[0], level_of[0], bound_of[0] = starts[levels] - 1, levels - 1, -np.inf
    waiting, looks = 1, 0
    least_of_all, site = 0.0, -1
    none, infinite = splat(0.0), splat(np.inf)
    while waiting > 0:
        waiting -= 1
        if bound_of[waiting] >= least_of_all and site >= 0:
            continue
        if looks == LOOKS:
            return site if site >= 0 else -2
        looks += 1
        node, level = stack[waiting], level_of[waiting]
        if level > 0:
            first = starts[level - 1] + (node - starts[level]) * FAN
            kids = shifted(children, (node - starts[1]) * 2 * dimension * FAN)
            gaps = box_gaps(kids, FAN, dimension, x, x, y, y, z, z)
            bound = larger(
                least_upright(kids, dimension, x, y, z, v, w, u, k),
                least_along(shifted(boxes, (node - starts[1]) * ROW * FAN), dimension, x, y, z, v, w, u, k),
            )
            most = none - (gaps * share + roots(gaps) * angle)
            left = above(most, bound) & above(splat(least_of_all), bound) & lanes_in(starts[level] - first, 0)
            while left != 0:  # the least on top
                far = greatest(where(left, bound, splat(-np.inf)))
                lane = trailing_zeros(left & equal(bound, splat(far)))
                left ^= 1 << lane
                bound_of[waiting], stack[waiting], level_of[waiting] = far, first + lane, level - 1
                waiting += 1
            continue
        column = shifted(columns, node * LEAF * dimension)
        a, b = lanes_at(column, 0) - x, lanes_at(column, LEAF) - y
        gaps = a * a + b * b
        deep = a * v + b * w
        if dimension == 3:
            c = lanes_at(column, 2 * LEAF) - z
            gaps, deep = gaps + c * c, deep + c * u
        deep = gaps * (0.5 * k) - deep
        left = above(none - (gaps * share + roots(gaps) * angle), deep) & above(gaps, none)
        left &= above(splat(least_of_all), deep) & lanes_in(n - node * LEAF, 0)
        while left != 0:
            far = least(where(left, deep, infinite))
            lane = trailing_zeros(left & equal(deep, splat(far)))
            left ^= 1 << lane
            owns = False
            for i in range(m):
                owns |= edge[i] == order[node * LEAF + lane]
            if not owns:
                least_of_all, site = far, order[node * LEAF + lane]
                break
    return site
