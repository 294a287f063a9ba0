"""Polygons of other libraries: GeoDataFrames, shapely's, tables with a column of geometries, well-known binary."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.frames.arrow_tables import read_column, table_of, warn_caller
from dtoss.frames.geo_columns import NO_CRS_SAID, GeoColumn, check_crs, crs_name, geo_column, of_capsules
from dtoss.geometry.polygons import (
    PLANAR,
    SPHERICAL,
    Polygon,
    Rings,
    as_polygons,
    check_edges,
    edges_meant,
    long_edge,
    polygons_in,
    rings_of,
    rings_together,
)
from dtoss.geometry.space import Space
from dtoss.queries.covered import list_shapes

GEOMETRY_NAMES = ("geometry", "geom", "wkb", "wkb_geometry")
"""Columns in which a table that does not say has its geometries, in the order in which they are looked for."""
FIRST_VALUES = 1000
"""Values of a column that are looked at, to see what it holds."""
POLYGON_ID, MULTI_POLYGON_ID = 3, 6
"""Of shapely's numbers of kinds."""


@dataclass(frozen=True)
class Zones:
    """The polygons of a frame, a shape for each row; one that is missing or empty has no polygons."""

    rings: Rings  # Of all of them
    crs: str | None = None  # As the frame names it; None where it cannot say, "unknown" where it could and does not

    def __len__(self) -> int:
        return len(self.rings)

    def between(self, first: int, last: int) -> Zones:
        """Return some consecutive zones."""
        return Zones(self.rings.between(first, last), self.crs)

    @property
    def missing(self) -> int:
        """How many rows have no geometry, or an empty one."""
        return int(np.count_nonzero(np.diff(self.rings.shape) == 0))


def polygons_asked(shapes: Any, space: Space, edges: str | None = None) -> list[list[Polygon]]:
    """Return the polygons of each shape that is searched within: frames and whatever an index takes besides.

    ``edges``: on the sphere "spherical" or "planar" (straight in longitude and latitude); None is what the shapes mean:
    straight ones where they are GeoJSON, shapely's, WKB or of a frame, arcs where they are arrays of corners.
    """
    zones = zones_of(shapes)
    found = _meant(shapes, zones, space, edges)
    if zones is not None:
        return polygons_in(found[0], space)
    return [as_polygons(shape, space, rings.edges) for shape, rings in zip(list_shapes(shapes), found, strict=True)]


def shapes_asked(shapes: Any, space: Space, edges: str | None = None) -> list[tuple[list[list[Any]], str]]:
    """Return the rings of the polygons of each shape, checked as by :func:`polygons_asked`, and their edges."""
    zones = zones_of(shapes)
    found = _meant(shapes, zones, space, edges)
    if zones is not None:
        polygons_in(found[0], space)
        return [(found[0].of_shape(number), found[0].edges) for number in range(len(found[0]))]
    for shape, rings in zip(whole := list_shapes(shapes), found, strict=True):
        as_polygons(shape, space, rings.edges)
    return [(rings_of(shape), rings.edges) for shape, rings in zip(whole, found, strict=True)]


def _meant(shapes: Any, zones: Zones | None, space: Space, edges: str | None) -> list[Rings]:
    """Return the rings of zones as one, or of each shape, with the edges that are meant; a long one is told of."""
    said = check_edges(edges)
    if zones is not None:
        check_crs(zones.crs, space)
        found = [zones.rings if said is None else replace(zones.rings, edges=said)]
    else:
        found = [rings_together([rings_of(shape)], said or edges_meant(shape)) for shape in list_shapes(shapes)]
    if said is None and space.geographic:
        for rings in found:
            if (note := long_edge(rings.corners, rings.ring, rings.edges)) is not None:
                warn_caller(f"{note}: {_WAYS[rings.edges]}")
                break
    return found


