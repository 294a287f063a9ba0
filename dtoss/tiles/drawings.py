"""Circles, boxes and polygons by the thousand as a page draws them: what they hold and where they end, as is seen.

Polygons as lists of longitude and latitude for a page that draws them by itself: answers, not tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, Space
from dtoss.row_runs import offsets
from dtoss.tiles.map_frame import Frame, unmercator
from dtoss.tiles.rings import TOLERANCE, MapRings, rings_on_map
from dtoss.tiles.tile_clipping import thin_for_zoom

TILE_PIXELS = 512.0
"""Of the whole map at zoom 0."""
_FINE = 0.25
"""Pixels that an edge may be off."""
_CORNERS = (16, 32, 64, 128, 256)
"""Of what stands for a circle."""
_THINNED = -2
"""Zooms by which edges are thinned before the one that is seen: by a quarter of a pixel."""
_FULL_TURN = 2.0 * HALF_TURN


@dataclass(frozen=True)
class Drawing:
    """A place on the map."""

    fill: Shape
    edges: list[Ring]  # Lines where it ends: not along the sides of the map, to which fills round a pole go


def drawn_circles(
    frame: Frame, space: Space, centres: NDArray[np.float64], radii: NDArray[np.float64], zoom: float
) -> list[Drawing]:
    """Return circles on the map; one of radius 0 is drawn as nothing. Cost O(corners).

    ``centres``: float64 (m, dimension). Vectors; ``radii``: float64 (m,). Metres on the sphere, CRS units in the plane.
    """
    seen = radii_seen(frame, space, centres, radii, zoom)
    wanted = np.pi * np.sqrt(seen / (2.0 * _FINE))
    kind = np.minimum(np.searchsorted(_CORNERS, wanted), len(_CORNERS) - 1)
    whole = np.zeros(len(radii), np.bool_) if space.dimension == 2 else radii >= np.pi * EARTH_RADIUS
    curves: list[NDArray[np.float64]] = [np.zeros((0, space.dimension))] * len(radii)
    for number, corners in enumerate(_CORNERS):
        rows = np.flatnonzero((kind == number) & ~whole & (radii > 0.0))
        made = _round(space, centres[rows], radii[rows], corners)
        for at, row in enumerate(rows.tolist()):
            curves[row] = made[at]
    return _drawings(frame, curves, zoom, whole)


def radii_seen(
    frame: Frame, space: Space, centres: NDArray[np.float64], radii: NDArray[np.float64], zoom: float
) -> NDArray[np.float64]:
    """Return how many pixels the radii of circles are on the map at a zoom, about, float64 (m,)."""
    scale = TILE_PIXELS * 2.0**zoom
    if space.dimension == 2:
        aside = centres + np.stack([radii, np.zeros(len(radii))], axis=1)
        gap = np.linalg.norm(frame.world_of(aside) - frame.world_of(centres), axis=1)
        return np.asarray(np.nan_to_num(gap, nan=1.0) * scale)
    cosine = np.maximum(np.hypot(centres[:, 0], centres[:, 1]), 0.1)
    return np.asarray(np.minimum(radii / (EARTH_RADIUS * 2.0 * np.pi) / cosine, 1.0) * scale)


def drawn_boxes(frame: Frame, space: Space, boxes: NDArray[np.float64], zoom: float) -> list[Drawing]:
    """Return boxes on the map; parallels are their sides on the sphere.

    ``boxes``: float64 (m, 4). West, south, east, north in degrees, west greater than east across the antimeridian; in a
    plane xmin, ymin, xmax, ymax.
    """
    if not space.geographic:
        corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3, 0, 1]].reshape(len(boxes), -1, 2)
        return _drawings(frame, list(corners), zoom)
    return [_degrees_box(*box) for box in boxes.tolist()]


def drawn_polygons(frame: Frame, shapes: Sequence[Sequence[Polygon]], zoom: float) -> list[Drawing]:
    """Return shapes of polygons each on the map: the first ring of each is its border, the others are holes."""
    curves = []
    for polygon in (one for shape in shapes for one in shape):
        for begin, end in zip(polygon.first[:-1].tolist(), polygon.first[1:].tolist(), strict=True):
            ring = counter_clockwise(polygon.corners[begin:end])
            curves.append(np.concatenate([ring, ring[:1]]))
    rings = iter(_drawings(frame, curves, zoom))
    found = []
    for shape in shapes:
        fill: Shape = []
        edges: list[Ring] = []
        for polygon in shape:
            parts = [next(rings) for _ in range(len(polygon.first) - 1)]
            outer, holes = parts[0].fill, [ring for part in parts[1:] for piece in part.fill for ring in piece[-1:]]
            edges += [line for part in parts for line in part.edges]
            if outer:
                fill.append([*outer[-1], *(_beside(hole, outer[-1][0]) for hole in holes)])
        found.append(Drawing(fill, edges))
    return found


def counter_clockwise(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the corners of a ring so that what it encloses, less than half the sphere, is on the left."""
    after = np.roll(ring, -1, axis=0)
    if ring.shape[1] == 2:
        turned = float((ring[:, 0] * after[:, 1] - ring[:, 1] * after[:, 0]).sum())
    else:
        turned = float(np.cross(ring, after).sum(axis=0) @ ring.mean(axis=0))
    return ring if turned >= 0.0 else ring[::-1]


