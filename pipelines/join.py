"""Joins in Spark: the k nearest objects, or all within a radius, of every row of a DataFrame.

Queries are sent to the partition that holds their place, in slices of bounded size, so that a place where all of them
are does not keep one task busy. A task opens the partitions of its queries, and then, in a second round, those that
some of them need besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.answer_rows import Ask, answer_batch, make_ask, open_once, places_of, usable
from dtoss.errors import InputError
from dtoss.geometry.space import Space, same_crs
from dtoss.mapped_index import Verify
from dtoss.names import columns_of_manifest, position_names
from dtoss.partitioning.regions import Regions
from dtoss.rows.input_columns import Columns
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.rows.row_sources import coordinate, exactly, out_of_range
from pipelines.spark.session import configure_session, cores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation
    from pyspark.sql.types import StructType

    from pipelines.history_tasks.history_answers import PastAsk


def check_crs_of(crs: str | None, space: Space, what: str, whose: str) -> None:
    """Check that what is said to be in a CRS is in that of what it is joined with."""
    if crs is not None and not same_crs(crs, space.crs):
        raise ValueError(f"crs {crs!r} of the {what} is not {space.crs!r} of the {whose}: transform the {what} first")


def check_named(frame: DataFrame, names: Sequence[str], what: str) -> None:
    """Check that a frame has columns."""
    for name in names:
        if name not in frame.columns:
            raise InputError(f"the {what} have no column {name!r}; their columns are {', '.join(frame.columns)}")


def query_frame(
    queries: DataFrame,
    ask: Ask | PastAsk,
    id_name: str,
    x: str | None,
    y: str | None,
    named: Sequence[str] = (),
    more: Callable[[dict[str, Any]], dict[str, Column]] = lambda kinds: {},
) -> DataFrame:
    """Return queries with the columns query_id, x, y, ``more``, and per_row where k or the radius is of each.

    ``named``: other columns that are needed; ``more``: makes columns of what the types of all are.
    """
    from pyspark.sql import types as T

    x, y = Columns(x=x, y=y).coordinates(queries.columns)
    per_row = [ask.per_row] if ask.per_row else []
    check_named(queries, [id_name, x, y, *named, *per_row], "queries")
    kinds = {field.name: field.dataType for field in queries.schema.fields}
    for name in per_row:
        if ask.radius is None and not isinstance(kinds[name], T.IntegralType):
            raise ValueError(f"k is column {name!r} of {kinds[name].simpleString()}: whole numbers are wanted")
        if ask.radius is not None and not isinstance(kinds[name], T.NumericType):
            raise ValueError(f"radius is column {name!r} of {kinds[name].simpleString()}: numbers are wanted")
    if ask.exclude_self and not isinstance(kinds[id_name], (T.IntegralType, T.StringType)):
        raise ValueError(
            f"exclude_self compares ids, and column {id_name!r} is {kinds[id_name].simpleString()}: "
            "integers or strings are wanted"
        )
    columns = {"query_id": exactly(id_name), "x": coordinate(x, kinds[x]), "y": coordinate(y, kinds[y])} | more(kinds)
    if ask.per_row:
        columns["per_row"] = exactly(ask.per_row).cast("double")
    return queries.select(*(column.alias(name) for name, column in columns.items()))


def count_queries(
    frame: DataFrame, observation: Observation | None, ask: Ask | PastAsk, space: Space, timeless: Column | None = None
) -> DataFrame:
    """Return queries that an observation counts: all, and those that cannot have hits, each for its first reason.

    ``timeless``: which of those that have a place have no time.
    """
    from pyspark.sql import functions as F

    if observation is None:
        return frame
    x, y = F.col("x"), F.col("y")
    missing = x.isNull() | y.isNull() | F.isnan(x) | F.isnan(y)
    reasons = {"no_position": missing, "not_legal": out_of_range(x, y, space)}
    if timeless is not None:
        reasons["no_time"] = timeless
    if ask.per_row:
        value, least = F.col("per_row"), 1 if ask.radius is None else 0
        reasons["no_k" if ask.radius is None else "no_radius"] = value.isNull() | F.isnan(value) | (value < least)
    counts, good = [F.count(F.lit(1)).alias("queries")], F.lit(True)
    for reason, bad in reasons.items():
        counts.append(F.count(F.when(good & bad, 1)).alias(reason))
        good &= ~bad
    return frame.observe(observation, *counts)


def tasks_of(frame: DataFrame) -> int:
    """Return how many tasks answer the rows of a frame."""
    return 4 * cores(configure_session(frame.sparkSession))


def answer_in_tasks(
    frame: DataFrame, route: Callable[..., Any], answer: Callable[..., Any], schema: StructType
) -> DataFrame:
    """Return what tasks answer of rows. ``route``: adds the column ``task``, by which they go: a number of any size."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    tasks = tasks_of(frame)
    sent = frame.mapInArrow(route, T.StructType([*frame.schema.fields, T.StructField("task", T.IntegerType())]))
    sent = sent.repartitionById(tasks, F.pmod(F.col("task"), F.lit(tasks)).cast("int")).drop("task")
    return sent.mapInArrow(answer, schema)


