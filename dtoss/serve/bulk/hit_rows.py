"""Hits of many questions as rows: what kernels found with ids and attributes, piece by piece, as JSON or as Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.arguments import column_names
from dtoss.column_rows import take_rows
from dtoss.hits import Hits
from dtoss.kinds.hit_tables import id_column
from dtoss.names import position_names
from dtoss.queries.gather import take_columns
from dtoss.queries.raw_hits import RawHits
from dtoss.serve.answers.json_out import ARROW_TYPE, HITS_A_PIECE, JSON_TYPE, rows_json
from dtoss.serve.answers.open_snapshots import ServedSnapshot

BATCH_HITS = 64_000
"""Hits of a batch at the most."""
END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream ends."""


@dataclass(frozen=True)
class Form:
    """How hits are wanted."""

    arrow: bool  # As an Arrow stream and not as JSON
    text_ids: bool = False  # Ids as text in JSON
    columns: Sequence[str] = ()
    having: str | None = None  # A condition on the hits
    query: bool = True  # Whether JSON says of which query a hit is

    @property
    def kind(self) -> bytes:
        """Content type of the answer."""
        return ARROW_TYPE if self.arrow else JSON_TYPE


@dataclass(frozen=True, eq=False)
class Rows:
    """Hits of consecutive queries."""

    query: NDArray[np.int64]  # int64 (n,)
    ids: pa.Array
    distance: NDArray[np.float64]  # float64 (n,)
    columns: dict[str, pa.Array]  # Attributes by their names

    take = take_rows


def check_columns(served: ServedSnapshot, form: Form) -> None:
    """Refuse columns that objects do not carry, and a condition on hits that cannot be read."""
    index = served.index
    column_names(form.columns, [*index.column_names, *position_names(index.space.geographic)])
    if form.having is not None:
        served.index.satisfying(served.index.search(np.zeros((0, 2)), np.zeros(0), 1), form.having)


def rows_of(served: ServedSnapshot, first: int, found: RawHits, form: Form) -> Rows:
    """Return raw hits with ids and attributes; those that do not satisfy a condition on hits are left out.

    ``first``: the number of the first query.
    """
    index = served.index
    count = found.count
    if len(count) == 1:
        query = np.full(len(found.distance), first, np.int64)
    else:
        query = np.repeat(np.arange(first, first + len(count), dtype=np.int64), count)
    taken = take_columns(index.parts, found, form.columns) if form.columns else []
    rows = Rows(query, index.ids_of(found), found.distance, dict(zip(form.columns, taken, strict=True)))
    if form.having is None:
        return rows
    kept = index.satisfying(found, form.having)
    mask = pa.array(kept)
    columns = {name: column.filter(mask) for name, column in rows.columns.items()}
    return Rows(query[kept], rows.ids.filter(mask), found.distance[kept], columns)


def rows_of_hits(hits: Hits) -> Rows:
    """Return hits as rows."""
    return Rows(hits.query, id_column(hits.id), hits.distance, hits.columns)


def encode_rows(
    served: ServedSnapshot,
    pieces: Iterator[Rows],
    form: Form,
    every: int | None = None,
    following: str | None = None,
) -> Iterator[bytes]:
    """Yield the bytes of an answer, some hits at a time: in Arrow how many each place has, in JSON the next page."""
    return _arrow(served, pieces, form, every) if form.arrow else _json(served, pieces, form, following)


def _arrow(served: ServedSnapshot, pieces: Iterator[Rows], form: Form, every: int | None) -> Iterator[bytes]:
    first = next(pieces, None)
    if first is None:  # the schema is told all the same
        first = rows_of(served, 0, served.index.search(np.zeros((0, 2)), np.zeros(0), 1), form)
    head: bytes | None = None
    for rows in chain((first,), pieces):
        batch = hits_batch(None if every is not None else rows.query, rows.ids, rows.distance, rows.columns)
        if head is None:
            head = beginning(served, batch.schema, every)
            yield head
        yield from batches(batch)
    yield END


def _json(served: ServedSnapshot, pieces: Iterator[Rows], form: Form, following: str | None) -> Iterator[bytes]:
    yield served.beginning + b"["
    begun = False
    for rows in pieces:
        for at in range(0, len(rows.query), HITS_A_PIECE):
            some = rows.take(slice(at, at + HITS_A_PIECE))
            ids = some.ids.to_numpy(zero_copy_only=False)
            hits = Hits(some.query, ids, some.distance, some.columns)
            text = rows_json(hits, query=form.query, text_ids=form.text_ids)
            yield b"," + text if begun else text
            begun = True
    yield b"]}" if following is None else b'],"next":"%s"}' % following.encode()


def parts_of(found: RawHits, most: int = BATCH_HITS) -> Iterator[tuple[int, RawHits]]:
    """Yield raw hits as many queries at a time as have so many hits, with the first query's number.

    A query that has more is a part by itself.
    """
    ends = np.cumsum(found.count)
    first = begin = 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, begin + most, side="right")), first + 1)
        rows = slice(begin, int(ends[last - 1]))
        yield (
            first,
            RawHits(
                found.count[first:last],
                found.part[rows] if len(found.part) else found.part,
                found.item[rows] if len(found.item) else found.item,
                found.distance[rows],
                None if found.ids is None else found.ids[rows],
                found.reads[first:last],
            ),
        )
        first, begin = last, rows.stop


def beginning(served: ServedSnapshot, schema: pa.Schema, every: int | None = None) -> bytes:
    """Return the message of a schema, which names the snapshot."""
    metadata = {"snapshot": served.name} | ({} if every is None else {"every": str(every)})
    return _bytes(schema.with_metadata(metadata).serialize())


def hits_batch(
    query: NDArray[np.int64] | None,
    ids: pa.Array,
    distance: NDArray[np.float64],
    columns: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """Return hits as a batch with the columns query (unless it is None), id, distance and the attributes."""
    table: dict[str, Any] = {} if query is None else {"query": pa.array(query)}
    # values are copied once, into the message
    table |= {"id": ids, "distance": pa.array(distance), **columns}
    return pa.record_batch(list(table.values()), names=list(table))


def batches(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield the messages of a batch, :data:`BATCH_HITS` at a time."""
    for at in range(0, len(batch), BATCH_HITS):
        yield _bytes(batch.slice(at, BATCH_HITS).serialize())


def column_stream(served: ServedSnapshot, name: str, values: pa.Array) -> bytes:
    """Return the stream of one column."""
    batch = pa.record_batch([values], names=[name])
    return beginning(served, batch.schema) + _bytes(batch.serialize()) + END


def _bytes(buffer: pa.Buffer) -> bytes:
    made: bytes = buffer.to_pybytes()
    return made
