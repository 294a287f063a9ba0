"""Joins in Spark: the k nearest objects, or all within a radius, of every row of a DataFrame.

Queries are sent to the partition that holds their place, in slices of bounded size, so that a place where all of them
are does not keep one task busy. A task opens the partitions of its queries, and then, in a second round, those that
some of them need besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.index import Index, take_columns
from dtoss.regions import Regions
from dtoss.snapshot import open_index, regions_of_manifest, space_of_manifest
from dtoss.space import Space, same_crs
from dtoss.store import Store
from pipelines.positions import Columns, coordinate
from pipelines.session import configured, cores
from pipelines.texts import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLICE = 50_000
"""Queries answered at a time."""
RESULT = ("query_id", "id", "distance", "rank")


@dataclass(frozen=True)
class Ask:
    """What a join asks of each row, and how its columns are called."""

    store: str
    snapshot: str
    k: int | None
    radius: float | None
    per_row: str | None
    max_distance: float | None
    how: str
    columns: tuple[str, ...]
    exclude_self: bool


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
    max_distance: float | None = None,
    exclude_self: bool = False,
    crs: str | None = None,
    snapshot: str | None = None,
) -> DataFrame:
    """Return the k nearest objects of every query: query_id, id, distance, rank (from 1), and columns.

    Parameters
    ----------
    queries : one row a query, with an id and two coordinates.
    store : path or URI; executors must reach it too.
    k : at least 1, or the name of a column of integers that holds it for each query; one without a k, or with one
        below 1, has no hits.
    how : "inner", or "left": a query without hits (no position or not a legal one, no k, or nothing within
        ``max_distance``) then has one row of nulls.
    id, x, y : the columns of the queries; x and y are lon and lat, or x and y in the plane, when None.
    columns : attributes of the objects to return.
    max_distance : metres on the sphere, CRS units in the plane; closed.
    exclude_self : leave out the object whose id is the query's.
    crs : of the queries, to be sure that it is the snapshot's own.
    snapshot : its name; the current one when None. It is fixed when the join is called, whenever it is run.

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
    Lazy: nothing runs before an action. With n objects in reach a query has min(k, n) rows, ranks without gaps.
    """
    if isinstance(k, str):
        ask = _ask(store, snapshot, None, None, k, max_distance, how, columns, exclude_self)
    else:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k is {k!r}: a whole number of at least 1 is wanted")
        ask = _ask(store, snapshot, int(k), None, None, max_distance, how, columns, exclude_self)
    return _join(queries, ask, id, x, y, crs)


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
    exclude_self: bool = False,
    crs: str | None = None,
    snapshot: str | None = None,
) -> DataFrame:
    """Return all objects within a radius of every query: query_id, id, distance, rank (from 1), and columns.

    Parameters
    ----------
    radius : metres on the sphere, CRS units in the plane; closed; or the name of a column that holds it for each query:
        one without a radius, or with a negative one, has no hits.
    queries, store, how, id, x, y, columns, exclude_self, crs, snapshot : as in :func:`knn_join`.

    Raises
    ------
    ValueError
        If the radius is negative or NaN, another argument is out of its bounds, or the CRS is another one.
    InputError
        If a column is missing, the message lists those found; or if coordinates are not numbers.
    StoreError
        If there is no such store or snapshot.
    """
    if isinstance(radius, str):
        ask = _ask(store, snapshot, None, np.inf, radius, None, how, columns, exclude_self)
    else:
        ask = _ask(store, snapshot, None, _distance("radius", radius), None, None, how, columns, exclude_self)
    return _join(queries, ask, id, x, y, crs)


def _ask(
    store: str,
    snapshot: str | None,
    k: int | None,
    radius: float | None,
    per_row: str | None,
    max_distance: float | None,
    how: str,
    columns: Sequence[str],
    exclude_self: bool,
) -> Ask:
    if how not in ("inner", "left"):
        raise ValueError(f"how is {how!r}: inner or left is wanted")
    if max_distance is not None:
        max_distance = _distance("max_distance", max_distance)
    if isinstance(columns, str):
        raise ValueError(f"columns is the string {columns!r}: give a list of names")
    for name in columns:
        if name in RESULT or list(columns).count(name) > 1:
            raise ValueError(f"column {name!r} would stand twice in the result ({', '.join([*RESULT, *columns])})")
    # workers may run in another directory
    path = str(store) if "://" in str(store) else str(Path(store).absolute())
    name = snapshot or Store(path).current()
    return Ask(path, name, k, radius, per_row, max_distance, how, tuple(columns), exclude_self)


def _distance(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)) or not value >= 0.0:
        raise ValueError(f"{name} is {value!r}: a number that is not negative is wanted")
    return float(value)


def _join(queries: DataFrame, ask: Ask, id_name: str, x: str | None, y: str | None, crs: str | None) -> DataFrame:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    manifest = Store(ask.store).manifest(ask.snapshot)
    space = space_of_manifest(manifest)
    if crs is not None and not same_crs(crs, space.crs):
        raise ValueError(
            f"crs {crs!r} of the queries is not {space.crs!r} of the snapshot: transform the queries first"
        )
    for name in ask.columns:
        if name not in manifest["columns"]:
            known = ", ".join(manifest["columns"]) or "none"
            raise ValueError(f"column {name!r} is not carried by the objects; they carry {known}")
    x, y = Columns(x=x, y=y).coordinates(queries.columns)
    for name in [id_name, x, y] + ([ask.per_row] if ask.per_row else []):
        if name not in queries.columns:
            raise InputError(f"the queries have no column {name!r}; their columns are {', '.join(queries.columns)}")
    session = configured(queries.sparkSession)
    kinds = {field.name: field.dataType for field in queries.schema.fields}
    _check_types(ask, kinds, id_name)
    selected = [
        exactly(id_name).alias("query_id"),
        coordinate(x, kinds[x]).alias("x"),
        coordinate(y, kinds[y]).alias("y"),
    ]
    if ask.per_row:
        selected.append(exactly(ask.per_row).cast("double").alias("per_row"))
    frame = queries.select(*selected)
    regions = regions_of_manifest(manifest)
    routed = frame.mapInArrow(_router(space, regions), _with(frame.schema, "task int"))
    tasks = 4 * cores(session)
    # neighbouring partitions go to one task, each batch of a partition to the next one in turn
    routed = routed.repartitionById(tasks, F.pmod(F.col("task"), F.lit(tasks)).cast("int")).drop("task")
    id_type = T.StringType() if manifest["id_type"] == "string" else T.LongType()
    out = T.StructType(
        [
            T.StructField("query_id", kinds[id_name]),
            T.StructField("id", id_type),
            T.StructField("distance", T.DoubleType()),
            T.StructField("rank", T.IntegerType()),
        ]
        + [T.StructField(name, T._parse_datatype_string(manifest["columns"][name])) for name in ask.columns]
    )
    return routed.mapInArrow(_answerer(ask), out)


def _check_types(ask: Ask, kinds: Mapping[str, Any], id_name: str) -> None:
    from pyspark.sql import types as T

    if ask.per_row is not None:
        kind = kinds[ask.per_row]
        if ask.radius is None and not isinstance(kind, T.IntegralType):
            raise ValueError(f"k is column {ask.per_row!r} of {kind.simpleString()}: whole numbers are wanted")
        if ask.radius is not None and not isinstance(kind, T.NumericType):
            raise ValueError(f"radius is column {ask.per_row!r} of {kind.simpleString()}: numbers are wanted")
    if ask.exclude_self and not isinstance(kinds[id_name], (T.IntegralType, T.StringType)):
        raise ValueError(
            f"exclude_self compares ids, and column {id_name!r} is {kinds[id_name].simpleString()}: "
            "integers or strings are wanted"
        )


def _with(schema: Any, more: str) -> Any:
    from pyspark.sql import types as T

    extra = T._parse_datatype_string(more).fields
    return T.StructType(list(schema.fields if schema is not None else []) + extra)


def _router(space: Space, regions: Regions) -> Callable[..., Iterator[pa.RecordBatch]]:
    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            places = _places(batch)
            home = np.zeros(len(places), np.int32)
            usable = _usable(space, places)
            home[usable] = regions.nearest(space.vectors(places[usable]))
            yield pa.record_batch(
                [*batch.columns, pa.array((home + turn).astype(np.int32))], names=[*batch.schema.names, "task"]
            )

    return route


def _places(batch: pa.RecordBatch) -> NDArray[np.float64]:
    columns = [
        batch.column(name).cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False) for name in ("x", "y")
    ]
    return np.stack(columns, axis=1)


def _usable(space: Space, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    finite = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
    return finite & space.legal(np.where(finite[:, None], places, 0.0))


def _answerer(ask: Ask) -> Callable[..., Iterator[pa.RecordBatch]]:
    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        index = None
        for batch in _slices(batches):
            if index is None:
                index = open_index(ask.store, ask.snapshot, lazy=True)
            yield answer_batch(index, ask, batch)

    return answer


def _slices(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def answer_batch(index: Index, ask: Ask, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Answer a batch with columns query_id, x, y and perhaps per_row; rows are in the order of the queries."""
    places = _places(batch)
    good = _usable(index.space, places)
    limit = np.full(len(places), np.inf)
    k = np.full(len(places), ask.k or 0)
    if ask.per_row:
        values = batch.column("per_row").cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        if ask.radius is None:
            good &= values >= 1
            k = np.where(good, values, 0).astype(np.int64)
        else:
            good &= values >= 0
            limit = np.where(good, values, 0.0)
    elif ask.radius is not None:
        limit[:] = ask.radius
    if ask.max_distance is not None:
        limit = np.minimum(limit, ask.max_distance)
    rows = np.flatnonzero(good)
    if ask.radius is None:
        most = int(k[rows].max(initial=0)) + int(ask.exclude_self)
        found = index.search(places[rows], limit[rows], max(most, 1))
    else:
        found = index.search(places[rows], limit[rows], 0)
    query = np.repeat(rows, found.count)
    ids = index.ids_of(found)
    keep: Any = np.ones(len(query), np.bool_)
    if ask.exclude_self:
        own = batch.column("query_id").take(pa.array(query))
        kind = pa.int64() if pa.types.is_integer(own.type) and not index.string_ids else pa.large_string()
        same = pa.compute.equal(ids.cast(kind), own.cast(kind))
        keep = ~pa.compute.fill_null(same, False).to_numpy(zero_copy_only=False)
    rank = _ranks(query, keep)
    if ask.radius is None:
        keep = keep & (rank <= k[query])
    at = np.flatnonzero(keep)
    query, rank = query[at], rank[at].astype(np.int32)
    columns = [ids.take(pa.array(at)), pa.array(found.distance[at]), pa.array(rank)]
    columns += [column.take(pa.array(at)) for column in take_columns(index.parts, found, ask.columns)]
    if ask.how == "left":
        missing = np.setdiff1d(np.arange(len(places)), query, assume_unique=False)
        order = np.argsort(np.concatenate([query, missing]), kind="stable")
        query = np.concatenate([query, missing])[order]
        place = np.where(order < len(at), order, -1)
        mask = pa.array(place, mask=place < 0)
        columns = [column.take(mask) for column in columns]
    names = [*RESULT, *ask.columns]
    return pa.record_batch([batch.column("query_id").take(pa.array(query)), *columns], names=names)


def _ranks(query: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each kept row among its query's, from 1."""
    running = np.cumsum(keep)
    starts = np.ones(len(query), np.bool_)
    starts[1:] = query[1:] != query[:-1]
    first = np.flatnonzero(starts)
    before = np.where(first > 0, running[np.maximum(first, 1) - 1], 0)
    return running - np.repeat(before, np.diff(np.append(first, len(query))))
