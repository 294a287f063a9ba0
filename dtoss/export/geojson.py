"""GeoJSON files, RFC 7946, written as a stream: features in lon, lat of WGS 84, with ids, outer rings to the left.

Polygons of a projected CRS in degrees: their edges followed within a tolerance, cut at the antimeridian.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyproj
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.export.geoparquet import Geometries, points_wkb
from dtoss.export.planar import GRID_DIGITS, areas_of, geometries_of, left_of_chain, on_grid
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import HALF_TURN, LONLAT, NO_CRS, same_crs

Batch = tuple[dict[str, pa.Array], Geometries]


def to_wgs84(batches: Iterable[Batch], crs: str, tolerance: float) -> Iterator[Batch]:
    """Return an iterator over batches with their geometries in lon, lat of WGS 84, as GeoJSON wants.

    ``tolerance``: metres that an edge of a projected CRS may leave where it runs there.
    """
    if crs.lower() == NO_CRS:
        raise ValueError("GeoJSON is in degrees, and the plane of this index has no CRS: write .parquet or .fgb")
    if same_crs(crs, LONLAT):
        return iter(batches)
    change = pyproj.Transformer.from_crs(crs, LONLAT, always_xy=True)
    return ((columns, _carried_over(shapes, change, tolerance)) for columns, shapes in batches)


def _carried_over(shapes: Geometries, change: pyproj.Transformer, tolerance: float) -> Geometries:
    if not shapes.kinds:
        return shapes
    if shapes.kinds == {"Point"}:
        points = np.stack(change.transform(shapes.boxes[:, 0], shapes.boxes[:, 1]), axis=1)
        # what is no place has null
        points[~np.isfinite(points).all(axis=1)] = np.nan
        return replace(shapes, wkb=points_wkb(points), boxes=np.tile(np.round(points, GRID_DIGITS), 2))
    import shapely

    drawn = shapely.from_wkb(np.array(shapes.wkb.to_pylist(), object))
    return geometries_of(polygons_in_degrees(drawn, change, tolerance))


def write_geojson(batches: Iterable[Batch], path: str, name: str) -> int:
    """Write batches of columns and geometries as one FeatureCollection and return how many features it has.

    The file appears whole or not at all; memory does not grow with the features.

    ``batches``: columns by name, and the geometries of their rows in lon, lat. A feature without one has null.
    """
    target = Path(path)
    scratch = target.with_name(f"{target.name}.{uuid.uuid4().hex}.writing")
    rows = 0
    try:
        stream = scratch.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    try:
        with stream:
            stream.write('{"type": "FeatureCollection", "features": [')
            for columns, shapes in batches:
                lines = list(_features(columns, shapes, name))
                if lines:
                    stream.write(",\n" if rows else "\n")
                    stream.write(",\n".join(lines))
                rows += len(lines)
            stream.write("\n]}\n")
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return rows


def _features(columns: dict[str, pa.Array], shapes: Geometries, name: str) -> Iterator[str]:
    ids = columns[name].to_pylist()
    values = [_plain(column) for column in columns.values()]
    for id_, geometry, *row in zip(ids, _texts(shapes), *values, strict=True):
        about = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, default=str)
        told = json.dumps(id_, ensure_ascii=False)
        yield f'{{"type": "Feature", "id": {told}, "geometry": {geometry}, "properties": {about}}}'


def _plain(column: pa.Array) -> list[object]:
    """Return the values of a column as JSON can hold them: no NaN and no infinity."""
    values: list[object] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [value if isinstance(value, float) and np.isfinite(value) else None for value in values]
    return values


def _texts(shapes: Geometries) -> Iterator[str]:
    """Yield the geometries as JSON."""
    if shapes.kinds == {"Point"}:
        for x, y in shapes.boxes[:, :2].tolist():
            yield f'{{"type": "Point", "coordinates": [{x!r}, {y!r}]}}' if x == x else "null"
        return
    if not shapes.kinds:
        yield from ["null"] * len(shapes.wkb)
        return
    import shapely

    made = shapely.to_geojson(shapely.from_wkb(np.array(shapes.wkb.to_pylist(), object)))
    for text in made.tolist():
        yield text or "null"


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
