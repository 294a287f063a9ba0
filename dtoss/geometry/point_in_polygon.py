"""Which places lie in a polygon, decided exactly: by the numbers that were written where these tell, else by vectors.

Edges crossed by the ray from a place in a fixed direction are counted. In the plane, and where edges are straight in
longitude and latitude, the ray runs along x; on the sphere to a place outside of the polygon, and the sign of a
determinant of three vectors says on which side of a great circle a place is. Where rounding could turn a sign, it is
computed again in rational numbers. Corners, meridians and the equator are looked at in longitude and latitude: a vector
is rounded, and a place on the meridian of an edge may be on either side of it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.distance import SPHERE, Place
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.rounding import DETERMINANT
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, space_of

MERIDIAN, EQUATOR = 1, 2
"""Kinds of edges of which longitude and latitude tell on which side of them a place is."""
EDGE_KIND, LON_BEGIN, LAT_BEGIN, LON_END, LAT_END, CORNER_KIND = range(6)
"""Columns of an edge: its kind, its ends as they were written, and the kind of the corner where it begins."""
MIXED = 1.0
"""The kind of a corner of two edges of which one is told by numbers: places that are as good as there belong to it, or
neighbours could lose one between them. One of two such edges needs nothing more, of no such edge it is the vector."""
NEAR_CORNER = 2.0**-51
"""Of each coordinate of a unit vector: three nanometres, twice what rounding moves both."""
NEAR_MERIDIAN = QUARTER_TURN
"""Degrees from a meridian up to which it is told by longitudes on which side of it a place is."""
FULL_TURN = 2.0 * HALF_TURN


@kernel
def side_of(a, b, p):
    """Return the sign of det(a, b, p) as 1 or -1, or 0 where rounding could turn it.

    With z = 1 for all three it is on which side of the line from a to b the place p lies.
    """
    return side_beyond(a, b, p, 0.0)


@kernel
def side_beyond(a, b, p, beside):
    """Return :func:`side_of`; 0 also where p may be ``beside`` radians or less from the great circle of a and b."""
    x, y, z = p.x, p.y, p.z
    ux, uy, uz = a.x - x, a.y - y, a.z - z
    vx, vy, vz = b.x - x, b.y - y, b.z - z
    i, j = uy * vz, uz * vy
    k, m = uz * vx, ux * vz
    n, o = ux * vy, uy * vx
    value = (i - j) * x + (k - m) * y + (n - o) * z
    size = (abs(i) + abs(j)) * abs(x) + (abs(k) + abs(m)) * abs(y) + (abs(n) + abs(o)) * abs(z)
    tolerance = DETERMINANT * size
    if beside > 0.0:
        tolerance += beside * (abs(ux - vx) + abs(uy - vy) + abs(uz - vz))
    if value > tolerance:
        return 1
    if value < -tolerance:
        return -1
    return 0


@kernel
def _lifted(points, row):
    """Return a place; of the plane with z = 1."""
    return Place(points[row, 0], points[row, 1], points[row, 2] if points.shape[1] == SPHERE else 1.0, SPHERE)


@kernel
def _equal(a, b):
    return a.x == b.x and a.y == b.y and a.z == b.z


@kernel
def _near(a, b):
    return abs(a.x - b.x) <= NEAR_CORNER and abs(a.y - b.y) <= NEAR_CORNER and abs(a.z - b.z) <= NEAR_CORNER


@kernel
def _eastward(lon, of):
    """Return by how many degrees a meridian is east of another one, in (-180, 180]; 0.0 for the same alone."""
    east = lon - of
    if east > HALF_TURN:
        east -= FULL_TURN
    elif east <= -HALF_TURN:
        east += FULL_TURN
    return east


@kernel
def _told(kind, lon, lat, lon_a, lat_a, lon_b, lat_b):
    """Return on which side of an edge a place is by the numbers that were written: 1 or -1, 2 on it, 0 if they do not.

    ``kind`` is that of the edge; the sides are those of :func:`side_of`.
    """
    if kind == EQUATOR:
        if lat != 0.0:
            return 1 if (lat > 0.0) == (_eastward(lon_b, lon_a) > 0.0) else -1
        along, whole = _eastward(lon, lon_a), _eastward(lon_b, lon_a)
        return 2 if min(0.0, whole) <= along <= max(0.0, whole) else 0
    east = _eastward(lon, lon_b if abs(lat_a) == QUARTER_TURN else lon_a)
    if east == 0.0:
        return 2 if min(lat_a, lat_b) <= lat <= max(lat_a, lat_b) else 0
    if abs(east) > NEAR_MERIDIAN:
        return 0
    return 1 if (east < 0.0) == (lat_b > lat_a) else -1


@kernel(
    "int64(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1],"
    " boolean[::1], int64[:, ::1], int64)"
)
def _scan(points, begins, ends, beyond, written, edge_of, odd, doubts, begin):
    """Set for each place from ``begin`` on whether an odd number of edges is crossed by its ray.

    What cannot be told of an edge goes to ``doubts`` as (place, edge), and (place, -1) where the place is on an edge
    for sure; how many stands in its last row. Returns the place it came to: all, or the one that lacked room.
    ``written`` has lon and lat of each place and ``edge_of`` what :func:`_written_edges` returns, or no rows.
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
            told = 0
            if edge_of.shape[0] == 0 or edge_of[e, CORNER_KIND] == 0.0:
                on_edge = _equal(a, p)
            elif edge_of[e, CORNER_KIND] == MIXED:
                on_edge = _near(a, p)
            if on_edge:
                break
            if edge_of.shape[0] and edge_of[e, EDGE_KIND] != 0.0:
                told = _told(
                    int(edge_of[e, EDGE_KIND]), written[r, 0], written[r, 1], edge_of[e, LON_BEGIN],
                    edge_of[e, LAT_BEGIN], edge_of[e, LON_END], edge_of[e, LAT_END],
                )  # fmt: skip
                if told == 2:
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
            side = told if told != 0 else side_of(a, b, p)
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


