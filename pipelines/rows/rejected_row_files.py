"""Rejected rows to files in the snapshot: their reasons, and the rows as they were read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dtoss.commits.columnar_files import REJECTED, encode_rejected
from dtoss.snapshots.partition_file import checksum
from dtoss.snapshots.store import Store
from pipelines.engines.rows import one_value
from pipelines.rows.position_frame import Positions

ROWS_PER_FILE = 1_000_000


def quarantine(positions: Positions, store: Store, snapshot: str, rows: int) -> list[dict[str, Any]]:
    """Write the rows that have a reason as Parquet (reason, row), and return the manifest's entries of the files.

    Files are the same for the same rows: a row goes to one of them by its hash, and stands sorted in it.
    """
    store.folder.make("snapshots", snapshot, "quarantine")
    files = -(-rows // ROWS_PER_FILE)
    rejected = positions.rejected().exchange_by_hash(files, "row")
    written = rejected.map(_writer(store, snapshot), "entry string").values()
    return sorted(map(json.loads, written), key=lambda entry: entry["file"])


def _writer(store: Store, snapshot: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = [batch.cast(REJECTED) for batch in batches]
        if not kept:
            return
        table = pa.Table.from_batches(kept)
        data = encode_rejected(table)
        digest = checksum(data)
        file = f"quarantine/{digest[:16]}.parquet"
        store.write(snapshot, file, data)
        entry = {"file": file, "rows": len(table), "bytes": data.size, "sha256": digest}
        yield one_value("entry", json.dumps(entry))

    return write
