"""Rows in this process: tasks on threads, which run side by side where Arrow and the kernels work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from dtoss.buckets import BUCKETS, bucket_of, hashes_of
from dtoss.locks import processors
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from pipelines.engines.progress import count_tasks
from pipelines.engines.rows import Batches, NumberedWork, Work, one_value
from pipelines.engines.spool import Spool

FAT_ROW = 4096
"""Bytes of a row from which on it is passed on where it lies; smaller ones are copied to lie together."""
_NUMBER = "_number"
_TASK_BITS = 33
"""Of the number of a row those below are its place in its task, as Spark's ``monotonically_increasing_id`` has it."""
_T = TypeVar("_T")
_R = TypeVar("_R")


class _Cancelled(Exception):
    """Another task has failed."""


@dataclass(frozen=True)
class LocalRows:
    """Rows of tasks, each a function that yields its batches. Rows that were exchanged can be gone through once."""

    tasks: Sequence[Callable[[], Batches]]

    @property
    def session(self) -> None:
        """As :meth:`pipelines.engines.rows.Rows.session`."""
        return None

    def map(self, work: Work, schema: Any = "") -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.map`."""
        return LocalRows([partial(_start, work, task) for task in self.tasks])

    def map_numbered(self, work: NumberedWork, schema: Any = "") -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.map_numbered`."""
        return LocalRows([partial(_start, partial(work, number), task) for number, task in enumerate(self.tasks)])

    def exchange(self, tasks: int, column: str = "task") -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.exchange`; what comes before is done now."""
        return self._exchange_by(tasks, lambda batch: values_of(batch.column(column)))

    def exchange_by_hash(self, tasks: int, column: str) -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.exchange_by_hash`; what comes before is done now."""
        return self._exchange_by(tasks, lambda batch: hashes_of(batch.column(column)) % tasks)

    def exchange_by_bucket(self, tasks: int, column: str | None, task_of: Sequence[int] | None = None) -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.exchange_by_bucket`; what comes before is done now."""
        table = np.arange(BUCKETS) % tasks if task_of is None else np.array(task_of)
        if column is not None:
            return self._exchange_by(tasks, lambda batch: table[bucket_of(batch.column(column))])
        shared = self.map_numbered(_with_numbers)._exchange_by(
            tasks, lambda rows: table[bucket_of(rows.column(_NUMBER))]
        )
        return shared.map(lambda batches: (batch.drop_columns([_NUMBER]) for batch in batches))

    def union(self, other: LocalRows) -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.union`."""
        return LocalRows([*self.tasks, *other.tasks])

    def brought_here(self, most: int) -> LocalRows:
        """As :meth:`pipelines.engines.rows.Rows.brought_here`: they are."""
        return self

    def table(self, schema: pa.Schema) -> pa.Table:
        """As :meth:`pipelines.engines.rows.Rows.table`."""
        return pa.Table.from_batches([batch for batches in self.collect() for batch in batches], schema)

    def values(self) -> list[Any]:
        """As :meth:`pipelines.engines.rows.Rows.values`."""
        return [value for batches in self.collect() for batch in batches for value in batch.column(0).to_pylist()]

    def collect(self) -> list[list[pa.RecordBatch]]:
        """Return the batches of each task."""
        return run_all(self.tasks, list)

    def keep(self, part: Callable[[pa.RecordBatch], tuple[pa.RecordBatch, _T]]) -> tuple[LocalRows, list[_T]]:
        """Return rows that can be gone through often, of what ``part`` returns for each batch, and the rest of it.

        They wait as exchanged rows do, in memory or in a file.
        """
        spool = Spool(len(self.tasks), keep=True)

        def keep_task(batches: Iterator[tuple[int, pa.RecordBatch]]) -> list[_T]:
            beside = []
            for task, batch in batches:
                kept, one = part(batch)
                spool.add(task, kept, task)
                beside.append(one)
            return beside

        found = run_all([partial(_with_origin, task, work) for task, work in enumerate(self.tasks)], keep_task)
        return LocalRows([partial(spool.read, task) for task in range(len(self.tasks))]), list(chain(*found))

    def _exchange_by(self, tasks: int, task_of: Callable[[pa.RecordBatch], Any]) -> LocalRows:
        spool = Spool(tasks)

        def share(batches: Iterator[tuple[int, pa.RecordBatch]]) -> None:
            for origin, batch in batches:
                for task, part in _parts(batch, np.asarray(task_of(batch))):
                    spool.add(task, part, origin)

        run_all([partial(_with_origin, origin, task) for origin, task in enumerate(self.tasks)], share)
        return LocalRows([partial(spool.read, task) for task in range(tasks)])


def _with_origin(origin: int, task: Callable[[], Batches]) -> Iterator[tuple[int, pa.RecordBatch]]:
    return ((origin, batch) for batch in task())


def _start(work: Work, task: Callable[[], Batches]) -> Batches:
    return work(task())


def _with_numbers(task: int, batches: Batches) -> Batches:
    """Yield batches with the number of each row."""
    first = task << _TASK_BITS
    for batch in batches:
        yield batch.append_column(_NUMBER, arrow_of(np.arange(first, first + len(batch))))
        first += len(batch)


def _parts(batch: pa.RecordBatch, task: Any) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch by their tasks, in their order."""
    if len(batch) == 0:
        return
    if batch.nbytes > FAT_ROW * len(batch):
        yield from ((int(task[row]), batch.slice(row, 1)) for row in range(len(batch)))
        return
    first = int(task[0])
    if (task == first).all():
        yield first, batch
        return
    order = np.argsort(task.astype(np.uint16), kind="stable")
    numbers, begins = np.unique(task[order], return_index=True)
    # each part is memory of its own, which is free once that part was read
    for number, rows in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
        yield number, batch.take(arrow_of(rows))


def run_all(tasks: Sequence[Callable[[], Iterator[_T]]], finish: Callable[[Iterator[_T]], _R]) -> list[_R]:
    """Return what is made of the batches of each task; so many run at a time as there are processors.

    The error of the first task that failed is raised, and the others end at their next batch.
    """
    over, finished = threading.Event(), count_tasks(len(tasks))

    def watched(task: Callable[[], Iterator[_T]]) -> Iterator[_T]:
        for batch in task():
            if over.is_set():
                raise _Cancelled
            yield batch

    def one(task: Callable[[], Iterator[_T]]) -> _R:
        if over.is_set():
            raise _Cancelled
        try:
            made = finish(watched(task))
            finished()
            return made
        except BaseException:
            over.set()
            raise

    if min(len(tasks), processors()) <= 1:
        return [one(task) for task in tasks]
    with ThreadPoolExecutor(min(len(tasks), processors()), "dtoss-task") as pool:
        try:
            waiting = [pool.submit(one, task) for task in tasks]
            errors = [error for each in waiting if (error := each.exception()) is not None]
        finally:
            over.set()
    for error in errors:
        if not isinstance(error, _Cancelled):
            raise error
    return [each.result() for each in waiting]


def tasks_here(tasks: int) -> LocalRows:
    """Return so many tasks, each with its number as its only row."""
    return LocalRows([partial(_number, number) for number in range(tasks)])


def _number(number: int) -> Batches:
    yield one_value("id", number)


def rows_of_batches(groups: Sequence[Sequence[pa.RecordBatch]]) -> LocalRows:
    """Return rows that are in memory; each group is a task."""
    return LocalRows([partial(iter, group) for group in groups])
