"""The row before of each object: runs of rows by bucket and id, of which the newest counts.

A run is an Arrow file, mapped. A batch adds one for each task, which makes one of it and of the newer runs of its
buckets as long as they are not twice as large. Which runs hold which buckets is in the commit. What is gone has a mark
as long as an older run may still hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, buckets_in, hashes_of
from dtoss.column_rows import join_rows, take_rows
from dtoss.commits.columnar_files import encode_arrow
from dtoss.commits.file_entry import write_entry
from dtoss.commits.folder import Folder
from dtoss.watch.watch_folder import STATE

RUN_OFFSETS = b"dtoss.offsets"
"""Where the metadata of a run has the rows at which its buckets begin, and its end."""
STAYS_COLUMN = "stays"
"""Of runs in which an object stays somewhere."""
_OWN = ("key", "id", "t", "x", "y", "changes", "gone")
STAY_TYPE = pa.struct(
    [
        ("due", pa.int64()),
        (
            "of",
            pa.list_(
                pa.struct(
                    [
                        ("subscription", pa.string()),
                        ("version", pa.int64()),
                        ("since", pa.int64()),
                        ("out", pa.int64()),
                        ("told", pa.bool_()),
                    ]
                )
            ),
        ),
    ]
)
"""Where an object stays: when something of it is full, and of each subscription that counts more than two rows since
when it is inside, since when it is not held there (null where it is), and whether a dwell was told."""


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
    stays: pa.Array  # Of :data:`STAY_TYPE` (n,), null where it stays nowhere

    def __len__(self) -> int:
        return len(self.t)

    take = take_rows


def keys_of(ids: pa.Array) -> NDArray[np.int64]:
    """Return the keys of ids: themselves, or the hashes of texts."""
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.to_numpy(zero_copy_only=False), dtype=np.int64)
    return hashes_of(ids)


def concatenated(parts: Sequence[Before], kinds: Mapping[str, pa.DataType], id_kind: pa.DataType) -> Before:
    """Return rows of several runs with the columns wanted; what a run does not have is null."""
    empty = np.zeros(0, np.int64)
    none = Before(
        empty, pa.array([], id_kind), empty, np.zeros((0, 2)), empty, np.zeros(0, np.bool_), {}, pa.array([], STAY_TYPE)
    )

    def alike(part: Before) -> Before:
        has = part.attributes
        attributes = {n: has[n].cast(kind) if n in has else pa.nulls(len(part), kind) for n, kind in kinds.items()}
        return replace(part, ids=part.ids.cast(id_kind), attributes=attributes, stays=part.stays.cast(STAY_TYPE))

    return join_rows([alike(part) for part in [*parts] or [none]])


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
    if kept.stays.null_count < len(kept):
        names.append(STAYS_COLUMN)
        arrays.append(kept.stays)
    for name in sorted(kept.attributes):
        names.append(f"a:{name}")
        arrays.append(kept.attributes[name])
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    batch = batch.replace_schema_metadata({RUN_OFFSETS: offsets.astype(np.int64).tobytes()})
    return write_entry(folder, encode_arrow(batch), len(kept), "arrow", STATE)


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
