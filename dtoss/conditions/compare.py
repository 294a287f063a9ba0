"""What may be compared with what, and in which type: numbers, texts, times and booleans, each with their own kind."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.conditions.compare_numbers import (
    ARROW,
    PYTHON,
    answered,
    as_exact,
    as_floats,
    compare_constant,
    compare_numbers,
    constants_of_type,
    number_of,
)
from dtoss.conditions.language import Mismatch, instant
from dtoss.conditions.program import Step

TEXT = pa.large_string()
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9


def family(kind: pa.DataType) -> str:
    """Return what a type is to a condition: boolean, number, text, time, null, or else its name."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "time"
    return "null" if pa.types.is_null(kind) else str(kind)


def compared(sign: str, left: Any, right: Any, step: Step) -> Any:
    """Return how two values compare, Arrow arrays or scalars; null where either is null."""
    left, right = timed([left, right])
    kinds = family(left.type), family(right.type)
    if "null" in kinds:
        return _unknown(left, right)
    if kinds[0] != kinds[1] or kinds[0] not in ("boolean", "number", "text", "time"):
        raise Mismatch(f"{step} compares {left.type} with {right.type}")
    if kinds[0] == "number":
        return compare_numbers(sign, left, right)
    if kinds[0] == "time":
        return _times(sign, left, right)
    if left.type != right.type:
        left, right = left.cast(TEXT), right.cast(TEXT)
    return ARROW[sign](left, right)


def among(value: Any, listed: list[Any], step: Step) -> Any:
    """Return whether a value is in a list: null where it is null, or where it is not found beside a null."""
    value, *listed = timed([value, *listed])
    kind = family(value.type)
    constant = isinstance(value, pa.Array) and all(isinstance(one, pa.Scalar) for one in listed)
    if kind == "number" and pa.types.is_decimal(value.type):
        constant &= not any(pa.types.is_floating(one.type) for one in listed)
    if not constant or kind == "null":
        found = pa.scalar(False)
        for one in listed:
            found = pc.or_kleene(found, compared("=", value, one, step))
        return found
    for one in listed:
        if family(one.type) not in (kind, "null") or kind not in ("boolean", "number", "text", "time"):
            raise Mismatch(f"{step} compares {value.type} with {one.type}")
    given = [one for one in listed if one.is_valid]
    if kind == "time":
        ticks, unit = _ticks(value)
        within = _numbers_of(tuple(Fraction(_nanoseconds(one), unit) for one in given), pa.int64())
        found = pc.is_in(ticks, value_set=within)
    elif kind == "number":
        column = value.cast(_searched(value.type))
        within = _numbers_of(tuple(number_of(one) for one in given), value.type)
        found = pc.is_in(column, value_set=within.cast(column.type))
    else:
        found = pc.is_in(value, value_set=pa.array([one.as_py() for one in given], value.type))
    unknown = pa.scalar(None, pa.bool_())
    if len(given) < len(listed):
        found = pc.if_else(found, pa.scalar(True), unknown)
    return pc.if_else(value.is_valid(), found, unknown)


def _searched(kind: pa.DataType) -> pa.DataType:
    """Return the type in which Arrow looks for numbers of a type in a list."""
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    return kind


