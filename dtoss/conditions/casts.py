"""Casts: what becomes what, rounded as SQL does, and refused where a value does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.conditions.compare import TEXT, family
from dtoss.conditions.compare_numbers import as_exact, as_floats
from dtoss.conditions.language import Mismatch
from dtoss.conditions.program import Step

_MICROSECONDS = pa.timestamp("us")
_UTC = pa.timestamp("us", "UTC")


def cast(value: Any, step: Step) -> Any:
    """Return a value in the type that a cast names.

    Floating point numbers are rounded to the nearest whole ones, halves to even; decimals halves away from zero.
    """
    if isinstance(value, pa.Scalar):
        return cast(pa.array([value.as_py()], value.type) if value.is_valid else pa.nulls(1, value.type), step)[0]
    source, target = value.type, step.detail
    given, wanted = family(source), family(target)
    if source == target or given == "null":
        return value.cast(target)
    if given == "number" and wanted == "number":
        return _number(value, target, step)
    if wanted == "text" and (given in ("number", "boolean", "text") or pa.types.is_date(source)):
        return _as_text(value, step)
    if given == "text" and wanted in ("number", "boolean", "time"):
        return _from_text(pc.utf8_trim_whitespace(value.cast(TEXT)), target)
    if wanted == "boolean" and pa.types.is_integer(source):
        return value.cast(target)
    if given == "boolean" and pa.types.is_integer(target):
        return value.cast(target)
    if given == "time" and wanted == "time":
        return _time(value, target)
    raise Mismatch(f"{step}: {source} does not become {target}")


def _number(value: Any, target: pa.DataType, step: Step) -> Any:
    if pa.types.is_floating(target):
        return as_floats(value, target)
    if pa.types.is_floating(value.type):
        if pa.types.is_decimal(target):
            raise Mismatch(f"{step}: {value.type} does not become {target}")
        return pc.round(value.cast(pa.float64()), round_mode="half_to_even").cast(target)
    value = as_exact(value)
    scale = target.scale if pa.types.is_decimal(target) else 0
    if value.type.scale > scale:
        # one more digit before the point, or 9.5 has nowhere to go
        room = pa.decimal256(min(value.type.precision + 1, 76), value.type.scale)
        value = pc.round(value.cast(room), scale, round_mode="half_towards_infinity")
    return value.cast(target)


def _as_text(value: Any, step: Step) -> Any:
    if pa.types.is_decimal(value.type):
        return pa.array([None if one is None else format(one, "f") for one in value.to_pylist()], TEXT)
    if pa.types.is_float16(value.type):
        raise Mismatch(f"{step}: {value.type} does not become {TEXT}")
    if pa.types.is_floating(value.type):
        kind = np.float32 if pa.types.is_float32(value.type) else np.float64
        return pa.array([None if one is None else str(kind(one)) for one in value.to_pylist()], TEXT)
    return value.cast(TEXT)


def _from_text(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_decimal(target):
        # read with all its digits, then rounded
        read = value.cast(pa.decimal256(76, 38))
        return pc.round(read, target.scale, round_mode="half_towards_infinity").cast(target)
    if pa.types.is_timestamp(target):
        return value.cast(_MICROSECONDS).cast(target)
    return value.cast(target)


def _time(value: Any, target: pa.DataType) -> Any:
    if pa.types.is_date(target):
        if pa.types.is_timestamp(value.type):
            return pc.floor_temporal(value, unit="day").cast(target)
        return value.cast(target)
    if pa.types.is_timestamp(value.type) and value.type.unit == "ns":
        value = pc.floor_temporal(value, unit="microsecond")
    return value.cast(_MICROSECONDS).cast(_UTC)
