"""One row an object: the latest of each id, and ids that repeat where there is no time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pipelines.session import cores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS_PER_TASK = 1_000_000
"""Rows that one task looks through for the latest of each id."""


def task_count(rows: int, at_once: int) -> int:
    """Return how many tasks share so many rows: one for each million, at least as many as run at once."""
    return int(min(max(-(-rows // ROWS_PER_TASK), at_once), 2000))


def by_hash(column: Column, tasks: int) -> Column:
    """Return the task of each value, by its hash."""
    from pyspark.sql import functions as F

    return F.pmod(F.xxhash64(column), F.lit(tasks)).cast("int")


def repeated(frame: DataFrame, rows: int) -> tuple[int, str]:
    """Return how many ids stand more than once, and some of them. Only ids are shuffled."""
    from pyspark.sql import functions as F

    tasks = task_count(4 * rows, cores(frame.sparkSession))
    ids = frame.select("id").repartitionById(tasks, by_hash(F.col("id"), tasks))
    found = ids.mapInArrow(_repeated_ids, "repeated bigint, some string").toArrow()
    count = sum(found.column("repeated").to_pylist())
    some = sorted(text for text in found.column("some").to_pylist() if text)
    return count, ", ".join(", ".join(some).split(", ")[:3])


def _repeated_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = [batch.column(0) for batch in batches]
    if not columns:
        return
    ids = pa.chunked_array(columns).combine_chunks()
    values = ids.to_numpy(zero_copy_only=False)
    ordered = np.sort(values)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    some = ", ".join(str(value) for value in repeated[:3].tolist())
    yield pa.record_batch([pa.array([len(repeated)]), pa.array([some])], names=["repeated", "some"])


def latest(table: pa.Table, compared: list[str]) -> pa.Table:
    """Return the rows with the greatest (t, x, y, attributes) of each id, ids ascending."""
    keys = [
        name for name in ("t", *compared) if name in table.column_names and _orderable(table.schema.field(name).type)
    ]
    order = pa.compute.sort_indices(
        table, sort_keys=[("id", "ascending"), *((name, "ascending") for name in keys)], null_placement="at_start"
    )
    ids = table.column("id").take(order)
    if len(ids) == 0:
        return table
    ends = pa.compute.not_equal(ids[1:], ids[:-1]).to_numpy()
    last = np.append(np.flatnonzero(ends), len(ids) - 1)
    return table.take(pa.compute.take(order, pa.array(last)))


def _orderable(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)
