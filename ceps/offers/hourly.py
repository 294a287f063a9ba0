"""Hourly types on fixed clusters: no partition moves, but each server is rented in the size that the hour needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ceps.bounds.lower_bounds import hourly_bound
from ceps.packing import Effort, Packing
from ceps.patterns import Patterns, as_patterns, hour_slices
from ceps.planning import assemble, with_risk
from ceps.plans import Plan
from ceps.problem import InfeasibleError, Ints, Outcome, Problem, build_problem
from ceps.servers import ServerType, checked_servers

_CANDIDATES = 6  # numbers of clusters that are packed, of those that promise most


@dataclass(frozen=True, eq=False)
class Schedule:
    """Types by hour for the clusters of an outcome.

    Parameters
    ----------
    labels
        int64 (M,), cluster of each item.
    types
        int64 (N, hours), type of each cluster's server in each clock hour of the period.
    cost_per_day
        Dollars a day; infinite where some hour fits no type.
    """

    labels: Ints
    types: Ints
    cost_per_day: float

    @property
    def resizes(self) -> int:
        """Changes of type in one period, the step from its end to its beginning included."""
        return int((self.types != np.roll(self.types, 1, axis=1)).sum())


def schedule(
    patterns: Patterns | ArrayLike,
    sizes: ArrayLike | None = None,
    servers: Sequence[ServerType] = (),
    seed: int | np.random.Generator = 0,
    utilisation: float = 0.9,
    *,
    growth: float = 1.0,
    copies: int = 1,
    time_limit: float | None = None,
) -> Plan:
    """Plan with `types_by_hour`: fixed clusters, each on the cheapest type that holds each clock hour's peak.

    Meant for data on network volumes, where a server changes its type by a restart and no byte moves. `type_of` is
    the dearest type of a server's day, `cost_per_day` the sum over hours, `lower_bound` `hourly_bound`; extras:
    `resizes` a day.

    Parameters
    ----------
    patterns, sizes, servers, seed, utilisation, growth, copies, time_limit
        As `ceps.plan`.

    Raises
    ------
    ValueError
        An argument is out of range.
    InfeasibleError
        Some partitions fit no server; `partitions` names them.
    """
    given = as_patterns(patterns, sizes)
    types = checked_servers(servers)
    problem = build_problem(given, types, utilisation, growth=growth, copies=copies)
    effort = Effort(deadline=None if time_limit is None else monotonic() + time_limit)
    found = best_schedule(problem, np.random.default_rng(seed), effort)
    if not np.isfinite(found.cost_per_day):
        raise InfeasibleError("no clusters fit in every hour; use larger types or more partitions")
    hours = found.types.shape[1]
    dearest = np.array([row[problem.prices[row].argmax()] for row in found.types], dtype=np.int64)
    extras = {"resizes": found.resizes * 24 / max(hours, 1)}
    made = assemble(
        given, problem, Outcome(found.labels, dearest, found.cost_per_day, extras), "hourly", deadline=effort.deadline
    )
    settings: dict[str, Any] = {"growth": growth, "seed": seed if isinstance(seed, int) else None}
    # Without a plan in force, servers keep the order of their clusters.
    bound = hourly_bound(problem, effort.deadline)
    return with_risk(replace(made, types_by_hour=found.types, lower_bound=bound, **settings))


def best_schedule(problem: Problem, rng: np.random.Generator, effort: Effort) -> Schedule:
    """Cheapest schedule found over different numbers of clusters whose loads all have the shape of the total.

    Such clusters shrink together, so that few hours are rented too large.
    """
    if not len(problem):
        hours = len(hour_slices(len(problem.total) - 1, problem.slot_seconds))
        return Schedule(np.empty(0, np.int64), np.empty((0, hours), np.int64), 0.0)
    least = max(problem.need[2], 1)
    most = min(len(problem), max(least, int(2 * np.ceil(problem.need[0] / problem.rates.min()))))
    promise = []
    for count in range(least, most + 1):
        promise.append((count * price_hours(problem, problem.total[None] / count)[1], count))
    found: list[Schedule] = []
    for _, count in sorted(promise)[:_CANDIDATES]:
        if found and effort.over:
            break
        labels = alike_clusters(problem, count, rng, effort)
        found.append(schedule_of(problem, labels))
    if not any(np.isfinite(item.cost_per_day) for item in found):
        found.append(schedule_of(problem, np.arange(len(problem))))  # each item by itself fits some type
    return min(found, key=lambda item: (item.cost_per_day, item.resizes))


def schedule_of(problem: Problem, labels: Ints) -> Schedule:
    """Cheapest schedule of given clusters, labels 0..N-1."""
    _, dense = np.unique(labels, return_inverse=True)
    types, cost = price_hours(problem, problem.cluster_columns(dense))
    return Schedule(dense.astype(np.int64), types, cost)


def price_hours(problem: Problem, columns: np.ndarray) -> tuple[Ints, float]:
    """Types (N, hours) for loads (N, T + 1), and dollars a day; infinite where nothing fits. O(N T)."""
    slices = hour_slices(columns.shape[1] - 1, problem.slot_seconds)
    types = np.empty((len(columns), len(slices)), dtype=np.int64)
    for hour, part in enumerate(slices):
        types[:, hour] = problem.cheapest_types(np.append(columns[:, :-1][:, part], columns[:, -1:], axis=1))
    if (types < 0).any():
        return types, float("inf")
    return types, float(24 * problem.prices[types].sum() / len(slices))


def alike_clusters(problem: Problem, count: int, rng: np.random.Generator, effort: Effort) -> Ints:
    """Labels (M,) of `count` clusters, each as near as can be to the same share of the total in every slot."""
    total = np.where(problem.total > 0, problem.total, 1.0)
    share = ServerType("share", 1.0 / count, 1.0 / count, 1.0)
    relative = replace(problem, columns=problem.columns / total, servers=(share,), utilisation=1.0)
    packing = Packing(relative, np.zeros(count, dtype=np.int64), np.full(len(problem), -1))
    packing.fill()
    packing.balance(rng, effort, target=1.0 + 1e-6)
    return packing.label
