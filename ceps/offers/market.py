"""What offers are made of: patterns and servers as asked, and the plan of one way to rent within the risk.

Fleets of few types: the subsets of a catalogue that promise most, planned in order of what they can cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from ceps.bounds.lower_bounds import fleet_bound, hourly_bound
from ceps.model.argument_checks import whole
from ceps.model.number_text import per_cent, per_cent_kept
from ceps.model.patterns import Patterns
from ceps.model.problem import TOLERANCE, InfeasibleError, Problem, Progress, build_problem
from ceps.model.servers import ServerType
from ceps.offers.hourly import schedule
from ceps.offers.mixed import mixed, mixed_bound
from ceps.offers.paying import all_day, over_zones, overload_without
from ceps.offers.payment import Terms, at_hourly_prices, base_prices, cheapest_way, priced
from ceps.plan.overload import overload_risk
from ceps.plan.planning import plan
from ceps.plan.plans import DAYS_A_MONTH, Plan

STEP, LOWEST = 0.05, 0.4
"""Utilisation is lowered by so much at a time, and so far, for the sake of risk."""


@dataclass(frozen=True, eq=False)
class Market:
    """What every offer is planned with; as the parameters of `rent`."""

    patterns: Patterns
    servers: tuple[ServerType, ...]
    seed: int
    utilisation: float
    terms: Terms
    copies: int
    growth: float
    zones: int
    at_least: int
    at_most_types: int | None
    previous: Plan | None
    time_limit: float | None
    week: Patterns | None
    options: Mapping[str, Any]

    @property
    def progress(self) -> Progress | None:
        """What is told how far the search is."""
        return self.options.get("progress")

    @property
    def cheaper_prices(self) -> bool:
        """Whether some type costs less than its list price when it is paid for all hours."""
        way = cheapest_way(self.servers, self.terms)
        return any(priced(server, way, self.terms.years)[1] != "list" for server in self.servers)

    def tell(self, step: str) -> None:
        """Tell what is done next, to whoever wants to know how far the search is."""
        if self.progress is not None:
            self.progress(step, 0.0, 0.0)


def planned(market: Market, offer: str, risk: float | None) -> Plan:
    """Plan of one offer at the target utilisation, or at the highest below it that is within `risk`."""
    found = at(market, offer, market.utilisation)
    if risk is None:
        return found
    quick = without(market, "prove") if offer == "fixed" and "prove" in market.options else market
    least, target = found, market.utilisation
    while worst(least) > risk and target - STEP >= LOWEST - TOLERANCE:
        target = round(target - STEP, 6)
        try:
            found = at(quick, offer, target)  # proofs take seconds, and are of use where the risk is met
        except InfeasibleError:
            break
        least = found if worst(found) < worst(least) else least
    if worst(least) > risk:
        dollars = (
            all_day(least, cheapest_way(market.servers, market.terms), market.terms.years)
            if (least.types_by_hour is None)
            else least
        )
        raise InfeasibleError(
            f"no {offer} plan of utilisation {market.utilisation:g} to {target:g} is within risk {risk:g}: the least "
            f"is {per_cent(worst(least))} late"
            f"{f' on {least.risk.worst_name}s' if least.risk and least.risk.worst_name else ''}, for "
            f"${dollars.cost_per_day * DAYS_A_MONTH:,.2f} a month, {least.utilisation:.0%} full at the most. Ask for "
            f"--risk {per_cent_kept(worst(least))}, use more partitions or larger types"
        )
    if quick is not market and least.utilisation < market.utilisation:
        proved = at(market, offer, least.utilisation)
        return proved if worst(proved) <= risk else least
    return least


def without(market: Market, option: str) -> Market:
    """Market of plans that are made without an option."""
    return replace(market, options={name: value for name, value in market.options.items() if name != option})


def worst(made: Plan) -> float:
    """Share of the requests expected late on the worst day."""
    return made.risk.worst if made.risk is not None else 0.0


def at(market: Market, offer: str, target: float) -> Plan:
    """Plan of one offer at one target utilisation, within the limits on zones, types and servers."""
    market.tell(f"{offer}, planned to {target:.0%} of capacity")

    def one(target: float, share: float, copies: int, previous: Plan | None, types: tuple[ServerType, ...]) -> Plan:
        shared: dict[str, Any] = {
            "growth": market.growth * share, "copies": copies, "time_limit": market.time_limit,
            "at_least": market.at_least, "previous": previous,
        }  # fmt: skip
        if offer == "fixed":
            return plan(market.patterns, None, types, market.seed, target, **shared, **market.options)
        make = schedule if offer == "hourly" else mixed
        return make(market.patterns, None, types, market.seed, target, terms=market.terms, **shared)

    def limited(target: float, share: float, copies: int, previous: Plan | None) -> Plan:
        if market.at_most_types is None:
            return one(target, share, copies, previous, market.servers)
        problem = build_problem(
            market.patterns, market.servers, target, growth=market.growth * share, copies=copies,
            at_least=market.at_least,
        )  # fmt: skip
        with_types = partial(one, target, share, copies, previous)
        return with_few_types(problem, market.at_most_types, with_types, _bound_of(market, offer))

    if not market.zones:
        return judged(market, limited(target, 1.0, market.copies, market.previous))
    made = over_zones(
        market.zones, market.copies, target, lambda u, share, known: limited(u, share, 1, known), market.previous
    )
    for zone in range(market.zones):
        fullest = overload_without(made, zone)
        if fullest > 1:
            raise InfeasibleError(
                f"without zone {zone} a server would have {fullest:.3f} times its requests/s; plan a lower utilisation"
            )
    return judged(market, made)


def judged(market: Market, made: Plan) -> Plan:
    """Plan with its risk on the patterns by which it is judged."""
    if market.week is None:
        return made if made.risk is not None else replace(made, risk=overload_risk(made))
    return replace(made, risk=overload_risk(made.under(market.week)))


def _bound_of(market: Market, offer: str) -> Callable[[Problem], float]:
    if offer == "fixed":
        return fleet_bound
    if offer == "hourly":
        return hourly_bound
    way = cheapest_way(market.servers, market.terms)
    years = market.terms.years
    return lambda problem: mixed_bound(
        replace(problem, servers=at_hourly_prices(problem.servers, way)), base_prices(problem.servers, way, years)
    )


_TRIED = 12  # subsets that are planned at the most
_BOUNDED = 2_000  # subsets whose bound is computed at the most


def with_few_types(
    problem: Problem,
    most: int,
    plan_with: Callable[[tuple[ServerType, ...]], Plan],
    bound_of: Callable[[Problem], float],
) -> Plan:
    """Cheapest plan found that rents at most so many types.

    Subsets of the catalogue are planned from the lowest bound up, until none left can be cheaper or `_TRIED` were. The
    plan's bound is the least that any subset's plan can cost.

    ``most``: types at the most, 1 or more; ``bound_of``: dollars a day that no plan of that kind undercuts.
    """
    most = whole("at_most_types", most, 1, 1_000, "")
    types = problem.servers
    if most >= len(types):
        return plan_with(types)
    bounds, all_of_them = _bounds(problem, most, bound_of)
    if not bounds:
        raise InfeasibleError(f"no {most} of the types hold every partition; allow more types or split partitions")
    best: Plan | None = None
    for tried, (bound, chosen) in enumerate(bounds):
        if tried == _TRIED or (best is not None and best.cost_per_day <= bound * (1 + TOLERANCE)):
            break
        try:
            made = plan_with(tuple(types[kind] for kind in chosen))
        except InfeasibleError:
            continue
        if best is None or made.cost_per_day < best.cost_per_day * (1 - TOLERANCE):
            best = _in_catalogue(made, types)
    if best is None:
        raise InfeasibleError(f"no plan of at most {most} types was found; allow more types")
    least = bounds[0][0] if all_of_them else bound_of(problem)
    return replace(best, lower_bound=min(least, best.cost_per_day))


def _bounds(
    problem: Problem, most: int, bound_of: Callable[[Problem], float]
) -> tuple[list[tuple[float, tuple[int, ...]]], bool]:
    """Bound and types of each subset on which everything fits, cheapest first, and whether none was left out."""
    holds = problem.types_that_hold(problem.columns)
    kinds = list(range(len(problem.servers)))
    whole_list = comb(len(kinds), most) <= _BOUNDED
    if not whole_list:
        # The dearest for what they do are left out, so long as there are too many.
        worth = np.argsort(problem.prices / problem.rates, kind="stable").tolist()
        while len(worth) > most and comb(len(worth) + 2, most) > _BOUNDED:
            worth.pop()
        kinds = sorted({*worth, int(problem.rates.argmax()), int(problem.room.argmax())})
    found = []
    for chosen in combinations(kinds, most):
        if holds[:, list(chosen)].any(axis=1).all():
            within = replace(problem, servers=tuple(problem.servers[kind] for kind in chosen))
            found.append((bound_of(within), chosen))
    return sorted(found), whole_list


def _in_catalogue(made: Plan, types: Sequence[ServerType]) -> Plan:
    """Plan with its types numbered as in the whole catalogue."""
    names = {server.name: number for number, server in enumerate(types)}
    place = np.array([names[server.name] for server in made.servers], dtype=np.int64)
    hourly = None if made.types_by_hour is None else place[made.types_by_hour]
    return replace(made, servers=tuple(types), type_of=place[made.type_of], types_by_hour=hourly)
