"""A file of places joined with a store in this process: batches of places answered in threads, written in order.

Columns, formats and values mean what they mean to :func:`pipelines.rows.read_files.read_positions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.answer_rows import RESULT, Ask, answer_batch, as_rows, make_ask, open_once, places_of, usable
from dtoss.errors import InputError
from dtoss.geometry.space import Space, same_crs
from dtoss.index import Index
from dtoss.locks import processors
from dtoss.mapped_index import Verify
from dtoss.partition import numbers as arrow_of
from dtoss.rows.input_columns import Columns
from pipelines.engines.local_rows import LocalRows
from pipelines.rows.delimited_frame import check_said
from pipelines.rows.inputs import look
from pipelines.rows.read_files import read_positions
from pipelines.rows.write_file import open_writer

if TYPE_CHECKING:
    from dtoss.client.remote_index import RemoteIndex


AT_A_TIME = 1 << 16
"""Places of a batch at the most."""
HITS = 1 << 19
"""Hits of a batch, about: what a thread holds."""
_SAMPLED = 64
"""Of so many places one is asked how many hits it has, where the radius decides."""

Answer = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class Joined:
    """What a join has done."""

    rows: int
    queries: int  # Places that were read
    no_position: int  # Of these, without a position
    not_legal: int  # Of these, with one that is none in the store's space

    @property
    def unanswered(self) -> dict[str, int]:
        """How many places there were, and how many could have no hits, by the reason."""
        return {"queries": self.queries, "no_position": self.no_position, "not_legal": self.not_legal}


def join_file(
    path: str,
    store: str,
    out: str,
    *,
    k: int | None = None,
    radius: float | None = None,
    how: str = "inner",
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
    columns: Sequence[str] = (),
    where: str | None = None,
    having: str | None = None,
    max_distance: float | None = None,
    exclude_self: bool = False,
    snapshot: str | None = None,
    verify: Verify = "touch",
    threads: int | None = None,
    at_a_time: int = AT_A_TIME,
    geometry: str | None = None,
    id_type: str | None = None,
    crs: str | None = None,
) -> Joined:
    """Write the k nearest objects, or all within a radius, of each place in a file; return how many rows there are.

    Rows have the columns query_id, id, distance, rank (from 1), and those of the objects that are asked for. They are
    in the order of the file, then by rank.

    ``k``, ``radius``: one of them: how many, or metres on the sphere and CRS units in the plane; ``how``: "inner", or
    "left": a place without hits has one row of nulls; ``id``, ``x``, ``y``: the columns of the places; x and y are lon
    and lat, x and y, or the points of GeoParquet, when None; ``rows``: how text with places is written, as
    :func:`pipelines.local_joins.file_join.read_places` takes it; ``columns``: attributes of the objects to
    return, and lon and lat, or x and y, where they are; ``snapshot``: the current one when None; ``threads``: batches
    that are answered at a time; the machine's processors when None; ``at_a_time``: places of a batch at the most.

    Memory does not grow with the places: a few batches are held for each thread.
    """
    places = read_places(path, id=id, x=x, y=y, geometry=geometry, id_type=id_type, crs=crs, rows=rows)
    ask = make_ask(
        store, snapshot, k=k, radius=radius, max_distance=max_distance, how=how, columns=columns,
        exclude_self=exclude_self, where=where, having=having, verify=verify,
    )  # fmt: skip
    index = open_once(ask.store, ask.snapshot, ask.verify)
    check_crs(places, index.space, path)
    return write_answers(
        places,
        index.space,
        lambda batch: answer_batch(index, ask, batch),
        out,
        threads=threads,
        rows=lambda batch: rows_at_a_time(index, ask.k, ask.radius, ask.where, batch, at_a_time),
    )


def join_with_server(
    path: str, places: Places, ask: Ask, out: str, *, token: str | None = None, threads: int | None = None
) -> Joined:
    """Write what :func:`join_file` writes of the places in a file, as a server answers it by one snapshot.

    ``ask``: its store is the URL; ``threads``: batches that are asked at a time; the machine's processors when None.
    """
    from dtoss.client.connecting import connect

    index = connect(ask.store, token, ask.snapshot)
    check_crs(places, index.space, path)
    names = [*RESULT, *ask.columns]

    def answer(batch: pa.RecordBatch) -> pa.RecordBatch:
        at = places_of(batch)
        rows = np.flatnonzero(usable(index.space, at))
        how: dict[str, Any] = {"where": ask.where, "columns": ask.columns}
        if ask.radius is None:
            hits = index.knn(at[rows], ask.k or 1, max_distance=ask.max_distance, **how)
        else:
            hits = index.range(at[rows], ask.radius, **how)
        ids = pa.array(hits.id.tolist(), pa.large_string()) if index.string_ids else arrow_of(hits.id)
        told = [ids, arrow_of(hits.distance), arrow_of(hits.rank().astype(np.int32)), *hits.columns.values()]
        return as_rows(batch.column("query_id"), rows[hits.query], told, names, ask.how)

    def size(batch: pa.RecordBatch) -> int:
        return rows_at_a_time(index, ask.k, ask.radius, ask.where, batch)

    return write_answers(places, index.space, answer, out, threads=threads, rows=size)


def check_crs(places: Places, space: Space, path: str) -> None:
    """Check that places are in the CRS of a store's objects, where their files say in which they are."""
    if places.crs is not None and not same_crs(places.crs, space.crs):
        raise ValueError(
            f"{path} is in {places.crs} and the store in {space.crs}: transform the places first, "
            f"as GeoPandas does with to_crs({space.crs!r})"
        )


