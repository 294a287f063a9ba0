"""Configuration bound: the linear program over all sets of items that one server can hold, by column generation.

Where partitions are few and large, the fleet bound is loose because items do not divide. This one knows what fits
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.bounds.lower_bounds import fleet_bound, next_fleet_cost
from ceps.bounds.solver import SMALLEST, minimise
from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Floats, Problem
from ceps.planners.fleet_first import fleet_first

_CLOSE = 1e-6  # relative gap at which column generation ends
_SLOTS = 36  # slots that configurations are judged on: fewer leave a lower bound valid, but lower
_PRICING = 5.0  # seconds for one search for a configuration


@dataclass(frozen=True)
class ConfigurationBound:
    """Result of `configuration_bound`, dollars a day."""

    # What no plan undercuts: the larger of the fleet bound and `relaxed`, rounded up to what can be rented
    bound: float
    relaxed: float  # The linear program's own bound (Farley's while columns are still missing)
    finished: bool  # Whether column generation came to its end within the time limit


def configuration_bound(
    problem: Problem, seed: int | np.random.Generator = 0, time_limit: float = 60.0
) -> ConfigurationBound:
    """Lower bound that accounts for how items fill servers; for some 100 items at most.

    The master program rents configurations (a type and a set of items that it holds) so that each item is covered.
    A mixed-integer program for each type looks for the configuration worth most at the master's prices; it judges
    it on some slots only, so it never asks too much. While it finds some, the master's value divided by the best
    worth per dollar is a bound (Farley).
    """
    least = fleet_bound(problem)
    if not len(problem) or not (problem.prices > 0).all():
        return ConfigurationBound(least, least, True)
    first = fleet_first(problem, np.random.default_rng(seed), Effort())
    sets = [np.flatnonzero(first.labels == k) for k in range(len(first.type_of))]
    costs = [float(problem.prices[kind]) for kind in first.type_of]
    alone = problem.cheapest_types(problem.columns)
    sets += [np.array([item]) for item in range(len(problem))]
    costs += [float(problem.prices[kind]) for kind in alone]
    slots = len(problem.total) - 1
    columns = np.unique([*np.linspace(0, slots - 1, min(slots, _SLOTS)), problem.total[:-1].argmax(), slots]).astype(
        int
    )
    deadline, relaxed = monotonic() + time_limit, 0.0
    finished = False
    while not finished and monotonic() < deadline:
        value, worth = _master(len(problem), sets, costs)
        best_ratio = 1.0
        added = False
        for kind in range(len(problem.servers)):
            chosen, most = _price(problem, kind, worth, columns, min(_PRICING, deadline - monotonic()))
            best_ratio = max(best_ratio, most / problem.prices[kind])
            if chosen is not None and worth[chosen].sum() > problem.prices[kind] * (1 + _CLOSE):
                sets.append(chosen)
                costs.append(float(problem.prices[kind]))
                added = True
        relaxed = max(relaxed, value / best_ratio)
        finished = not added or best_ratio <= 1 + 1e-4
    relaxed = 24 * relaxed * (1 - _CLOSE)
    rounded = next_fleet_cost(problem, max(relaxed, least)) if relaxed > least * (1 + TOLERANCE) else least
    return ConfigurationBound(max(rounded, least), relaxed, finished)


def _master(count: int, sets: list[NDArray], costs: list[float]) -> tuple[float, Floats]:
    """Value of the restricted master, dollars an hour, and what covering each item is worth in it."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    rows = np.concatenate(sets)
    owner = np.repeat(np.arange(len(sets)), [len(members) for members in sets])
    covers = csc_array((np.ones(len(rows)), (rows, owner)), shape=(count, len(sets)))
    found = linprog(costs, A_ub=-covers, b_ub=-np.ones(count), bounds=(0, None), method="highs")
    return float(found.fun), np.maximum(-found.ineqlin.marginals, 0.0)


def _price(
    problem: Problem, kind: int, worth: Floats, columns: NDArray[np.int64], seconds: float
) -> tuple[NDArray[np.int64] | None, float]:
    """Items worth much that one server of type `kind` holds in `columns`, and a bound on the worth of any such set."""
    limits = np.append(np.full(len(problem.total) - 1, problem.rates[kind]), problem.room[kind])
    share = problem.columns / limits
    single = (share.max(axis=1) <= 1 + TOLERANCE) & (worth > 0)
    rows = np.where(share[:, columns] >= SMALLEST, share[:, columns], 0.0).T
    item = np.repeat(np.arange(len(problem)), np.diff(problem.group_start))
    apart = [np.isin(np.arange(len(problem)), item[problem.group_of == g]) for g in np.unique(problem.group_of)]
    matrix = np.vstack([rows, *apart])
    answer = minimise(-worth, matrix, -np.inf, 1.0, upper=single.astype(float), seconds=seconds, gap=1e-4)
    most = min(float(worth.sum()), -answer.bound * (1 + 1e-9))
    return (None if answer.x is None else np.flatnonzero(answer.x > 0.5)), most
