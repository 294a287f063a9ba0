"""What SWARM moves: a subset of a machine's rectangles, or one part of a rectangle that it splits (4.3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ceps.balance.cell_layout import Floats, Ints
from ceps.balance.rectangles import FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW

Costs = Callable[[Ints], Floats]
"""Returns the cost of rectangles (n, 4)."""


@dataclass
class Rectangles:
    """Rectangles of cells on machines."""

    rects: Ints  # int64 (p, 4). First column, first row, last column, last row
    worker: Ints  # int64 (p,)

    def of(self, worker: int) -> Ints:
        """Return the numbers of a machine's rectangles, int64."""
        return np.flatnonzero(self.worker == worker)

    def owner(self, shape: tuple[int, int]) -> Ints:
        """Return the machine of each cell, int64 (cells,)."""
        found = np.zeros(shape, np.int64)
        for (west, south, east, north), worker in zip(self.rects.tolist(), self.worker.tolist(), strict=True):
            found[south : north + 1, west : east + 1] = worker
        return found.ravel()


def halved(shape: tuple[int, int], count: int) -> Rectangles:
    """Return the grid cut into rectangles, the largest halved by its longer side until there are so many (4.1).

    Where cells run out there are fewer. Machines get one each, in the order in which they are made.
    """
    rects = [(0, 0, shape[1] - 1, shape[0] - 1)]
    while len(rects) < count:
        largest = max(range(len(rects)), key=lambda one: (_area(rects[one]), -one))
        west, south, east, north = rects[largest]
        if _area(rects[largest]) == 1:
            break
        if east - west >= north - south:
            middle = (west + east) // 2
            rects[largest] = (west, south, middle, north)
            rects.append((middle + 1, south, east, north))
        else:
            middle = (south + north) // 2
            rects[largest] = (west, south, east, middle)
            rects.append((west, middle + 1, east, north))
    return Rectangles(np.array(rects, np.int64), np.arange(len(rects)))


def _area(rect: tuple[int, int, int, int]) -> int:
    west, south, east, north = rect
    return (east - west + 1) * (north - south + 1)


def best_subset(costs: Floats, most: float) -> list[int]:
    """Return which costs to move, greedily, the largest first: their sum is at most ``most`` (algorithm 3).

    The sum is at least half of the best one.

    Examples
    --------
    >>> best_subset(np.array([3.0, 8.0, 5.0, 2.0]), 9.0)
    [1]
    """
    chosen, total = [], 0.0
    for one in np.argsort(-costs, kind="stable").tolist():
        if costs[one] > 0.0 and costs[one] + total <= most:
            chosen.append(one)
            total += float(costs[one])
    return sorted(chosen)


class Line(NamedTuple):
    """A line that splits a rectangle, and which part moves."""

    difference: float  # By how much the giver's cost is then above the taker's; the least in size is the best
    kept: Ints  # (4,). The two parts
    moved: Ints  # (4,). The two parts


def least_in_size(difference: Callable[[int], float], count: int) -> tuple[int, float]:
    """Return where a function that rises or falls all along is nearest to 0, and what it is there. O(log count) calls.

    ``difference``: of whole numbers from 0 on; ``count``: how many there are, at least one.
    """
    low, high = 0, count - 1
    first = difference(0)
    rises = count > 1 and difference(count - 1) >= first
    while low < high:
        middle = (low + high) // 2
        below = difference(middle) < 0.0
        if below == rises:
            low = middle + 1
        else:
            high = middle
    near = [at for at in (low - 1, low, low + 1) if 0 <= at < count]
    best = min(near, key=lambda at: (abs(difference(at)), at))
    return best, difference(best)


def best_split(rect: Ints, costs: Costs, giver: float, taker: float) -> Line | None:
    """Return the best line of four binary searches: rows and columns, and either part moves; None of a single cell.

    ``rect``: int64 (4,).
    """
    whole = float(costs(rect[None])[0])
    found: list[Line] = []
    for first, last in ((FIRST_ROW, LAST_ROW), (FIRST_COLUMN, LAST_COLUMN)):
        lines = int(rect[last] - rect[first])
        if lines == 0:
            continue
        before, behind = np.tile(rect, (lines, 1)), np.tile(rect, (lines, 1))
        before[:, last] = rect[first] + np.arange(lines)
        behind[:, first] = before[:, last] + 1
        for kept, moved in ((behind, before), (before, behind)):

            def difference(at: int, kept: Ints = kept, moved: Ints = moved) -> float:
                left, gone = costs(np.stack([kept[at], moved[at]])).tolist()
                return float((giver - whole + left) - (taker + gone))

            at, least = least_in_size(difference, lines)
            found.append(Line(least, kept[at], moved[at]))
    return min(found, key=lambda line: abs(line.difference)) if found else None


def merged(held: Rectangles) -> Rectangles:
    """Return rectangles of which those of one machine that form a rectangle together are one."""
    rects, workers = held.rects.tolist(), held.worker.tolist()
    again = True
    while again:
        again = False
        for one in range(len(rects)):
            for other in range(one + 1, len(rects)):
                joined = _joined(rects[one], rects[other]) if workers[one] == workers[other] else None
                if joined is not None:
                    rects[one] = joined
                    del rects[other], workers[other]
                    again = True
                    break
            if again:
                break
    return Rectangles(np.array(rects, np.int64).reshape(-1, 4), np.array(workers, np.int64))


def _joined(one: list[int], other: list[int]) -> list[int] | None:
    """Return the rectangle that two form; None where they form none."""
    for first, last, across in ((FIRST_COLUMN, LAST_COLUMN, 1), (FIRST_ROW, LAST_ROW, 0)):
        alike = one[across] == other[across] and one[across + 2] == other[across + 2]
        if alike and (one[last] + 1 == other[first] or other[last] + 1 == one[first]):
            west, south = min(one[0], other[0]), min(one[1], other[1])
            return [west, south, max(one[2], other[2]), max(one[3], other[3])]
    return None
