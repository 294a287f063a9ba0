"""Numbers and times as a condition's text says them."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dtoss.conditions.language import LONGEST_SAID, Mismatch, short

DIGITS = 76
"""Of whole numbers and of numbers with a point that are kept exactly; longer ones are floating point numbers."""


def number(text: str) -> Any:
    """Return a number in the narrowest of int64, uint64, a decimal that holds it; with an exponent as a float."""
    digits = text.lstrip("-")
    if digits.replace(".", "", 1).isdecimal() and len(digits) <= DIGITS:
        if "." in digits:
            return as_decimal(Decimal(text))
        value = int(text)
        if -(2**63) <= value < 2**63:
            return pa.scalar(value, pa.int64())
        return pa.scalar(value, pa.uint64()) if 0 < value < 2**64 else as_decimal(Decimal(text))
    try:
        found = float(text)
    except ValueError:
        raise Mismatch(f"{text[:LONGEST_SAID]} is not a number") from None
    if found in (float("inf"), -float("inf")):
        raise Mismatch(f"number {text[:LONGEST_SAID]} is beyond 1.8e308")
    return pa.scalar(found)


def as_decimal(number: Decimal) -> Any:
    """Return a finite number as an Arrow decimal of as many digits as it has."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return pa.scalar(number, pa.decimal256(max(len(digits) + max(exponent, 0), scale, 1), scale))


def moment(text: str) -> datetime.datetime:
    """Return the time that a text says, UTC where it names no zone."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Mismatch(f"{short(text)} is not a time such as 2008-05-18 07:30:00") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def instant(text: str) -> Any:
    """Return the time that a text says as an Arrow scalar, of microseconds, or of nanoseconds where it says any."""
    found = moment(text)
    try:
        scalar = pa.scalar(found, pa.timestamp("us", "UTC"))
        beyond = _FRACTION.search(text)
        if beyond is None:
            return scalar
        # the standard library cuts these digits off
        return pa.scalar(1000 * scalar.value + int(beyond[1][:3].ljust(3, "0")), pa.timestamp("ns", "UTC"))
    except (OverflowError, pa.ArrowException):
        raise Mismatch(f"time {short(text)} is beyond what is kept") from None


_FRACTION = re.compile(r"[.,]\d{6}(\d+)")
