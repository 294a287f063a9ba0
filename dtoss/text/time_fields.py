"""Moments of the fields that a time was written in: which values can be, and what the others are where one is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.text.text_scan import Fields, put
from dtoss.text.time_zones import FURTHEST_ZONE, REGION, SECONDS_OF_DAY, offsets_at

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
