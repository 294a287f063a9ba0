"""Numbers and ids in texts, read as `pipelines/rows/text_types.py` reads them in Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.partition import numbers as arrow_of
from pipelines.rows.text_types import LOOSE, MOST, WHOLE_NUMBER

_LOOSE = re.compile(LOOSE, re.ASCII)
_WHOLE = re.compile(WHOLE_NUMBER.replace(r"\z", r"\Z"), re.ASCII)
ID_TYPES = {"int": pa.int64(), "text": pa.string()}
"""What ids are read as, by what a user says that they are."""
_LEAST, _GREATEST = -(2**63), 2**63 - 1


def numbers(texts: pa.Array, decimal: str = ".") -> pa.Array:
    """Return the numbers in texts, float64, null where there is none."""
    if decimal != ".":
        texts = pc.replace_substring(texts, decimal, ".")
    try:
        # Arrow takes no text that people do not write, but for nan with a sign or a note, which is no position either
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return _array([number(text) for text in texts.to_pylist()], np.float64)


def number(text: str | None) -> float | None:
    """Return the number in one text, None where there is none."""
    return float(text) if text is not None and _LOOSE.match(text) else None


def whole_numbers(texts: pa.Array) -> pa.Array:
    """Return the whole numbers in texts, int64, null where one would not be written back as it was read."""
    try:
        found = texts.cast(pa.int64())
        if found.cast(texts.type).equals(texts):
            return found
    except pa.ArrowInvalid:
        pass
    return _array([whole_number(text) for text in texts.to_pylist()], np.int64)


def _array(values: list[Any], kind: type) -> pa.Array:
    valid = np.array([value is not None for value in values], np.bool_)
    return arrow_of(np.array([0 if value is None else value for value in values], kind), valid)


def whole_number(text: str | None) -> int | None:
    """Return the whole number in one text, None where there is none, or it would not be written back as it was read."""
    if text is None or not _WHOLE.match(text):
        return None
    number = int(text)
    return number if _LEAST <= number <= _GREATEST else None


def type_of_ids(batches: Iterable[pa.Array]) -> pa.DataType:
    """Return the type of ids in texts: whole numbers where most are, and the others are none then."""
    filled = whole = 0
    for texts in batches:
        found = whole_numbers(texts)
        there, here = len(found) - found.null_count, len(texts) - texts.null_count
        whole += there
        filled += here if there == here else here - texts.to_pylist().count("")
    return pa.int64() if filled and whole >= MOST * filled else pa.string()


def ids_of(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ids in texts as the type that :func:`type_of_ids` has found."""
    return whole_numbers(texts) if pa.types.is_integer(kind) else texts
