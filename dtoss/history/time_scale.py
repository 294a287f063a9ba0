"""Moments and intervals as people write them, as the numbers by which a history stores its times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from dtoss.errors import InputError
from dtoss.history.schema import TimeType
from dtoss.plain_numbers import is_number, is_whole

MICROSECONDS = 1_000_000
"""Of a second."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST, _LATEST = -(1 << 63), (1 << 63) - 1


def interval_of(between: Sequence[Any] | None, t_type: TimeType) -> tuple[int | float, int | float]:
    """Return the first and the last time of an interval as they are stored, both within; open ends are the extremes.

    ``between``: two moments, None or "-" where there is no end; None for all times.

    Examples
    --------
    >>> interval_of(["1970-01-01T00:00:01", "-"], "timestamp") == (1_000_000, 2**63 - 1)
    True
    >>> interval_of([0.5, "7.5"], "int64"), interval_of(None, "double")
    ((1, 7), (-inf, inf))
    """
    extremes = (-math.inf, math.inf) if t_type == "double" else (_EARLIEST, _LATEST)
    if between is None:
        return extremes
    if isinstance(between, str) or not hasattr(between, "__len__") or len(between) != 2:
        raise InputError(f"between is {between!r}: a first and a last time are wanted, either may be '-'")
    first, last = (
        extremes[side] if _no_end(value) else moment_of(value, t_type, "between", up=side == 0)
        for side, value in enumerate(between)
    )
    if first > last:
        raise InputError(f"between is {between[0]} to {between[1]}: the first is after the last, exchange them")
    return first, last


def _no_end(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() == "-")


def moment_of(value: Any, t_type: TimeType, name: str = "time", *, up: bool = False) -> int | float:
    """Return a moment as it is stored.

    ``value``: A date or time, UTC where it has no zone; ISO 8601; or, where times are numbers, a number. ISO 8601
    beside numbers means seconds since 1970; ``name``: what it is called in errors.

    Examples
    --------
    >>> moment_of("2008-05-20T00:00:00+02:00", "timestamp"), moment_of("2008-05-20", "int64"), moment_of(1, "double")
    (1211234400000000, 1211241600, 1.0)
    """
    number = None if t_type == "timestamp" else _number(value)
    if number is None:
        when = _when(value)
        if when is None:
            kind = "a time such as 2026-01-31T12:00:00 (UTC where it names no zone)"
            wanted = kind if t_type == "timestamp" else f"a number, as the times of the history are, or {kind}"
            raise InputError(f"{name} is {value!r}: {wanted} is wanted")
        microseconds = (when - _EPOCH) // timedelta(microseconds=1)
        if t_type == "timestamp":
            return microseconds
        number = microseconds // MICROSECONDS if microseconds % MICROSECONDS == 0 else microseconds / MICROSECONDS
    if t_type == "double":
        return float(number)
    whole = math.ceil(number) if up else math.floor(number)
    return min(max(whole, _EARLIEST), _LATEST)


def seconds_before(moment: int | float, seconds: float, t_type: TimeType) -> int | float:
    """Return the moment so many seconds before another one, as it is stored; rounded up, to what is within.

    Examples
    --------
    >>> seconds_before(10_000_000, 2.5, "timestamp"), seconds_before(10, 2.5, "int64")
    (7500000, 8)
    """
    if t_type == "double":
        return moment - seconds
    scale = MICROSECONDS if t_type == "timestamp" else 1
    if not math.isfinite(seconds):
        return _EARLIEST
    return max(int(moment) - math.floor(seconds * scale), _EARLIEST)


def _number(value: Any) -> int | float | None:
    if isinstance(value, (bool, np.bool_)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return None if math.isnan(value) or math.isinf(value) else float(value)
    if not isinstance(value, str):
        return None
    said = value.strip()
    return int(said) if is_whole(said) else _number(float(said)) if is_number(said) else None


def _when(value: Any) -> datetime | None:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value
