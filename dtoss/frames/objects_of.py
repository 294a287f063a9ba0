"""The rows of a frame as objects: ids, positions, CRS and attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.frames.arrow_tables import Table, column_of, plain_column, read_column, table_of, warn_caller
from dtoss.frames.coordinates import Located, locate_rows, places_of, there
from dtoss.frames.geo_columns import agree_crs, short
from dtoss.geometry.space import NO_CRS, space_of
from dtoss.ids import as_ids
from dtoss.names import free_names
from dtoss.partition import Ids, numbers

ID_COLUMN = "id"
"""The column that ids are read from where none is named; case does not matter."""
MOST_NAMED = 5
"""Columns that a warning names."""


@dataclass(frozen=True)
class Objects:
    """What an index is built of."""

    ids: Any  # Of the objects, (n,)
    positions: Any  # (n, 2)
    crs: Any  # As the caller names it or the frame does; None where neither does
    columns: Mapping[str, Any]  # Attributes by their names, Arrow arrays of length n
    id: str = ID_COLUMN  # What the ids are called


def given_objects(
    ids: Any,
    positions: Any,
    *,
    id: str | None,
    geometry: str | None,
    x: str | None,
    y: str | None,
    columns: Any,
    crs: Any,
    metric: str | None,
) -> Objects:
    """Return what an index is built of: a frame where there are no positions, else what is given, not yet checked.

    ``id``, ``geometry``, ``x``, ``y``, ``columns``, ``crs``, ``metric``: as :func:`objects_of`; of ids and positions,
    columns are a mapping, and none of the first four is given.
    """
    if positions is None:
        return objects_of(ids, id=id, geometry=geometry, x=x, y=y, columns=columns, crs=crs, metric=metric)
    for name, value in {"id": id, "geometry": geometry, "x": x, "y": y}.items():
        if value is not None:
            raise ValueError(
                f"{name}={value!r} names a column of a frame, and there are ids and positions: leave it out"
            )
    if columns is not None and not isinstance(columns, Mapping):
        raise ValueError("columns beside ids and positions are a mapping: names to values, one for each object")
    at = places_of(positions)
    if at is None:
        return Objects(ids, positions, crs, columns or {})
    if at.meaning == "geometry":
        crs = _crs(at, "the column of positions", crs, metric)
    return Objects(ids, at.positions, crs, columns or {})


def objects_of(
    frame: Any,
    *,
    id: str | None = None,
    geometry: str | None = None,
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] | None = None,
    crs: Any = None,
    metric: str | None = None,
    missing: bool = False,
) -> Objects:
    """Return the objects in a frame.

    ``id``: the column of ids; None is the column ``id``, in any case, or else the index of pandas, whatever it holds;
    ``columns``: attributes; None is all columns but those that ids and positions are read from. Those that cannot be
    attributes are left out, and a warning names them; ``crs``: of the positions. Where the frame names one as well,
    they have to be the same; ``missing``: whether rows may have no position: it is NaN then.

    Examples
    --------
    >>> objects = objects_of({"lat": [50.0], "lon": [8.0], "id": [7], "free": [True]})
    >>> objects.ids.tolist(), objects.positions.tolist(), list(objects.columns)
    ([7], [[8.0, 50.0]], ['free'])
    """
    table = table_of(frame)
    if table is None:
        raise TypeError(
            f"there are no positions, and {type(frame).__name__} is no frame: give ids and positions, or a "
            "GeoDataFrame, a DataFrame or an Arrow table"
        )
    at = locate_rows(table, geometry, x, y, missing=missing)
    if at is None:
        raise ValueError(
            "no column says where objects are: lon and lat, or x and y, in any order, or points are wanted; x=, y= or "
            f"geometry= name them among {_listed(table.names)}"
        )
    found = _crs(at, f"column {at.columns[0]!r}", crs, metric)
    ids, source = _ids(table, id)
    called = getattr(table.index, "name", None) if source is None else source
    attributes = _attributes(table, columns, {source, *at.columns})
    return Objects(ids, at.positions, found, attributes, called if isinstance(called, str) else ID_COLUMN)


def _crs(at: Located, whose: str, crs: Any, metric: str | None) -> Any:
    if at.meaning == "geometry":
        if at.crs is None and crs is None and metric != "plane":
            raise ValueError(
                f"{whose} has no CRS: gdf.set_crs('EPSG:4326') or crs= says it; metric='plane' is for coordinates that "
                "have none"
            )
        return agree_crs(crs, at.crs, whose, "leave crs= out, or transform the frame by gdf.to_crs first")
    names = " and ".join(map(str, at.columns))
    if at.meaning == "degrees":
        space = space_of(crs, metric)
        if not space.geographic and space.crs != NO_CRS:
            raise ValueError(
                f"columns {names} are degrees and crs is {short(space.crs)}: x= and y= name columns of its coordinates"
            )
    elif crs is None and metric is None:
        raise ValueError(
            f"columns {names} say no CRS: crs= names it, 'EPSG:4326' where they are degrees; metric='plane' is for "
            "coordinates that have none"
        )
    return crs


def _ids(table: Table, id: str | None) -> tuple[Ids, Any]:
    """Return the ids, and the column that they are read from, None where it is an index."""
    if id is not None and not isinstance(id, str):
        raise ValueError(f"id is {type(id).__name__}: the name of a column is wanted")
    index = table.index
    if id is None:
        named = [name for name in table.names if isinstance(name, str) and name.casefold() == ID_COLUMN]
        name = ID_COLUMN if ID_COLUMN in named else named[0] if named else None
        if name is None and index is None:
            raise ValueError(
                f"no column is called id: id= names one of {_listed(table.names)}"
                + ("; frame.with_row_index('id') numbers the rows" if table.library == "polars" else "")
            )
    else:
        name = id
        if name not in table.names and index is not None and name in index.names:
            name = None
    if name is not None:
        return as_ids(there(table, name, "id")), name
    if index.nlevels > 1:
        raise ValueError(
            f"the index has {index.nlevels} levels, which are no id: id= names a column, or frame.reset_index() makes "
            "columns of them"
        )
    if not index.is_unique:
        some = ", ".join(str(value) for value in index[index.duplicated()].unique()[:3])
        raise ValueError(
            f"the index holds ids more than once, {some} among them: id= names a column of ids, or "
            "frame.reset_index(drop=True) numbers the rows"
        )
    try:
        return as_ids(index), None
    except ValueError as error:
        way = "id= names a column of ids, or frame.reset_index(drop=True) numbers the rows"
        raise ValueError(f"in the index {error}; {way}") from None


def _attributes(table: Table, columns: Sequence[str] | None, used: set[Any]) -> dict[str, pa.Array]:
    if columns is None:
        wanted = [name for name in table.names if name not in used]
    elif isinstance(columns, (str, Mapping)):
        kind = "the string " + repr(columns) if isinstance(columns, str) else "a mapping"
        raise ValueError(f"columns is {kind}: a list of the frame's columns is wanted")
    else:
        wanted = list(columns)
    taken: dict[str, pa.Array] = {}
    left: list[str] = []
    for name in wanted:
        if not isinstance(name, str):
            raise ValueError(
                f"a column is called {name!r}: names are text, frame.rename gives it one, columns= leaves it out"
            )
        if columns is not None and name not in table.names:
            raise ValueError(f"columns names {name!r}, which the frame has not: there are {_listed(table.names)}")
        try:
            if name in table.geometries:
                raise ValueError(f"column {name!r} holds geometries, and attributes are values")
            taken[name] = kept_column(read_column(table, name), name)
        except ValueError as error:
            if columns is not None or wanted.count(name) > 1:
                raise
            left.append(str(error))
    if left:
        more = f"; {len(left) - MOST_NAMED} others" if len(left) > MOST_NAMED else ""
        said = "; ".join(left[:MOST_NAMED]) + more
        warn_caller(f"{len(left)} columns are left out of the attributes: {said}; columns= names those to keep")
    return taken


def kept_column(column: pa.Array, name: str) -> pa.Array:
    """Return a column as partitions hold it."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.json":
        column = plain_column(column.storage)
    kind = column.type
    if pa.types.is_union(kind):
        raise ValueError(f"column {name!r} is of type {kind}: values of one type are wanted")
    try:
        column.slice(0, 1).take(numbers(np.zeros(min(len(column), 1), np.int64)))
    except pa.ArrowNotImplementedError:
        raise ValueError(f"column {name!r} is of type {kind}, of which rows cannot be taken: cast it first") from None
    return column


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names)) or "none"


def attributes_of(columns: Mapping[str, Any], count: int) -> dict[str, pa.Array]:
    """Return columns as attributes of so many objects, by the names that are stored."""
    if nameless := [name for name in columns if not isinstance(name, str)]:
        raise ValueError(f"a column is called {nameless[0]!r}: names are text")
    free = free_names(columns)
    return {free[name]: _column(name, value, count) for name, value in columns.items()}


def _column(name: str, value: Any, count: int) -> pa.Array:
    if isinstance(value, (str, bytes)):
        raise ValueError(f"column {name!r} is text: {count} values are wanted, one for each object")
    plain = type(value) is np.ndarray and value.ndim == 1
    column = kept_column(numbers(value) if plain else column_of(name, value), name)
    if len(column) != count:
        raise ValueError(f"column {name!r} has {len(column)} values for {count} objects: as many are wanted")
    return column
