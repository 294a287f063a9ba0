"""Lower bounds on the cost of any plan, also the linear program over all sets of items that one server can hold.

Where partitions are few and large, the fleet bound is loose because items do not divide. This one knows what fits
together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.bounds.solver import SMALLEST, minimise
from ceps.model.packing import Effort
from ceps.model.patterns import hour_slices
from ceps.model.problem import TOLERANCE, Floats, Problem
from ceps.planners.fleet_first import fleet_first
from ceps.planners.fleets import (
    count_servers,
    fleet_cost,
    free_types,
    largest_free_types,
    least_fleet_cost,
    list_fleets,
    paid_part,
    to_pay_for,
)


def fleet_bound(problem: Problem, deadline: float | None = None) -> float:
    """Dollars a day that no plan can undercut: the cheapest fleet that covers the summed load at its peak.

    Its servers must together have the requests/s of the busiest slot, all bytes, and as many servers as there are
    copies of a partition; how partitions are cut plays no part. What fits a server that costs nothing counts for
    nothing. 0 without partitions. Looser where the search goes on past `deadline` (`time.monotonic`).
    """
    return 24 * least_fleet_cost(paid_part(problem), deadline)


def least_servers(problem: Problem, deadline: float | None = None) -> int | None:
    """Servers that no plan on free types undercuts; None where something fits none of them, so that there is a cost."""
    if not free_types(problem).any() or to_pay_for(problem).any():
        return None
    within = count_servers(problem, largest_free_types(problem))
    return int(np.ceil(least_fleet_cost(within, deadline) * (1 - TOLERANCE)))


def hourly_bound(problem: Problem, deadline: float | None = None) -> float:
    """Dollars a day that no plan can undercut whose fleet stays fixed within each clock hour.

    The mean over hours of the fleet bound of the hour's own peak. Moving data costs nothing here, so autoscaling
    is bounded by it as well; the static bound does not hold for it. What fits a server that costs nothing in an hour
    counts for nothing in it. Looser where the searches go on past `deadline` (`time.monotonic`).
    """
    if not len(problem):
        return 0.0
    costs: dict[tuple[float, float], float] = {}
    hourly = []
    for hour in hour_slices(len(problem.total) - 1, problem.slot_seconds):
        total, paid = np.append(problem.total[:-1][hour], problem.total[-1]), problem
        if free_types(problem).any():
            paid = paid_part(
                replace(problem, columns=np.append(problem.loads[:, hour], problem.columns[:, -1:], axis=1))
            )
            total = paid.total
        need = float(total[:-1].max()), float(total[-1])
        if need not in costs:
            # One item that stands for all: its own fleet is the bound of the hour.
            alone = replace(paid, columns=np.array([need]), pins=paid.pins[:1])
            costs[need] = 24 * least_fleet_cost(alone, deadline) if len(paid) else 0.0
        hourly.append(costs[need])
    return float(np.mean(hourly))


def next_fleet_cost(problem: Problem, least: float) -> float:
    """Dollars a day of the cheapest fleet that covers the need and costs at least `least` dollars a day.

    Rounds a bound up to what can be rented. `least` itself where the search for such a fleet is cut short.
    """
    floor = least / 24 * (1 - TOLERANCE)
    window = float(problem.prices.max(initial=0.0))
    found, complete = list_fleets(problem, floor, floor + window + 1e-9, limit=200_000)
    return max(least, 24 * fleet_cost(problem, found[0])) if found and complete else least


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
