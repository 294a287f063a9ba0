"""The row before of each object: runs of rows by bucket and id, of which the newest counts.

A run is an Arrow file, mapped. A batch adds one for each task, which makes one of it and of the newer runs of its
buckets as long as they are not twice as large. Which runs hold which buckets is in the commit. What is gone has a mark
as long as an older run may still hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, buckets_in, hashes_of
from dtoss.commits.file_entry import write_entry
from dtoss.commits.folder import Folder
from dtoss.watch.watch_folder import STATE

RUN_OFFSETS = b"dtoss.offsets"
"""Where the metadata of a run has the rows at which its buckets begin, and its end."""
_OWN = ("key", "id", "t", "x", "y", "changes", "gone")


@dataclass(frozen=True)
class Run:
    """A file of the state, as a commit says it."""

    name: str  # In the folder of the state
    rows: int  # Of all of it
    bytes: int  # Of all of it
    sha256: str  # Of all of it
    buckets: NDArray[np.int64] = field(hash=False, compare=False)  # int64, rising. Those that it counts for

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Run:
        """Return the run that JSON says."""
        return cls(said["name"], said["rows"], said["bytes"], said["sha256"], buckets_in(said["buckets"]))


@dataclass(frozen=True)
class Before:
    """Rows before, each of another object."""

    key: NDArray[np.int64]  # int64 (n,). The id, of text its hash
    ids: pa.Array  # (n,)
    t: NDArray[np.int64]  # int64 (n,). Microseconds since 1970
    positions: NDArray[np.float64]  # float64 (n, 2)
    changes: NDArray[np.int64]  # int64 (n,). The number of the change of subscriptions that each was judged under
    gone: NDArray[np.bool_]  # bool (n,). Whether the object is there no more
    attributes: Mapping[str, pa.Array]  # What conditions of enter and leave read

    def __len__(self) -> int:
        return len(self.t)

    def take(self, rows: NDArray[np.int64]) -> Before:
        """Return some of the rows."""
        at = pa.array(rows)
        return Before(
            self.key[rows], self.ids.take(at), self.t[rows], self.positions[rows], self.changes[rows],
            self.gone[rows], {name: column.take(at) for name, column in self.attributes.items()},
        )  # fmt: skip


def keys_of(ids: pa.Array) -> NDArray[np.int64]:
    """Return the keys of ids: themselves, or the hashes of texts."""
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.to_numpy(zero_copy_only=False), dtype=np.int64)
    return hashes_of(ids)


def concatenated(parts: Sequence[Before], kinds: Mapping[str, pa.DataType], id_kind: pa.DataType) -> Before:
    """Return rows of several runs with the columns wanted; what a run does not have is null."""
    attributes = {}
    for name, kind in kinds.items():
        columns = [
            part.attributes[name].cast(kind) if name in part.attributes else pa.nulls(len(part), kind) for part in parts
        ]
        attributes[name] = _whole(columns, kind)
    return Before(
        np.concatenate([np.zeros(0, np.int64), *(part.key for part in parts)]),
        _whole([part.ids for part in parts], id_kind),
        np.concatenate([np.zeros(0, np.int64), *(part.t for part in parts)]),
        np.concatenate([np.zeros((0, 2)), *(part.positions for part in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(part.changes for part in parts)]),
        np.concatenate([np.zeros(0, np.bool_), *(part.gone for part in parts)]),
        attributes,
    )


def _whole(columns: list[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.array([], kind), *(column.cast(kind) for column in columns)])


def write_run(folder: Folder, bucket: NDArray[np.int64], rows: Before) -> dict[str, Any] | None:
    """Write rows as a run, and return what a commit says of it, without its buckets; None where there are none."""
    if len(rows) == 0:
        return None
    at = _order(bucket, rows)
    kept = rows.take(at)
    offsets = np.searchsorted(bucket[at], np.arange(BUCKETS + 1))
    names = list(_OWN)
    arrays = [
        pa.array(kept.key), kept.ids, pa.array(kept.t), pa.array(np.ascontiguousarray(kept.positions[:, 0])),
        pa.array(np.ascontiguousarray(kept.positions[:, 1])), pa.array(kept.changes), pa.array(kept.gone),
    ]  # fmt: skip
    for name in sorted(kept.attributes):
        names.append(f"a:{name}")
        arrays.append(kept.attributes[name])
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    batch = batch.replace_schema_metadata({RUN_OFFSETS: offsets.astype(np.int64).tobytes()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return write_entry(folder, sink.getvalue(), len(kept), "arrow", STATE)


def _order(bucket: NDArray[np.int64], rows: Before) -> NDArray[np.int64]:
    """Return rows by bucket, key and id."""
    order = np.lexsort((rows.key, bucket))
    if pa.types.is_integer(rows.ids.type):
        return order
    key, of = rows.key[order], bucket[order]
    if not ((key[1:] == key[:-1]) & (of[1:] == of[:-1])).any():
        return order
    table = pa.table({"bucket": bucket, "key": rows.key, "id": rows.ids})
    keys = [("bucket", "ascending"), ("key", "ascending"), ("id", "ascending")]
    return np.asarray(pc.sort_indices(table, sort_keys=keys)).astype(np.int64)