_WAYS = {
    PLANAR: "it goes through longitude 0, as GeoJSON says; edges='spherical' goes the short way, over the antimeridian",
    SPHERICAL: "it goes the short way, over the antimeridian; edges='planar' goes through longitude 0, as GeoJSON says",
}
"""What is said of an edge that could go either way."""


def zones_of(shapes: Any) -> Zones | None:
    """Return the polygons of a frame or of a list of geometries; None where it is neither.

    ``shapes``: A GeoDataFrame, GeoSeries or GeometryArray; a list, array or pandas Series of shapely polygons or WKB; a
    DataFrame of pandas or polars, an Arrow table, or what gives one (``__arrow_c_stream__``), with a column of WKB that
    is called geometry, geom, wkb or wkb_geometry, or that is the only one of bytes. GeoArrow's WKB is WKB.
    """
    if isinstance(shapes, Zones):
        return shapes
    geopandas = sys.modules.get("geopandas")
    if geopandas is not None and isinstance(shapes, (geopandas.GeoDataFrame, geopandas.GeoSeries)):
        if isinstance(shapes, geopandas.GeoDataFrame) and shapes._geometry_column_name not in shapes:
            raise ValueError("the GeoDataFrame has no active geometry: choose one with .set_geometry(NAME)")
        series = shapes.geometry
        return Zones(_of_values(np.asarray(series.array, dtype=object)), _crs_name(series.crs))
    if geopandas is not None and type(shapes).__name__ == "GeometryArray":
        return Zones(_of_values(np.asarray(shapes, dtype=object)), _crs_name(shapes.crs))
    if isinstance(shapes, (list, tuple)) or (isinstance(shapes, np.ndarray) and shapes.dtype == object):
        return Zones(_of_values(shapes)) if any(_is_geometry(shape) for shape in shapes) else None
    if isinstance(shapes, (np.ndarray, Mapping)) or hasattr(shapes, "__geo_interface__"):
        return None
    return _of_table(shapes)


def _of_table(shapes: Any) -> Zones | None:
    if isinstance(shapes, (pa.Array, pa.ChunkedArray)):
        return _of_column(geo_column(shapes), shapes)
    if not hasattr(shapes, "__arrow_c_stream__") and (column := of_capsules(shapes)) is not None:
        return _of_column(column, None)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(shapes, pandas.Series):
        return Zones(_of_values(shapes.to_list()))
    table = table_of(shapes)
    if table is None:
        return None
    if (pick := table.active) is not None:
        found = table.geometries[pick]
        return _of_column(found, None) if isinstance(found, GeoColumn) else zones_of(found)
    if pandas is not None and isinstance(shapes, pandas.DataFrame):
        kinds = {name: [value for value in shapes[name].head(FIRST_VALUES) if value is not None] for name in shapes}
        name = _chosen(shapes.columns, [name for name, some in kinds.items() if any(map(_is_geometry, some))])
        return Zones(_of_values(shapes[name].to_list()))
    columns = {name: read_column(table, name) for name in table.names}
    name = _chosen(table.names, [name for name, column in columns.items() if _holds_bytes(column.type)])
    return Zones(_of_values(columns[name].to_pylist()))


def _of_column(column: GeoColumn | None, plain: Any) -> Zones:
    """Return the zones of a column of an Arrow library, or of one of WKB or GeoJSON that does not say what it is."""
    if column is None:
        return Zones(_of_values(plain.to_pylist()))
    crs, edges = column.crs or NO_CRS_SAID, check_edges(column.edges) or PLANAR
    if column.encoding == "wkb":
        return Zones(replace(_of_values(column.values.to_pylist()), edges=edges), crs)
    depth = {"polygon": 1, "multipolygon": 0}.get(column.encoding)
    if depth is None:
        raise ValueError(f"zones are encoded as {column.encoding}: polygon, multipolygon or wkb is wanted")
    wrapped = ([value] if depth and value is not None else value for value in column.values.to_pylist())
    shapes = [[[_pairs(ring) for ring in rings if ring] for rings in shape or []] for shape in wrapped]
    return Zones(rings_together([[rings for rings in shape if rings] for shape in shapes], edges), crs)


