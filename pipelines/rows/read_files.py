"""Reading positions from files of any format that Spark reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.delimited.record_batches import CORRUPT
from dtoss.errors import InputError
from pipelines.rows import through_arrow
from pipelines.rows.delimited_frame import read_delimited
from pipelines.rows.geoparquet_in import crs_taken, point_columns, point_of
from pipelines.rows.input_columns import Columns
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.option_checks import check_said
from pipelines.rows.position_frame import Positions, from_frame
from pipelines.rows.read_locally import positions_of_table, read_locally
from pipelines.rows.table_formats import TABLE_FORMATS
from pipelines.spark.causes import raised_in_task
from pipelines.text.text_types import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GUESSED = "spark.sql.sources.partitionColumnTypeInference.enabled"


def positions_in(frame: DataFrame | pa.Table, columns: Columns) -> Positions:
    """Return the positions in a DataFrame of Spark's, or in a table of this process."""
    return positions_of_table(frame, columns) if isinstance(frame, pa.Table) else from_frame(frame, columns)


def read_positions(
    session: SparkSession | None,
    paths: Sequence[str] | Inputs,
    columns: Columns,
    *,
    schema: str = "union",
    wanted: Mapping[str, str] | None = None,
) -> Positions:
    """Return the positions in files, directories at any depth, or globs, all of one format.

    The format goes by the name, of the files or the directory: ``.csv``, ``.txt`` and ``.tsv`` (text with a header
    line), ``.json``, ``.jsonl``, ``.ndjson``, each also with ``.gz`` or ``.bz2``, and ``.parquet``. GeoParquet points
    are read from the geometry column where no coordinates are named or found.

    ``columns``: which columns mean what, and how text is written; ``schema``: "union" takes the columns of all Parquet
    files, "strict" wants all of them in each; ``wanted``: the Spark types that columns of text and JSON lines are to
    have, :func:`pipelines.rows.manifest_columns.types_of`; what all values of these files look like when None.

    Without a session this process reads them.

    Text is looked through for the types of its columns, and kept by Spark until :meth:`Positions.release`.
    """
    check_said(columns)
    inputs = paths if isinstance(paths, Inputs) else look(paths, schema=schema, encoding=columns.encoding)
    if inputs.kind == "json" and columns.encoding is not None:
        raise InputError("--encoding is for CSV: JSON lines are read in UTF-8")
    if session is None:
        return read_locally(inputs, columns, wanted)
    try:
        if inputs.kind == "parquet" or inputs.kind in TABLE_FORMATS:
            return _read_tables(session, inputs, columns)
        frame = (
            read_json(session, inputs, columns) if inputs.kind == "json" else read_delimited(session, inputs, columns)
        )
        frame = frame.persist()
        try:
            return replace(from_frame(frame, columns, text=inputs.kind != "json", wanted=wanted), kept=frame)
        except BaseException:
            frame.unpersist()
            raise
    except InputError:
        raise
    except Exception as error:
        raise unreadable(error, inputs) from None


def unreadable(error: Exception, inputs: Inputs) -> Exception:
    """Return what to tell a user of an error of Spark's, or the error itself where it is not about the input."""
    if (raised := raised_in_task(error)) is not None:
        return raised
    text, where, kind = str(error), ", ".join(inputs.paths), inputs.kind
    if missing := re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\.? SQLSTATE", text):
        return InputError(f"nothing is at {missing[1].removeprefix('file:')}: check the path")
    if scheme := re.search(r'No FileSystem for scheme "?(\w+)', text):
        return InputError(
            f"{where} cannot be reached: Spark has no file system for {scheme[1]}://, and pyarrow finds nothing there; "
            "check the path and the credentials"
        )
    if "UNABLE_TO_INFER_SCHEMA" in text:
        return InputError(f"{where} holds no {kind} file: check the path")
    if "CANNOT_MERGE_SCHEMAS" in text:
        return InputError(f"a column has different types in the files of {where}: one type is wanted")
    if found := re.search(r"\[FAILED_READ_FILE[A-Z_.]*\] [^\n]*?reading file (\S+?)\.? ", text):
        causes = re.findall(r"Caused by: ([^\n]*)", text)
        cause = f": {causes[-1].rpartition('Exception: ')[2]}" if causes else ""
        short = ", it may be cut short" if causes and "EOF" in causes[-1] else ""
        return InputError(f"{found[1].removeprefix('file://')} cannot be read as {kind}{short}{cause}")
    if found := re.search(r"\[PARQUET[A-Z_.]*\] ([^\n]*)", text):
        return InputError(f"{where} cannot be read as {kind}: {found[1].split(' SQLSTATE')[0]}")
    if type(error).__name__ in ("AnalysisException", "ArithmeticException"):
        return InputError(f"{where} cannot be read as {kind}: {text.splitlines()[0]}")
    return error


