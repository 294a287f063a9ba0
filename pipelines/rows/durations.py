"""Durations as people write them: a number and its unit."""

from __future__ import annotations

import math
import re

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?|\.\d+) *(ms|s|min|h|d)", re.ASCII)


def seconds_of(text: str) -> float:
    """Return the seconds that a text such as ``15min``, ``1h``, ``60s``, ``2d``, ``500ms`` or ``1.5h`` means.

    Raises
    ------
    ValueError
        If it is no number with one of these units behind it.

    Examples
    --------
    >>> seconds_of("15min"), seconds_of("500ms")
    (900.0, 0.5)
    """
    found = _FORM.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else math.inf
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is no duration: a number and a unit are wanted, as in 500ms, 60s, 15min, 1h or 2d")
    return seconds
