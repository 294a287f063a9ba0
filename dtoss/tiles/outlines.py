"""Polygons as lists of longitude and latitude for a page that draws them by itself: answers, not tiles."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import Space
from dtoss.tiles.map_frame import Frame, unmercator
from dtoss.tiles.rings import MapRings, rings_on_map

Ring: TypeAlias = list[list[float]]
"""Longitude and latitude of corners, the last one the first again; longitudes go on past 180 without a jump."""
Shape: TypeAlias = list[list[Ring]]
"""Polygons, each an outer ring and the holes in it: the coordinates of a GeoJSON MultiPolygon."""
SMOOTH = 2.0**-22
"""As :data:`.rings.TOLERANCE`: 10 m at the equator."""
_CORNERS = 256
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
    first = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    rings = np.concatenate([[0], np.cumsum(sizes > 0)]).astype(np.int64)
    made = rings_on_map(frame, vectors, first, rings, None if whole is None else np.array(whole, np.bool_), SMOOTH)
    return [shape_of(made, i) for i in range(len(curves))]


def circle(frame: Frame, space: Space, centre: NDArray[np.float64], radius: float) -> Shape:
    """Return the disc round a vector (dimension,) as the map has it; none for a radius of 0.

    ``radius``: metres on the sphere, CRS units in the plane. From half the Earth's circumference on it is the whole
    sphere.
    """
    turn = np.linspace(0.0, 2.0 * np.pi, _CORNERS + 1)[:, None]
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
