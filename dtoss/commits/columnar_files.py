"""Parquet and Arrow files that commits list, written the same way always; among them rows that were set aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dtoss.commits.file_entry import FileEntry, checked_bytes
from dtoss.commits.folder import Folder
from dtoss.errors import InputError, StoreError, of_system


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


REJECTED = pa.schema([("reason", pa.large_string()), ("row", pa.large_string())])
"""Why a row was set aside, and the row as it was read."""
_WORST = 3
"""Reasons that a message names."""


def encode_rejected(rows: pa.Table) -> pa.Buffer:
    """Return rows of :data:`REJECTED` as bytes: the same rows in any order, the same bytes."""
    return encode_parquet(rows.sort_by([("reason", "ascending"), ("row", "ascending")]))


def read_rejected(folder: Folder, *parts: str) -> pa.Table:
    """Return the rows of a file; none where it is gone."""
    import pyarrow.parquet as pq

    data = folder.read(*parts)
    if data is None:
        return REJECTED.empty_table()
    with decoding(folder.path(*parts)):
        return pq.read_table(pa.BufferReader(data), use_threads=False)


def sum_counts(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return counts of several tasks as one, by name."""
    total: dict[str, int] = {}
    for one in counts:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return dict(sorted(total.items()))


def check_bad(rows: int, reasons: Mapping[str, int], max_bad: float) -> None:
    """Check that of so many rows no more are bad than are borne, a share of them."""
    bad = sum(reasons.values())
    if bad > max_bad * rows:
        worst = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda x: -x[1])[:_WORST]
        )
        raise InputError(
            f"{bad:,} of {rows:,} rows are bad ({worst}), more than --max-bad {100 * max_bad:g}% allows: nothing of "
            "this batch counts; mend the rows, or allow more"
        )
