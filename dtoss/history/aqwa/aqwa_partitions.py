"""AQWA itself: partitions, each a file that is read whole, and which of them questions make it cut.

Its run question by question, with kNN and fading in turn, is in ``bench/history/aqwa_run.py``.

The partitions that could be cut, the one that gains most first (4.2.2).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.history.aqwa.aqwa_cuts import Choice, Cut, best_cut, halves
from dtoss.history.aqwa.aqwa_grid import Grid, Rectangle
from dtoss.history.aqwa.grid_counts import PointCounts, QueryCounters

Ints = NDArray[np.int64]
FADE_EVERY = 200
"""Questions after which older ones fade, T. The paper tries 10 to 10,000 (Fig 16)."""
FADING = 2.0
"""By what the weight of older questions is divided then, c. The paper has no value, the authors' programs have 10."""


@dataclass(frozen=True)
class Rule:
    """What the paper leaves to be chosen."""

    # minCount: both halves of a cut have more points. The paper's is the block size over the bytes of a point
    least_points: int
    fade_every: int = FADE_EVERY
    fading: float = FADING
    choice: Choice = "gain"  # Which line is the best cut
    # Whether fading revalues the partitions in turn, each once in T questions (4.2.4); all at once otherwise
    lazily: bool = True

    def __post_init__(self) -> None:
        """Compare with the bounds."""
        if self.least_points < 0:
            raise ValueError(f"least_points is {self.least_points}: give 0 or more")
        if self.fade_every < 1:
            raise ValueError(f"fade_every is {self.fade_every} questions: give 1 or more")
        if not 1 < self.fading < np.inf:
            raise ValueError(f"fading is {self.fading:g}: give more than 1")


@dataclass(frozen=True)
class MadeCut:
    """A cut that was made: the partition that is gone, its two halves by number, the line, and what it saves (C_d)."""

    part: int
    first: int
    second: int
    across_rows: bool
    line: int
    points: int
    saved: float


class Aqwa:
    """Partitions of a grid, the counts of their points and questions, and the queue of their cuts.

    ``parts``: the partitions to begin with, which share no cell; ``counters``: questions
    that were asked before; none by default.
    """

    def __init__(
        self,
        grid: Grid,
        counts: PointCounts,
        parts: list[Rectangle],
        rule: Rule,
        counters: QueryCounters | None = None,
    ) -> None:
        self.grid = grid
        self.counts = counts
        self.rule = rule
        self.counters = counters or QueryCounters(grid, rule.fade_every, rule.fading)
        self.queue = SplitQueue()
        self.numbers: Ints = np.arange(len(parts))
        self.rectangles: Ints = np.array(parts, np.int64).reshape(-1, 4)
        self._made = len(parts)
        for number in range(len(parts)):
            self.value(number, Rectangle(*parts[number]))

    def cut_what_pays(self) -> list[MadeCut]:
        """Cut the partition that gains most, while one gains more than it costs (4.2.2), and return the cuts."""
        made = []
        while (top := self.queue.top()) is not None and top[1].value > 0:
            number, cut = top
            part = self.rectangle(number)
            points = int(self.counts.within(*part))
            both = halves(part, cut.across_rows, cut.line)
            new = (self._made, self._made + 1)
            self._made += 2
            self._replace(number, both)
            made.append(MadeCut(number, *new, cut.across_rows, cut.line, points, cut.saved))
            for half, rectangle in zip(new, both, strict=True):
                self.value(half, rectangle)
        return made

    def rectangle(self, number: int) -> Rectangle:
        """Return the cells of a partition."""
        return Rectangle(*self.rectangles[np.searchsorted(self.numbers, number)].tolist())

    def value(self, number: int, part: Rectangle) -> None:
        """Ask the points and questions of a partition again what cutting it is worth."""
        rule = self.rule
        self.queue.put(number, best_cut(part, self.counts, self.counters, rule.least_points, rule.choice))

    def _replace(self, number: int, both: tuple[Rectangle, Rectangle]) -> None:
        stay = self.numbers != number
        self.numbers = np.append(self.numbers[stay], [self._made - 2, self._made - 1])
        self.rectangles = np.vstack([self.rectangles[stay], np.array(both, np.int64)])
        self.queue.remove(number)


class SplitQueue:
    """A max-heap of partitions by the value of their best cut. What was revalued is passed over when it comes up.

    >>> queue = SplitQueue()
    >>> queue.put(7, Cut(True, 3, saved=9.0, value=1.0))
    >>> queue.put(8, Cut(True, 5, saved=9.0, value=3.0))
    >>> queue.put(8, None)
    >>> queue.top()
    (7, Cut(across_rows=True, line=3, saved=9.0, value=1.0))
    """

    def __init__(self) -> None:
        self.cuts: dict[int, Cut] = {}
        self._heap: list[tuple[float, int, int]] = []
        self._put: dict[int, int] = {}
        self._puts = 0

    def put(self, part: int, cut: Cut | None) -> None:
        """Give a partition the value of its best cut; without one, it leaves the queue."""
        self.remove(part)
        if cut is None:
            return
        self._puts += 1
        self.cuts[part] = cut
        self._put[part] = self._puts
        heapq.heappush(self._heap, (-cut.value, part, self._puts))

    def remove(self, part: int) -> None:
        """Take a partition out, if it is there."""
        self.cuts.pop(part, None)
        self._put.pop(part, None)

    def top(self) -> tuple[int, Cut] | None:
        """Return the partition that gains most and its cut, None of an empty queue. Of equals, the oldest partition."""
        while self._heap:
            _, part, put = self._heap[0]
            if self._put.get(part) == put:
                return part, self.cuts[part]
            heapq.heappop(self._heap)
        return None
