"""Times in text and in numbers that count: what they mean as moments, and in which zone those are that name none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dtoss.errors import InputError
from pipelines.text import text_types

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

COUNTED = {"epoch_s": 1.0, "epoch_ms": 1e3, "epoch_us": 1e6, "excel": 1.0 / 86_400.0}
"""Time formats that are numbers, and what a second is in them: since 1970, of Excel days since 30 December 1899."""
ONLY_MOMENTS = ("epoch_us", "excel")
"""Those of which numbers become moments too; in columns of numbers seconds and milliseconds stay numbers."""
LAST_SECOND = 253_402_300_799
"""Of the year 9999, which is the last one of a timestamp."""
EXCEL_SECONDS = 25_569 * 86_400
"""From 30 December 1899 to 1970."""
_LETTERS = frozenset("GyDMLdahHkKmsSVzOXxZ")
"""Letters of a pattern that Spark reads times by: https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_ZONED = frozenset("VzOXxZ")
_QUOTED = re.compile(r"'[^']*'")
# a zone is what follows the time of day
OWN_ZONE = r"^\s*[-+]?[0-9]+-[0-9]+-[0-9]+[T ]\s*[0-9]+(:[0-9]+){1,2}(\.[0-9]*)?\s*[^0-9\s:.]"


def moment(value: Column, kind: str, pattern: str | None, decimal: str = ".", zone: str | None = None) -> Column:
    """Return the time in a text, null where it cannot be read; numbers without a pattern are in their own order.

    Times without a zone are of ``zone``; one that a clock put forward has left out is as much later, and of one that a
    clock put back shows twice it is the first.
    """
    from pyspark.sql import functions as F

    if pattern in COUNTED:
        return counted(text_types.number(value, decimal), pattern, zone)
    if pattern is not None:
        found = F.try_to_timestamp(value, F.lit(pattern))
        return found if zone is None or names_zone(pattern) else of_zone(found, zone)
    if kind != text_types.TEXT:
        return text_types.typed(value, kind, decimal)
    found = F.try_to_timestamp(value)
    return found if zone is None else F.when(value.rlike(OWN_ZONE), found).otherwise(of_zone(found, zone))


def counted(number: Column, pattern: str | None, zone: str | None = None) -> Column:
    """Return the moment that a number counts to; null where it is beyond the year 9999. Days of Excel have a zone."""
    from pyspark.sql import functions as F

    seconds = number.cast("double") / COUNTED[pattern or "epoch_s"]
    if pattern == "excel":
        # a day has 86,400,000 milliseconds, and a double of days no more digits
        seconds = F.round(seconds, 3) - float(EXCEL_SECONDS)
    found = F.when(F.abs(seconds) <= float(LAST_SECOND), F.timestamp_seconds(seconds))
    if pattern == "epoch_us":
        found = F.when(F.abs(seconds) <= float(LAST_SECOND), F.timestamp_micros(number.cast("bigint")))
    return of_zone(found, zone) if pattern == "excel" and zone is not None else found


def of_zone(local: Column, zone: str) -> Column:
    """Return the moments of times of day in a zone, given as if they were UTC."""
    from pyspark.sql import functions as F

    return F.to_utc_timestamp(local, zone)


def names_zone(pattern: str) -> bool:
    """Return whether times by a pattern say which zone they are of."""
    return bool(_ZONED & set(_bare(pattern)))


def described(kind: str, of_text: str | None, pattern: str | None, zone: str | None) -> str:
    """Return how times were read, as a reader is told it; ``kind``: Spark's name of their type."""
    text = kind.startswith(("string", "varchar", "char"))
    number = is_numeric(kind)
    where = f", {zone or 'UTC'} where none is named"
    if pattern in COUNTED and (text or number):
        return pattern + (where if pattern == "excel" else "")
    if number or (text and pattern is None and of_text not in (None, text_types.TEXT)):
        return "numbers in their own order (--time-format says what they count)"
    if kind == "timestamp":
        return "moments"
    return f"{(pattern or 'ISO 8601') if text else kind}{where}"


def is_numeric(kind: str) -> bool:
    """Return whether Spark's name of a type is that of numbers."""
    return kind.startswith("decimal") or kind in _NUMBERS


def check_times(pattern: str | None, zone: str | None) -> None:
    """Check how times are said to be written, as far as that needs no Spark."""
    if pattern is not None and pattern not in COUNTED:
        letters = {letter for letter in _bare(pattern) if letter.isalpha()}
        if not letters or letters - _LETTERS:
            raise _unknown(pattern)
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (OSError, ValueError, KeyError):
            raise InputError(
                f"--zone {zone!r} is not known: write a name such as Asia/Shanghai or Europe/Berlin"
            ) from None


def check_pattern(session: SparkSession, pattern: str | None) -> None:
    """Check a time format before it meets the data."""
    from pyspark.sql import functions as F

    if pattern is None or pattern in COUNTED:
        return
    try:
        # a value of its own keeps Spark from leaving the pattern unread
        session.range(1).select(F.try_to_timestamp(F.col("id").cast("string"), F.lit(pattern))).toArrow()
    except Exception:
        raise _unknown(pattern) from None


def _bare(pattern: str) -> str:
    return _QUOTED.sub("", pattern)


def _unknown(pattern: str) -> InputError:
    percent = "; %Y and the like are of strptime" if "%" in pattern else ""
    return InputError(
        f"time format {pattern!r} is not known: write {', '.join(COUNTED)} or a pattern of Spark's such as "
        f"M/d/yyyy H:mm:ss{percent}"
    )
