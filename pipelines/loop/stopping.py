"""Being asked to end: no new cycle begins, and the one in hand has some seconds to become current."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from dtoss.snapshots.deferred_signals import ENDING, set_handlers
from pipelines.engines.progress import end_beginning

GRACE_SECONDS = 2.5
"""That a cycle may go on after SIGTERM; ending Spark takes about a second more."""
_SLICE_SECONDS = 0.1
"""In which waiting looks for a signal: what could be woken by a handler has locks, which it may find taken."""


class Ending(Exception):
    """Somebody has asked to end, and nothing was in hand."""


class Stopping:
    """Whether somebody has asked the loop to end.

    The first SIGINT or SIGTERM is remembered, and wakes who waits. A cycle in hand goes on for 2.5 seconds, or until a
    second signal. Then the handlers that were there before have their turn: they end Spark and raise.
    """

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._asked = False
        self._busy = self._starting = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to signals while inside; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        alarm = signal.getsignal(signal.SIGALRM)
        self._before = {number: signal.getsignal(number) for number in ENDING}
        self.listen_again()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if alarm is None else alarm)
            if not self.asked:
                set_handlers(self._before)

    def listen_again(self) -> None:
        """Set the handlers once more, after somebody such as a new Spark has set his own."""
        if self._before:
            for number in ENDING:
                signal.signal(number, self._ask)
            signal.signal(signal.SIGALRM, self._give_up)

    @contextmanager
    def cycle(self) -> Iterator[None]:
        """While inside, a signal leaves the time that a cycle has to end by itself."""
        self._busy = True
        if self._asked and self._before:
            # just now, after who asks had looked
            signal.setitimer(signal.ITIMER_REAL, self._grace)
        try:
            yield
        finally:
            self._busy = False
            if self._before:
                signal.setitimer(signal.ITIMER_REAL, 0.0)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While inside, nothing is in hand yet: a signal ends it at once."""
        self._starting = True
        try:
            self._end_if_asked()
            yield
            self._end_if_asked()  # what it was raised in may have kept it to itself
        finally:
            self._starting = False

    def _end_if_asked(self) -> None:
        if self._asked:
            raise Ending("asked to end")

    def wait(self, seconds: float) -> bool:
        """Wait, at most until a signal comes; return whether one has. Who waits has begun, and is shown no longer."""
        end_beginning()
        ends = time.monotonic() + seconds
        while not self._asked and (left := ends - time.monotonic()) > 0.0:
            time.sleep(min(left, _SLICE_SECONDS))
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            self._give_up(number, frame)
            return
        self._asked = True
        if self._starting:
            raise Ending("asked to end")
        if self._busy:
            signal.setitimer(signal.ITIMER_REAL, self._grace)

    def _give_up(self, number: int, frame: FrameType | None) -> None:
        """Do what was done at a signal before; it raises."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if not self._busy:
            return
        before = self._before[signal.SIGTERM]
        if callable(before):
            before(signal.SIGTERM, frame)
        raise KeyboardInterrupt
