"""One placement, paid in each way, also where each zone holds a copy of everything: what it costs and may lose.

What a plan is as an offer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np

from ceps.bounds.lower_bounds import fleet_bound, hourly_bound
from ceps.model.argument_checks import whole
from ceps.model.problem import MOST_COPIES, TOLERANCE, Problem
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


def over_zones(zones: int, copies: int, utilisation: float, plan_one: Callable[[float, float, Plan | None], Plan],
               previous: Plan | None = None) -> Plan:  # fmt: skip
    """Plan with one copy of each partition in each of `zones`, so that any one zone may be lost.

    With z zones, each answers 1 / z of the requests, and 1 / (z - 1) when one is lost: its servers are planned to
    min(u, (z - 1) / z) of their requests/s. Each zone holds all partitions once, so the cheapest plan of one, z
    times, is the cheapest there is, and its bound z times a bound.

    ``zones``, ``copies``: how many; they must be the same, 2 or more; ``plan_one``: plans one copy: called with the
    target utilisation, the share of the requests, and the plan in force or None; ``previous``: the plan in force, of as
    many zones; each zone is repaired or planned by itself.
    """
    whole("zones", zones, 2, MOST_COPIES, ": the others answer when one is lost")
    if copies != zones:
        raise ValueError(f"zones = {zones} but copies = {copies}; each zone holds one copy, so they must be the same")
    target, share = min(utilisation, (zones - 1) / zones), 1.0 / zones
    if previous is None:
        one = plan_one(target, share, None)
        return joined([one] * zones, utilisation)
    if previous.zones is None or previous.copies != zones or previous.zones.max(initial=-1) != zones - 1:
        raise ValueError(f"zones = {zones} but the previous plan has other zones; plan afresh without it")
    return joined([plan_one(target, share, zone_of(previous, zone)) for zone in range(zones)], utilisation, previous)


def zone_of(plan: Plan, zone: int) -> Plan:
    """Plan of one zone's servers, which hold one copy of each partition."""
    assert plan.zones is not None
    kept = np.flatnonzero(plan.zones == zone)
    index = np.full(len(plan), -1)
    index[kept] = np.arange(len(kept))
    placed = index[plan.replicas]
    return replace(
        plan, replicas=placed.max(axis=1)[:, None], server_ids=plan.server_ids[kept], type_of=plan.type_of[kept],
        loads=plan.loads[kept], zones=None, variation=None, risk=None, offers=(), spare=0,
        types_by_hour=None if plan.types_by_hour is None else plan.types_by_hour[kept], rented=(), paid=None,
    )  # fmt: skip


def joined(plans: list[Plan], utilisation: float, previous: Plan | None = None) -> Plan:
    """One plan of as many zones; servers that a zone did not have before get numbers that none has."""
    ids: list[int] = []
    fresh = 0 if previous is None else int(previous.server_ids.max(initial=-1)) + 1
    for zone, made in enumerate(plans):
        known = set() if previous is None else set(zone_of(previous, zone).server_ids.tolist())
        for number in made.server_ids.tolist():
            if number in known:
                ids.append(number)
            else:
                ids.append(fresh)
                fresh += 1
    begin = np.cumsum([0, *(len(made) for made in plans)])
    places = np.repeat(np.arange(len(plans)), np.diff(begin))
    order = np.argsort(ids, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    first = plans[0]
    replicas = np.column_stack([rank[begin[z] + made.server_of] for z, made in enumerate(plans)])
    rows = [made.types_by_hour for made in plans if made.types_by_hour is not None]
    hourly = np.concatenate(rows)[order] if rows else None
    rented = [way for made in plans for way in made.rented]
    paid = np.concatenate([made.dollars_by_server for made in plans])[order]
    variation = first.variation
    if variation is not None:
        own = np.concatenate([made.variation.own for made in plans if made.variation is not None])
        variation = replace(variation, own=own[order])
    return replace(
        first,
        utilisation=utilisation,
        replicas=replicas,
        server_ids=np.array(ids, dtype=np.int64)[order],
        type_of=np.concatenate([made.type_of for made in plans])[order],
        loads=np.concatenate([made.loads for made in plans])[order],
        cost_per_day=sum(made.cost_per_day for made in plans),
        lower_bound=sum(made.lower_bound for made in plans),
        zones=places[order],
        types_by_hour=hourly,
        rented=tuple(rented[k] for k in order) if rented else (),
        paid=None if first.paid is None else paid,
        variation=variation,
        growth=first.growth * len(plans),
    )


def overload_without(plan: Plan, zone: int) -> float:
    """Largest load over full capacity of any server when a zone is lost and the other copies answer its requests.

    A partition's requests are shared by the copies that are left. At most 1 where the plan holds what it promises.
    """
    assert plan.zones is not None
    standing = plan.zones != zone
    factor = plan.copies / (plan.copies - 1)
    return float((factor * plan.utilisation_by_slot[standing]).max(initial=0.0)) / (1 + TOLERANCE)
