"""Rows as the JSON that Spark's ``to_json`` writes of them, in UTC and with their nulls, without Spark."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa

from dtoss.snapshots.column_types import stored_type, type_name

_ESCAPES = {i: f"\\u{i:04X}" for i in range(32)} | {
    ord(plain): "\\" + short for plain, short in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_NULL = "null"
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java writes a power of ten to other numbers."""


def raw_rows(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as JSON with all its columns: what ``to_json`` gives with ``ignoreNullFields`` false, as strings.

    Raises TypeError for a type that has no name in a manifest. Keys of maps that are binary, lists or structs, of which
    Spark writes where they lie in memory, become their base64 or JSON.
    """
    stored = [pa.field(field.name, stored_type(field.type)) for field in rows.schema]
    for field in stored:
        type_name(field.type)
    if [field.type for field in stored] != rows.schema.types:
        rows = rows.cast(pa.schema(stored))
    return pa.array(_objects(rows.schema.names, [_texts(column) for column in rows.columns], len(rows)), pa.string())


def number_text(value: float, *, single: bool = False) -> str:
    """Return a float as Java 19 and later write it: of the shortest digits, two at least, those that are nearest."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return str(float(value))
    text = np.format_float_scientific(np.float32(value) if single else value, trim="-")
    if _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        plain = format(Decimal(text), "f")
        return plain if "." in plain else plain + ".0"
    if "." not in text:
        text = f"{float(value):.1e}"
    digits, _, power = text.partition("e")
    return f"{digits}E{int(power)}"


def text_of(data: bytes) -> str:
    """Return what Java reads of bytes that ought to be UTF-8; half of a pair is one wrong character there."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", data).decode(errors="replace")


def json_text(text: str) -> str:
    """Return text as JSON."""
    return f'"{text.translate(_ESCAPES)}"'


def _objects(names: Sequence[str], columns: Sequence[Sequence[str]], count: int) -> list[str]:
    heads = [f"{json_text(name)}:" for name in names]
    return [
        f"{{{','.join(head + column[i] for head, column in zip(heads, columns, strict=True))}}}" for i in range(count)
    ]


def _texts(values: pa.Array) -> list[str]:
    """Return the JSON of each value of a column."""
    kind = values.type
    if pa.types.is_struct(kind):
        found = _objects([field.name for field in kind], [_texts(one) for one in values.flatten()], len(values))
    elif pa.types.is_nested(kind):
        found = _many(values)
    else:
        found = _plain(values)
    there = values.is_valid().to_pylist()
    return [text if is_there else _NULL for text, is_there in zip(found, there, strict=True)]


def _many(values: pa.Array) -> list[str]:
    """Return the JSON of lists and maps."""
    left, right = "[", "]"
    offsets = values.offsets.to_pylist()
    begin, many = offsets[0], offsets[-1] - offsets[0]
    if pa.types.is_map(values.type):
        left, right = "{", "}"
        keys, items = (_keys(values.keys.slice(begin, many)), _texts(values.items.slice(begin, many)))
        parts = [f"{json_text(key)}:{item}" for key, item in zip(keys, items, strict=True)]
    else:
        parts = _texts(values.values.slice(begin, many))
    pairs = pairwise(offsets)
    return [f"{left}{','.join(parts[first - begin : last - begin])}{right}" for first, last in pairs]


def _keys(values: pa.Array) -> list[str]:
    """Return keys of a map as texts: moments as the numbers that Spark keeps of them, texts as they are."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if pa.types.is_string(kind):
        return [text_of(one) for one in _bytes(values)]
    # no JSON of any other type has quotes that are not around it
    return [text.strip('"') for text in _texts(values)] if not pa.types.is_nested(kind) else _texts(values)


def _plain(values: pa.Array) -> list[str]:
    """Return the JSON of values that hold no others; anything where there is none."""
    kind = values.type
    if pa.types.is_string(kind):
        return [json_text(text_of(one)) for one in _bytes(values)]
    if pa.types.is_binary(kind):
        return [f'"{base64.b64encode(one).decode()}"' for one in _bytes(values)]
    if pa.types.is_floating(kind):
        single = pa.types.is_float32(kind)
        texts = [number_text(one or 0.0, single=single) for one in values.to_pylist()]
        return [text if text[-1].isdecimal() else f'"{text}"' for text in texts]
    if pa.types.is_date32(kind):
        return [f'"{_moment(text)}"' for text in _numbers(values, pa.int32()).astype("M8[D]").astype(str)]
    if pa.types.is_timestamp(kind):
        # down to milliseconds, also before 1970
        milliseconds = (_numbers(values, pa.int64()) // 1000).astype("M8[ms]")
        return [f'"{_moment(text)}{"" if kind.tz is None else "Z"}"' for text in milliseconds.astype(str)]
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in values.to_pylist()]


def _bytes(values: pa.Array) -> list[bytes]:
    """Return texts as they are stored, which may be no UTF-8."""
    return [one or b"" for one in values.cast(pa.binary()).to_pylist()]


def _numbers(values: pa.Array, kind: pa.DataType) -> np.ndarray:
    return np.asarray(values.cast(kind).fill_null(0)).astype(np.int64)


def _moment(text: str) -> str:
    """Return a date that numpy wrote as Java does: years have four digits or more, and more a sign."""
    year, rest = text[: text.index("-", 1)], text[text.index("-", 1) :]
    if year[0] == "-":
        return f"-{year[1:]:0>4}{rest}"
    return f"+{text}" if len(year) > 4 else text