def _round(space: Space, centres: NDArray[np.float64], radii: NDArray[np.float64], corners: int) -> NDArray[np.float64]:
    """Return circles as closed curves (m, corners + 1, dimension), counter-clockwise."""
    turn = np.linspace(0.0, 2.0 * np.pi, corners + 1)[None, :, None]
    if space.dimension == 2:
        curves = centres[:, None] + radii[:, None, None] * np.concatenate([np.cos(turn), np.sin(turn)], axis=2)
    else:
        angle = (radii / EARTH_RADIUS)[:, None, None]
        east = np.cross(np.eye(3)[np.abs(centres).argmin(axis=1)], centres)
        east /= np.linalg.norm(east, axis=1, keepdims=True)
        north = np.cross(centres, east)
        around = np.cos(turn) * east[:, None] + np.sin(turn) * north[:, None]
        curves = np.cos(angle) * centres[:, None] + np.sin(angle) * around
    curves[:, -1] = curves[:, 0]
    return np.asarray(curves)


def _drawings(
    frame: Frame, curves: Sequence[NDArray[np.float64]], zoom: float, whole: NDArray[np.bool_] | None = None
) -> list[Drawing]:
    """Return closed curves with what is on their left, one each or none."""
    if not curves:
        return []
    vectors = np.concatenate(curves)
    sizes = np.array([len(curve) for curve in curves], np.int64)
    first = offsets(sizes[sizes > 0])
    rings = offsets(sizes > 0)
    fine = max(_FINE / (TILE_PIXELS * 2.0**zoom), TOLERANCE)
    made = rings_on_map(frame, vectors, first, rings, whole, fine)
    few, digits = thin_for_zoom(made, floor(zoom) + _THINNED), digits_at(zoom)
    fills = [shape_of(few, i, digits) for i in range(len(curves))]
    return [Drawing(fill, _edges(few, i, fill, digits)) for i, fill in enumerate(fills)]


def digits_at(zoom: float) -> int:
    """Return digits behind the point of degrees that a zoom shows: a quarter of a pixel.

    Examples
    --------
    >>> [digits_at(zoom) for zoom in (0, 5, 10, 15, 22)]
    [1, 3, 4, 6, 7]
    """
    return min(max(ceil(log10(TILE_PIXELS * 2.0**zoom / (_FULL_TURN * _FINE))), 0), OUTLINE_DIGITS)


def _edges(made: MapRings, polygon: int, fill: Shape, digits: int) -> list[Ring]:
    """Return the line where a polygon of one ring ends, which is drawn as ``fill``."""
    if made.rings[polygon] == made.rings[polygon + 1]:
        return []
    ring = int(made.rings[polygon])
    if made.winding[ring] == 0:
        return fill[0][-1:]
    points = made.points[made.first[ring] : made.first[ring + 1]]
    return [degrees_of(unmercator(from_edge(points)), digits)]


def _degrees_box(west: float, south: float, east: float, north: float) -> Drawing:
    if west > east:
        east += _FULL_TURN
    low, high = max(south, -POLE), min(north, POLE)
    ring = [[west, low], [east, low], [east, high], [west, high], [west, low]]
    if east - west < _FULL_TURN:
        return Drawing([[ring]], [ring])
    lines = [[[west, lat], [0.0, lat], [east, lat]] for lat in {south, north} if abs(lat) < QUARTER_TURN]
    return Drawing([[world_ring() if (low, high) == (-POLE, POLE) else ring]], lines)


def _beside(hole: Ring, outer: Ring) -> Ring:
    """Return a hole at the whole turns at which its border stands."""
    middle = 0.5 * (min(lon for lon, _ in hole) + max(lon for lon, _ in hole))
    around = 0.5 * (min(lon for lon, _ in outer) + max(lon for lon, _ in outer))
    turns = _FULL_TURN * round((around - middle) / _FULL_TURN)
    return [[lon + turns, lat] for lon, lat in hole] if turns else hole


