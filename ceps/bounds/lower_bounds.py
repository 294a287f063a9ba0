"""Lower bounds on the cost of any plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ceps.model.patterns import hour_slices
from ceps.model.problem import TOLERANCE, Problem
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
