"""Patterns of Spark's that times are written by, as parts read in turn, and zones as Java names them there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

from dtoss.errors import InputError
from dtoss.text import text_values
from dtoss.text.text_scan import LONGEST_RUN, Digits, Literal, Optional, Word

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
    if number or (text and pattern is None and of_text not in (None, text_values.AS_TEXT)):
        return "numbers in their own order (--time-format says what they count)"
    if kind == "timestamp":
        return "moments"
    return f"{(pattern or 'ISO 8601') if text else kind}{where}"


def is_numeric(kind: str) -> bool:
    """Return whether Spark's name of a type is that of numbers."""
    return kind.startswith("decimal") or kind in _NUMBERS


_TOKEN = re.compile(r"'(?P<quoted>[^']*)'|(?P<letter>[A-Za-z])(?P=letter)*|(?P<other>.)", re.DOTALL)
_FIELDS = {
    "d": "day", "D": "day_of_year", "H": "hour", "k": "clock_hour", "K": "hour_of_half", "h": "clock_hour_of_half",
    "m": "minute", "s": "second", "M": "month", "L": "month",
}  # fmt: skip
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_NAMES: dict[str, tuple[str, dict[str, int]]] = {
    "a": ("half", {"am": 0, "pm": 1}),
    "MMM": ("month", {name[:3]: place for place, name in enumerate(_MONTHS, 1)}),
    "MMMM": ("month", {name: place for place, name in enumerate(_MONTHS, 1)}),
    **dict.fromkeys(("G", "GG", "GGG"), ("era", {"bc": 0, "ad": 1})),
    "GGGG": ("era", {"before christ": 0, "anno domini": 1}),
}
"""Names of en_US, which Spark reads whatever the locale."""
_OFFSETS = {
    # minutes and seconds: none, where there are some, or always; what stands between them; what is written for UTC
    "X": ("?", "", "", "z"), "XX": ("!", "", "", "z"), "XXX": ("!", "", ":", "z"), "XXXX": ("!", "?", "", "z"),
    "XXXXX": ("!", "?", ":", "z"), "x": ("?", "", "", "+00"), "xx": ("!", "", "", "+0000"),
    "xxx": ("!", "", ":", "+00:00"), "xxxx": ("!", "?", "", "+0000"), "xxxxx": ("!", "?", ":", "+00:00"),
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), ("!", "", "", "+0000")), "ZZZZZ": ("!", "?", ":", "z"),
}  # fmt: skip
_WIDEST_OFFSET = len("+18:00:00")
_WIDEST_ZONE = 48


def check_times(pattern: str | None, zone: str | None) -> None:
    """Check how times are said to be written."""
    if pattern is not None and pattern not in COUNTED_TIMES:
        parts_of(pattern)
    if zone is not None:
        try:
            ZoneInfo(zone)
        except (OSError, ValueError, KeyError):
            raise InputError(
                f"--zone {zone!r} is not known: write a name such as Asia/Shanghai or Europe/Berlin"
            ) from None


@lru_cache(maxsize=64)
def parts_of(pattern: str) -> tuple[Any, ...]:
    """Return the parts of a pattern; an InputError if it is none that is read."""
    tokens = list(_TOKEN.finditer(pattern))
    texts = [found.group() for found in tokens]
    runs = [text for text in texts if text[0].isalpha() and text.isascii()]
    letters = {text[0] for text in runs}
    if not letters or "''" in pattern or len(pattern) > LONGEST_RUN // 4:
        raise unread(pattern)
    if "D" in letters and letters & set("MLd"):
        raise unread(pattern)
    if "V" in letters and (letters & set("XxZ") or not re.search(r"(?<!V)VV\]*\Z", pattern) or runs.count("VV") > 1):
        raise unread(pattern)
    levels: list[list[Any]] = [[]]
    before: list[int | None] = [None]
    for found in tokens:
        text = found.group()
        if text == "[":
            levels.append([])
            before[-1] = None
            before.append(None)
        elif text == "]":
            _close(levels, before, pattern)
        elif found["letter"]:
            _add(levels[-1], before, _part(text, "G" in letters, pattern))
        else:
            levels[-1].append(_literal(found["quoted"] or text, pattern))
            before[-1] = None
    while len(levels) > 1:
        _close(levels, before, pattern)
    return tuple(levels[0])


def unread(pattern: str) -> InputError:
    """Return the error of a pattern that is not read."""
    percent = "; %Y and the like are of strptime" if "%" in pattern else ""
    return InputError(
        f"time format {pattern!r} is not known: write {', '.join(COUNTED_TIMES)} or a pattern such as M/d/yyyy H:mm:ss "
        f"of Spark's letters y M L d D H k K h m s S a G X x Z, VV at its end, [] and text in '...'{percent}"
    )


