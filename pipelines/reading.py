"""Reading positions from files of any format that Spark reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dtoss.errors import InputError
from pipelines.geoparquet import point_columns
from pipelines.positions import CORRUPT, Columns, Positions, from_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_positions(session: SparkSession, paths: Sequence[str], columns: Columns) -> Positions:
    """Return the positions in files, directories or globs, all of one format.

    The format goes by the name: ``.csv``, ``.tsv``, ``.txt`` (text with a header line), ``.json``, ``.jsonl``,
    ``.ndjson``, each also with ``.gz``, and everything else is Parquet. GeoParquet points are read from the geometry
    column when the two coordinate columns are missing.

    Raises
    ------
    InputError
        If nothing is at a path, a column is missing (the message lists those found), or ids are neither integers nor
        strings.
    """
    from pyspark.errors import AnalysisException

    if not paths:
        raise InputError("no positions are given: name at least one file")
    kind = _kind(paths[0])
    if any(_kind(path) != kind for path in paths):
        raise InputError(f"positions of several formats are mixed ({paths[0]} is {kind}): give files of one format")
    try:
        if kind == "parquet":
            frame = session.read.parquet(*paths)
        elif kind == "csv":
            delimiter = "\t" if paths[0].removesuffix(".gz").endswith(".tsv") else columns.delimiter
            frame = _read_csv(session, list(paths), delimiter)
        else:
            frame = session.read.json(list(paths), mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)
    except AnalysisException as error:
        message = str(error).splitlines()[0]
        if "PATH_NOT_FOUND" in message or "does not exist" in message:
            raise InputError(f"nothing is at {', '.join(paths)}: check the path") from None
        raise InputError(f"{', '.join(paths)} cannot be read as {kind}: {message}") from None
    crs = None
    if kind == "parquet" and not {columns.x, columns.y} <= set(frame.columns):
        frame, crs, columns = point_columns(frame, paths, columns)
    return replace(from_frame(frame, columns, text=kind == "csv"), crs=crs, columnar=kind == "parquet")


def _kind(path: str) -> str:
    name = path.rstrip("/").removesuffix(".gz").lower()
    if name.endswith((".csv", ".tsv", ".txt")):
        return "csv"
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return "json"
    return "parquet"


def _read_csv(session: SparkSession, paths: list[str], delimiter: str) -> DataFrame:
    """Read text with every column a string; a line with another number of fields goes to the corrupt column."""
    names = session.read.csv(paths, header=True, sep=delimiter, encoding="UTF-8").columns
    # a byte-order mark would be part of the first name
    clean = [name.lstrip("\ufeff").strip() for name in names]
    schema = ", ".join(f"`{name}` string" for name in [*clean, CORRUPT])
    return session.read.csv(
        paths,
        schema=schema,
        header=True,
        sep=delimiter,
        encoding="UTF-8",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=CORRUPT,
        ignoreLeadingWhiteSpace=True,
        ignoreTrailingWhiteSpace=True,
        enforceSchema=True,
    )
