"""Numbers and ids in texts as Spark reads them, what columns of text hold, and how these are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.partition import numbers as arrow_of
from dtoss.partition import texts as texts_of

AS_WHOLE = "whole"
MOSTLY = "mostly whole"
AS_NUMBER = "number"
AS_TEXT = "text"
MOST_VALUES = 0.9
"""Ids and times are numbers when this share of them are; the others are bad rows then."""

# numbers that are written back as they were read, without the leading zeros and plus signs of codes and telephones
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,18})\z"
PLAIN_NUMBER = r"^(-?(0|[1-9][0-9]{0,14})(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?|NaN|-?Infinity)$"
# numbers as people write coordinates and times; Java alone would take 1.5f and 0x1p3 too
LOOSE = r"^\s*([-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|(?i:nan|[-+]?inf(inity)?))\s*$"
KINDS_OF_TYPES = {"bigint": AS_WHOLE, "double": AS_NUMBER, "string": AS_TEXT, "timestamp": AS_TEXT}
"""What text of a column of this type is."""


def plain_pattern(decimal: str) -> str:
    """Return how numbers are written that are written back as they were read."""
    return PLAIN_NUMBER if decimal == "." else PLAIN_NUMBER.replace(r"\.", re.escape(decimal))


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


@dataclass
class Counts:
    """What was seen of a column of text: how many values are not empty, whole numbers, numbers."""

    filled: int = 0
    whole: int = 0
    numbers: int = 0

    def add(self, texts: pa.Array, decimal: str, tolerant: bool, read: bool = True) -> None:
        """Count some values more; ``read``: whether numbers among them matter still."""
        self.filled += len(texts) - texts.null_count - (pc.sum(pc.equal(texts, EMPTY_TEXT)).as_py() or 0)
        if not read:
            return
        here = whole_numbers(texts)
        whole = len(here) - here.null_count
        self.whole += whole
        fit = (
            matching(dotted(texts, decimal), LOOSE_PATTERN)
            if tolerant
            else matching(texts, of_java(plain_pattern(decimal)))
        )
        self.numbers += fit.true_count

    def kind(self, tolerant: bool, wanted: str | None) -> str:
        """Return the kind of the column.

        All values must be numbers for it to be one; where it is ``tolerant``, :data:`MOST_VALUES` is enough, and it is
        MOSTLY whole where not all are. ``wanted``: the Spark type that it is to have: it is of the kind of that where
        :data:`MOST_VALUES` of the values are, or there is none.
        """
        enough = self.filled * (MOST_VALUES if tolerant else 1.0)
        kind = AS_TEXT
        if enough and self.whole >= enough:
            kind = AS_WHOLE if self.whole == self.filled else MOSTLY
        elif enough and self.numbers >= enough:
            kind = AS_NUMBER
        asked = KINDS_OF_TYPES.get(wanted or "")
        fits = {AS_WHOLE: self.whole, AS_NUMBER: self.numbers, AS_TEXT: self.filled}
        if asked is not None and fits[asked] >= MOST_VALUES * self.filled:
            # of those that are whole, 007 is not
            kind = MOSTLY if asked == AS_WHOLE else asked
        return kind


def read_as(texts: pa.Array, kind: str, decimal: str = ".") -> pa.Array:
    """Return texts as what their kind says."""
    if kind in (AS_WHOLE, MOSTLY):
        return any_whole_numbers(texts)
    return numbers(texts, decimal) if kind == AS_NUMBER else texts


def strictly(texts: pa.Array, kind: str, decimal: str = ".") -> pa.Array:
    """Return texts as what their kind says, null where one would not be written back as it was read."""
    if kind in (AS_WHOLE, MOSTLY):
        return whole_numbers(texts)
    if kind != AS_NUMBER:
        return texts
    return pc.if_else(matching(texts, of_java(plain_pattern(decimal))), numbers(texts, decimal), None)


def kinds_of_texts(
    batches: Iterable[pa.RecordBatch],
    names: Sequence[str],
    tolerant: Sequence[str],
    decimal: str = ".",
    types: Mapping[str, str] | None = None,
) -> dict[str, Counts]:
    """Return what is seen of some columns in batches, to be added to that of others."""
    seen = {name: Counts() for name in names}
    for batch in batches:
        for name in names:
            strict = name not in tolerant
            one = seen[name]
            # an attribute is a number only where all values are, unless its type is known
            hopeless = strict and name not in (types or {}) and one.numbers < one.filled
            one.add(batch.column(name), decimal, not strict, read=not hopeless)
    return seen


def add_counts(parts: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Return what was seen of columns in all parts."""
    return {
        name: Counts(*(sum(getattr(part[name], what) for part in parts) for what in ("filled", "whole", "numbers")))
        for name in (parts[0] if parts else {})
    }


_TRUE = arrow_of(np.array([True]))[0]


def empty_or_null(values: pa.Array) -> pa.Array:
    """Return where values are null, or an empty text."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.fill_null(pc.equal(values, EMPTY_TEXT), _TRUE)
    return values.is_null()
