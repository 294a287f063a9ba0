"""Rows of a history as a DataFrame: the driver chooses blocks, tasks read them.

Spark needs no jar for it: tasks read with the code of a process without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.conditions.parse import Condition
from dtoss.errors import InputError
from dtoss.geometry.disc_cover import cover_box
from dtoss.history.joining import (
    READ_ROWS,
    Piece,
    condition_on,
    cuts,
    pieces_of,
    request_bytes,
    satisfying,
    stored_name,
)
from dtoss.history.meeting import Asked, time_keys
from dtoss.history.reading import read_blocks
from dtoss.history.rows import t_numbers
from dtoss.history.schema import Schema
from dtoss.history.times import interval_of
from dtoss.history.versions import Home, Version
from dtoss.names import not_carried
from dtoss.queries.areas.covered import as_boxes, boxes_of
from pipelines.spark.session import configured
from pipelines.spark.settled import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TASK_ROWS = 1_000_000
"""Rows of the blocks that a task reads, about."""
BATCH_ROWS = 65_536
"""Rows of a batch on its way to Java, at the most."""


def history_frame(
    session: SparkSession,
    history: str,
    *,
    between: Sequence[Any] | None = None,
    box: ArrayLike | None = None,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    version: int | None = None,
) -> DataFrame:
    """Return rows of a history: id, t, lon and lat (x and y in a plane), and the attributes.

    Parameters
    ----------
    session
        The one whose executors read.
    history
        Path or URI; executors must reach it too.
    between
        The first and the last time, both within: ISO 8601 (UTC where no zone is given) or numbers as the column's, None
        or "-" where there is no end; all times when None.
    box
        As in :meth:`dtoss.Index.box`.
    where
        A condition on the rows (:mod:`dtoss.conditions.parse`); it may also name id, t and the position.
    columns
        Those that are wanted, in their order; all when None.
    version
        Its number; the newest one when None. It is fixed when this is called, whenever the rows are read.

    Raises
    ------
    ValueError
        If the box or the condition is not one.
    InputError
        If there is no such column or time, or Spark has no such type.
    StoreError
        If there is no such history or version.

    Notes
    -----
    Lazy: nothing is read before an action. Only the blocks that can hold such rows are; Spark's own filters come after
    that and spare no block. Deletions are no rows. The order of rows is no order that means anything.
    """
    home = home_of(history)
    held = home.version(version)
    schema = held.schema
    span = interval_of(between, schema.t_type)
    scan = Scan(home, schema, span, None if box is None else _box(box, schema), where)
    if where is not None:
        condition_on(schema, where)
    x, y = schema.position_names
    known = {"id": "id", "t": "t", x: "x", y: "y", **{name: name for name in schema.attributes}}
    for name in columns or ():
        if name not in known:
            raise InputError(not_carried(name, known))
    wanted = list(known) if columns is None else list(columns)
    return rows_frame(session, scan, chosen(home, held, span, scan.box), [known[name] for name in wanted], wanted)


@dataclass(frozen=True)
class Scan:
    """Which rows of a version are read.

    Parameters
    ----------
    home, schema
        Of the version.
    span
        Earliest and latest time, as times are stored; both are within.
    box
        As in :meth:`dtoss.Index.box`, or None.
    where
        A condition on the rows, or None.
    deletions
        Whether rows come that are deletions.
    """

    home: Home
    schema: Schema
    span: tuple[Any, Any]
    box: tuple[float, ...] | None = None
    where: str | None = None
    deletions: bool = False

    def read(self, pieces: Sequence[Piece], names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of pieces that are wanted, some blocks at a time, in the columns of these names.

        Raises
        ------
        StoreError
            If a file is gone or damaged; the message names it.
        ValueError
            If arithmetic in the condition overflows.
        """
        condition = None if self.where is None else condition_on(self.schema, self.where)
        needed = {*names, "t", "deleted"} | ({"x", "y"} if self.box is not None else set())
        if condition is not None:
            needed |= {stored_name(name, self.schema) for name in condition.columns}
        for name, blocks in pieces:
            for begin, end in cuts(blocks.rows, READ_ROWS):
                rows = read_blocks(self.home, name, blocks.part(begin, end), self.schema, sorted(needed))
                yield rows.filter(pa.array(self._wanted(rows, condition))).select(list(names))

    def _wanted(self, rows: pa.Table, condition: Condition | None) -> NDArray[np.bool_]:
        t = t_numbers(rows.column("t"))
        mask: NDArray[np.bool_] = (t >= self.span[0]) & (t <= self.span[1])
        if not self.deletions:
            mask &= ~rows.column("deleted").to_numpy(zero_copy_only=False)
        if self.box is not None:
            ((shape,),) = boxes_of(self.box, self.schema.space)
            positions = np.stack([rows.column(name).to_numpy() for name in ("x", "y")], axis=1)
            # boxes compare positions as they were read, and look at no vectors
            mask &= shape.holds(positions, positions)
        if condition is not None:
            mask &= satisfying(condition, rows, self.schema)
        return mask


