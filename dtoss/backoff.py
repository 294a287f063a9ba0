"""Pauses before something is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def backoff(shortest: float, longest: float, chance: Callable[[], float] = lambda: 0.0) -> Iterator[float]:
    """Yield seconds to wait before each new try, without end: each twice as long as the one before, up to a bound.

    ``shortest``, ``longest``: the first, and the bound; ``chance``: draws how much of half a pause is left out, from 0
    to 1, so that many who wait for the same do not come at once.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(backoff(1.0, 5.0), 4))
    [1.0, 2.0, 4.0, 5.0]
    """
    pause = shortest
    while True:
        yield min(pause, longest) * (1.0 - chance() / 2)
        pause = min(2 * pause, longest)
