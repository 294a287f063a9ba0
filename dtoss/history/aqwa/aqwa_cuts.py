"""Where a partition would be cut: evenly by points (4.1), or by what that saves the questions (4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.history.aqwa.aqwa_grid import Rectangle
from dtoss.history.aqwa.grid_counts import PointCounts, QueryCounters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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