Ring: TypeAlias = list[list[float]]
"""Longitude and latitude of corners, the last one the first again; longitudes go on past 180 without a jump."""
Shape: TypeAlias = list[list[Ring]]
"""Polygons, each an outer ring and the holes in it: the coordinates of a GeoJSON MultiPolygon."""
SMOOTH = 2.0**-22
"""As :data:`.rings.TOLERANCE`: 10 m at the equator."""
_OUTLINE_CORNERS = 256
"""Of what stands for a circle: within 0.01 % of its radius."""
OUTLINE_DIGITS = 7
"""Of degrees behind the point: a centimetre."""
POLE = 89.9
"""Latitude that stands for a pole."""


def outlines(frame: Frame, curves: list[NDArray[np.float64]], whole: list[bool] | None = None) -> list[Shape]:
    """Return polygons of one closed ring each as the map has them, in its degrees.

    ``curves``: of each polygon float64 (v, dimension): vectors counter-clockwise, the last equal to the first, or none;
    ``whole``: which of those without vectors are the whole sphere.
    """
    dimension = next((curve.shape[1] for curve in curves), 2)
    vectors = np.concatenate([np.zeros((0, dimension)), *curves])
    sizes = np.array([len(curve) for curve in curves], np.int64)
    first = offsets(sizes[sizes > 0])
    rings = offsets(sizes > 0)
    made = rings_on_map(frame, vectors, first, rings, None if whole is None else np.array(whole, np.bool_), SMOOTH)
    return [shape_of(made, i) for i in range(len(curves))]


def circle(frame: Frame, space: Space, centre: NDArray[np.float64], radius: float) -> Shape:
    """Return the disc round a vector (dimension,) as the map has it; none for a radius of 0.

    ``radius``: metres on the sphere, CRS units in the plane. From half the Earth's circumference on it is the whole
    sphere.
    """
    turn = np.linspace(0.0, 2.0 * np.pi, _OUTLINE_CORNERS + 1)[:, None]
    if space.dimension == 2:
        curve = centre + radius * np.concatenate([np.cos(turn), np.sin(turn)], axis=1)
    else:
        angle = radius / EARTH_RADIUS
        if angle >= np.pi:
            return outlines(frame, [np.zeros((0, 3))], [True])[0]
        east = np.cross(np.eye(3)[int(np.abs(centre).argmin())], centre)
        east /= np.linalg.norm(east)
        around = np.cos(turn) * east + np.sin(turn) * np.cross(centre, east)
        curve = np.cos(angle) * centre + np.sin(angle) * around
    curve[-1] = curve[0]
    return outlines(frame, [curve])[0] if radius > 0.0 else []


def shape_of(made: MapRings, polygon: int, digits: int = OUTLINE_DIGITS) -> Shape:
    """Return a polygon of one ring or none; one round a pole goes to the sides of the map, and along them."""
    rings = range(int(made.rings[polygon]), int(made.rings[polygon + 1]))
    out = bool(made.turned_out[polygon])
    if len(rings) == 0:
        return [[world_ring()]] if out else []
    ring = rings[0]
    points = made.points[made.first[ring] : made.first[ring + 1]]
    winding = int(made.winding[ring])
    lonlat = unmercator(from_edge(points) if winding else points)
    if winding:
        # the interior is on the left: on the north of a ring that goes east
        pole = POLE if winding > 0 else -POLE
        lonlat = np.concatenate([lonlat, [[lonlat[-1, 0], pole], [lonlat[0, 0], pole]], lonlat[:1]])
        return [[degrees_of(lonlat, digits)]]
    return [[world_ring(), degrees_of(lonlat, digits)]] if out else [[degrees_of(lonlat, digits)]]


def from_edge(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ring round a pole, from where it crosses the antimeridian to where it does again: once at the least."""
    x = points[:, 0]
    edge = np.floor(x.min()) + 1.0
    step = int(np.flatnonzero((x[:-1] < edge) != (x[1:] < edge))[0])
    share = (edge - x[step]) / (x[step + 1] - x[step])
    cut = points[step] + share * (points[step + 1] - points[step])
    turn = [points[-1, 0] - x[0], 0.0]
    whole = np.concatenate([cut[None], points[step + 1 :], points[1 : step + 1] + turn, cut[None] + turn])
    whole[:, 0] -= min(whole[0, 0], whole[-1, 0])
    return whole


def degrees_of(lonlat: NDArray[np.float64], digits: int) -> Ring:
    """Return corners in degrees as a list."""
    ring: Ring = lonlat.round(digits).tolist()
    return ring


def world_ring() -> Ring:
    """Return the ring of the whole map."""
    return [[-180.0, -POLE], [180.0, -POLE], [180.0, POLE], [-180.0, POLE], [-180.0, -POLE]]
