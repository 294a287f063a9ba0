"""Where the rows of a frame are: points of other libraries, or two columns, as coordinates.

Places that are asked about, whatever holds them, as positions of an index.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.extras import need
from dtoss.frames.arrow_tables import Table, read_column, table_of, warn_caller
from dtoss.frames.geo_columns import GeoColumn, crs_name, geo_column, of_capsules, short
from dtoss.geometry.space import NO_CRS, Space, as_positions, axes_of, same_crs
from dtoss.names import did_you_mean
from dtoss.queries.threads import in_pieces


@dataclass(frozen=True)
class Located:
    """Positions of rows."""

    positions: NDArray[np.float64]  # float64 (n, 2): lon, lat or x, y
    crs: str | None  # As :func:`dtoss.frames.geo_columns.crs_name`; None where the frame names none
    # "geometry", "degrees" where columns are called lon and lat, "plain" where names of columns say nothing
    meaning: str
    columns: tuple[Any, ...]  # The columns that hold them


def locate_rows(
    table: Table, geometry: str | None = None, x: str | None = None, y: str | None = None, *, missing: bool = False
) -> Located | None:
    """Return where the rows of a table are, None where none of its columns says so.

    ``geometry``: the column of points; bytes are read as WKB, text as WKT. None is the only one, or the active one;
    ``x``, ``y``: the columns of lon and lat, or of x and y; where they are None and there are no geometries, those that
    :func:`dtoss.geometry.space.axes_of` finds; ``missing``: whether rows may have no position: it is NaN then.
    """
    if (x is None) != (y is None):
        raise ValueError(f"{'y' if y is None else 'x'}= is missing: both name columns of coordinates, or neither does")
    if x is not None and y is not None:
        if geometry is not None:
            raise ValueError("geometry= and x=, y= are two ways to say where objects are: name one")
        return Located(_coordinates(table, x, y, missing), None, "plain", (x, y))
    if geometry is None and table.library == "pandas" and (at := _by_name(table, missing)) is not None:
        return at  # points among its objects are no more than values, unless nothing else says where
    name = table.active if geometry is None else geometry
    if name is None and table.geometries:
        names = ", ".join(map(str, table.geometries))
        raise ValueError(f"several columns hold geometries ({names}): name one by geometry=")
    if name is not None:
        positions, crs = points_of(_geometries(table, name), missing=missing)
        return Located(positions, crs, "geometry", (name,))
    return _by_name(table, missing)


def _by_name(table: Table, missing: bool) -> Located | None:
    names = axes_of(table.names)
    if names is None:
        return None
    meaning = "plain" if str(names[0]).casefold() == "x" else "degrees"
    return Located(_coordinates(table, *names, missing), None, meaning, names)


def _geometries(table: Table, name: Any) -> Any:
    if name in table.geometries:
        return table.geometries[name]
    values = there(table, name, "geometry")
    kind = values.type
    for encoding, tests in (
        ("wkb", (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)),
        ("wkt", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
    ):
        if any(test(kind) for test in tests):
            return GeoColumn(values, encoding, None)
    raise ValueError(f"column {name!r} is of type {kind}: geometries, or WKB or WKT, are wanted")


def there(table: Table, name: Any, argument: str) -> pa.Array:
    """Return a column that an argument names."""
    if name not in table.names:
        known = [str(other) for other in table.names]
        meant = did_you_mean(str(name), known)
        raise ValueError(f"{argument}={name!r} is no column: there are {', '.join(known) or 'none'}{meant}")
    return read_column(table, name)


def _coordinates(table: Table, x: Any, y: Any, may_miss: bool) -> NDArray[np.float64]:
    columns = [there(table, name, axis) for axis, name in (("x", x), ("y", y))]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(f"columns {x!r} and {y!r} have {len(columns[0])} and {len(columns[1])} values, not as many")
    missing = np.logical_or(*(column.is_null().to_numpy(zero_copy_only=False) for column in columns))
    numbers = [_numbers(column, name) for column, name in zip(columns, (x, y), strict=True)]
    if missing.any() and may_miss:
        return np.where(missing[:, None], np.nan, np.stack(numbers, axis=1))
    if missing.any():
        ways = {
            "polars": f"frame.drop_nulls([{x!r}, {y!r}])",
            "arrow": f"table.filter(pc.is_valid(pc.field({x!r})) & pc.is_valid(pc.field({y!r})))",
        }
        way = ways.get(table.library, f"frame.dropna(subset=[{x!r}, {y!r}])")
        count = int(missing.sum())
        raise ValueError(
            f"{count:,} of {len(missing):,} rows have no {x} or no {y}, row {int(missing.argmax())} first: leave them "
            f"out first, {way}"
        )
    return np.stack(numbers, axis=1)


def _numbers(column: pa.Array, name: Any) -> NDArray[np.float64]:
    """Return numbers as float64, each the nearest; anything where one is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_decimal(kind):
        # by its digits: Arrow divides by a power of ten, which rounds twice
        return _plain(column.cast(pa.string()).cast(pa.float64()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            return _plain(column.cast(pa.float64()))
        except pa.ArrowInvalid:
            raise ValueError(f"positions are not numbers: column {name!r} is text, cast it first") from None
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise ValueError(f"positions are not numbers: column {name!r} is of type {kind}, cast it first")
    return _plain(column)


def _plain(column: pa.Array) -> NDArray[np.float64]:
    if column.null_count:
        column = column.fill_null(0) if not pa.types.is_null(column.type) else pa.array(np.zeros(len(column)))
    found: NDArray[np.float64] = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return found


NO_POINTS = (bool, int, float, str, list, tuple, np.ndarray, np.generic)
"""What the first item of a list is where it holds no points: looked at, so that lists of numbers cost nothing more."""


def as_places(positions: Any, space: Space, crs: str | None = None) -> NDArray[np.float64]:
    """Return places as float64 (n, 2), C-contiguous: those of frames and geometries, and all that numpy reads."""
    if crs is not None and crs != space.crs and not same_crs(named := crs_name(crs) or NO_CRS, space.crs):
        raise ValueError(
            f"crs {short(named)!r} of the query is not {short(space.crs)!r} of the snapshot: transform the query first"
        )
    found = positions if isinstance(positions, Located) else places_of(positions)
    if found is None:
        return as_positions(positions, space)
    _check_crs(found, space, crs)
    return as_positions(found.positions, space)


def places_of(positions: Any) -> Located | None:
    """Return places of frames and geometries, None of anything else, which numpy may read."""
    if type(positions) is np.ndarray and positions.dtype.kind not in "OV":
        return None
    if type(positions) in (list, tuple) and positions and isinstance(positions[0], NO_POINTS):
        return None
    if (geometries := as_geometries(positions)) is not None:
        points, crs = points_of(positions)
        # points of shapely could not name a CRS
        bare = isinstance(geometries[0], np.ndarray) and not hasattr(positions, "crs")
        return Located(points, crs, "plain" if bare else "geometry", ())
    table = table_of(positions)
    return None if table is None else locate_rows(table)


def _check_crs(found: Located, space: Space, crs: str | None) -> None:
    """Refuse places that are in another CRS than the index, or may be."""
    if found.meaning == "degrees" and not space.geographic and space.crs != NO_CRS:
        names = " and ".join(map(str, found.columns))
        raise ValueError(
            f"columns {names} are degrees and the index is in {short(space.crs)}: transform them first, and call them "
            "x and y"
        )
    if found.meaning != "geometry" or (found.crs is None and (crs is not None or space.crs == NO_CRS)):
        return
    if found.crs is None:
        raise ValueError(
            f"the places name no CRS and the index is in {short(space.crs)}: gdf.set_crs({short(space.crs)!r}) or "
            "crs= says that they are in it"
        )
    if not same_crs(found.crs, space.crs):
        raise ValueError(
            f"the places are in {short(found.crs)} and the index in {short(space.crs)}: transform them first, "
            f"gdf.to_crs({short(space.crs)!r})"
        )


POINT_BYTES = 21
"""Of a point's WKB: the order of bytes, its type, x and y."""
LITTLE_ENDIAN_POINT = bytes([1, 1, 0, 0, 0])


def points_of(column: Any, *, missing: bool = False, threads: int = 1) -> tuple[NDArray[np.float64], str | None]:
    """Return the coordinates of points, float64 (n, 2), and their CRS as :func:`dtoss.frames.geo_columns.crs_name`.

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
