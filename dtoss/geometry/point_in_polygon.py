"""Which places lie in a polygon, decided exactly for the vectors as they are.

Edges crossed by the ray from a place in a fixed direction are counted. In the plane the ray runs along x; on the sphere
to a place outside of the polygon, and the sign of a determinant of three vectors says on which side of a great circle a
place is. Where rounding could turn a sign, it is computed again in rational numbers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.place import SPHERE, Place
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.rounding import DETERMINANT


@kernel
def side_of(a, b, p):
    """Return the sign of det(a, b, p) as 1 or -1, or 0 where rounding could turn it.

    With z = 1 for all three it is on which side of the line from a to b the place p lies.
    """
    x, y, z = p.x, p.y, p.z
    ux, uy, uz = a.x - x, a.y - y, a.z - z
    vx, vy, vz = b.x - x, b.y - y, b.z - z
    i, j = uy * vz, uz * vy
    k, m = uz * vx, ux * vz
    n, o = ux * vy, uy * vx
    value = (i - j) * x + (k - m) * y + (n - o) * z
    size = (abs(i) + abs(j)) * abs(x) + (abs(k) + abs(m)) * abs(y) + (abs(n) + abs(o)) * abs(z)
    if value > DETERMINANT * size:
        return 1
    if value < -DETERMINANT * size:
        return -1
    return 0


@kernel
def _lifted(points, row):
    """Return a place; of the plane with z = 1."""
    return Place(points[row, 0], points[row, 1], points[row, 2] if points.shape[1] == SPHERE else 1.0, SPHERE)


@kernel
def _equal(a, b):
    return a.x == b.x and a.y == b.y and a.z == b.z


@kernel("int64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], boolean[::1], int64[:, ::1], int64)")
def _scan(points, begins, ends, beyond, odd, doubts, begin):
    """Set for each place from ``begin`` on whether an odd number of edges is crossed by its ray.

    What cannot be told of an edge goes to ``doubts`` as (place, edge), and (place, -1) where the place is on an edge
    for sure; how many stands in its last row. Returns the place it came to: all, or the one that lacked room.
    """
    n, dimension = points.shape
    edges = begins.shape[0]
    room, used = doubts.shape[0] - 1, 0
    outside = Place(beyond[0], beyond[1], beyond[2], SPHERE)
    for r in range(begin, n):
        p = _lifted(points, r)
        crossings = 0
        on_edge = False
        used_before = used
        side_b = 0
        for e in range(edges):
            a, b = _lifted(begins, e), _lifted(ends, e)
            if _equal(a, p):
                on_edge = True
                break
            if dimension == 2:
                if a.y == p.y and b.y == p.y:
                    if min(a.x, b.x) <= p.x <= max(a.x, b.x):
                        on_edge = True
                        break
                    continue
                if (a.y >= p.y) == (b.y >= p.y):
                    continue
                upward = b.y >= p.y
            else:
                # in a ring an edge begins where the one before ends
                side_a = side_b
                if e == 0 or not _equal(a, _lifted(ends, e - 1)):
                    side_a = side_of(p, outside, a)
                side_b = side_of(p, outside, b)
                if side_a == 0 or side_b == 0:
                    if used == room:
                        doubts[room, 0] = used_before
                        return r
                    doubts[used, 0], doubts[used, 1] = r, e
                    used += 1
                    continue
                if side_a == side_b:
                    continue
                upward = side_b > 0
            side = side_of(a, b, p)
            if side == 0:
                if used == room:
                    doubts[room, 0] = used_before
                    return r
                doubts[used, 0], doubts[used, 1] = r, e
                used += 1
            elif (side > 0) == upward:
                crossings += 1
        if on_edge:
            used = used_before
            if used == room:
                doubts[room, 0] = used_before
                return r
            doubts[used, 0], doubts[used, 1] = r, -1
            used += 1
        odd[r] = crossings % 2 == 1
    doubts[room, 0] = used
    return n


def inside(points: NDArray[np.float64], polygon: Polygon) -> NDArray[np.bool_]:
    """Return which places (n, dimension) lie inside a polygon or on one of its edges, bool (n,).

    Cost O(n v) for v corners.
    """
    n, dimension = points.shape
    found = np.zeros(n, np.bool_)
    rows = np.arange(n)
    beyond = np.zeros(3)
    if dimension == 3:
        rows = np.flatnonzero(points @ polygon.middle > 0.0)
        beyond = _beyond(polygon.middle)
    places = operand(points[rows])
    begins, ends = (operand(edge) for edge in polygon.edges())
    odd = np.zeros(len(places), np.bool_)
    doubts = np.empty((len(places) + 1025, 2), np.int64)
    on = np.zeros(len(places), np.bool_)
    at = 0
    while at < len(places):
        came = _scan(places, begins, ends, beyond, odd, doubts, at)
        for place, edge in doubts[: doubts[-1, 0]].tolist():
            if edge < 0:
                on[place] = True
            elif not on[place]:
                touches, crosses = _exactly(places[place], begins[edge], ends[edge], beyond)
                on[place] |= touches
                odd[place] ^= crosses
        if came == at:
            doubts = np.empty((2 * len(doubts), 2), np.int64)
        at = came
    found[rows] = odd | on
    return found


def _beyond(middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a direction that no polygon around the middle holds and that no place is the opposite of."""
    aside = np.zeros(3)
    aside[int(np.abs(middle).argmin())] = 1.0
    aside -= (aside @ middle) * middle
    return np.asarray(-middle + 0.3141592653589793 * aside / np.linalg.norm(aside))


def _exactly(
    place: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64], beyond: NDArray[np.float64]
) -> tuple[bool, bool]:
    """Return whether a place is on an edge, and whether its ray crosses it, in rational numbers."""
    if len(place) == 2:
        (x, y), (ax, ay), (bx, by) = ([Fraction(c) for c in v.tolist()] for v in (place, a, b))
        turn = (ax - x) * (by - y) - (ay - y) * (bx - x)
        between = min(ax, bx) <= x <= max(ax, bx) and min(ay, by) <= y <= max(ay, by)
        return turn == 0 and between, (ay >= y) != (by >= y) and (turn > 0) == (by >= y)
    p, u, v, o = ([Fraction(c) for c in w.tolist()] for w in (place, a, b, beyond))
    turn = _det(u, v, p)
    if turn == 0:
        normal = _cross(u, v)
        return _dot(_cross(u, p), normal) >= 0 and _dot(_cross(p, v), normal) >= 0, False
    first, second = _det(p, o, u) >= 0, _det(p, o, v) >= 0
    return False, first != second and (turn > 0) == second


def _cross(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _det(a: list[Fraction], b: list[Fraction], c: list[Fraction]) -> Fraction:
    return _dot(_cross(a, b), c)
