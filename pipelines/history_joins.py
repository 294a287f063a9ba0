"""Joins with a history in Spark: who was near each row of a DataFrame, in an interval of its own.

Queries are sent to tasks by the part of the history that they concern, in pieces of bounded size, so that a corner or
an hour of which all of them are does not keep one task busy. A task answers some neighbours at a time, and reads the
blocks that these need once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from dtoss.arguments import distances, whole_number
from dtoss.history.query.scan_blocks import condition_on, stored_name
from dtoss.history.schema import Schema
from dtoss.names import not_carried
from pipelines.history_tasks.history_answers import Interval, Parts, PastAsk, answer_batch, asked_of, parts_of, router
from pipelines.history_tasks.scans import home_of, open_version, spark_types
from pipelines.join import answer_in_tasks, check_crs_of, count_queries, query_frame, slices, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

TOGETHER = 1024
"""Queries that are answered together."""
OWN = ("query_id", "id", "distance", "rank", "t")
"""Columns of a result before those that are asked for."""


def history_range_join(
    queries: DataFrame,
    history: str,
    radius: float | str,
    *,
    time: str | None = None,
    before: float = 0.0,
    after: float = 0.0,
    between: tuple[str | None, str | None] | None = None,
    how: Literal["inner", "left"] = "inner",
    id: str = "query_id",
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] = (),
    where: str | None = None,
    having: str | None = None,
    exclude_self: bool = False,
    crs: str | None = None,
    version: int | None = None,
    observation: Observation | None = None,
) -> DataFrame:
    """Return all rows within a radius and an interval of every query: query_id, id, distance, rank, t, and columns.

    Parameters
    ----------
    queries
        One row a query, with an id, two coordinates and a time, or the two ends of an interval.
    history
        Path or URI; executors must reach it too.
    radius
        Metres on the sphere, CRS units in the plane; closed; or the name of a column that holds it for each query: one
        without a radius, or with a negative one, has no hits.
    time
        The column of the time of a query: ``t`` if neither this nor ``between`` is given.
    before, after
        Seconds before and after the time, both closed; where times are numbers, as many of these.
    between
        Instead: the columns of the first and the last time, both closed, None for one that has no end.
    how
        "inner", or "left": a query without hits then has one row of nulls.
    id, x, y
        The columns of the queries; x and y are lon and lat, or x and y in the plane, when None.
    columns
        Attributes of the rows to return; lon and lat, or x and y in a plane, are their positions.
    where
        A condition on the rows (:mod:`dtoss.conditions.parse`); it may also name id, t and the position.
    having
        A condition on the hits: they keep the ranks they had.
    exclude_self
        Leave out the rows of the object whose id is the query's.
    crs
        Of the queries, to be sure that it is the history's own.
    version
        Of the history, by its number; the newest one when None. It is fixed when the join is called.
    observation
        Counts, once the result was made, how many ``queries`` there were, and of these how many have no hits because
        they have ``no_position`` (null or NaN), one that is ``not_legal``, ``no_time``, or ``no_radius``.

    Raises
    ------
    ValueError
        If the radius or an age is negative or NaN, another argument is out of its bounds, or the CRS is another one.
    InputError
        If a column is missing, the message lists those found; or if it is of a type that does not go.
    StoreError
        If there is no such history or version.

    Notes
    -----
    Lazy: nothing runs before an action. Rows are those of the history, so an object has as many as it sent. Ranks are
    by (distance, id, t). Deletions are no rows.
    """
    per_row = radius if isinstance(radius, str) else None
    reach = np.inf if isinstance(radius, str) else float(distances("radius", radius, 1)[0])
    ask = _ask(
        history, version, how, columns, where, having, exclude_self, k=None, radius=reach, per_row=per_row,
        max_distance=None, per_object=False,
    )  # fmt: skip
    return _join(queries, ask, Interval(time, before, after, between), id, x, y, crs, observation)


def history_knn_join(
    queries: DataFrame,
    history: str,
    k: int | str = 1,
    *,
    per: Literal["object", "row"] = "object",
    time: str | None = None,
    before: float = 0.0,
    after: float = 0.0,
    between: tuple[str | None, str | None] | None = None,
    how: Literal["inner", "left"] = "inner",
    id: str = "query_id",
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] = (),
    where: str | None = None,
    having: str | None = None,
    max_distance: float | None = None,
    exclude_self: bool = False,
    crs: str | None = None,
    version: int | None = None,
    observation: Observation | None = None,
) -> DataFrame:
    """Return the k nearest in an interval of every query: query_id, id, distance, rank (from 1), t, and columns.

    Parameters
    ----------
    queries, history
        As in :func:`history_range_join`.
    k
        At least 1, or the name of a column of integers that holds it for each query; one without a k, or with one below
        1, has no hits.
    per
        "object" takes the nearest row of each object, so that one that stands still does not fill the answer; "row"
        takes rows.
    time, before, after, between, how, id, x, y, columns, where, having
        As there.
    max_distance
        Metres on the sphere, CRS units in the plane; closed.
    exclude_self, crs, version
        As there.
    observation
        As there, with ``no_k`` for ``no_radius``.

    Raises
    ------
    ValueError
        If k is not a whole number of at least 1, ``per`` is neither, or as :func:`history_range_join`.
    InputError
        If a column is missing, the message lists those found; or if it is of a type that does not go.
    StoreError
        If there is no such history or version.

    Notes
    -----
    With n objects (or rows) in the interval and in reach a query has min(k, n) rows, ranks without gaps.
    """
    if per not in ("object", "row"):
        raise ValueError(f"per is {per!r}: object or row is wanted")
    per_row = k if isinstance(k, str) else None
    wanted = 0 if isinstance(k, str) else whole_number("k", k, 1)
    furthest = None if max_distance is None else float(distances("max_distance", max_distance, 1)[0])
    ask = _ask(
        history, version, how, columns, where, having, exclude_self, k=wanted, radius=None, per_row=per_row,
        max_distance=furthest, per_object=per == "object",
    )  # fmt: skip
    return _join(queries, ask, Interval(time, before, after, between), id, x, y, crs, observation)


def _ask(
    history: str,
    version: int | None,
    how: str,
    columns: Sequence[str],
    where: str | None,
    having: str | None,
    exclude_self: bool,
    **reach: Any,
) -> PastAsk:
    """Return a checked question to a version of a history; ``reach``: the other fields of it."""
    if how not in ("inner", "left"):
        raise ValueError(f"how is {how!r}: inner or left is wanted")
    home = home_of(history)
    held = home.version(version)
    if isinstance(columns, str):
        raise ValueError(f"columns is the string {columns!r}: give a list of names")
    for name in columns:
        if name not in (*held.schema.attributes, *held.schema.position_names):
            raise ValueError(not_carried(name, held.schema.attributes))
        if list(columns).count(name) > 1:
            raise ValueError(f"column {name!r} would stand twice in the result ({', '.join([*OWN, *columns])})")
    for condition in (where, having):
        condition_on(held.schema, condition)
    return PastAsk(
        home=home, number=held.number, how=how, columns=tuple(columns), where=where, having=having,
        exclude_self=exclude_self, **reach,
    )  # fmt: skip


def _join(
    queries: DataFrame,
    ask: PastAsk,
    interval: Interval,
    id_name: str,
    x: str | None,
    y: str | None,
    crs: str | None,
    observation: Observation | None,
) -> DataFrame:
    from pyspark.sql import functions as F

    version = open_version(ask.home, ask.number)
    schema = version.schema
    check_crs_of(crs, schema.space, "queries", "history")

    def ends(kinds: dict[str, Any]) -> dict[str, Column]:
        return dict(zip(("first", "last"), interval.ends(schema, kinds), strict=True))

    frame = query_frame(queries, ask, id_name, x, y, interval.names(), ends)
    first, last = F.col("first"), F.col("last")
    timeless = first.isNull() | last.isNull()
    if schema.t_type == "double":
        timeless |= F.isnan(first) | F.isnan(last)
    frame, parts = count_queries(frame, observation, ask, schema.space, timeless), parts_of(version)
    result = _result(schema, frame.schema["query_id"].dataType, ask.columns)
    return answer_in_tasks(frame, router(schema, parts, tasks_of(frame)), answerer(ask, parts), result)


def _result(schema: Schema, query_id: Any, columns: Sequence[str]) -> StructType:
    from pyspark.sql import types as T

    own = spark_types(schema.arrow, ["id", "t"], ["id", "t"])
    carried = spark_types(schema.arrow, [stored_name(name, schema) for name in columns], columns)
    fields = [T.StructField("query_id", query_id), own["id"], T.StructField("distance", T.DoubleType())]
    return T.StructType([*fields, T.StructField("rank", T.IntegerType()), own["t"], *carried.fields])


def answerer(ask: PastAsk, parts: Parts, together: int = TOGETHER) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that answers the queries of a task, so many at a time."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql import types as T
        from pyspark.sql.pandas.types import to_arrow_schema

        version = open_version(ask.home, ask.number)
        types = _result(version.schema, T.NullType(), ask.columns)
        arrow = to_arrow_schema(T.StructType(types.fields[1:]), timezone="UTC")
        for batch in slices(batches):
            asked, good = asked_of(batch, version.schema)
            keys = np.zeros(batch.num_rows, np.int64)
            keys[good] = parts.of(asked)[0]
            # neighbours need the same blocks
            by = np.argsort(keys, kind="stable")
            for begin in range(0, len(by), together):
                some = batch.take(pa.array(by[begin : begin + together]))
                yield from answer_batch(version, ask, some, arrow)

    return answer


if __name__ == "__main__":
    from pipelines.command.main import refuse_script

    refuse_script("its joins are functions of Python; dtoss history asks about one place")
