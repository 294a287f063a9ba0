"""Where raw rows come from: files, tables, frames of Spark, rows that a job has made. Tasks of either engine read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from dtoss.partition import values_of
from dtoss.snapshots.column_types import stored_column
from pipelines.engines.local_rows import LocalRows
from pipelines.engines.rows import Batches, Rows, Schema
from pipelines.engines.spark_rows import SparkRows, numbered_tasks
from pipelines.rows.file_splits import Piece
from pipelines.rows.place_columns import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read: TypeAlias = Callable[[Sequence[str]], Batches]
"""What yields some columns of a task's rows."""
Task: TypeAlias = Callable[[int, Read], Batches]
"""What is made of a task's rows: a plain function of its number and of what reads them."""


class Source(Protocol):
    """Raw rows in tasks, the same in each pass."""

    @property
    def session(self) -> SparkSession | None:
        """The Spark whose tasks read; None where those of this process do."""
        ...

    @property
    def again(self) -> bool:
        """Whether a task can read its rows again in other columns; else it reads them once, in those it has named."""
        ...

    def rows(self, task: Task, columns: Sequence[str], schema: Schema) -> Rows:
        """Return what is made of each task's rows, of which these columns are read first; ``schema``: of the result."""
        ...


@dataclass(frozen=True)
class TableSource:
    """Rows of tables; each is a task of this process."""

    tables: Sequence[pa.Table]
    session = None
    again = True

    def rows(self, task: Task, columns: Sequence[str], schema: Schema = "") -> LocalRows:
        """As :meth:`Source.rows`."""
        return LocalRows([partial(task, i, partial(_of_table, table)) for i, table in enumerate(self.tables)])


def _of_table(table: pa.Table, columns: Sequence[str]) -> Batches:
    return iter(table.select(list(columns)).to_batches())


@dataclass(frozen=True)
class MadeRows:
    """Rows that a job has made, whose tasks may be gone through once in a pass."""

    made: Rows
    again = False

    @property
    def session(self) -> SparkSession | None:
        """As :attr:`Source.session`."""
        return self.made.session

    def rows(self, task: Task, columns: Sequence[str], schema: Schema) -> Rows:
        """As :meth:`Source.rows`."""
        return self.made.map_numbered(lambda number, batches: task(number, partial(_select, batches)), schema)


@dataclass(frozen=True)
class FrameSource:
    """Rows of a DataFrame, of whose columns only those that are asked for travel to Python."""

    frame: DataFrame
    again = False

    @property
    def session(self) -> SparkSession:
        """As :attr:`Source.session`."""
        return self.frame.sparkSession

    def rows(self, task: Task, columns: Sequence[str], schema: Schema) -> Rows:
        """As :meth:`Source.rows`."""
        # Spark does not find all names again that it has let through
        chosen = self.frame.select(*(exactly(name).alias(f"c{i}") for i, name in enumerate(columns)))
        return MadeRows(SparkRows(chosen).map(partial(_name_columns, columns), schema)).rows(task, columns, schema)


def _name_columns(names: Sequence[str], batches: Batches) -> Batches:
    return (batch.rename_columns(list(names)) for batch in batches)


def _select(batches: Batches, columns: Sequence[str]) -> Batches:
    for batch in batches:
        rows = batch.select(list(columns))
        yield pa.record_batch([*map(stored_column, rows.columns)], names=rows.schema.names)


@dataclass(frozen=True)
class FileSource:
    """Rows of files, in groups of pieces; each group is a task."""

    session: SparkSession | None
    groups: Sequence[Sequence[Piece]]
    read: Callable[..., Batches]  # Takes a piece and the names of columns
    size: int  # Bytes of the files
    again = True

    def rows(self, task: Task, columns: Sequence[str], schema: Schema) -> Rows:
        """As :meth:`Source.rows`."""
        groups, read = self.groups, self.read

        def run(batches: Batches) -> Batches:
            for batch in batches:
                for number in values_of(batch.column(0)).tolist():
                    yield from task(number, partial(_of_group, groups[number], read))

        return numbered_tasks(self.session, len(groups), self.size).map(run, schema)


def _of_group(group: Sequence[Piece], read: Callable[..., Batches], columns: Sequence[str]) -> Batches:
    for piece in group:
        for batch in read(piece, columns):
            yield batch.select(list(columns))


@dataclass(frozen=True)
class KeptSource:
    """Rows of files of which this process keeps some columns once they were read."""

    source: FileSource
    names: Sequence[str]
    session = None
    again = True

    @cached_property
    def _kept_rows(self) -> LocalRows:
        rows = self.source.rows(lambda number, read: read(self.names), self.names, "")
        assert isinstance(rows, LocalRows)
        return rows.keep(lambda batch: (batch, None))[0]

    def rows(self, task: Task, columns: Sequence[str], schema: Schema) -> Rows:
        """As :meth:`Source.rows`."""
        if not set(columns) <= set(self.names):
            return self.source.rows(task, columns, schema)
        kept, names = self._kept_rows, set(self.names)

        def either(number: int, read: Read) -> Batches:
            def known(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
                if set(columns) <= names:
                    return (batch.select(list(columns)) for batch in kept.tasks[number]())
                return read(columns)

            return task(number, known)

        return self.source.rows(either, columns, schema)
