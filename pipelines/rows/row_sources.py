"""Where raw rows come from: files cut into pieces, tables, frames of Spark with places, rows that a job has made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.geometry.space import FURTHEST, Space
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.snapshots.column_types import stored_column
from dtoss.text.text_values import LOOSE
from pipelines.engines.local_rows import LocalRows
from pipelines.engines.rows import Batches, Rows, Schema
from pipelines.engines.spark_rows import SparkRows, numbered_tasks
from pipelines.rows.table_formats import PACKED
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


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


def exactly(name: str) -> Column:
    """Return the column of a name, whatever characters are in it."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")


def number(value: Column) -> Column:
    """Return the number in a text, null where there is none."""
    from pyspark.sql import functions as F

    return F.when(value.rlike(LOOSE), value.try_cast("double"))


def coordinate(name: str, kind: Any) -> Column:
    """Return a column of some type as double, null where a text is not a number."""
    from pyspark.sql import types as T

    if isinstance(kind, T.NumericType):
        return exactly(name).cast("double")
    if isinstance(kind, T.StringType):
        return number(exactly(name))
    raise InputError(f"column {name!r} is {kind.simpleString()}: coordinates are numbers")


def out_of_range(x: Column, y: Column, space: Space) -> Column:
    """Return where numbers are not a legal position in a space."""
    from pyspark.sql import functions as F

    if space.geographic:
        return (F.abs(x) > 180.0) | (F.abs(y) > 90.0)
    outside = (F.abs(x) > FURTHEST) | (F.abs(y) > FURTHEST)
    return outside | ~_transformable(space)(x, y) if space.to_lonlat else outside


def _transformable(space: Space) -> Any:
    """Return the function that says which positions in a projected CRS are places on the sphere."""
    from pyspark.sql.functions import arrow_udf

    def inside(x: pa.Array, y: pa.Array) -> pa.Array:
        places = np.stack([a.fill_null(0.0).to_numpy(zero_copy_only=False) for a in (x, y)], axis=1)
        # what is larger than it may be has a reason of its own
        places[~(np.abs(places) <= FURTHEST).all(axis=1)] = 0.0
        return arrow_of(space.legal(places))

    return arrow_udf(inside, "boolean")


Place = tuple[fs.FileSystem, str]
"""A file system, and the path of a file there."""
LEAST, MOST = 4 << 20, 64 << 20
"""Bytes of a task, about: fewer are not worth one, and more would keep other processors waiting."""
BLOCK = 1 << 22
"""Bytes that are read at a time."""

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Piece:
    """A part of a file."""

    file: int
    begin: int = 0  # A byte: the piece begins with the first line that begins there or behind
    end: int | None = None  # A byte: the piece ends where another one would begin there; None for the end of the file


def folder_values(folders: Sequence[str]) -> dict[str, list[str | None]]:
    """Return the values of the columns that names of folders say, for each file; whole numbers without their zeros."""
    pairs = [[level.partition("=")[::2] for level in below.split("/") if level] for below in folders]
    said = [{unquote(name): None if value == _NO_VALUE else unquote(value) for name, value in some} for some in pairs]
    found = {name: [one.get(name) for one in said] for name in dict.fromkeys(name for one in said for name in one)}
    for name, values in found.items():
        if all(value is None or _WHOLE.fullmatch(value) for value in values):
            found[name] = [None if value is None else str(int(value)) for value in values]
    return found


def bytes_of_task(total: int, tasks: int, least: int = LEAST) -> int:
    """Return about how many bytes a task is to read, given those of all files and how many tasks run at a time."""
    return min(MOST, max(least, -(-total // max(tasks, 1))))


def cut(sizes: Sequence[int], whole: Sequence[bool], each: int) -> list[Piece]:
    """Return files of such sizes as pieces of about so many bytes each, some of them whole."""
    pieces: list[Piece] = []
    for file, (size, uncut) in enumerate(zip(sizes, whole, strict=True)):
        many = 1 if uncut else max(size // each, 1)
        begins = [size * i // many for i in range(many)]
        pieces += [Piece(file, begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]
    return pieces


def groups_of(pieces: Sequence[Piece], sizes: Sequence[int], each: int) -> list[list[Piece]]:
    """Return pieces in their order, so many together as make about so many bytes."""
    groups: list[list[Piece]] = []
    held = each
    for piece in pieces:
        if held >= each:
            groups.append([])
            held = 0
        groups[-1].append(piece)
        held += (sizes[piece.file] if piece.end is None else piece.end) - piece.begin + (each >> 8)
    return groups


def groups_in(
    session: SparkSession | None, sizes: Sequence[int], whole: Sequence[bool], least: int = LEAST
) -> list[list[Piece]]:
    """Return files of such sizes in groups of pieces, a task each, some of them whole.

    No file of fewer than ``least`` bytes is shared by tasks.
    """
    each = bytes_of_task(sum(sizes), cores(session), least)
    return groups_of(cut(sizes, whole, each), sizes, each)


def blocks_of(place: Place, piece: Piece | None = None, *, block: int = BLOCK) -> Iterator[bytes]:
    """Yield the bytes of the lines of a piece, or of a whole file, unpacked where its name says that it is packed."""
    filesystem, file = place
    if piece is None or (piece.begin == 0 and piece.end is None):
        packed = "detect" if file.lower().endswith(PACKED) else None
        with filesystem.open_input_stream(file, compression=packed) as stream:
            yield from blocks_in(stream, block)
        return
    with filesystem.open_input_file(file) as stream:
        begin = line_begin(stream, piece.begin)
        left = (stream.size() if piece.end is None else line_begin(stream, piece.end)) - begin
        stream.seek(begin)
        while left > 0 and (some := stream.read(min(block, left))):
            left -= len(some)
            yield some


def blocks_in(stream: BinaryIO | pa.NativeFile, block: int = BLOCK) -> Iterator[bytes]:
    """Yield the bytes of a stream."""
    while some := stream.read(block):
        yield some


def line_begin(stream: pa.NativeFile, at: int, *, step: int = 1 << 16) -> int:
    """Return where the first line begins that begins at a byte or behind; lines end in a line feed."""
    if at == 0:
        return 0
    stream.seek(at - 1)
    seen = at - 1
    while some := stream.read(step):
        found = some.find(b"\n")
        if found >= 0:
            return seen + found + 1
        seen += len(some)
    return seen


@contextmanager
def reading(file: str, kind: str) -> Iterator[None]:
    """Turn what keeps a file from being read into an error that names it."""
    try:
        yield
    except (OSError, EOFError, pa.ArrowException) as error:
        said = str(error).splitlines()[0]
        short = ", it may be cut short" if isinstance(error, EOFError) or "runcated" in said else ""
        raise InputError(f"{file} cannot be read as {kind}{short}: {said}") from None
