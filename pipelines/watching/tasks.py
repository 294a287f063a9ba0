"""The tasks of a batch: rows exchanged by the bucket of their object, each task a plain function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.columnar_files import REJECTED
from dtoss.commits.offsets import Source
from dtoss.rows.input_columns import RAW, REASON, attribute_column
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, run_task
from dtoss.watch.watch_settings import Rows as TaskRows
from dtoss.watch.watch_settings import Settings
from pipelines.engines.rows import Rows
from pipelines.engines.spark_rows import done_by_bucket
from pipelines.watching.typed_rows import MICROS


def run_tasks(rows: Rows | None, plan: Plan, tasks: int) -> list[TaskResult]:
    """Return what the tasks of a batch have done. One exchange and one action; nothing that grows with rows comes back.

    ``rows``: of :func:`pipelines.watching.typed_rows.fit_rows`, with what they were read as; None where there are none.
    """
    done: list[TaskResult] = []
    if rows is not None:
        done = done_by_bucket(rows, key_of(plan), tasks, _task(plan, tasks))
    ran = {one.task for one in done}
    # a task of no rows may never have begun: objects of its buckets expire all the same
    rest = [task for task in range(tasks) if task not in ran]
    return done + [run_task(plan, task, buckets_of(task, tasks), plan.settings.no_rows) for task in rest]


def key_of(plan: Plan) -> str | None:
    """Return the column by which rows of a batch are given to tasks; None where messages are, by their number."""
    return "id" if plan.settings.id_type is not None else None


def buckets_of(task: int, tasks: int) -> NDArray[np.int64]:
    """Return the buckets of a task, int64, rising."""
    return np.arange(task, BUCKETS, tasks)


def _task(plan: Plan, tasks: int) -> Callable[[int, pa.Table], TaskResult]:
    # the commit before and the ledger may be long, and no task asks for them
    plan = replace(plan, after=None, source=Source())

    def work(task: int, table: pa.Table) -> TaskResult:
        rows, raw, bad = rows_in(table, plan.settings)
        return run_task(plan, task, buckets_of(task, tasks), rows, raw, bad)

    return work


def rows_in(table: pa.Table, settings: Settings) -> tuple[TaskRows, pa.Array | None, pa.Table | None]:
    """Return the good rows of a task's table, each as it was read, and the bad ones with their reasons."""
    id_kind = {"int64": pa.int64(), "string": pa.string(), None: None}[settings.id_type]
    if table.num_columns == 0 or len(table) == 0:
        return settings.no_rows, None, None
    good = table.column(REASON).is_null()
    bad = table.filter(table.column(REASON).is_valid())
    rejected = pa.table([bad.column(REASON), bad.column(RAW)], names=REJECTED.names).cast(REJECTED)
    table = table.filter(good).combine_chunks()
    columns = {name: _one(table.column(name)) for name in table.column_names}
    attributes = {name: columns[attribute_column(name)].cast(kind) for name, kind in settings.attributes.items()}
    positions = np.stack([columns["x"].to_numpy(), columns["y"].to_numpy()], axis=1)
    rows = TaskRows(
        np.ascontiguousarray(positions, np.float64),
        None if id_kind is None else columns["id"].cast(id_kind),
        None if settings.time is None else np.asarray(columns[MICROS].to_numpy(), np.int64),
        None if settings.text is None else attributes[settings.text].cast(pa.string()),
        attributes,
    )
    return rows, columns[RAW], rejected


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def busiest(done: Sequence[TaskResult]) -> float:
    """Return the seconds of the task that took longest."""
    return max((one.seconds for one in done), default=0.0)
