"""When subscriptions end: seconds, texts and times of Arrow as microseconds since 1970."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MICROSECONDS_OF_SECOND = 1_000_000
_LAST = (1 << 63) - 1
_BEGIN = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TICK = datetime.timedelta(microseconds=1)


def instants(values: Sequence[Any] | pa.Array | None, count: int, reasons: dict[int, str]) -> pa.Array:
    """Return moments as int64 microseconds, null where there is none; what is no moment is named. Cost O(n).

    ``values``: numbers are seconds since 1970, texts ISO 8601, both and times without a zone in UTC. None where there
    is no such column.
    """
    if values is None:
        return pa.nulls(count, pa.int64())
    if isinstance(values, pa.Array):
        if pa.types.is_timestamp(values.type):
            try:
                return pc.cast(values, pa.timestamp("us", values.type.tz), safe=values.type.unit != "ns").cast(
                    pa.int64()
                )
            except pa.ArrowException:
                pass
        values = values.to_pylist()
    kept: list[int | None] = []
    for row, value in enumerate(values):
        found = None if value is None else instant_of(value)
        if value is not None and found is None:
            reasons.setdefault(
                row, f"expires is {str(value)[:100]!r}: seconds since 1970, or a time such as 2030-01-31T12:00:00Z, "
                "are wanted"
            )  # fmt: skip
        kept.append(found)
    return pa.array(kept, pa.int64())


def instant_said(text: str) -> int | None:
    """Return the moment that a user writes, in microseconds since 1970; None where it is none.

    Examples
    --------
    >>> instant_said("1970-01-01T00:00:02"), instant_said("90"), instant_said("soon")
    (2000000, 90000000, None)
    """
    found = instant_of(text)
    if found is not None:
        return found
    try:
        return instant_of(float(text))
    except ValueError:
        return None


def instant_of(value: Any) -> int | None:
    """Return a moment in microseconds since 1970, None where a value is none.

    Examples
    --------
    >>> instant_of(1.5), instant_of("1970-01-01T00:00:02"), instant_of("soon")
    (1500000, 2000000, None)
    """
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        found = int(value) * MICROSECONDS_OF_SECOND
    elif isinstance(value, float | np.floating):
        ticks = float(value) * MICROSECONDS_OF_SECOND
        if not math.isfinite(ticks):
            return None
        found = round(ticks)
    else:
        when = value
        if isinstance(value, str):
            try:
                when = datetime.datetime.fromisoformat(value.strip())
            except ValueError:
                return None
        elif isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            when = datetime.datetime(value.year, value.month, value.day)
        if not isinstance(when, datetime.datetime):
            return None
        found = ((when if when.tzinfo else when.replace(tzinfo=datetime.UTC)) - _BEGIN) // _TICK
    return found if -_LAST <= found <= _LAST else None
