"""The cheapest way to rent: every placement in every way to pay, priced on the same patterns at the same risk.

The table of offers: each placement in each way to pay, the cheapest of those that are safe enough, and a safer one.

What is recommended is the least row of the table that is eligible (`ceps.plan.offer.cheapest`). So no row that can
be planned, and whose way to pay is allowed, costs less at no more risk.

A grid that scales by itself as an offer, paid in each way. It decides as it goes, so there is no plan of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ceps.bounds.lower_bounds import hourly_bound
from ceps.model.argument_checks import number
from ceps.model.number_text import figure
from ceps.model.packing import Effort
from ceps.model.patterns import Patterns, as_patterns
from ceps.model.problem import TOLERANCE, InfeasibleError, Outcome, build_problem
from ceps.model.servers import ServerType, checked_servers
from ceps.offers.market import LOWEST, STEP, Market, at, judged, planned, without, worst
from ceps.offers.paying import all_day, bound_by_hour, by_hour, offer_of_plan
from ceps.offers.payment import HOUR, Terms, at_hourly_prices, base_prices, cheapest_way, is_allowed, upfront, ways_of
from ceps.plan.offer import LEAST_RISK, Offer, cheapest, likely_costs, wanted_risk
from ceps.plan.overload import overload_risk
from ceps.plan.planning import plan, run
from ceps.plan.plans import Plan

OFFERS = ("fixed", "hourly", "mixed")
"""Placements of which there are plans, by name."""


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
    safer: bool = False,
    **options: Any,
) -> Plan:
    """Plan by one way to rent, or by the best of all; `offers` holds what each placement costs in each way to pay.

    "auto" plans a fixed fleet, hourly types, and a mixed fleet where the catalogue has lower prices, each to
    `utilisation` or so far below that its expected overload on the worst day is within `risk`. Each of them, and a
    plain grid, is priced in every way to pay that the catalogue has: by the list, reserved for one or three years, or
    spot. The cheapest that `terms` allow is taken. So nothing that is allowed and no riskier costs less. One that
    scales by itself, and a fixed fleet with more room, stand beside them. "fixed" is paid the cheapest way too.

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
        What changes take, and which ways to pay are allowed; `Terms()` if not given.
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
    safer
        Whether a fixed fleet with more room is planned as well where "fixed" is asked for, as "auto" does.
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
        return _one(market, offer, risk, safer)
    return _best(market, risk)


def _one(market: Market, offer: str, risk: float | None, safer: bool) -> Plan:
    """Plan of one offer, paid as it is meant to be: a fixed fleet the cheapest way, hourly types by the list."""
    made = planned(market, offer, risk)
    table = Table(market, risk if risk is not None else max(LEAST_RISK, worst(made)))
    table.add(offer, made, ("list",) if offer == "hourly" else None)
    if safer and offer == "fixed" and risk is None:
        table.add_safer()
    return table.best()


def _best(market: Market, risk: float | None) -> Plan:
    """Plan of the cheapest row of all offers within the risk."""
    fixed = planned(market, "fixed", risk)
    asked = risk if risk is not None else max(LEAST_RISK, worst(fixed))
    table = Table(market, asked)
    plans = {"fixed": fixed}
    known = {"spare", "pinned", "move_budget"} & {name for name, value in market.options.items() if value is not False}
    for name in OFFERS[1:] if not known else ():
        if name == "mixed" and not market.cheaper_prices:
            continue
        try:
            plans[name] = planned(market, name, asked)
        except InfeasibleError:
            continue
    table.know_bounds(plans.values())
    for name, made in plans.items():
        table.add(name, made)
    gridded = market.patterns.positions is not None and len(market.patterns) and not market.zones
    if gridded:
        table.add_grid()
    if risk is None:
        table.add_safer()
    if gridded:
        table.add_autoscaling()
    best = table.best()
    return replace(best, options={**best.options, "offer": "auto"})


@dataclass(frozen=True, eq=False)
class Row:
    """A row of the table: an offer, and the plan that it is of, or None where it cannot be planned."""

    offer: Offer
    plan: Plan | None


