"""How well another server answers: whether it is asked at all, and how long it is waited for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import numpy as np

FAILURES_IN_TEN_SECONDS, WITHIN_SECONDS = 5, 10.0
"""So many failures within so many seconds, and a server is not asked any more."""
PROBE_SECONDS = 1.0
"""Between two requests that look whether it answers again."""
HEDGE = 3.0
"""Times its 99th percentile that is waited before the next copy is asked."""
FASTEST_HEDGE, FIRST_HEDGE = 0.02, 0.5
"""Seconds: it is waited so long at least, and so long while little is known."""
_REMEMBERED, _LEARNED_EACH = 512, 32


class Health:
    """Of one other server; for one loop, and read by any thread.

    ``clock``: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURES_IN_TEN_SECONDS)
        self._took: deque[float] = deque(maxlen=_REMEMBERED)
        self._since = 0
        self.hedge_after = FIRST_HEDGE
        self.open = False
        self._next_probe = 0.0

    def answered(self, seconds: float) -> None:
        """Take it that it answered."""
        self._failures.clear()
        self.open = False
        self._took.append(seconds)
        self._since += 1
        if self._since >= _LEARNED_EACH:
            self._since = 0
            p99 = float(np.quantile(np.array(self._took), 0.99))
            self.hedge_after = min(max(HEDGE * p99, FASTEST_HEDGE), FIRST_HEDGE)

    def failed(self) -> bool:
        """Take it that it did not; return whether it is not asked any more from now on."""
        now = self._clock()
        self._failures.append(now)
        if self.open:
            self._next_probe = now + PROBE_SECONDS
            return False
        if len(self._failures) == FAILURES_IN_TEN_SECONDS and now - self._failures[0] <= WITHIN_SECONDS:
            self.open, self._next_probe = True, now + PROBE_SECONDS
            return True
        return False

    def may_be_asked(self) -> bool:
        """Return whether requests go there; the one that looks whether it answers again is :meth:`probes`."""
        return not self.open

    def probes(self) -> bool:
        """Return whether it is time to look whether it answers again; True at most once a second."""
        now = self._clock()
        if not self.open or now < self._next_probe:
            return False
        self._next_probe = now + PROBE_SECONDS
        return True
