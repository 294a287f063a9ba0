"""AQWA itself: partitions, each read whole, where questions make it cut them (4.1, 4.2), and leaves cut likewise.

Its run question by question, with kNN and fading in turn, is in ``bench/history/aqwa_run.py``.

The partitions that could be cut, the one that gains most first (4.2.2).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dtoss.history.aqwa.aqwa_grid import GRID_LINES, Grid, PointCounts, QueryCounters, Rectangle

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


Floats = NDArray[np.float64]
Choice = Literal["gain", "even", "all"]
"""Which line is best: of those that the binary search looks at the one that saves most (4.2.2), or the one that
distributes the cost most evenly (4.2.3); or, as the authors' published programs do, the best of all lines."""


class Cut(NamedTuple):
    """A line across a partition, what cutting there saves of reading, and what it costs to write."""

    across_rows: bool  # Whether the line separates rows; columns otherwise
    line: int  # The first row or column of the second half
    saved: float  # C_d of (2): points that the questions would not have read
    value: float  # ``saved - 2 N``, by which the split-queue is ordered


class Lines(NamedTuple):
    """All lines across a partition along one axis: the points of both halves and their costs by (1)."""

    across_rows: bool  # Whether the lines separate rows; columns otherwise
    first: int  # The line of index 0
    points: Floats  # points, costs: float64 (2, lines): of the half before the line, and of the one behind it
    costs: Floats


def halves(part: Rectangle, across_rows: bool, line: int) -> tuple[Rectangle, Rectangle]:
    """Return the two parts of a partition that is cut at a line."""
    if across_rows:
        return part._replace(bottom=line), part._replace(top=line)
    return part._replace(right=line), part._replace(left=line)


def lines_across(part: Rectangle, counts: PointCounts, counters: QueryCounters | None, across_rows: bool) -> Lines:
    """Return the points and costs of both halves at every line along an axis; without counters, points are the cost.

    The paper looks up only the lines that its search comes to. The numbers are the same, and numpy has all of an axis
    in the time of a few.
    """
    start, stop = (part.top, part.bottom) if across_rows else (part.left, part.right)
    lines = np.arange(start + 1, stop)
    begin, end = np.array([np.full(len(lines), start), lines]), np.array([lines, np.full(len(lines), stop)])
    both = (begin, part.left, end, part.right) if across_rows else (part.top, begin, part.bottom, end)
    points = counts.within(*both).astype(np.float64)
    return Lines(across_rows, start + 1, points, points if counters is None else points * counters.overlapping(*both))


def searched(first: Floats, second: Floats) -> list[int]:
    """Return the lines that the binary search looks at, in its order: it goes on in the half that costs more (4.1).

    It ends at a line where both cost the same.
    """
    seen = []
    low, high = 0, len(first) - 1
    while low <= high:
        middle = (low + high) // 2
        seen.append(middle)
        if first[middle] == second[middle]:
            break
        if first[middle] > second[middle]:
            high = middle - 1
        else:
            low = middle + 1
    return seen


def evenest(axes: Callable[[bool], Lines]) -> tuple[Lines, int] | None:
    """Return the axis and the index of the line that distributes cost most evenly: rows first, then columns (4.1).

    None where a partition is one cell. Of lines that are as even, it is the one that was looked at first.
    """
    best: tuple[Lines, int] | None = None
    least = np.inf
    for across_rows in (True, False):
        lines = axes(across_rows)
        for index in searched(*lines.costs):
            uneven = abs(lines.costs[0, index] - lines.costs[1, index])
            if uneven < least:
                best, least = (lines, index), uneven
        if least == 0:
            break
    return best


def best_cut(
    part: Rectangle, counts: PointCounts, counters: QueryCounters, least_points: int, choice: Choice = "gain"
) -> Cut | None:
    """Return the best cut of a partition, None where no line leaves more than `least_points` on both sides (4).

    Whether it pays is another question: it does if its value is above 0.

    ``choice``: which line is best. With "even" there is one candidate, and no cut if it does not leave enough.
    """
    points = float(counts.within(*part))
    cost = points * float(counters.overlapping(*part))

    def axis(across_rows: bool) -> Lines:
        return lines_across(part, counts, counters, across_rows)

    best: Cut | None = None
    for lines, looked_at in _candidates(axis, choice):
        if not len(looked_at):
            continue
        saved = cost - lines.costs[0, looked_at] - lines.costs[1, looked_at]
        saved[lines.points[:, looked_at].min(axis=0) <= least_points] = -np.inf
        most = int(np.argmax(saved))
        if saved[most] > (-np.inf if best is None else best.saved):
            gain = float(saved[most])
            best = Cut(lines.across_rows, lines.first + int(looked_at[most]), gain, gain - 2 * points)
    return best


