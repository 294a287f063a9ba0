"""The exact optimum of small problems, by mixed-integer programming (HiGHS)."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.bounds import fleet_bound
from ceps.packing import Effort
from ceps.planners.fleet_first import fleet_first
from ceps.problem import TOLERANCE, Floats, Outcome, Problem, price

SMALLEST = 1e-6
"""Coefficients below this share of a capacity are dropped: HiGHS returned wrong optima with them."""


@dataclass(frozen=True, eq=False)
class Exact:
    """Result of `exact_plan`.

    Parameters
    ----------
    outcome
        The best placement found; it fits in every slot of the original matrix.
    lower_bound
        Dollars a day that no placement undercuts.
    proven
        Whether the two are the same.
    """

    outcome: Outcome
    lower_bound: float
    proven: bool


def exact_plan(problem: Problem, seed: int | np.random.Generator = 0, time_limit: float = 60.0) -> Exact:
    """The cheapest placement of at most some 40 items, and the proof.

    Starts from the fleet-first plan; where that is above the fleet bound, asks an assignment program for a cheaper
    one. Slots are added to the program only when a placement overloads them, so every placement is judged on all
    slots, and what the program says with fewer of them is a bound. Exponential at worst.

    Parameters
    ----------
    problem
        The items and types.
    seed
        Of the first plan.
    time_limit
        Seconds; when they are over, `proven` is False.
    """
    best = fleet_first(problem, np.random.default_rng(seed), Effort())
    bound = fleet_bound(problem)
    deadline = monotonic() + time_limit
    model = _Model(problem, best.cost_per_day, bound)
    while best.cost_per_day > bound * (1 + TOLERANCE) and monotonic() < deadline:
        answer = model.solve(deadline - monotonic())
        if answer is None:  # nothing cheaper exists
            bound = best.cost_per_day
            break
        labels, least, finished = answer
        bound = max(bound, min(least, best.cost_per_day))
        if labels is None:
            break
        found = price(problem, labels)
        if found.cost_per_day < best.cost_per_day * (1 - TOLERANCE) and not problem.conflicts(labels):
            best = found
            model.below = best.cost_per_day
        elif not model.add_overloaded(labels) or not finished:
            break
    proven = best.cost_per_day <= bound * (1 + TOLERANCE)
    return Exact(best, best.cost_per_day if proven else bound, proven)


class _Model:
    """Assignment program: x[i, k] puts item i on server k, y[k, j] rents server k as type j."""

    def __init__(self, problem: Problem, below: float, bound: float) -> None:
        self.problem = problem
        self.below = below
        self.bound = bound
        self.servers = int(min(len(problem), below / 24 / max(problem.prices.min(), below / 24 / len(problem))))
        total = problem.total[:-1]
        self.columns = [int(total.argmax()), len(total)]  # peak slot and bytes
        for slot in np.linspace(0, len(total) - 1, 12).astype(int):
            self._add(int(slot))

    def _add(self, column: int) -> None:
        if column not in self.columns:
            self.columns.append(column)

    def add_overloaded(self, labels: NDArray[np.int64]) -> bool:
        """Add the slots that overload a placement on the types the program chose; whether there was a new one."""
        before = len(self.columns)
        loads = self.problem.cluster_columns(labels)
        limits = np.append(
            np.repeat(self.problem.rates[self.types][:, None], loads.shape[1] - 1, axis=1),
            self.problem.room[self.types][:, None],
            axis=1,
        )
        excess = loads[: len(self.types)] / limits[: len(loads)]
        for server in range(len(excess)):
            if excess[server].max() > 1 + TOLERANCE:
                self._add(int(excess[server].argmax()))
        return len(self.columns) > before

    def solve(self, seconds: float) -> tuple[NDArray[np.int64] | None, float, bool] | None:
        """(labels or None, bound, finished); None when no placement is cheaper than `below`."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        problem, count, servers, kinds = self.problem, len(self.problem), self.servers, len(self.problem.servers)
        variables = count * servers + servers * kinds
        x = np.arange(count * servers).reshape(count, servers)
        y = count * servers + np.arange(servers * kinds).reshape(servers, kinds)
        rows: list[tuple[NDArray, NDArray, float, float]] = []
        for i in range(count):
            rows.append((x[i], np.ones(servers), 1, 1))
        capacity, demand = self._scaled()
        for k in range(servers):
            rows.append((y[k], np.ones(kinds), 0, 1))
            for c in range(len(self.columns)):
                weight = np.concatenate([demand[:, c], -capacity[:, c]])
                rows.append((np.concatenate([x[:, k], y[k]]), weight, -np.inf, 0))
            if k:
                # Servers are alike: let the dearer come first.
                both = np.concatenate([y[k - 1], y[k]])
                rows.append((both, np.concatenate([problem.prices, -problem.prices]) / problem.prices.max(), 0, np.inf))
        every = y.ravel()
        dollars = np.tile(problem.prices, servers)
        rows.append((every, dollars, self.bound / 24 * (1 - 1e-9), self.below / 24 - 1e-6))
        for c in range(len(self.columns)):
            rows.append((every, np.tile(capacity[:, c], servers), float(demand[:, c].sum()) * (1 - 1e-9), np.inf))
        rows += self._exclusions(x)
        index = np.concatenate([row[0] for row in rows])
        weights = np.concatenate([row[1] for row in rows])
        owner = np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows])
        keep = np.abs(weights) >= SMALLEST
        matrix = csr_array((weights[keep], (owner[keep], index[keep])), shape=(len(rows), variables))
        limits = LinearConstraint(matrix, [row[2] for row in rows], [row[3] for row in rows])
        cost = np.zeros(variables)
        cost[every] = dollars
        found = milp(
            cost,
            constraints=limits,
            integrality=np.ones(variables),
            bounds=Bounds(0, 1),
            options={"time_limit": max(seconds, 0.1), "mip_rel_gap": 0.0},
        )
        if found.status == 2:
            return None
        least = 24 * float(found.mip_dual_bound) if found.mip_dual_bound is not None else self.bound
        if found.x is None:
            return None, least, False
        rented = found.x[y].round().astype(int)
        self.types = np.where(rented.any(axis=1), rented.argmax(axis=1), 0)
        return found.x[x].argmax(axis=1).astype(np.int64), least * (1 - 1e-9), found.status == 0

    def _scaled(self) -> tuple[Floats, Floats]:
        """Capacities (J, c) and demands (M, c) of the chosen columns, in units of the largest capacity."""
        problem = self.problem
        slots = len(problem.total) - 1
        is_room = np.array(self.columns) == slots
        capacity = np.where(is_room, problem.room[:, None], problem.rates[:, None])
        largest = np.where(np.isfinite(capacity), capacity, 0).max(axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        demand = problem.columns[:, self.columns] / unit
        scaled = np.where(np.isfinite(capacity), capacity / unit, demand.sum(axis=0) + 1)
        return scaled, np.where(demand >= SMALLEST, demand, 0.0)

    def _exclusions(self, x: NDArray[np.int64]) -> list[tuple[NDArray, NDArray, float, float]]:
        problem = self.problem
        item = np.repeat(np.arange(len(problem)), np.diff(problem.group_start))
        rows: list[tuple[NDArray, NDArray, float, float]] = []
        for group in np.unique(problem.group_of):
            members = item[problem.group_of == group]
            rows += [(x[members, k], np.ones(len(members)), 0.0, 1.0) for k in range(self.servers)]
        return rows
