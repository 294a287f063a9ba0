"""Parquet, JSON lines and other tables in pieces that tasks read, with the columns and types that Spark gives them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.partition import values_of
from dtoss.rows.json_values import BATCH_ROWS, Kind, batches_of_block, kinds_of_block, merge_kinds, schema_of_kinds
from dtoss.snapshots.column_types import stored_type, type_named
from pipelines.engines.rows import Batches, one_value
from pipelines.engines.spark_rows import numbered_tasks
from pipelines.rows.inputs import Inputs
from pipelines.rows.row_sources import LEAST, Piece, Place, blocks_of, folder_values, groups_in, reading
from pipelines.rows.table_formats import PACKED, TABLE_FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ROWS = 1 << 16


def table_tasks(
    session: SparkSession | None, inputs: Inputs, *, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], pa.Schema]:
    """Return groups of pieces of files that are tables, what yields columns of one, and the columns of all.

    The types are those that snapshots have. No file of fewer than ``least`` bytes is shared by tasks.
    """
    assert inputs.schema is not None
    places, said = inputs.places, folder_columns(inputs)
    fields = [pa.field(one.name, stored_type(one.type)) for one in inputs.schema if one.name not in said]
    schema = pa.schema([*fields, *((name, values.type) for name, values in said.items())])

    def read(piece: Piece, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        filesystem, file = places[piece.file]
        names = schema.names if columns is None else list(columns)
        fields = pa.schema([schema.field(name) for name in names])
        with reading(file, inputs.kind):
            if inputs.kind != "parquet":
                for batch in TABLE_FORMATS[inputs.kind].rows(filesystem, file):
                    yield together(batch, piece.file, fields)
                return
            with filesystem.open_input_file(file) as stream:
                opened = pq.ParquetFile(stream)
                there = {name.casefold(): name for name in opened.schema_arrow.names}
                own = [there[name.casefold()] for name in names if name not in said and name.casefold() in there]
                for batch in opened.iter_batches(_ROWS, row_groups=_row_groups(opened.metadata, piece), columns=own):
                    yield together(batch, piece.file, fields)

    def together(batch: pa.RecordBatch, file: int, fields: pa.Schema) -> pa.RecordBatch:
        values = {name: pa.repeat(said[name][file], len(batch)) for name in fields.names if name in said}
        found = [values[one.name] if one.name in values else _column(batch, one) for one in fields]
        return pa.record_batch(found, schema=fields)

    groups = groups_in(session, inputs.sizes, [inputs.kind != "parquet"] * len(places), least)
    return groups, read, _with_metadata(schema, inputs.schema)


def _with_metadata(schema: pa.Schema, footers: pa.Schema) -> pa.Schema:
    """Return columns with what the footers of the files say of them."""
    fields = [
        field.with_metadata(footers.field(field.name).metadata) if field.name in footers.names else field
        for field in schema
    ]
    return pa.schema(fields, metadata=footers.metadata)


def _row_groups(metadata: pq.FileMetaData, piece: Piece) -> list[int]:
    """Return the row groups that begin in a piece."""
    found = []
    for i in range(metadata.num_row_groups):
        first = metadata.row_group(i).column(0)
        at = first.data_page_offset
        if first.has_dictionary_page and first.dictionary_page_offset:
            at = min(at, first.dictionary_page_offset)
        if piece.begin <= at and (piece.end is None or at < piece.end):
            found.append(i)
    return found


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return the column of a name, whatever its case, as a type; nulls where there is none."""
    at = next((i for i, name in enumerate(batch.schema.names) if name.casefold() == field.name.casefold()), None)
    if at is None:
        return pa.nulls(len(batch), field.type)
    column = batch.column(at)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # down, also before 1970
        column = pc.floor_temporal(column, unit="microsecond")
    return column.cast(field.type, safe=False)


def folder_columns(inputs: Inputs) -> dict[str, pa.Array]:
    """Return the columns that names of folders say, a value for each file, in the types that Spark gives them."""
    folders = folder_values(inputs.folders)
    kinds = {name: _type_of_folders(values) for name, values in folders.items()}
    kinds |= {name: type_named(kind) for name, kind in inputs.types.items() if name in folders}
    return {name: _as_said(pa.array(values, pa.string()), kinds[name]) for name, values in folders.items()}


def _as_said(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(kind):
        return texts.cast(kind)
    from dtoss.text.text_times import moments

    return moments(texts, None).cast(kind)


def _type_of_folders(values: Sequence[str | None]) -> pa.DataType:
    """Return the type that Spark gives to values of folders: whole numbers, or else text."""
    there = [value for value in values if value is not None]
    if not there or not all(value.removeprefix("-").isdecimal() for value in there):
        return pa.string()
    return pa.int32() if all(-(2**31) <= int(value) < 2**31 for value in there) else pa.int64()


_MARK = b"\xef\xbb\xbf"


def kinds_of_lines(place: Place, piece: Piece | None, *, multiline: bool) -> dict[str, Kind]:
    """Return the kinds of columns that the lines of a file, or of a piece of one, say.

    Where a line is no object, ``_corrupt_record`` is among them. Raises InputError for a name that stands twice in one.
    """
    with reading(place[1], "json"):
        blocks = _blocks(place, multiline, piece)
        return merge_kinds(kinds_of_block(block, place[1], multiline=multiline) for block in blocks)


def json_batches(
    place: Place, schema: pa.Schema, piece: Piece | None = None, *, multiline: bool = False, most: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file or a piece in these columns, null where a value is of another type.

    What is no object, or not wholly of these types, stands in ``_corrupt_record`` if there is that column.
    """
    if not schema.names:
        return
    anew = multiline and place[1].lower().endswith(PACKED)
    with reading(place[1], "json"):
        for block in _blocks(place, multiline, piece):
            yield from batches_of_block(block, schema, place[1], multiline=multiline, anew=anew, most=most)


def _blocks(place: Place, whole: bool, piece: Piece | None) -> Iterator[bytes]:
    """Yield a file or a piece of it in parts that end where a line does, or whole."""
    rest, first = b"", not whole and (piece is None or piece.begin == 0)
    for block in blocks_of(place, piece):
        rest += block
        if first and len(rest) >= len(_MARK):
            rest, first = rest.removeprefix(_MARK), False
        end = 0 if whole else rest.rfind(b"\n") + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def json_tasks(
    session: SparkSession | None, inputs: Inputs, *, multiline: bool, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], pa.Schema]:
    """Return groups of pieces of JSON lines, what yields columns of one, and the columns of all, in the types they say.

    With ``multiline`` a file is one value. No file of fewer than ``least`` bytes is shared by tasks.
    """
    places, folders = inputs.places, folder_columns(inputs)
    whole = [multiline or file.lower().endswith(PACKED) for _, file in places]
    groups = groups_in(session, inputs.sizes, whole, least)

    def look(batches: Batches) -> Batches:
        for batch in batches:
            for number in values_of(batch.column(0)).tolist():
                kinds = [kinds_of_lines(places[piece.file], piece, multiline=multiline) for piece in groups[number]]
                yield one_value("kinds", pickle.dumps(kinds))

    seen = numbered_tasks(session, len(groups)).map(look, "kinds binary").values()
    inside = schema_of_kinds([kinds for some in seen for kinds in pickle.loads(some)])

    def read(piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in json_batches(places[piece.file], inside, piece, multiline=multiline):
            for name, values in folders.items():
                batch = batch.append_column(name, pa.repeat(values[piece.file], len(batch)))
            yield batch.select(list(columns))

    return groups, read, pa.schema([*inside, *((name, values.type) for name, values in folders.items())])
