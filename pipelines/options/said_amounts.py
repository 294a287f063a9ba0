"""Amounts as people write them: durations with a unit, or a word for none, shares, names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from dtoss.option import Option
from dtoss.plain_numbers import number_in

WITNESSES = Option("Objects that have to say what time it is: a share, or a count; 1% if not given.", "SHARE")
"""Of a cycle, and of a watch."""


def duration(never: str | None = "off", option: str | None = None) -> Callable[[str], float | None]:
    """Return what makes seconds of a text; None of the word for never. Errors name the option where it is given."""

    def parse(text: str) -> float | None:
        if text.strip() == never:
            return None
        try:
            return seconds_of(text)
        except ValueError as error:
            raise ValueError(str(error) if option is None else f"{option}: {error}") from None

    return parse


def share(name: str) -> Callable[[str], float]:
    """Return what makes a share from 0 to 1 of a text; errors call it by that name."""
    return lambda text: share_of(text, name)


def names_of(text: str) -> tuple[str, ...]:
    """Return the names in a text that separates them by commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?|\.\d+) *(ms|s|min|h|d)", re.ASCII)

_BYTES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+) *([kmgt])b?", re.ASCII)


def seconds_of(text: str) -> float:
    """Return the seconds that a text such as ``15min``, ``1h``, ``60s``, ``2d``, ``500ms`` or ``1.5h`` means.

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


def share_of(text: str | float, name: str) -> float:
    """Return the share, from 0 to 1, that a text such as ``50%`` or ``0.5`` means.

    Examples
    --------
    >>> share_of("50%", "max_shrink"), share_of("0.25", "max_shrink")
    (0.5, 0.25)
    """
    said = str(text).strip()
    try:
        share = number_in(said.removesuffix("%").rstrip()) / (100.0 if said.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} is {said!r}: a share such as 50% or 0.5 is wanted")
    return share


def budget_of(text: str, whole: float) -> float:
    """Return the bytes that may move, of a number of them or of a share of all.

    ``whole``: all bytes.

    Examples
    --------
    >>> budget_of("5%", 800.0), budget_of("2e9", 800.0)
    (40.0, 2000000000.0)
    """
    said = text.strip()
    try:
        value = number_in(said.removesuffix("%").rstrip())
    except ValueError:
        value = -1.0
    if not 0.0 <= value < math.inf:
        raise ValueError(f"move budget {text!r} is neither bytes, such as 2e9, nor a share of them, such as 5%")
    return value / 100.0 * whole if said.endswith("%") else value


def bytes_of(text: str) -> int:
    """Return the bytes that a text such as ``500m``, ``4g`` or ``1.5g`` means, in powers of 1024, as Spark takes them.

    Examples
    --------
    >>> bytes_of("4g"), bytes_of("500m")
    (4294967296, 524288000)
    """
    found = _SIZE.fullmatch(text.strip().lower())
    size = float(found[1]) * _BYTES[found[2]] if found else 0.0
    if not 1.0 <= size < math.inf:
        raise ValueError(f"{text!r} is no size: a number and a unit are wanted, as in 500m, 4g or 1.5t")
    return int(size)
