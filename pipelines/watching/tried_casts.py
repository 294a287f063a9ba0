"""Values as another type, null where one cannot be: what Spark's ``try_cast`` gives, and whole numbers only of such."""

from __future__ import annotations

import re
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.rows.paths import Unfitting
from dtoss.rows.raw_json import number_text
from dtoss.rows.row_plan import as_double
from dtoss.snapshots.column_types import is_text, stored_type, type_name
from dtoss.text.text_times import moments
from dtoss.text.text_values import any_whole_numbers, numbers

_YES, _NO = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_SECOND_US = 1_000_000
_GREATEST = 2**63 - 1
_MOST_SECONDS = _GREATEST // _SECOND_US
_BLANKS = "".join(map(chr, range(33)))


def as_kind(name: str, values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as a type that snapshots have, null where one cannot be; ``name``: of the column, for the error.

    Raises Unfitting where no value of the one type is one of the other.
    """
    held, wanted = stored_type(values.type), stored_type(kind)
    if held == wanted or _name(held) == _name(wanted):
        return values.cast(kind)
    found = _cast(values.cast(held), wanted)
    if found is None:
        raise Unfitting(
            f"column {name!r} is {type_name(held)} here and {type_name(wanted)} in the rows before: cast it"
        )
    return found.cast(kind)


def _name(kind: pa.DataType) -> str:
    return type_name(kind).replace("timestamp_ntz", "timestamp")


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    if is_text(wanted):
        return _as_text(values)
    held = values.type
    if pa.types.is_boolean(wanted):
        return _as_boolean(values)
    if _is_number(wanted):
        return _as_number(values, wanted)
    if pa.types.is_date(wanted) and pa.types.is_timestamp(held):
        return pc.floor_temporal(values, unit="day").cast(wanted)
    if pa.types.is_date(wanted) and is_text(held):
        return pa.array([None if text is None else _date(text) for text in values.to_pylist()], wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_date(held):
        return values.cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_timestamp(wanted) and _is_number(held):
        return _of_seconds(values).cast(wanted)
    if pa.types.is_timestamp(wanted) and is_text(held):
        return moments(values, None, ".", None)
    return None


def _date(text: str) -> date | None:
    found = _DATE.fullmatch(text.strip(_BLANKS))
    try:
        return None if found is None else date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        return None


def _of_seconds(values: pa.Array) -> pa.Array:
    """Return numbers as moments, which are so many seconds after 1970; the last or the first where none is so far."""
    if pa.types.is_integer(values.type):
        seconds = values.cast(pa.int64())
        micros = pc.if_else(pc.greater(seconds, _MOST_SECONDS), _GREATEST, pc.multiply(seconds, _SECOND_US))
        micros = pc.if_else(pc.less(seconds, -_MOST_SECONDS), -_GREATEST - 1, micros)
    else:
        micros = pc.trunc(pc.multiply(as_double(values), float(_SECOND_US)))
        micros = pc.if_else(pc.less(pc.abs(micros), 2.0**63), micros, None).cast(pa.int64(), safe=False)
    return micros.cast(pa.timestamp("us", "UTC"))


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _as_number(values: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    held = values.type
    if pa.types.is_boolean(held):
        values, held = values.cast(pa.int64()), pa.int64()
    if pa.types.is_timestamp(held) and held.tz is not None:  # its seconds
        micros = values.cast(pa.int64())
        values, held = _seconds(micros, wanted), pa.int64()
    if is_text(held):
        values = any_whole_numbers(values) if pa.types.is_integer(wanted) else numbers(values)
    elif not _is_number(held):
        return None
    if pa.types.is_floating(wanted):
        return as_double(values).cast(wanted, safe=False)
    if pa.types.is_floating(values.type) and pa.types.is_integer(wanted):
        least, beyond = -(2.0 ** (wanted.bit_width - 1)), 2.0 ** (wanted.bit_width - 1)
        fit = pc.and_(
            pc.equal(pc.trunc(values), values), pc.and_(pc.greater_equal(values, least), pc.less(values, beyond))
        )
        return pc.if_else(fit, values, None).cast(wanted, safe=False)
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid:
        return pa.array([_one(value, wanted) for value in values], wanted)


def _seconds(micros: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_integer(wanted):
        return pc.divide(as_double(micros), float(_SECOND_US))
    return pc.floor_temporal(micros.cast(pa.timestamp("us")), unit="second").cast(pa.timestamp("s")).cast(pa.int64())


def _one(value: pa.Scalar, wanted: pa.DataType) -> object:
    try:
        return value.cast(wanted).as_py()
    except pa.ArrowInvalid:
        return None


def _as_boolean(values: pa.Array) -> pa.Array | None:
    if _is_number(values.type):
        return pc.not_equal(as_double(values), 0.0)
    if not is_text(values.type):
        return None
    words = pc.utf8_lower(pc.utf8_trim(values, _BLANKS))
    yes, no = (pc.is_in(words, pa.array(some, words.type)) for some in (_YES, _NO))
    return pc.if_else(yes, True, pc.if_else(no, False, None))


def _as_text(values: pa.Array) -> pa.Array | None:
    held = values.type
    if pa.types.is_floating(held):
        single = pa.types.is_float32(held)
        return pa.array([None if v is None else number_text(v, single=single) for v in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(held):
        texts = pc.strftime(values.cast(pa.timestamp("us")), format="%Y-%m-%d %H:%M:%S")
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0") if len(texts) else texts, ".")
    if pa.types.is_boolean(held) or _is_number(held) or pa.types.is_date(held) or pa.types.is_binary(held):
        return values.cast(pa.string())
    return None
