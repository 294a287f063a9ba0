"""Positions into files of a history: tasks write them where they stand, and nothing is shuffled."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.history.append_frame import NEEDS_TIME
from dtoss.history.data_file import NewFile, write_file
from dtoss.history.row_blocks import BY_TIME, rows_of, sorted_rows, t_numbers
from dtoss.history.schema import Schema, attribute_names, plain_type, time_type_of
from dtoss.history.segments import write_named
from dtoss.history.time_scale import moment_of
from dtoss.history.versions import Home
from pipelines.rows.position_frame import AHEAD, DELETED, RAW, REASON, UNREADABLE_TIME, Positions, attribute_name
from pipelines.rows.rejected_row_files import SCHEMA as QUARANTINED
from pipelines.rows.time_columns import LAST_SECOND
from pipelines.spark.by_bucket import freeze_imports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_ROWS = 2_000_000
"""Rows of a file at the most: what a task holds at a time."""
QUARANTINE = "quarantine"
"""The folder of a history where rows are that were set aside."""
_NAMED = 16
_OUT = "kind string, payload binary"
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class WrittenFiles:
    """What tasks have written."""

    files: tuple[NewFile, ...]  # Of rows, by time
    rejected: Mapping[str, int]  # Rows that were set aside, by their reasons
    quarantine: tuple[str, ...]  # Names of the files that hold those

    @property
    def rows(self) -> int:
        """Rows that can be appended."""
        return sum(file.rows for file in self.files)


def history_schema(positions: Positions, space: Space) -> Schema:
    """Return the schema of positions as rows of a history; the time is no attribute."""
    from pyspark.sql.pandas.types import to_arrow_type

    if not positions.timed:
        raise InputError(NEEDS_TIME)
    types = {one.name: to_arrow_type(one.dataType, timezone="UTC") for one in _frame(positions).schema.fields}
    attributes = {stored: plain_type(types[column]) for column, stored in _attributes(positions).items()}
    return Schema(space, "string" if positions.string_ids else "int64", time_type_of(types["t"]), attributes)


def write_rows(
    positions: Positions, home: Home, schema: Schema, of: str, max_ahead: float | None, now: Any = None
) -> WrittenFiles:
    """Write positions to files of a history, which are of no version yet, and bad ones to its quarantine.

    ``of``: the batch, which tells its files from those of other batches with the same rows; ``max_ahead``: seconds
    after now from which on a row is set aside, because its clock is wrong; None for never.
    """
    latest = _latest(schema, max_ahead, now)
    write = _writer(home, schema, _attributes(positions), of, latest)
    found = (
        _bad_as_text(_frame(positions), schema, latest).mapInArrow(freeze_imports(write), _OUT).toArrow().to_pylist()
    )
    files: list[NewFile] = []
    rejected: Counter[str] = Counter()
    aside: list[str] = []
    for one in found:
        value = pickle.loads(one["payload"])
        if one["kind"] == "file":
            files.append(value)
        elif one["kind"] == "reasons":
            rejected.update(value)
        else:
            aside.append(value)
    return WrittenFiles(tuple(sorted(files, key=lambda file: file.name)), dict(rejected), tuple(sorted(aside)))


def _latest(schema: Schema, max_ahead: float | None, now: Any) -> float | None:
    """Return the time after which rows are ahead of now, as times are stored; numbers are seconds."""
    if max_ahead is None:
        return None
    second = _MICROSECONDS if schema.t_type == "timestamp" else 1.0
    moment = time.time() * second if now is None else moment_of(now, schema.t_type, "now")
    return moment + max_ahead * second


def _frame(positions: Positions) -> DataFrame:
    """Return the rows with times that are numbers of seconds or milliseconds since 1970 as times, where that is said.

    What is no time then, or is not finite, is a bad row.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    frame, source = positions.frame, positions.source
    written = None if source is None else source.time_format
    kind, t = frame.schema["t"].dataType, F.col("t")
    if not isinstance(kind, T.NumericType):
        return frame  # of text: they are times already
    if written in ("epoch_s", "epoch_ms"):
        a_second = 1000 if written == "epoch_ms" else 1
        made = F.timestamp_millis(t) if written == "epoch_ms" else F.timestamp_seconds(t)
        if not isinstance(kind, T.IntegralType):
            made = F.timestamp_seconds(t.cast("double") / a_second)
        t = F.when(F.abs(t) <= LAST_SECOND * a_second, made)
    elif isinstance(kind, (T.FloatType, T.DoubleType)):
        t = F.when(F.abs(t) < float("inf"), t)
    else:
        return frame
    reason = F.coalesce(F.col(REASON), F.when(t.isNull(), F.lit(UNREADABLE_TIME)))
    return frame.withColumn(REASON, reason).withColumn("t", t)


