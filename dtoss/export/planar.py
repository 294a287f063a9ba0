"""Rings of great-circle arcs as polygons of straight edges in lon, lat: what programs draw that know no sphere.

Arcs become chains of pieces that stay within a tolerance, and rings are cut at the antimeridian and closed along the
poles. All points lie on a grid, and an edge is split by its ends alone: who shares it draws the same points, so that
cells have no gaps and no overlaps but where rounding takes a corner for two. Needs shapely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.export.geoparquet import Geometries
from dtoss.extras import need
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN
from dtoss.row_runs import offsets

PLANAR_TOLERANCE = 1.0
"""Metres that a straight edge in lon, lat may leave its great circle, unless another number is given."""
GRID_DIGITS = 9
"""Of a degree behind the point: corners are rounded to 0.1 mm."""
_WHOLE_TURN = 360.0
_WIDEST = 90.0
"""Degrees of longitude that a piece of an arc may span: what way it goes is beyond doubt."""
_SAMPLES = np.arange(1, 8) / 8.0
"""Where on a straight piece it is compared with its arc."""
_POINT = 1e-11
"""Radians, less than the grid is wide, of an arc that is not split."""
_NO_WEDGE = 1e-6
"""Degrees by which the way round a pole may fall short of a whole turn, by rounding, where it is none."""
_TRIANGLE = 3
_KINDS = {3: "Polygon", 6: "MultiPolygon"}
"""By shapely's number."""


