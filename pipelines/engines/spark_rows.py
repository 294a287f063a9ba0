"""Rows of Spark's, and tasks of either engine that have a number each."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from dtoss.errors import InputError
from pipelines.engines.local_rows import LocalRows, rows_of_batches, tasks_here
from pipelines.engines.rows import Batches, NumberedWork, Rows, Schema, Work, one_value
from pipelines.spark.by_bucket import collect_small, shuffle_rows
from pipelines.spark.garbage import leave_out_what_stays
from pipelines.spark.session import raised_in_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class SparkRows:
    """Rows of a DataFrame, and what tasks make of them: functions that follow each other, in one worker of Python's."""

    source: DataFrame
    works: tuple[NumberedWork, ...] = ()
    schema: Schema = ""  # Of what the last of them yields
    # What tasks begin with, where this process may do their work itself, and the bytes that they read
    here: tuple[LocalRows, int] | None = None

    @property
    def session(self) -> SparkSession:
        """The one that has them."""
        return self.source.sparkSession

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark has them."""
        if not self.works:
            return self.source
        return self.source.mapInArrow(partial(_one_by_one, self.works), struct_of(self.schema))

    def map(self, work: Work, schema: Schema) -> SparkRows:
        """As :meth:`Rows.map`."""
        return self.map_numbered(partial(_without_number, work), schema)

    def map_numbered(self, work: NumberedWork, schema: Schema) -> SparkRows:
        """As :meth:`Rows.map_numbered`."""
        return replace(self, works=(*self.works, work), schema=schema)

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
        if self.here is None:
            table = collect_small(self.frame, most)
            return self if table is None else rows_of_batches([table.to_batches()])
        rows, size = self.here
        if size > most:
            return self
        for work in self.works:
            rows = rows.map_numbered(work)
        return rows

    def table(self, schema: pa.Schema | None = None) -> pa.Table:
        """As :meth:`Rows.table`; the columns are as Spark has them."""
        try:
            return self.frame.toArrow()
        except Exception as error:
            if ours := raised_in_task(error):
                raise ours from error  # whoever asked takes it as it is: bad rows end a job, a lost worker does not
            raise

    def values(self) -> list[Any]:
        """As :meth:`Rows.values`."""
        return list(self.table().column(0).to_pylist())


def _one_by_one(works: Sequence[NumberedWork], batches: Batches) -> Batches:
    from pyspark import TaskContext

    leave_out_what_stays()
    task = TaskContext.get()
    number = task.partitionId() if task else 0
    for work in works:
        batches = work(number, batches)
    return batches


def _without_number(work: Work, task: int, batches: Batches) -> Batches:
    return work(batches)


def struct_of(schema: Schema) -> StructType | str:
    """Return columns as Spark is told of them; a time without a zone stays one."""
    if not isinstance(schema, pa.Schema):
        return schema
    from pyspark.errors import PySparkException
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    fields = []
    for one in schema:
        try:
            fields.append(T.StructField(one.name, from_arrow_type(one.type, True)))
        except (PySparkException, TypeError):
            raise InputError(f"column {one.name!r} is {one.type}, which Spark does not have") from None
    return T.StructType(fields)


def numbered_tasks(session: SparkSession | None, tasks: int, size: int | None = None) -> Rows:
    """Return so many tasks, each with its number as its only row; in this process without a session.

    ``size``: bytes that tasks read, which this process may read itself where they are few; None where it may not.
    """
    if session is None:
        return tasks_here(tasks)
    return SparkRows(session.range(0, tasks, 1, tasks), here=None if size is None else (tasks_here(tasks), size))


def done_by_bucket(
    rows: Rows,
    column: str | None,
    tasks: int,
    work: Callable[[int, pa.Table], Any],
    task_of: Sequence[int] | None = None,
    few: int = -1,
) -> list[Any]:
    """Return what tasks say that they have done. One exchange and one action; nothing that grows with rows comes back.

    ``column``, ``tasks``, ``task_of``: as :meth:`pipelines.engines.rows.Rows.exchange_by_bucket`; ``work``: takes the
    number of the task and its rows, a table without columns where it has none. One without rows may not run in Spark;
    ``few``: bytes of rows, as far as Spark can tell beforehand, up to which all is done in this process.
    """
    return done_by_all(rows.brought_here(few).exchange_by_bucket(tasks, column, task_of), work)


def done_by_number(session: SparkSession | None, tasks: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what tasks that have no rows say that they have done; in this process without a session."""
    return done_by_all(numbered_tasks(session, tasks), lambda task, rows: work(task))


def done_by_all(rows: Rows, work: Callable[[int, pa.Table], Any]) -> list[Any]:
    """Return what each task says that it has done; ``work`` as :func:`done_by_bucket` has it."""

    def run(task: int, batches: Batches) -> Batches:
        kept = list(batches)
        done = work(task, pa.Table.from_batches(kept) if kept else pa.table({}))
        yield one_value("done", pickle.dumps(done))

    return [pickle.loads(one) for one in rows.map_numbered(run, "done binary").values()]


class TaskCounts(Protocol):
    """Counts by the number of the task; one that runs again says its own again."""

    value: dict[int, int]

    def add(self, counts: dict[int, int]) -> None:
        """Take over counts of some tasks."""
        ...


@dataclass
class CountsHere:
    """Counts of tasks of this process."""

    value: dict[int, int] = field(default_factory=dict)

    def add(self, counts: dict[int, int]) -> None:
        """As :meth:`TaskCounts.add`."""
        self.value.update(counts)


def task_counts(session: SparkSession | None) -> TaskCounts:
    """Return counts that tasks can add to, none yet; they are known once an action has ended."""
    if session is None:
        return CountsHere()
    from pipelines.spark.counts_by_task import BY_TASK

    return session.sparkContext.accumulator({}, BY_TASK)
