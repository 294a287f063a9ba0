"""Durations as people write them, as whole microseconds.

Times as messages and answers say them.
"""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np

SECOND_US = 1_000_000
"""Microseconds of a second."""
LONGEST_DURATION = 1 << 56
"""The longest duration, in microseconds: about 2,283 years."""
UNITS = {"ms": 1_000, "s": SECOND_US, "min": 60 * SECOND_US, "h": 3_600 * SECOND_US, "d": 86_400 * SECOND_US}
"""Microseconds of each unit."""
_FORM = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20}) *(ms|s|min|h|d)", re.ASCII)


def duration_of(text: str, name: str, *, zero: bool = False) -> int:
    """Return the microseconds that a text such as ``5min``, ``1h``, ``1.5h``, ``60s``, ``2d`` or ``500ms`` means.

    Examples
    --------
    >>> duration_of("5min", "--slide"), duration_of("1.5h", "--slide"), duration_of("500ms", "--slide")
    (300000000, 5400000000, 500000)
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            f"{name} is {text[:60]!r}: a number and a unit are wanted, as in 500ms, 60s, 15min, 1h or 2d, "
            f"{'0s or more' if zero else 'more than 0'}"
        )
    exact = Fraction(found[1]) * UNITS[found[2]]
    if exact.denominator != 1:
        raise ValueError(f"{name} is {text!r}: whole microseconds are wanted, 0.001ms at the least")
    if exact == 0 and not zero:
        raise ValueError(f"{name} is {text!r}: more than 0 is wanted, such as 1min")
    if exact > LONGEST_DURATION:
        raise ValueError(f"{name} is {text!r}: at most {LONGEST_DURATION // UNITS['d']}d is wanted")
    return int(exact)


def duration_text(microseconds: int) -> str:
    """Return the shortest text that means a duration.

    Examples
    --------
    >>> duration_text(300_000_000), duration_text(0), duration_text(86_400_000_000), duration_text(1_500)
    ('5min', '0s', '1d', '1.5ms')
    """
    if microseconds == 0:
        return "0s"
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds % UNITS[unit] == 0:
            return f"{microseconds // UNITS[unit]}{unit}"
    whole, part = divmod(microseconds, UNITS["ms"])
    return f"{whole}.{part:03d}".rstrip("0") + "ms"


def time_text(microseconds: int) -> str:
    """Return a time in ISO 8601, UTC.

    Examples
    --------
    >>> time_text(0), time_text(1_500_000)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:01.5Z')
    """
    text = str(np.datetime64(microseconds, "us")).rstrip("0") if microseconds % 1_000_000 else ""
    return f"{text or np.datetime64(microseconds // 1_000_000, 's')}Z"
