"""GeoJSON files, RFC 7946, written as a stream: features in lon, lat of WGS 84, with ids, outer rings to the left."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyproj

from dtoss.errors import InputError
from dtoss.export.geoparquet import Geometries, points_wkb
from dtoss.export.planar import GRID_DIGITS, geometries_of
from dtoss.export.projected import polygons_in_degrees
from dtoss.geometry.space import LONLAT, NO_CRS, same_crs

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
