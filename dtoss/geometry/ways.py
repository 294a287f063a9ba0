"""Straight ways from one place to another, and how far along them what bounds a place is met first.

A way is a segment in the plane, and the shorter arc of a great circle on the sphere. A place is met where its circle
or one of its edges is: whoever asks knows that both ends lie outside. Edges that are straight in longitude and latitude
are met where the latitude of the arc, a function of the longitude that is concave north of the equator and convex south
of it, equals theirs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import EARTH_RADIUS, SPHERE, place_at
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN

ROUND, STRAIGHT, GREAT = range(3)
"""What bounds a place: a circle, an edge that is straight in its coordinates, an edge that is an arc."""
SIDE_FACTS = 6
"""Numbers of one: of a circle its centre as a vector and its radius; of a straight edge x and y of both ends; of an arc
both ends as vectors."""
_FOURTH, _LAST = 3, 5
MISSES, LEFT_OPEN = -1.0, -2.0
"""Shares of a way that are none: it is not met, and rounding leaves it open."""
_ROUNDING = 1e-14
_HALVINGS = 60
_TURNS = 5
"""Names of a longitude that an edge may have, from two turns below on."""
_FULL_TURN = 2.0 * HALF_TURN


class Edge(NamedTuple):
    """An edge that is straight in longitude and latitude; its longitude rises."""

    lon: Any
    lat: Any
    end_lon: Any
    end: Any  # The latitude at which it ends


class Arc(NamedTuple):
    """A way on the sphere."""

    lon: Any  # Where it begins, in degrees
    lat: Any
    turn: Any  # Degrees by which its longitude turns, 180 where it goes over a pole
    sign: Any  # 1.0 where it turns to the east, else -1.0
    end: Any  # The latitude at which it ends
    x: Any  # x, y, z: its beginning as a vector
    y: Any
    z: Any
    nx: Any  # nx, ny, nz: of unit length, to its left
    ny: Any
    nz: Any
    angle: Any  # Its length in radians


@kernel
def _arc_between(lon, lat, end_lon, end_lat, begin, end):
    x, y, z = begin.x, begin.y, begin.z
    dx, dy, dz = end.x - x, end.y - y, end.z - z
    sx, sy, sz = end.x + x, end.y + y, end.z + z
    nx, ny, nz = sy * dz - sz * dy, sz * dx - sx * dz, sx * dy - sy * dx
    length = np.sqrt(nx * nx + ny * ny + nz * nz)
    if length > 0.0:
        nx, ny, nz = nx / length, ny / length, nz / length
    angle = 2.0 * np.arctan2(np.sqrt(dx * dx + dy * dy + dz * dz), np.sqrt(sx * sx + sy * sy + sz * sz))
    # a pole has every longitude
    if abs(lat) == QUARTER_TURN:
        lon = end_lon
    if abs(end_lat) == QUARTER_TURN:
        end_lon = lon
    turn = end_lon - lon
    if turn > HALF_TURN:
        turn -= _FULL_TURN
    elif turn < -HALF_TURN:
        turn += _FULL_TURN
    sign = 1.0 if turn >= 0.0 else -1.0
    return Arc(lon, lat, abs(turn), sign, end_lat, x, y, z, nx, ny, nz, angle)


@kernel
def _turn(arc, x, y, z):
    """Return by which angle from its beginning a place is along the great circle of an arc, from -pi to pi."""
    tx, ty, tz = arc.ny * arc.z - arc.nz * arc.y, arc.nz * arc.x - arc.nx * arc.z, arc.nx * arc.y - arc.ny * arc.x
    return np.arctan2(x * tx + y * ty + z * tz, x * arc.x + y * arc.y + z * arc.z)


@kernel
def _arc_meets_circle(arc, x, y, z, radius):
    away = np.arcsin(min(abs(arc.nx * x + arc.ny * y + arc.nz * z), 1.0))
    if not EARTH_RADIUS * away <= radius:
        return MISSES
    middle = _turn(arc, x, y, z)
    if not 0.0 <= middle <= arc.angle:
        return MISSES
    wide = radius / EARTH_RADIUS
    half = np.sin((wide + away) / 2.0) * np.sin(max(wide - away, 0.0) / 2.0) / np.cos(away)
    return max(middle - 2.0 * np.arcsin(np.sqrt(min(half, 1.0))), 0.0) / arc.angle


@kernel
def _arc_meets_arc(arc, ax, ay, az, bx, by, bz):
    dx, dy, dz = bx - ax, by - ay, bz - az
    sx, sy, sz = bx + ax, by + ay, bz + az
    mx, my, mz = sy * dz - sz * dy, sz * dx - sx * dz, sx * dy - sy * dx
    first, last = arc.nx * ax + arc.ny * ay + arc.nz * az, arc.nx * bx + arc.ny * by + arc.nz * bz
    if first * last > 0.0:
        return MISSES
    x, y, z = arc.ny * mz - arc.nz * my, arc.nz * mx - arc.nx * mz, arc.nx * my - arc.ny * mx
    if x * x + y * y + z * z == 0.0:  # both on one great circle
        one, other = _turn(arc, ax, ay, az), _turn(arc, bx, by, bz)
        low, high = min(one, other), max(one, other)
        if high < 0.0 or low > arc.angle:
            return MISSES
        return max(low, 0.0) / arc.angle
    if x * sx + y * sy + z * sz < 0.0:
        x, y, z = -x, -y, -z
    at = _turn(arc, x, y, z)
    return at / arc.angle if 0.0 <= at <= arc.angle else MISSES


@kernel
def _latitude_at(arc, turn):
    """Return the latitude of an arc in degrees, and how steep it is there, so many degrees from its beginning."""
    whole, one = np.radians(arc.turn), np.radians(turn)
    begin, end = np.tan(np.radians(arc.lat)), np.tan(np.radians(arc.end))
    tangent = (begin * np.sin(whole - one) + end * np.sin(one)) / np.sin(whole)
    steep = (end * np.cos(one) - begin * np.cos(whole - one)) / np.sin(whole)
    return np.degrees(np.arctan(tangent)), steep / (1.0 + tangent * tangent)


@kernel
def _share_at(arc, turn, lat):
    """Return how far along an arc a place of it is, by its longitude from the beginning and its latitude."""
    begin, here, half = np.radians(arc.lat), np.radians(lat), np.sin(np.radians(turn) / 2.0)
    high = np.sin((here - begin) / 2.0)
    chord2 = high * high + np.cos(begin) * np.cos(here) * half * half
    return min(2.0 * np.arcsin(np.sqrt(min(chord2, 1.0))) / arc.angle, 1.0)


@kernel
def _over(arc, edge, turn):
    """Return how far an arc is north of an edge, in degrees, and how fast that grows."""
    lat, steep = _latitude_at(arc, turn)
    slope = (edge.end - edge.lat) / (edge.end_lon - edge.lon)
    return lat - (edge.lat + slope * (turn - edge.lon)), steep - slope


@kernel
def _root(arc, edge, low, high):
    """Return where an arc and an edge meet, between two places at which it is on different sides."""
    start = _over(arc, edge, low)[0]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if start * _over(arc, edge, middle)[0] > 0.0:
            low = middle
        else:
            high = middle
    return high


@kernel
def _piece_meets(arc, edge, low, high):
    """Return where an arc meets an edge first on a piece on one side of the equator, in degrees; -1 where it does not.

    ``edge``: both ends, by longitude from the beginning of the arc, rising.
    """
    first, growth = _over(arc, edge, low)
    last, shrinks = _over(arc, edge, high)
    if first == 0.0:
        return low
    if first * last <= 0.0:
        return _root(arc, edge, low, high)
    north = _latitude_at(arc, 0.5 * (low + high))[0] > 0.0
    bulges = first < 0.0 and north and growth > 0.0 and shrinks < 0.0
    if not bulges and not (first > 0.0 and not north and growth < 0.0 and shrinks > 0.0):
        return -1.0
    left, right = low, high
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        if growth * _over(arc, edge, middle)[1] > 0.0:
            left = middle
        else:
            right = middle
    if first * _over(arc, edge, left)[0] > 0.0:
        return -1.0
    return _root(arc, edge, low, left)


@kernel
def _meridian_meets(begin, end, edge):
    """Return the latitude at which a way along the meridian 0 meets an edge first, 360 where it does not."""
    if not edge.lon <= 0.0 <= edge.end_lon:
        return _FULL_TURN
    if edge.lon == edge.end_lon:
        low, high = min(edge.lat, edge.end), max(edge.lat, edge.end)
    else:
        low = high = edge.lat - (edge.end - edge.lat) * (edge.lon / (edge.end_lon - edge.lon))
    if high < min(begin, end) or low > max(begin, end):
        return _FULL_TURN
    return min(max(begin, low), high)


@kernel
def _arc_meets_edge(arc, edge):
    """Return how far along it an arc meets an edge, whose longitudes count from its beginning."""
    if 0.0 < arc.turn < HALF_TURN:
        low, high = max(edge.lon, 0.0), min(edge.end_lon, arc.turn)
        if low > high:
            return MISSES
        if edge.lon == edge.end_lon:
            lat = _latitude_at(arc, low)[0]
            return _share_at(arc, low, lat) if min(edge.lat, edge.end) <= lat <= max(edge.lat, edge.end) else MISSES
        at = -1.0
        if arc.lat * arc.end < 0.0:
            begin, end = np.tan(np.radians(arc.lat)), np.tan(np.radians(arc.end))
            whole = np.radians(arc.turn)
            # the tangent of the latitude is 0 there
            equator = np.degrees(np.arctan2(begin * np.sin(whole), begin * np.cos(whole) - end))
            equator += HALF_TURN if equator < 0.0 else 0.0
            if low < equator < high:
                at = _piece_meets(arc, edge, low, equator)
                low = equator
        if at < 0.0:
            at = _piece_meets(arc, edge, low, high)
        return MISSES if at < 0.0 else _share_at(arc, at, _latitude_at(arc, at)[0])
    if arc.turn == 0.0:
        lat = _meridian_meets(arc.lat, arc.end, edge)
        return MISSES if lat == _FULL_TURN else np.radians(abs(lat - arc.lat)) / arc.angle
    pole = QUARTER_TURN if arc.lat + arc.end > 0.0 else -QUARTER_TURN
    lat = _meridian_meets(arc.lat, pole, edge)
    if lat != _FULL_TURN:
        return np.radians(abs(lat - arc.lat)) / arc.angle
    behind = Edge(edge.lon - HALF_TURN, edge.lat, edge.end_lon - HALF_TURN, edge.end)
    lat = _meridian_meets(pole, arc.end, behind)
    return MISSES if lat == _FULL_TURN else np.radians(abs(pole - arc.lat) + abs(pole - lat)) / arc.angle


@kernel
def _arc_meets_straight(arc, x1, y1, x2, y2):
    """Return how far along it an arc meets an edge that is straight in longitude and latitude."""
    first, last = (x1 - arc.lon) * arc.sign, (x2 - arc.lon) * arc.sign
    found = MISSES
    for turns in range(_TURNS):
        away = (turns - 2) * _FULL_TURN
        if first <= last:
            share = _arc_meets_edge(arc, Edge(first + away, y1, last + away, y2))
        else:
            share = _arc_meets_edge(arc, Edge(last + away, y2, first + away, y1))
        if share >= 0.0 and (found < 0.0 or share < found):
            found = share
    return found


@kernel
def _segment_meets_circle(px, py, qx, qy, x, y, radius):
    dx, dy, ex, ey = qx - px, qy - py, x - px, y - py
    length = np.sqrt(dx * dx + dy * dy)
    along, one, other = (ex * dx + ey * dy) / length, dx * ey, dy * ex
    if not 0.0 < along < length:
        return MISSES
    away = abs(one - other) / length
    doubt = _ROUNDING * ((abs(one) + abs(other)) / length + radius)
    if away > radius + doubt:
        return MISSES
    if away >= radius - doubt:
        return LEFT_OPEN
    return max(along - np.sqrt((radius - away) * (radius + away)), 0.0) / length


@kernel
def _is_left(ax, ay, bx, by, x, y):
    """Return how far left of a line a place lies, times the length of it, and 0 where rounding leaves it open."""
    one, other = (bx - ax) * (y - ay), (by - ay) * (x - ax)
    found = one - other
    return found if abs(found) > _ROUNDING * (abs(one) + abs(other)) else 0.0


@kernel
def _segment_meets_edge(px, py, qx, qy, ax, ay, bx, by):
    if max(px, qx) < min(ax, bx) or max(ax, bx) < min(px, qx):
        return MISSES
    if max(py, qy) < min(ay, by) or max(ay, by) < min(py, qy):
        return MISSES
    first, last = _is_left(ax, ay, bx, by, px, py), _is_left(ax, ay, bx, by, qx, qy)
    if first * last > 0.0:
        return MISSES
    one, other = _is_left(px, py, qx, qy, ax, ay), _is_left(px, py, qx, qy, bx, by)
    if one * other > 0.0:
        return MISSES
    if first == 0.0 or last == 0.0 or one == 0.0 or other == 0.0:
        return LEFT_OPEN
    return first / (first - last)


@kernel(
    "void(float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], uint8[::1],"
    " float64[:, ::1], float64[::1])"
)
def meet_sides(begins, ends, from_vectors, to_vectors, ways, sides, kinds, facts, shares):
    """Write how far along it each way meets a side first: from 0 to 1, :data:`MISSES` or, in the plane, `LEFT_OPEN`.

    ``begins``, ``ends``: float64 (m, 2); ``from_vectors``, ``to_vectors``: the same as vectors; ``ways``, ``sides``:
    int64 (pairs,); ``kinds``, ``facts``: uint8 (k,) and float64 (k, 6). Of sides, see :data:`SIDE_FACTS`.
    """
    for i in range(ways.size):
        way, side = ways[i], sides[i]
        px, py, qx, qy = begins[way, 0], begins[way, 1], ends[way, 0], ends[way, 1]
        kind = kinds[side]
        f0, f1, f2, f3 = facts[side, 0], facts[side, 1], facts[side, 2], facts[side, _FOURTH]
        if from_vectors.shape[1] == SPHERE:
            begin = place_at(pointer(from_vectors), way, SPHERE)
            arc = _arc_between(px, py, qx, qy, begin, place_at(pointer(to_vectors), way, SPHERE))
            # opposite places have no shortest way
            if arc.angle == 0.0 or (arc.turn == HALF_TURN and arc.lat == -arc.end):
                shares[i] = MISSES
            elif kind == ROUND:
                shares[i] = _arc_meets_circle(arc, f0, f1, f2, f3)
            elif kind == STRAIGHT:
                shares[i] = _arc_meets_straight(arc, f0, f1, f2, f3)
            else:
                shares[i] = _arc_meets_arc(arc, f0, f1, f2, f3, facts[side, 4], facts[side, _LAST])
        elif px == qx and py == qy:
            shares[i] = MISSES
        elif kind == ROUND:
            shares[i] = _segment_meets_circle(px, py, qx, qy, f0, f1, f3)
        else:
            shares[i] = _segment_meets_edge(px, py, qx, qy, f0, f1, f2, f3)


def share_exactly(begin: tuple[float, float], end: tuple[float, float], kind: int, facts: Any) -> float:
    """Return how far along it a way of the plane meets a side first, decided in rational numbers."""
    px, py, qx, qy = (Fraction(float(one)) for one in (*begin, *end))
    dx, dy = qx - px, qy - py
    length2 = dx * dx + dy * dy
    if kind == ROUND:
        ex, ey = Fraction(float(facts[0])) - px, Fraction(float(facts[1])) - py
        radius2 = Fraction(float(facts[3])) ** 2
        at = min(max((ex * dx + ey * dy) / length2, Fraction(0)), Fraction(1))
        away2 = (ex - at * dx) ** 2 + (ey - at * dy) ** 2
        if away2 > radius2:
            return MISSES
        return max(float(at) - float((radius2 - away2) / length2) ** 0.5, 0.0)
    ax, ay, bx, by = (Fraction(float(one)) for one in facts[:4])
    ux, uy = bx - ax, by - ay
    first, last = ux * (py - ay) - uy * (px - ax), ux * (qy - ay) - uy * (qx - ax)
    one, other = dx * (ay - py) - dy * (ax - px), dx * (by - py) - dy * (bx - px)
    if first * last > 0 or one * other > 0:
        return MISSES
    if one == other == 0:  # on one line
        here, there = sorted(((x - px) * dx + (y - py) * dy) / length2 for x, y in ((ax, ay), (bx, by)))
        return MISSES if there < 0 or here > 1 else float(max(here, Fraction(0)))
    if first == last:
        return MISSES
    return float(first / (first - last))
