"""Polygons of a projected CRS in degrees: their edges followed within a tolerance, cut at the antimeridian."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.export.planar import areas_of, left_of_chain, on_grid
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import HALF_TURN

_WHOLE_TURN = 360.0
_NEAR_POLE = 89.0
"""Degrees of latitude from which on a polygon may hold a pole."""
_HALVINGS = 12
"""How often an edge is halved at the most."""


def polygons_in_degrees(shapes: NDArray[Any], change: pyproj.Transformer, tolerance: float) -> NDArray[Any]:
    """Return polygons of one ring each in lon, lat, as many; None stays None.

    ``shapes``: object (n,): shapely polygons, several where a boundary cut them; ``change``: from their CRS to degrees;
    ``tolerance``: metres that a straight edge in lon, lat may leave where the edge runs.
    """
    import shapely

    coordinates, owner = shapely.get_coordinates(shapes, return_index=True)
    lonlat = on_grid(_lonlat(coordinates, change))
    found = shapely.set_coordinates(shapes.copy(), lonlat)
    same = owner[1:] == owner[:-1]
    middle = _lonlat(0.5 * (coordinates[:-1] + coordinates[1:]), change)
    bent = same & (_off(lonlat[:-1], lonlat[1:], middle) > 0.5 * tolerance)
    box = shapely.bounds(found)
    redrawn = box[:, 2] - box[:, 0] >= HALF_TURN
    redrawn |= (np.abs(box[:, [1, 3]]) >= _NEAR_POLE).any(axis=1)
    redrawn[owner[:-1][bent]] = True
    redrawn |= ~shapely.is_valid(found)
    for i in np.flatnonzero(redrawn & ~shapely.is_missing(shapes)).tolist():
        pieces = [_one_in_degrees(polygon, change, tolerance) for polygon in shapely.get_parts(shapes[i]).tolist()]
        left = [piece for piece in pieces if piece is not None]
        found[i] = areas_of(left[0] if len(left) == 1 else shapely.union_all(left)) if left else None
    return found


def _one_in_degrees(polygon: Any, change: pyproj.Transformer, tolerance: float) -> Any:
    import shapely

    rings = [np.array(ring.coords)[:-1] for ring in (polygon.exterior, *polygon.interiors)]
    sides = [left_of_chain(_in_degrees(ring, change, tolerance)) for ring in rings]
    if sides[0] is None:
        return None
    return shapely.intersection_all([side for side in sides if side is not None])


def _in_degrees(points: NDArray[np.float64], change: pyproj.Transformer, tolerance: float) -> NDArray[np.float64]:
    ring = np.concatenate([points, points[:1]])
    for _ in range(_HALVINGS):
        middle = 0.5 * (ring[:-1] + ring[1:])
        ends = _lonlat(ring, change)
        far = np.flatnonzero(_off(ends[:-1], ends[1:], _lonlat(middle, change)) > 0.5 * tolerance)
        if len(far) == 0:
            break
        ring = np.insert(ring, far + 1, middle[far], axis=0)
    return on_grid(_lonlat(ring[:-1], change))


def _lonlat(points: NDArray[np.float64], change: pyproj.Transformer) -> NDArray[np.float64]:
    return np.stack(change.transform(points[:, 0], points[:, 1]), axis=1)


def _off(begin: NDArray[np.float64], end: NDArray[np.float64], middle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far, in metres, the middles of edges are from those of straight lines in lon, lat."""
    step = end[:, 0] - begin[:, 0]
    step -= _WHOLE_TURN * np.rint(step / _WHOLE_TURN)
    wide = middle[:, 0] - begin[:, 0] - 0.5 * step
    wide -= _WHOLE_TURN * np.rint(wide / _WHOLE_TURN)
    high = middle[:, 1] - 0.5 * (begin[:, 1] + end[:, 1])
    gap: NDArray[np.float64] = np.hypot(wide * np.cos(np.radians(middle[:, 1])), high)
    return np.radians(gap) * EARTH_RADIUS
