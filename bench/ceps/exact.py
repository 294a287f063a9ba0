"""The exact optimum of small problems, by integer programming, kept to compare plans with: no planner asks it."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.bounds.lower_bounds import fleet_bound
from ceps.bounds.solver import SMALLEST, minimise
from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Floats, Outcome, Problem, price
from ceps.planners.fleet_first import fleet_first

_SAME = 1e-7  # relative difference of costs below which they are the same: the solver's own accuracy


@dataclass(frozen=True, eq=False)
class Exact:
    """Result of `exact_plan`."""

    outcome: Outcome  # The best placement found; it fits in every slot of the original matrix
    lower_bound: float  # Dollars a day that no placement undercuts
    proven: bool  # Whether the two are the same


def exact_plan(problem: Problem, seed: int | np.random.Generator = 0, time_limit: float = 60.0) -> Exact:
    """Cheapest placement of at most some 40 items, and the proof.

    Starts from the fleet-first plan; where that is above the fleet bound, asks an assignment program for a cheaper
    one. Slots enter the program only when a placement overloads them: every placement is judged on all slots, and
    what the program says with fewer of them is a bound. Exponential at worst.

    ``seed``: of the first plan; ``time_limit``: seconds; when they are over, `proven` is False.
    """
    best = fleet_first(problem, np.random.default_rng(seed), Effort())
    bound = fleet_bound(problem)
    deadline = monotonic() + time_limit
    columns = _first_columns(problem)
    while best.cost_per_day > bound * (1 + TOLERANCE) and monotonic() < deadline:
        found = _cheaper(problem, columns, bound, best.cost_per_day, deadline - monotonic())
        bound = max(bound, min(found.least, best.cost_per_day))
        if found.labels is None or found.types is None:
            break
        outcome = price(problem, found.labels)
        broken = _overloaded(problem, found.labels, found.types)
        if outcome.cost_per_day < best.cost_per_day * (1 - TOLERANCE) and not problem.conflicts(found.labels):
            best = outcome
        elif not broken - set(columns):
            break
        columns += sorted(broken - set(columns))
    proven = best.cost_per_day <= bound * (1 + _SAME)
    return Exact(best, best.cost_per_day if proven else bound, proven)


@dataclass(frozen=True, eq=False)
class _Found:
    labels: NDArray[np.int64] | None  # (M,)
    types: NDArray[np.int64] | None  # of the servers that the program rented
    least: float  # dollars a day


def _first_columns(problem: Problem) -> list[int]:
    slots = len(problem.total) - 1
    chosen = {int(problem.total[:-1].argmax()), slots, *np.linspace(0, slots - 1, 12).astype(int).tolist()}
    return sorted(chosen)


def _overloaded(problem: Problem, labels: NDArray[np.int64], types: NDArray[np.int64]) -> set[int]:
    """Column in which each server of `types` is most overloaded."""
    loads = problem.cluster_columns(labels)
    share = np.append(
        loads[:, :-1] / problem.rates[types][: len(loads), None],
        loads[:, -1:] / problem.room[types][: len(loads), None],
        axis=1,
    )
    return {int(row.argmax()) for row in share if row.max() > 1 + TOLERANCE}


def _cheaper(problem: Problem, columns: list[int], bound: float, below: float, seconds: float) -> _Found:
    """Placement cheaper than `below` dollars a day, judged on `columns` only, and what none undercuts.

    Variables: x[i, k] puts item i on server k, y[k, j] rents server k as type j.
    """
    count, kinds = len(problem), len(problem.servers)
    lowest = max(float(problem.prices.min()), below / 24 / count)
    servers = min(count, int(below / 24 / lowest + 1e-9))
    x = np.arange(count * servers).reshape(count, servers)
    y = count * servers + np.arange(servers * kinds).reshape(servers, kinds)
    capacity, demand = _scaled(problem, columns)
    prices = problem.prices / max(float(problem.prices.max()), 1e-300)
    rows = [(x[i], np.ones(servers), 1.0, 1.0) for i in range(count)]
    for k in range(servers):
        rows.append((y[k], np.ones(kinds), 0.0, 1.0))
        for c in range(len(columns)):
            parts = np.concatenate([demand[:, c], -capacity[:, c]])
            rows.append((np.append(x[:, k], y[k]), parts, -np.inf, 0.0))
        if k:  # servers are alike: the dearer come first
            rows.append((np.append(y[k - 1], y[k]), np.append(prices, -prices), 0.0, np.inf))
    dollars = np.tile(problem.prices, servers)
    rows.append((y.ravel(), dollars, bound / 24 * (1 - 1e-9), below / 24 * (1 - 1e-7)))
    for c in range(len(columns)):
        rows.append((y.ravel(), np.tile(capacity[:, c], servers), demand[:, c].sum() * (1 - 1e-9), np.inf))
    item = np.repeat(np.arange(count), np.diff(problem.group_start))
    for group in np.unique(problem.group_of):
        members = item[problem.group_of == group]
        rows += [(x[members, k], np.ones(len(members)), 0.0, 1.0) for k in range(servers)]
    cost = np.zeros(x.size + y.size)
    cost[y.ravel()] = dollars
    answer = minimise(cost, _sparse(rows, len(cost)), [r[2] for r in rows], [r[3] for r in rows], seconds=seconds)
    if answer.x is None:
        return _Found(None, None, below if answer.finished else 24 * max(answer.bound, bound / 24))
    rented = answer.x[y].round().astype(int)
    types = np.where(rented.any(axis=1), rented.argmax(axis=1), 0)
    return _Found(answer.x[x].argmax(axis=1).astype(np.int64), types, 24 * answer.bound * (1 - 1e-9))


def _sparse(rows: list[tuple[NDArray, NDArray, float, float]], width: int) -> object:
    from scipy.sparse import csr_array

    owner = np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows])
    weights, index = (np.concatenate([row[part] for row in rows]) for part in (1, 0))
    return csr_array((weights, (owner, index)), shape=(len(rows), width))


def _scaled(problem: Problem, columns: list[int]) -> tuple[Floats, Floats]:
    """Capacities (J, c) and demands (M, c) of the chosen columns, in units of the largest capacity."""
    slots = len(problem.total) - 1
    capacity = np.where(np.array(columns) == slots, problem.room[:, None], problem.rates[:, None])
    finite = np.isfinite(capacity)
    unit = np.where(finite, capacity, 0.0).max(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    demand = problem.columns[:, columns] / unit
    demand = np.where(demand >= SMALLEST, demand, 0.0)
    return np.where(finite, capacity / unit, demand.sum(axis=0) + 1.0), demand
