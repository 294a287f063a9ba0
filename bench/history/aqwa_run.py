"""AQWA as the paper runs it: an even grid, parts of a first batch, questions one by one, and cuts after each.

Nothing of the product runs it so: :mod:`dtoss.history.aqwa` has the cuts alone, for ``adapt(method="aqwa")``.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.history.aqwa_knn import nearest_rectangle
from dtoss.history.aqwa.aqwa_grid import GRID_LINES, Grid, PointCounts, Rectangle
from dtoss.history.aqwa.aqwa_partitions import Aqwa, MadeCut, Rule, evenest, halves, lines_across

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def even_grid(box: ArrayLike, lines: int = GRID_LINES) -> Grid:
    """Return a grid whose cells are all of one size, as the paper's."""
    x0, y0, x1, y1 = np.asarray(box, np.float64)
    if not (np.isfinite([x0, y0, x1, y1]).all() and x0 < x1 and y0 < y1):
        raise ValueError(f"the box ({x0:g}, {y0:g}, {x1:g}, {y1:g}) has no area; give least and greatest x and y")
    if lines < 1:
        raise ValueError(f"{lines} cells an axis: give 1 or more")
    return Grid(np.linspace(x0, x1, lines + 1), np.linspace(y0, y1, lines + 1))


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


def halving_cut(part: Rectangle, counts: PointCounts, least_points: int) -> tuple[bool, int] | None:
    """Return the line that halves a partition's points best, None if a half would have fewer than `least_points`."""
    found = evenest(lambda across_rows: lines_across(part, counts, None, across_rows))
    if found is None:
        return None
    lines, index = found
    if lines.points[:, index].min() < least_points:
        return None
    return lines.across_rows, lines.first + index


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


class AqwaRun(Aqwa):
    """Partitions that are asked, and cut as questions come; as of :class:`dtoss.history.aqwa.aqwa_partitions.Aqwa`."""

    def __init__(self, grid: Grid, counts: PointCounts, parts: list[Rectangle], rule: Rule) -> None:
        self.valued: dict[int, int] = {}
        super().__init__(grid, counts, parts, rule)
        self._turn = deque(range(len(parts)))
        self._due = 0.0

    def value(self, number: int, part: Rectangle) -> None:
        """Value a partition, and keep after how many questions that was."""
        super().value(number, part)
        self.valued[number] = self.counters.asked

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
            self.value(number, self.rectangle(number))
        self._fade()
        cuts = self.cut_what_pays()
        for cut in cuts:
            del self.valued[cut.part]
            self._turn += (cut.first, cut.second)
        return Answered(read, points, tuple(cuts))

    def append(self, places: Floats) -> None:
        """Add points to the partitions in which they are (4.2.1). What should be cut now is cut at the next question.

        ``places``: float64 (n, 2): x, y.
        """
        self.append_counts(PointCounts.of(self.grid, places))

    def append_counts(self, more: PointCounts) -> None:
        """Add points that were counted already."""
        self.counts = self.counts.with_more(more)
        for number in self.numbers[more.within(*self.rectangles.T) > 0].tolist():
            self.value(number, self.rectangle(number))

    def _fade(self) -> None:
        """Revalue the next N_p / T partitions, each of which comes once in T questions; or all when weights change."""
        if not self.rule.lazily:
            if self.counters.asked % self.rule.fade_every == 0:
                for number in self.numbers.tolist():
                    self.value(number, self.rectangle(number))
            return
        self._due += len(self.numbers) / self.rule.fade_every
        while self._due >= 1:
            self._due -= 1
            number = self._turn.popleft()
            while number not in self.valued:
                number = self._turn.popleft()
            self.value(number, self.rectangle(number))
            self._turn.append(number)
