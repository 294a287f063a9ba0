"""Reading positions from files of any format that Spark reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dtoss.errors import InputError
from pipelines.files import first_file
from pipelines.geoparquet import point_columns
from pipelines.positions import CORRUPT, Columns, Positions, from_frame
from pipelines.texts import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKED = (".gz", ".bz2")
FORMATS = {
    ".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".parquet": "parquet", ".pq": "parquet", ".geoparquet": "parquet",
}  # fmt: skip


def read_positions(session: SparkSession, paths: Sequence[str], columns: Columns) -> Positions:
    """Return the positions in files, directories or globs, all of one format.

    The format goes by the name, of the first file where it is a directory or a glob: ``.csv``, ``.txt`` and ``.tsv``
    (text with a header line), ``.json``, ``.jsonl``, ``.ndjson``, each also with ``.gz`` or ``.bz2``, and everything
    else is Parquet. GeoParquet points are read from the geometry column where no coordinates are named or found.

    Raises
    ------
    InputError
        If nothing is at a path, it cannot be read, a column is missing (the message lists those found), or one is of
        a type that is of no use.

    Notes
    -----
    Text is looked through once for the types of its columns, and kept by Spark until :meth:`Positions.release`.
    """
    if not paths:
        raise InputError("no positions are given: name at least one file")
    kind = _format(paths[0])
    for path in paths:
        if _format(path) != kind:
            raise InputError(
                f"positions of several formats are mixed ({paths[0]} is {kind}, {path} is {_format(path)}): "
                "give files of one format"
            )
    try:
        if kind == "parquet":
            return _read_parquet(session, paths, columns)
        frame = _read_json(session, paths) if kind == "json" else _read_csv(session, paths, kind, columns.delimiter)
        frame = frame.persist()
        try:
            return replace(from_frame(frame, columns, text=kind != "json"), kept=frame)
        except BaseException:
            frame.unpersist()
            raise
    except InputError:
        raise
    except Exception as error:
        raise unreadable(error, paths, kind) from None


def _format(path: str) -> str:
    found = first_file(path)
    for name in (path, found[1] if found else ""):
        name = name.rstrip("/").lower()
        for packed in PACKED:
            name = name.removesuffix(packed)
        for suffix, kind in FORMATS.items():
            if name.endswith(suffix):
                return kind
    return "parquet"


def unreadable(error: Exception, paths: Sequence[str], kind: str) -> Exception:
    """Return what to tell a user of an error of Spark's, or the error itself where it is not about the input."""
    text, where = str(error), ", ".join(paths)
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
    if found := re.search(r"\[(?:FAILED_READ_FILE|PARQUET)[A-Z_.]*\] ([^\n]*)", text):
        return InputError(f"{where} cannot be read as {kind}: {found[1].split(' SQLSTATE')[0]}")
    if type(error).__name__ == "AnalysisException":
        return InputError(f"{where} cannot be read as {kind}: {text.splitlines()[0]}")
    return error


def _read_parquet(session: SparkSession, paths: Sequence[str], columns: Columns) -> Positions:
    from pyspark.sql import functions as F

    schema = _schema(paths[0])
    nanoseconds = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.unit == "ns"]
    if nanoseconds:
        # pandas writes them, and Spark refuses them otherwise
        session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = session.read.parquet(*paths)
    for name in nanoseconds:
        micros = F.timestamp_micros(F.floor(exactly(name) / 1000))
        zoned = schema.field(name).type.tz is not None
        frame = frame.withColumn(name, micros if zoned else micros.cast("timestamp_ntz"))
    crs = None
    coordinates = columns.coordinates(frame.columns)
    if columns.x is None and columns.y is None and not set(coordinates) <= set(frame.columns):
        frame, crs, columns = point_columns(frame, schema, columns)
    return replace(from_frame(frame, columns), crs=crs)


def _schema(path: str) -> pa.Schema:
    found = first_file(path)
    try:
        return pa.schema([]) if found is None else pq.read_schema(found[1], filesystem=found[0])
    except (OSError, pa.ArrowInvalid):
        return pa.schema([])


def _read_json(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    return session.read.json(list(paths), mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)


def _read_csv(session: SparkSession, paths: Sequence[str], kind: str, delimiter: str) -> DataFrame:
    """Read text with every column a string; a line with another number of fields goes to the corrupt column."""
    from pyspark.sql import types as T

    options = {
        "sep": "\t" if kind == "tsv" else delimiter,
        "encoding": "UTF-8",
        "escape": '"',  # a quote within quotes is doubled (RFC 4180)
        "ignoreLeadingWhiteSpace": True,
        "ignoreTrailingWhiteSpace": True,
    }
    first = session.read.csv(list(paths), header=False, **options).limit(1).toArrow().to_pylist()
    if not first:
        raise InputError(f"{', '.join(paths)} is empty: a header line is wanted")
    header = [(name or "").strip() for name in first[0].values()]
    names = [name if name and name not in header[:i] else f"{name}_{i + 1}" for i, name in enumerate(header)]
    schema = T.StructType([T.StructField(name, T.StringType()) for name in [*names, CORRUPT]])
    # with pruning, lines are not told from broken ones by the number of their fields
    return session.read.option("columnPruning", "false").csv(
        list(paths),
        schema=schema,
        header=True,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=CORRUPT,
        # every file's header is compared with the first one's, which ours must be then
        enforceSchema=names != header,
        **options,
    )
