"""Columns of text of subscriptions: ids, conditions, words, and what is given back with each event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dtoss.frames.geojson_members import read_json
from dtoss.watch.subscriptions.json_text import json_text

LONGEST_ID = 1_000
"""Characters of an id of a subscription."""
LONGEST_QUOTED = 100_000
"""Characters of a condition, of words and of meta, each."""
_LARGEST_ID = 2**63
"""A larger number is read as a fraction by many, and is no id; text may be."""
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)


def texts_of(values: Sequence[Any] | pa.Array | None, count: int, name: str, reasons: dict[int, str]) -> pa.Array:
    """Return a column as text; what is none, or is too long, is null, and named. Cost O(n).

    ``values``: none where there is no such column.
    """
    if values is None:
        return pa.nulls(count, pa.string())
    found = _plain(values)
    if found is None:
        kept = []
        for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
            if value is not None and not (isinstance(value, str) and _encodes(value)):
                reasons.setdefault(row, f"{name} is {_short(value)}: a text is wanted")
                value = None
            kept.append(value)
        found = pa.array(kept, pa.string())
    return _bounded(found, name, LONGEST_QUOTED, reasons)


def ids_of(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return ids as text, whole numbers as their decimal digits; what is no id is null, and named. Cost O(n).

    ``values``: none where there is no such column.
    """
    if values is None:
        values = [None] * count
    found = _plain(values, numbers=True)
    if found is None:
        kept: list[str | None] = []
        for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
            good = isinstance(value, str) or (_is_whole(value) and abs(int(value)) <= _LARGEST_ID)
            if value is not None and not (good and _encodes(str(value))):
                reasons.setdefault(row, f"id is {_short(value)}: a text or a whole number is wanted")
            kept.append(str(value) if good and _encodes(str(value)) else None)
        found = pa.array(kept, pa.string())
    missing = pc.or_(found.is_null(), pc.equal(found, "").fill_null(True))
    for row in np.flatnonzero(missing.to_numpy(zero_copy_only=False)).tolist():
        reasons.setdefault(row, "there is no id")
    return _bounded(found, "id", LONGEST_ID, reasons)


def metas_of(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return what is given back with each event as JSON; what cannot be written so is null, and named. Cost O(n).

    ``values``: none where there is no such column. A text in a column of Arrow that reads as an object or a list is
    one.
    """
    if values is None:
        return pa.nulls(count, pa.string())
    of_arrow = isinstance(values, pa.Array)
    kept: list[str | None] = []
    for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
        said = None
        if value is not None:
            try:
                said = _json(value, of_arrow)
            except (TypeError, ValueError, RecursionError) as error:
                reasons.setdefault(row, f"meta is {_short(value)}: JSON cannot hold it: {' '.join(str(error).split())}")
        kept.append(said)
    return _bounded(pa.array(kept, pa.string()), "meta", LONGEST_QUOTED, reasons)


def _json(value: Any, of_arrow: bool) -> str:
    if of_arrow and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json_text(read_json(value))
        except ValueError:
            pass
    return json_text(value)


def _plain(values: Sequence[Any] | pa.Array, *, numbers: bool = False) -> pa.Array | None:
    """Return a column of nothing but text at once, or of whole numbers; None where it is another one."""
    try:
        found = values if isinstance(values, pa.Array) else pa.array(values)
        kind = found.type.value_type if pa.types.is_dictionary(found.type) else found.type
        good = any(is_it(kind) for is_it in _TEXTS) or (numbers and pa.types.is_integer(kind))
        return found.cast(pa.string()) if good else None
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bounded(found: pa.Array, name: str, most: int, reasons: dict[int, str]) -> pa.Array:
    long = pc.greater(pc.utf8_length(found), most).fill_null(False)
    rows = np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist()
    if not rows:
        return found
    for row in rows:
        size = len(found[row].as_py())
        reasons.setdefault(row, f"{name} has {size:,} characters: at most {most:,} are kept, make it shorter")
    return pc.if_else(long, pa.scalar(None, pa.string()), found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


LONGEST_SHOWN = 100
"""Characters of a value that an error shows."""