def write_answers(
    places: Places,
    space: Space,
    answer: Answer,
    out: str,
    *,
    threads: int | None = None,
    rows: Callable[[pa.RecordBatch], int] | None = None,
) -> Joined:
    """Write what answers places, in their order, and return how many rows there are.

    ``answer``: returns the rows that answer one batch; called in threads; ``rows``: returns how many places of a batch
    are answered at a time; :data:`AT_A_TIME` when None.
    """
    count = processors() if threads is None else threads
    seen = np.zeros(3, np.int64)
    found = 0

    def pieces() -> Iterator[pa.RecordBatch]:
        for batch in places.batches():
            seen[:] += _unanswerable(space, batch)
            size = AT_A_TIME if rows is None else rows(batch)
            yield from (batch.slice(at, size) for at in range(0, len(batch), size))

    none = [pa.nulls(0, kind) for kind in (places.id_type, pa.float64(), pa.float64())]
    empty = answer(pa.record_batch(none, names=list(QUERY)))
    with open_writer(out, empty.schema) as write, closing(in_order(answer, pieces(), count)) as answers:
        for batch in answers:
            write(batch)
            found += len(batch)
    return Joined(found, *seen.tolist())


def _unanswerable(space: Space, batch: pa.RecordBatch) -> tuple[int, int, int]:
    """Return how many places there are, how many without a position, and how many with one that is not legal."""
    places = places_of(batch)
    missing = np.isnan(places).any(axis=1)
    return len(places), int(missing.sum()), int((~missing & ~usable(space, places)).sum())


def in_order(answer: Answer, batches: Iterator[pa.RecordBatch], threads: int) -> Generator[pa.RecordBatch]:
    """Yield answers in the order of their batches, of which a bounded number is read ahead."""
    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        for batch in batches:
            waiting.append(pool.submit(answer, batch))
            if len(waiting) > threads + 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def rows_at_a_time(
    index: Index | RemoteIndex,
    k: int | None,
    radius: float | None,
    where: str | None,
    batch: pa.RecordBatch,
    most: int = AT_A_TIME,
) -> int:
    """Return how many places of a batch have about as many hits as a thread may hold, and no more than ``most``."""
    if radius is None:
        each = float(k or 1)
    else:
        some = places_of(batch)[::_SAMPLED]
        some = some[usable(index.space, some)]
        counts = index.count(some, radius, where=where) if len(some) else np.zeros(1)
        each = float(counts.mean())
    return int(min(max(HITS / max(each, 1.0), 1.0), most))


QUERY = ("query_id", "x", "y")
"""Names of the columns of a batch, as :func:`dtoss.answer_rows.answer_batch` wants them."""
KEPT_BYTES = 1 << 25
"""Of text that is kept from the first look at it: such a file is read once."""


@dataclass(frozen=True)
class Places:
    """Places in files."""

    id_type: pa.DataType  # Of the ids: int64 or string
    crs: str | None  # What the files say their CRS is, None where they do not
    # Returns a new stream of batches with the columns query_id, x and y, in the order of the files and their rows
    batches: Callable[[], Iterator[pa.RecordBatch]]


def read_places(
    path: str,
    *,
    id: str = "id",
    x: str | None = None,
    y: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
    kept_bytes: int = KEPT_BYTES,
    geometry: str | None = None,
    id_type: str | None = None,
    crs: str | None = None,
) -> Places:
    """Return the places in a file, in a folder at any depth, or in what a glob matches.

    ``x``, ``y``: the columns of the coordinates; None takes those that :class:`dtoss.rows.input_columns.Columns`
    does; ``rows``: how they are written: other fields of :class:`dtoss.rows.input_columns.Columns`;
    ``kept_bytes``: of text that is kept from the first look at it, so that no more than that is held.
    """
    columns = Columns(id=id, x=x, y=y, attributes="none", geometry=geometry, id_type=id_type, crs=crs, **rows)
    check_said(columns)
    inputs = look([path], encoding=columns.encoding)
    if not inputs.files:
        raise InputError(f"{path} cannot be reached by this process: name --master for a Spark that can")
    read = read_positions(None, inputs, columns, timeless=True, kept_bytes=kept_bytes)

    def batches() -> Iterator[pa.RecordBatch]:
        rows = read.frame.all_rows()
        assert isinstance(rows, LocalRows)
        for batch in (batch for task in rows.tasks for batch in task()):
            yield pa.record_batch([batch.column(name) for name in ("id", "x", "y")], names=list(QUERY))

    return Places(pa.string() if read.string_ids else pa.int64(), read.crs, batches)
