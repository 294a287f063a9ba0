"""Rows as a watch takes them: its columns and types, times in microseconds; the others with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dtoss.errors import InputError
from dtoss.geometry.space import Space
from dtoss.watch.watch_settings import Settings
from pipelines.rows.paths import Unfitting
from pipelines.rows.position_frame import MISTYPED, RAW, REASON, Columns, Positions, attribute_column, screen_positions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAR_TIME = "time out of range"
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000
"""The beginning of the year 1 and the end of the year 9999."""
MICROS = "t_us"
_UNITS = {"ms": 1e3, "s": 1e6}


def first_settings(positions: Positions, space: Space, text: str | None, messages: bool, has_ids: bool) -> Settings:
    """Return the settings of a watch, of its first rows."""
    kinds = {field.name: field.dataType for field in positions.frame.schema.fields}
    attributes = {name: _arrow(kinds[attribute_column(name)]) for name in positions.attributes}
    if text is not None:
        kind = attributes.get(text)
        if kind is None:
            there = ", ".join(attributes) or "none"
            raise InputError(f"there is no column {text!r} (--text NAME); the attributes are {there}")
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"column {text!r} (--text NAME) is {kind}: a column of text is wanted")
    if not has_ids and not messages:
        raise InputError("rows without an id are messages: name the column of ids (--id NAME), or pass --messages")
    time = None
    if positions.timed:
        time = "timestamp" if _is_moment(kinds["t"]) else "double"
    id_type = ("string" if positions.string_ids else "int64") if has_ids else None
    return Settings(space, id_type, time, text, messages, attributes)


def _arrow(kind: Any) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def _is_moment(kind: Any) -> bool:
    from pyspark.sql import types as T

    return isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType))


def types_wanted(settings: Settings | None, columns: Columns) -> dict[str, str]:
    """Return the Spark types that later rows are to have, by their names in the input; none before the first."""
    if settings is None:
        return {}
    from pyspark.sql.pandas.types import from_arrow_type

    types = {name: from_arrow_type(kind).simpleString() for name, kind in settings.attributes.items()}
    if columns.id is not None and settings.id_type is not None:
        types[columns.id] = "bigint" if settings.id_type == "int64" else "string"
    if columns.time is not None and settings.time is not None:
        types[columns.time] = settings.time
    return types


def fit_rows(
    positions: Positions, settings: Settings, wrap: bool, unit: str | None, believed_us: int | None = None
) -> DataFrame:
    """Return rows with the columns of a watch: id, x, y, t_us, attributes, the reason and the row as it was read.

    Only rows that may be set aside have themselves as they were read: to write out the others costs as much as to read
    them.

    ``unit``: of times that are numbers: "ms", or seconds when None; ``believed_us``: later times may be set aside, in
    microseconds since 1970; None believes every time. The plan of a query is compiled anew for each other number.
    """
    from pyspark.sql import functions as F

    good = screen_positions(positions, settings.space, wrap)
    frame = good.frame
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    t = F.lit(None).cast("bigint")
    reason = F.col(REASON)
    if settings.time is not None:
        if not positions.timed:
            raise Unfitting(f"these rows have no column of times, those of the watch have ({settings.time})")
        t = _micros(F.col("t"), kinds["t"], unit)
        far = F.col("t").isNotNull() & (t.isNull() | ~t.between(_FIRST_US, _LAST_US))
        reason = F.coalesce(reason, F.when(far, F.lit(FAR_TIME)))
        t = F.when(far, None).otherwise(t)
    if settings.id_type is not None and (settings.id_type == "string") != positions.string_ids:
        id_column = F.col("id").cast("string") if settings.id_type == "string" else F.col("id").try_cast("bigint")
        reason = F.coalesce(reason, F.when(id_column.isNull(), F.lit("id is not an integer as the others are")))
    else:
        id_column = F.col("id")
    carried = []
    for name, kind in settings.attributes.items():
        value, lost = _attribute(name, kind, kinds)
        carried.append(value.alias(attribute_column(name)))
        if lost is not None:
            reason = F.coalesce(reason, F.when(lost, F.lit(MISTYPED)))
    doubted = F.col(REASON).isNotNull()
    if settings.time is not None and believed_us is not None:
        doubted |= F.col(MICROS) > F.lit(min(believed_us, _LAST_US))
    frame = frame.select(id_column.alias("id"), "x", "y", t.alias(MICROS), *carried, reason.alias(REASON), RAW)
    return frame.withColumn(RAW, F.when(doubted, F.col(RAW)))


def _micros(t: Column, kind: Any, unit: str | None) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.DateType):
        return F.unix_micros(t.cast("timestamp"))
    if isinstance(kind, T.TimestampNTZType):
        return F.unix_micros(F.to_timestamp_ltz(t))
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(t)
    if isinstance(kind, T.NumericType):
        scaled = t.cast("double") * _UNITS[unit or "s"]
        return F.when(F.abs(scaled) <= _LAST_US, F.round(scaled).cast("bigint"))
    raise InputError(f"times are {kind.simpleString()}, which are neither moments nor numbers")


def _attribute(name: str, kind: pa.DataType, kinds: Mapping[str, Any]) -> tuple[Column, Column | None]:
    """Return a column of the watch's type, and where a value cannot be of it; None where each can."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import from_arrow_type

    wanted = from_arrow_type(kind)
    held = kinds.get(attribute_column(name))
    if held is None:
        return F.lit(None).cast(wanted), None
    column = F.col(f"`{attribute_column(name)}`")
    if held == wanted:
        return column, None
    value = column.try_cast(wanted)
    lost = value.isNull()
    if isinstance(wanted, T.IntegralType) and isinstance(held, (T.FractionalType, T.DecimalType)):
        lost |= value.cast(held) != column
    return value, column.isNotNull() & lost


def with_attributes(columns: Columns, settings: Settings | None, found: list[str]) -> Columns:
    """Return which columns of an input mean what, with those of the watch's attributes that it has."""
    if settings is None:
        return columns
    return replace(columns, attributes=[name for name in settings.attributes if name in found])
