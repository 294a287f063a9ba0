"""What columns of text hold: whole numbers, numbers, or just text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WHOLE = "whole"
MOSTLY = "mostly whole"
NUMBER = "number"
TEXT = "text"
MOST = 0.9
"""Ids and times are numbers when this share of them are; the others are bad rows then."""

# numbers that are written back as they were read, without the leading zeros and plus signs of codes and telephones
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,18})\z"
PLAIN = r"^(-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?|NaN|-?Infinity)$"
# numbers as people write coordinates and times; Java alone would take 1.5f and 0x1p3 too
LOOSE = r"^\s*([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:nan|[-+]?inf(inity)?))\s*$"
KINDS_OF_TYPES = {"bigint": WHOLE, "double": NUMBER, "string": TEXT, "timestamp": TEXT}
"""What text of a column of this type is."""


def exactly(name: str) -> Column:
    """Return the column of a name, whatever characters are in it."""
    from pyspark.sql import functions as F

    return F.col(f"`{name.replace('`', '``')}`")


def empty(column: Column) -> Column:
    """Return where a column of any type is null or an empty text."""
    return column.isNull() | (column.cast("string") == "")


def kinds_of(
    frame: DataFrame,
    names: Sequence[str],
    tolerant: Sequence[str],
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the kind of columns of text, from all their values: an action, one job for all.

    All values of an attribute must be numbers for it to be one. ``tolerant`` names the columns of which :data:`MOST`
    is enough: where not all are whole numbers, they are MOSTLY so. ``types`` says which Spark types are wanted: such a
    column is of the kind of its type where :data:`MOST` of the values are, or there is none.
    """
    from pyspark.sql import functions as F

    measures: list[Column] = []
    for i, name in enumerate(names):
        value = exactly(name)
        number = _dotted(value, decimal).rlike(LOOSE) if name in tolerant else value.rlike(plain_pattern(decimal))
        measures.append(F.count(F.when(~empty(value), 1)).alias(f"filled{i}"))
        measures.append(F.count(whole(value)).alias(f"w{i}"))
        measures.append(F.count(F.when(number, 1)).alias(f"n{i}"))
    seen = frame.agg(*measures).toArrow().to_pylist()[0]
    kinds = {}
    for i, name in enumerate(names):
        wanted = seen[f"filled{i}"] * (MOST if name in tolerant else 1.0)
        kinds[name] = TEXT
        if wanted and seen[f"w{i}"] >= wanted:
            kinds[name] = WHOLE if seen[f"w{i}"] == seen[f"filled{i}"] else MOSTLY
        elif wanted and seen[f"n{i}"] >= wanted:
            kinds[name] = NUMBER
        kind, most = KINDS_OF_TYPES.get((types or {}).get(name, "")), MOST * seen[f"filled{i}"]
        fits = {WHOLE: seen[f"w{i}"], NUMBER: seen[f"n{i}"], TEXT: seen[f"filled{i}"]}
        if kind is not None and fits[kind] >= most:
            # of those that are whole, 007 is not
            kinds[name] = MOSTLY if kind == WHOLE else kind
    return kinds


def plain_pattern(decimal: str) -> str:
    """Return how numbers are written that are written back as they were read."""
    return PLAIN if decimal == "." else PLAIN.replace(r"\.", re.escape(decimal))


def _dotted(value: Column, decimal: str) -> Column:
    from pyspark.sql import functions as F

    return value if decimal == "." else F.replace(value, F.lit(decimal), F.lit("."))


def not_utf8(value: Column, kind: Any) -> Column | None:
    """Return where a column holds text that is not UTF-8, at any depth; None where its type holds no text."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def within(inner: Any) -> Callable[[Column], Column]:
        return lambda one: cast("Column", not_utf8(one, inner))

    found: list[Column] = []
    if isinstance(kind, (T.StringType, T.VarcharType, T.CharType)):
        found = [~F.is_valid_utf8(value)]
    elif isinstance(kind, T.StructType):
        inner = [not_utf8(value.getField(field.name), field.dataType) for field in kind.fields]
        found = [bad for bad in inner if bad is not None]
    elif isinstance(kind, T.ArrayType) and not_utf8(value, kind.elementType) is not None:
        found = [F.exists(value, within(kind.elementType))]
    elif isinstance(kind, T.MapType):
        parts = [(F.map_keys(value), kind.keyType), (F.map_values(value), kind.valueType)]
        found = [F.exists(part, within(inner)) for part, inner in parts if not_utf8(value, inner) is not None]
    if not found:
        return None
    return F.coalesce(reduce(or_, (F.coalesce(bad, F.lit(False)) for bad in found)), F.lit(False))


def whole(value: Column) -> Column:
    """Return the whole number in a text, null where there is none, or it would not be written back as it was read.

    So ``007`` is none: it would be 7, which may be another's id.
    """
    from pyspark.sql import functions as F

    # looked at first: each text that cannot be cast costs an exception of Java's
    return F.when(value.rlike(WHOLE_NUMBER), value.try_cast("bigint"))


def number(value: Column, decimal: str = ".") -> Column:
    """Return the number in a text, null where there is none."""
    from pyspark.sql import functions as F

    value = _dotted(value, decimal)
    return F.when(value.rlike(LOOSE), value.try_cast("double"))


def typed(value: Column, kind: str, decimal: str = ".") -> Column:
    """Return a text as what its kind says."""
    if kind in (WHOLE, MOSTLY):
        return value.try_cast("bigint")
    return _dotted(value, decimal).try_cast("double") if kind == NUMBER else value


def strictly(value: Column, kind: str, decimal: str = ".") -> Column:
    """Return a text as what its kind says, null where it would not be written back as it was read."""
    from pyspark.sql import functions as F

    if kind in (WHOLE, MOSTLY):
        return whole(value)
    return F.when(value.rlike(plain_pattern(decimal)), typed(value, kind, decimal)) if kind == NUMBER else value


def as_type(value: Column, found: Any, wanted: str) -> Column | None:
    """Return a column of JSON as another type, null where a value is not of it; None where that is not to be had.

    Spark infers types anew for each read: whole numbers where others have a point, text where all values are null.
    """
    from pyspark.sql import functions as F

    kind = found.simpleString()
    if kind == wanted:
        return value
    if (kind, wanted) in (("bigint", "double"), ("bigint", "string")):
        return value.cast(wanted)
    if (kind, wanted) == ("double", "bigint"):
        return F.when(value.try_cast("bigint").cast("double") == value, value.try_cast("bigint"))
    if kind != "string":
        return None
    if wanted == "bigint":
        return whole(value)
    if wanted == "double":
        return F.when(value.rlike(PLAIN), value.try_cast("double"))
    # of all others only their nulls
    return F.lit(None).cast(wanted)
