"""Where the rows of a frame are: its column of points, or two columns of coordinates.

Places that are asked about, whatever holds them, as positions of an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.frames.arrow_tables import Table, read_column, table_of
from dtoss.frames.crs_names import crs_name, short
from dtoss.frames.geo_columns import GeoColumn
from dtoss.frames.point_coordinates import as_geometries, points_of
from dtoss.geometry.space import NO_CRS, Space, as_positions, axes_of, same_crs
from dtoss.names import did_you_mean


@dataclass(frozen=True)
class Located:
    """Positions of rows."""

    positions: NDArray[np.float64]  # float64 (n, 2): lon, lat or x, y
    crs: str | None  # As :func:`dtoss.frames.crs_names.crs_name`; None where the frame names none
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
