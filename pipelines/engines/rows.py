"""Rows that a job works on, in tasks: what it may ask of them.

A job is written once, of these verbs. It does not know which engine carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from dtoss.partition import numbers, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Batches: TypeAlias = Iterator[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Batches]
"""What a task does: a plain function of its batches."""
NumberedWork: TypeAlias = Callable[[int, Batches], Batches]
"""What a task does that knows its number."""
Schema: TypeAlias = pa.Schema | str
"""Columns: of Arrow, or as Spark writes them."""


class Rows(Protocol):
    """Rows in tasks."""

    @property
    def session(self) -> SparkSession | None:
        """The Spark that has them; None where this process has."""
        ...

    def map(self, work: Work, schema: Schema) -> Rows:
        """Return what ``work`` makes of the batches of each task; ``schema``: its columns."""
        ...

    def map_numbered(self, work: NumberedWork, schema: Schema) -> Rows:
        """As :meth:`map`; ``work`` is told the number of the task first, which is the same when it is tried again."""
        ...

    def exchange(self, tasks: int, column: str = "task") -> Rows:
        """Return the rows in so many tasks, each in that whose number stands in a column."""
        ...

    def exchange_by_hash(self, tasks: int, column: str) -> Rows:
        """Return the rows in so many tasks, each in that which the hash of a column says; equal values lie together."""
        ...

    def exchange_by_bucket(self, tasks: int, column: str | None, task_of: Sequence[int] | None = None) -> Rows:
        """Return the rows in so many tasks, each in that of the bucket of its id, or of its number without a column.

        ``task_of``: (256,). The task of each bucket; when None task k has those whose number is k modulo the tasks.
        """
        ...

    def union(self, other: Any) -> Rows:
        """Return these rows and others of the same engine and columns behind them, in tasks of their own."""
        ...

    def brought_here(self, most: int) -> Rows:
        """Return the rows in this process where they are expected to take at most so many bytes; else as they are."""
        ...

    def table(self, schema: pa.Schema) -> pa.Table:
        """Return all rows, of such columns: an action. An error of ours that a task has raised is raised."""
        ...

    def values(self) -> list[Any]:
        """Return the values of the first column, as :meth:`table`."""
        ...


def one_value(name: str, value: Any) -> pa.RecordBatch:
    """Return a batch of one row and one column: a text, a number, or bytes."""
    if isinstance(value, bytes):
        ends = np.array([0, len(value)], np.int32)
        column = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(value)])
    else:
        column = texts([value]) if isinstance(value, str) else numbers(np.array([value]))
    return pa.record_batch([column], names=[name])