def _pairs(ring: Any) -> NDArray[np.float64]:
    return np.array([[one["x"], one["y"]] if isinstance(one, Mapping) else one[:2] for one in ring], np.float64)


def _chosen(names: Iterable[Any], fitting: list[Any]) -> Any:
    """Return the column of geometries: one that is called so, or else the only one."""
    known = [name for name in GEOMETRY_NAMES if name in fitting]
    if not known and len(fitting) != 1:
        raise ValueError(_no_column(names))
    return (known or fitting)[0]


def _no_column(names: Iterable[Any]) -> str:
    return (
        f"the table has no column of polygons: WKB or shapely's, called {' or '.join(GEOMETRY_NAMES)}, is wanted; its "
        f"columns are {', '.join(map(str, names))}"
    )


def _holds_bytes(kind: pa.DataType) -> bool:
    kind = getattr(kind, "storage_type", kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _crs_name(crs: Any) -> str:
    return crs_name(crs) or NO_CRS_SAID


def _is_geometry(shape: Any) -> bool:
    return isinstance(shape, (bytes, bytearray, memoryview)) or (
        hasattr(shape, "geom_type") and hasattr(shape, "wkb")
    )  # of shapely, without loading it


def _of_values(shapes: Any) -> Rings:
    """Return the rings of shapely's polygons, WKB, None, or what :func:`rings_of` takes."""
    kept = sys.modules.get("shapely")
    if kept is not None:
        array = np.empty(len(shapes), object)
        array[:] = list(shapes)
        if bool(kept.is_valid_input(array).all()):
            return _of_shapely(array)
    return rings_of_values(shapes)


def rings_of_values(shapes: Sequence[Any]) -> Rings:
    """Return the rings of shapes: WKB, GeoJSON as text or as it is read, shapely's, and None where one is missing."""
    found, meant = [], None
    for number, shape in enumerate(shapes):
        try:
            polygons, edges = _polygons_of_value(shape)
            if polygons and edges != (meant := meant or edges):
                raise ValueError(f"its edges are {edges}, those before it are {meant}: ask for them apart")
        except ValueError as error:
            raise ValueError(f"zone {number}: {error}") from None
        found.append(polygons)
    return rings_together(found, meant or PLANAR)


def _polygons_of_value(shape: Any) -> tuple[list[list[Any]], str]:
    if isinstance(shape, str):
        shape = _geojson_of(shape)
    if shape is None or (isinstance(shape, float) and shape != shape):
        return [], PLANAR
    if isinstance(shape, (bytes, bytearray, memoryview)):
        return polygons_of_wkb(bytes(shape)), PLANAR
    kept = [kept for rings in rings_of(shape) if (kept := [ring for ring in rings if len(ring)])]
    return kept, edges_meant(shape)


def _geojson_of(text: str) -> Any:
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"a geometry is no GeoJSON: {error}") from None
    if isinstance(found, Mapping) and found.get("type") == "Feature":
        return found.get("geometry")
    return found


def _of_shapely(array: NDArray[Any]) -> Rings:
    import shapely

    kinds = shapely.get_type_id(array)
    empty = shapely.is_missing(array) | shapely.is_empty(array)
    wrong = ~empty & (kinds != POLYGON_ID) & (kinds != MULTI_POLYGON_ID)
    if wrong.any():
        number = int(wrong.argmax())
        raise ValueError(
            f"zone {number}: a shape of type {array[number].geom_type!r} is not searched within: Polygon or "
            "MultiPolygon is wanted"
        )
    rows = np.flatnonzero(~empty)
    parts, owner = shapely.get_parts(array[rows], return_index=True)
    kept = ~shapely.is_empty(parts)
    parts, owner = parts[kept], rows[owner[kept]]
    rings, ring_owner = shapely.get_rings(parts, return_index=True)
    kept = ~shapely.is_empty(rings)
    rings, ring_owner = rings[kept], ring_owner[kept]
    corners, corner_owner = shapely.get_coordinates(rings, return_index=True)
    return Rings(
        np.ascontiguousarray(corners, np.float64),
        _firsts(corner_owner, len(rings)),
        _firsts(ring_owner, len(parts)),
        _firsts(owner, len(array)),
    )


