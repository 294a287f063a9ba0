"""SWARM (Daghistani, Aref, Ghafoor, Mahmood): rectangles of cells that machines give each other, round by round.

As written, the cost of a rectangle is N Q R / R(S): its faded points, its queries, what came to it in the last round.
R counts points and queries there, and rows alone here. The cost is not additive: the same load in four equal parts
costs a sixteenth each. ``cost="work"`` is what rows have really cost, which adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ceps.balance.baselines import stands
from ceps.balance.cell_layout import MOST_WORKERS, Floats, Ints, Layout, of_cells
from ceps.balance.rectangles import prefix_sums, sums_over
from ceps.balance.round_costs import Loads, work_of_workers
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.balance.swarm_moves import Rectangles, best_split, best_subset, halved, merged
from ceps.balance.swarm_statistics import FADING, Overlaps
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
    return of_cells(loads.shape, workers, halved(loads.shape, workers).owner(loads.shape))


def history_grid(loads: Loads, asked: SubscriptionLoad, workers: int, cost: Cost = "paper") -> Layout:
    """Return a grid that is fitted to a sample by SWARM's cost: the dearest rectangle is halved, again and again."""
    costs = RectangleCosts(loads, asked, loads.rows, cost)
    held = halved(loads.shape, 1)
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
        """Return the layout after a round; see :class:`ceps.balance.strategy.Strategy`.

        Throughput is the rows of the round over the work of the busiest machine, where the paper has R(S). Queries are
        counted among those that are asked now, since the paper's statistics never lose one. Cost O(subscriptions +
        cells), and O(log cells) for each rectangle that is split.
        """
        if layout is None or not stands(layout, loads, self.workers) or "rects" not in memory:
            held = halved(loads.shape, self.workers)
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
            held = merged(held)
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
