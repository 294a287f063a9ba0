"""Reading positions from files of any format that Spark reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from dtoss.errors import InputError
from pipelines.rows.delimited import check_text, read_delimited
from pipelines.rows.geoparquet_in import point_columns
from pipelines.rows.inputs import Inputs, look
from pipelines.rows.positions import CORRUPT, Columns, Positions, from_frame
from pipelines.rows.texts import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_positions(
    session: SparkSession,
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

    Parameters
    ----------
    session
        The one that reads the files.
    paths
        Of files, directories or globs, or what :func:`pipelines.rows.inputs.look` has found there.
    columns
        Which columns mean what, and how text is written.
    schema
        "union" takes the columns of all Parquet files, "strict" wants all of them in each.
    wanted
        The Spark types that columns of text and JSON lines are to have, :func:`pipelines.rows.described.types_of`; what
        all values of these files look like when None.

    Raises
    ------
    InputError
        If nothing is at a path, it cannot be read, a column is missing (the message lists those found), or one is of
        a type that is of no use, or of different types in different files.
    ValueError
        If text cannot be written as ``columns`` says.

    Notes
    -----
    Text is looked through for quotes that hold line ends and for bytes that are no text, then for the types of its
    columns, and kept by Spark until :meth:`Positions.release`.
    """
    check_text(columns)
    inputs = paths if isinstance(paths, Inputs) else look(paths, schema=schema, encoding=columns.encoding)
    if inputs.kind == "json" and columns.encoding is not None:
        raise InputError("--encoding is for CSV: JSON lines are read in UTF-8")
    try:
        if inputs.kind == "parquet":
            return _read_parquet(session, inputs, columns)
        frame = (
            _read_json(session, inputs, columns) if inputs.kind == "json" else read_delimited(session, inputs, columns)
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
    text, where, kind = str(error), ", ".join(inputs.paths), inputs.kind
    if missing := re.search(r"\[PATH_NOT_FOUND\] Path does not exist: (.+?)\.? SQLSTATE", text):
        return InputError(f"nothing is at {missing[1].removeprefix('file:')}: check the path")
    if "CSV header does not conform" in text or "Number of column in CSV header" in text:
        odd = re.search(r"CSV file: (\S+)", text)
        return InputError(
            f"the header line of {odd[1].removeprefix('file://') if odd else where} is not that of the other files: "
            "rebuild from files with the same columns"
        )
    if "UNABLE_TO_INFER_SCHEMA" in text:
        return InputError(f"{where} holds no {kind} file: check the path")
    if "CANNOT_MERGE_SCHEMAS" in text:
        return InputError(f"a column has different types in the files of {where}: rebuild from files of one type")
    if found := re.search(r"\[FAILED_READ_FILE[A-Z_.]*\] [^\n]*?reading file (\S+?)\.? ", text):
        causes = re.findall(r"Caused by: ([^\n]*)", text)
        cause = f": {causes[-1].rpartition('Exception: ')[2]}" if causes else ""
        short = ", it may be cut short" if causes and "EOF" in causes[-1] else ""
        return InputError(f"{found[1].removeprefix('file://')} cannot be read as {kind}{short}{cause}")
    if found := re.search(r"\[PARQUET[A-Z_.]*\] ([^\n]*)", text):
        return InputError(f"{where} cannot be read as {kind}: {found[1].split(' SQLSTATE')[0]}")
    if charset := re.search(r"parameter\(s\) `charset`.* but got (\S+?)\. ", text):
        return InputError(f"Java knows no encoding {charset[1]!r}: convert the text to UTF-8 first")
    if type(error).__name__ in ("AnalysisException", "ArithmeticException"):
        return InputError(f"{where} cannot be read as {kind}: {text.splitlines()[0]}")
    return error


def _read_parquet(session: SparkSession, inputs: Inputs, columns: Columns) -> Positions:
    from pyspark.sql import functions as F

    schema = pa.schema([]) if inputs.schema is None else inputs.schema
    nanoseconds = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit == "ns"]
    if nanoseconds:
        # pandas writes them, and Spark refuses them otherwise
        session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    # without their footers it is not known whether files differ
    options: dict[str, str | bool] = {"mergeSchema": inputs.differ or inputs.schema is None}
    if inputs.base is not None:
        options["basePath"] = inputs.base
    frame = session.read.options(**options).parquet(*inputs.paths)
    if inputs.differ:
        there = {name.casefold() for name in schema.names}
        others = [name for name in frame.columns if name.casefold() not in there]
        frame = frame.select(*map(exactly, [*schema.names, *others]))
    for name in nanoseconds:
        micros = F.timestamp_micros(F.floor(exactly(name) / 1000))
        zoned = schema.field(name).type.tz is not None
        frame = frame.withColumn(name, micros if zoned else micros.cast("timestamp_ntz"))
    crs, asked = None, columns
    coordinates = columns.coordinates(frame.columns)
    if columns.x is None and columns.y is None and not set(coordinates) <= set(frame.columns):
        frame, crs, columns = point_columns(frame, schema, columns)
    found = from_frame(frame, columns)
    # points of GeoParquet stand in columns that no other file has
    source = found.source and replace(asked, time=found.source.time)
    return replace(found, crs=crs, source=source)


def _read_json(session: SparkSession, inputs: Inputs, columns: Columns) -> DataFrame:
    options = {} if inputs.base is None else {"basePath": inputs.base}
    return session.read.options(**options).json(
        list(inputs.paths), mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, multiLine=columns.multiline
    )
