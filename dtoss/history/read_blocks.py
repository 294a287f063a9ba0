"""Rows from blocks: neighbouring ones are read as one range, footers once, and every page is checked."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.commits.folder import Folder, LocalFolder, RemoteFolder
from dtoss.errors import StoreError, naming, of_system
from dtoss.history.data_file import POINT_COLUMN
from dtoss.history.row_blocks import Blocks
from dtoss.history.schema import OWN, Schema
from dtoss.history.segments import gone_error
from dtoss.history.versions import Home

READ_OVER = 256 * 1024
"""Bytes between two ranges up to which they are read as one, where nothing else is said."""
_FOOTERS = 1024
"""Files whose footers a process keeps."""
_AT_ONCE = 8
"""Ranges that are asked for at once where files are far away."""


@dataclass
class Reads:
    """What was read: a counter that whoever asks hands in."""

    ranges: int = 0
    bytes: int = 0
    blocks: int = 0
    rows: int = 0


def ranges_of(blocks: Blocks, gap: int = READ_OVER) -> list[tuple[int, int]]:
    """Return the ranges (offset, bytes) by which blocks of one file, in its order, are read; O(blocks)."""
    if not len(blocks):
        return []
    begin, end = blocks.offset, blocks.offset + blocks.bytes
    apart = np.flatnonzero(begin[1:] - end[:-1] > gap) + 1
    firsts, lasts = np.append(0, apart), np.append(apart, len(begin)) - 1
    return [(int(begin[i]), int(end[j] - begin[i])) for i, j in zip(firsts, lasts, strict=True)]


def read_blocks(
    home: Home,
    name: str,
    blocks: Blocks,
    schema: Schema,
    columns: Sequence[str] | None = None,
    reads: Reads | None = None,
    gap: int = READ_OVER,
) -> pa.Table:
    """Return the rows of blocks of one file, in its order.

    The columns of the schema that are wanted; x and y are NaN where a deletion has no position. ``blocks``: by
    ascending row groups; ``schema``: of the version: attributes that the file does not have are nulls; ``columns``:
    names of the schema to read, in its order then; all when None; ``gap``: bytes between two ranges up to which they
    are read as one.
    """
    wanted = [column for column in schema.arrow if columns is None or column.name in columns]
    if not len(blocks):
        return pa.schema(wanted).empty_table()
    spans = ranges_of(blocks, gap)
    path = home.folder.path(name)
    try:
        with naming(path):
            footer = _footer(_Place(path, home.folder))
            source = _source(home.folder, path, spans)
        there = set(footer.schema.to_arrow_schema().names)
        file = pq.ParquetFile(source, metadata=footer, page_checksum_verification=True)
        stored = {POINT_COLUMN if column.name in ("x", "y") else column.name for column in wanted} & there
        if not blocks.marks.any():
            stored.discard(OWN[-1])
        table = file.read_row_groups(blocks.row_group.tolist(), columns=sorted(stored), use_threads=False)
    except FileNotFoundError:
        raise gone_error(path) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        if of_system(error):
            raise
        first = str(error).splitlines()[0]
        raise StoreError(f"{path} is damaged: {first}; run dtoss history verify") from None
    if reads is not None:
        reads.ranges += len(spans)
        reads.bytes += sum(size for _, size in spans)
        reads.blocks += len(blocks)
        reads.rows += len(table)
    return _as_rows(table, wanted)


def _as_rows(table: pa.Table, wanted: list[pa.Field]) -> pa.Table:
    columns: list[Any] = []
    point = table.column(POINT_COLUMN) if POINT_COLUMN in table.column_names else None
    for column in wanted:
        if column.name in ("x", "y") and point is not None:
            values = pc.struct_field(point, column.name)
            columns.append(values.fill_null(float("nan")) if values.null_count else values)
        elif column.name in table.column_names and column.name not in ("x", "y"):
            values = table.column(column.name)
            columns.append(values if values.type == column.type else values.cast(column.type))
        elif column.name == OWN[-1]:
            columns.append(pa.chunked_array([pa.repeat(pa.scalar(False), len(table))]))
        else:
            columns.append(pa.chunked_array([pa.nulls(len(table), column.type)]))
    return pa.table(columns, schema=pa.schema(wanted))


@dataclass(frozen=True)
class _Place:
    path: str
    folder: Folder = field(compare=False)


@lru_cache(_FOOTERS)
def _footer(place: _Place) -> pq.FileMetaData:
    folder = place.folder
    if isinstance(folder, RemoteFolder):
        with folder.filesystem.open_input_file(place.path) as stream:
            return pq.read_metadata(stream)
    return pq.read_metadata(place.path)


def _source(folder: Folder, path: str, spans: list[tuple[int, int]]) -> Any:
    if isinstance(folder, LocalFolder):
        return pa.memory_map(path)
    assert isinstance(folder, RemoteFolder)
    stream = folder.filesystem.open_input_file(path)
    # as long as the file, but only pages that are written to take memory. Not a file of Python's: Arrow's threads let
    # go of those late, and a process that ends meanwhile is aborted
    whole = pa.allocate_buffer(stream.size())
    held = np.frombuffer(whole, np.uint8)

    def fetch(span: tuple[int, int]) -> None:
        begin, size = span
        data = stream.read_at(size, begin)
        held[begin : begin + len(data)] = np.frombuffer(data, np.uint8)

    with ThreadPoolExecutor(min(_AT_ONCE, len(spans))) as pool:
        list(pool.map(fetch, spans))
    return pa.BufferReader(whole)