@dataclass(eq=False)
class Table:
    """Rows that are gathered for one market; changed in place."""

    market: Market  # What is planned, and how
    asked: float  # Share of the requests that may be late on the worst day
    rows: list[Row] = field(default_factory=list)
    # Dollars a day that no hourly or mixed plan undercuts, by its target utilisation and way to pay
    bounds: dict[tuple[float, str], float] = field(default_factory=dict)

    @property
    def offers(self) -> list[Offer]:
        """Offers of the rows."""
        return [row.offer for row in self.rows]

    def add(self, name: str, made: Plan, ways: Iterable[str] | None = None, *, plannable: bool = True) -> None:
        """Add a placement in each way to pay that the catalogue has, or in these."""
        known: dict[bytes, Plan] = {}
        for way in ways_of(self.market.servers) if ways is None else ways:
            paid = self._paid(made, way)
            if paid.risk is None and paid.types_by_hour is not None:
                # The risk hangs on the servers of each hour, however they are paid.
                hours = paid.types_by_hour.tobytes()
                known[hours] = known.get(hours) or judged(self.market, paid)
                paid = replace(paid, risk=known[hours].risk)
            self.rows.append(Row(self._offer(name, way, judged(self.market, paid), plannable), paid))

    def know_bounds(self, plans: Iterable[Plan]) -> None:
        """Keep the bounds of hourly and mixed plans: each holds for all that is paid in this way to the same target."""
        for made in plans:
            if made.types_by_hour is not None:
                self.bounds[made.utilisation, self._own_way(made)] = made.lower_bound

    def _own_way(self, made: Plan) -> str:
        return "list" if made.method == "hourly" else cheapest_way(self.market.servers, self.market.terms)

    def _paid(self, made: Plan, way: str) -> Plan:
        terms = self.market.terms
        if made.types_by_hour is None:
            return all_day(made, way, terms.years)
        bound = made.lower_bound
        if way != self._own_way(made):
            made = by_hour(made, way, terms, few=self.market.at_most_types is not None)
            key = (made.utilisation, way)
            if key not in self.bounds:
                self.bounds[key] = bound_by_hour(made, way, terms.years)
            bound = self.bounds[key]
        return replace(made, lower_bound=min(bound, made.cost_per_day))

    def _offer(self, name: str, way: str, made: Plan, plannable: bool) -> Offer:
        market = self.market
        due = sum(upfront(kind, word) for kind, word in zip(made.types, made.rented, strict=False))
        return offer_of_plan(
            made, name, pay=way, allowed=is_allowed(way, market.terms), upfront=due, plannable=plannable,
            meets=worst(made) <= self.asked * (1 + TOLERANCE), note=_note(market, made),
        )  # fmt: skip

    def add_grid(self) -> None:
        """Add a plain grid, which is a plan like others where nothing is asked for that grids do not know."""
        market = self.market
        market.tell("grid")
        shared: dict[str, Any] = {"growth": market.growth, "copies": market.copies, "time_limit": market.time_limit}
        known = {"spare", "pinned", "move_budget"} & {name for name, value in market.options.items() if value}
        alike = not known and market.at_least <= 1 and market.at_most_types is None
        try:
            made = plan(market.patterns, None, market.servers, market.seed, market.utilisation, "gp",
                        previous=market.previous if alike else None, **shared)  # fmt: skip
        except InfeasibleError:
            return
        self.add("grid", judged(market, made), plannable=alike)

    def add_safer(self) -> None:
        """Add a fixed fleet that is planned to a lower utilisation, so that it is safer than the cheapest row."""
        taken = cheapest(self.offers)
        if taken < 0:
            return
        risk = self.rows[taken].offer.risk
        wanted = None if risk is None else wanted_risk(risk)
        fixed = [offer.risk for offer in self.offers if offer.name == "fixed" and offer.risk is not None]
        if wanted is None or min(fixed, default=1.0) <= wanted:
            return  # safe enough, or the fixed fleet is
        fleet = next(row.plan for row in self.rows if row.offer.name == "fixed")
        found = None if fleet is None else safer_fleet(self.market, wanted, fleet)
        if found is not None and risk is not None and worst(found) < risk:
            self.add("safer", found)

    def add_autoscaling(self) -> None:
        """Add a grid that scales by itself."""
        self.market.tell("autoscaling")
        offers = autoscaling_offers(self.market, ways_of(self.market.servers), self.asked)
        self.rows += [Row(offer, None) for offer in offers]

    def best(self) -> Plan:
        """Plan of the row that is recommended, with all offers noted in it, the recommended one first."""
        place = cheapest(self.offers)
        if place < 0:
            raise InfeasibleError("no offer that can be planned is within the risk that is asked for")
        taken = self.rows[place].plan
        assert taken is not None
        offers = [replace(offer, recommended=number == place) for number, offer in enumerate(self.offers)]
        offers.sort(key=lambda offer: (not offer.recommended, not offer.plannable, offer.cost_per_day))
        return replace(taken, offers=tuple(offers), options={**taken.options, "risk": self.asked})


