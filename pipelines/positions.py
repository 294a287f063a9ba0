"""Reading positions of any format Spark reads, and setting bad rows aside with a reason each.

The result has the columns ``id``, ``x``, ``y``, ``t`` where there is a time, and the attributes; a row that cannot be
used has a reason in ``reason`` instead of being lost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from dtoss.errors import InputError
from dtoss.space import FURTHEST, Space
from dtoss.store import filesystem_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CORRUPT = "_corrupt_record"
HEAD = 1000
"""Rows of a text file that tell the types of its columns."""
REASON = "_reason"
RAW = "_raw"
REASONS = (
    "unreadable line",
    "no id",
    "id is not an integer as the others are",
    "no time",
    "time cannot be read",
    "no position",
    "position is not a number",
    "position is NaN",
    "position is infinite",
    "longitude out of range",
    "latitude out of range",
    "position out of range",
)
"""Why a row is set aside, in the order in which reasons are looked for."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of the input mean what, and how text is to be read.

    Parameters
    ----------
    time : the column whose greatest value is an object's latest row; None takes a column ``t`` if there is one.
    attributes : names to carry along, "all" or "none".
    delimiter : of CSV files.
    time_format : of times in text: a Spark pattern such as ``M/d/yyyy H:mm:ss``, ``epoch_s`` or ``epoch_ms``; ISO
        8601 when None.
    """

    id: str = "id"
    x: str = "lon"
    y: str = "lat"
    time: str | None = None
    attributes: Sequence[str] | str = "all"
    delimiter: str = ","
    time_format: str | None = None


@dataclass(frozen=True)
class Positions:
    """Positions as a DataFrame in our columns, and what became of the input's.

    Parameters
    ----------
    frame : id (bigint or string), x, y (double), t where there is a time, attributes, the reason in ``_reason`` and
        the row as it was read, as JSON, in ``_raw``.
    attributes : names of the attribute columns.
    timed : whether there is a ``t``.
    string_ids : whether ids are strings.
    crs : what the file itself says its CRS is (GeoParquet), or None.
    columnar : reading it again costs little.
    """

    frame: DataFrame
    attributes: tuple[str, ...]
    timed: bool
    string_ids: bool
    crs: str | None
    columnar: bool


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
        frame, crs, columns = _points(frame, paths, columns)
    return replace(from_frame(frame, columns, text=kind == "csv"), crs=crs, columnar=kind == "parquet")


def from_frame(frame: DataFrame, columns: Columns, *, text: bool = False) -> Positions:
    """Return positions from a DataFrame; ``text`` says that all its columns are strings of unknown types.

    Raises
    ------
    InputError
        If a column is missing, or ids are neither integers nor strings.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    found = [name for name in frame.columns if name != CORRUPT]
    time = columns.time or ("t" if "t" in found and "t" not in (columns.id, columns.x, columns.y) else None)
    for role, name in (("id", columns.id), ("x", columns.x), ("y", columns.y), ("time", time)):
        if name is not None and name not in found:
            option = f"--{role} NAME" if role != "time" else "--time NAME"
            raise InputError(f"there is no column {name!r} ({option}); the columns are {', '.join(found)}")
    attributes = _attributes(columns.attributes, found, {columns.id, columns.x, columns.y})
    types = {field.name: field.dataType for field in frame.schema.fields}
    head = frame.select(*found).limit(HEAD).toArrow() if text else None

    id_type = types[columns.id]
    whole = isinstance(id_type, (T.ByteType, T.ShortType, T.IntegerType, T.LongType))
    if not whole and not isinstance(id_type, (T.StringType, T.VarcharType, T.CharType)):
        raise InputError(
            f"column {columns.id!r} is {id_type.simpleString()}: ids are integers or strings, cast it first"
        )
    if head is not None:
        whole = _whole_numbers(head.column(columns.id))
    source = F.col(f"`{columns.id}`")
    id_column = source.try_cast("bigint") if whole else source.cast("string")
    x, y = (_number(F.col(f"`{name}`"), types[name]) for name in (columns.x, columns.y))
    selected = [id_column.alias("id"), x.alias("x"), y.alias("y")]
    reasons: list[tuple[Column, str]] = []
    if CORRUPT in frame.columns:
        reasons.append((F.col(CORRUPT).isNotNull(), "unreadable line"))
    reasons.append((source.isNull() | (source.cast("string") == ""), "no id"))
    if head is not None and whole:
        reasons.append((id_column.isNull(), "id is not an integer as the others are"))
    if time is not None:
        t = _time(F.col(f"`{time}`"), types[time], columns.time_format, head, time)
        selected.append(t.alias("t"))
        reasons.append((F.col(f"`{time}`").isNull() | (F.col(f"`{time}`").cast("string") == ""), "no time"))
        reasons.append((t.isNull(), "time cannot be read"))
    for name, column in ((columns.x, x), (columns.y, y)):
        raw = F.col(f"`{name}`")
        reasons.append((raw.isNull() | (raw.cast("string") == ""), "no position"))
        reasons.append((column.isNull(), "position is not a number"))
        reasons.append((F.isnan(column), "position is NaN"))
    for name in attributes:
        if name == time:
            selected.append(F.col(f"`{time}`").alias(_attribute(name)) if head is None else t.alias(_attribute(name)))
        elif head is not None:
            selected.append(_typed(F.col(f"`{name}`"), head.column(name)).alias(_attribute(name)))
        else:
            selected.append(F.col(f"`{name}`").alias(_attribute(name)))
    reason = F.lit(None).cast("string")
    for condition, label in reversed(reasons):
        reason = F.when(condition, F.lit(label)).otherwise(reason)
    return Positions(
        frame=frame.select(*selected, reason.alias(REASON), F.to_json(F.struct("*")).alias(RAW)),
        attributes=tuple(attributes),
        timed=time is not None,
        string_ids=not whole,
        crs=None,
        columnar=True,
    )


