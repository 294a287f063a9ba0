"""Times in the notations of position files, as UTC timestamps; what cannot be read is null, with a reason."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import available_timezones

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets.tables.command import BadInput
from datasets.tables.legal_positions import Bools, Floats, Numbers, is_missing, numbers

TIMESTAMP = pa.timestamp("us", tz="UTC")
NAMED = ("auto", "iso", "excel", "epoch-s", "epoch-ms", "epoch-us")

NO_TIME = "time null: none given"
NOT_READ = "time null: cannot be read"
BEFORE_1 = "time null: year before 1 or after 9999"
NO_DAY = "time null: month or day missing"
NO_CLOCK = "time of day incomplete, what is missing taken as 0"
TWICE = "local time happened twice (clock put back), the first taken"
SKIPPED = "local time did not happen (clock put forward), moved on"

_ISO = (
    r"^(?P<year>[-+]?\d{1,6})-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?)?)?"
    r" ?(?P<zone>[Zz]|UTC|[-+]\d{2}:?\d{2}|[-+]\d{2})?$"
)
_EXCEL_EPOCH = np.datetime64("1899-12-30", "us").astype(np.int64)
_EXCEL_END = 2_958_466.0  # 10000-01-01
_US = 1_000_000
_DAY_US = 86_400 * _US
_YEAR_1, _YEAR_10000 = (np.datetime64(date, "us").astype(np.int64) for date in ("0001-01-01", "10000-01-01"))


@dataclass(frozen=True)
class Times:
    """Times and what was wrong with them."""

    t: pa.Array  # timestamp[us, UTC], (n,), null where there is none
    flaws: dict[str, Bools]  # Rows by reason, bool (n,) each


@dataclass(frozen=True)
class _Read:
    """Microseconds since 1970 of the rows a notation can read; local to some zone unless ``utc``."""

    us: NDArray[np.int64]
    ok: Bools
    utc: Bools
    flaws: dict[str, Bools]


def check_formats(formats: Sequence[str], zone: str) -> None:
    """Refuse an unknown time format or zone."""
    for form in formats:
        if form not in NAMED and "%" not in form:
            known = ", ".join(NAMED)
            raise BadInput(f"no time format is called {form!r}; give {known} or a pattern like %Y-%m-%d")
    if zone not in available_timezones():
        raise BadInput(f"no time zone is called {zone!r}; Asia/Shanghai and America/New_York are")


def parse_times(texts: pa.Array, formats: Sequence[str] = ("auto",), zone: str = "UTC") -> Times:
    """Read times, each by the first of the formats that fits it.

    ``texts``: strings, (n,); ``formats``: ``iso`` (ISO 8601, also with a blank for the T), ``excel`` (days since
    1899-12-30), ``epoch-s``, ``epoch-ms``, ``epoch-us``, or a pattern of strptime such as ``"%m/%d/%Y %H:%M"``.
    ``auto`` is ISO, and for a bare number Excel's days below 100,000, else the epoch unit that puts it in 1973 to 5138.
    """
    check_formats(formats, zone)
    trimmed = pc.utf8_trim_whitespace(texts)
    missing = is_missing(trimmed).to_numpy(zero_copy_only=False)
    n = len(missing)
    us, ok, utc = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    flaws: dict[str, Bools] = {NO_TIME: missing}
    for form in formats:
        todo = np.flatnonzero(~missing & ~ok)
        if not len(todo):
            break
        read = _read(trimmed.take(pa.array(todo)), form)
        us[todo], ok[todo], utc[todo] = read.us, read.ok, read.utc
        for reason, rows in read.flaws.items():
            flaws.setdefault(reason, np.zeros(n, dtype=np.bool_))[todo] |= rows
    known = np.logical_or.reduce([rows for reason, rows in flaws.items() if reason.startswith("time null")])
    flaws[NOT_READ] = ~ok & ~known
    return _in_utc(us, ok, utc, zone, flaws)


def times_of_parts(parts: Sequence[pa.Array], zone: str = "UTC") -> Times:
    """Put times together from columns: year, month, day and, where there are more, hour, minute, second.

    ``parts``: 3 to 6 string arrays, (n,) each. AIS spells a missing year, month or day as 0, a missing hour, minute and
    second as 24, 60, 60; those are missing here as well.
    """
    if not 3 <= len(parts) <= 6:
        raise BadInput(f"{len(parts)} columns for the date: give year,month,day[,hour[,minute[,second]]]")
    check_formats((), zone)
    read = [numbers(part) for part in parts]
    none = np.logical_and.reduce([part.missing for part in read])
    bad = np.logical_or.reduce([part.unreadable for part in read])
    year, month, day = (_or_zero(part) for part in read[:3])
    clock = [_or_zero(part) for part in read[3:]] + [np.zeros(len(year))] * (6 - len(read))
    lacks = np.zeros(len(year), dtype=np.bool_)
    for i, (part, beyond) in enumerate(zip(read[3:], (24, 60, 60), strict=False)):
        lacks |= part.missing | (part.value == beyond)
        clock[i] = np.where(lacks, 0.0, clock[i])
    us, ok = _civil(year, month, day, *clock)
    before = ~none & ~bad & ~read[0].missing & ((year < 1) | (year > 9999))
    no_day = ~none & ~bad & ~before & ((month == 0) | (day == 0) | read[0].missing)
    flaws = {NO_TIME: none, BEFORE_1: before, NO_DAY: no_day}
    ok &= ~none & ~bad & ~before & ~no_day
    flaws[NOT_READ] = ~ok & ~none & ~before & ~no_day
    flaws[NO_CLOCK] = ok & lacks
    return _in_utc(us, ok, np.zeros(len(us), dtype=np.bool_), zone, flaws)


def _or_zero(part: Numbers) -> Floats:
    return np.where(np.isfinite(part.value), part.value, 0.0)


def _read(texts: pa.Array, form: str) -> _Read:
    if form == "auto":
        return _auto(texts)
    if form == "iso":
        return _iso(texts)
    if form == "excel":
        return _excel(numbers(texts).value)
    if form in NAMED:
        return _epoch(numbers(texts).value, {"epoch-s": _US, "epoch-ms": 1_000, "epoch-us": 1}[form])
    return _strptime(texts, form)


def _auto(texts: pa.Array) -> _Read:
    bare = pc.match_substring_regex(texts, r"^[-+]?\d+(\.\d*)?$")
    iso = _iso(texts)
    if not pc.any(bare).as_py():
        return iso
    value = numbers(pc.if_else(bare, texts, pa.scalar(None, pa.string()))).value
    us, ok, utc = iso.us, iso.ok & np.isnan(value), iso.utc
    with np.errstate(invalid="ignore"):
        sorts = [
            (value < 1e5, _excel(value)),
            ((value >= 1e8) & (value < 1e11), _epoch(value, _US)),
            ((value >= 1e11) & (value < 1e14), _epoch(value, 1_000)),
            ((value >= 1e14) & (value < 1e17), _epoch(value, 1)),
        ]
    for rows, other in sorts:
        us, ok = np.where(rows, other.us, us), np.where(rows, other.ok, ok)
        utc = np.where(rows, other.utc, utc)
    return _Read(us, ok, utc, iso.flaws)


def _excel(days: Floats) -> _Read:
    with np.errstate(invalid="ignore"):
        ok = (days >= 1) & (days < _EXCEL_END)
    us = np.round(np.where(ok, days, 0.0) * 86_400e3).astype(np.int64) * 1_000 + _EXCEL_EPOCH
    return _Read(us, ok, np.zeros(len(days), dtype=np.bool_), {})


def _epoch(value: Floats, unit: int) -> _Read:
    with np.errstate(invalid="ignore"):
        ok = np.abs(value) * unit < float(_YEAR_10000)
    us = np.round(np.where(ok, value, 0.0) * unit).astype(np.int64)
    return _Read(us, ok, np.ones(len(value), dtype=np.bool_), {})


def _iso(texts: pa.Array) -> _Read:
    """Read ISO 8601: whole blocks by a cast where all are well written, else by parts."""
    n = len(texts)
    zoned = pc.match_substring_regex(texts, r"\d[Zz]$|:\d\d(\.\d+)?[-+]\d\d:?\d\d$")
    for utc, fits in ((True, zoned), (False, pc.invert(zoned))):
        if not pc.all(fits, min_count=0).as_py():
            continue
        try:
            t = pc.cast(texts, TIMESTAMP if utc else pa.timestamp("us"))
        except pa.ArrowInvalid:
            break
        us = pc.cast(t, pa.int64()).to_numpy(zero_copy_only=False)
        if not len(us) or us.min() >= _YEAR_1:
            return _Read(us, np.ones(n, dtype=np.bool_), np.full(n, utc), {})
    return _iso_by_parts(texts)


def _iso_by_parts(texts: pa.Array) -> _Read:
    found = pc.extract_regex(texts, _ISO)
    field = {name: pc.struct_field(found, name) for name in found.type.names}
    matched = found.is_valid().to_numpy(zero_copy_only=False)
    field["second"] = pc.replace_substring(field["second"], ",", ".")
    year, month, day, hour, minute, second = (
        _or_zero(numbers(field[name])) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    us, ok = _civil(year, month, day, hour, minute, second)
    before = matched & ((year < 1) | (year > 9999))
    no_day = matched & ~before & ((month == 0) | (day == 0))
    sign = np.where(pc.fill_null(pc.starts_with(field["zone"], "-"), False), -1, 1)
    digits = pc.replace_substring_regex(field["zone"], r"\D", "")
    offset = _or_zero(numbers(digits)).astype(np.int64)
    hours_only = pc.fill_null(pc.less_equal(pc.utf8_length(digits), 2), True)
    minutes = np.where(hours_only, offset * 60, offset // 100 * 60 + offset % 100)
    zoned = pc.fill_null(pc.not_equal(field["zone"], ""), False).to_numpy(zero_copy_only=False)
    us = us - sign * minutes * 60 * _US
    return _Read(us, ok & matched & ~before & ~no_day, zoned, {BEFORE_1: before, NO_DAY: no_day})


def _strptime(texts: pa.Array, pattern: str) -> _Read:
    t = pc.strptime(texts, format=pattern, unit="us", error_is_null=True)
    utc = np.full(len(texts), "%z" in pattern)
    ok = t.is_valid().to_numpy(zero_copy_only=False)
    us = pc.fill_null(pc.cast(t, pa.int64()), 0).to_numpy(zero_copy_only=False)
    # Arrow turns February 30 into March 2: let pandas, which refuses it, see the first days of months.
    first = pc.fill_null(pc.less_equal(pc.day(t), 3), False).to_numpy(zero_copy_only=False)
    year = pc.fill_null(pc.year(t), 0).to_numpy(zero_copy_only=False)
    suspects = np.flatnonzero(ok & first & (year > 1677) & (year < 2262))
    if len(suspects):
        some = texts.take(pa.array(suspects)).to_pandas()
        real = pd.to_datetime(some, format=pattern, errors="coerce", utc="%z" in pattern).notna()
        ok = ok.copy()
        ok[suspects] = real.to_numpy()
    return _Read(us, ok, utc, {})


def _civil(
    year: Floats,
    month: Floats,
    day: Floats,
    hour: Floats | float = 0.0,
    minute: Floats | float = 0.0,
    second: Floats | float = 0.0,
) -> tuple[NDArray[np.int64], Bools]:
    """Return microseconds since 1970 and where the calendar has such a moment; years 1 to 9999."""
    whole = (np.floor(year) == year) & (np.floor(month) == month) & (np.floor(day) == day)
    ok = whole & (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    ok &= (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60) & (second >= 0) & (second < 60)
    months = np.where(ok, (year - 1970) * 12 + month - 1, 0).astype(np.int64).astype("datetime64[M]")
    date = months.astype("datetime64[D]") + np.where(ok, day - 1, 0).astype(np.int64)
    ok &= date.astype("datetime64[M]") == months
    clock = np.where(ok, hour * 3_600 + minute * 60 + second, 0.0)
    us = date.astype(np.int64) * _DAY_US + np.floor(clock * _US + 1e-4).astype(np.int64)
    return us, ok


def _in_utc(us: NDArray[np.int64], ok: Bools, utc: Bools, zone: str, flaws: dict[str, Bools]) -> Times:
    local = np.flatnonzero(ok & ~utc)
    if zone != "UTC" and len(local):
        naive = pa.array(us[local]).cast(pa.timestamp("us"))
        first = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest")
        last = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
        for reason, which in (
            (SKIPPED, pc.not_equal(pc.local_timestamp(first), naive)),
            (TWICE, pc.not_equal(first, last)),
        ):
            flaws[reason] = np.zeros(len(us), dtype=np.bool_)
            flaws[reason][local] = which.to_numpy(zero_copy_only=False)
        us = us.copy()
        us[local] = pc.cast(first, pa.int64()).to_numpy(zero_copy_only=False)
    beyond = ok & ((us < _YEAR_1) | (us >= _YEAR_10000))
    flaws[BEFORE_1] = flaws.get(BEFORE_1, beyond) | beyond
    t = pa.array(us, mask=~ok | beyond).cast(TIMESTAMP)
    return Times(t, {reason: rows for reason, rows in flaws.items() if rows.any()})
