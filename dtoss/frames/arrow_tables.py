"""What may stand for frames and places, and tables of other libraries: their columns by name, or all as Arrow's.

Warnings about a frame, at the line of whoever gave it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.frames.geo_columns import geo_column, whole


@dataclass(frozen=True)
class Table:
    """The columns of a frame."""

    library: str  # "geopandas", "pandas", "polars" or "arrow": whose words a way out is said in
    names: Sequence[Any]  # Of the columns, geometries among them
    # Returns a column by its name as an Arrow array; raises what Arrow or the library does where it cannot
    column: Callable[[Any], pa.Array]
    # What :func:`dtoss.frames.coordinates.points_of` reads, by names of columns
    geometries: Mapping[Any, Any] = field(default_factory=dict)
    active: Any = None  # The geometry that counts where none is named; None where there are several, or none
    index: Any = None


def table_of(frame: Any) -> Table | None:
    """Return the columns of a frame, None where it is no table."""
    if isinstance(frame, dict):
        return _of_arrays(frame)
    if isinstance(frame, np.ndarray):
        names = frame.dtype.names
        return None if names is None else _of_arrays({name: frame[name].reshape(-1) for name in names})
    if _is(frame, "pandas", "DataFrame"):
        return _of_pandas(frame)
    if _is(frame, "polars", "DataFrame"):
        return _of_polars(frame)
    if _is(frame, "polars", "LazyFrame"):
        raise ValueError("a LazyFrame has not been read yet: give frame.collect()")
    table = _streamed(frame)
    return None if table is None else _of_arrow(table)


def arrow_of(frame: Any) -> pa.Table | None:
    """Return a frame as a table of Arrow, None where it is no table."""
    if (streamed := _streamed(frame)) is not None:
        return streamed
    table = table_of(frame)
    if table is None:
        return None
    read = {name: read_column(table, name) for name in table.names if name not in table.geometries}
    if not table.geometries:
        return pa.table({str(name): column for name, column in read.items()})
    shapes = frame[list(table.geometries)]
    kinds = {kind for name in table.geometries for kind in shapes[name].geom_type.unique()}
    drawn = pa.table(
        shapes.set_geometry(shapes.columns[0]).to_arrow(
            index=False, geometry_encoding="geoarrow" if kinds == {"Point"} else "WKB"
        )
    )
    fields = [drawn.field(str(n)) if n in table.geometries else pa.field(str(n), read[n].type) for n in table.names]
    columns = [drawn.column(str(n)) if n in table.geometries else read[n] for n in table.names]
    return pa.table(columns, schema=pa.schema(fields))


def read_column(table: Table, name: Any) -> pa.Array:
    """Return a column of a table as an Arrow array."""
    if (count := list(table.names).count(name)) > 1:
        raise ValueError(f"{count} columns are called {name!r}: rename or drop all but one")
    try:
        return plain_column(table.column(name))
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"column {name!r} cannot be read ({reason}): cast its values to one type, or drop it"
        ) from None


def plain_column(column: pa.Array) -> pa.Array:
    """Return a column whose values Arrow knows how to take, compare and sort: views and runs of values become plain."""
    if pa.types.is_run_end_encoded(column.type):
        import pyarrow.compute as pc

        column = pc.run_end_decode(column)
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return column.cast(pa.dictionary(kind.index_type, pa.large_string(), kind.ordered))
    return column


def column_of(name: Any, values: Any) -> pa.Array:
    """Return values beside a name as a mapping has them, as an Arrow array."""
    return read_column(_of_arrays({name: values}), name)


def _of_pandas(frame: Any) -> Table:
    single = set(frame.columns[~frame.columns.duplicated(keep=False)])
    once = {name: kind for name, kind in zip(frame.columns, frame.dtypes, strict=True) if name in single}
    geometries = {name: frame[name] for name, kind in once.items() if kind.name == "geometry"}
    library = "geopandas" if geometries else "pandas"
    if not geometries:
        geometries = {
            name: frame[name] for name, kind in once.items() if kind.name == "object" and _is_shapely(frame[name])
        }
    active = getattr(frame, "active_geometry_name", None)
    if active not in geometries:
        active = None
    if active is None and len(geometries) == 1:
        active = next(iter(geometries))

    def column(name: Any) -> pa.Array:
        series = frame[name]
        return whole(pa.array(series.sparse.to_dense() if hasattr(series, "sparse") else series))

    return Table(library, list(frame.columns), column, geometries, active, frame.index)


def _is_shapely(series: Any) -> bool:
    """Return whether a column of objects is one of geometries, by the first that is there."""
    shapely = sys.modules.get("shapely")
    return shapely is not None and isinstance(next((one for one in series if one is not None), None), shapely.Geometry)


def _of_polars(frame: Any) -> Table:
    def column(name: str) -> pa.Array:
        series = frame.get_column(name)
        if series.dtype == sys.modules["polars"].Object:
            raise TypeError("it holds objects of Python")  # Arrow would be given their addresses
        return whole(series.to_arrow())

    return Table("polars", frame.columns, column)


def _of_arrow(table: pa.Table) -> Table:
    file = (table.schema.metadata or {}).get(b"geo")
    geometries = {}
    for said, values in zip(table.schema, table.columns, strict=True):
        if (read := geo_column(values, said, file)) is not None:
            geometries[said.name] = read
    primary = json.loads(file).get("primary_column") if file else None
    active = next(iter(geometries)) if len(geometries) == 1 else primary if primary in geometries else None
    return Table("arrow", table.column_names, lambda n: whole(table.column(n)), geometries, active)


def _of_arrays(columns: dict[str, Any]) -> Table:
    return Table("arrow", list(columns), lambda name: _array(columns[name]))


def _array(value: Any) -> pa.Array:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return whole(value)
    # a row by itself is a dictionary of numbers
    return whole(pa.array(np.ravel(value) if np.isscalar(value) or isinstance(value, np.ndarray) else value))


def _streamed(frame: Any) -> pa.Table | None:
    """Return what an Arrow library holds as a table, None where it is no such table."""
    if isinstance(frame, pa.Table):
        return frame
    if _is(frame, "pandas", "DataFrame") or _is(frame, "polars", "DataFrame"):
        return None  # they have better ways, which know of geometries and of the text that older Arrow holds
    if not hasattr(frame, "__arrow_c_stream__"):
        return None
    try:
        return pa.table(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        return None  # a stream of one column


def _is(value: Any, library: str, kind: str) -> bool:
    """Return whether a value is of a class of a library; one that is not loaded has made none."""
    module = sys.modules.get(library)
    return module is not None and isinstance(value, getattr(module, kind))


PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_caller(message: str) -> None:
    """Warn at the innermost line that calls this package, however many of our own functions are between."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


class ArrowStream(Protocol):
    """A table that any Arrow library reads: of pandas, GeoPandas, Polars, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return it as a stream of the Arrow C interface."""


class ArrowArray(Protocol):
    """An array that any Arrow library reads, such as one of GeoArrow points."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """Return it as an array of the Arrow C interface."""


class Geometries(Protocol):
    """A geometry, or many: of shapely, a GeoSeries, a GeoDataFrame."""

    @property
    def __geo_interface__(self) -> Any:
        """It as GeoJSON."""


Frame: TypeAlias = ArrowStream | Mapping[str, Any] | NDArray[Any]
"""A table with named columns: :func:`dtoss.frames.arrow_tables.table_of`."""

Places: TypeAlias = ArrayLike | ArrowStream | ArrowArray | Geometries | Sequence[Geometries] | Mapping[str, Any]
"""Positions: :func:`dtoss.frames.coordinates.places_of`, or what numpy reads."""