SLICE = 50_000
"""Queries answered at a time."""


def knn_join(
    queries: DataFrame,
    store: str,
    k: int | str = 1,
    *,
    how: str = "inner",
    id: str = "query_id",
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] = (),
    where: str | None = None,
    having: str | None = None,
    max_distance: float | None = None,
    exclude_self: bool = False,
    crs: str | None = None,
    snapshot: str | None = None,
    verify: Verify = "touch",
    observation: Observation | None = None,
) -> DataFrame:
    """Return the k nearest objects of every query: query_id, id, distance, rank (from 1), and columns.

    Parameters
    ----------
    queries
        One row a query, with an id and two coordinates.
    store
        Path or URI; executors must reach it too.
    k
        At least 1, or the name of a column of integers that holds it for each query; one without a k, or with one below
        1, has no hits.
    how
        "inner", or "left": a query without hits (no position or not a legal one, no k, or nothing within
        ``max_distance``) then has one row of nulls.
    id, x, y
        The columns of the queries; x and y are lon and lat, or x and y in the plane, when None.
    columns
        Attributes of the objects to return; lon and lat, or x and y in a plane, are their positions.
    where
        A condition on the objects: the k nearest of those that satisfy it (:mod:`dtoss.conditions.parse`).
    having
        A condition on the hits: those of the k nearest that satisfy it, with the ranks they had.
    max_distance
        Metres on the sphere, CRS units in the plane; closed.
    exclude_self
        Leave out the object whose id is the query's.
    crs
        Of the queries, to be sure that it is the snapshot's own.
    snapshot
        Its name; the current one when None. It is fixed when the join is called, whenever it is run.
    verify
        Which checksums the workers compare, as :func:`dtoss.open` does: each file's when a worker first reads it.
    observation
        Counts, once the result was made, how many ``queries`` there were, and of these how many have no hits because
        they have ``no_position`` (null or NaN), one that is ``not_legal``, or ``no_k`` of at least 1.

    Raises
    ------
    ValueError
        If k is not a whole number of at least 1, or another argument is out of its bounds, or the CRS is another one.
    InputError
        If a column is missing, the message lists those found; or if coordinates are not numbers.
    StoreError
        If there is no such store or snapshot.

    Notes
    -----
    Lazy: nothing runs before an action. With n objects in reach (and satisfying ``where``) a query has min(k, n) rows,
    ranks without gaps; an optimiser cannot push a filter on the result below the search, ``having`` says the same.
    """
    ask = make_ask(
        store,
        snapshot,
        k=k,
        max_distance=max_distance,
        how=how,
        columns=columns,
        exclude_self=exclude_self,
        where=where,
        having=having,
        verify=verify,
    )
    return _join(queries, ask, id, x, y, crs, observation)


