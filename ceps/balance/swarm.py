"""SWARM (Daghistani, Aref, Ghafoor, Mahmood): rectangles of cells that machines give each other, round by round.

As written, the cost of a rectangle is N Q R / R(S): its faded points, its queries, what came to it in the last round.
R counts points and queries there, and rows alone here. The cost is not additive: the same load in four equal parts
costs a sixteenth each. ``cost="work"`` is what rows have really cost, which adds up.

SWARM's statistics (Daghistani et al., 4.2): counts by cell, of which the numbers of any rectangle are sums.

The paper keeps five numbers for each row and each column of a rectangle instead. ``bench/watch/swarm_lines.py`` has
these.

What SWARM moves: a subset of a machine's rectangles, or one part of a rectangle that it splits (4.3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from ceps.balance.baselines import Decision, Memory, stands
from ceps.balance.cell_layout import (
    FIRST_COLUMN,
    FIRST_ROW,
    LAST_COLUMN,
    LAST_ROW,
    MOST_WORKERS,
    Floats,
    Ints,
    Layout,
    of_cells,
    prefix_sums,
    sums_over,
    sums_within,
)
from ceps.balance.round_costs import Loads, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import whole

Cost = Literal["paper", "work"]
FLIP, START, LAST = 0, 2, 4
"""Stages of the decision: to the left it is flipped, and in the middle it begins."""
NUMBER_BYTES = 8
CENTRAL_NUMBERS = 5
"""Of each cell, that a central histogram would have to be sent."""


class Stage(NamedTuple):
    """Where the decision of a coordinator stands (figure 9)."""

    at: int = START  # The stage, from :data:`FLIP` to :data:`LAST`
    rebalance: bool = False  # The decision that is applied
    times: int = 0  # How often it was applied in a row

    def after(self, better: bool, beta: int) -> Stage:
        """Return the stage of the next round: better throughput goes right, else left; the leftmost flips.

        Examples
        --------
        >>> Stage().after(False, 20).after(False, 20)
        Stage(at=2, rebalance=True, times=1)
        """
        at = min(self.at + 1, LAST) if better else self.at - 1
        if at <= FLIP or self.times >= beta:
            return Stage(START, not self.rebalance, 1)
        return Stage(at, self.rebalance, self.times + 1)


def uniform_grid(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return SWARM's first grid: the largest rectangle halved until each machine has one."""
    del asked
    return of_cells(loads.shape, workers, cut_in_halves(loads.shape, workers).owner(loads.shape))


def history_grid(loads: Loads, asked: SubscriptionLoad, workers: int, cost: Cost = "paper") -> Layout:
    """Return a grid that is fitted to a sample by SWARM's cost: the dearest rectangle is halved, again and again."""
    costs = RectangleCosts(loads, asked, loads.rows, cost)
    held = cut_in_halves(loads.shape, 1)
    while len(held.rects) < workers:
        price = costs(held.rects)
        for dearest in np.argsort(-price, kind="stable").tolist():
            line = best_split(held.rects[dearest], costs, float(price[dearest]), 0.0)
            if line is not None:
                break
        else:
            break
        rects = np.concatenate([held.rects, line.moved[None]])
        rects[dearest] = line.kept
        held = Rectangles(rects, np.arange(len(rects)))
    return of_cells(loads.shape, workers, held.owner(loads.shape))


def _check_cost(cost: str) -> None:
    if cost not in ("paper", "work"):
        raise ValueError(f"cost = {cost!r}; it must be 'paper' or 'work'")


