"""Rows of Spark's, and tasks of either engine that have a number each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.engines.local_rows import numbered, rows_of_batches
from pipelines.engines.rows import Batches, NumberedWork, Rows, Work
from pipelines.spark.by_bucket import collect_small, freeze_imports, shuffle_rows
from pipelines.spark.causes import raised_in_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame."""

    frame: DataFrame

    def map(self, work: Work, schema: str | StructType) -> SparkRows:
        """As :meth:`Rows.map`."""
        return SparkRows(self.frame.mapInArrow(freeze_imports(work), schema))

    def map_numbered(self, work: NumberedWork, schema: str) -> SparkRows:
        """As :meth:`Rows.map_numbered`."""

        def run(batches: Batches) -> Batches:
            from pyspark import TaskContext

            task = TaskContext.get()
            return work(task.partitionId() if task else 0, batches)

        return self.map(run, schema)

    def exchange(self, tasks: int, column: str = "task") -> SparkRows:
        """As :meth:`Rows.exchange`."""
        from pyspark.sql import functions as F

        return SparkRows(self.frame.repartitionById(tasks, F.col(column)))

    def exchange_by_hash(self, tasks: int, column: str) -> SparkRows:
        """As :meth:`Rows.exchange_by_hash`."""
        from pyspark.sql import functions as F

        return SparkRows(self.frame.repartitionById(tasks, F.pmod(F.xxhash64(column), F.lit(tasks)).cast("int")))

    def exchange_by_bucket(self, tasks: int, column: str | None, task_of: Sequence[int] | None = None) -> SparkRows:
        """As :meth:`Rows.exchange_by_bucket`."""
        return SparkRows(shuffle_rows(self.frame, column, tasks, task_of))

    def union(self, other: SparkRows) -> SparkRows:
        """As :meth:`Rows.union`."""
        return SparkRows(self.frame.unionByName(other.frame))

    def brought_here(self, most: int) -> Rows:
        """As :meth:`Rows.brought_here`."""
        table = collect_small(self.frame, most)
        return self if table is None else rows_of_batches([table.to_batches()])

    def values(self) -> list[Any]:
        """As :meth:`Rows.values`."""
        try:
            return list(self.frame.toArrow().column(0).to_pylist())
        except Exception as error:
            if ours := raised_in_task(error):
                raise ours from error  # whoever asked takes it as it is: bad rows end a job, a lost worker does not
            raise


def numbered_tasks(session: SparkSession | None, tasks: int) -> Rows:
    """Return so many tasks, each with its number as its only row; in this process without a session."""
    if session is None:
        return numbered(tasks)
    return SparkRows(session.range(0, tasks, 1, tasks))