def _read_tables(session: SparkSession, inputs: Inputs, columns: Columns) -> Positions:
    schema = pa.schema([]) if inputs.schema is None else inputs.schema
    frame = (
        _by_spark(session, inputs, schema)
        if through_arrow.spark_reaches(session, inputs)
        else through_arrow.read_tables(session, inputs)
    )
    point = point_of(schema, columns)
    crs = crs_taken(point, columns.crs)
    frame, named = point_columns(frame, point, columns)
    found = from_frame(frame, named)
    # points of GeoParquet stand in columns that no other file has
    source = found.source and replace(columns, time=found.source.time)
    taken = dict(found.taken)
    if point is not None:
        taken["position"] = f"{point.name}, points"
    if crs is not None and columns.crs is None:
        taken["crs"] = f"{crs}, as the file states"
    return replace(found, crs=crs, source=source, taken=taken)


def _by_spark(session: SparkSession, inputs: Inputs, schema: pa.Schema) -> DataFrame:
    from pyspark.sql import functions as F

    nanoseconds = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit == "ns"]
    if nanoseconds:
        # pandas writes them, and Spark refuses them otherwise
        session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    # without their footers it is not known whether files differ
    options: dict[str, str | bool] = {"mergeSchema": inputs.differ or inputs.schema is None}
    if inputs.base is not None:
        options["basePath"] = inputs.base
    with _folders_as_text(session, bool(inputs.types)):
        frame = session.read.options(**options).parquet(*inputs.paths)
    for name, kind in inputs.types.items():
        frame = frame.withColumn(name, exactly(name).cast(kind))
    if inputs.differ:
        there = {name.casefold() for name in schema.names}
        others = [name for name in frame.columns if name.casefold() not in there]
        frame = frame.select(*map(exactly, [*schema.names, *others]))
    for name in nanoseconds:
        # down, in whole numbers: a double has no room for all digits
        count = f"`{name.replace('`', '``')}`"
        micros = F.timestamp_micros(F.expr(f"({count} - pmod({count}, 1000)) div 1000"))
        zoned = schema.field(name).type.tz is not None
        frame = frame.withColumn(name, micros if zoned else micros.cast("timestamp_ntz"))
    return frame


@contextmanager
def _folders_as_text(session: SparkSession, asked: bool) -> Iterator[None]:
    """Let Spark take values in names of folders as the text that they are, where their types are known."""
    if not asked:
        yield
        return
    before = session.conf.get(_GUESSED)
    session.conf.set(_GUESSED, "false")
    try:
        yield
    finally:
        session.conf.set(_GUESSED, before or "true")


def read_json(session: SparkSession, inputs: Inputs, columns: Columns) -> DataFrame:
    """Return JSON lines in the types that Spark finds in them; a line that is none is in ``_corrupt_record``."""
    if not through_arrow.spark_reaches(session, inputs):
        return through_arrow.read_json(session, inputs, multiline=columns.multiline, corrupt=CORRUPT)
    options = {} if inputs.base is None else {"basePath": inputs.base}
    return session.read.options(**options).json(
        list(inputs.paths), mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, multiLine=columns.multiline
    )
