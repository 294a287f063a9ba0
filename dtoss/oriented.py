"""Boxes along their sites: which sites may cut a long cell, however the line they lie on is turned.

A cell between two sites of a line reaches far, and the discs round its far corners touch the line along much of its
length. An upright box round a few sites of a tilted line, or of a circle, sticks out into those discs; a box along the
sites does not. Seen from site s, with P = p - s, another site p is nearer to a corner than s where

    F(p) = kappa |P|^2 / 2 - V . P

is negative: in the plane, and in the gnomonic picture of the sphere, V leads from s to the corner and kappa is 1; for
a unit vector v as corner, kappa is v . s and V the rest of v. With p = c + e, about a site c of the node, F is linear
in e on the sphere, as ``c . e = -|e|^2 / 2``, and linear in (e, |e|^2) in the plane: its least value over a box is a
sum of three products. So arcs of circles are as flat as lines.

The boxes are made where upright ones fail: ``THIN`` is what a kernel returns when it has looked at too many.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dtoss.boxes import FAN, LEAF, Boxes
from dtoss.eights import above, lanes_at, larger, splat, where
from dtoss.kernels import kernel
from dtoss.pointers import shifted

ROW = 21
"""Numbers of a box: a site of it, its radius round that, three axes, three intervals along them, and, on the sphere,
one of ``c . e + |e|^2 / 2``, which is 0 but for the rounding of unit vectors."""
NEAREST = 128
"""Room for the nodes that wait while the site nearest to a corner is looked for."""
LOOKS = 10
"""Nodes looked into for the site nearest to a corner at the most: where all are as near, any will do."""


@kernel
def _offset(vectors, i, row, dimension, e):
    e[0], e[1] = vectors[i, 0] - row[0], vectors[i, 1] - row[1]
    if dimension == 3:
        e[2] = vectors[i, 2] - row[2]
    else:
        e[2] = 0.5 * (e[0] * e[0] + e[1] * e[1]) / row[3] if row[3] > 0.0 else 0.0


@kernel("void(float64[:, ::1], int64[::1], float64[:, ::1])")
def _fill(vectors, starts, boxes):
    n, dimension = vectors.shape
    width = LEAF
    e = np.empty(3)
    for level in range(starts.size - 1):
        for node in range(starts[level], starts[level + 1]):
            begin = (node - starts[level]) * width
            end = min(n, begin + width)
            middle = (begin + end) // 2
            row = boxes[node]
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
        width *= FAN


def oriented_boxes(tree: Boxes, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the box along the sites of each node of a tree, float64 (nodes, ROW). Cost O(n log n)."""
    boxes = np.empty((len(tree.low), ROW))
    _fill(vectors, tree.starts, boxes)
    return boxes


class Oriented:
    """The boxes along the sites of a tree's nodes, made when first asked for, for all threads."""

    none: NDArray[np.float64] = np.zeros((0, ROW))

    def __init__(self, tree: Boxes, vectors: NDArray[np.float64]) -> None:
        self._tree, self._vectors, self._lock = tree, vectors, Lock()
        self._boxes: NDArray[np.float64] | None = None

    def boxes(self) -> NDArray[np.float64]:
        """Return float64 (nodes, ROW)."""
        with self._lock:
            if self._boxes is None:
                self._boxes = oriented_boxes(self._tree, self._vectors)
            return self._boxes


@kernel
def least_of_lanes(boxes, node, dimension, x, y, z, vx, vy, vz, kappa, i):
    """Return the least F over a node for eight corners, from place i on of the columns of V and kappa."""
    box = shifted(boxes, node * ROW)
    a, b, c, radius = box[0] - x, box[1] - y, box[2] - z, box[3]
    v, w, k = lanes_at(vx, i), lanes_at(vy, i), lanes_at(kappa, i)
    none = splat(0.0)
    if dimension == 2:
        bound = k * (0.5 * (a * a + b * b)) - (v * a + w * b)
        p, q, r = k * a - v, k * b - w, k * radius
    else:
        u = lanes_at(vz, i)
        bound = k * (0.5 * (a * a + b * b + c * c)) - (v * a + w * b + u * c)
        bound = bound - larger(none - k * box[19], none - k * box[20])
        p, q, r = none - (v + k * x), none - (w + k * y), none - (u + k * z)
    for axis in range(3):
        g = p * box[4 + 3 * axis] + q * box[5 + 3 * axis] + r * box[6 + 3 * axis]
        bound = bound - larger(none - g * box[13 + 2 * axis], none - g * box[14 + 2 * axis])
    return bound


