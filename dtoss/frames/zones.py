"""Polygons of other libraries: GeoDataFrames, GeoSeries, shapely's, and tables with a column of geometries."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.frames.crs_names import crs_name, short
from dtoss.geometry.polygons import Polygon, Rings, as_polygons, polygons_in, rings_of, rings_together
from dtoss.geometry.space import NO_CRS, Space, same_crs
from dtoss.geometry.wkb import polygons_of_wkb
from dtoss.queries.areas.covered import listed

GEOMETRY_NAMES = ("geometry", "geom", "wkb", "wkb_geometry")
"""Columns in which a table that does not say has its geometries, in the order in which they are looked for."""
POLYGON_ID, MULTI_POLYGON_ID = 3, 6
"""Of shapely's numbers of kinds."""


@dataclass(frozen=True)
class Zones:
    """The polygons of a frame, a shape for each row; one that is missing or empty has no polygons.

    Parameters
    ----------
    rings
        Of all of them.
    crs
        As the frame names it; None where it cannot say, "unknown" where it could and does not.
    """

    rings: Rings
    crs: str | None = None

    def __len__(self) -> int:
        return len(self.rings)

    @property
    def missing(self) -> int:
        """How many rows have no geometry, or an empty one."""
        return int(np.count_nonzero(np.diff(self.rings.shape) == 0))


NO_CRS_SAID = "unknown"


def polygons_asked(shapes: Any, space: Space) -> list[list[Polygon]]:
    """Return the polygons of each shape that is searched within: frames and whatever an index takes besides.

    Raises
    ------
    ValueError
        If a shape is none or not legal (:func:`dtoss.geometry.polygons.as_polygons`), a frame has no geometries or
        others than polygons, or its CRS is not that of the space.
    """
    zones = zones_of(shapes)
    if zones is not None:
        check_crs(zones.crs, space)
        return polygons_in(zones.rings, space)
    return [as_polygons(shape, space) for shape in listed(shapes)]


def rings_asked(shapes: Any, space: Space) -> list[list[list[Any]]]:
    """Return the rings of the polygons of each shape, checked as by :func:`polygons_asked`.

    Raises
    ------
    ValueError
        As there.
    """
    zones = zones_of(shapes)
    if zones is not None:
        check_crs(zones.crs, space)
        polygons_in(zones.rings, space)
        return [zones.rings.of_shape(number) for number in range(len(zones))]
    for shape in (whole := listed(shapes)):
        as_polygons(shape, space)
    return [rings_of(shape) for shape in whole]


def check_crs(crs: str | None, space: Space, what: str = "the zones") -> None:
    """Check that the CRS of zones is that of a space; nothing is ever transformed in silence.

    Raises
    ------
    ValueError
        If it is another one, or one that could be known is not.
    """
    if crs is None:
        return
    if crs == NO_CRS_SAID:
        if space.crs == NO_CRS:
            return
        raise ValueError(
            f"{what} name no CRS and the index is in {short(space.crs)}: gdf.set_crs({short(space.crs)!r}) says that "
            "they are in it"
        )
    if not same_crs(crs, space.crs):
        way = "gdf.set_crs(None, allow_override=True) says that they are in its plane"
        if space.crs != NO_CRS:
            way = f"transform them first, gdf.to_crs({short(space.crs)!r})"
        raise ValueError(f"{what} are in {short(crs)} and the index in {short(space.crs)}: {way}")


def zones_of(shapes: Any) -> Zones | None:
    """Return the polygons of a frame or of a list of geometries; None where it is neither.

    Parameters
    ----------
    shapes
        A GeoDataFrame, GeoSeries or GeometryArray; a list, array or pandas Series of shapely polygons or WKB; a
        DataFrame of pandas or polars, an Arrow table, or what gives one (``__arrow_c_stream__``), with a column of WKB
        that is called geometry, geom, wkb or wkb_geometry, or that is the only one of bytes. GeoArrow's WKB is WKB.

    Raises
    ------
    ValueError
        If a table has no such column, or a geometry is no polygon; the message says which.
    """
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
    table = _arrow(shapes)
    if table is None:
        return None
    if isinstance(table, (pa.Array, pa.ChunkedArray)):
        column: Any = table
    else:
        column = table[_geometry_column(table)]
    values = column.to_pylist()
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        values = [None if value is None else geojson_of(value) for value in values]
    return Zones(_of_values(values))


def _arrow(shapes: Any) -> pa.Table | pa.Array | pa.ChunkedArray | None:
    if isinstance(shapes, (pa.Table, pa.Array, pa.ChunkedArray)):
        return shapes
    if isinstance(shapes, pa.RecordBatch):
        return pa.table(shapes)
    if (pandas := sys.modules.get("pandas")) is not None:
        if isinstance(shapes, pandas.DataFrame):
            for name in [*(name for name in GEOMETRY_NAMES if name in shapes.columns), *shapes.columns]:
                if any(_is_geometry(value) for value in shapes[name].head(1000)):
                    return pa.table({"geometry": _binary(shapes[name])})
            raise ValueError(_no_column(shapes.columns))
        if isinstance(shapes, pandas.Series):
            return _binary(shapes)
    if hasattr(shapes, "__arrow_c_stream__"):
        return pa.table(shapes)
    return pa.array(shapes) if hasattr(shapes, "__arrow_c_array__") else None


def _binary(values: Iterable[Any]) -> pa.Array:
    found = [getattr(value, "wkb", value) for value in values]
    return pa.array([None if value is None or value != value else value for value in found], pa.large_binary())


def _geometry_column(table: pa.Table) -> str:
    binary = [field.name for field in table.schema if _holds_bytes(field.type)]
    for name in GEOMETRY_NAMES:
        if name in binary:
            return name
    if len(binary) == 1:
        return binary[0]
    raise ValueError(_no_column(table.column_names))


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
    return rings_together([polygons_of_value(shape, number) for number, shape in enumerate(shapes)])


def polygons_of_value(shape: Any, number: int) -> list[list[Any]]:
    """Return the rings of each polygon of one shape: WKB, a shape of shapely, or what :func:`rings_of` takes.

    Raises
    ------
    ValueError
        If it is no polygon; the message says which shape, by its number.
    """
    if shape is None or (isinstance(shape, float) and shape != shape):
        return []
    try:
        if isinstance(shape, (bytes, bytearray, memoryview)):
            return polygons_of_wkb(bytes(shape))
        found = rings_of(shape)
    except ValueError as error:
        raise ValueError(f"zone {number}: {error}") from None
    return [kept for rings in found if (kept := [ring for ring in rings if len(ring)])]


def geojson_of(text: str) -> Any:
    """Return the shape in a GeoJSON text, None where it holds none.

    Raises
    ------
    ValueError
        If it is no JSON.
    """
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
