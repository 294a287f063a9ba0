"""Hourly types on fixed clusters: no partition moves, but each server is rented in the size that the hour needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike

from ceps.bounds.lower_bounds import hourly_bound
from ceps.model.packing import Effort, Packing
from ceps.model.patterns import Patterns, as_patterns, hour_slices
from ceps.model.problem import TOLERANCE, InfeasibleError, Ints, Outcome, Problem, build_problem
from ceps.model.servers import ServerType, checked_servers
from ceps.offers.payment import AT_ONCE, Schedule, Terms, price_hours, schedule_of
from ceps.plan.planning import assemble, require_like, with_enough_servers, with_risk
from ceps.plan.plans import Plan
from ceps.planners.fewer_calls import fewer_calls_by_hour
from ceps.planners.fleet_first import fleet_first

_CANDIDATES = 6  # numbers of clusters that are packed, of those that promise most


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
    terms: Terms | None = None,
    at_least: int = 0,
    previous: Plan | None = None,
) -> Plan:
    """Plan with `types_by_hour`: fixed clusters, each on the cheapest type that holds each clock hour's peak.

    Meant for data on network volumes, where a server changes its type by a restart and loads its partitions again.
    Until it has, the one before is rented on: `terms` says for how long. `type_of` is the dearest type of a server's
    day, `cost_per_day` the sum over hours, `lower_bound` `hourly_bound`; extras: `resizes` and `bytes_loaded` a day.

    Parameters
    ----------
    patterns, sizes, servers, seed, utilisation, growth, copies, time_limit
        As `ceps.plan`.
    terms
        What a change takes; `Terms()` if not given.
    at_least
        As `ceps.plan`.
    previous
        The plan in force: servers keep their numbers so that the fewest bytes move.

    Raises
    ------
    ValueError
        An argument is out of range.
    InfeasibleError
        Some partitions fit no server; `partitions` names them.
    """
    given = as_patterns(patterns, sizes)
    types = checked_servers(servers)
    problem = build_problem(given, types, utilisation, growth=growth, copies=copies, at_least=at_least)
    require_like(previous, given, problem.copies)
    effort = Effort(deadline=None if time_limit is None else monotonic() + time_limit)
    rng = np.random.default_rng(seed)
    found = best_schedule(problem, rng, effort, terms or Terms())
    if not np.isfinite(found.cost_per_day):
        raise InfeasibleError("no clusters fit in every hour; use larger types or more partitions")
    enough = with_enough_servers(problem, Outcome(found.labels, found.types[:, 0], found.cost_per_day))
    if enough.labels is not found.labels:
        found = schedule_of(problem, enough.labels, terms or Terms())
    if given.reads is not None:
        labels = fewer_calls_by_hour(problem, found.labels, found.types, given.reads, rng, effort)
        nearer = schedule_of(problem, labels, terms or Terms())
        found = nearer if nearer.cost_per_day <= found.cost_per_day * (1 + TOLERANCE) else found
    return plan_of(given, problem, found, "hourly", hourly_bound(problem, effort.deadline), seed, previous)


def plan_of(
    patterns: Patterns,
    problem: Problem,
    found: Schedule,
    name: str,
    bound: float,
    seed: int | np.random.Generator,
    previous: Plan | None = None,
    rented: Sequence[str] = (),
) -> Plan:
    """Plan of a schedule: `method` is `name`, and `bound` dollars a day are what no plan of the kind undercuts."""
    outcome = Outcome(found.labels, dearest_types(problem, found.types), found.cost_per_day, extras_of(problem, found))
    made = assemble(
        patterns, problem, outcome, name, previous, types_by_hour=found.types, rented=rented, paid=found.costs_per_day
    )
    kept = seed if isinstance(seed, int) else None
    return with_risk(replace(made, lower_bound=bound, growth=problem.growth, seed=kept))


def dearest_types(problem: Problem, types: Ints) -> Ints:
    """int64 (N,), the dearest type of each server's hours (N, hours)."""
    return np.array([row[problem.prices[row].argmax()] for row in types], dtype=np.int64)


def extras_of(problem: Problem, found: Schedule) -> dict[str, float]:
    """Return how often servers change their types a day, and the bytes that they load for it."""
    days = max(found.types.shape[1] / 24, 1 / 24)
    changes = (found.types != np.roll(found.types, 1, axis=1)).sum(axis=1)
    held = problem.cluster_columns(found.labels)[:, -1]
    return {"resizes": float(changes.sum() / days), "bytes_loaded": float(changes @ held / days)}


def best_schedule(problem: Problem, rng: np.random.Generator, effort: Effort, terms: Terms = AT_ONCE) -> Schedule:
    """Cheapest schedule found over different numbers of clusters whose loads all have the shape of the total.

    Such clusters shrink together, so that few hours are rented too large.
    """
    if not len(problem):
        hours = len(hour_slices(len(problem.total) - 1, problem.slot_seconds))
        return Schedule(np.empty(0, np.int64), np.empty((0, hours), np.int64), np.empty(0))
    least = max(problem.need[2], 1)
    most = min(len(problem), max(least, int(2 * np.ceil(problem.need[0] / problem.rates.min()))))
    promise = []
    for count in range(least, most + 1):
        promise.append((count * float(price_hours(problem, problem.total[None] / count)[1].sum()), count))
    found: list[Schedule] = []
    for _, count in sorted(promise)[:_CANDIDATES]:
        if found and effort.over:
            break
        labels = alike_clusters(problem, count, rng, effort)
        found.append(schedule_of(problem, labels, terms))
    found += [schedule_of(problem, fleet_first(problem, rng, effort).labels, terms)]  # never dearer than a fixed fleet
    return min(found, key=lambda item: (item.cost_per_day, item.resizes))


def alike_clusters(problem: Problem, count: int, rng: np.random.Generator, effort: Effort) -> Ints:
    """Labels (M,) of `count` clusters, each as near as can be to the same share of the total in every slot."""
    total = np.where(problem.total > 0, problem.total, 1.0)
    share = ServerType("share", 1.0 / count, 1.0 / count, 1.0)
    relative = replace(problem, columns=problem.columns / total, servers=(share,), utilisation=1.0)
    packing = Packing(relative, np.zeros(count, dtype=np.int64), np.full(len(problem), -1))
    packing.fill()
    packing.balance(rng, effort, target=1.0 + 1e-6)
    return packing.label
