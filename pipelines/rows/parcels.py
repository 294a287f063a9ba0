"""Rows on their way to partitions as parcels: one binary value holds many rows, so that Spark moves bytes, not rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.partition import numbers as arrow_of
from dtoss.row_runs import offsets

BYTES_AT_ONCE = 16 << 20
"""Bytes of rows that are sorted into parcels together."""
BYTES_PACKED = 256 << 20
"""Bytes of parcels in one batch: Arrow and the JVM count those of a binary column in 32 bits."""

MOST_BYTES = (1 << 31) - 1
"""What these 32 bits can count: rows of very different sizes may come to more than was meant."""

SCHEMA = "task int, partition int, parcel binary"
NAMES = ["task", "partition", "parcel"]
KEYS = -1
"""Stands for the partition where a parcel holds no rows but keys of ids."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def gather_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield consecutive batches as fewer of about :data:`BYTES_AT_ONCE`, or as large as one of them is."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= BYTES_AT_ONCE:
            yield pa.concat_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.concat_batches(kept)


def slices(rows: int, bytes_each: float, most: int = BYTES_PACKED) -> Iterator[slice]:
    """Yield consecutive slices of rows of about ``most`` bytes; an empty one where there are none.

    Examples
    --------
    >>> list(slices(5, 4.0, most=10))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(int(most / max(bytes_each, 1.0)), 1)
    for begin in range(0, max(rows, 1), step):
        yield slice(begin, min(begin + step, rows))


def pack_rows(
    rows: pa.RecordBatch, row: NDArray[np.int64], partition: NDArray[np.int32], tasks: int, most: int = MOST_BYTES
) -> pa.RecordBatch:
    """Return one parcel for each partition that rows go to: an Arrow stream of those rows, in their order.

    ``row``: int64 (m,). Which rows go somewhere, each as often as it does; ``partition``: int32 (m,). Where, not
    negative; ``most``: bytes that can be counted.

    Cost O(m).
    """
    numbers = np.flatnonzero(np.bincount(partition)).astype(np.int32)
    # of 16 bits the stable sort is a radix sort
    narrow = partition.astype(np.uint16) if len(numbers) == 0 or numbers[-1] < 1 << 16 else partition
    order = np.argsort(narrow, kind="stable")
    ends = np.append(np.searchsorted(partition[order], numbers), len(order))
    rows = rows.take(arrow_of(row[order]))
    parts = [rows.slice(begin, end - begin) for begin, end in pairwise(ends)]
    # a stream that grows takes up to twice the memory
    sink = pa.MockOutputStream()
    cuts = _write_streams(sink, rows.schema, parts)
    data = pa.allocate_buffer(sink.size())
    _write_streams(pa.FixedSizeBufferWriter(data), rows.schema, parts)
    return _batch(numbers % tasks, numbers, np.array(cuts), data, most)


def _write_streams(sink: pa.NativeFile, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> list[int]:
    """Write a stream of each part, and return where each begins, and the end."""
    cuts = [0]
    for part in parts:
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(part)
        cuts.append(sink.tell())
    return cuts


def rows_of(parcels: Iterable[pa.Buffer]) -> pa.Table:
    """Return the rows of some parcels of one partition, of one at least."""
    return pa.concat_tables([pa.ipc.open_stream(parcel).read_all() for parcel in parcels])


def pack_keys(keys: NDArray[np.int64], tasks: int) -> pa.RecordBatch:
    """Return one parcel of keys for each task; equal keys go to one task, whichever batch they are in.

    ``keys``: int64 (n,).
    """
    # multiplied, the upper bits depend on all lower ones: ids often differ by a multiple of the number of tasks
    task = ((keys.view(np.uint64) * _SPREAD) >> np.uint64(32)) % np.uint64(tasks)
    order = np.argsort(task.astype(np.uint16), kind="stable")
    ends = offsets(np.bincount(task.astype(np.int64), minlength=tasks))
    to = np.arange(tasks, dtype=np.int32)
    return _batch(to, np.full(tasks, KEYS, np.int32), 8 * ends, pa.py_buffer(keys[order]))


def keys_repeat(parcels: Iterable[pa.Buffer]) -> bool:
    """Return whether any key stands more than once in a task's parcels of keys. Cost O(n log n)."""
    keys = np.concatenate([np.empty(0, np.int64), *(np.frombuffer(parcel, np.int64) for parcel in parcels)])
    keys.sort()
    return bool((keys[1:] == keys[:-1]).any())


def _batch(
    task: NDArray[np.int32],
    partition: NDArray[np.int32],
    ends: NDArray[np.int64],
    data: pa.Buffer,
    most: int = MOST_BYTES,
) -> pa.Array:
    """Return parcels that lie one behind the other in one buffer as a batch, without a copy."""
    if ends[-1] > most:
        raise InputError(
            f"rows sent together take {ends[-1]:,} bytes, {most:,} at most: carry fewer or smaller attributes"
        )
    offsets = pa.py_buffer(ends.astype(np.int32))
    parcels = pa.Array.from_buffers(pa.binary(), len(task), [None, offsets, data])
    return pa.record_batch([arrow_of(task), arrow_of(partition), parcels], names=NAMES)
