"""Answers as Arrow IPC streams: a message for the schema, one a batch, and an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.serve.answers.open_snapshots import ServedSnapshot

BATCH_HITS = 64_000
"""Hits of a batch at the most."""
END = b"\xff\xff\xff\xff\0\0\0\0"
"""How a stream ends."""


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
