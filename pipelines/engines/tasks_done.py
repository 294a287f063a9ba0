"""Tasks that say what they have done: each a plain function of its number and of the rows of its buckets, if any."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipelines.engines.rows import Batches, Rows, one_value
from pipelines.engines.spark_rows import numbered_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