def _close(levels: list[list[Any]], before: list[int | None], pattern: str) -> None:
    if len(levels) == 1:
        raise unread(pattern)
    inner = levels.pop()
    before.pop()
    if inner:
        levels[-1].append(Optional(tuple(inner)))
        before[-1] = None


def _add(parts: list[Any], before: list[int | None], part: Any) -> None:
    """Add a part: a number right behind another one leaves it only the digits that it does not need itself.

    As Java's builder has it: those behind the first must have a width of their own; another one starts anew.
    """
    first = before[-1]
    adjacent = isinstance(part, Digits) and not (part.fraction and part.most > 1)
    if adjacent and first is not None and part.least == part.most and not part.signs:
        if not parts[first].fraction:
            parts[first] = replace(parts[first], after=parts[first].after + part.most)
    else:
        if adjacent and first is not None:
            parts[first] = replace(parts[first], after=0)
        before[-1] = len(parts) if adjacent else None
    parts.append(part)


def _part(text: str, eras: bool, pattern: str) -> Any:
    letter, count = text[0], len(text)
    if letter == "y" and count < 7:
        field = "year_of_era" if eras else "year"
        if count == 2:
            return Digits(field, 2, 2, base=2000)
        return Digits(field, count, 19, signs="-" if count < 4 else "+-")
    if text in _NAMES:
        field, names = _NAMES[text]
        return Word(field, max(map(len, names)), partial(_name, names))
    if letter in _FIELDS and count < 3:
        if count == 1:
            return Digits(_FIELDS[letter], 1, 19, signs="-")
        return Digits(_FIELDS[letter], 2, 3 if letter == "D" else 2)
    if text == "DDD":
        return Digits("day_of_year", 3, 3)
    if letter == "S" and count < 10:
        return Digits("nano", 1, count, fraction=True)
    if text in _OFFSETS:
        return Word("offset", _WIDEST_OFFSET, partial(_offset, _OFFSETS[text]))
    if text == "VV":
        return Word("region", _WIDEST_ZONE, _zone)
    raise unread(pattern)


def _literal(text: str, pattern: str) -> Literal:
    if any(one in "'{}#\0\r\n" for one in text) or any(
        one.lower() != one.upper() and not one.isascii() for one in text
    ):
        raise unread(pattern)
    return Literal(tuple(_cases(byte) for byte in text.encode()))


def _cases(byte: int) -> bytes:
    letter = bytes([byte])
    return letter if letter.lower() == letter.upper() else letter.lower() + letter.upper()


def _name(names: Mapping[str, int], raw: bytes) -> tuple[int, int] | None:
    text = raw.decode("latin-1").lower()
    return next(((len(name), value) for name, value in names.items() if text.startswith(name)), None)


def _offset(style: tuple[str, str, str, str], raw: bytes) -> tuple[int, int] | None:
    minutes, seconds, between, of_utc = style
    text = raw.decode("latin-1")
    if text.lower().startswith(of_utc):
        return len(of_utc), 0
    found = _offset_pattern(minutes, seconds, between).match(text)
    if found is None:
        return None
    sign, *parts = found.groups()
    hour, minute, second = (int(part or 0) for part in parts)
    total = hour * 3600 + minute * 60 + second
    return found.end(), -total if sign == "-" else total


@lru_cache(maxsize=16)
def _offset_pattern(minutes: str, seconds: str, between: str) -> re.Pattern[str]:
    two = "(?:" + between + "([0-5][0-9]))"
    more = [two + (kind if kind == "?" else "") if kind else "()" for kind in (minutes, seconds)]
    return re.compile("([-+])([0-5][0-9])" + "".join(more), re.ASCII)


def _zone(raw: bytes) -> tuple[int, int] | None:
    """Return the zone that all of the text names: the pattern ends with it."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    prefix = next((one for one in ("utc", "ut", "gmt") if text.lower().startswith(one)), "")
    rest = text[len(prefix) :]
    if text.lower() == "gmt0" or (prefix and not rest) or text.lower() == "z":
        return len(raw), 0
    if prefix or rest[:1] in ("+", "-"):
        known = re.fullmatch(r"[-+][0-9]{2}:[0-9]{2}(:[0-9]{2})?", rest, re.ASCII) and zone_of(rest)
    else:
        known = regions_of_any_case().get(text.lower())
    return None if known is None else (len(raw), known)


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
            return _zone_offset(rest) if rest[:1] in ("+", "-") else _places().get(name)
    return None


def _zone_offset(text: str) -> int | None:
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
