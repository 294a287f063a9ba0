"""Numbers and ids in texts, read as Spark reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.partition import texts as texts_of
from dtoss.text.text_types import LOOSE, WHOLE_NUMBER

_LOOSE = re.compile(LOOSE, re.ASCII)
_WHOLE = re.compile(WHOLE_NUMBER.replace(r"\z", r"\Z"), re.ASCII)
_LINE_END = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"
"""What ``$`` is to Java: the end, or a line end there."""
_BLANK = r"[ \t\n\x0b\f\r]"
_ANY_WHOLE = re.compile(r"[\x00-\x20\x7f]*([-+]?[0-9]+)[\x00-\x20\x7f]*\Z")
EMPTY_TEXT, _NO_TEXT = texts_of([""])[0], pa.nulls(1, pa.string())[0]
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def of_java(pattern: str) -> str:
    """Return a pattern of Java's as Arrow's engine writes it."""
    return pattern.replace(r"\s", _BLANK).replace("$", _LINE_END)


LOOSE_PATTERN, _WHOLE_PATTERN = of_java(LOOSE), of_java(WHOLE_NUMBER)


def matching(texts: pa.Array, pattern: str) -> pa.Array:
    """Return where texts match a pattern; null where there is none."""
    return pc.match_substring_regex(texts, pattern)


def dotted(texts: pa.Array, decimal: str) -> pa.Array:
    """Return texts of numbers with a point where ``decimal`` stands."""
    return texts if decimal == "." else pc.replace_substring(texts, decimal, ".")


def numbers(texts: pa.Array, decimal: str = ".") -> pa.Array:
    """Return the numbers in texts, float64, null where there is none."""
    texts = dotted(texts, decimal)
    try:
        found = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        found = None
    # Arrow takes no text that people do not write, but for nan with a sign or a note
    if found is not None and not pc.any(pc.is_nan(found)).as_py():
        return found
    return _parse(texts, matching(texts, LOOSE_PATTERN), pa.float64(), number)


def number(text: str | None) -> float | None:
    """Return the number in one text, None where there is none."""
    return float(text) if text is not None and _LOOSE.match(text) else None


def whole_numbers(texts: pa.Array) -> pa.Array:
    """Return the whole numbers in texts, int64, null where one would not be written back as it was read."""
    return _parse(texts, matching(texts, _WHOLE_PATTERN), pa.int64(), whole_number)


def any_whole_numbers(texts: pa.Array) -> pa.Array:
    """Return the whole numbers in texts, int64, also with zeros, signs and blanks around."""
    found = whole_numbers(texts)
    if found.null_count == texts.null_count:
        return found
    rest = pc.and_(found.is_null(), texts.is_valid())
    odd = [_any_whole(text) for text in texts.filter(rest).to_pylist()]
    return pc.replace_with_mask(found, rest, pa.array(odd, pa.int64()))


def _any_whole(text: str) -> int | None:
    match = _ANY_WHOLE.match(text)
    number = None if match is None else int(match[1])
    return number if number is not None and _LEAST <= number <= _GREATEST else None


def _parse(texts: pa.Array, fit: pa.Array, kind: pa.DataType, read: Callable[[str | None], Any]) -> pa.Array:
    """Return the texts that fit, read as numbers; the others are null."""
    some = texts if fit.true_count == len(fit) else pc.if_else(fit, texts, _NO_TEXT.cast(texts.type))
    try:
        return some.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([read(text) for text in some.to_pylist()], kind)


def whole_number(text: str | None) -> int | None:
    """Return the whole number in one text, None where there is none, or it would not be written back as it was read."""
    if text is None or not _WHOLE.match(text):
        return None
    number = int(text)
    return number if _LEAST <= number <= _GREATEST else None