@dataclass(frozen=True)
class Swarm:
    """Machines of the highest and the lowest cost exchange rectangles."""

    workers: int
    cost: Cost = "paper"  # "paper": N Q R / R(S). "work": the seconds of the rows
    decision: Literal["stages", "always"] = "stages"  # "stages": as figure 9. "always": each round rebalances
    moves: int = 1  # Exchanges in a round; the paper makes one
    beta: int = 20  # So often a decision is applied in a row before it is flipped
    merge_every: int = 16  # Rounds after which a machine joins rectangles that form one

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        whole("moves", self.moves, 1, 1 << 20)
        whole("beta", self.beta, 1, 1 << 20)
        whole("merge_every", self.merge_every, 1, 1 << 20)
        _check_cost(self.cost)
        if self.decision not in ("stages", "always"):
            raise ValueError(f"decision = {self.decision!r}; it must be 'stages' or 'always'")

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout after a round; see :class:`ceps.balance.baselines.Strategy`.

        Throughput is the rows of the round over the work of the busiest machine, where the paper has R(S). Queries are
        counted among those that are asked now, since the paper's statistics never lose one. Cost O(subscriptions +
        cells), and O(log cells) for each rectangle that is split.
        """
        if layout is None or not stands(layout, loads, self.workers) or "rects" not in memory:
            held = cut_in_halves(loads.shape, self.workers)
            return Decision(of_cells(loads.shape, self.workers, held.owner(loads.shape)), _kept(held, loads.rows))
        held = Rectangles(memory["rects"].copy(), memory["worker"].copy())
        points = memory["points"] / FADING + loads.rows
        number, at, rebalance, times = (int(one) for one in memory["state"])
        busiest = float(work_of_workers(layout, loads).max())
        throughput = float(loads.rows.sum()) / busiest if busiest > 0.0 else 0.0
        stage = Stage(at, bool(rebalance), times).after(throughput > float(memory["throughput"][0]), self.beta)
        messages = 2 * NUMBER_BYTES * self.workers
        changed = 0
        if number and number % self.merge_every == 0:
            held = merge_rectangles(held)
        if self.decision == "always" or stage.rebalance:
            costs = RectangleCosts(loads, asked, points, self.cost)
            for _ in range(self.moves):
                more = exchange(held, costs, self.workers)
                if more == 0:
                    break
                changed += more
                messages += 3 * NUMBER_BYTES
        messages += changed * 6 * NUMBER_BYTES * self.workers
        after = of_cells(loads.shape, self.workers, held.owner(loads.shape)) if changed else layout
        return Decision(after, _kept(held, points, number + 1, stage, throughput), messages)


def _kept(held: Rectangles, points: Floats, number: int = 0, stage: Stage | None = None, rate: float = 0.0) -> Memory:
    stage = stage or Stage()
    state = np.array([number, stage.at, stage.rebalance, stage.times], np.int64)
    throughput = np.array([rate])
    return {"rects": held.rects, "worker": held.worker, "points": points, "state": state, "throughput": throughput}


class RectangleCosts:
    """What rectangles cost in a round: called with rectangles (n, 4), it returns float64 (n,).

    ``points``: float64 (cells,), faded.
    """

    def __init__(self, loads: Loads, asked: SubscriptionLoad, points: Floats, cost: str) -> None:
        self._additive = cost == "work"
        self._work = prefix_sums(loads.shape, loads.work)
        if not self._additive:
            self._points, self._rows = prefix_sums(loads.shape, points), prefix_sums(loads.shape, loads.rows)
            self._total = max(float(loads.rows.sum()), 1.0)
            self._overlaps = Overlaps(asked)

    def __call__(self, rects: Ints) -> Floats:
        """Return the cost of each rectangle. O(n)."""
        if self._additive:
            return sums_over(self._work, rects)
        arrivals = sums_over(self._rows, rects) / self._total
        return sums_over(self._points, rects) * self._overlaps.of(rects) * arrivals


def exchange(held: Rectangles, costs: RectangleCosts, workers: int) -> int:
    """Let the machine of the highest cost that can give something to that of the lowest (figure 10).

    Returns how many rectangles have changed, 0 where no machine can; ``held`` is changed.
    """
    cost = costs(held.rects)
    total = np.bincount(held.worker, cost, workers)
    lowest = int(total.argmin())
    for highest in np.argsort(-total, kind="stable").tolist():
        if highest == lowest or total[highest] <= total[lowest]:
            break
        mine = held.of(highest)
        chosen = mine[best_subset(cost[mine], float(total[highest] - total[lowest]) / 2)]
        if len(chosen):
            held.worker[chosen] = lowest
            return len(chosen)
        for one in mine[np.argsort(-cost[mine], kind="stable")].tolist():
            line = best_split(held.rects[one], costs, float(total[highest]), float(total[lowest]))
            if line is None:
                continue
            if abs(line.difference) >= total[highest] - total[lowest]:
                break  # no line of the dearest that can be split makes it better
            held.rects[one] = line.kept
            held.rects = np.concatenate([held.rects, line.moved[None]])
            held.worker = np.append(held.worker, lowest)
            return 2
    return 0


FADING = 2.0
"""By which points of earlier rounds are divided at the end of a round."""


@dataclass(frozen=True, eq=False)
class Overlaps:
    """How many subscriptions overlap any rectangle of cells: faces less edges plus corners of an Euler histogram."""

    asked: SubscriptionLoad

    @cached_property
    def _sums(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Prefix sums of faces, of edges between columns, of edges between rows, and of corners."""
        west, south, east, north = self.asked.rects.T
        return (
            self._table(south, north, west, east),
            self._table(south, north, west + 1, east),
            self._table(south + 1, north, west, east),
            self._table(south + 1, north, west + 1, east),
        )

    def _table(self, south: Ints, north: Ints, west: Ints, east: Ints) -> Ints:
        rows, columns = self.asked.shape
        edges = np.zeros((rows + 2) * (columns + 2), np.int64)
        some = (south <= north) & (west <= east)
        for row, below in ((south, 1), (north + 1, -1)):
            for column, left in ((west, 1), (east + 1, -1)):
                at = (row * (columns + 2) + column)[some]
                edges += below * left * np.bincount(at, minlength=edges.size)
        held = edges.reshape(rows + 2, columns + 2).cumsum(axis=0).cumsum(axis=1)[:rows, :columns]
        sums = np.zeros((rows + 1, columns + 1), np.int64)
        sums[1:, 1:] = held.cumsum(axis=0).cumsum(axis=1)
        return sums

    def of(self, rects: Ints) -> Ints:
        """Return how many rectangles of subscriptions overlap each of some rectangles of cells, int64 (n,). O(n).

        ``rects``: int64 (n, 4). First column, first row, last column, last row.
        """
        west, south = rects[:, FIRST_COLUMN], rects[:, FIRST_ROW]
        east, north = rects[:, LAST_COLUMN], rects[:, LAST_ROW]
        faces, between_columns, between_rows, corners = self._sums
        found: Ints = (
            sums_within(faces, south, north, west, east)
            - sums_within(between_columns, south, north, west + 1, east)
            - sums_within(between_rows, south + 1, north, west, east)
            + sums_within(corners, south + 1, north, west + 1, east)
        )
        return found


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


