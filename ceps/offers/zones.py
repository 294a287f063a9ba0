"""Zones: each holds one copy of everything, and the others answer all of it when any one is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ceps.model.argument_checks import whole
from ceps.model.problem import MOST_COPIES, TOLERANCE
from ceps.plan.plans import Plan


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
