"""What is asked of every row of a batch of queries, and the rows that answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arguments import column_names
from dtoss.geometry.space import Space
from dtoss.index import Index
from dtoss.mapped_index import Verify
from dtoss.names import columns_of_manifest, position_names
from dtoss.opening import open_index
from dtoss.partition import numbers
from dtoss.queries.gather import floats_of, take_columns
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.store import Store

RESULT = ("query_id", "id", "distance", "rank")


@dataclass(frozen=True)
class Ask:
    """What a join asks of each row, and how its columns are called."""

    store: str
    snapshot: str
    k: int | None = None  # How many, None for a range
    radius: float | None = None  # None for the nearest
    per_row: str | None = None  # The column that holds k or the radius of each row
    max_distance: float | None = None  # Metres on the sphere, CRS units in the plane; no limit when None
    how: str = "inner"  # "inner", or "left": a row without hits has one row of nulls
    columns: tuple[str, ...] = ()  # Attributes of the objects to return, and their positions as lon and lat, or x and y
    exclude_self: bool = False  # Leave out the object whose id is the row's
    where: str | None = None  # A condition on the objects
    having: str | None = None  # A condition on the hits
    verify: Verify = "touch"  # Which checksums are compared, as in :func:`dtoss.open`


def make_ask(
    store: str,
    snapshot: str | None,
    *,
    k: int | str | None = None,
    radius: float | str | None = None,
    max_distance: float | None = None,
    how: str = "inner",
    columns: Sequence[str] = (),
    exclude_self: bool = False,
    where: str | None = None,
    having: str | None = None,
    verify: Verify = "touch",
) -> Ask:
    """Return a checked question to a snapshot, the current one if none is named; k or radius may be a column's name."""
    if how not in ("inner", "left"):
        raise ValueError(f"how is {how!r}: inner or left is wanted")
    if k is None and radius is None:
        raise ValueError("k is None and radius is None: one of them is wanted")
    per_row = k if isinstance(k, str) else radius if isinstance(radius, str) else None
    if k is not None and not isinstance(k, str):
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise ValueError(f"k is {k!r}: a whole number of at least 1 is wanted")
        k = int(k)
    # workers may run in another directory
    path = str(store) if "://" in str(store) else str(Path(store).absolute())
    manifest = Store(path).manifest(snapshot)
    name = manifest["snapshot"]
    # none that is carried is called as a column of ours
    coordinates = position_names(space_of_manifest(manifest).geographic)
    for column in column_names(columns, [*columns_of_manifest(manifest), *coordinates]):
        if list(columns).count(column) > 1:
            raise ValueError(f"column {column!r} would stand twice in the result ({', '.join([*RESULT, *columns])})")
    for condition in (where, having):
        if condition is not None:
            # loaded where there is a condition: it takes longer than a small join
            from dtoss.conditions.matching_objects import schema_of
            from dtoss.conditions.parse import parse_condition

            parse_condition(condition, schema_of(open_once(path, name, verify).parts[0]))
    return Ask(
        store=path,
        snapshot=name,
        k=None if isinstance(k, str) else k,
        radius=np.inf if isinstance(radius, str) else None if radius is None else _distance("radius", radius),
        per_row=per_row,
        max_distance=None if max_distance is None else _distance("max_distance", max_distance),
        how=how,
        columns=tuple(columns),
        exclude_self=exclude_self,
        where=where,
        having=having,
        verify=verify,
    )


def _distance(name: str, value: Any) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)) or not value >= 0.0:
        raise ValueError(f"{name} is {value!r}: a number that is not negative is wanted")
    return float(value)


@lru_cache(maxsize=2)
def open_once(store: str, snapshot: str, verify: Verify) -> Index:
    """Return a snapshot's index, its partitions opened when they are read; kept for the next task of this process."""
    return open_index(store, snapshot, verify=verify, lazy=True)


def answer_batch(index: Index, ask: Ask, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Answer a batch with columns query_id, x, y and perhaps per_row; rows are in the order of the queries."""
    places = places_of(batch)
    good = usable(index.space, places)
    limit = np.full(len(places), np.inf)
    k = np.full(len(places), ask.k or 0)
    if ask.per_row:
        values = floats_of(batch.column("per_row"))
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
        found = index.search(places[rows], limit[rows], max(most, 1), ask.where)
    else:
        found = index.search(places[rows], limit[rows], 0, ask.where)
    query = np.repeat(rows, found.count)
    ids = index.ids_of(found)
    keep: Any = np.ones(len(query), np.bool_)
    if ask.exclude_self:
        import pyarrow.compute as pc

        own = batch.column("query_id").take(numbers(query))
        kind = pa.int64() if pa.types.is_integer(own.type) and not index.string_ids else pa.large_string()
        same = pc.equal(ids.cast(kind), own.cast(kind))
        keep = ~pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    rank = _ranks(query, keep)
    if ask.radius is None:
        keep = keep & (rank <= k[query])
    if ask.having is not None:
        keep = keep & index.satisfying(found, ask.having)
    at = np.flatnonzero(keep)
    query, rank = query[at], rank[at].astype(np.int32)
    columns = [ids.take(numbers(at)), numbers(found.distance[at]), numbers(rank)]
    columns += [column.take(numbers(at)) for column in take_columns(index.parts, found, ask.columns)]
    return as_rows(batch.column("query_id"), query, columns, [*RESULT, *ask.columns], ask.how)


def as_rows(
    query_id: pa.Array, query: NDArray[np.int64], columns: Sequence[pa.Array], names: Sequence[str], how: str
) -> pa.RecordBatch:
    """Return the rows of a join, in the order of the queries.

    ``query``: (n,) the query of each hit, ascending; ``names``: of all columns of the result, query_id first; ``how``:
    "inner", or "left": a query without hits has one row of nulls.
    """
    if how == "left":
        missing = np.setdiff1d(np.arange(len(query_id)), query, assume_unique=False)
        order = np.argsort(np.concatenate([query, missing]), kind="stable")
        place = np.where(order < len(query), order, -1)
        query = np.concatenate([query, missing])[order]
        mask = numbers(place, place >= 0)
        columns = [column.take(mask) for column in columns]
    return pa.record_batch([query_id.take(numbers(query)), *columns], names=list(names))


def places_of(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Return the columns x and y of a batch, float64 (n, 2), NaN where they are null."""
    return np.stack([floats_of(batch.column(name)) for name in ("x", "y")], axis=1)


def usable(space: Space, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which places are positions that can be asked about."""
    finite = np.isfinite(places[:, 0]) & np.isfinite(places[:, 1])
    return finite & space.legal(np.where(finite[:, None], places, 0.0))


def _ranks(query: NDArray[np.int64], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the place of each kept row among its query's, from 1."""
    running = np.cumsum(keep)
    starts = np.ones(len(query), np.bool_)
    starts[1:] = query[1:] != query[:-1]
    first = np.flatnonzero(starts)
    before = np.where(first > 0, running[np.maximum(first, 1) - 1], 0)
    return running - np.repeat(before, np.diff(np.append(first, len(query))))