def screened(positions: Positions, space: Space) -> Positions:
    """Return the positions with the reasons completed by what is legal in a space."""
    from pyspark.sql import functions as F

    x, y = F.col("x"), F.col("y")
    infinite = (F.abs(x) == float("inf")) | (F.abs(y) == float("inf"))
    if space.geographic:
        outside = (F.abs(x) > 180.0) | (F.abs(y) > 90.0)
        label = F.when(F.abs(x) > 180.0, F.lit("longitude out of range")).otherwise(F.lit("latitude out of range"))
    else:
        outside = (F.abs(x) > FURTHEST) | (F.abs(y) > FURTHEST)
        label = F.lit("position out of range")
    reason = F.coalesce(F.col(REASON), F.when(infinite, F.lit("position is infinite")), F.when(outside, label))
    return replace(positions, frame=positions.frame.withColumn(REASON, reason))


def _attribute(name: str) -> str:
    """Attributes carry a prefix inside the job, so that one may be called ``x``."""
    return f"a:{name}"


def attribute_name(column: str) -> str:
    """Return the name of an attribute from its column inside the job."""
    return column.removeprefix("a:")


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


def _attributes(wanted: Sequence[str] | str, found: list[str], roles: set[str]) -> list[str]:
    if wanted == "none":
        return []
    others = [name for name in found if name not in roles and not name.startswith("_")]
    if wanted == "all":
        return others
    names = [name.strip() for name in wanted.split(",")] if isinstance(wanted, str) else list(wanted)
    for name in names:
        if name not in found:
            raise InputError(f"there is no column {name!r} (--columns); the columns are {', '.join(found)}")
    return names


def _number(column: Column, kind: Any) -> Column:
    from pyspark.sql import types as T

    return column.try_cast("double") if isinstance(kind, T.StringType) else column.cast("double")


def _whole_numbers(values: pa.ChunkedArray) -> bool:
    texts = [text.strip() for text in values.to_pylist() if text is not None and text.strip()]
    return bool(texts) and all(_canonical(text) for text in texts)


def _canonical(text: str) -> bool:
    try:
        return str(int(text)) == text and abs(int(text)) < 1 << 63
    except ValueError:
        return False


def _typed(column: Column, values: pa.ChunkedArray) -> Column:
    """Return an attribute of a text file in the type that its first rows have: integer, number or string."""
    texts = [text for text in values.to_pylist() if text is not None and text.strip()]
    if not texts:
        return column
    if all(_canonical(text.strip()) for text in texts):
        return column.try_cast("bigint")
    try:
        for text in texts:
            float(text)
    except ValueError:
        return column
    return column.try_cast("double")