def cut_in_halves(shape: tuple[int, int], count: int) -> Rectangles:
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


def merge_rectangles(held: Rectangles) -> Rectangles:
    """Return rectangles of which those of one machine that form a rectangle together are one."""
    rects, workers = held.rects.tolist(), held.worker.tolist()
    again = True
    while again:
        again = False
        for one in range(len(rects)):
            for other in range(one + 1, len(rects)):
                joined = _join(rects[one], rects[other]) if workers[one] == workers[other] else None
                if joined is not None:
                    rects[one] = joined
                    del rects[other], workers[other]
                    again = True
                    break
            if again:
                break
    return Rectangles(np.array(rects, np.int64).reshape(-1, 4), np.array(workers, np.int64))


def _join(one: list[int], other: list[int]) -> list[int] | None:
    """Return the rectangle that two form; None where they form none."""
    for first, last, across in ((FIRST_COLUMN, LAST_COLUMN, 1), (FIRST_ROW, LAST_ROW, 0)):
        alike = one[across] == other[across] and one[across + 2] == other[across + 2]
        if alike and (one[last] + 1 == other[first] or other[last] + 1 == one[first]):
            west, south = min(one[0], other[0]), min(one[1], other[1])
            return [west, south, max(one[2], other[2]), max(one[3], other[3])]
    return None
