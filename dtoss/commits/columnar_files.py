"""Parquet and Arrow files that commits list: written the same way always, and read with the name of what is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dtoss.commits.file_entry import FileEntry, checked_bytes
from dtoss.commits.folder import Folder
from dtoss.errors import StoreError, of_system


@contextmanager
def decoding(path: str, remedy: str = "") -> Iterator[None]:
    """Say which file is damaged where it cannot be decoded; what the system refuses is raised as it is."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        if of_system(error):
            raise
        raise StoreError(f"{path} is damaged: {' '.join(str(error).split())[:200]}{remedy}") from None


def encode_parquet(table: pa.Table, **options: Any) -> pa.Buffer:
    """Return a table as the bytes of a Parquet file, compressed; ``options``: of ``pyarrow.parquet.write_table``."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def encode_arrow(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return sink.getvalue()


def read_parquet(folder: Folder, room: str, file: FileEntry) -> pa.Table:
    """Return the rows of a Parquet file, whose bytes are those that it was listed with."""
    import pyarrow.parquet as pq

    path = folder.path(room, file.name)
    data = checked_bytes(folder, room, file)
    with decoding(path):
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        if table.num_rows != file.rows:
            raise ValueError(f"it has {table.num_rows:,} rows, {file.rows:,} are listed")
    return table
