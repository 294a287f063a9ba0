"""What is asked of a history for every row of a batch of queries, and the rows that answer it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.answer_rows import as_rows, places_of, usable
from dtoss.history.joining import Near, Wanted, condition_on, near, satisfying, stored_name
from dtoss.history.meeting import Asked, time_keys
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version
from dtoss.queries.gather import floats_of


@dataclass(frozen=True)
class PastAsk:
    """What is asked of each query, of a version that is known.

    Parameters
    ----------
    home, number
        The history and its version.
    k
        How many; None for a range, 0 where each query has its own.
    radius
        None for the nearest, infinite where each query has its own.
    max_distance
        Of the nearest.
    per_object
        Of each id the nearest row only.
    per_row
        The column of the queries that holds k or the radius.
    how
        "inner" or "left".
    columns
        Of the rows, besides id and t.
    where, having
        Conditions on the rows and on the hits.
    exclude_self
        Leave out rows of the id that is the query's.
    """

    home: Home
    number: int
    k: int | None
    radius: float | None
    max_distance: float | None
    per_object: bool
    per_row: str | None
    how: str
    columns: tuple[str, ...]
    where: str | None
    having: str | None
    exclude_self: bool


def asked_of(batch: pa.RecordBatch, schema: Schema) -> tuple[Asked, NDArray[np.bool_]]:
    """Return what is asked, with infinite radii, and of which rows of a batch: those that have a place and a time."""
    places = places_of(batch)
    good = usable(schema.space, places)
    ends = []
    for name in ("first", "last"):
        column = batch.column(name)
        good &= column.is_valid().to_numpy(zero_copy_only=False)
        values = floats_of(column) if schema.t_type == "double" else column.fill_null(0).to_numpy(zero_copy_only=False)
        if schema.t_type == "double":
            good &= ~np.isnan(values)
        ends.append(values)
    rows = np.flatnonzero(good)
    vectors = schema.space.vectors(np.ascontiguousarray(places[rows]))
    return Asked(vectors, np.full(len(rows), np.inf), *(time_keys(values[rows]) for values in ends)), good


def answered(version: Version, ask: PastAsk, batch: pa.RecordBatch, arrow: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch of queries, those of a query together."""
    schema = version.schema
    asked, good = asked_of(batch, schema)
    rows = np.flatnonzero(good)
    wanted, asked, k = _wanted(ask, schema, batch, rows, asked)
    having = None if ask.having is None else condition_on(schema, ask.having)
    asks = k > 0 if ask.radius is None else ~np.isnan(asked.radius)
    rows, asked, k = rows[asks], asked.take(asks), k[asks]
    if wanted.own is not None:
        wanted = replace(wanted, own=wanted.own.filter(pa.array(asks)))
    unanswered = np.ones(batch.num_rows, np.bool_)
    query_id, names = batch.column("query_id"), ["query_id", *arrow.names]
    for found in near(ask.home, version, asked, wanted) if len(rows) else ():
        rank = np.arange(len(found)) - np.searchsorted(found.place, found.place) + 1
        keep = rank <= k[found.place] if ask.radius is None else np.ones(len(found), np.bool_)
        if having is not None:
            keep &= satisfying(having, found.rows, schema)
        found, rank = found.take(keep), rank[keep]
        unanswered[rows[found.place]] = False
        yield as_rows(query_id, rows[found.place], _columns(found, rank, ask, schema, arrow), names, "inner")
    if ask.how == "left" and unanswered.any():
        lost = query_id.filter(pa.array(unanswered))
        nulls = [pa.nulls(len(lost), field.type) for field in arrow]
        yield pa.record_batch([lost, *nulls], names=names)


def _wanted(
    ask: PastAsk, schema: Schema, batch: pa.RecordBatch, rows: NDArray[np.int64], asked: Asked
) -> tuple[Wanted, Asked, NDArray[np.int64]]:
    """Return what is wanted of the rows, the places with their radii, NaN where none is, and the k of each place."""
    each = floats_of(batch.column("per_row"))[rows] if ask.per_row else None
    radius, k = asked.radius, np.full(len(rows), ask.k or 0, np.int64)
    if ask.radius is not None:
        radius = np.full(len(rows), ask.radius) if each is None else np.where(each >= 0.0, each, np.nan)
    else:
        if each is not None:
            k = np.where(each >= 1.0, each, 0.0).astype(np.int64)
        if ask.max_distance is not None:
            radius = np.full(len(rows), ask.max_distance)
    named = set() if ask.having is None else condition_on(schema, ask.having).columns
    carried = tuple(name for name in schema.attributes if name in ask.columns or name in named)
    condition = None if ask.where is None else condition_on(schema, ask.where)
    own = None
    if ask.exclude_self:
        own = _as_ids(batch.column("query_id").take(pa.array(rows)), schema)
    most = int(k.max(initial=0)) if ask.radius is None else 0
    return Wanted(most, ask.per_object, carried, condition, own), replace(asked, radius=radius), k


def _as_ids(values: pa.Array, schema: Schema) -> pa.Array:
    """Return ids of queries as those of the history, null where none is like it."""
    kind = schema.arrow.field("id").type
    if pa.types.is_integer(values.type) or schema.id_type == "string":
        return values.cast(kind)
    whole = [int(text) if text and text.lstrip("-").isdecimal() else None for text in values.to_pylist()]
    return pa.array(
        [number if str(number) == text else None for number, text in zip(whole, values.to_pylist(), strict=True)], kind
    )


def _columns(found: Near, rank: NDArray[np.int64], ask: PastAsk, schema: Schema, arrow: pa.Schema) -> list[pa.Array]:
    """Return the columns of a result but the first one."""
    held = {name: found.rows.column(stored_name(name, schema)) for name in ("id", "t", *ask.columns)}
    held |= {"distance": pa.chunked_array([found.distance]), "rank": pa.chunked_array([rank.astype(np.int32)])}
    return [_whole_column(held[field.name], field.type) for field in arrow]


def _whole_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    made = column.cast(kind).combine_chunks()
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)
