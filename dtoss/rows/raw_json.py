"""JSON as Spark's ``to_json`` writes rows, and as Spark reads it: with single quotes, NaN and what follows a value."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

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


_SPACE = re.compile(r"[ \t\r\n]*")
_TEXTS = {
    quote: re.compile(
        rf"{quote}([^{quote}\\\x00-\x1f\udc80-\udcff]*(?:\\.[^{quote}\\\x00-\x1f\udc80-\udcff]*)*){quote}"
    )
    for quote in "\"'"
}
"""Bytes that are no UTF-8 stand in a text as surrogates, and in no value."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT = dict(zip("bfnrt\"'\\/", "\b\f\n\r\t\"'\\/", strict=True))
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![0-9.eE])")
_WORD = re.compile(r"(true|false|null|NaN|[+-]?Infinity|[+-]INF)(?![\w$])")
_WORDS = {"true": True, "false": False, "null": None, "NaN": float("nan")}
_LONGEST = 1000
"""Digits of a number."""
DEEPEST_JSON = 100
"""Levels of lists and objects; Spark takes a thousand, and its types then cost it its life."""


class NoJson(ValueError):
    """A text that holds no JSON."""


@dataclass(frozen=True)
class Written:
    """A value that is no text, with how it was written."""

    value: Any  # None is never written; objects are dicts, of these and texts
    text: str


class LenientReader:
    """Reads one value of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.twice: str | None = None  # A name that an object has twice

    def read(self) -> Any:
        """Return the first value of the text, a :class:`Written` where it is no text; raises :class:`NoJson`."""
        return self._value(self._next(), 0)

    def ended(self) -> bool:
        """Return whether nothing but space is left."""
        return self._next() == ""

    def _next(self) -> str:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def _value(self, first: str, depth: int) -> Any:
        if first in _TEXTS:
            return self._text(first)
        begin = self.at
        if first == "{" or first == "[":
            if depth >= DEEPEST_JSON:
                raise NoJson(begin)
            self.at += 1
            value: Any = self._object(depth + 1) if first == "{" else self._list(depth + 1)
        elif (word := _WORD.match(self.text, begin)) is not None:
            self.at = word.end()
            if word[1] == "null":
                return None
            value = _WORDS[word[1]] if word[1] in _WORDS else float(word[1].replace("INF", "Infinity"))
        else:
            number = _NUMBER.match(self.text, begin)
            if number is None or sum(map(str.isdigit, number[0])) > _LONGEST:
                raise NoJson(begin)
            self.at = number.end()
            value = float(number[0]) if number[2] or number[3] else int(number[0])
        return Written(value, self.text[begin : self.at])

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        first = self._next()
        while first != "}":
            if first not in _TEXTS:
                raise NoJson(self.at)
            name = self._text(first)
            if self._next() != ":":
                raise NoJson(self.at)
            self.at += 1
            if name in found:
                self.twice = name
            found[name] = self._value(self._next(), depth)
            first = self._behind("}")
        self.at += 1
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        first = self._next()
        while first != "]":
            found.append(self._value(first, depth))
            first = self._behind("]")
        self.at += 1
        return found

    def _behind(self, end: str) -> str:
        """Return the character that begins what follows a value of a list or an object."""
        found = self._next()
        if found == ",":
            self.at += 1
            found = self._next()
            if found != end:
                return found
            raise NoJson(self.at)
        if found != end:
            raise NoJson(self.at)
        return found

    def _text(self, quote: str) -> str:
        found = _TEXTS[quote].match(self.text, self.at)
        if found is None:
            raise NoJson(self.at)
        self.at = found.end()
        return _unescape(found[1]) if "\\" in found[1] else found[1]


def plain_of(value: Any) -> Any:
    """Return a value with all that is in it as Python has it."""
    value = value.value if isinstance(value, Written) else value
    if isinstance(value, dict):
        return {name: plain_of(one) for name, one in value.items()}
    return [plain_of(one) for one in value] if isinstance(value, list) else value


def rewritten(value: Any) -> str:
    """Return a value as JSON that is written anew, as Spark does where it does not hold the bytes."""
    value = value.value if isinstance(value, Written) else value
    if isinstance(value, dict):
        return f"{{{','.join(f'{json_text(name)}:{rewritten(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(rewritten, value))}]"
    if isinstance(value, float):
        text = number_text(value)
        return text if text[-1].isdecimal() else json_text(text)
    if isinstance(value, str):
        return json_text(value)
    return "null" if value is None else str(value).lower()


def _unescape(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1], 16))
        if found[2] not in _SHORT:
            raise NoJson(found[0])
        return _SHORT[found[2]]

    plain = _PAIR.sub(lambda found: found[0].encode("utf-16", "surrogatepass").decode("utf-16"), _ESCAPE.sub(one, text))
    # half of a pair is a question mark to Java
    return plain.encode("utf-8", "replace").decode()
