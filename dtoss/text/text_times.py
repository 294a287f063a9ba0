"""Times in texts and in numbers that count, read as Spark reads them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.text import time_patterns
from dtoss.text.text_scan import Digits, Fields, Literal, Optional, Word, put, read_whole, texts_of
from dtoss.text.text_values import numbers as numbers_in
from dtoss.text.time_patterns import (
    COUNTED_TIMES,
    EXCEL_SECONDS,
    FURTHEST_ZONE,
    LAST_SECOND,
    OWN_ZONE,
    REGION,
    SECONDS_OF_DAY,
    offset_at,
    offsets_at,
    parts_of,
    regions,
    zone_of,
)

RANGES = {
    "year": (-999_999_999, 999_999_999),
    "year_of_era": (1, 1_000_000_000),
    "era": (0, 1),
    "month": (1, 12),
    "day": (1, 31),
    "day_of_year": (1, 366),
    "hour": (0, 23),
    "clock_hour": (1, 24),
    "hour_of_half": (0, 11),
    "clock_hour_of_half": (1, 12),
    "half": (0, 1),
    "minute": (0, 59),
    "second": (0, 59),
    "nano": (0, 999_999_999),
    "offset": (-FURTHEST_ZONE, FURTHEST_ZONE),
    "region": (-FURTHEST_ZONE, 1 << 40),
}
"""Fields of a time and what their values are, as Java's ChronoField has them; half: of a day."""
_USUAL_DATE = (("year", 1970), ("month", 1), ("day", 1))
_DAYS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
_LAST_SECOND = (2**63 - 1) // 1_000_000
"""That microseconds in 64 bits reach."""


