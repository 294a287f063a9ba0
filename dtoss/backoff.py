"""Pauses before something is tried again."""

from __future__ import annotations

from collections.abc import Iterator


def backoff(shortest: float, longest: float) -> Iterator[float]:
    """Yield seconds to wait before each new try, without end: each twice as long as the one before, up to a bound.

    ``shortest``, ``longest``: the first, and the bound.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(backoff(1.0, 5.0), 4))
    [1.0, 2.0, 4.0, 5.0]
    """
    pause = shortest
    while True:
        yield min(pause, longest)
        pause = min(2 * pause, longest)
