"""What is asked of a history for every row of a batch of queries, together where it concerns the same part of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.answer_rows import as_rows, places_of, usable
from dtoss.arguments import distances
from dtoss.errors import InputError
from dtoss.geometry.hilbert import curve_keys
from dtoss.history.data_file import Reads
from dtoss.history.query.block_pairs import Places, time_keys
from dtoss.history.query.place_batches import NeighbourQuery, near
from dtoss.history.query.scan_blocks import FoundRows, Scan, condition_on, read_columns, satisfying, stored_name
from dtoss.history.row_blocks import BY_PLACE, BY_TIME
from dtoss.history.schema import MICROSECONDS, Schema, interval_of
from dtoss.history.versions import Home, Version
from dtoss.queries.gather import floats_of
from pipelines.rows.row_sources import exactly

if TYPE_CHECKING:
    from pyspark.sql import Column


_INSTANT = (0.0, 0.0)


@dataclass(frozen=True)
class Interval:
    """Which columns of the queries say the interval of each."""

    time: str | None
    before: float
    after: float
    between: tuple[str | None, str | None] | None

    def names(self) -> list[str]:
        """Return the columns that are needed."""
        for name, seconds in (("before", self.before), ("after", self.after)):
            distances(name, seconds, 1)
        if self.between is None:
            return [self.time or "t"]
        if self.time is not None or (self.before, self.after) != _INSTANT:
            raise ValueError("time, before and after do not go with between, which names both ends")
        if isinstance(self.between, str) or len(self.between) != 2:
            raise ValueError(f"between is {self.between!r}: the names of two columns are wanted, None where no end is")
        return [name for name in self.between if name is not None]

    def ends(self, schema: Schema, kinds: Mapping[str, Any]) -> tuple[Column, Column]:
        """Return the first and the last time of each query, as times are stored."""
        from pyspark.sql import functions as F

        if self.between is not None:
            kind = "double" if schema.t_type == "double" else "bigint"
            extremes = interval_of(None, schema.t_type)
            first, last = (
                F.lit(extreme).cast(kind) if name is None else _moment(name, kinds[name], schema, up=side == 0)
                for side, (name, extreme) in enumerate(zip(self.between, extremes, strict=True))
            )
            return first, last
        name = self.time or "t"
        scale = MICROSECONDS if schema.t_type == "timestamp" else 1
        if schema.t_type == "double" or (schema.t_type == "int64" and not _whole(kinds[name])):
            moment = _moment(name, kinds[name], replace(schema, t_type="double"), up=False)
            first, last = moment - F.lit(float(self.before)), moment + F.lit(float(self.after))
            return (first, last) if schema.t_type == "double" else (F.ceil(first), F.floor(last))
        moment = _moment(name, kinds[name], schema, up=False)
        # an interval that leaves 64 bits has no hits
        steps = [F.lit(min(int(seconds * scale), 1 << 62)).cast("bigint") for seconds in (self.before, self.after)]
        return F.try_subtract(moment, steps[0]), F.try_add(moment, steps[1])


def _whole(kind: Any) -> bool:
    from pyspark.sql import types as T

    return isinstance(kind, T.IntegralType)


def _moment(name: str, kind: Any, schema: Schema, *, up: bool) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    column = exactly(name)
    if schema.t_type == "timestamp":
        if not isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
            raise InputError(f"column {name!r} is {kind.simpleString()}, times of the history are timestamps: cast it")
        return F.unix_micros(column.cast("timestamp"))
    if not isinstance(kind, T.NumericType):
        raise InputError(f"column {name!r} is {kind.simpleString()}, times of the history are numbers: cast it")
    if schema.t_type == "double":
        return column.cast("double")
    return column.cast("bigint") if _whole(kind) else (F.ceil(column) if up else F.floor(column))


_WHOLE, _END = re.compile(r"-?\d{1,19}", re.ASCII), 1 << 63
"""Texts that may be ids that are numbers, and the end of these."""


@dataclass(frozen=True)
class PastAsk:
    """What is asked of each query, of a version that is known."""

    home: Home  # home, number: the history and its version
    number: int
    k: int | None  # How many; None for a range, 0 where each query has its own
    radius: float | None  # None for the nearest, infinite where each query has its own
    max_distance: float | None
    per_object: bool  # Of each id the nearest row only
    per_row: str | None  # The column of the queries that holds k or the radius
    how: str  # "inner" or "left"
    columns: tuple[str, ...]  # Of the rows, besides id and t
    where: str | None  # Conditions on the rows and on the hits
    having: str | None  # Conditions on the rows and on the hits
    exclude_self: bool  # Leave out rows of the id that is the query's


def asked_of(batch: pa.RecordBatch, schema: Schema) -> tuple[Places, NDArray[np.bool_]]:
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
    return Places(vectors, np.full(len(rows), np.inf), *(time_keys(values[rows]) for values in ends)), good


def answer_batch(version: Version, ask: PastAsk, batch: pa.RecordBatch, arrow: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch of queries, those of a query together.

    ``batch``: columns query_id, x, y, first, last, and perhaps per_row; ``arrow``: the columns of the result but the
    first one, query_id.
    """
    schema = version.schema
    rows, places, k = _places(ask, schema, batch)
    having = condition_on(schema, ask.having)
    own = _as_ids(batch.column("query_id").take(pa.array(rows)), schema) if ask.exclude_self else None
    wanted = NeighbourQuery(0 if ask.radius is not None else int(k.max(initial=1)), ask.per_object, own)
    named = [*ask.columns, *(() if having is None else sorted(having.columns))]
    scan = Scan(ask.home, version, read_columns(named, schema), condition_on(schema, ask.where), Reads())
    unanswered = np.ones(batch.num_rows, np.bool_)
    query_id, names = batch.column("query_id"), ["query_id", *arrow.names]
    for found in near(scan, places, wanted) if len(rows) else ():
        rank = np.arange(len(found)) - np.searchsorted(found.question, found.question) + 1
        keep = rank <= k[found.question] if ask.radius is None else np.ones(len(found), np.bool_)
        if having is not None:
            keep &= satisfying(having, found.rows, schema)
        at = np.flatnonzero(keep)
        hits, query = found.take(at), rows[found.question[at]]
        unanswered[query] = False
        yield as_rows(query_id, query, _columns(hits, rank[at], ask, schema, arrow), names, "inner")
    if ask.how == "left" and unanswered.any():
        lost = query_id.filter(pa.array(unanswered))
        nulls = [pa.nulls(len(lost), field.type) for field in arrow]
        yield pa.record_batch([lost, *nulls], names=names)


