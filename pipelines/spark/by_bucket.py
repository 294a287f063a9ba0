"""Rows shuffled by the bucket of their object, each task a plain function that says what it has done.

Few rows are brought to this process, which costs less than a shuffle and tasks elsewhere.

Tasks whose workers do not search all that they have imported for garbage, as Spark's do after every task.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dtoss.buckets import BUCKETS
from pipelines.spark.causes import raised_in_task

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TASK = "task"


def done_by_bucket(
    frame: DataFrame,
    key: Column,
    tasks: int,
    work: Callable[[int, pa.Table], Any],
    task_of: Sequence[int] | None = None,
    few: int = -1,
) -> list[Any]:
    """Return what tasks say that they have done. One action.

    Where rows are few they come here, and the tasks run here one after another. Else there is one shuffle, and nothing
    that grows with rows comes back.

    ``tasks``: how many. One without rows may not run; ``work``: takes the number of the task and its rows, a table
    without columns where it has none; ``task_of``: (256,). The task of each bucket; when None task k has the buckets
    whose number is k modulo the tasks; ``few``: bytes of rows, as far as Spark can tell beforehand, up to which they
    come here.
    """
    if few >= 0:
        rows = collect_small(frame.withColumn(_TASK, _task(key, tasks, task_of)), few)
        if rows is not None:
            return _done_here(rows, tasks, work)
    return _told(shuffle_rows(frame, key, tasks, task_of), work)


def _done_here(table: pa.Table, tasks: int, work: Callable[[int, pa.Table], Any]) -> list[Any]:
    task = np.asarray(table.column(_TASK))
    order = np.argsort(task, kind="stable")
    ends = np.searchsorted(task[order], np.arange(tasks + 1)).tolist()
    rows = table.drop_columns([_TASK]).take(order)
    return [work(one, rows.slice(ends[one], ends[one + 1] - ends[one])) for one in range(tasks)]


def shuffle_rows(frame: DataFrame, key: Column, tasks: int, task_of: Sequence[int] | None = None) -> DataFrame:
    """Return rows with those of a task in the partition of its number; arguments as :func:`done_by_bucket`."""
    return frame.repartitionById(tasks, _task(key, tasks, task_of))


def _task(key: Column, tasks: int, task_of: Sequence[int] | None) -> Column:
    """Return the task of a key. 256 literals would be as many calls to Java, so they are one: two hex digits each."""
    from pyspark.sql import functions as F

    bucket = F.pmod(F.xxhash64(key), F.lit(BUCKETS))
    if task_of is None:
        return F.pmod(bucket, F.lit(tasks)).cast("int")
    digits = F.substring(F.lit(bytes(task_of).hex()), bucket.cast("int") * 2 + 1, 2)
    return F.conv(digits, 16, 10).cast("int")


def done_by_number(session: Any, tasks: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what tasks that have no rows say that they have done."""
    return _told(session.range(0, tasks, 1, tasks), lambda task, rows: work(task))


def _told(frame: DataFrame, work: Callable[[int, pa.Table], Any]) -> list[Any]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        kept = list(batches)
        table = pa.Table.from_batches(kept) if kept else pa.table({})
        done = work(0 if context is None else context.partitionId(), table)
        yield pa.record_batch([pa.array([pickle.dumps(done)], pa.binary())], names=["done"])

    try:
        told = frame.mapInArrow(freeze_imports(run), "done binary").toArrow()
    except Exception as error:
        if ours := raised_in_task(error):
            raise ours from error  # whoever asked takes it as what it is: bad rows end a job, a lost worker does not
        raise
    return [pickle.loads(one) for one in told.column("done").to_pylist()]


_LIMIT = "spark.driver.maxResultSize"


def collect_small(frame: DataFrame, most: int) -> pa.Table | None:
    """Return rows; None where they are too many to come here.

    ``most``: bytes up to which they come, as far as Spark can tell beforehand. What a file says in few bytes may be far
    more than that: where Spark finds more than it lets a process have, they stay as well.
    """
    if most < 0 or _expected_bytes(frame) > most:
        return None
    try:
        return frame.toArrow()
    except Exception as error:
        if _LIMIT in str(error):
            return None
        raise


def _expected_bytes(frame: DataFrame) -> int:
    """Return how large Spark expects rows to be; very large where it does not know."""
    java: object = frame._jdf
    return int(str(java.queryExecution().optimizedPlan().stats().sizeInBytes()))  # type: ignore[attr-defined]


_SETTLED = [0]


def freeze_imports(task: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Return a task for ``mapInArrow`` that does the same, and leaves what its worker has imported out of collections.

    A worker of Spark's collects garbage between two tasks: a twentieth of a second with what the kernels import.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from task(batches)
        settle()

    return run


def settle() -> None:
    """Leave what there is now out of all later collections, where modules were imported since the last time."""
    if len(sys.modules) > _SETTLED[0]:
        gc.collect()
        gc.freeze()
        _SETTLED[0] = len(sys.modules)