def _firsts(owner: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.searchsorted(owner, np.arange(count + 1)).astype(np.int64)


WKB_KINDS = {
    1: "Point", 2: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString", 6: "MultiPolygon",
    7: "GeometryCollection",
}  # fmt: skip
"""Of geometries, by the last digit of their number."""
HAS_Z, HAS_M, HAS_SRID = 0x80000000, 0x40000000, 0x20000000
"""Flags of the extended form; the standard one adds thousands instead."""


def polygons_of_wkb(data: bytes) -> list[list[NDArray[np.float64]]]:
    """Return the rings of each polygon of a Polygon or MultiPolygon, float64 (v, 2) each; empty ones are left out.

    Examples
    --------
    >>> corners = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    >>> data = struct.pack("<BIII8d", 1, 3, 1, 4, *(c for corner in corners for c in corner))
    >>> [[ring.tolist() for ring in rings] for rings in polygons_of_wkb(data)]
    [[[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]]
    """
    try:
        found, end = _read(memoryview(data), 0)
    except (struct.error, ValueError) as error:
        if isinstance(error, WrongKind):
            raise
        raise ValueError(f"{len(data)} bytes are not well-known binary: {error}") from None
    if end != len(data):
        raise ValueError(f"{len(data)} bytes are not well-known binary: it ends after {end}")
    return found


class WrongKind(ValueError):
    """A geometry that is no polygon."""


def _read(data: Any, at: int) -> tuple[list[list[NDArray[np.float64]]], int]:
    order, kind, wide, at = _head(data, at)
    if kind == 3:
        rings, at = _rings(data, at, order, wide)
        return [rings] if rings else [], at
    if kind != 6:
        raise WrongKind(
            f"a shape of type {WKB_KINDS.get(kind, kind)!r} is not searched within: Polygon or MultiPolygon is wanted"
        )
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    polygons = []
    for _ in range(count):
        inner_order, inner, inner_wide, at = _head(data, at)
        if inner != 3:
            raise ValueError(f"a part of type {inner} in a MultiPolygon")
        rings, at = _rings(data, at, inner_order, inner_wide)
        if rings:
            polygons.append(rings)
    return polygons, at


def _head(data: Any, at: int) -> tuple[str, int, int, int]:
    """Return the byte order, the kind, how many numbers a corner has, and where what follows begins."""
    if at >= len(data) or data[at] > 1:
        raise ValueError(f"no byte order at {at}")
    order = "<" if data[at] else ">"
    (number,) = struct.unpack_from(f"{order}I", data, at + 1)
    plain = number & 0x0FFFFFFF
    thousands, kind = divmod(plain, 1000)
    wide = 2 + bool(number & HAS_Z) + bool(number & HAS_M) + (0, 1, 1, 2)[thousands if thousands < 4 else 0]
    return order, kind, wide, at + (9 if number & HAS_SRID else 5)


def _rings(data: Any, at: int, order: str, wide: int) -> tuple[list[NDArray[np.float64]], int]:
    (count,) = struct.unpack_from(f"{order}I", data, at)
    at += 4
    rings = []
    for _ in range(count):
        (corners,) = struct.unpack_from(f"{order}I", data, at)
        at += 4
        size = 8 * corners * wide
        if at + size > len(data):
            raise ValueError(f"a ring of {corners} corners goes past the end")
        values = np.frombuffer(data, f"{order}f8", corners * wide, at).reshape(corners, wide)
        rings.append(values[:, :2].astype(np.float64))
        at += size
    return [ring for ring in rings if len(ring)], at
