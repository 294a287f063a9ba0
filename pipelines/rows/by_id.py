"""Ids that repeat where there is no time, and how rows are shared among tasks by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.spark.session import cores

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


def count_repeated(frame: DataFrame, rows: int) -> tuple[int, list[str]]:
    """Return how many ids stand more than once, and three of them at the most. Only ids are shuffled."""
    from pyspark.sql import functions as F

    tasks = task_count(4 * rows, cores(frame.sparkSession))
    ids = frame.select("id").repartitionById(tasks, by_hash(F.col("id"), tasks))
    found = ids.mapInArrow(_repeated_ids, "repeated bigint, some array<string>").toArrow()
    some = sorted(text for texts in found.column("some").to_pylist() for text in texts)
    return sum(found.column("repeated").to_pylist()), some[:3]


def _repeated_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = [batch.column(0) for batch in batches]
    if not columns:
        return
    groups = pc.value_counts(pa.chunked_array(columns))
    values = groups.field("values").filter(pc.greater(groups.field("counts"), 1))
    some = [str(value) for value in sorted(values.slice(0, 1000).to_pylist())[:3]]
    yield pa.record_batch(
        [pa.array([len(values)]), pa.array([some], pa.list_(pa.string()))], names=["repeated", "some"]
    )
