"""Keeping what lies inside a boundary: cells and regions cut by it, objects within it. Needs shapely.

What a boundary cuts is planar: its edges are straight in lon, lat, as GeoJSON says. So a spherical cell is drawn in
lon, lat first: great-circle arcs as chains of short pieces, split at the antimeridian, closed along a pole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.export.cell_rings import Rings
from dtoss.export.geoparquet import Geometries
from dtoss.extras import needed
from dtoss.geometry.space import LONLAT, NO_CRS, Space

_SAGITTA = 1.6e-8
"""How far, in radians (0.1 m), a straight piece in lon, lat may leave its great circle."""
_MOST_PIECES = 4096


@dataclass(frozen=True)
class Boundary:
    """A polygon or several, prepared for many questions; ``spherical`` where what it cuts has great-circle edges."""

    shape: Any
    spherical: bool


def read_boundary(path: str, space: Space) -> Boundary:
    """Return the polygons of a GeoJSON file, in the coordinates that the snapshot's cells have.

    GeoJSON is in lon, lat; where the snapshot has no CRS, the numbers are taken as they are.

    Raises
    ------
    InputError
        If shapely is missing, or the file is missing, is not GeoJSON, or holds no polygon.
    """
    shapely = needed("shapely", "--clip", "geo")
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        stated = json.loads(text)
        shape = shapely.from_geojson(text)
    except (OSError, ValueError, shapely.errors.GEOSException) as error:
        raise InputError(f"{path} is not a GeoJSON file that can be read: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise InputError(f"{path} nests too deep for a GeoJSON file: some ten levels are wanted") from None
    parts = shapely.get_parts(shape)
    while (shapely.get_type_id(parts) >= 4).any():
        parts = shapely.get_parts(parts)
    areas = parts[shapely.get_type_id(parts) == 3]
    if len(areas) == 0:
        raise InputError(f"{path} holds no polygon: a boundary is one or several")
    shape = shapely.union_all(shapely.make_valid(areas))
    name = (stated.get("crs") or {}).get("properties", {}).get("name", LONLAT)
    if space.metric == "plane" and space.crs.lower() != NO_CRS:
        change = pyproj.Transformer.from_crs(name, space.crs, always_xy=True)
        # straight in lon, lat is not straight in the plane
        shape = shapely.transform(
            shapely.segmentize(shape, 0.01), lambda x, y: change.transform(x, y), interleaved=False
        )
        shape = shapely.make_valid(shape)
    shapely.prepare(shape)
    return Boundary(shape, space.metric == "sphere")


def clip_cells(rings: Rings, boundary: Boundary) -> tuple[NDArray[np.int64], Geometries]:
    """Return which cells reach into a boundary, ascending, and what of them lies inside."""
    import shapely

    xmin, ymin, xmax, ymax = shapely.bounds(boundary.shape).tolist()
    box = rings.boxes
    near = np.flatnonzero(~((box[:, 0] > xmax) | (box[:, 2] < xmin) | (box[:, 1] > ymax) | (box[:, 3] < ymin)))
    if len(near) == 0:
        return near, _geometries(np.zeros(0, object))
    whole = np.diff(rings.first)[near] == 0
    wraps = boundary.spherical & (box[near, 2] - box[near, 0] == 360.0)
    drawn = np.empty(len(near), object)
    plain = np.flatnonzero(~wraps & ~whole)
    first, points = _rows(rings, near[plain])
    if boundary.spherical:
        first, points = _densified(first, points)
    owner = np.repeat(np.arange(len(plain)), np.diff(first))
    drawn[plain] = shapely.polygons(shapely.linearrings(points, indices=owner)) if len(plain) else []
    for i in np.flatnonzero(wraps & ~whole).tolist():
        a, b = rings.first[near[i] : near[i] + 2].tolist()
        drawn[i] = left_side(rings.points[a:b])
    drawn[whole] = _world()
    return _kept(near, drawn, boundary)


def clip_regions(
    polygons: list[list[list[NDArray[np.float64]]]], whole: NDArray[np.bool_], boundary: Boundary
) -> tuple[NDArray[np.int64], Geometries]:
    """Return which regions, each a list of pieces with their rings, reach into a boundary, and what lies inside."""
    import shapely

    drawn = np.empty(len(polygons), object)
    for i, pieces in enumerate(polygons):
        if boundary.spherical:
            shapes = [shapely.intersection_all([left_side(ring) for ring in rings]) for rings in pieces]
            drawn[i] = _world() if whole[i] else shapely.union_all(shapes)
        else:
            drawn[i] = shapely.union_all([shapely.Polygon(rings[0], rings[1:]) for rings in pieces])
    return _kept(np.arange(len(polygons)), drawn, boundary)


def inside(points: NDArray[np.float64], boundary: Boundary) -> NDArray[np.bool_]:
    """Return which points lie in a boundary or on it."""
    import shapely

    found: NDArray[np.bool_] = shapely.intersects_xy(boundary.shape, points[:, 0], points[:, 1])
    return found


def left_side(ring: NDArray[np.float64]) -> Any:
    """Return what lies on the left of a closed ring of great-circle arcs, drawn in lon, lat."""
    import shapely

    _, points = _densified(np.array([0, len(ring)]), ring)
    points = points.copy()
    points[:, 0] = np.unwrap(points[:, 0], period=360.0)
    turned = points[-1, 0] - points[0, 0]
    if abs(turned) > 180.0:
        pole = 90.0 if turned > 0.0 else -90.0
        points = np.concatenate([points, [[points[-1, 0], pole], [points[0, 0], pole]], points[:1]])
    else:
        points[-1] = points[0]
    x, y = points.T
    outside = (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() < 0.0
    drawn = shapely.make_valid(shapely.polygons(points))
    xmin, _, xmax, _ = shapely.bounds(drawn).tolist()
    parts = []
    for turn in range(int(np.floor((xmin + 180.0) / 360.0)), int(np.ceil((xmax - 180.0) / 360.0)) + 1):
        part = shapely.intersection(drawn, shapely.box(360.0 * turn - 180.0, -90.0, 360.0 * turn + 180.0, 90.0))
        parts.append(shapely.transform(part, lambda p, turn=turn: p - [360.0 * turn, 0.0]))
    shape = shapely.union_all(parts)
    return shapely.difference(_world(), shape) if outside else shape


def _world() -> Any:
    import shapely

    return shapely.box(-180.0, -90.0, 180.0, 90.0)


def _kept(rows: NDArray[np.int64], drawn: NDArray[Any], boundary: Boundary) -> tuple[NDArray[np.int64], Geometries]:
    import shapely

    within = shapely.contains_properly(boundary.shape, drawn)
    cut = np.flatnonzero(~within)
    parts = shapely.intersection(shapely.make_valid(drawn[cut]), boundary.shape)
    # a cell that only touches the boundary leaves points and lines
    mixed = shapely.get_type_id(parts) == 7
    parts[mixed] = [
        shapely.union_all([p for p in shapely.get_parts(part) if p.area > 0.0]) for part in parts[mixed].tolist()
    ]
    drawn[cut] = parts
    held = shapely.area(drawn) > 0.0
    return rows[held], _geometries(drawn[held])


def _geometries(drawn: NDArray[Any]) -> Geometries:
    import shapely

    kinds = {3: "Polygon", 6: "MultiPolygon"}
    found = frozenset(kinds[kind] for kind in np.unique(shapely.get_type_id(drawn)).tolist())
    wkb = shapely.to_wkb(shapely.orient_polygons(drawn), byte_order=1) if len(drawn) else []
    return Geometries(pa.array(list(wkb), pa.binary()), shapely.bounds(drawn).reshape(-1, 4), found)


def _rows(rings: Rings, which: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    size = np.diff(rings.first)[which]
    first = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    at = np.arange(first[-1]) + np.repeat(rings.first[which] - first[:-1], size)
    return first, rings.points[at]


def _densified(first: NDArray[np.int64], points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return closed rings with so many points on each great-circle arc that straight pieces in lon, lat follow it."""
    last = np.zeros(len(points), np.bool_)
    last[first[1:] - 1] = True
    at = np.flatnonzero(~last)
    a, b = _vectors(points[at]), _vectors(points[at + 1])
    length = np.linalg.norm(b - a, axis=1)
    slope = np.tan(np.radians(np.minimum(np.maximum(np.abs(points[at, 1]), np.abs(points[at + 1, 1])), 89.9)))
    # on the equator's side the arc still bends as much as its own rise
    wanted = length * np.sqrt((slope + length) / (8.0 * _SAGITTA))
    pieces = np.clip(np.ceil(wanted), 1, _MOST_PIECES).astype(np.int64)
    if (pieces == 1).all():
        return first, points
    count = np.ones(len(points), np.int64)
    count[at] = pieces
    start = np.concatenate([[0], np.cumsum(count)])
    edge = np.repeat(np.arange(len(at)), pieces)
    share = (np.arange(len(edge)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[edge]
    middle = a[edge] + share[:, None] * (b[edge] - a[edge])
    lonlat = np.stack(
        [
            np.degrees(np.arctan2(middle[:, 1], middle[:, 0])),
            np.degrees(np.arctan2(middle[:, 2], np.hypot(*middle.T[:2]))),
        ],
        axis=1,
    )
    begins = share == 0.0
    lonlat[begins] = points[at[edge[begins]]]
    out = np.empty((int(start[-1]), 2))
    closing = np.repeat(last, count)
    out[closing] = points[last]
    out[~closing] = lonlat
    return start[first], out


def _vectors(points: NDArray[np.float64]) -> NDArray[np.float64]:
    lon, lat = np.radians(points).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