@kernel
def least_in_box(low, high, node, x, y, z, vx, vy, vz, kappa, i):
    """Return the least F over the upright box of a node of the sphere, for eight corners from place i on."""
    k, none = lanes_at(kappa, i), splat(0.0)
    bound = none
    for axis in range(3):
        at = x if axis == 0 else (y if axis == 1 else z)
        v = lanes_at(vx if axis == 0 else (vy if axis == 1 else vz), i)
        a, b = low[node * 3 + axis] - at, high[node * 3 + axis] - at
        inner = above(k, none) & above(v, k * a) & above(k * b, v)
        ends = none - larger((v - k * (0.5 * a)) * a, (v - k * (0.5 * b)) * b)
        bound = bound + where(inner, none - v * v * 0.5 / k, ends)
    return bound


@kernel
def _least(boxes, node, dimension, x, y, z, v, w, u, k):
    """Return the least F over a node for one corner."""
    box = shifted(boxes, node * ROW)
    a, b, c, radius = box[0] - x, box[1] - y, box[2] - z, box[3]
    if dimension == 2:
        bound = k * (0.5 * (a * a + b * b)) - (v * a + w * b)
        p, q, r = k * a - v, k * b - w, k * radius
    else:
        bound = k * (0.5 * (a * a + b * b + c * c)) - (v * a + w * b + u * c)
        bound += min(k * box[19], k * box[20])
        p, q, r = -(v + k * x), -(w + k * y), -(u + k * z)
    for axis in range(3):
        g = p * box[4 + 3 * axis] + q * box[5 + 3 * axis] + r * box[6 + 3 * axis]
        bound += min(g * box[13 + 2 * axis], g * box[14 + 2 * axis])
    return bound


@kernel
def _least_between(low, high, v, k):
    """Return the least ``k t^2 / 2 - v t`` for t between two numbers."""
    if k > 0.0 and k * low < v < k * high:
        return -0.5 * v * v / k
    return min(low * (0.5 * k * low - v), high * (0.5 * k * high - v))


@kernel
def nearest_beyond(
    pos, n, dimension, starts, low, high, boxes, x, y, z, v, w, u, k, share, angle, edge, m, stack, level_of, bound_of
):
    """Return the site with the least F for a corner, -1 where none cuts it by more than rounding.

    It looks into LOOKS nodes, those with the least bounds first: it may return another that cuts, or -2 where they hold
    none. Rounding is ``share |P|^2 + angle |P|``. Sites that have an edge already are passed over. ``stack``,
    ``level_of`` and ``bound_of`` have room for NEAREST nodes.
    """
    levels = starts.size - 1
    stack[0], level_of[0], bound_of[0] = starts[levels] - 1, levels - 1, -np.inf
    waiting, looks = 1, 0
    least, site = 0.0, -1
    while waiting > 0:
        waiting -= 1
        if bound_of[waiting] >= least and site >= 0:
            continue
        if looks == LOOKS:
            return site if site >= 0 else -2
        looks += 1
        node, level = stack[waiting], level_of[waiting]
        if level > 0:
            base = waiting
            first = starts[level - 1] + (node - starts[level]) * FAN
            for child in range(first, min(starts[level], first + FAN)):
                at = child * dimension
                p, q = low[at] - x, high[at] - x
                side = max(max(p, -q), 0.0)
                gap = side * side
                bound = _least_between(p, q, v, k)
                p, q = low[at + 1] - y, high[at + 1] - y
                side = max(max(p, -q), 0.0)
                gap += side * side
                bound += _least_between(p, q, w, k)
                if dimension == 3:
                    p, q = low[at + 2] - z, high[at + 2] - z
                    side = max(max(p, -q), 0.0)
                    gap += side * side
                    bound += _least_between(p, q, u, k)
                most = min(least, -(share * gap + angle * np.sqrt(gap)))
                if bound > most:
                    continue
                bound = max(bound, _least(boxes, child, dimension, x, y, z, v, w, u, k))
                if bound > most:
                    continue
                i = waiting
                while i > base and bound_of[i - 1] < bound:
                    bound_of[i], stack[i], level_of[i] = bound_of[i - 1], stack[i - 1], level_of[i - 1]
                    i -= 1
                bound_of[i], stack[i], level_of[i] = bound, child, level - 1
                waiting += 1
            continue
        for c in range(node * LEAF, min(n, node * LEAF + LEAF)):
            a, b, d = pos[c * dimension] - x, pos[c * dimension + 1] - y, 0.0
            if dimension == 3:
                d = pos[c * dimension + 2] - z
            gap = a * a + b * b + d * d
            deep = 0.5 * k * gap - (v * a + w * b + u * d)
            if deep < least and deep < -(share * gap + angle * np.sqrt(gap)) and gap > 0.0:
                owns = False
                for i in range(m):
                    owns |= edge[i] == c
                if not owns:
                    least, site = deep, c
    return site