def _bad_as_text(frame: DataFrame, schema: Schema, latest: float | None) -> DataFrame:
    """Return the rows with the text of bad ones only: it costs more than all else of a row."""
    from pyspark.sql import functions as F

    bad = F.col(REASON).isNotNull()
    if latest is not None:
        t = F.unix_micros("t") if schema.t_type == "timestamp" else F.col("t")
        bad |= t > F.lit(latest)
    return frame.withColumn(RAW, F.when(bad, F.col(RAW)))


def _attributes(positions: Positions) -> dict[str, str]:
    """Return as what each column of attributes is stored: not the time, which every row has."""
    time_column = None if positions.source is None else positions.source.time or "t"
    columns = [name for name in positions.frame.columns if name.startswith("a:")]
    columns = [column for column in columns if attribute_name(column) != time_column]
    # a column without a value has no type yet
    columns = [column for column in columns if positions.frame.schema[column].dataType.typeName() != "void"]
    stored = attribute_names([attribute_name(column) for column in columns])
    return {column: stored[attribute_name(column)] for column in columns}


def _writer(
    home: Home, schema: Schema, attributes: Mapping[str, str], of: str, latest: float | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        # a task that is tried again writes the same files
        origins = (f"{of} {task.partitionId() if task else 0} {number}" for number in count())
        waiting: list[pa.Table] = []
        rejected: list[pa.Table] = []
        rows = 0
        for batch in batches:
            good, bad = _judged(pa.Table.from_batches([batch]), schema, attributes, latest)
            if len(bad):
                rejected.append(bad)
            if len(good):
                waiting.append(good)
                rows += len(good)
            if rows >= FILE_ROWS:
                yield _answer("file", _file(home, waiting, schema, next(origins)))
                waiting, rows = [], 0
        if rows:
            yield _answer("file", _file(home, waiting, schema, next(origins)))
        if rejected:
            table = pa.concat_tables(rejected)
            counts = pc.value_counts(table.column("reason"))
            yield _answer("reasons", {one["values"]: one["counts"] for one in counts.to_pylist()})
            yield _answer("aside", _aside(home, table))

    return write


def _judged(
    table: pa.Table, schema: Schema, attributes: Mapping[str, str], latest: float | None
) -> tuple[pa.Table, pa.Table]:
    """Return the rows that can be used, and the others with their reasons."""
    reason = table.column(REASON)
    good = reason.is_null().to_numpy()
    bad = [table.filter(pa.array(~good))]
    table = table.filter(pa.array(good))
    if latest is not None and len(table):
        ahead = t_numbers(table.column("t").cast(schema.arrow.field("t").type)) > latest
        if ahead.any():
            late = table.filter(pa.array(ahead))
            said = pa.array(np.full(len(late), AHEAD, object), pa.string())
            bad.append(late.set_column(late.column_names.index(REASON), REASON, pa.chunked_array([said])))
            table = table.filter(pa.array(~ahead))
    names = {"id": "id", "t": "t", "x": "x", "y": "y", **attributes}
    if DELETED in table.column_names:
        names[DELETED] = "deleted"
    rows = rows_of(table.select(list(names)).rename_columns(list(names.values())), schema)
    aside = pa.concat_tables(part.select([REASON, RAW]) for part in bad).rename_columns(["reason", "row"])
    return rows, aside.cast(QUARANTINED)


def _file(home: Home, parts: list[pa.Table], schema: Schema, of: str) -> NewFile:
    rows = sorted_rows(pa.concat_tables(parts).combine_chunks(), "time")
    return write_file(home.folder, BY_TIME, [(rows, None)], schema, of)


def _aside(home: Home, table: pa.Table) -> str:
    order = pc.sort_indices(table, sort_keys=[("reason", "ascending"), ("row", "ascending")])
    sink = pa.BufferOutputStream()
    pq.write_table(table.take(order), sink, compression="zstd")
    data = sink.getvalue()
    name = f"{hashlib.sha256(data).hexdigest()[:_NAMED]}.parquet"
    write_named(home.folder, data, QUARANTINE, name)
    return f"{QUARANTINE}/{name}"


def _answer(kind: str, value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"kind": kind, "payload": pickle.dumps(value)}],
        schema=pa.schema([("kind", pa.string()), ("payload", pa.binary())]),
    )
