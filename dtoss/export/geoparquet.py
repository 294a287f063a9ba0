"""GeoParquet 1.1 files, written as a stream: geometries as WKB, a bounding box for each row, and the CRS."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
from numpy.typing import NDArray
from pyarrow import fs

from dtoss.compiled.kernel import kernel, operand
from dtoss.errors import InputError
from dtoss.geometry.space import NO_CRS
from dtoss.row_runs import offsets
from dtoss.snapshots.store_location import filesystem_of

GEOMETRY, BOX_COLUMN = "geometry", "bbox"
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_POINT, _POLYGON, _MULTIPOLYGON = 1, 3, 6
_HEAD, _POINT_BYTES = 13, 16
"""Bytes before the points of a polygon of one ring, and of each of them."""


@dataclass(frozen=True)
class Geometries:
    """Geometries of some rows."""

    wkb: pa.Array  # binary (n,), null where a row has no geometry
    boxes: NDArray[np.float64]  # float64 (n, 4): xmin, ymin, xmax, ymax; NaN where there is no geometry
    kinds: frozenset[str]  # "Point", "Polygon", "MultiPolygon": those that occur


@kernel("void(int64[::1], uint8[::1], uint8[::1], uint8[::1], int64[::1])")
def _fill_polygons(first, points, sizes, out, start):
    for i in range(first.size - 1):
        at = start[i]
        # after the byte order, as little-endian numbers of 4 bytes: the kind, one ring, how many points it has
        out[at] = 1
        out[at + 1] = _POLYGON
        out[at + 1 + 4] = 1
        for t in range(4):
            out[at + 1 + 2 * 4 + t] = sizes[4 * i + t]
        at += _HEAD
        for t in range(_POINT_BYTES * first[i], _POINT_BYTES * first[i + 1]):
            out[at] = points[t]
            at += 1


def polygons_wkb(first: NDArray[np.int64], points: NDArray[np.float64]) -> pa.Array:
    """Return polygons of one ring each as WKB.

    ``first``: int64 (n + 1,). The points of ring i are ``points[first[i]:first[i + 1]]``, the last one equal to the
    first; ``points``: float64 (p, 2).
    """
    size = np.diff(first)
    start = offsets(_HEAD + _POINT_BYTES * size)
    out = np.zeros(int(start[-1]), np.uint8)
    flat = operand(points, dtype="<f8").reshape(-1).view(np.uint8)
    _fill_polygons(operand(first, dtype=np.int64), flat, size.astype("<u4").view(np.uint8), out, start)
    return _binary(start, out)


def points_wkb(points: NDArray[np.float64]) -> pa.Array:
    """Return points (n, 2) as WKB."""
    rows = np.zeros(len(points), np.dtype([("order", "u1"), ("kind", "<u4"), ("xy", "<f8", 2)]))
    rows["order"], rows["kind"], rows["xy"] = 1, _POINT, points
    return _binary(np.arange(len(points) + 1, dtype=np.int64) * 21, rows.view(np.uint8))


def rings_wkb(polygons: list[list[NDArray[np.float64]]]) -> bytes:
    """Return one geometry of several polygons, each a list of closed rings, the outer one first."""
    parts = []
    for rings in polygons:
        head = np.array([1], "u1").tobytes() + np.array([_POLYGON, len(rings)], "<u4").tobytes()
        body = [np.array([len(ring)], "<u4").tobytes() + ring.astype("<f8").tobytes() for ring in rings]
        parts.append(head + b"".join(body))
    if len(parts) == 1:
        return parts[0]
    return np.array([1], "u1").tobytes() + np.array([_MULTIPOLYGON, len(parts)], "<u4").tobytes() + b"".join(parts)


def _binary(start: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    if len(data) >= 2**31:
        raise ValueError(f"{len(data)} bytes of geometries are too many for one batch: less than 2 GiB are wanted")
    return pa.Array.from_buffers(
        pa.binary(), len(start) - 1, [None, pa.py_buffer(start.astype(np.int32)), pa.py_buffer(data)]
    )


def boxes_array(boxes: NDArray[np.float64]) -> pa.Array:
    """Return bounding boxes (n, 4) as the struct column that readers filter by; null where they are NaN."""
    children = [pa.array(np.ascontiguousarray(boxes[:, i])) for i in range(4)]
    return pa.StructArray.from_arrays(children, list(_SIDES), mask=pa.array(np.isnan(boxes[:, 0])))


def geo_metadata(
    kinds: Iterable[str], crs: str, *, spherical: bool, bounds: NDArray[np.float64] | None, polygons: bool
) -> str:
    """Return the "geo" metadata of a file, as JSON.

    ``crs``: one that pyproj reads, or "none"; ``bounds``: of all geometries; left out when None.
    """
    about: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": sorted(kinds),
        "crs": None if crs.lower() == NO_CRS else pyproj.CRS.from_user_input(crs).to_json_dict(),
        "edges": "spherical" if spherical else "planar",
        "covering": {"bbox": {side: [BOX_COLUMN, side] for side in _SIDES}},
    }
    if polygons:
        about["orientation"] = "counterclockwise"
    if bounds is not None:
        about["bbox"] = bounds.tolist()
    return json.dumps({"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: about}})


def write_geoparquet(
    batches: Iterable[tuple[dict[str, pa.Array], Geometries]],
    path: str,
    crs: str,
    *,
    spherical: bool,
    polygons: bool,
    schema: pa.Schema,
) -> int:
    """Write batches of columns and geometries to one file and return how many rows it has.

    The file appears whole or not at all; memory does not grow with the rows, each batch is a row group.

    ``crs``: of all coordinates: one that pyproj reads, or "none"; ``schema``: of the columns without the geometry and
    its box.
    """
    place, target = filesystem_of(path)
    scratch = f"{target}.{uuid.uuid4().hex}.writing"
    box = pa.struct([(side, pa.float64()) for side in _SIDES])
    whole = pa.schema([*schema, pa.field(GEOMETRY, pa.binary()), pa.field(BOX_COLUMN, box)])
    rows, kinds = 0, set[str]()
    low, high = np.full(2, np.inf), np.full(2, -np.inf)
    try:
        stream = place.open_output_stream(scratch)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    try:
        # with pyarrow's own schema in the file, its readers would not show the metadata that is added last
        options = {"compression": "zstd", "compression_level": 1, "store_schema": False}
        with stream, pq.ParquetWriter(stream, whole, **options) as writer:
            for columns, shapes in batches:
                arrays = [*columns.values(), shapes.wkb, boxes_array(shapes.boxes)]
                table = pa.Table.from_arrays(arrays, schema=whole)
                writer.write_table(table, row_group_size=max(len(table), 1))
                rows += len(table)
                kinds |= shapes.kinds
                held = shapes.boxes[~np.isnan(shapes.boxes[:, 0])]
                if len(held):
                    low, high = np.minimum(low, held[:, :2].min(axis=0)), np.maximum(high, held[:, 2:].max(axis=0))
            bounds = np.concatenate([low, high]) if np.isfinite(low).all() else None
            geo = geo_metadata(kinds, crs, spherical=spherical, bounds=bounds, polygons=polygons)
            writer.add_key_value_metadata({"geo": geo})
        place.move(scratch, target)
    except BaseException:
        if place.get_file_info(scratch).type != fs.FileType.NotFound:
            place.delete_file(scratch)
        raise
    return rows
