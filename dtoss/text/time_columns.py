"""Times in text and in numbers that count: what they mean as moments, and in which zone those are that name none."""

from __future__ import annotations

import re

from dtoss.text import text_types

COUNTED_TIMES = {"epoch_s": 1.0, "epoch_ms": 1e3, "epoch_us": 1e6, "excel": 1.0 / 86_400.0}
"""Time formats that are numbers, and what a second is in them: since 1970, of Excel days since 30 December 1899."""
ONLY_MOMENTS = ("epoch_us", "excel")
"""Those of which numbers become moments too; in columns of numbers seconds and milliseconds stay numbers."""
LAST_SECOND = 253_402_300_799
"""Of the year 9999, which is the last one of a timestamp."""
EXCEL_SECONDS = 25_569 * 86_400
"""From 30 December 1899 to 1970."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_ZONED = frozenset("VXxZ")
_QUOTED = re.compile(r"'[^']*'")
# a zone is what follows the time of day
OWN_ZONE = r"^\s*[-+]?[0-9]+-[0-9]+-[0-9]+[T ]\s*[0-9]+(:[0-9]+){1,2}(\.[0-9]*)?\s*[^0-9\s:.]"


def names_zone(pattern: str) -> bool:
    """Return whether times by a pattern say which zone they are of."""
    return bool(_ZONED & set(_QUOTED.sub("", pattern)))


def say_time(kind: str, of_text: str | None, pattern: str | None, zone: str | None) -> str:
    """Return how times were read, as a reader is told it; ``kind``: Spark's name of their type."""
    text = kind.startswith(("string", "varchar", "char"))
    number = is_numeric(kind)
    where = f", {zone or 'UTC'} where none is named"
    if pattern in COUNTED_TIMES and (text or number):
        return pattern + (where if pattern == "excel" else "")
    if number or (text and pattern is None and of_text not in (None, text_types.AS_TEXT)):
        return "numbers in their own order (--time-format says what they count)"
    if kind == "timestamp":
        return "moments"
    return f"{(pattern or 'ISO 8601') if text else kind}{where}"


def is_numeric(kind: str) -> bool:
    """Return whether Spark's name of a type is that of numbers."""
    return kind.startswith("decimal") or kind in _NUMBERS
