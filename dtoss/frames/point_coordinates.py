"""Points of other libraries as coordinates: of shapely, GeoPandas, GeoArrow, and WKB."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.extras import need
from dtoss.frames.arrow_tables import warn_caller
from dtoss.frames.crs_names import crs_name
from dtoss.frames.geo_columns import GeoColumn, geo_column, of_capsules
from dtoss.queries.threads import in_pieces

POINT_BYTES = 21
"""Of a point's WKB: the order of bytes, its type, x and y."""
LITTLE_ENDIAN_POINT = bytes([1, 1, 0, 0, 0])


def points_of(column: Any, *, missing: bool = False, threads: int = 1) -> tuple[NDArray[np.float64], str | None]:
    """Return the coordinates of points, float64 (n, 2), and their CRS as :func:`dtoss.frames.crs_names.crs_name`.

    ``missing``: whether missing and empty points are rows of NaN, and no error.

    Of points with z, x and y are taken, and a warning says so. Cost O(n); 70 ns a point of a GeoSeries.
    """
    found = as_geometries(column)
    if found is None:
        raise ValueError(f"{type(column).__name__} is no column of geometries: shapely or GeoArrow points are wanted")
    geometries, crs = found
    if isinstance(geometries, GeoColumn):
        return _of_arrow(geometries, missing), crs
    return _of_shapely(geometries, missing, threads), crs


def as_geometries(column: Any) -> tuple[Any, str | None] | None:
    """Return shapely geometries or a :class:`dtoss.frames.geo_columns.GeoColumn`, and their CRS; None of anything else.

    A library that is not loaded has made nothing of what is given, so none is loaded to look.
    """
    if isinstance(column, GeoColumn):
        return column, column.crs
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        read = geo_column(column)
        return None if read is None else (read, read.crs)
    if (geopandas := sys.modules.get("geopandas")) is not None:
        if isinstance(column, geopandas.GeoSeries):
            return np.asarray(column.values), crs_name(column.crs)
        if isinstance(column, geopandas.array.GeometryArray):
            return np.asarray(column), crs_name(column.crs)
    if (shapely := sys.modules.get("shapely")) is not None:
        base = shapely.Geometry
        if isinstance(column, base):
            return np.array([column], dtype=object), None
        if isinstance(column, (list, tuple)):
            if isinstance(next((one for one in column if one is not None), None), base):
                return np.array(column, dtype=object), None
        elif getattr(getattr(column, "dtype", None), "kind", "") == "O" and getattr(column, "ndim", 0) == 1:
            values = np.asarray(column)
            if isinstance(next((one for one in values if one is not None), None), base):
                return values, None
    read = None if isinstance(column, np.ndarray) else of_capsules(column)
    return None if read is None else (read, read.crs)


def _of_shapely(geometries: NDArray[Any], missing: bool, threads: int = 1) -> NDArray[np.float64]:
    import shapely

    def read(function: Any) -> NDArray[Any]:
        return np.concatenate(in_pieces(len(geometries), threads, lambda a, b: function(geometries[a:b])))

    try:
        kinds = read(shapely.get_type_id)
    except TypeError:
        raise ValueError("some of the places are no geometries: give points alone, or numbers alone") from None
    if (other := kinds > 0).any():
        names = sorted({geometry.geom_type for geometry in geometries[other][:1000]})
        raise ValueError(_no_points(other, " and ".join(names)))
    xy = read(shapely.get_coordinates)
    if len(xy) != len(geometries):  # those that are missing or empty have none
        bad = (kinds < 0) | shapely.is_empty(geometries)
        _refuse_missing(bad, missing)
        some = xy
        xy = np.full((len(geometries), 2), np.nan)
        xy[~bad] = some
    if read(shapely.has_z).any():
        _say_flat()
    return xy


def _of_arrow(column: GeoColumn, missing: bool) -> NDArray[np.float64]:
    values = column.values
    if column.encoding == "point":
        xy = _of_coordinates(values)
    elif column.encoding == "wkb":
        found = _plain_wkb(values)
        if found is None:
            return _of_shapely(_decoded(values, "from_wkb"), missing)
        xy = found
    elif column.encoding == "wkt":
        return _of_shapely(_decoded(values, "from_wkt"), missing)
    else:
        raise ValueError(_no_points(np.ones(len(values), np.bool_), column.encoding))
    _refuse_missing(np.isnan(xy).all(axis=1), missing)
    return xy


def _of_coordinates(values: pa.Array) -> NDArray[np.float64]:
    """Return GeoArrow points, whose coordinates stand apart or side by side; NaN where they are null."""
    there = values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_struct(values.type):
        names = [field.name for field in values.type]
        flat = [values.field(names.index(axis)) for axis in ("x", "y")]
        xy = np.stack([axis.cast(pa.float64()).to_numpy(zero_copy_only=False) for axis in flat], axis=1)
        size = len(names)
    else:
        size = values.type.list_size
        flat = values.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        begin = values.offset * size
        xy = flat[begin : begin + len(values) * size].reshape(-1, size)[:, :2]
    if size > 2:
        _say_flat()
    # read only, a view of what may be freed, and not contiguous: the index wants its own in any case
    xy = np.array(xy, dtype=np.float64, order="C")
    xy[~there] = np.nan
    return xy


def _plain_wkb(values: pa.Array) -> NDArray[np.float64] | None:
    """Return points of WKB that all are little-endian x, y and none missing; None where one is anything else."""
    if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)) or values.null_count:
        return None
    wide = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    n = len(values)
    if n == 0:
        return np.zeros((0, 2))
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, wide, n + 1, values.offset * np.dtype(wide).itemsize)
    if ends[-1] - ends[0] != n * POINT_BYTES or (np.diff(ends) != POINT_BYTES).any():
        return None
    rows = np.frombuffer(data, np.uint8, n * POINT_BYTES, int(ends[0])).reshape(n, POINT_BYTES)
    if (rows[:, :5] != np.frombuffer(LITTLE_ENDIAN_POINT, np.uint8)).any():
        return None
    return np.ascontiguousarray(rows[:, 5:]).view("<f8").astype(np.float64, copy=False)


def _decoded(values: pa.Array, how: str) -> NDArray[Any]:
    shapely = need("shapely", "reading WKB of other than plain points", "geo")
    try:
        found: NDArray[Any] = getattr(shapely, how)(np.array(values.to_pylist(), dtype=object))
    except (shapely.errors.GEOSException, TypeError) as error:
        raise ValueError(f"geometries cannot be read: {' '.join(str(error).split())}") from None
    return found


def _refuse_missing(bad: Any, missing: bool) -> None:
    if missing or not bad.any():
        return
    raise ValueError(
        f"{_counted(bad)} missing or empty: leave them out first, "
        "gdf[~(gdf.geometry.isna() | gdf.geometry.is_empty)] in GeoPandas"
    )


def _no_points(other: NDArray[np.bool_], names: str) -> str:
    return (
        f"{_counted(other)} {names}: points are wanted, such as gdf.set_geometry(gdf.representative_point()) gives, or "
        "gdf.explode() of several in one"
    )


def _counted(rows: NDArray[np.bool_]) -> str:
    """Return how many geometries of all these are, and which is the first."""
    count = int(rows.sum())
    first = f"row {int(rows.argmax())}" + (" the first" if count > 1 else "")
    return f"{count:,} of {len(rows):,} geometries ({first}) {'are' if count > 1 else 'is'}"


def _say_flat() -> None:
    warn_caller("points have z, which is left out: distances are those of x and y")
