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
from dtoss.text import time_columns
from dtoss.text.text_scan import Digits, Literal, Optional, Word, read_whole, texts_of
from dtoss.text.text_values import numbers as numbers_in
from dtoss.text.time_columns import COUNTED_TIMES, EXCEL_SECONDS, LAST_SECOND, OWN_ZONE
from dtoss.text.time_fields import days_of, is_leap, micros_of
from dtoss.text.time_patterns import parts_of
from dtoss.text.time_zones import REGION, offset_at, offsets_at, regions, zone_of

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
    named = pattern is not None and time_columns.names_zone(pattern)
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