@lru_cache(maxsize=8)
def _numbers_of(numbers: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    """Return the numbers that a type holds: the same list is asked of every partition."""
    return constants_of_type(kind, list(numbers))


def timed(values: list[Any]) -> list[Any]:
    """Return values with constant texts read as times where another is a time."""
    if not any(family(value.type) == "time" for value in values):
        return values
    constant = [isinstance(value, pa.Scalar) and family(value.type) == "text" for value in values]
    return [
        instant(value.as_py()) if text and value.is_valid else value
        for value, text in zip(values, constant, strict=True)
    ]


def in_one_type(values: list[Any], step: Step) -> list[Any]:
    """Return values in one type that holds them all: what a case or coalesce may give."""
    values = timed(values)
    kinds = {family(value.type) for value in values} - {"null"}
    if len(kinds) > 1:
        raise Mismatch(f"{step} gives {' or '.join(dict.fromkeys(str(value.type) for value in values))}")
    known = [value for value in values if family(value.type) != "null"]
    if kinds == {"number"}:
        known = _numbers(known)
    target = known[0].type if known else pa.null()
    if len({value.type for value in known}) > 1:
        target = TEXT if kinds == {"text"} else pa.timestamp("us", "UTC") if kinds == {"time"} else target
        if kinds == {"number"} and pa.types.is_decimal(target):
            scale = max(value.type.scale for value in known)
            target = pa.decimal256(max(value.type.precision - value.type.scale for value in known) + scale, scale)
        elif kinds == {"time"} and any(getattr(value.type, "unit", "") == "ns" for value in known):
            target = pa.timestamp("ns", "UTC")
    turned = iter(known)
    whole = [next(turned) if family(value.type) != "null" else value for value in values]
    return [_as(value, target) for value in whole]


def _numbers(values: list[Any]) -> list[Any]:
    """Return numbers as floats where one is, else as decimals where one is or has to be, else as int64."""
    kinds = [value.type for value in values]
    if len(set(kinds)) == 1:
        return values
    if any(pa.types.is_floating(kind) for kind in kinds):
        return [as_floats(value) for value in values]
    if any(pa.types.is_decimal(kind) or kind == pa.uint64() for kind in kinds):
        return [as_exact(value) for value in values]
    return [value.cast(pa.int64()) for value in values]


def _as(value: Any, kind: pa.DataType) -> Any:
    if value.type == kind:
        return value
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(value.type) and value.type.tz is None:
        return value.cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_timestamp(kind) and pa.types.is_date(value.type):
        return value.cast(pa.timestamp(kind.unit)).cast(kind)
    return value.cast(kind)


def _unknown(left: Any, right: Any) -> Any:
    for side in (left, right):
        if isinstance(side, pa.Array):
            return pa.nulls(len(side), pa.bool_())
    return pa.scalar(None, pa.bool_())


def _times(sign: str, left: Any, right: Any) -> Any:
    """Compare times as whole numbers of their units, none of which is brought to a finer one: it may not hold it."""
    if isinstance(left, pa.Scalar) and isinstance(right, pa.Scalar):
        if not (left.is_valid and right.is_valid):
            return pa.scalar(None, pa.bool_())
        return pa.scalar(PYTHON[sign](_nanoseconds(left), _nanoseconds(right)))
    if isinstance(left, pa.Scalar):
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        return _times(turned.get(sign, sign), right, left)
    ticks, unit = _ticks(left)
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return pa.nulls(len(left), pa.bool_())
        return compare_constant(sign, ticks, Fraction(_nanoseconds(right), unit))
    others, other_unit = _ticks(right)
    if unit == other_unit:
        return ARROW[sign](ticks, others)
    if unit > other_unit:
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        return _times(turned.get(sign, sign), right, left)
    fine, coarse = (side.fill_null(0).to_numpy(zero_copy_only=False) for side in (ticks, others))
    whole, part = np.divmod(fine, other_unit // unit)
    equal, less = (whole == coarse) & (part == 0), whole < coarse
    return answered(sign, (less, equal, ~less & ~equal), left, right)


def _ticks(column: pa.Array) -> tuple[pa.Array, int]:
    """Return times as int64, and the nanoseconds of one."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32()).cast(pa.int64()), _DAY
    return column.cast(pa.int64()), _unit(column.type)


def _unit(kind: pa.DataType) -> int:
    return _DAY if pa.types.is_date32(kind) else 10**6 if pa.types.is_date64(kind) else _NANOSECONDS[kind.unit]


def _nanoseconds(time: pa.Scalar) -> int:
    return int(time.value) * _unit(time.type)
