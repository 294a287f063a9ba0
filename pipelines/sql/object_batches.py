"""The objects of partitions as Arrow batches: columns are views of the files, but for positions and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import Filter

from dtoss.answer_rows import open_once
from dtoss.errors import StoreError
from dtoss.opening import open_index
from dtoss.partition import Partition
from dtoss.snapshots.manifest import space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.sql.pushed_filters import asked_for, column_of, satisfying
from pipelines.sql.store_scan import Scan, manifest_of

ROWS = 65_536
"""Of a batch, at the most."""
BYTES = 32 << 20
"""Of a batch, about, where rows are long: Java holds some of them at a time."""
SMALL = 4_096
"""Rows of a batch below which it is put together with the next one."""


def batches_of(
    scan: Scan,
    numbers: Sequence[int],
    schema: pa.Schema,
    filters: Sequence[Filter],
    *,
    most_bytes: int = BYTES,
    small: int = SMALL,
) -> Iterator[pa.RecordBatch]:
    """Yield the objects that partitions own, those that are asked for and satisfy all filters."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for number in numbers:
        for batch in _pieces(scan, _partition(scan, number), schema, filters, most_bytes):
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= small:
                yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
                waiting, rows = [], 0
    if rows:
        yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def _partition(scan: Scan, number: int) -> Partition:
    """Return a partition; of a local store it stays mapped for the next task, of others it is read and let go."""
    if _local(scan.store):
        return open_once(scan.store, scan.snapshot, scan.verify).parts[number]
    return open_index(scan.store, scan.snapshot, verify=scan.verify, lazy=True).parts[number]


@lru_cache(maxsize=8)
def _local(store: str) -> bool:
    return Store(store).local


def _pieces(
    scan: Scan, partition: Partition, schema: pa.Schema, filters: Sequence[Filter], most_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the owned objects of a partition that are wanted, some at a time."""
    owned = partition.owned_objects
    space = space_of_manifest(manifest_of(scan.store, scan.snapshot))
    each = sum(_bytes(partition, name) for name in schema.names)
    step = min(ROWS, max(int(most_bytes * owned / each), 1)) if each else ROWS
    for begin in range(0, owned, step):
        rows = slice(begin, min(begin + step, owned))
        wanted = asked_for(scan.where, scan.box, partition, space, rows)
        if wanted is not None and not wanted.any():
            continue
        made = {field.name: _as_type(column_of(partition, field.name, rows), field, partition) for field in schema}
        batch = pa.RecordBatch.from_arrays(list(made.values()), schema=schema)
        mask = satisfying(filters, made.__getitem__)
        if wanted is not None and not wanted.all():
            mask = pa.array(wanted) if mask is None else pc.and_kleene(mask, pa.array(wanted))
        if mask is not None:
            batch = batch.filter(mask)
        if batch.num_rows:
            yield batch


def _bytes(partition: Partition, name: str) -> int:
    """Return how many bytes a column of the owned objects takes, about."""
    if name in partition.attributes:
        return int(partition.attributes[name].slice(0, partition.owned_objects).nbytes)
    if name == "id" and isinstance(partition.ids, pa.Array):
        return int(partition.ids.slice(0, partition.owned_objects).nbytes)
    return 8 * partition.owned_objects


def _as_type(values: pa.Array, field: pa.Field, partition: Partition) -> pa.Array:
    if values.type == field.type:
        return values
    try:
        return values.cast(field.type)
    except pa.ArrowException as error:
        raise StoreError(
            f"column {field.name!r} of partition {partition.number} is {values.type} and cannot be read as "
            f"{field.type}: {error}"
        ) from None