def range_join(
    queries: DataFrame,
    store: str,
    radius: float | str,
    *,
    how: str = "inner",
    id: str = "query_id",
    x: str | None = None,
    y: str | None = None,
    columns: Sequence[str] = (),
    where: str | None = None,
    having: str | None = None,
    exclude_self: bool = False,
    crs: str | None = None,
    snapshot: str | None = None,
    verify: Verify = "touch",
    observation: Observation | None = None,
) -> DataFrame:
    """Return all objects within a radius of every query: query_id, id, distance, rank (from 1), and columns.

    Parameters
    ----------
    queries, store
        As in :func:`knn_join`.
    radius
        Metres on the sphere, CRS units in the plane; closed; or the name of a column that holds it for each query: one
        without a radius, or with a negative one, has no hits.
    how, id, x, y, columns, where, having, exclude_self, crs, snapshot, verify
        As in :func:`knn_join`.
    observation
        As there, with ``no_radius`` for ``no_k``.

    Raises
    ------
    ValueError
        If the radius is negative or NaN, another argument is out of its bounds, or the CRS is another one.
    InputError
        If a column is missing, the message lists those found; or if coordinates are not numbers.
    StoreError
        If there is no such store or snapshot.
    """
    ask = make_ask(
        store,
        snapshot,
        radius=radius,
        how=how,
        columns=columns,
        exclude_self=exclude_self,
        where=where,
        having=having,
        verify=verify,
    )
    return _join(queries, ask, id, x, y, crs, observation)


def _join(
    queries: DataFrame,
    ask: Ask,
    id_name: str,
    x: str | None,
    y: str | None,
    crs: str | None,
    observation: Observation | None,
) -> DataFrame:
    manifest = Store(ask.store).manifest(ask.snapshot)
    space = space_of_manifest(manifest)
    check_crs_of(crs, space, "queries", "snapshot")
    frame = count_queries(query_frame(queries, ask, id_name, x, y), observation, ask, space)
    schema = result_schema(manifest, frame.schema["query_id"].dataType, ask.columns)
    # neighbouring partitions go to one task, each batch of a partition to the next one in turn
    return answer_in_tasks(frame, router(space, regions_of_manifest(manifest)), answerer(ask), schema)


def result_schema(manifest: dict[str, Any], query_id: Any, columns: Sequence[str]) -> Any:
    """Return the Spark schema of hits: query_id of the given type, id, distance, rank, and columns."""
    from pyspark.sql import types as T

    carried = dict.fromkeys(position_names(space_of_manifest(manifest).geographic), "double")
    carried |= columns_of_manifest(manifest)
    fields = [
        T.StructField("query_id", query_id),
        T.StructField("id", id_type(manifest)),
        T.StructField("distance", T.DoubleType()),
        T.StructField("rank", T.IntegerType()),
    ]
    return T.StructType(fields + [T.StructField(name, T._parse_datatype_string(carried[name])) for name in columns])


def id_type(manifest: Mapping[str, Any]) -> Any:
    """Return the Spark type of a snapshot's ids."""
    from pyspark.sql import types as T

    return T.StringType() if manifest["id_type"] == "string" else T.LongType()


def router(space: Space, regions: Regions) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that adds to queries which task answers them: neighbouring partitions, batches in turn."""

    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            places = places_of(batch)
            home = np.zeros(len(places), np.int32)
            good = usable(space, places)
            home[good] = regions.nearest(space.vectors(places[good]))
            yield pa.record_batch(
                [*batch.columns, pa.array((home + turn).astype(np.int32))], names=[*batch.schema.names, "task"]
            )

    return route


def answerer(ask: Ask) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return the function that answers the queries of a task."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in slices(batches):
            yield answer_batch(open_once(ask.store, ask.snapshot, ask.verify), ask, batch)

    return answer


def slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task in pieces of a good size: small ones together, large ones cut."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= SLICE:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(max_chunksize=SLICE)
            waiting, rows = [], 0
    if rows:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(max_chunksize=SLICE)


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("knn", "range")