def on_grid(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places (n, 2) in degrees rounded to the grid; each has one name: lon 180 and not -180, 0 at the poles."""
    points = np.round(lonlat, GRID_DIGITS) + 0.0
    points[points[:, 0] == -HALF_TURN, 0] = HALF_TURN
    points[np.abs(points[:, 1]) == QUARTER_TURN, 0] = 0.0
    return points


def polygons_of(
    first: NDArray[np.int64], points: NDArray[np.float64], tolerance: float = PLANAR_TOLERANCE
) -> NDArray[Any]:
    """Return what lies on the left of rings, each no more than half of the sphere, as shapely polygons, valid ones.

    object (n,): Polygon, MultiPolygon where the antimeridian cuts it, None where nothing is left on the grid.
    ``first``: int64 (n + 1,). Ring i has the corners ``points[first[i]:first[i + 1]]``, each once; ``points``: float64
    (p, 2). Of the grid; the edge to the next is the shorter arc of their great circle, at most 90 degrees;
    ``tolerance``: metres, as :data:`PLANAR_TOLERANCE`.
    """
    first, points = _chained(first, points, tolerance)
    first, points = without_repeats(first, points)
    lon, lat = points.T
    count = np.diff(first)
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    at = first[:-1][count > 0]
    if len(at):
        low[count > 0], high[count > 0] = np.minimum.reduceat(lon, at), np.maximum.reduceat(lon, at)
    ring = np.repeat(np.arange(len(count)), count)
    unrolled = (high - low >= HALF_TURN) | (np.bincount(ring[np.abs(lat) == QUARTER_TURN], minlength=len(count)) > 0)
    shapes = simple_polygons(first, points, ~unrolled)
    for i in np.flatnonzero(unrolled).tolist():
        shapes[i] = _cut(points[first[i] : first[i + 1]], may_turn_out=False)
    return shapes


def left_of_ring(points: NDArray[np.float64], tolerance: float = PLANAR_TOLERANCE) -> Any:
    """Return what lies on the left of a ring of grid points, however much of the sphere that is; None for nothing."""
    _, points = _chained(np.array([0, len(points)]), points, tolerance)
    return left_of_chain(points)


def left_of_chain(points: NDArray[np.float64]) -> Any:
    """Return what lies on the left of a ring of grid points between which lines are straight, as those before."""
    _, points = without_repeats(np.array([0, len(points)]), points)
    return _cut(points, may_turn_out=True)


def world() -> Any:
    """Return all places as a polygon."""
    import shapely

    return shapely.box(-HALF_TURN, -QUARTER_TURN, HALF_TURN, QUARTER_TURN)


def simple_polygons(
    first: NDArray[np.int64], points: NDArray[np.float64], which: NDArray[np.bool_] | None = None
) -> NDArray[Any]:
    """Return rings, each corner once, as valid shapely polygons of these straight edges, object (n,).

    None where fewer than three corners are left, or no area, and of rings that are not asked for. What rounding made
    cross itself is repaired: its parts with an area are kept.

    ``first``: int64 (n + 1,); ``points``: float64 (p, 2); ``which``: bool (n,). The rings that are wanted; None is all.
    """
    shapely = need("shapely", "planar edges", "geo")
    count = np.diff(first)
    shapes = np.full(len(count), None, object)
    wanted = count >= _TRIANGLE
    if which is not None:
        wanted &= which
    rows = np.flatnonzero(wanted)
    if len(rows) == 0:
        return shapes
    kept = np.repeat(wanted, count)
    made = shapely.polygons(
        shapely.linearrings(points[kept], indices=np.repeat(np.arange(len(rows)), count[rows])),
    )
    for i in np.flatnonzero(~shapely.is_valid(made)).tolist():
        made[i] = areas_of(shapely.make_valid(made[i], method="structure", keep_collapsed=False))
    shapes[rows] = made
    return shapes


def geometries_of(shapes: NDArray[Any]) -> Geometries:
    """Return shapely polygons, None where there is none, as what files are made of; outer rings counter-clockwise."""
    import shapely

    held = shapes[~shapely.is_missing(shapes)]
    found = frozenset(_KINDS[kind] for kind in np.unique(shapely.get_type_id(held)).tolist())
    wkb = shapely.to_wkb(shapely.orient_polygons(shapes), byte_order=1) if len(shapes) else []
    return Geometries(pa.array(list(wkb), pa.binary()), shapely.bounds(shapes).reshape(-1, 4), found)


def areas_of(shape: Any) -> Any:
    """Return the polygons of a geometry as one, None where it has none."""
    import shapely

    parts = shapely.get_parts(shape)
    while (shapely.get_type_id(parts) > 3).any():
        parts = shapely.get_parts(parts)
    parts = parts[(shapely.get_type_id(parts) == 3) & (shapely.area(parts) > 0.0)]
    if len(parts) == 0:
        return None
    return parts[0] if len(parts) == 1 else shapely.multipolygons(parts)


def without_repeats(
    first: NDArray[np.int64], points: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return rings without the corners that are the next one again."""
    after = _after(first)
    kept = (points != points[after]).any(axis=1)
    if kept.all():
        return first, points
    total = offsets(kept)
    return total[first], points[kept]


def _after(first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which corner follows each; the first of its ring follows the last."""
    after = np.arange(1, int(first[-1]) + 1)
    held = first[1:] > first[:-1]
    after[first[1:][held] - 1] = first[:-1][held]
    return after


def _chained(
    first: NDArray[np.int64], points: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return rings with so many points on each arc that straight pieces follow it, and one on the antimeridian."""
    after = points[_after(first)]
    bent = np.flatnonzero(_may_bend(points, after, tolerance))
    if len(bent) == 0:
        return first, points
    begin, end = points[bent], after[bent]
    # by its ends alone: from the lesser one on, whichever ring has it
    turned = (begin[:, 0] > end[:, 0]) | ((begin[:, 0] == end[:, 0]) & (begin[:, 1] > end[:, 1]))
    low, high = np.where(turned[:, None], end, begin), np.where(turned[:, None], begin, end)
    edge, share, between = _split(low, high, tolerance / EARTH_RADIUS)
    order = np.lexsort((np.where(turned[edge], -share, share), edge))
    edge, between = edge[order], between[order]
    count = np.ones(len(points), np.int64)
    np.add.at(count, bent[edge], 1)
    start = offsets(count)
    out = np.empty((int(start[-1]), 2))
    own = np.zeros(len(out), np.bool_)
    own[start[:-1]] = True
    out[own], out[~own] = points, between
    return start[first], out


def _may_bend(a: NDArray[np.float64], b: NDArray[np.float64], tolerance: float) -> NDArray[np.bool_]:
    """Return which edges may need points between their ends: all that do, and few others."""
    lat = np.maximum(np.abs(a[:, 1]), np.abs(b[:, 1]))
    lon = np.abs(a[:, 0] - b[:, 0])
    wide = np.minimum(lon, _WHOLE_TURN - lon) * np.cos(np.radians(np.minimum(np.abs(a[:, 1]), np.abs(b[:, 1]))))
    length = np.radians(np.hypot(wide, a[:, 1] - b[:, 1]))
    # a straight line in lon, lat turns by at most 1.1 tan(lat) a radian of its way
    slope = np.tan(np.radians(np.minimum(lat + np.degrees(length), 89.9)))
    bends = length * length * (1.1 * slope + length) / 8.0 > 0.5 * tolerance / EARTH_RADIUS
    return bends | (lat + np.degrees(length) > 89.9) | (lon >= HALF_TURN)


def _split(
    low: NDArray[np.float64], high: NDArray[np.float64], tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return points of arcs between their ends: the arc that each is of, its share of the way, and lon, lat.

    Arcs are halved until straight pieces are near enough. A piece over the antimeridian gets a point there.
    """
    made: list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
    edge = np.arange(len(low))
    begin, end = np.zeros(len(low)), np.ones(len(low))
    p, q = _vectors(low), _vectors(high)
    while len(edge):
        far = _too_far(low, high, p, q, tolerance)
        over = np.flatnonzero(~far & _crosses(low, high))
        if len(over):
            made.append((edge[over], 0.5 * (begin + end)[over], _on_antimeridian(p[over], q[over])))
        edge, begin, end, low, high = edge[far], begin[far], end[far], low[far], high[far]
        p, q = p[far], q[far]
        middle = p + q
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        point, half = on_grid(_lonlat(middle)), 0.5 * (begin + end)
        made.append((edge, half, point))
        edge = np.concatenate([edge, edge])
        begin, end = np.concatenate([begin, half]), np.concatenate([half, end])
        low, high = np.concatenate([low, point]), np.concatenate([point, high])
        p, q = np.concatenate([p, middle]), np.concatenate([middle, q])
    if not made:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2))
    edges, shares, points = zip(*made, strict=True)
    return np.concatenate(edges), np.concatenate(shares), np.concatenate(points)


def _too_far(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    p: NDArray[np.float64],
    q: NDArray[np.float64],
    tolerance: float,
) -> NDArray[np.bool_]:
    """Return which straight pieces leave their arcs by more than the tolerance, in radians, or go no clear way."""
    at_pole = (np.abs(low[:, 1]) == QUARTER_TURN) | (np.abs(high[:, 1]) == QUARTER_TURN)
    start = np.where(np.abs(low[:, 1]) == QUARTER_TURN, high[:, 0], low[:, 0])
    turn = np.where(at_pole, 0.0, high[:, 0] - low[:, 0])
    turn -= _WHOLE_TURN * np.rint(turn / _WHOLE_TURN)
    normal = np.cross(p, q - p)
    size = np.linalg.norm(normal, axis=1)
    normal /= np.where(size > 0.0, size, 1.0)[:, None]
    far = np.abs(turn) > _WIDEST
    for share in _SAMPLES:
        lonlat = np.column_stack([start + share * turn, low[:, 1] + share * (high[:, 1] - low[:, 1])])
        # nowhere further than the tolerance: samples miss a little of the furthest place
        far |= np.abs((_vectors(lonlat) * normal).sum(axis=1)) > 0.9 * tolerance
    long: NDArray[np.bool_] = np.linalg.norm(q - p, axis=1) > _POINT
    return far & long


def _crosses(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which short pieces pass over the antimeridian and do not end on it."""
    lon = np.column_stack([low[:, 0], high[:, 0]])
    poles = (np.abs(low[:, 1]) == QUARTER_TURN) | (np.abs(high[:, 1]) == QUARTER_TURN)
    found: NDArray[np.bool_] = (np.abs(lon[:, 0] - lon[:, 1]) > HALF_TURN) & (lon != HALF_TURN).all(axis=1) & ~poles
    return found


def _on_antimeridian(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    place = p * np.abs(q[:, 1:2]) + q * np.abs(p[:, 1:2])
    lat = np.degrees(np.arctan2(place[:, 2], np.hypot(place[:, 0], place[:, 1])))
    return on_grid(np.column_stack([np.full(len(p), HALF_TURN), lat]))


def _cut(points: NDArray[np.float64], *, may_turn_out: bool) -> Any:
    """Return what lies on the left of one ring of short pieces, cut at the antimeridian; None for nothing."""
    import shapely

    if len(points) < _TRIANGLE:
        return None
    flat = _unrolled(points, _WHOLE_TURN if may_turn_out else HALF_TURN)
    x, y = flat.T
    outside = may_turn_out and (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() + x[-1] * y[0] - x[0] * y[-1] < 0.0
    shape = shapely.Polygon(flat)
    if not shapely.is_valid(shape):
        shape = areas_of(shapely.make_valid(shape, method="structure", keep_collapsed=False))
    parts = []
    if shape is not None:
        low, high = float(x.min()), float(x.max())
        for turn in range(int(np.floor((low + HALF_TURN) / _WHOLE_TURN)), int(np.ceil((high - HALF_TURN) / 360.0)) + 1):
            left, right = _WHOLE_TURN * turn - HALF_TURN, _WHOLE_TURN * turn + HALF_TURN
            part = shape
            if low < left or high > right:
                part = areas_of(shapely.intersection(shape, shapely.box(left, -QUARTER_TURN, right, QUARTER_TURN)))
            if part is not None:
                parts.append(
                    shapely.transform(part, lambda p, turn=turn: np.round(p - [360.0 * turn, 0.0], GRID_DIGITS))
                )
    if not parts:
        return world() if outside else None
    whole = parts[0] if len(parts) == 1 else shapely.union_all(parts)
    if not shapely.is_valid(whole):
        whole = shapely.make_valid(whole, method="structure", keep_collapsed=False)
    return areas_of(shapely.difference(world(), whole) if outside else whole)


def _unrolled(points: NDArray[np.float64], widest: float) -> NDArray[np.float64]:
    """Return a ring whose longitude goes on past the antimeridian and runs along a pole where the ring touches it.

    One that goes round a pole is closed along that. It begins on the antimeridian where it crosses that, next to the
    pole that it goes round. At a pole its interior is at most so wide, in degrees.
    """
    poles = np.abs(points[:, 1]) == QUARTER_TURN
    begins = np.flatnonzero((points[:, 0] == HALF_TURN) & ~poles)
    begin = int(begins[0]) if len(begins) else int(np.argmin(poles))
    if len(begins) > 1 and not poles.any():
        moves = np.diff(points[:, 0], append=points[:1, 0])
        turned = (moves - _WHOLE_TURN * np.rint(moves / _WHOLE_TURN)).sum()
        if abs(turned) > HALF_TURN:  # from the crossing next to the pole nothing lies between the two
            begin = int(begins[np.argmax(points[begins, 1] * np.sign(turned))])
    ring = np.roll(points, -begin, axis=0).tolist()
    ring.append(ring[0])
    now, before = ring[0][0], ring[0][0]
    out = [(now, ring[0][1])]
    pole = 0.0
    for lon, lat in ring[1:]:
        if abs(lat) == QUARTER_TURN:
            pole = lat
            continue
        move = lon - before
        if pole:
            # the interior is on the left: to the west of who comes to the north pole, and to the east of who leaves
            wedge = (-move if pole > 0.0 else move) % _WHOLE_TURN
            wedge = wedge - _WHOLE_TURN if wedge > min(widest + _NO_WEDGE, _WHOLE_TURN - _NO_WEDGE) else wedge
            move = -wedge if pole > 0.0 else wedge
            out += [(now, pole), (now + move, pole)]
            pole = 0.0
        else:
            move -= _WHOLE_TURN * round(move / _WHOLE_TURN)
        now, before = round(now + move, GRID_DIGITS), lon
        out.append((now, lat))
    turned = now - out[0][0]
    if abs(turned) < HALF_TURN:
        out.pop()
    else:
        pole = QUARTER_TURN if turned > 0.0 else -QUARTER_TURN
        out += [(now, pole), (out[0][0], pole)]
    return np.array(out)


def _vectors(points: NDArray[np.float64]) -> NDArray[np.float64]:
    lon, lat = np.radians(points).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _lonlat(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = vectors.T
    return np.column_stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))])