def _places(ask: PastAsk, schema: Schema, batch: pa.RecordBatch) -> tuple[NDArray[np.int64], Places, NDArray[np.int64]]:
    """Return which queries can have hits, their places with radii and intervals, and the k of each."""
    places, good = asked_of(batch, schema)
    rows = np.flatnonzero(good)
    each = floats_of(batch.column("per_row"))[rows] if ask.per_row else np.full(len(rows), ask.radius or ask.k or 0.0)
    if ask.radius is not None:
        asks, radius = each >= 0.0, each
    else:
        asks, radius = each >= 1.0, places.radius if ask.max_distance is None else np.full(len(rows), ask.max_distance)
    k = np.where(asks, each, 0.0) if ask.radius is None else np.zeros(len(rows))
    return rows[asks], replace(places, radius=radius).take(asks), k[asks].astype(np.int64)


def _as_ids(values: pa.Array, schema: Schema) -> pa.Array:
    """Return ids of queries as those of the history, null where none is like it."""
    kind = schema.arrow.field("id").type
    if pa.types.is_integer(values.type) or schema.id_type == "string":
        return values.cast(kind)
    ids = []
    for text in values.to_pylist():
        number = int(text) if text and _WHOLE.fullmatch(text) else None
        ids.append(number if number is not None and str(number) == text and -_END <= number < _END else None)
    return pa.array(ids, kind)


