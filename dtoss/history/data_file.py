"""Files of rows: GeoParquet 1.1 whose row groups are blocks, named by what they hold, and rows from blocks of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
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
from dtoss.geometry.space import LONLAT, NO_CRS
from dtoss.history.row_blocks import ORDER_NAMES, Blocks, described, starts_of
from dtoss.history.schema import OWN, Schema
from dtoss.history.segments import gone_error, write_named
from dtoss.history.versions import Home

FILE_BYTES = 128 * 2**20
"""Bytes of a file, about which a new one is begun."""
WHOLE_PLANE = (-np.inf, -np.inf, np.inf, np.inf)
"""The cell of what no tree has cut."""
POINT_COLUMN = "geometry"
ORIGIN = "dtoss_of"
"""The entry of a file's metadata that tells it from one with the same rows: else both had one name."""
_NAMED = 16
"""Hexadecimal digits of a file's hash in its name."""


@dataclass(frozen=True, slots=True)
class NewLeaf:
    """Blocks of a file that belong together."""

    first: int  # Which blocks of the file
    count: int  # Which blocks of the file
    # x0, y0, x1, y1 of the tree: x0 < x <= x1, y0 < y <= y1; :data:`WHOLE_PLANE` where nothing was cut
    cell: tuple[float, float, float, float] = WHOLE_PLANE


@dataclass(frozen=True)
class NewFile:
    """A file that was written, and is of no version yet."""

    name: str  # Within the history, such as ``place/0123456789abcdef.parquet``
    order: int  # Its code, of :data:`dtoss.history.row_blocks.ORDER_NAMES`
    bytes: int  # Of all of it
    rows: int  # Of all of it
    sum: int  # Of all of it
    sha256: str  # Of its bytes
    blocks: Blocks  # All of them, in the order of the file
    leaves: tuple[NewLeaf, ...]  # Which cover the blocks without a gap


Part = tuple[pa.Table, tuple[float, float, float, float] | None]
"""The rows of a leaf, at least one, in the order of the file, and its cell."""


def write_file(folder: Folder, order: int, parts: Iterable[Part], schema: Schema, of: str = "") -> NewFile:
    """Write a file of rows and return what it is. It is not synced: a commit does that.

    ``order``: the code of its order; ``of``: the batch, or what the rows were read from: files of the same rows that
    come from elsewhere have other names.
    """
    sink = pa.BufferOutputStream()
    writer: pq.ParquetWriter | None = None
    facts: list[dict[str, Any]] = []
    leaves: list[NewLeaf] = []
    at = 0
    for rows, cell in parts:
        if not len(rows):
            continue
        starts = starts_of(len(rows))
        facts.append(described(rows, starts, schema.space))
        kept = _stored(rows, schema)
        if writer is None:
            writer = pq.ParquetWriter(sink, kept.schema, **_encodings(kept.schema))
            if of:
                writer.add_key_value_metadata({ORIGIN: hashlib.sha256(of.encode()).hexdigest()[:_NAMED]})
        ends = [*starts[1:].tolist(), len(rows)]
        for begin, end in zip(starts.tolist(), ends, strict=True):
            writer.write_table(kept.slice(begin, end - begin), row_group_size=end - begin)
        leaves.append(NewLeaf(at, len(starts), cell or WHOLE_PLANE))
        at += len(starts)
    if writer is None:
        raise ValueError("a file of no rows cannot be written")
    writer.close()
    data = sink.getvalue()
    blocks = _blocks(facts, pq.read_metadata(pa.BufferReader(data)))
    digest = hashlib.sha256(data).hexdigest()
    name = f"{digest[:_NAMED]}.parquet"
    write_named(folder, data, ORDER_NAMES[order], name)
    return NewFile(
        f"{ORDER_NAMES[order]}/{name}",
        order,
        data.size,
        int(blocks.rows.sum()),
        int(blocks.sum.sum(dtype=np.uint64)),
        digest,
        blocks,
        tuple(leaves),
    )


ZSTD_LEVEL = 3
"""Of zstd: a twentieth smaller than level 1 and as fast; level 6 takes twice as long for another twentieth."""


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return how columns are written: times as differences, where they are whole numbers, all else by dictionaries.

    Rounded positions repeat within a block. On taxis a row takes 11 bytes by time and 9.4 by place; 12 and 12.6 if
    times are in dictionaries, too.
    """
    options: dict[str, Any] = {"compression": "zstd", "compression_level": ZSTD_LEVEL, "write_page_checksum": True}
    if pa.types.is_floating(schema.field("t").type):
        return options
    plain = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), plain)
    leaves = pq.read_metadata(pa.BufferReader(plain.getvalue())).schema
    paths = [leaves.column(number).path for number in range(len(leaves.names))]
    return options | {
        "use_dictionary": [path for path in paths if path != "t"],
        "column_encoding": {"t": "DELTA_BINARY_PACKED"},
    }


def _stored(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return rows as a file has them: the position as one point, deletions only where there are any."""
    x, y = (rows.column(name).combine_chunks() for name in ("x", "y"))
    x, y = (column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in (x, y))
    nowhere = pc.is_nan(x)
    mask = nowhere if pc.any(nowhere).as_py() else None
    point = pa.StructArray.from_arrays([x, y], ["x", "y"], mask=mask)
    columns: dict[str, Any] = {"id": rows.column("id"), "t": rows.column("t"), POINT_COLUMN: point}
    columns["deleted"] = rows.column("deleted")
    columns |= {name: rows.column(name) for name in rows.column_names[len(OWN) :]}
    return pa.table(columns).replace_schema_metadata({"geo": geo_of(schema)})


def geo_of(schema: Schema) -> str:
    """Return the "geo" metadata of a file, as JSON: GeoParquet 1.1, native points."""
    about: dict[str, Any] = {"encoding": "point", "geometry_types": ["Point"]}
    crs = schema.space.crs
    if crs.lower() == NO_CRS:
        about["crs"] = None
    elif crs != LONLAT:  # without one it is lon, lat of WGS 84
        import pyproj

        about["crs"] = pyproj.CRS.from_user_input(crs).to_json_dict()
    return json.dumps(
        {"version": "1.1.0", "primary_column": POINT_COLUMN, "columns": {POINT_COLUMN: about}}, sort_keys=True
    )


def _blocks(facts: list[dict[str, Any]], footer: pq.FileMetaData) -> Blocks:
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    offset, size = [], []
    for group in groups:
        chunks = [group.column(i) for i in range(group.num_columns)]
        begins = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
        ends = [begin + chunk.total_compressed_size for begin, chunk in zip(begins, chunks, strict=True)]
        offset.append(min(begins))
        size.append(max(ends) - min(begins))
    said = {name: np.concatenate([fact[name] for fact in facts]) for name in facts[0]}
    return Blocks(
        row_group=np.arange(len(groups), dtype=np.int32),
        offset=np.array(offset, np.int64),
        bytes=np.array(size, np.int32),
        **said,
    )


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
