"""The cheapest way to rent: every placement in every way to pay, priced on the same patterns at the same risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from ceps.model.argument_checks import number
from ceps.model.patterns import Patterns, as_patterns
from ceps.model.problem import InfeasibleError
from ceps.model.servers import ServerType, checked_servers
from ceps.offers.market import Market, planned, worst
from ceps.offers.schedules import Terms
from ceps.offers.table import Table
from ceps.plan.offer import LEAST_RISK
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
