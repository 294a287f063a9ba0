"""Parquet and other tables in pieces that tasks read, their columns together, and those that folders say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.snapshots.column_types import stored_type, type_named
from pipelines.rows.file_splits import (
    LEAST,
    Piece,
    folder_values,
    groups_in,
    reading,
)
from pipelines.rows.inputs import Inputs
from pipelines.rows.table_formats import TABLE_FORMATS

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
