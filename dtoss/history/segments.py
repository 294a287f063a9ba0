"""Segments: immutable Arrow tables of a history's files, leaves, blocks and ledger, mapped and not parsed."""

from __future__ import annotations

import hashlib
import zlib
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from dtoss.column_rows import one_chunk
from dtoss.commits.file_entry import ANY_BYTES, FileEntry, mapped_bytes, whole
from dtoss.commits.folder import Folder, Mark
from dtoss.errors import StoreError
from dtoss.partition import numbers

_T = TypeVar("_T")
SEGMENTS = "segments"
_NAMED = 16
"""Hexadecimal digits of a segment's hash in its name."""
_KEPT = 512
"""Segments that a process keeps open."""


class Fresh(NamedTuple):
    """A file that was written, and was not there before."""

    room: str
    name: str
    mark: Mark | None


WRITTEN: ContextVar[list[Fresh] | None] = ContextVar("WRITTEN", default=None)
"""The files that a change has written, where :mod:`dtoss.history.history_commit` wants to know."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as a version names it: its file, without how long it is, and the CRC-32 of its bytes."""

    file: FileEntry
    crc: int

    def as_json(self) -> dict[str, Any]:
        """Return what a version's document holds of it."""
        return {**self.file.as_json(), "crc": self.crc}

    @classmethod
    def of(cls, said: Any) -> Segment:
        """Return the segment that :meth:`as_json` has made."""
        try:
            return cls(FileEntry.of(said, sized=False), whole(said.get("crc"), f"crc of {said['name']}"))
        except ValueError as error:
            raise StoreError(f"a segment of the history is named wrongly: {error}") from None


def write_segment(folder: Folder, kind: str, table: pa.Table) -> Segment:
    """Write a table as a segment and return it; the same table has the same name. It is not synced."""
    sink = pa.BufferOutputStream()
    table = table.combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    name = f"{kind}-{digest[:_NAMED]}.arrow"
    write_named(folder, data, SEGMENTS, name)
    return Segment(FileEntry(name, len(table), ANY_BYTES, digest), zlib.crc32(data))


def table_of(columns: object) -> pa.Table:
    """Return what a segment holds of an object of columns: one for each number or text, boxes by their coordinates."""
    found: dict[str, pa.Array] = {}
    for one in fields(columns):  # type: ignore[arg-type]
        values = getattr(columns, one.name)
        if isinstance(values, list):
            found[one.name] = pa.array(values, pa.large_string())
        elif values.ndim == 1:
            found[one.name] = numbers(np.ascontiguousarray(values))
        else:
            found |= {f"{one.name}_{i}": numbers(np.ascontiguousarray(part)) for i, part in enumerate(values.T)}
    return pa.table(found)


def columns_in(kind: type[_T], table: pa.Table) -> _T:
    """Return the object of columns that :func:`table_of` has made a table of; single columns are views of it."""

    def column(name: str) -> Any:
        values = one_chunk(table.column(name))
        return values.to_pylist() if pa.types.is_large_string(values.type) else values.to_numpy()

    found = []
    for one in fields(kind):  # type: ignore[arg-type]
        sides = sorted(name for name in table.column_names if name.startswith(f"{one.name}_"))
        single = one.name in table.column_names
        found.append(column(one.name) if single else np.stack([column(side) for side in sides], axis=1))
    return kind(*found)


def write_named(folder: Folder, data: pa.Buffer, room: str, name: str) -> None:
    """Write a file that is named by what it holds. One that is there already is touched, so that gc leaves it."""
    folder.make(room)
    with suppress(FileNotFoundError):
        if folder.is_file(room, name):
            folder.touch(room, name)
            return
    mark = folder.write(data, room, name)
    if (fresh := WRITTEN.get()) is not None:
        fresh.append(Fresh(room, name, mark))


def read_segment(folder: Folder, segment: Segment) -> pa.Table:
    """Return the table of a segment, mapped where the disk is local."""
    return _read(_Place(folder.path(SEGMENTS, segment.file.name), segment, folder))


@dataclass(frozen=True)
class _Place:
    path: str
    segment: Segment
    folder: Folder = field(compare=False)


@lru_cache(_KEPT)
def _read(place: _Place) -> pa.Table:
    path, segment, folder = place.path, place.segment, place.folder
    data = mapped_bytes(folder, SEGMENTS, segment.file.name)
    if data is None:
        raise gone_error(path)
    if zlib.crc32(data) != segment.crc:
        raise StoreError(f"{path} is damaged: it does not have the bytes that it was written with; roll back")
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    rows = segment.file.rows
    if len(table) != rows:
        raise StoreError(f"{path} is damaged: it has {len(table)} rows, {rows} are wanted; roll back")
    return table


def gone_error(path: str) -> StoreError:
    """Return the error of who asks for a file that gc has taken, or that is lost."""
    return StoreError(
        f"{path} is gone: its version was cleared, then open the history again; or it is lost, then run dtoss history "
        "verify --restore"
    )