def inside(
    points: NDArray[np.float64], polygon: Polygon, positions: NDArray[np.float64] | None = None
) -> NDArray[np.bool_]:
    """Return which places (n, dimension) lie inside a polygon or on one of its edges, bool (n,).

    ``points``: float64 (n, dimension). Vectors; ``polygon``: on the sphere its ``degrees`` or ``straight`` say that
    numbers decide that were written; ``positions``: float64 (n, 2). Lon and lat of the places as they were written;
    None is those of the vectors, about.

    Cost O(n v) for v corners.
    """
    if polygon.straight is None and polygon.degrees is None:
        return _inside(points, polygon, np.zeros((0, 2)))
    if positions is None:
        positions = space_of().positions(points)
    if polygon.straight is None:
        return _inside(points, polygon, operand(positions, np.float64))
    return _inside_straight(operand(positions, np.float64), polygon.straight)


def _inside_straight(positions: NDArray[np.float64], polygon: Polygon) -> NDArray[np.bool_]:
    """Return which positions lie in a polygon of lon and lat; the antimeridian has two longitudes, a pole has all."""
    nothing = np.zeros((0, 2))
    held = _inside(positions, polygon, nothing)
    seam = np.flatnonzero(np.abs(positions[:, 0]) == HALF_TURN)
    if len(seam):
        held[seam] |= _inside(positions[seam] * [-1.0, 1.0], polygon, nothing)
    pole = np.flatnonzero(np.abs(positions[:, 1]) == QUARTER_TURN)
    if len(pole):
        held[pole] |= np.isin(positions[pole, 1], polygon.corners[:, 1])
    return held


def _inside(points: NDArray[np.float64], polygon: Polygon, written: NDArray[np.float64]) -> NDArray[np.bool_]:
    n, dimension = points.shape
    found = np.zeros(n, np.bool_)
    rows = np.arange(n)
    beyond = np.zeros(3)
    if dimension == 3:
        rows = np.flatnonzero(points @ polygon.middle > 0.0)
        beyond = _beyond(polygon.middle)
    places = operand(points[rows])
    begins, ends = (operand(edge) for edge in polygon.edges())
    edge_of = np.zeros((0, 6))
    if len(written):
        written, edge_of = operand(written[rows]), _written_edges(polygon)
    odd = np.zeros(len(places), np.bool_)
    doubts = np.empty((len(places) + 1025, 2), np.int64)
    on = np.zeros(len(places), np.bool_)
    at = 0
    while at < len(places):
        came = _scan(places, begins, ends, beyond, written, edge_of, odd, doubts, at)
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


def _written_edges(polygon: Polygon) -> NDArray[np.float64]:
    """Return of each edge its kind, lon and lat of both ends as they were written, and the kind of its first corner."""
    degrees = polygon.degrees
    assert degrees is not None
    ends = degrees[polygon.after()]
    (lon_a, lat_a), (lon_b, lat_b) = degrees.T, ends.T
    poles = (np.abs(lat_a) == QUARTER_TURN) | (np.abs(lat_b) == QUARTER_TURN)
    same = (lon_a == lon_b) | ((np.abs(lon_a) == HALF_TURN) & (np.abs(lon_b) == HALF_TURN))
    level = (lat_a == 0.0) & (lat_b == 0.0)
    kind = np.where(same | poles, MERIDIAN, np.where(level, EQUATOR, 0.0))
    before = np.empty(len(kind))
    before[polygon.after()] = kind
    corner = (kind != 0.0).astype(np.float64) + (before != 0.0)
    return operand(np.column_stack([kind, degrees, ends, corner]))


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
