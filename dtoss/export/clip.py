"""Keeping what lies inside a boundary: cells and regions cut by it, objects within it. Needs shapely.

What a boundary cuts is planar: its edges are straight in lon, lat, as GeoJSON says. So spherical cells are drawn there
first, by :mod:`dtoss.export.planar`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.export.planar import areas_of
from dtoss.extras import need
from dtoss.geometry.space import HALF_TURN, LONLAT, NO_CRS, Space

_MIXED = 7
"""Of shapely, the kind of a geometry of several kinds."""
_FINE = 0.01
"""Degrees between the corners of a boundary that is carried over into a plane."""
_FINE_UNITS = 1000.0
"""CRS units between those of one that is carried over from a plane."""
_POLYGON, _MULTIPOINT = 3, 4
"""Of shapely, the kinds of polygons, and of the first geometries that have parts."""


@dataclass(frozen=True)
class Boundary:
    """A polygon or several of the coordinates that cells are drawn in, prepared for many questions."""

    shape: Any

    def near(self, boxes: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return which boxes (n, 4), xmin, ymin, xmax, ymax, are not beside that of the boundary, ascending."""
        xmin, ymin, xmax, ymax = self.shape.bounds
        beside = (boxes[:, 0] > xmax) | (boxes[:, 2] < xmin) | (boxes[:, 1] > ymax) | (boxes[:, 3] < ymin)
        return np.flatnonzero(~beside)


def read_boundary(path: str, space: Space) -> Boundary:
    """Return the polygons of a GeoJSON file, in the coordinates that the snapshot's cells have.

    GeoJSON is in lon, lat; where the snapshot has no CRS, the numbers are taken as they are.
    """
    shapely = need("shapely", "--clip", "geo")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        stated = json.loads(text)
        shape = shapely.from_geojson(text)
    except (OSError, ValueError, shapely.errors.GEOSException) as error:
        raise InputError(f"{path} is not a GeoJSON file that can be read: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InputError(f"{path} nests too deep for a GeoJSON file: some ten levels are wanted") from None
    parts = shapely.get_parts(shape)
    while (shapely.get_type_id(parts) >= _MULTIPOINT).any():
        parts = shapely.get_parts(parts)
    if not (shapely.get_type_id(parts) == _POLYGON).any():
        raise InputError(f"{path} holds no polygon: a boundary is one or several")
    name = (stated.get("crs") or {}).get("properties", {}).get("name", LONLAT)
    return _prepared(shapely.make_valid(parts[shapely.get_type_id(parts) == _POLYGON]), name, space)


def boundary_of(clip: Any, space: Space) -> Boundary:
    """Return what a caller cuts by: a shapely geometry, a frame or series of GeoPandas, or a box of four numbers.

    Geometries and boxes are in the coordinates that cells are drawn in. The CRS of a frame is heeded. A box whose west
    is greater than its east crosses the antimeridian.
    """
    shapely = need("shapely", "clip=", "geo")
    box = _as_box(clip)
    if box is not None:
        xmin, ymin, xmax, ymax = box
        shape = shapely.box(xmin, ymin, xmax, ymax)
        if xmin > xmax and space.metric == "sphere":
            shape = shapely.union(shapely.box(xmin, ymin, HALF_TURN, ymax), shapely.box(-HALF_TURN, ymin, xmax, ymax))
        shapes, name = np.array([shape], object), None
    elif isinstance(clip, shapely.Geometry):
        shapes, name = np.array([clip], object), None
    elif hasattr(clip, "geometry") and hasattr(clip, "crs"):
        shapes, name = np.asarray(clip.geometry, object), clip.crs
    else:
        raise ValueError(
            f"clip is {type(clip).__name__}: a shapely polygon, a GeoDataFrame or a box of four numbers is wanted"
        )
    parts = shapely.get_parts(shapes)
    while (shapely.get_type_id(parts) >= _MULTIPOINT).any():
        parts = shapely.get_parts(parts)
    parts = parts[shapely.get_type_id(parts) == _POLYGON]
    if len(parts) == 0:
        raise ValueError("clip holds no polygon: a boundary is one or several")
    return _prepared(shapely.make_valid(parts), name, space)


def _as_box(clip: Any) -> tuple[float, float, float, float] | None:
    if not isinstance(clip, (tuple, list, np.ndarray)):
        return None
    try:
        xmin, ymin, xmax, ymax = np.asarray(clip, np.float64).tolist()
    except (TypeError, ValueError):
        raise ValueError(f"clip is {clip!r}: a box is west, south, east, north, or xmin, ymin, xmax, ymax") from None
    return xmin, ymin, xmax, ymax


def _prepared(areas: NDArray[Any], crs: Any, space: Space) -> Boundary:
    """Return polygons as a boundary, from their CRS, None for that of cells, into the one that cells are drawn in."""
    import shapely

    shape = shapely.union_all(areas)
    drawn = LONLAT if space.to_lonlat else space.crs
    if (
        crs is not None
        and drawn.lower() != NO_CRS
        and not pyproj.CRS.from_user_input(crs).equals(pyproj.CRS.from_user_input(drawn), ignore_axis_order=True)
    ):
        if space.metric == "plane" or not pyproj.CRS.from_user_input(crs).is_geographic:
            # what is straight in one is not in the other
            step = _FINE if pyproj.CRS.from_user_input(crs).is_geographic else _FINE_UNITS
            shape = shapely.segmentize(shape, step)
        change = pyproj.Transformer.from_crs(crs, drawn, always_xy=True)
        shape = shapely.make_valid(shapely.transform(shape, lambda x, y: change.transform(x, y), interleaved=False))
    shapely.prepare(shape)
    return Boundary(shape)


def kept_in(drawn: NDArray[Any], boundary: Boundary) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return which polygons reach into a boundary, ascending, and what of each lies inside; None is nowhere."""
    import shapely

    drawn = drawn.copy()
    within = shapely.contains_properly(boundary.shape, drawn)
    cut = np.flatnonzero(~within & ~shapely.is_missing(drawn))
    parts = shapely.intersection(drawn[cut], boundary.shape)
    # a cell that only touches the boundary leaves points and lines
    mixed = np.flatnonzero(shapely.get_type_id(parts) == _MIXED)
    for i in mixed.tolist():
        parts[i] = areas_of(parts[i])
    for i in np.flatnonzero(~shapely.is_valid(parts) & ~shapely.is_missing(parts)).tolist():
        parts[i] = areas_of(shapely.make_valid(parts[i], method="structure", keep_collapsed=False))
    drawn[cut] = parts
    rows = np.flatnonzero(shapely.area(drawn) > 0.0)
    return rows, drawn[rows]


def inside(points: NDArray[np.float64], boundary: Boundary) -> NDArray[np.bool_]:
    """Return which points lie in a boundary or on it."""
    import shapely

    found: NDArray[np.bool_] = shapely.intersects_xy(boundary.shape, points[:, 0], points[:, 1])
    return found