def _columns(
    found: FoundRows, rank: NDArray[np.int64], ask: PastAsk, schema: Schema, arrow: pa.Schema
) -> list[pa.Array]:
    """Return the columns of a result but the first one."""
    held = {name: found.rows.column(stored_name(name, schema)) for name in ("id", "t", *ask.columns)}
    held |= {"distance": pa.chunked_array([found.distance]), "rank": pa.chunked_array([rank.astype(np.int32)])}
    return [_whole_column(held[field.name], field.type) for field in arrow]


def _whole_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    made = column.cast(kind).combine_chunks()
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)


TURN = 4096
"""Queries of one part of the history that go to one task; the next ones go to the next task."""
EDGES = 4096
"""Parts of the history that queries are told apart by, at the most."""
_BRIEF = 1.0 / 64.0
"""Share of the time of a history up to which an interval is brief: blocks by place span more than it then."""


@dataclass(frozen=True)
class Parts:
    """Parts of a history that queries are told apart by, so that neighbours are answered together."""

    # times, places: int64, ascending. Where the parts begin: times, and keys along the curve, of which there are none
    # where rows have no order by place
    times: NDArray[np.int64]
    places: NDArray[np.int64]
    box: NDArray[np.float64]  # Of a plane, which the curve fills
    brief: float  # Up to which length of interval, as times are counted, queries are told apart by time

    def of(self, asked: Places) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the key of each place, the number of its part, and how many parts there are."""
        length = asked.last.astype(np.float64) - asked.first.astype(np.float64)
        by_time = not len(self.places) or (len(length) and float(np.median(length)) <= self.brief)
        keys, edges = (asked.first, self.times) if by_time else (curve_keys(asked.vectors, self.box), self.places)
        return keys, np.searchsorted(edges, keys, side="right"), len(edges) + 1


def parts_of(version: Version) -> Parts:
    """Return the parts of a version: by time, and by place where most rows have that order. Cost O(blocks)."""
    leaves = version.leaves
    somewhere = leaves.low[:, 0] <= leaves.high[:, 0]
    placed, timed = somewhere & (leaves.order == BY_PLACE), leaves.order == BY_TIME
    box, places = np.zeros(4), np.zeros(0, np.int64)
    if somewhere.any() and version.schema.space.dimension == 2:
        box = np.append(leaves.low[somewhere].min(axis=0), leaves.high[somewhere].max(axis=0))
    if 2 * leaves.rows[placed].sum() > leaves.rows[timed].sum():
        middles = (leaves.low[placed] + leaves.high[placed]) / 2
        # a box may hold all of the sphere: any place will do for its middle
        middles[~middles.any(axis=1)] = 1.0
        places = curve_keys(np.ascontiguousarray(middles), box)
    held = [time_keys(version.blocks(leaf).t_from) for leaf in np.flatnonzero(timed).tolist()]
    times = np.concatenate([np.zeros(0, np.int64), *held])
    brief = _BRIEF * (float(times.max()) - float(times.min())) if len(times) else 0.0
    return Parts(_edges(times), _edges(places), box, brief)


def _edges(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    keys = np.unique(keys)
    return keys[:: max(len(keys) // EDGES, 1)]


def router(schema: Schema, parts: Parts, tasks: int, at_a_time: int = TURN) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that gives each query the number of its task, in a column more.

    Queries of one part go to one task, so many at a time, the next ones to the next task.
    """

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            asked, good = asked_of(batch, schema)
            part = np.zeros(batch.num_rows, np.int64)
            _, part[good], many = parts.of(asked)
            order = np.argsort(part, kind="stable")
            begins = np.searchsorted(part[order], part[order])
            along = np.empty(len(part), np.int64)
            along[order] = (np.arange(len(part)) - begins) // at_a_time
            task = (part * tasks // many + along + turn) % tasks
            yield pa.record_batch(
                [*batch.columns, pa.array(task.astype(np.int32))], names=[*batch.schema.names, "task"]
            )

    return route
