"""Files of rows that were set aside, without those that speak of somebody."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.folder import Folder
from dtoss.erasure.mentions import Mentions
from dtoss.errors import StoreError


def read_rejected(folder: Folder, *parts: str) -> pa.Table:
    """Return the rows of a file, ``reason`` and ``row``; none where it is gone."""
    data = folder.read(*parts)
    if data is None:
        return pa.table({"reason": pa.array([], pa.large_string()), "row": pa.array([], pa.large_string())})
    try:
        return pq.read_table(pa.BufferReader(data), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{folder.path(*parts)} is damaged: {str(error).splitlines()[0]:.200}") from None


def without_mentions(rows: pa.Table, mentions: Mentions) -> pa.Table:
    """Return the rows that speak of nobody who is looked for."""
    return rows.filter(pa.array(~mentions.mask(rows.column("row"))))


def encode_rejected(rows: pa.Table) -> pa.Buffer:
    """Return rows as the bytes of a file: the same rows, the same bytes."""
    order = pc.sort_indices(rows, sort_keys=[("reason", "ascending"), ("row", "ascending")])
    sink = pa.BufferOutputStream()
    pq.write_table(rows.take(order), sink, compression="zstd")
    return sink.getvalue()


def clear_rejected(folder: Folder, room: str, mentions: Mentions, *, dry: bool = False) -> int:
    """Remove rows that speak of somebody from the files of a folder that nothing lists; return how many went.

    ``folder``, ``room``: where the files are, each named by its bytes.

    What stays of a file is written before it goes: rows stand in two for a moment, and never in none.
    """
    gone = 0
    for name in folder.files(room):
        rows = read_rejected(folder, room, name)
        kept = without_mentions(rows, mentions)
        gone += len(rows) - len(kept)
        if dry or len(kept) == len(rows):
            continue
        if len(kept):
            data = encode_rejected(kept)
            fresh = f"{hashlib.sha256(data).hexdigest()[: len(name.partition('.')[0])]}.parquet"
            folder.write(data, room, fresh)
            folder.sync([(room, fresh)])
        folder.remove(room, name)
    return gone
