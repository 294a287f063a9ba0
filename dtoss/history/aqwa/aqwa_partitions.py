"""AQWA itself: partitions that are cut as questions come, each a file that is read whole."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.history.aqwa.aqwa_cuts import Choice, best_cut, halves, halving_cut
from dtoss.history.aqwa.aqwa_grid import Grid, Rectangle
from dtoss.history.aqwa.aqwa_knn import nearest_rectangle
from dtoss.history.aqwa.grid_counts import PointCounts, QueryCounters
from dtoss.history.aqwa.split_queue import SplitQueue

Floats = NDArray[np.float64]
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


@dataclass(frozen=True)
class Answered:
    """What a question cost: the partitions that it read and their points, and what was cut because of it."""

    parts: Ints  # Numbers of the partitions that were read, int64; as they were before the cuts
    points: Ints  # How many points each has, int64
    cuts: tuple[MadeCut, ...] = field(default=())  # In the order in which they were made

    @property
    def rewritten(self) -> int:
        """Points that the cuts have read and written again."""
        return sum(cut.points for cut in self.cuts)


def first_parts(
    counts: PointCounts, everything: Rectangle, least_points: int, files: int | None = None
) -> list[Rectangle]:
    """Return the partitions before any question: halved until a half would have too few points (4.1).

    ``files``: at most so many, the largest cut first. The text has no such bound; the authors' programs begin with 100.
    """
    cuttable = [(-int(counts.within(*everything)), everything)]
    kept: list[Rectangle] = []
    while cuttable and (files is None or len(kept) + len(cuttable) < files):
        _, part = heapq.heappop(cuttable)
        cut = halving_cut(part, counts, least_points)
        if cut is None:
            kept.append(part)
        else:
            for half in halves(part, *cut):
                heapq.heappush(cuttable, (-int(counts.within(*half)), half))
    return sorted([*kept, *(part for _, part in cuttable)])


class Aqwa:
    """Partitions of a grid, the counts of their points and questions, and the queue of their cuts.

    ``parts``: the partitions to begin with, which share no cell; `first_parts` are the paper's; ``counters``: questions
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
        self.valued: dict[int, int] = {}
        self._made = len(parts)
        self._turn = deque(range(len(parts)))
        self._due = 0.0
        for number in range(len(parts)):
            self._value(number, Rectangle(*parts[number]))

    def overlapped(self, question: Rectangle) -> tuple[Ints, Ints]:
        """Return the numbers of the partitions that share cells with a rectangle, and their points."""
        top, left, bottom, right = self.rectangles.T
        shared = (top < question.bottom) & (question.top < bottom) & (left < question.right) & (question.left < right)
        if question.top >= question.bottom:
            shared[:] = False
        return self.numbers[shared], self.counts.within(*self.rectangles[shared].T)

    def ask(self, box: ArrayLike) -> Answered:
        """Answer a range: read what it overlaps, count it, cut what pays now."""
        return self.ask_cells(self.grid.touched(box))

    def ask_nearest(self, place: tuple[float, float], k: int) -> Answered:
        """Answer a kNN question as the range that holds its answer (5)."""
        return self.ask_cells(nearest_rectangle(self.grid, self.counts, place, k))

    def ask_cells(self, question: Rectangle) -> Answered:
        """Answer a range of whole cells."""
        read, points = self.overlapped(question)
        self.counters.add(question)
        for number in read.tolist():
            self._value(number, self.rectangle(number))
        self._fade()
        return Answered(read, points, tuple(self.cut_what_pays()))

    def append(self, places: Floats) -> None:
        """Add points to the partitions in which they are (4.2.1). What should be cut now is cut at the next question.

        ``places``: float64 (n, 2): x, y.
        """
        self.append_counts(PointCounts.of(self.grid, places))

    def append_counts(self, more: PointCounts) -> None:
        """Add points that were counted already."""
        self.counts = self.counts.with_more(more)
        for number in self.numbers[more.within(*self.rectangles.T) > 0].tolist():
            self._value(number, self.rectangle(number))

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
                self._turn.append(half)
                self._value(half, rectangle)
        return made

    def rectangle(self, number: int) -> Rectangle:
        """Return the cells of a partition."""
        return Rectangle(*self.rectangles[np.searchsorted(self.numbers, number)].tolist())

    def _value(self, number: int, part: Rectangle) -> None:
        rule = self.rule
        self.queue.put(number, best_cut(part, self.counts, self.counters, rule.least_points, rule.choice))
        self.valued[number] = self.counters.asked

    def _fade(self) -> None:
        """Revalue the next N_p / T partitions, each of which comes once in T questions; or all when weights change."""
        if not self.rule.lazily:
            if self.counters.asked % self.rule.fade_every == 0:
                for number in self.numbers.tolist():
                    self._value(number, self.rectangle(number))
            return
        self._due += len(self.numbers) / self.rule.fade_every
        while self._due >= 1:
            self._due -= 1
            number = self._turn.popleft()
            while number not in self.valued:
                number = self._turn.popleft()
            self._value(number, self.rectangle(number))
            self._turn.append(number)

    def _replace(self, number: int, both: tuple[Rectangle, Rectangle]) -> None:
        stay = self.numbers != number
        self.numbers = np.append(self.numbers[stay], [self._made - 2, self._made - 1])
        self.rectangles = np.vstack([self.rectangles[stay], np.array(both, np.int64)])
        self.queue.remove(number)
        del self.valued[number]
