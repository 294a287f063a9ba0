"""Tables as bytes that go from process to process: Arrow streams of one table."""

from __future__ import annotations

import pyarrow as pa


def stream_of(rows: pa.Table | pa.RecordBatch) -> bytes:
    """Return rows as an Arrow stream, with its schema before them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def rows_of_stream(data: bytes | memoryview) -> pa.Table:
    """Return the rows of an Arrow stream."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()
