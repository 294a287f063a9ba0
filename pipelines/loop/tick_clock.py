"""What moves the time of windows and watches where there are no rows: nothing, or the clock of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from dtoss.errors import InputError

DATA, WALL = "data", "wall"


def wall() -> int:
    """Return the time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1000


def clock_of(word: str) -> Callable[[], int] | None:
    """Return the clock that a user means by ``data`` or ``wall``; None where rows alone tell the time."""
    if word not in (DATA, WALL):
        raise InputError(f"clock is {word!r}: {DATA} or {WALL} is wanted")
    return wall if word == WALL else None
