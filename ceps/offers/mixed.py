"""Mixed fleets: a base that is paid for all hours at a lower price, and the rest resized hourly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.bounds.solver import minimise
from ceps.model.packing import Effort
from ceps.model.patterns import Patterns, as_patterns
from ceps.model.problem import TOLERANCE, Floats, InfeasibleError, Ints, Outcome, Problem, build_problem
from ceps.model.servers import ServerType, checked_servers
from ceps.offers.hourly import best_schedule, plan_of
from ceps.offers.payment import (
    Schedule,
    Terms,
    at_hourly_prices,
    base_prices,
    cheapest_way,
    hourly_peaks,
    priced,
    priced_by_hour,
    schedule_of,
    way_of,
)
from ceps.plan.planning import require_like, with_enough_servers
from ceps.plan.plans import Plan
from ceps.planners.fewer_calls import fewer_calls_by_hour
from ceps.planners.fleet_first import fleet_first

_SEARCH = 2.0  # seconds in which the bound's integer program may be improved over its relaxation


def mixed(
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
    """Plan in which each server is paid for all hours in the cheapest way to pay, or resized and paid by the hour.

    The clusters are those of the best fixed fleet at list and at lower prices, and of the best schedule by the hour;
    each server of each takes the cheaper way, and the cheapest in all is taken. `rented` says how each is paid.

    Parameters
    ----------
    patterns, sizes, servers, seed, utilisation, growth, copies, time_limit
        As `ceps.plan`.
    terms
        What a change takes, and whether spot prices will do; `Terms()` if not given.
    at_least
        As `ceps.plan`.
    previous
        As `ceps.schedule`.

    Raises
    ------
    ValueError
        An argument is out of range.
    InfeasibleError
        Some partitions fit no server; `partitions` names them.
    """
    given = as_patterns(patterns, sizes)
    types = checked_servers(servers)
    terms = terms or Terms()
    way = cheapest_way(types, terms)
    by_hour = at_hourly_prices(types, way)
    problem = build_problem(given, by_hour, utilisation, growth=growth, copies=copies, at_least=at_least)
    require_like(previous, given, problem.copies)
    effort = Effort(deadline=None if time_limit is None else monotonic() + time_limit)
    rng = np.random.default_rng(seed)
    base = base_prices(types, way, terms.years)
    found, paid = min(
        (cheaper_way(problem, labels, base, terms) for labels in _clusters(problem, base, rng, effort, terms)),
        key=lambda entry: entry[0].cost_per_day,
    )
    if not np.isfinite(found.cost_per_day):
        raise InfeasibleError("no clusters fit in every hour; use larger types or more partitions")
    if given.reads is not None:
        labels = fewer_calls_by_hour(problem, found.labels, found.types, given.reads, rng, effort)
        nearer = cheaper_way(problem, labels, base, terms)
        found, paid = nearer if nearer[0].cost_per_day <= found.cost_per_day * (1 + TOLERANCE) else (found, paid)
    rented = words_of(types, found, paid, way, terms.years)
    bound = min(mixed_bound(problem, base), found.cost_per_day)
    return replace(plan_of(given, problem, found, "mixed", bound, seed, previous, rented), servers=types)


def _clusters(problem: Problem, base: Floats, rng: np.random.Generator, effort: Effort, terms: Terms) -> list[Ints]:
    lower = tuple(
        replace(server, dollars_per_hour=float(price)) for server, price in zip(problem.servers, base, strict=True)
    )
    outcomes = [
        fleet_first(replace(problem, servers=lower), rng, effort),
        fleet_first(problem, rng, effort),
    ]
    found = [with_enough_servers(problem, outcome).labels for outcome in outcomes]
    alike = best_schedule(problem, rng, effort, terms)
    return [*found, with_enough_servers(problem, Outcome(alike.labels, alike.types[:, 0], 0.0)).labels]


def cheaper_way(problem: Problem, labels: Ints, base: Floats, terms: Terms) -> tuple[Schedule, NDArray[np.bool_]]:
    """Schedule of clusters, each by the cheaper way, and whether each is paid for all hours, at `base` dollars."""
    found = schedule_of(problem, labels, terms)
    columns = problem.cluster_columns(found.labels)
    price = np.where(problem.types_that_hold(columns), base, np.inf)
    always = price.argmin(axis=1)
    costs = 24 * price.min(axis=1, initial=np.inf)
    paid = costs <= found.costs_per_day
    types = np.where(paid[:, None], always[:, None], found.types)
    return Schedule(found.labels, types, np.where(paid, costs, found.costs_per_day)), paid


def words_of(
    servers: Sequence[ServerType], found: Schedule, always: NDArray[np.bool_], way: str, years: int
) -> list[str]:
    """Say how each server of a schedule is paid, where those that are `always` rented are paid in this way."""
    whole = [priced(server, way, years)[1] for server in servers]
    hourly = [priced_by_hour(server, way)[1] for server in servers]
    rows = zip(found.types.tolist(), always.tolist(), strict=True)
    return [way_of([(whole if paid else hourly)[kind] for kind in kinds]) for kinds, paid in rows]


def mixed_bound(problem: Problem, base: Floats, *, whole: bool = True) -> float:
    """Dollars a day that no plan undercuts whose servers are each paid for all hours at `base` or by the hour.

    An integer program over the number of servers of each type that stay and of those rented in each hour: together
    they must have the requests/s of the hour's peak, all bytes, and the servers that are asked for. Its relaxation
    bounds it, and what the search adds in `_SEARCH` seconds; the relaxation alone where it is not to be `whole`.
    """
    if not len(problem):
        return 0.0
    peaks = hourly_peaks(problem.total[None], problem.slot_seconds)[0]
    needs, times = np.unique(peaks, return_counts=True)  # hours that need the same are rented the same
    kinds, hours = len(problem.servers), len(needs)
    weight = times / times.sum()
    cost = 24 * np.concatenate([base, (weight[:, None] * problem.prices).ravel()])
    supply = np.zeros((3 * hours, kinds * (hours + 1)))
    size, count = float(problem.total[-1]), float(problem.need[2])
    room = np.minimum(problem.room, size) / size if size > 0 else np.ones(kinds)
    for hour, need in enumerate(needs):
        own = slice(kinds * (hour + 1), kinds * (hour + 2))
        for row, have in enumerate(
            (np.minimum(problem.rates, need) / need if need > 0 else np.ones(kinds), room, np.full(kinds, 1 / count))
        ):
            # Of what is needed once, a server has no more than all.
            supply[3 * hour + row, :kinds] = supply[3 * hour + row, own] = np.minimum(have, 1.0)
    wanted = np.tile([1.0, 1.0, 1.0], hours)
    wanted[::3][needs <= 0] = 0.0
    if size <= 0:
        wanted[1::3] = 0.0
    unit = float(cost.max()) or 1.0
    answer = minimise(
        cost / unit, supply, wanted * (1 - TOLERANCE), np.inf, upper=float(max(len(problem), 1)), seconds=_SEARCH,
        integral=float(whole),
    )  # fmt: skip
    return max(0.0, answer.bound * unit * (1 - 1e-6)) if np.isfinite(answer.bound) else 0.0
