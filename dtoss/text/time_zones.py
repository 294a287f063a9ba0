"""Zones as Java names them in times, and what the clocks there show when it is a moment of UTC."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

REGION = 1_000_000
"""A zone is a number: seconds east of UTC, or from this one on a region, by its place among :func:`regions`."""
FURTHEST_ZONE = 18 * 3600
"""Seconds from UTC that Java takes."""
SECONDS_OF_DAY = 86_400
_FIRST_DAY = datetime(1970, 1, 1).toordinal()
_LAST_CYCLE = datetime.max.toordinal() - 146_097
"""From here on, clocks do what they did 400 years before."""
_NOT_OF_JAVA = {"EST", "MST", "HST", "ROC", "Factory", "localtime", "GMT+0", "GMT-0"}
# java.time.ZoneId.SHORT_IDS of Java 17
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
_OFFSET = re.compile(
    r"([-+])(?:([0-9])|([0-9]{2})(?:([0-9]{2})(?:([0-9]{2}))?|:([0-9]{2})(?::([0-9]{2}))?)?)", re.ASCII
)


@lru_cache(maxsize=1)
def regions() -> tuple[str, ...]:
    """Return the regions that have clocks of their own, such as ``Europe/Berlin``, in the order of their numbers."""
    return tuple(sorted(available_timezones() - _NOT_OF_JAVA))


@lru_cache(maxsize=1)
def _places() -> dict[str, int]:
    return {name: REGION + place for place, name in enumerate(regions())}


@lru_cache(maxsize=1)
def regions_of_any_case() -> dict[str, int]:
    """Return the numbers of all regions by their names in small letters."""
    return {name.lower(): number for name, number in _places().items()}


@lru_cache(maxsize=4096)
def zone_of(name: str) -> int | None:
    """Return the number of the zone that Spark takes a name for, None where there is none.

    ``+2``, ``+02:00``, ``+2:5``, ``UTC+1``, ``GMT-03:00``, ``Z``, ``PST`` and ``Europe/Berlin`` are such names.
    """
    name = re.sub(r"([-+])([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"([-+][0-9]{2}:)([0-9])\Z", r"\g<1>0\2", name)
    name = _SHORT.get(name, name)
    if name == "Z":
        return 0
    for prefix in ("UTC", "GMT", "UT", ""):
        if name.startswith(prefix):
            rest = name[len(prefix) :]
            if prefix and not rest:
                return 0
            return _offset(rest) if rest[:1] in ("+", "-") else _places().get(name)
    return None


def _offset(text: str) -> int | None:
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    sign, hour, hours, minutes, seconds, after, last = found.groups()
    minute, second = int(minutes or after or 0), int(seconds or last or 0)
    total = int(hour or hours) * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or total > FURTHEST_ZONE:
        return None
    return -total if sign == "-" else total


@lru_cache(maxsize=1 << 17)
def offset_at(zone: int, second: int) -> int:
    """Return how many seconds a zone's clocks are east of UTC when they show a second since 1970.

    Of what clocks show twice it is the first; what they leave out is counted on from before.
    """
    if zone < REGION:
        return zone
    day, rest = divmod(second, SECONDS_OF_DAY)
    day = max(day + _FIRST_DAY, 1)
    if day > _LAST_CYCLE:
        day = _LAST_CYCLE + (day - _LAST_CYCLE) % 146_097
    there = ZoneInfo(regions()[zone - REGION]).utcoffset(datetime.fromordinal(day) + timedelta(seconds=rest))
    return 0 if there is None else there // timedelta(seconds=1)


def offsets_at(zone: int, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return :func:`offset_at` of many seconds."""
    if zone < REGION or not len(seconds):
        return np.full(len(seconds), min(zone, REGION), np.int64)
    days = seconds // SECONDS_OF_DAY
    found, moved = _looked_up(days, lambda day: _offset_of_day(zone, day))
    if moved.any():
        found[moved], _ = _looked_up(seconds[moved], lambda second: (offset_at(zone, second), False))
    return found


def _offset_of_day(zone: int, day: int) -> tuple[int, bool]:
    """Return the offset of a whole day, and whether it has more than one."""
    first, last = offset_at(zone, day * SECONDS_OF_DAY), offset_at(zone, day * SECONDS_OF_DAY + SECONDS_OF_DAY - 1)
    return first, first != last


def _looked_up(values: NDArray[np.int64], look: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    distinct, places = np.unique(values, return_inverse=True)
    found = [look(one) for one in distinct.tolist()]
    offsets = np.array([offset for offset, _ in found], np.int64)
    return offsets[places], np.array([moved for _, moved in found], np.bool_)[places]