def safer_fleet(market: Market, wanted: float, fixed: Plan) -> Plan | None:
    """Plan of a fixed fleet at a lower target utilisation, within a risk or nearer to it; None where none fits.

    The target is the highest at which the fixed plan's own servers would be safe enough, were they asked for less in
    proportion. It is planned without proofs, and two steps lower where that is not enough; at a higher one where some
    partition fits no server at that one.
    """
    quick = without(market, "prove")
    count = int((market.utilisation - LOWEST) / STEP + TOLERANCE)
    targets = [round(market.utilisation - STEP * number, 6) for number in range(1, count + 1)]
    asked = fixed if market.week is None else fixed.under(market.week)
    place = bisect_left(targets, True, key=lambda target: _risk_at(asked, target) <= wanted)
    place, step = min(place, count - 1), 2
    found: list[Plan] = []
    while 0 <= place < count and len(found) < 3:
        try:
            found.append(at(quick, "fixed", targets[place]))
        except InfeasibleError:
            place, step = place // 2 if place else -1, count
            continue
        if worst(found[-1]) <= wanted:
            return found[-1]
        place += step
    return min(found, key=worst, default=None)


def _risk_at(plan: Plan, target: float) -> float:
    return overload_risk(replace(plan, loads=plan.loads * (target / plan.utilisation))).worst


def _note(market: Market, made: Plan) -> str:
    notes = []
    if made.utilisation < market.utilisation - TOLERANCE:
        notes.append(f"planned to {made.utilisation:.0%} of capacity")
    if made.extras.get("resizes"):
        overlap = 60 * float(np.mean(market.terms.overlap_hours(made.bytes)))
        notes.append(
            f"{figure(made.extras['resizes'], 3)} changes of type a day, each with both servers paid for "
            f"{figure(overlap, 2)} minutes"
        )
    notes += [f"{count} {word}" for word, count in counts_of(made).items()]
    return "; ".join(notes)


def counts_of(made: Plan) -> Mapping[str, int]:
    """Servers by how they are paid, in words; empty where all are paid by the list, or all are reserved alike."""
    words = {
        "reserved": "reserved for a year", "reserved-3y": "reserved for 3 years",
        "spot": "at spot prices: the provider may take them away", "list": "at the list price",
    }  # fmt: skip
    ways = set(made.rented)
    if "spot" not in ways and len(ways) <= 1:
        return {}
    return {text: made.rented.count(word) for word, text in words.items() if word in made.rented}


def autoscaling_offers(market: Market, ways: tuple[str, ...], asked: float) -> list[Offer]:
    """Return GP-AAS as an offer in each way to pay; nothing where its servers cannot hold what is asked.

    What its starts and moves take is paid at the mean price of the servers that run. Servers that always run, or
    nearly so, are reserved where that is cheaper.
    """
    problem = build_problem(
        market.patterns, market.servers, market.utilisation, growth=market.growth, copies=market.copies
    )
    found = run("gp-aas", problem, np.random.default_rng(market.seed), Effort())
    if not np.isfinite(found.cost_per_day):
        return []
    copies, extras = problem.copies, found.extras
    moved, servers = extras["bytes_moved"] * copies, int(extras["most_servers"]) * copies
    waits = extras["servers_started"] * copies * market.terms.restart_seconds / HOUR
    waits += moved / market.terms.load_bytes_per_second / HOUR
    bound = hourly_bound(problem) if extras["overload"] <= 0 else None
    offers = []
    for way in ways:
        cost = copies * dollars_of_copy(found, market, way)
        total = cost + waits * cost / 24 / max(servers, 1)
        low, high = _likely(market, total)
        least = bound if way == "list" else None
        offers.append(Offer(
            name="autoscaling", pay=way, cost_per_day=total, low_cost_per_day=low, high_cost_per_day=high,
            lower_bound=None if least is not None and least > total else least, servers=servers,
            overload=float(extras["overload"]), bytes_moved_per_day=moved, meets=float(extras["overload"]) <= asked,
            plannable=False, allowed=is_allowed(way, market.terms),
            note="billed by the started hour; it sees an overload only when it is over",
        ))  # fmt: skip
    return offers


def dollars_of_copy(found: Outcome, market: Market, way: str) -> float:
    """Dollars a day of the servers of one copy: by the started hour, or reserved for as many as that is cheaper for."""
    assert found.billed is not None
    assert found.running is not None
    hourly = np.array([server.dollars_per_hour for server in at_hourly_prices(market.servers, way)])
    base = base_prices(market.servers, way, market.terms.years)
    cost = float(found.billed @ hourly)
    for kind in range(len(market.servers)):
        count = found.running[:, kind]
        for running in range(1, int(count.max(initial=0)) + 1):
            # The server that runs for the k-th longest time: reserved, it is paid for when it does not run as well.
            saved = 24 * ((count >= running).mean() * hourly[kind] - base[kind])
            if saved <= 0:
                break
            cost -= saved
    return cost


def _likely(market: Market, cost: float) -> tuple[float, float]:
    """Dollars a day between which a cost would lie had other days been observed: two standard errors of the peak."""
    given = market.patterns
    events = given.peak * given.slot_seconds * given.days / given.requests_per_event
    common = given.variation.common if given.variation is not None else 0.0
    return likely_costs(cost, events, given.days, common)