def _time(column: Column, kind: Any, pattern: str | None, head: pa.Table | None, name: str) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if not isinstance(kind, T.StringType):
        return column
    if pattern in ("epoch_s", "epoch_ms"):
        seconds = column.try_cast("double") / (1000.0 if pattern == "epoch_ms" else 1.0)
        return F.timestamp_seconds(seconds)
    if pattern is not None:
        return F.try_to_timestamp(column, F.lit(pattern))
    if head is not None and _whole_numbers(head.column(name)):
        return column.try_cast("bigint")  # numbers are in their own order
    return F.try_to_timestamp(column)


def _points(frame: DataFrame, paths: Sequence[str], columns: Columns) -> tuple[DataFrame, str | None, Columns]:
    """Return a GeoParquet frame with its points in two columns, and the CRS that the file states."""
    from pyspark.sql import functions as F

    geo = _geo_metadata(paths[0])
    if geo is None:
        return frame, None, columns
    name = geo["primary_column"]
    about = geo["columns"][name]
    kinds = set(about.get("geometry_types") or ["Point"])
    if not kinds <= {"Point", "Point Z"}:
        raise InputError(f"geometry column {name!r} holds {', '.join(sorted(kinds))}: points are wanted")
    x, y = "_x", "_y"
    if about["encoding"] == "point":
        frame = frame.withColumn(x, F.col(f"`{name}`.x")).withColumn(y, F.col(f"`{name}`.y"))
    elif about["encoding"] == "WKB":
        frame = frame.withColumn("_point", _wkb_points()(F.col(f"`{name}`")))
        frame = frame.withColumn(x, F.col("_point.x")).withColumn(y, F.col("_point.y")).drop("_point")
    else:
        raise InputError(f"geometry column {name!r} is encoded as {about['encoding']}: WKB or point is wanted")
    crs = about.get("crs", "missing")
    found = "OGC:CRS84" if crs in ("missing", None) else json.dumps(crs)
    return frame.drop(name), found, replace(columns, x=x, y=y)


def _wkb_points() -> Any:
    from pyspark.sql.functions import arrow_udf

    def decode(geometries: pa.Array) -> pa.Array:
        return wkb_points(geometries)

    return arrow_udf(decode, "struct<x:double,y:double>")


def wkb_points(geometries: pa.Array) -> pa.Array:
    """Return the x and y of WKB points as an Arrow struct array; null where a value is null, empty or not a point."""
    data = geometries.cast(pa.large_binary())
    n = len(data)
    lengths = pc.fill_null(pc.binary_length(data), 0).to_numpy(zero_copy_only=False)
    _, offset_buffer, bytes_buffer = data.buffers()
    starts = np.frombuffer(offset_buffer, np.int64)[data.offset : data.offset + n]
    raw = np.frombuffer(bytes_buffer or b"", np.uint8)
    x, y = np.full(n, np.nan), np.full(n, np.nan)
    ok = np.zeros(n, np.bool_)
    for first, order in ((1, "<"), (0, ">")):
        candidate = np.flatnonzero(lengths >= 21)
        candidate = candidate[raw[starts[candidate]] == first]
        if len(candidate) == 0:
            continue
        head = raw[starts[candidate][:, None] + np.arange(1, 5)].copy().view(f"{order}u4").ravel()
        # the type may carry flags or thousands for Z, M and an SRID of 4 bytes
        point = (head & 0xFFFF) % 1000 == 1
        skip = np.where(head & 0x20000000, 9, 5)
        long_enough = lengths[candidate] >= skip + 16
        rows, at = candidate[point & long_enough], (starts[candidate] + skip)[point & long_enough]
        values = raw[at[:, None] + np.arange(16)].copy().view(f"{order}f8")
        x[rows], y[rows] = values[:, 0], values[:, 1]
        ok[rows] = True
    empty = np.isnan(x) | np.isnan(y)
    mask = pa.array(~ok | empty)
    return pa.StructArray.from_arrays([pa.array(x), pa.array(y)], ["x", "y"], mask=mask)


def _geo_metadata(path: str) -> dict[str, Any] | None:
    filesystem, place = filesystem_of(path)
    if isinstance(filesystem, fs.LocalFileSystem):
        some = sorted(Path(place).parent.glob(Path(place).name)) or [Path(place)]
        inside = sorted(some[0].rglob("*.parquet")) if some[0].is_dir() else some[:1]
        place = str(inside[0]) if inside else place
    try:
        metadata = pq.read_schema(place, filesystem=filesystem).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    return json.loads(metadata[b"geo"]) if b"geo" in metadata else None
