"""How often somebody may ask: a bucket that fills at a rate, and of which each request takes one."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from time import monotonic


class Buckets:
    """A bucket for each name, full at first; it holds one second of the rate, and at least one request.

    ``clock``: seconds that never go back.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = monotonic) -> None:
        if not 0.0 < rate < float("inf"):
            raise ValueError(f"rate is {rate}: a number of requests/s above 0 is wanted")
        self._rate = rate
        self._most = max(rate, 1.0)
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def take(self, name: str) -> int:
        """Return 0 and take a request of a name, or whole seconds after which there is one again."""
        now = self._clock()
        # the moment when the bucket is full tells how much it lacks
        full_at = max(self._full_at.get(name, now), now) + 1.0 / self._rate
        lacking = (full_at - now) * self._rate - self._most
        if lacking > 1e-9:
            return max(ceil(lacking / self._rate), 1)
        self._full_at[name] = full_at
        return 0
