"""Positions into files of a history: tasks write them where they stand; a file is known by the SHA-256 of its bytes.

Where the names of folders are values of columns, they are part of what a file holds.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from dtoss.commits.columnar_files import REJECTED, encode_rejected
from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.history.append_frame import NEEDS_TIME, OF_FILE, Key
from dtoss.history.data_file import NewFile, write_file
from dtoss.history.row_blocks import BY_TIME, rows_of, sorted_rows, t_numbers
from dtoss.history.schema import TIME_TYPES, Schema, attribute_names, moment_of, plain_type, time_type_of
from dtoss.history.segments import write_named
from dtoss.history.versions import Home
from dtoss.rows.input_columns import AHEAD_OF_NOW, DELETED, RAW, REASON, UNREADABLE_TIME, attribute_name
from dtoss.rows.row_plan import as_double, is_number, where, with_reasons
from dtoss.snapshots.column_types import stored_type
from dtoss.text.time_patterns import LAST_SECOND
from pipelines.engines.rows import Batches, NumberedWork, one_value
from pipelines.rows.inputs import Inputs
from pipelines.rows.list_files import sha256_of
from pipelines.rows.position_frame import Positions
from pipelines.rows.screened_frame import Step

FILE_ROWS = 2_000_000
"""Rows of a file at the most: what a task holds at a time."""
QUARANTINE = "quarantine"
"""The folder of a history where rows are that were set aside."""
_NAMED = 16
_FILE, _REASONS, _ASIDE = "file", "reasons", "aside"
"""What a task says that it has done: a file of rows, reasons of bad ones and how many, a file of these."""
_MICROSECONDS = 1_000_000
_UNITS = {"epoch_s": 1_000_000, "epoch_ms": 1000}
"""Microseconds of a unit of numbers that count since 1970."""


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
    if not positions.timed:
        raise InputError(NEEDS_TIME)
    kinds = _kinds(positions)
    attributes = {stored: plain_type(kinds[column]) for column, stored in _attributes(positions, kinds).items()}
    time_type = "timestamp" if _counted_since(positions, kinds["t"]) else time_type_of(kinds["t"])
    return Schema(space, "string" if positions.string_ids else "int64", time_type, attributes)


def write_rows(
    positions: Positions, home: Home, schema: Schema, of: str, max_ahead: float | None, now: Any = None
) -> WrittenFiles:
    """Write positions to files of a history, which are of no version yet, and bad ones to its quarantine.

    ``of``: the batch, which tells its files from those of other batches with the same rows; ``max_ahead``: seconds
    after now from which on a row is set aside, because its clock is wrong; None for never.
    """
    kinds = _kinds(positions)
    since, latest = _counted_since(positions, kinds["t"]), _latest(schema, max_ahead, now)
    judge, write = _judge(schema, since, latest), _writer(home, schema, _attributes(positions, kinds), of)
    found = positions.frame.then(judge).with_raw().map_numbered(write, "done binary").values()
    files: list[NewFile] = []
    rejected: Counter[str] = Counter()
    aside: list[str] = []
    for kind, value in map(pickle.loads, found):
        if kind == _FILE:
            files.append(value)
        elif kind == _REASONS:
            rejected.update(value)
        else:
            aside.append(value)
    return WrittenFiles(tuple(sorted(files, key=lambda file: file.name)), dict(rejected), tuple(sorted(aside)))


def _kinds(positions: Positions) -> dict[str, pa.DataType]:
    """Return the types of the columns; null where a column has no value."""
    fields = positions.frame.schema
    return {one.name: one.type if pa.types.is_null(one.type) else stored_type(one.type) for one in fields}


def _counted_since(positions: Positions, kind: pa.DataType) -> str | None:
    """Return the time format of numbers that count since 1970; None where times are no such numbers."""
    written = None if positions.source is None else positions.source.time_format
    return written if written in _UNITS and is_number(kind) else None  # of text: they are times already


def _latest(schema: Schema, max_ahead: float | None, now: Any) -> float | None:
    """Return the time after which rows are ahead of now, as times are stored; numbers are seconds."""
    if max_ahead is None:
        return None
    second = _MICROSECONDS if schema.t_type == "timestamp" else 1.0
    moment = time.time() * second if now is None else moment_of(now, schema.t_type, "now")
    return moment + max_ahead * second


def _judge(schema: Schema, since: str | None, latest: float | None) -> Step:
    """Return what makes times of numbers, where that is said, and completes the reasons by those of times.

    What is no time then, or is not finite, is a bad row, and so is what is ahead of now.
    """
    kind = TIME_TYPES[schema.t_type]

    def judge(rows: pa.RecordBatch) -> pa.RecordBatch:
        t = rows.column("t")
        if since is not None:
            t = _moments(t, since)
        elif pa.types.is_floating(t.type):
            t = pc.if_else(pc.is_finite(t), t, None)
        rows = rows.set_column(rows.schema.get_field_index("t"), "t", t)
        marks = [(UNREADABLE_TIME, where(t.is_null()))]
        if latest is not None:
            marks.append((AHEAD_OF_NOW, t_numbers(t.cast(kind, safe=False).fill_null(0)) > latest))
        return with_reasons(rows, marks)

    return judge


def _moments(t: pa.Array, since: str) -> pa.Array:
    """Return the moments of numbers that count since 1970; null beyond the year 9999."""
    if not pa.types.is_integer(t.type):
        from dtoss.text.text_times import moments_of_numbers

        return moments_of_numbers(as_double(t), since)
    last = LAST_SECOND * _MICROSECONDS // _UNITS[since]
    whole = t.cast(pa.int64(), safe=False)
    there = pc.and_(pc.greater_equal(whole, -last), pc.less_equal(whole, last))
    return pc.multiply(pc.if_else(there, whole, None), _UNITS[since]).cast(TIME_TYPES["timestamp"])


def _attributes(positions: Positions, kinds: Mapping[str, pa.DataType]) -> dict[str, str]:
    """Return as what each column of attributes is stored: not the time, which every row has."""
    time_column = None if positions.source is None else positions.source.time or "t"
    columns = [name for name in positions.columns if name.startswith("a:") and attribute_name(name) != time_column]
    # a column without a value has no type yet
    columns = [column for column in columns if not pa.types.is_null(kinds[column])]
    stored = attribute_names([attribute_name(column) for column in columns])
    return {column: stored[attribute_name(column)] for column in columns}


def _writer(home: Home, schema: Schema, attributes: Mapping[str, str], of: str) -> NumberedWork:
    """Return what a task does with rows that were judged: it writes the good ones, and others that came as text."""

    def write(task: int, batches: Batches) -> Batches:
        # a task that is tried again writes the same files
        origins = (f"{of} {task} {number}" for number in count())
        waiting: list[pa.Table] = []
        aside: list[pa.RecordBatch] = []
        reasons: Counter[str] = Counter()
        rows = 0
        for batch in batches:
            good = batch.column(REASON).is_null()
            if good.false_count:
                bad = batch.filter(pc.invert(good))
                reasons.update(bad.column(REASON).to_pylist())
                aside.append(bad.select([REASON, RAW]))
                batch = batch.filter(good)
            if len(batch):
                waiting.append(_rows(pa.Table.from_batches([batch]), schema, attributes))
                rows += len(batch)
            if rows >= FILE_ROWS:
                yield _answer(_FILE, _file(home, waiting, schema, next(origins)))
                waiting, rows = [], 0
        if rows:
            yield _answer(_FILE, _file(home, waiting, schema, next(origins)))
        if reasons:
            yield _answer(_REASONS, dict(reasons))
        yield from _set_aside(home, iter(aside))

    return write


def _rows(table: pa.Table, schema: Schema, attributes: Mapping[str, str]) -> pa.Table:
    names = {"id": "id", "t": "t", "x": "x", "y": "y", **attributes}
    if DELETED in table.column_names:
        names[DELETED] = "deleted"
    return rows_of(table.select(list(names)).rename_columns(list(names.values())), schema)


def _file(home: Home, parts: list[pa.Table], schema: Schema, of: str) -> NewFile:
    rows = sorted_rows(pa.concat_tables(parts).combine_chunks(), "time")
    return write_file(home.folder, BY_TIME, [(rows, None)], schema, of)


def _set_aside(home: Home, batches: Batches) -> Batches:
    """Write rows that are bad, as they were read, to the quarantine."""
    tables = [pa.Table.from_batches([batch]).rename_columns(["reason", "row"]).cast(REJECTED) for batch in batches]
    if not tables:
        return
    data = encode_rejected(pa.concat_tables(tables))
    name = f"{hashlib.sha256(data).hexdigest()[:_NAMED]}.parquet"
    write_named(home.folder, data, QUARANTINE, name)
    yield _answer(_ASIDE, f"{QUARANTINE}/{name}")


def _answer(kind: str, value: Any) -> pa.RecordBatch:
    return one_value("done", pickle.dumps((kind, value)))


_AT_ONCE = 4
"""Files that are read at a time."""


@dataclass(frozen=True)
class KeyedFile:
    """A file and its key, and what tells that it was not changed since."""

    filesystem: fs.FileSystem
    path: str
    key: Key  # By its bytes
    size: int  # When it was read for the key
    mtime_ns: int  # When it was read for the key


def key_files(inputs: Inputs) -> list[KeyedFile]:
    """Return the keys of files; each is read once more than Spark reads it. Cost O(bytes)."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(_keyed, inputs.places, inputs.named, inputs.folders))


def check_unchanged(files: Sequence[KeyedFile]) -> None:
    """Check that files are as they were when their keys were made."""
    for file in files:
        if _facts(file.filesystem, file.path) != (file.size, file.mtime_ns):
            raise InputError(f"{file.key.source} has changed while it was read: nothing was appended; start again")


def _keyed(place: tuple[fs.FileSystem, str], named: str, folders: str) -> KeyedFile:
    filesystem, path = place
    source = path if named.startswith("file://") else named
    try:
        size, mtime = _facts(filesystem, path)
        digest = sha256_of(filesystem, path)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error}") from None
    key = f"sha256:{digest}" + (f" {folders}" if folders else "")
    return KeyedFile(filesystem, path, Key(key, OF_FILE, source), size, mtime)


def _facts(filesystem: fs.FileSystem, path: str) -> tuple[int, int]:
    info = filesystem.get_file_info(path)
    return info.size or 0, info.mtime_ns or 0
