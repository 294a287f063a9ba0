"""Figures 4.5 to 4.8 of the dissertation: what servers cost a day, by workload and by method (u = 1.0, four m3 types).

Workloads are those of 4.4.1.1 (`bench/ceps/instances.py`), at loads of 10.3 to 20.6 m3.medium. GP-AAS splits onto the
cheapest server that stores the data, the chapter's words. CEPS- and CEPS+ are algorithms 4.1 and 4.2 with the best of
four caps. *fleet* is what `dtoss plan` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from bench.ceps.instances import UNITS, WORKLOADS, catalogue, patterns, solve
from bench.experiments.results import Results, Row, grid, point
from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.patterns import Patterns
from ceps.model.problem import Problem, build_problem

SIZES = {
    "smoke": (30, ("gow", "cos hs100"), UNITS[:1]),
    "here": (500, WORKLOADS, UNITS[1:3]),
    "full": (500, WORKLOADS, UNITS),
}
FILL = 0.8
"""Of all storage, where GP-AAS has to look at it."""
BOUND, OURS = "lower bound", "fleet"
PLANS = {"GP": "gp", "GP-R": "gp-r", "CEPS-": "tv", "CEPS+": "tabu", OURS: "fleet"}


def costs(given: Patterns, units: float) -> dict[str, float]:
    """Return dollars a day of each method, and the bound that no fixed plan can beat."""
    problem = build_problem(given, catalogue(), 1.0)
    full = build_problem(given, catalogue(given.sizes.sum() / np.ceil(units) / FILL), 1.0)
    found = {BOUND: fleet_bound(problem)}
    for title, method in PLANS.items():
        found[title] = plan_cost(method, problem)
    found["GP-AAS"] = solve("gp-aas", problem, new_server="stores").cost_per_day
    found[f"GP-AAS, storage {FILL:.0%} full"] = solve("gp-aas", full, new_server="stores").cost_per_day
    return found


def plan_cost(method: str, problem: Problem) -> float:
    """Return dollars a day of a plan that holds: no server is overloaded, and it is no cheaper than the bound."""
    outcome = solve(method, problem)
    assert outcome.cost_per_day >= fleet_bound(problem) * (1 - 1e-9), method
    loads = problem.cluster_columns(outcome.labels)[:, :-1].max(axis=1)
    assert (loads <= problem.rates[outcome.type_of] * (1 + 1e-9)).all(), method
    return outcome.cost_per_day


def rows_of(cases: Iterable[tuple[str, Patterns, float]]) -> Iterator[Row]:
    """Yield dollars a day of each case by method."""
    for x, given, units in cases:
        for title, cost in costs(given, units).items():
            yield point(title, x, cost, "dollars a day", data="workloads as 4.4.1.1 makes them")


def run(size: str) -> Iterator[Row]:
    """Yield dollars a day, x is workload and load."""
    partitions, names, loads = SIZES[size]
    return rows_of(
        (f"{name}, {units:g}", patterns(name, partitions, units, seed), units)
        for name in names
        for seed, units in enumerate(loads)
    )


def draw(results: Results, corner: str = "workload") -> str:
    """Return the cost over the bound, mean of the loads."""
    bound = results.of(BOUND)
    found: dict[tuple[str, str], list[float]] = {}
    for row in results.rows:
        if row.series != BOUND:
            found.setdefault((row.series, row.x.rpartition(", ")[0]), []).append(row.y / bound[row.x])
    rows = tuple(point(series, x, y, "cost over the bound") for (series, x), y in found.items())
    return grid(Results(results.experiment, rows), "cost over the bound", corner)