def home_of(history: str) -> Home:
    """Return where a history is, for processes that may run in another folder; a URI stays as it is."""
    return Home(str(history) if "://" in str(history) else str(Path(history).absolute()))


def _box(box: ArrayLike, schema: Schema) -> tuple[float, ...]:
    boxes = as_boxes(box, schema.space)
    if len(boxes) != 1:
        raise ValueError(f"box holds {len(boxes)} boxes: one is wanted")
    return tuple(boxes[0].tolist())


def rows_frame(
    session: SparkSession,
    scan: Scan,
    pieces: Sequence[Piece],
    names: Sequence[str],
    called: Sequence[str],
    kept: Callable[[pa.Table], pa.Table] | None = None,
) -> DataFrame:
    """Return the rows of a scan as a DataFrame.

    Parameters
    ----------
    session
        The one whose executors read.
    scan
        Which rows.
    pieces
        The blocks that can hold such rows.
    names
        The columns, as the schema calls them.
    called
        As the DataFrame calls them.
    kept
        Of the rows of a task, in the columns as they are called, those that are kept; all when None.

    Raises
    ------
    InputError
        If Spark has no such type.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    types = spark_types(scan.schema.arrow, names, called)
    tasks = _tasks(pieces)
    if not tasks:
        return configured(session).createDataFrame([], types)
    arrow = to_arrow_schema(types, timezone="UTC")

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                found = (rows.rename_columns(list(called)) for rows in scan.read(tasks[number], names))
                for rows in found if kept is None else [kept(pa.concat_tables(found))]:
                    yield from as_batches(rows, arrow)

    return configured(session).range(0, len(tasks), 1, len(tasks)).mapInArrow(settled(read), types)


def as_batches(rows: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows in the names and types of a schema."""
    if len(rows):
        columns = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
        yield from pa.table(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)


def _tasks(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return pieces in groups for a task each, neighbours together; large ones cut."""
    cut = [(name, blocks.part(*some)) for name, blocks in pieces for some in cuts(blocks.rows, TASK_ROWS)]
    sizes = np.array([blocks.rows.sum() for _, blocks in cut], np.int64)
    return [cut[begin:end] for begin, end in cuts(sizes, TASK_ROWS)]


def spark_types(schema: pa.Schema, names: Sequence[str], called: Sequence[str]) -> StructType:
    """Return the Spark types of columns of a schema; unsigned ones are the next that hold all their values.

    Raises
    ------
    InputError
        If Spark has no such type.
    """
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


def chosen(home: Home, version: Version, span: tuple[Any, Any], box: tuple[float, ...] | None) -> list[Piece]:
    """Return the blocks of a version that can hold rows of an interval and a box."""
    space = version.schema.space
    if box is None:
        centres, radii = np.zeros((1, space.dimension)), np.full(1, np.inf)
    else:
        discs = cover_box(np.array(box), space)
        centres, radii = discs.centres, discs.radii
    kind = np.float64 if version.schema.t_type == "double" else np.int64
    first, last = (time_keys(np.full(len(radii), end, kind)) for end in span)
    return pieces_of(version, Asked(centres, radii, first, last), request_bytes(home, version))
