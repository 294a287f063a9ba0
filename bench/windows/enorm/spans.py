"""Windows by start, length and frequency (section 4.2), their instances, and the pane that all of them are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""An instance of a window or a pane: its beginning and its end, which it does not hold."""
FOREVER = 1 << 60
"""The time of the punctuation after the last row."""


@dataclass(frozen=True, order=True)
class Window:
    """Instances of one length, one every frequency, the first at start; tumbling where both are equal.

    Parameters
    ----------
    length, frequency, start : whole numbers of any unit of time.
    """

    length: int
    frequency: int
    start: int = 0

    def __post_init__(self) -> None:
        if self.length < 1 or self.frequency < 1:
            raise ValueError(f"a window of length {self.length} each {self.frequency}: both must be 1 or more")

    def holding(self, begin: int, end: int) -> Iterable[Span]:
        """Return the instances that hold all of a span, from the first on."""
        last = begin - (begin - self.start) % self.frequency
        first = max(end - self.length, self.start)
        first += (self.start - first) % self.frequency
        return ((at, at + self.length) for at in range(first, last + 1, self.frequency))

    def touching(self, begin: int, end: int) -> Iterable[Span]:
        """Return the instances that share any moment with a span, from the first on."""
        first = max(begin - self.length + 1, self.start)
        first += (self.start - first) % self.frequency
        return ((at, at + self.length) for at in range(first, end, self.frequency))

    def begins(self, at: int) -> bool:
        """Whether an instance begins there."""
        return at >= self.start and (at - self.start) % self.frequency == 0


def every(length: int) -> Window:
    """Return the tumbling window of a length."""
    return Window(length, length)


def pane_of(windows: Sequence[Window]) -> Window:
    """Return the longest pane of which all instances are made: the greatest common divisor (the paper never says it).

    Starts count too: windows of 10 that begin at 0 and at 5 need panes of 5.
    """
    first = min(window.start for window in windows)
    length = math.gcd(*(part for one in windows for part in (one.length, one.frequency, one.start - first)))
    return Window(length, length, first)


def longest(windows: Iterable[Window]) -> int:
    """Return the greatest length, 0 of none."""
    return max((window.length for window in windows), default=0)


def instances_of_a_row(windows: Iterable[Window]) -> float:
    """Return how many instances hold a row in the mean: the sum of length / frequency, not the count of windows."""
    return sum(window.length / window.frequency for window in windows)
