"""What tasks read of a history: chosen blocks of a version, which each worker opens once.

Where a history is, for processes that may run in another folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.history.data_file import Reads
from dtoss.history.query.block_queries import BlockQueries, Spans, stored_kind
from dtoss.history.query.place_batches import cuts
from dtoss.history.query.range_query import asked_of_shapes
from dtoss.history.query.read_plan import ChosenBlocks, gather_column, plan
from dtoss.history.query.scan_blocks import Piece, Scan, condition_on, pieces_of, read_columns
from dtoss.history.versions import Home, Version
from dtoss.queries.covered import boxes_of
from dtoss.snapshots.column_types import stored_type, type_name
from pipelines.engines.rows import Batches, Rows, Work
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.spark.garbage import leave_out_what_stays
from pipelines.spark.session import configure_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASK_ROWS = 1_000_000
"""Rows of the blocks that a task reads, about."""
BATCH_ROWS = 65_536
"""Rows of a batch on its way to Java, at the most."""


@lru_cache(maxsize=2)
def open_version(home: Home, number: int) -> Version:
    """Return a version, its tables mapped; kept for the next task of this process."""
    return home.version(number)


@dataclass(frozen=True)
class PastScan:
    """Which rows of a version are read, and in which columns."""

    home: Home  # home, number: the history and its version
    number: int
    names: tuple[str, ...]  # The columns, as the schema calls them
    span: tuple[int | float, int | float]  # Earliest and latest time, as times are stored; both are within
    box: tuple[float, ...] | None = None  # As in :meth:`dtoss.Index.box`, or None
    where: str | None = None  # A condition on the rows, or None
    deletions: bool = False  # Whether rows come that are deletions

    def chosen(self) -> ChosenBlocks:
        """Return the blocks that can hold such rows."""
        version = open_version(self.home, self.number)
        kind = stored_kind(version.schema)
        spans = Spans(*(np.full(1, end, kind) for end in self.span))
        if self.box is None:
            return plan(version, BlockQueries(spans)).chosen
        return plan(
            version, asked_of_shapes(boxes_of(self.box, version.schema.space), spans, version.schema.space)
        ).chosen

    def rows(self, chosen: ChosenBlocks) -> Iterator[pa.Table]:
        """Yield the rows of chosen blocks that are wanted, some blocks at a time."""
        version = open_version(self.home, self.number)
        condition = condition_on(version.schema, self.where)
        columns = read_columns(self.names, version.schema)
        for piece in pieces_of(Scan(self.home, version, columns, condition, Reads(), self.deletions), chosen):
            yield piece.rows.filter(pa.array(self._wanted(piece, version))).select(list(self.names))

    def _wanted(self, piece: Piece, version: Version) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = piece.good & (piece.t >= self.span[0]) & (piece.t <= self.span[1])
        if self.box is not None:
            ((shape,),) = boxes_of(self.box, version.schema.space)
            positions = piece.positions(np.arange(len(piece.rows)))
            # boxes compare positions as they were read, and look at no vectors
            mask &= shape.holds(positions, positions)
        return mask


def rows_frame(session: SparkSession, scan: PastScan, chosen: ChosenBlocks, called: Sequence[str]) -> DataFrame:
    """Return the rows of a scan as a DataFrame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    version = open_version(scan.home, scan.number)
    types = spark_types(version.schema.arrow, scan.names, called)
    tasks = _tasks(version, chosen)
    if not tasks:
        return configure_session(session).createDataFrame([], types)
    read = _reader(scan, tasks, to_arrow_schema(types, timezone="UTC"))
    return configure_session(session).range(0, len(tasks), 1, len(tasks)).mapInArrow(read, types)


def scan_rows(
    session: SparkSession | None,
    scan: PastScan,
    chosen: ChosenBlocks,
    schema: pa.Schema,
    kept: Callable[[pa.Table], pa.Table],
) -> Rows:
    """Return the rows of a scan that are kept of those of each task, in the columns of a schema that snapshots have."""
    tasks = _tasks(open_version(scan.home, scan.number), chosen)
    if session is not None:
        configure_session(session)
    return numbered_tasks(session, max(len(tasks), 1)).map(_reader(scan, tasks, schema, kept), schema)


def _reader(
    scan: PastScan,
    tasks: Sequence[ChosenBlocks],
    schema: pa.Schema,
    kept: Callable[[pa.Table], pa.Table] | None = None,
) -> Work:
    """Return what reads the blocks of tasks whose numbers it is given, in the columns of a schema."""

    def read(batches: Batches) -> Batches:
        leave_out_what_stays()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for chosen in tasks[number : number + 1]:
                    found = (rows.rename_columns(schema.names) for rows in scan.rows(chosen))
                    for rows in found if kept is None else [kept(pa.concat_tables(found))]:
                        yield from as_batches(rows, schema)

    return read


def as_batches(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in the names and types of a schema."""
    if len(rows):
        columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
        yield from pa.table(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)


def _tasks(version: Version, chosen: ChosenBlocks) -> list[ChosenBlocks]:
    """Return blocks in groups for a task each, neighbours together."""
    rows = gather_column(version, chosen, "rows")
    return [chosen.take(np.arange(begin, end)) for begin, end in cuts(rows, TASK_ROWS)]


def stored_schema(schema: pa.Schema, names: Sequence[str], called: Sequence[str]) -> pa.Schema:
    """Return columns of a schema under other names, in the types that snapshots have for theirs."""
    fields = []
    for name, title in zip(names, called, strict=True):
        kind = schema.field(name).type
        try:
            if pa.types.is_duration(kind):
                raise TypeError("no snapshot has it")
            fields.append(pa.field(title, stored_type(kind)))
            type_name(fields[-1].type)
        except TypeError:
            raise InputError(f"column {name!r} is {kind}, which no snapshot has: name others (columns)") from None
    return pa.schema(fields)


def spark_types(schema: pa.Schema, names: Sequence[str], called: Sequence[str]) -> StructType:
    """Return the Spark types of columns of a schema; unsigned ones are the next that hold all their values."""
    from pyspark.errors import PySparkException
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    fields = []
    for name, title in zip(names, called, strict=True):
        kind = schema.field(name).type
        try:
            # a time without a zone stays one
            found = from_arrow_type(_SIGNED.get(kind, kind), True)
        except (PySparkException, TypeError):
            raise InputError(f"column {name!r} is {kind}, which Spark does not have: name others (columns)") from None
        fields.append(T.StructField(title, found))
    return T.StructType(fields)


_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}


def home_of(history: str) -> Home:
    """Return where a history is; workers of a cluster run in other directories, and a URI stays as it is."""
    return Home(str(history) if "://" in str(history) else str(Path(history).absolute()))
