"""The table functions: a batch of queries in, a batch of hits out, by what joins answer (:mod:`dtoss.answer_rows`).

Spark gives a function its table in batches, and each scalar as an array that repeats it. What a function returns has to
be known when it is registered, so the type of query ids and the columns of objects are chosen then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.answer_rows import Ask, answer_batch, make_ask, open_once
from dtoss.errors import InputError
from dtoss.extras import need
from dtoss.geometry.space import axes_of
from dtoss.mapped_index import Verify

QUERY_ID = ("query_id", "id")
"""Names of the column with the ids of queries, in the order in which they are looked for; case does not matter."""
GEOMETRY = ("geometry", "geom", "wkb", "wkt", "geojson")
"""Names of the column with zones: WKB, WKT or GeoJSON."""
SLICE = 50_000
"""Queries answered at a time."""
OTHERS = ("where", "having", "how", "exclude_self")
"""Arguments of the functions besides their own; the last is for places only."""
ID_TYPES = {"bigint": pa.int64(), "string": pa.string()}
"""What ids of queries may be."""


@dataclass(frozen=True)
class Told:
    """What the functions of a store were told when they were registered."""

    store: str  # Which one they ask
    snapshot: str  # Which one they ask
    columns: tuple[str, ...] = ()  # Of objects, to return with the hits
    query_id: str = "bigint"  # Spark's type of the ids of queries: bigint or string
    verify: Verify = "touch"  # Which checksums are compared, as in :func:`dtoss.open`
    at_a_time: int = SLICE  # Queries that are answered at a time


def nearest(told: Told, queries: pa.RecordBatch, k: Any, max_distance: Any, **others: Any) -> Iterator[pa.RecordBatch]:
    """Yield the k nearest objects of queries: query_id, id, distance, rank, and columns.

    ``k``: A number, or the name of a column of queries; 1 when None; ``max_distance``: A number, or None.
    """
    given = {"k": _one("k", k), "max_distance": _number(_one("max_distance", max_distance))}
    given |= _scalars(others, ("k", "max_distance"), OTHERS)
    given["k"] = 1 if given["k"] is None else given["k"]
    return _answered(_asked(told, tuple(given.items())), told, queries)


def around(told: Told, queries: pa.RecordBatch, radius: Any, **others: Any) -> Iterator[pa.RecordBatch]:
    """Yield all objects within a radius of queries: query_id, id, distance, rank, and columns."""
    wanted = _number(_one("radius", radius))
    if wanted is None:
        raise InputError("no radius is given: radius => 500.0, or the name of a column, is wanted")
    given = {"radius": wanted, **_scalars(others, ("radius",), OTHERS)}
    return _answered(_asked(told, tuple(given.items())), told, queries)


def inside(told: Told, zones: pa.RecordBatch, **others: Any) -> Iterator[pa.RecordBatch]:
    """Yield all objects within zones or on their edges: query_id, id, and columns.

    In the order of the zones, then ids.
    """
    given = _scalars(others, (), OTHERS[:-1])
    # its checks of how, columns and conditions are the same
    ask = _asked(told, tuple({"k": 1, **given}.items()))
    ids = _query_ids(zones, told)
    shapes, rows = _shapes(zones)
    index = open_once(ask.store, ask.snapshot, ask.verify)
    try:
        hits = index.within(shapes, where=ask.where, having=ask.having, columns=ask.columns)
    except ValueError as error:
        raise InputError(_with_id(str(error), ids, rows)) from None
    query = rows[hits.query]
    found = pa.array(hits.id, pa.large_string() if index.string_ids else pa.int64())
    columns = [found, *(hits.columns[name] for name in ask.columns)]
    if ask.how == "left":
        missing = np.setdiff1d(np.arange(zones.num_rows), query)
        order = np.argsort(np.concatenate([query, missing]), kind="stable")
        place = pa.array(order, mask=order >= len(query))
        query = np.concatenate([query, missing])[order]
        columns = [column.take(place) for column in columns]
    names = ["query_id", "id", *ask.columns]
    yield pa.record_batch([ids.take(pa.array(query)), *columns], names=names)


def _with_id(said: str, ids: pa.Array, rows: NDArray[np.int64]) -> str:
    """Return what an index says of a zone, with its id in place of its number."""
    numbered = re.match(r"zone (\d+)(?=\W)", said)
    if numbered is None:
        return said
    return f"zone {ids[int(rows[int(numbered[1])])].as_py()!r}{said[numbered.end() :]}"


def _answered(ask: Ask, told: Told, queries: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    x, y = _coordinates(queries)
    columns = {"query_id": _query_ids(queries, told), "x": x, "y": y}
    if ask.per_row:
        columns["per_row"] = _numbers(queries, _named(queries, (ask.per_row,), "k or radius"))
        ask = replace(ask, per_row="per_row")
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    index = open_once(ask.store, ask.snapshot, ask.verify)
    for begin in range(0, batch.num_rows, told.at_a_time):
        yield answer_batch(index, ask, batch.slice(begin, told.at_a_time))


@lru_cache(maxsize=64)
def _asked(told: Told, given: tuple[tuple[str, Any], ...]) -> Ask:
    try:
        return make_ask(told.store, told.snapshot, columns=told.columns, verify=told.verify, **dict(given))
    except ValueError as error:
        raise InputError(str(error)) from None


def _scalars(others: dict[str, Any], own: Sequence[str], known: Sequence[str]) -> dict[str, Any]:
    """Return the scalars among those known that are not null."""
    if unknown := [name for name in others if name not in known]:
        raise InputError(f"{unknown[0]} is no argument of the function: {', '.join([*own, *known])} are")
    found = {name: _one(name, value) for name, value in others.items()}
    return {name: value for name, value in found.items() if value is not None}


def _one(name: str, values: Any) -> Any:
    """Return the scalar that an array repeats; None where it is null or was not given."""
    if values is None or len(values) == 0:
        return None
    found = values.unique()
    if len(found) > 1:
        raise InputError(
            f"{name} differs from row to row: give one value, or for k and radius the name of a column as text"
        )
    return found[0].as_py()


def _number(value: Any) -> Any:
    """Return a number as a float, of whichever kind SQL makes it: 500.0 is a decimal there; others as they are."""
    return value if value is None or isinstance(value, (str, bool)) else float(value)


def _named(batch: pa.RecordBatch, names: Sequence[str], what: str) -> str:
    """Return the first of some columns that a table has, whatever the case of its name."""
    folded = {name.casefold(): name for name in reversed(batch.schema.names)}
    for name in names:
        if name.casefold() in folded:
            return folded[name.casefold()]
    raise InputError(
        f"the table has no column {' or '.join(names)} for {what}; its columns are {', '.join(batch.schema.names)}"
    )


def _query_ids(batch: pa.RecordBatch, told: Told) -> pa.Array:
    name = _named(batch, QUERY_ID, "the id of each row")
    ids = batch.column(name)
    wanted = ID_TYPES[told.query_id]
    if ids.type == wanted or pa.types.is_integer(ids.type) or pa.types.is_null(ids.type):
        return ids.cast(wanted)
    if wanted == pa.string():
        return ids.cast(wanted)
    raise InputError(
        f"column {name!r} is {ids.type}, and ids of queries are bigint here: register(..., query_id='string')"
    )


def _coordinates(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    try:
        names = axes_of(batch.schema.names, half=True)
    except ValueError as error:
        raise InputError(str(error)) from None
    if names is not None and set(names) <= set(batch.schema.names):
        return _numbers(batch, names[0]), _numbers(batch, names[1])
    raise InputError(
        f"the table has no columns lon and lat, or x and y; its columns are {', '.join(batch.schema.names)}"
    )


def _numbers(batch: pa.RecordBatch, name: str) -> pa.Array:
    values = batch.column(name)
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return values.cast(pa.float64(), safe=False)
    raise InputError(f"column {name!r} is {kind}: numbers are wanted")


def _shapes(batch: pa.RecordBatch) -> tuple[Any, NDArray[np.int64]]:
    """Return the zones of a table as what an index takes, and the row of each; of texts those that are not null."""
    name = _named(batch, GEOMETRY, "the zones")
    column = batch.column(name)
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.table({"geometry": column}), np.arange(len(column))
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise InputError(f"column {name!r} is {kind}: WKB (binary), WKT or GeoJSON (string) is wanted")
    found, rows = [], []
    for row, text in enumerate(column.to_pylist()):
        if text is not None:
            found.append(_of_text(name, row, text))
            rows.append(row)
    return found, np.array(rows, np.int64)


def _of_text(name: str, row: int, text: str) -> Any:
    if not text.lstrip().startswith("{"):
        shapely = need("shapely", "a zone as WKT", "geo")
        try:
            return shapely.from_wkt(text)
        except shapely.GEOSException as error:
            raise InputError(f"column {name!r} holds no polygon in row {row} of a batch: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"column {name!r} holds no GeoJSON in row {row} of a batch: {error}") from None
