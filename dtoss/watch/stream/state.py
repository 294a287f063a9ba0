"""The row before of each object: runs of rows by bucket and id, of which the newest counts.

A run is an Arrow file, mapped. A batch adds one for each task; a task makes one of all runs of a bucket once what came
since the oldest is half of it, or there are more than eight. Which runs hold which buckets is in the commit. What is
gone has a mark as long as an older run may still hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.folder import Folder
from dtoss.errors import StoreError
from dtoss.watch.built.mapped import mapped
from dtoss.watch.home import STATE, Home
from dtoss.watch.stream.buckets import BUCKETS, buckets_in, hashes_of
from dtoss.watch.stream.event_table import put

MOST_RUNS = 8
_HALF = 2
_OFFSETS = b"dtoss.offsets"
_OPEN = 256
_OWN = ("key", "id", "t", "x", "y", "changes", "gone")


@dataclass(frozen=True)
class Run:
    """A file of the state, as a commit says it.

    Parameters
    ----------
    name
        In the folder of the state.
    rows, bytes, sha256
        Of all of it.
    buckets
        int64, rising. Those that it counts for.
    """

    name: str
    rows: int
    bytes: int
    sha256: str
    buckets: NDArray[np.int64] = field(hash=False, compare=False)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Run:
        """Return the run that JSON says."""
        return cls(said["name"], said["rows"], said["bytes"], said["sha256"], buckets_in(said["buckets"]))


@dataclass(frozen=True)
class Before:
    """Rows before, each of another object.

    Parameters
    ----------
    key
        int64 (n,). The id, of text its hash.
    ids
        (n,).
    t
        int64 (n,). Microseconds since 1970.
    positions
        float64 (n, 2).
    changes
        int64 (n,). The number of the change of subscriptions that each was judged under.
    gone
        bool (n,). Whether the object is there no more.
    attributes
        What conditions of enter and leave read.
    """

    key: NDArray[np.int64]
    ids: pa.Array
    t: NDArray[np.int64]
    positions: NDArray[np.float64]
    changes: NDArray[np.int64]
    gone: NDArray[np.bool_]
    attributes: Mapping[str, pa.Array]

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


@lru_cache(maxsize=_OPEN)
def _opened(home: Home, name: str) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
    data = mapped(home.folder, STATE, name, "restore it from a copy")
    try:
        batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
        offsets = np.frombuffer((batch.schema.metadata or {})[_OFFSETS], np.int64)
        if len(offsets) != BUCKETS + 1 or offsets[-1] != batch.num_rows:
            raise ValueError("its buckets do not cover it")
        return batch, offsets
    except (pa.ArrowException, ValueError, KeyError, IndexError) as error:
        path = home.folder.path(STATE, name)
        raise StoreError(f"{path} is damaged: {' '.join(str(error).split())[:200]}") from None


def read_bucket(home: Home, run: Run, bucket: int) -> Before:
    """Return the rows of a bucket in a run, by key and id, mapped."""
    batch, offsets = _opened(home, run.name)
    some = batch.slice(int(offsets[bucket]), int(offsets[bucket + 1] - offsets[bucket]))
    columns = dict(zip(batch.schema.names, some.columns, strict=True))
    positions = np.stack([columns["x"].to_numpy(), columns["y"].to_numpy()], axis=1)
    return Before(
        columns["key"].to_numpy(),
        columns["id"],
        columns["t"].to_numpy(),
        positions,
        columns["changes"].to_numpy(),
        columns["gone"].to_numpy(zero_copy_only=False),
        {name[2:]: column for name, column in columns.items() if name.startswith("a:")},
    )


def times_in(home: Home, run: Run, bucket: int) -> NDArray[np.int64]:
    """Return the times of a bucket in a run, mapped."""
    batch, offsets = _opened(home, run.name)
    return np.asarray(batch.column("t").to_numpy()[offsets[bucket] : offsets[bucket + 1]])


def size_in(home: Home, run: Run, bucket: int) -> int:
    """Return how many rows of a bucket a run has."""
    _, offsets = _opened(home, run.name)
    return int(offsets[bucket + 1] - offsets[bucket])


def found_in(before: Before, key: NDArray[np.int64], ids: pa.Array) -> NDArray[np.int64]:
    """Return the row of each object among rows by key and id, int64 (m,), -1 where there is none."""
    at = np.searchsorted(before.key, key)
    found = np.full(len(key), -1, np.int64)
    open_ = np.flatnonzero(at < len(before))
    while len(open_):
        same = before.key[at[open_]] == key[open_]
        open_ = open_[same]
        if pa.types.is_integer(ids.type):
            found[open_] = at[open_]
            break
        # texts of one hash follow one another
        equal = np.asarray(pc.equal(before.ids.take(pa.array(at[open_])), ids.take(pa.array(open_))))
        found[open_[equal]] = at[open_[equal]]
        open_ = open_[~equal]
        at[open_] += 1
        open_ = open_[at[open_] < len(before)]
    return found


def standing_rows(home: Home, runs: Sequence[Run], bucket: int) -> list[tuple[Before, NDArray[np.int64]]]:
    """Return the runs of a bucket, oldest first, each with its rows that no newer run has."""
    parts = [read_bucket(home, run, bucket) for run in runs]
    found = []
    for number, part in enumerate(parts):
        stands = np.ones(len(part), np.bool_)
        for newer in parts[number + 1 :]:
            hidden = found_in(part, newer.key, newer.ids)
            stands[hidden[hidden >= 0]] = False
        found.append((part, np.flatnonzero(stands)))
    return found


def worth_merging(sizes: Sequence[int], more: int) -> bool:
    """Return whether the runs of a bucket, oldest first, are made one, given the rows of them and of what comes."""
    if not sizes:
        return False
    return _HALF * (sum(sizes[1:]) + more) > sizes[0] or len(sizes) + bool(more) > MOST_RUNS


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
    batch = batch.replace_schema_metadata({_OFFSETS: offsets.astype(np.int64).tobytes()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
    return put(folder, sink.getvalue(), len(kept), "arrow", STATE)


def _order(bucket: NDArray[np.int64], rows: Before) -> NDArray[np.int64]:
    """Return rows by bucket, key and id."""
    if pa.types.is_integer(rows.ids.type):
        return np.lexsort((rows.key, bucket))
    table = pa.table({"bucket": bucket, "key": rows.key, "id": rows.ids})
    keys = [("bucket", "ascending"), ("key", "ascending"), ("id", "ascending")]
    return np.asarray(pc.sort_indices(table, sort_keys=keys)).astype(np.int64)
