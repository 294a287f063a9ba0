"""Parquet and JSON lines that tasks read through Arrow, where Spark has no file system for them, such as S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dtoss.errors import InputError
from dtoss.snapshots.column_types import stored_type, type_named
from pipelines.rows.file_splits import (
    LEAST,
    Piece,
    Place,
    blocks_of,
    bytes_of_task,
    cut,
    folder_values,
    groups_of,
    in_tasks,
    reading,
    size_of,
)
from pipelines.rows.inputs import Inputs
from pipelines.rows.table_formats import PACKED, TABLE_FORMATS
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS = 1 << 16
_LINE = "value"
_NO_JSON = "\x01"
"""No JSON begins with it."""


def spark_reaches(session: SparkSession, inputs: Inputs) -> bool:
    """Return whether Spark has a file system for the paths of inputs, or nobody else has."""
    if inputs.kind in TABLE_FORMATS or any(file.endswith(".zst") for file in inputs.files):
        return False
    schemes = {path.partition("://")[0] if "://" in path else "file" for path in inputs.paths} - {"file"}
    if not inputs.places or not schemes:
        return True
    if any("?" in path for path in inputs.paths):
        return False  # what stands behind it is for Arrow
    from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]

    files = session._jvm.org.apache.hadoop.fs.FileSystem
    try:
        for scheme in schemes:
            files.getFileSystemClass(scheme, session._jsc.hadoopConfiguration())
    except Py4JError:
        return False
    return True


def read_tables(session: SparkSession, inputs: Inputs, *, least: int = LEAST) -> DataFrame:
    """Return the union of the columns of files that are tables, in the types that Spark has; tasks read row groups.

    No file of fewer than ``least`` bytes is shared by tasks.
    """
    groups, read, schema = table_tasks(session, inputs, least=least)
    return in_tasks(session, groups, read, _spark_schema(schema))


def table_tasks(
    session: SparkSession | None, inputs: Inputs, *, least: int = LEAST
) -> tuple[list[list[Piece]], Callable[..., Iterator[pa.RecordBatch]], pa.Schema]:
    """Return groups of pieces of files that are tables, what yields columns of one, and the columns of all."""
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

    whole = [inputs.kind != "parquet"] * len(places)
    sizes, each = _sizes(session, places, least)
    return groups_of(cut(sizes, whole, each), sizes, each), read, schema


def read_json(session: SparkSession, inputs: Inputs, *, multiline: bool, corrupt: str, least: int = LEAST) -> DataFrame:
    """Return JSON lines, or with ``multiline`` whole files, as Spark reads their text.

    What cannot be read stands in the column ``corrupt``. No file of fewer than ``least`` bytes is shared by tasks.
    """
    from pyspark.sql import DataFrame as Frame
    from pyspark.sql import functions as F

    places = inputs.places
    if any(inputs.folders):
        raise InputError(
            f"{inputs.paths[0]} holds folders whose names are values of a column, which are read of JSON only where "
            "Spark reaches the files: name the folders to read"
        )

    def lines(piece: Piece) -> Iterator[pa.RecordBatch]:
        with reading(places[piece.file][1], "json"):
            rest = b""
            for block in blocks_of(places[piece.file], piece):
                rest += block
                end = 0 if multiline else rest.rfind(b"\n") + 1
                if end:
                    yield _texts(rest[:end].split(b"\n"))
                    rest = rest[end:]
            yield _texts([rest])

    sizes, each = _sizes(session, places, least)
    whole = [multiline or place[1].lower().endswith(PACKED) for place in places]
    text = in_tasks(session, groups_of(cut(sizes, whole, each), sizes, each), lines, f"{_LINE} string")
    # a frame of texts is what Spark's reader takes in Java, and not in Python
    encoder = session._jvm.org.apache.spark.sql.Encoders.STRING()
    reader = session.read.options(mode="PERMISSIVE", columnNameOfCorruptRecord=corrupt)
    found = Frame(reader._jreader.json(getattr(text._jdf, "as")(encoder)), session)
    return found.withColumn(corrupt, F.ltrim(corrupt, F.lit(_NO_JSON))) if corrupt in found.columns else found


def _sizes(session: SparkSession | None, places: Sequence[Place], least: int) -> tuple[list[int], int]:
    """Return the bytes of files, and about how many a task is to read."""
    sizes = [size_of(place) for place in places]
    return sizes, bytes_of_task(sum(sizes), cores(session), least)


def _texts(lines: Sequence[bytes]) -> pa.RecordBatch:
    """Return lines as texts; one that is no UTF-8 becomes no JSON."""
    found = []
    for line in lines:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = _NO_JSON + line.decode(errors="replace")
        if text := text.removeprefix("\ufeff").strip():
            found.append(text)
    return pa.record_batch([pa.array(found, pa.string())], names=[_LINE])


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
    return {name: pa.array(values, pa.string()).cast(kinds[name]) for name, values in folders.items()}


def _spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    fields = []
    for field in schema:
        try:
            # a time without a zone stays one
            fields.append(T.StructField(field.name, from_arrow_type(field.type, True)))
        except (PySparkException, TypeError):
            raise InputError(f"column {field.name!r} is {field.type}, which Spark does not have") from None
    return T.StructType(fields)


def _type_of_folders(values: Sequence[str | None]) -> pa.DataType:
    """Return the type that Spark gives to values of folders: whole numbers, or else text."""
    there = [value for value in values if value is not None]
    if not there or not all(value.removeprefix("-").isdecimal() for value in there):
        return pa.string()
    return pa.int32() if all(-(2**31) <= int(value) < 2**31 for value in there) else pa.int64()
