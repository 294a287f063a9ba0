"""Positions as a DataFrame in our columns, with bad rows set aside with a reason each.

The result has the columns ``id``, ``x``, ``y``, ``t`` where there is a time, and the attributes; a row that cannot be
used has a reason in ``reason`` instead of being lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.space import FURTHEST, Space

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
