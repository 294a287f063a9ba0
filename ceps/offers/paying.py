"""One placement, paid in each way: the same partitions on the same servers, and what that costs and cannot undercut.

What a plan is as an offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np

from ceps.bounds.lower_bounds import fleet_bound, hourly_bound
from ceps.model.problem import TOLERANCE, Problem
from ceps.model.servers import ServerType
from ceps.offers.hourly import dearest_types, extras_of
from ceps.offers.mixed import cheaper_way, mixed_bound, words_of
from ceps.offers.payment import Terms, at_base_prices, at_hourly_prices, base_prices, priced
from ceps.plan.offer import Offer, likely_costs
from ceps.plan.overload import overload_risk
from ceps.plan.plans import Plan


def all_day(plan: Plan, way: str, years: int = 3) -> Plan:
    """Plan of a fixed fleet at the list's prices, its servers unchanged, paid in a way: each as `priced` says."""
    if way == "list":
        return plan
    prices = [priced(server, way, years) for server in plan.servers]
    kinds = plan.type_of.tolist()
    paid = 24 * np.array([prices[kind][0] for kind in kinds], dtype=np.float64)
    cost = fsum(paid)
    return replace(
        plan, rented=tuple(prices[kind][1] for kind in kinds), paid=paid, cost_per_day=cost,
        lower_bound=min(_fleet_bound(plan, way, years), cost),
    )  # fmt: skip


def by_hour(plan: Plan, way: str, terms: Terms, few: bool = False) -> Plan:
    """Plan of an hourly schedule, its clusters unchanged, each server paid in the cheaper of two ways.

    For all hours as `priced` says, on the cheapest type that holds it, or by the hour, resized. `few` keeps to the
    types that the plan has. `risk` is None where some hour has another type than before; `lower_bound` is 0, see
    `bound_by_hour`.
    """
    assert plan.types_by_hour is not None
    kinds = np.unique(plan.types_by_hour) if few else np.arange(len(plan.servers))
    servers = tuple(plan.servers[kind] for kind in kinds.tolist())
    problem = _servers_as_items(plan, at_hourly_prices(servers, way))
    found, always = cheaper_way(problem, np.arange(len(plan)), base_prices(servers, way, terms.years), terms)
    types = kinds[found.types]
    return replace(
        plan, rented=tuple(words_of(servers, found, always, way, terms.years)), paid=found.costs_per_day,
        cost_per_day=fsum(found.costs_per_day), lower_bound=0.0, types_by_hour=types,
        type_of=kinds[dearest_types(problem, found.types)],
        risk=plan.risk if np.array_equal(types, plan.types_by_hour) else None,
        extras={**plan.extras, **extras_of(problem, found)},
    )  # fmt: skip


def bound_by_hour(plan: Plan, way: str, years: int = 3) -> float:
    """Dollars a day that no plan undercuts whose servers are paid for all hours in a way, or by the hour.

    The relaxation of `mixed_bound` where the two have different prices: quick, and a little looser.
    """
    servers = at_hourly_prices(plan.servers, way)
    whole = base_prices(plan.servers, way, years)
    prices = np.array([server.dollars_per_hour for server in servers])
    if not (prices > 0).all() or not (whole > 0).all():
        return 0.0  # what fits a free server counts for nothing, and whole servers do not say what would
    one, zones = _one_zone(plan)
    problem = _servers_as_items(one, servers)
    bound = hourly_bound(problem) if np.array_equal(whole, prices) else mixed_bound(problem, whole, whole=False)
    return zones * bound


def _fleet_bound(plan: Plan, way: str, years: int) -> float:
    """Dollars a day that no fixed fleet undercuts that is paid in a way."""
    before = np.array([server.dollars_per_hour for server in plan.servers])
    after = base_prices(plan.servers, way, years)
    if (before > 0).all():
        ratio = after / before
        if np.ptp(ratio) <= TOLERANCE * ratio.max():
            return plan.lower_bound * float(ratio.min())
    if not (after > 0).all():
        return 0.0
    one, zones = _one_zone(plan)
    return zones * fleet_bound(_servers_as_items(one, at_base_prices(plan.servers, way, years)))


def _one_zone(plan: Plan) -> tuple[Plan, int]:
    if plan.zones is None:
        return plan, 1
    from ceps.offers.zones import zone_of

    zones = int(plan.zones.max(initial=-1)) + 1
    return replace(zone_of(plan, 0), utilisation=min(plan.utilisation, (zones - 1) / zones)), zones


def _servers_as_items(plan: Plan, servers: Sequence[ServerType]) -> Problem:
    """Problem whose items are the plan's servers: as much is asked in every slot, and as many bytes are held."""
    count = len(plan)
    target = plan.utilisation
    if plan.zones is not None:
        zones = int(plan.zones.max(initial=-1)) + 1
        target = min(target, (zones - 1) / zones)
    return Problem(
        np.concatenate([plan.loads, plan.bytes[:, None]], axis=1), tuple(servers), target, plan.slot_seconds,
        np.arange(count)[:, None], np.zeros(count + 1, dtype=np.int64), np.empty(0, dtype=np.int64),
        np.full(count, -1), copies=plan.copies,
    )  # fmt: skip


def offer_of_plan(made: Plan, name: str, **more: Any) -> Offer:
    """Return the offer that a plan is, of its own figures.

    ``made``: the plan; its risk is found where it does not hold it; ``more``: what the plan does not know: `meets`,
    `recommended`, `note` of `Offer`.
    """
    risk = made.risk or overload_risk(made)
    peak = float(made.loads.sum(axis=0).max(initial=0.0)) / made.growth
    events = peak * made.slot_seconds * made.days / made.requests_per_event
    common = 0.0 if made.variation is None else made.variation.common
    low, high = likely_costs(made.cost_per_day, events, made.days, common)
    return Offer(
        name=name,
        cost_per_day=made.cost_per_day,
        low_cost_per_day=low,
        high_cost_per_day=high,
        lower_bound=made.lower_bound,
        servers=len(made),
        overload=made.overload,
        risk=risk.worst,
        worst_day=risk.worst_name,
        bytes_moved_per_day=made.extras.get("bytes_loaded", 0.0),
        servers_a_request=made.servers_a_request,
        utilisation=made.utilisation,
        pools=pools_of(made),
        **more,
    )


def pools_of(made: Plan) -> tuple[tuple[str, str, int, float], ...]:
    """Servers that are alike, by what one costs: type, how they are paid, how many, and dollars a day of one."""
    words = made.rented or ("list",) * len(made)
    names = [kind.name for kind in made.types]
    counts = Counter(zip(names, words, made.dollars_by_server.tolist(), strict=True))
    return tuple((name, word, count, cost) for (name, word, cost), count in counts.items())