def micros_of(found: Fields, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the microseconds since 1970 that so many times' fields say, and where they say one.

    Java's strict rules: a value out of its range, or two that contradict each other, are no time. As Spark adds,
    1970, January, the first and midnight are what is not said.
    """
    found, able = dict(found), np.ones(count, np.bool_)
    for field, (values, there) in found.items():
        least, most = RANGES[field]
        able &= ~there | ((values >= least) & (values <= most))
    able &= _hours(found, count)
    if "era" in found and "year_of_era" in found:
        (era, named), (year, there) = found["era"], found["year_of_era"]
        put(found, "year", np.where(era == 1, year, 1 - year), named & there)
    days, real = _days(found, count)
    able &= real
    hour, minute, second, nano = (_value(found, field, 0, count) for field in ("hour", "minute", "second", "nano"))
    seconds = np.where(able, days * SECONDS_OF_DAY + hour * 3600 + minute * 60 + second, 0)
    if "region" in found or "offset" in found:
        codes, there = found.get("region") or found["offset"]
        seconds = seconds - _east(codes, there & able, seconds)
    micros = np.where(able, nano // 1000, 0)
    able &= (np.abs(seconds) <= _LAST_SECOND) & ~((seconds == _LAST_SECOND) & (micros > 775_807))
    return np.where(able, seconds, 0) * 1_000_000 + micros, able


def days_of(year: Any, month: Any, day: Any) -> Any:
    """Return days since 1970 of a date in the Gregorian calendar, or of many: integers or arrays of them."""
    # years begin in March: https://howardhinnant.github.io/date_algorithms.html#days_from_civil
    year = year - (month <= 2)
    cycle = year // 400
    within = year - cycle * 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * 146_097 + within * 365 + within // 4 - within // 100 + day_of_year - 719_468


def is_leap(year: Any) -> Any:
    """Return whether a year has a 29 February, or which of many have."""
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


def _value(found: Fields, field: str, usual: int, count: int) -> NDArray[np.int64]:
    if field not in found:
        return np.full(count, usual, np.int64)
    values, there = found[field]
    return values if there.all() else np.where(there, values, usual)


def _there(found: Fields, field: str, count: int) -> NDArray[np.bool_]:
    return found[field][1] if field in found else np.zeros(count, np.bool_)


def _hours(found: Fields, count: int) -> NDArray[np.bool_]:
    """Make hours of the day of whatever hours there are; returns where these do not contradict each other."""
    able = np.ones(count, np.bool_)
    for clock, full, field in (("clock_hour", 24, "hour"), ("clock_hour_of_half", 12, "hour_of_half")):
        if clock in found:
            shown, read = found[clock]
            able &= put(found, field, shown % full, read) | ~read
    if not {"half", "hour_of_half"} & found.keys():
        return able
    half, named = found.get("half", (np.zeros(count, np.int64), np.zeros(count, np.bool_)))
    hour, there = found.get("hour_of_half", (np.zeros(count, np.int64), np.zeros(count, np.bool_)))
    both = named & there
    able &= put(found, "hour", half * 12 + hour, both) | ~both
    # a half or an hour of one that is alone must fit the time, where that is whole without it
    of_day, told = found["hour"]
    minute, second, nano = (_there(found, field, count) for field in ("minute", "second", "nano"))
    whole = told & ~(~minute & (second | nano)) & ~(minute & ~second & nano)
    able &= ~(whole & named & ~both) | (of_day // 12 == half)
    able &= ~(whole & there & ~both) | (of_day % 12 == hour)
    alone = (there & ~named) | (named & ~there)
    put(found, "hour", np.where(there, hour, half * 12), alone & ~told)
    return able


def _days(found: Fields, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return days since 1970, and where there are such dates."""
    year, month, day = (_value(found, field, usual, count) for field, usual in _USUAL_DATE)
    able = day <= _DAYS[np.clip(month, 1, 12)]
    late = np.flatnonzero(able & (month == 2) & (day == 29))
    able[late] = is_leap(year[late])
    days = days_of(year, month, day)
    if "day_of_year" in found:
        ordinal, there = found["day_of_year"]
        days = np.where(there, days_of(year, np.ones(count, np.int64), ordinal), days)
        able &= ~there | (ordinal <= 365) | is_leap(year)
    return days, able


def _east(codes: NDArray[np.int64], there: NDArray[np.bool_], seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how far east of UTC clocks are, in seconds; 0 where no zone is named."""
    east = np.where(there & (codes < REGION), codes, 0)
    named = there & (codes >= REGION)
    for code in np.unique(codes[named]).tolist():
        here = named & (codes == code)
        east[here] = offsets_at(code, seconds[here])
    return east


TEXTS_AT_ONCE = 1 << 15
"""Texts that are read side by side: so many that the arrays of a step stay near the processor."""
_BLANK = " \t\n\v\f\r"
_TRIMMED = "".join(map(chr, range(33))) + "\x7f"
_TIME = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?"
_ISO = re.compile(
    r"([-+]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]" + _TIME + ")?)?)?", re.ASCII | re.DOTALL
)
_TODAY = re.compile("(?:T|(?=[0-9]{1,2}:))" + _TIME, re.ASCII | re.DOTALL)
_OWN = re.compile(OWN_ZONE, re.ASCII)
_FIRST, _LAST = -(2**63), 2**63 - 1
_NAN, _ZERO = arrow_of(np.array([np.nan]))[0], arrow_of(np.array([0]))[0]
# what Java takes for letters of English where case does not count
_LETTERS = {"\u212a": "k", "\u017f": "s", "\u0131": "i", "\u0130": "i"}


def moments(texts: pa.Array, pattern: str | None, decimal: str = ".", zone: str | None = None) -> pa.Array:
    """Return the times in texts, timestamp[us, tz=UTC], null where there is none; those without a zone are of ``zone``.

    One that a clock put forward has left out is as much later, and of one that a clock put back shows twice it is the
    first. A pattern that is not read is an InputError.
    """
    if pattern in COUNTED_TIMES:
        return moments_of_numbers(numbers_in(texts.cast(pa.string()), decimal), pattern, zone)
    read = _iso_moments if pattern is None else partial(_moments_by, parts_of(pattern))
    named = pattern is not None and time_patterns.names_zone(pattern)
    micros, there = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    own = np.full(len(texts), named)
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        here = slice(first, first + TEXTS_AT_ONCE)
        some = texts[here].cast(pa.string())
        found, able, has_zone = read(some)
        micros[here], there[here] = found, able & values_of(some.is_valid())
        if has_zone is not None:
            own[here] = has_zone
    if zone is not None:
        local = there & ~own
        micros[local] = _utc(micros[local], zone)
        # in Spark an error of the whole job: the first and the last day of 64 bits
        there &= own | (np.abs(micros) <= _LAST - 86_400_000_000)
    return _timestamps(micros, there)


def moments_of_numbers(numbers: pa.Array, pattern: str | None, zone: str | None = None) -> pa.Array:
    """Return the moments that numbers count to; null where they are beyond the year 9999. Days of Excel have a zone."""
    values = numbers.cast(pa.float64(), safe=False)
    seconds = values_of(values.fill_null(_NAN)) / COUNTED_TIMES[pattern or "epoch_s"]
    if pattern == "excel":
        seconds = _round_half_up(seconds) - float(EXCEL_SECONDS)
    there = np.abs(seconds) <= float(LAST_SECOND)
    micros = np.trunc(np.where(there, seconds, 0.0) * 1e6).astype(np.int64)
    if pattern == "epoch_us":
        whole = pc.if_else(pa.array(there), numbers, None).fill_null(0)
        micros = whole.cast(pa.int64(), safe=False).to_numpy()
    if pattern == "excel" and zone is not None:
        micros = np.where(there, _utc(micros, zone), 0)
    return _timestamps(micros, there)


def of_zone(timestamps: pa.Array, zone: str) -> pa.Array:
    """Return the moments of times of day in a zone, given as if they were UTC."""
    micros = timestamps.cast(pa.timestamp("us", timestamps.type.tz), safe=False).view(pa.int64())
    there = values_of(micros.is_valid())
    return _timestamps(_utc(values_of(micros.fill_null(_ZERO)), zone), there)


def _timestamps(micros: NDArray[np.int64], there: NDArray[np.bool_]) -> pa.Array:
    return arrow_of(np.where(there, micros, 0), there).view(pa.timestamp("us", tz="UTC"))


def _utc(micros: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    code = zone_of(zone)
    if code is None:
        raise InputError(f"zone {zone!r} is not known: write a name such as Asia/Shanghai or Europe/Berlin")
    return micros - offsets_at(code, micros // 1_000_000) * 1_000_000


def _round_half_up(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return seconds rounded to milliseconds: halves of their decimal digits go up, as in Spark."""
    scaled = np.where(np.isfinite(seconds), seconds, 0.0) * 1e3
    found = np.where(np.isfinite(seconds), np.rint(scaled) / 1e3, seconds)
    # of so many digits that a product cannot tell which half it is
    near = np.abs(scaled - np.floor(scaled) - 0.5) < 1e-6 + np.abs(scaled) * 1e-15
    for i in np.flatnonzero(near & (np.abs(seconds) < 1e12)):
        found[i] = float(Decimal(repr(float(seconds[i]))).quantize(Decimal("0.001"), ROUND_HALF_UP))
    return found


def _moments_by(parts: tuple[Any, ...], texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_], None]:
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        for letter, usual in _LETTERS.items():
            texts = pc.replace_substring(texts, letter, usual)
    whole, found = read_whole(parts, texts_of(texts))
    micros, able = micros_of(found, len(texts))
    return micros, able & whole, None


def _iso_moments(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Read what is written as most write it side by side, and the rest one by one."""
    whole, found = read_whole(_ISO_PARTS, texts_of(pc.ascii_trim(texts, _BLANK)))
    micros, able = micros_of(found, len(texts))
    own = found["region"][1].copy() if "region" in found else np.zeros(len(texts), np.bool_)
    odd = np.flatnonzero(~whole)
    known: dict[str | None, tuple[int | None, bool]] = {None: (None, False)}
    for i, text in zip(odd.tolist(), texts.take(arrow_of(odd)).to_pylist(), strict=True):
        if text not in known:
            known[text] = _iso_moment(text), _OWN.match(text) is not None
        moment, own[i] = known[text]
        micros[i], whole[i], able[i] = moment or 0, moment is not None, True
    return micros, able & whole, own


def _iso_moment(text: str) -> int | None:
    """Return the microseconds of one text as Spark's `SparkDateTimeUtils.stringToTimestamp` reads it."""
    trimmed = text.strip(_TRIMMED)
    found = _ISO.fullmatch(trimmed)
    if found is not None:
        sign, *date = found.groups()[:4]
        year, month, day = (int(part or 1) for part in date)
        clock = found.groups()[4:]
        year = -year if sign == "-" else year
        longest = 28 + is_leap(year) if month == 2 else 31 - (month in (4, 6, 9, 11))
        if not (1 <= month <= 12 and 1 <= day <= longest):
            return None
    else:
        found = _TODAY.fullmatch(trimmed)
        if found is None or (trimmed[0] == "T" and text[0] != "T"):
            return None
        clock = found.groups()
    hour, minute, second = (int(part or 0) for part in clock[:3])
    east = zone_of(clock[4].strip(_TRIMMED[:-1])) if clock[4] else 0
    if east is None or hour > 23 or minute > 59 or second > 59:
        return None
    days = days_of(year, month, day) if found.re is _ISO else _today(east)
    seconds = int(days) * 86_400 + hour * 3600 + minute * 60 + second
    micros = (seconds - offset_at(east, seconds)) * 1_000_000 + int(((clock[3] or "") + "000000")[:6])
    return micros if _FIRST <= micros <= _LAST else None


def _today(zone: int) -> int:
    """Return the days since 1970 of the date that a zone's calendars show now."""
    there = timezone(timedelta(seconds=zone)) if zone < REGION else ZoneInfo(regions()[zone - REGION])
    return datetime.now(there).toordinal() - datetime(1970, 1, 1).toordinal()


def _named_zone(raw: bytes) -> tuple[int, int] | None:
    zone = zone_of(raw.decode("latin-1").strip(" "))
    return None if zone is None else (len(raw), zone)


def _iso_parts() -> tuple[Any, ...]:
    def then(separators: str, *parts: Any) -> Optional:
        return Optional((Literal((separators.encode(),)), *parts))

    zone = Optional((Word("region", 40, _named_zone),))
    second = then(":", Digits("second", 1, 2), then(".", Digits("nano", 1, 9, fraction=True)), zone)
    hour = then(" T", Digits("hour", 1, 2), then(":", Digits("minute", 1, 2), second))
    return Digits("year", 4, 4), then("-", Digits("month", 1, 2), then("-", Digits("day", 1, 2), hour))


_ISO_PARTS = _iso_parts()