def _candidates(axis: Callable[[bool], Lines], choice: Choice) -> list[tuple[Lines, Ints]]:
    if choice == "even":
        found = evenest(axis)
        return [] if found is None else [(found[0], np.array([found[1]]))]
    both = axis(True), axis(False)
    if choice == "gain":
        return [(lines, np.array(searched(*lines.costs), np.int64)) for lines in both]
    return [(lines, np.arange(lines.points.shape[1])) for lines in both]


@dataclass(frozen=True)
class PaperCuts:
    """What becomes of leaves: the cuts in their order, and the cells of those that are there at the end."""

    cuts: tuple[MadeCut, ...]  # By number of leaf: those given are 0, 1, ...; halves are numbered on from there
    at: Floats  # Where each cut is, on x or y, float64 (cuts,); a row at the line itself belongs to the first half
    # Number of leaf to its least x, least y, greatest x, greatest y, half-open (x0, x1], of all that stand
    cells: dict[int, tuple[float, float, float, float]]
    saved: Floats  # C_d of each cut by (2): rows that the questions would not have read, by their weights


def grid_of_leaves(cells: Floats, box: ArrayLike, lines: int = GRID_LINES) -> Grid:
    """Return a grid that has even lines across a box, the borders of all leaves, and no end.

    ``cells``: the leaves, float64 (leaves, 4): least x, least y, greatest x, greatest y, half-open (x0, x1], infinite
    where a leaf has no border.
    """
    cells = np.asarray(cells, np.float64).reshape(-1, 4)
    empty = ~((cells[:, 0] < cells[:, 2]) & (cells[:, 1] < cells[:, 3]))
    if empty.any():
        raise ValueError(f"leaf {int(np.argmax(empty))} has the box {cells[np.argmax(empty)].tolist()}, which is empty")
    x0, y0, x1, y1 = np.asarray(box, np.float64)
    ends = [-np.inf, np.inf]
    return Grid(
        np.unique(np.concatenate([np.linspace(x0, x1, lines + 1), cells[:, [0, 2]].ravel(), ends])),
        np.unique(np.concatenate([np.linspace(y0, y1, lines + 1), cells[:, [1, 3]].ravel(), ends])),
    )


def paper_cuts(
    grid: Grid, counts: PointCounts, cells: Floats, boxes: Iterable[ArrayLike], rule: Rule, asked: int = 0
) -> PaperCuts:
    """Return how the paper's method cuts leaves after questions; files are read whole.

    It is the state after the last question: all are counted, with what has faded by then, and the leaf that gains most
    is cut while one pays. So the same questions lead to no cut of the leaves that they have led to.

    ``cells``: the leaves. They share no place; ``boxes``: the questions, oldest first: least x, least y, greatest x,
    greatest y, borders included.

    Examples
    --------
    Nine questions want the lower left corner of 100 rows:

    >>> side = np.arange(10.0)
    >>> places = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    >>> world = np.array([[-np.inf, -np.inf, np.inf, np.inf]])
    >>> grid = grid_of_leaves(world, [0, 0, 9, 9], lines=10)
    >>> done = paper_cuts(grid, PointCounts.of(grid, places), world, [[0, 0, 1, 1]] * 9, Rule(least_points=3))
    >>> [(cut.part, cut.first, cut.second, cut.points) for cut in done.cuts], done.saved.tolist()
    ([(0, 1, 2, 100), (1, 3, 4, 20)], [720.0, 144.0])
    >>> done.cells[3]
    (-inf, -inf, 1.8, 1.8)
    """
    cells = np.asarray(cells, np.float64).reshape(-1, 4)
    counters = QueryCounters(grid, rule.fade_every, rule.fading, asked)
    for box in boxes:
        counters.add(grid.touched(box))
    aqwa = Aqwa(grid, counts, [_rectangle(grid, cell) for cell in cells], rule, counters)
    cuts = tuple(aqwa.cut_what_pays())
    return PaperCuts(
        cuts=cuts,
        at=np.array([float((grid.y if cut.across_rows else grid.x)[cut.line]) for cut in cuts]),
        cells={number: grid.box(aqwa.rectangle(number)) for number in aqwa.numbers.tolist()},
        saved=np.array([cut.saved for cut in cuts]),
    )


def _rectangle(grid: Grid, cell: Floats) -> Rectangle:
    left, right = np.searchsorted(grid.x, cell[[0, 2]])
    top, bottom = np.searchsorted(grid.y, cell[[1, 3]])
    return Rectangle(int(top), int(left), int(bottom), int(right))
