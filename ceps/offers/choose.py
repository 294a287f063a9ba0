"""Every way to rent, priced on the same patterns at the same risk, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ceps.arguments import number
from ceps.bounds.lower_bounds import fleet_bound, hourly_bound
from ceps.offers.few_types import with_few_types
from ceps.offers.hourly import schedule
from ceps.offers.mixed import committed, mixed, mixed_bound
from ceps.offers.of_plan import offer_of_plan
from ceps.offers.offer import Offer, likely_costs
from ceps.offers.schedules import HOUR, Terms
from ceps.offers.zones import over_zones, overload_without
from ceps.overload import overload_risk
from ceps.packing import Effort
from ceps.patterns import Patterns, as_patterns
from ceps.planning import plan, run
from ceps.plans import Plan
from ceps.problem import TOLERANCE, InfeasibleError, Problem, build_problem
from ceps.servers import ServerType, checked_servers

OFFERS = ("fixed", "hourly", "mixed")
"""Ways to rent of which there are plans, by name."""

LEAST_RISK = 1e-3
"""Share of the requests above capacity on the worst day that is good enough where nobody asks for less."""

_STEP, _LOWEST = 0.05, 0.4  # utilisation is lowered by so much at a time, and so far, for the sake of risk


def rent(
    patterns: Patterns | ArrayLike,
    sizes: ArrayLike | None = None,
    servers: Sequence[ServerType] = (),
    seed: int = 0,
    utilisation: float = 0.9,
    offer: str = "auto",
    *,
    risk: float | None = None,
    terms: Terms | None = None,
    copies: int = 1,
    growth: float = 1.0,
    zones: int = 0,
    at_least: int = 0,
    at_most_types: int | None = None,
    previous: Plan | None = None,
    time_limit: float | None = None,
    week: Patterns | None = None,
    **options: Any,
) -> Plan:
    """Plan by one way to rent, or by the best of all; with "auto", `offers` holds what each of them costs.

    "auto" prices a fixed fleet, hourly types, and a mixed fleet where the catalogue has lower prices, each planned to
    `utilisation` or so far below that its expected overload on the worst day is within `risk`. The cheapest is taken. A
    plain grid and one that scales by itself stand beside them.

    Parameters
    ----------
    patterns, sizes, servers, seed, utilisation
        As `ceps.plan`.
    offer
        "auto" or one of `OFFERS`.
    risk
        Share of the requests that may be above capacity on the worst day. If not given, one offer is planned to
        `utilisation` exactly, and "auto" compares them at what the fixed fleet has, or `LEAST_RISK` if that is more.
    terms
        What changes take; `Terms()` if not given.
    copies, growth
        As `ceps.plan`.
    zones
        Zones over which copies are spread, so that any one may be lost; as many as `copies`, or 0 for none.
    at_least
        Servers to rent at the least, in each zone.
    at_most_types
        Types to rent at the most; any number if not given.
    previous
        As `ceps.plan`.
    time_limit
        As `ceps.plan`, for each plan made.
    week
        Patterns by which risk is judged, where they are others than those to plan for: the week, for its mean day.
    options
        Of `ceps.plan`, for a fixed fleet: method, move_budget, spare, pinned, progress, prove, call_cost.

    Raises
    ------
    ValueError
        An argument is out of range, or `options` do not go with the offer.
    InfeasibleError
        Some partitions fit no server, or nothing is within the risk asked for; the message says what is reached.
    """
    if offer not in (*OFFERS, "auto"):
        raise ValueError(f"offer = {offer!r}; known: auto, {', '.join(OFFERS)}")
    if risk is not None:
        risk = number("risk", risk, "a share of the requests, above 0 and below 1 (0.001 is 0.1 %)", above=0, below=1)
    given, types = as_patterns(patterns, sizes), checked_servers(servers)
    if options.get("method", "fleet") != "fleet" and offer != "fixed":
        raise ValueError(f"method = {options['method']!r} makes fixed fleets only; ask for offer 'fixed'")
    for name in ("move_budget", "spare", "pinned", "call_cost"):
        if offer in ("hourly", "mixed") and options.get(name) not in (None, False, 0):
            raise ValueError(f"offer {offer!r} knows no {name}; plan a fixed fleet, or leave {name} out")
    market = Market(
        given, types, seed, utilisation, terms or Terms(), copies, growth, zones, at_least, at_most_types, previous,
        time_limit, week, {name: value for name, value in options.items() if value is not None},
    )  # fmt: skip
    if offer != "auto":
        return planned(market, offer, risk)
    return _best(market, risk)


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
    def cheaper_prices(self) -> bool:
        """Whether some type costs less than its list price when it is paid for all hours."""
        return any(committed(server, self.terms)[1] != "list" for server in self.servers)


def planned(market: Market, offer: str, risk: float | None) -> Plan:
    """Plan of one offer at the target utilisation, or at the highest below it that is within `risk`.

    Raises
    ------
    InfeasibleError
        Nothing is within the risk; or as `ceps.plan`.
    """
    found = _at(market, offer, market.utilisation)
    if risk is None:
        return found
    least, target = found, market.utilisation
    while _worst(least) > risk and target - _STEP >= _LOWEST - TOLERANCE:
        target = round(target - _STEP, 6)
        try:
            found = _at(market, offer, target)
        except InfeasibleError:
            break
        least = found if _worst(found) < _worst(least) else least
    if _worst(least) > risk:
        raise InfeasibleError(
            f"no {offer} plan of utilisation {market.utilisation:g} to {target:g} is within risk {risk:g}: the least "
            f"is {_worst(least):.2g} of them at {least.utilisation:g}; ask for more, or lower --utilisation"
        )
    return least


def _worst(made: Plan) -> float:
    return made.risk.worst if made.risk is not None else 0.0


def _at(market: Market, offer: str, target: float) -> Plan:
    """Plan of one offer at one target utilisation, within the limits on zones, types and servers."""

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
    return replace(made, risk=overload_risk(made if market.week is None else made.under(market.week)))


def _bound_of(market: Market, offer: str) -> Callable[[Problem], float]:
    if offer == "fixed":
        return fleet_bound
    if offer == "hourly":
        return hourly_bound
    return lambda problem: mixed_bound(
        problem, np.array([committed(server, market.terms)[0] for server in problem.servers])
    )


def _best(market: Market, risk: float | None) -> Plan:
    """Plan of the cheapest offer within the risk, with all offers noted in it."""
    plans: dict[str, Plan] = {"fixed": planned(market, "fixed", risk)}
    asked = risk if risk is not None else max(LEAST_RISK, _worst(plans["fixed"]))
    known = {"spare", "pinned", "move_budget"} & {name for name, value in market.options.items() if value is not False}
    for name in OFFERS[1:] if not known else ():
        if name == "mixed" and not market.cheaper_prices:
            continue
        try:
            plans[name] = planned(market, name, asked)
        except InfeasibleError:
            continue
    chosen = min(plans, key=lambda name: (plans[name].cost_per_day, OFFERS.index(name)))
    if plans[chosen].cost_per_day >= plans["fixed"].cost_per_day * (1 - TOLERANCE):
        chosen = "fixed"
    offers = [
        offer_of(market, name, made, asked, recommended=name == chosen) for name, made in sorted(
            plans.items(), key=lambda entry: (entry[0] != chosen, entry[1].cost_per_day)
        )
    ]  # fmt: skip
    offers += competitors(market, asked)
    best = plans[chosen]
    return replace(best, offers=tuple(offers), options={**best.options, "offer": "auto", "risk": asked})


def offer_of(market: Market, name: str, made: Plan, asked: float, *, recommended: bool = False) -> Offer:
    """Return what a plan is as an offer."""
    notes = []
    if made.utilisation < market.utilisation - TOLERANCE:
        notes.append(f"planned to {made.utilisation:.0%} of capacity to be as safe as was asked")
    if made.extras.get("resizes"):
        notes.append(f"{made.extras['resizes']:.3g} changes of type a day, each {_minutes(market, made)}")
    if "spot" in made.rented:
        notes.append(f"{made.rented.count('spot')} at spot prices: the provider may take them away")
    if "reserved" in made.rented:
        notes.append(f"{made.rented.count('reserved')} reserved")
    meets = _worst(made) <= asked * (1 + TOLERANCE)
    return offer_of_plan(made, name, meets=meets, recommended=recommended, note="; ".join(notes))


def _minutes(market: Market, made: Plan) -> str:
    overlap = market.terms.overlap_hours(made.bytes)
    return f"with both servers paid for {60 * float(np.mean(overlap)):.2g} minutes"


def competitors(market: Market, asked: float) -> list[Offer]:
    """Return a plain grid, and one that scales by itself, as offers; nothing where partitions have no places."""
    given = market.patterns
    if given.positions is None or not len(given) or market.zones:
        return []
    shared: dict[str, Any] = {"growth": market.growth, "copies": market.copies, "time_limit": market.time_limit}
    found = []
    try:
        made = plan(given, None, market.servers, market.seed, market.utilisation, "gp", **shared)
        found.append(offer_of(market, "grid", judged(market, made), asked))
    except InfeasibleError:
        pass
    problem = build_problem(given, market.servers, market.utilisation, growth=market.growth, copies=market.copies)
    outcome = run("gp-aas", problem, np.random.default_rng(market.seed), Effort())
    if np.isfinite(outcome.cost_per_day):
        found.append(_autoscaling(market, problem, outcome.cost_per_day, outcome.extras, asked))
    return found


def _autoscaling(market: Market, problem: Problem, cost: float, extras: Mapping[str, float], asked: float) -> Offer:
    """GP-AAS as an offer: what its starts and moves take is paid at the mean price of the servers that run."""
    copies = problem.copies
    moved, servers = extras["bytes_moved"] * copies, int(extras["most_servers"]) * copies
    hourly = cost / 24 / max(servers, 1)
    waits = extras["servers_started"] * copies * market.terms.restart_seconds / HOUR
    waits += moved / market.terms.load_bytes_per_second / HOUR
    total = cost + waits * hourly
    low, high = _likely(market, total)
    overload = float(extras["overload"])
    bound = hourly_bound(problem) if overload <= 0 else None
    return Offer(
        name="autoscaling", cost_per_day=total, low_cost_per_day=low, high_cost_per_day=high,
        lower_bound=None if bound is not None and bound > total else bound, servers=servers, overload=overload,
        bytes_moved_per_day=moved, meets=overload <= asked, plannable=False,
        note="billed by the started hour; it sees an overload only when it is over",
    )  # fmt: skip


def _likely(market: Market, cost: float) -> tuple[float, float]:
    """Dollars a day between which a cost would lie had other days been observed: two standard errors of the peak."""
    given = market.patterns
    events = given.peak * given.slot_seconds * given.days / given.requests_per_event
    common = given.variation.common if given.variation is not None else 0.0
    return likely_costs(cost, events, given.days, common)
