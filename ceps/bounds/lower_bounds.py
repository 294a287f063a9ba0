"""Lower bounds on the cost of any plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ceps.fleet import fleet_cost, fleets_between, least_fleet_cost
from ceps.patterns import hour_slices
from ceps.problem import TOLERANCE, Problem


def fleet_bound(problem: Problem) -> float:
    """Dollars a day that no plan can undercut: the cheapest fleet that covers the summed load at its peak.

    Its servers must together have the requests/s of the busiest slot, all bytes, and as many servers as there are
    copies of a partition; how partitions are cut plays no part. 0 without partitions.
    """
    return 24 * least_fleet_cost(problem)


def hourly_bound(problem: Problem) -> float:
    """Dollars a day that no plan can undercut whose fleet stays fixed within each clock hour.

    The mean over hours of the fleet bound of the hour's own peak. Moving data costs nothing here, so autoscaling
    is bounded by it as well; the static bound does not hold for it.
    """
    if not len(problem):
        return 0.0
    total, costs = problem.total, {}
    hourly = []
    for part in hour_slices(len(total) - 1, problem.slot_seconds):
        peak = float(total[:-1][part].max())
        if peak not in costs:
            flat = np.array([[peak, total[-1]]])
            # One item that stands for all: its own fleet is the bound of the hour.
            alone = replace(problem, columns=flat, pins=problem.pins[:1])
            costs[peak] = 24 * least_fleet_cost(alone)
        hourly.append(costs[peak])
    return float(np.mean(hourly))


def next_fleet_cost(problem: Problem, least: float) -> float:
    """Dollars a day of the cheapest fleet that covers the need and costs at least `least` dollars a day.

    Rounds a bound up to what can be rented. `least` itself where the search for such a fleet is cut short.
    """
    floor = least / 24 * (1 - TOLERANCE)
    window = float(problem.prices.max(initial=0.0))
    found = fleets_between(problem, floor, floor + window + 1e-9, limit=200_000)
    return 24 * fleet_cost(problem, found[0]) if found else least
