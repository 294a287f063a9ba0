"""The offers of a plan as rows of the report, and what to do as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ceps.offers.offer import Offer, likely_costs
from ceps.overload import overload_risk
from ceps.plans import DAYS_A_MONTH, Plan, bytes_text
from ceps.problem import InfeasibleError
from ceps.rollout.actions import actions
from ceps.texts import how_many


def own_offer(plan: Plan) -> Offer:
    """Offer that a plan itself is: the one it remembers, else one of its own figures."""
    name = plan.method if plan.method in ("hourly", "mixed") else "fixed"
    for offer in plan.offers:
        if offer.name == name and np.isclose(offer.cost_per_day, plan.cost_per_day, rtol=1e-9):
            return offer
    risk = plan.risk or overload_risk(plan)
    peak = float(plan.loads.sum(axis=0).max(initial=0.0)) / plan.growth
    events = peak * plan.slot_seconds * plan.days / plan.requests_per_event
    common = 0.0 if plan.variation is None else plan.variation.common
    low, high = likely_costs(plan.cost_per_day, events, plan.days, common)
    return Offer(
        name=name,
        cost_per_day=plan.cost_per_day,
        low_cost_per_day=low,
        high_cost_per_day=high,
        lower_bound=plan.lower_bound,
        servers=len(plan),
        overload=overload(plan),
        risk=risk.worst,
        worst_day=risk.worst_name,
        bytes_moved_per_day=plan.extras.get("bytes_loaded", 0.0),
        servers_a_request=plan.servers_a_request,
        recommended=True,
    )


def overload(plan: Plan) -> float:
    """Share of the requests above full capacity when days are as their patterns."""
    total = float(plan.loads.sum())
    return float(np.maximum(plan.loads - plan.capacity_by_slot, 0.0).sum()) / total if total else 0.0


def offers_of(plan: Plan) -> list[Offer]:
    """Offers, the one to take first, then what meets the risk and can be planned, by price; a plain grid is last."""
    own = own_offer(plan)
    shown = list(plan.offers) or [own]
    first = own.name if not any(offer.recommended for offer in shown) else ""
    return sorted(
        shown,
        key=lambda offer: (
            offer.name == "grid",
            not (offer.recommended or offer.name == first),
            not offer.meets,
            not offer.plannable,
            offer.cost_per_day,
        ),
    )


def option_row(offer: Offer, over_bound: float | None) -> dict[str, Any]:
    """Row of an offer, with what it costs over the bound that holds for it."""
    known = over_bound is not None and offer.lower_bound is not None
    return {
        "offer": offer.name,
        "label": offer.label,
        "monthlyRate": offer.cost_per_day * DAYS_A_MONTH,
        "monthlyRateLow": offer.low_cost_per_day * DAYS_A_MONTH,
        "monthlyRateHigh": offer.high_cost_per_day * DAYS_A_MONTH,
        "lowerBoundMonthlyRate": (offer.lower_bound or 0.0) * DAYS_A_MONTH if known else None,
        "costOverLowerBound": over_bound,
        "nodeCount": offer.servers,
        "overloadShare": offer.overload,
        "worstDayOverloadShare": offer.risk,
        "worstWeekday": offer.worst_day or None,
        "bytesMovedPerDay": offer.bytes_moved_per_day,
        "serversPerRequest": offer.servers_a_request,
        "meetsRisk": offer.meets,
        "canBePlanned": offer.plannable,
        "recommended": offer.recommended,
        "note": offer.note,
    }


def action_sentences(plan: Plan, current: Plan | None) -> list[str]:
    """Say what to do, in order: rent and load, or what leads from the plan in force to the new one."""
    if not len(plan):
        return []
    if current is None:
        first = f"rent {_pool(plan)} and load {how_many(len(plan.partitions), 'partition')}"
        hourly = "" if plan.types_by_hour is None else ", in the size of each hour"
        return [f"{first}, {bytes_text(float(plan.bytes.sum()))}, as plan.json says{hourly}."]
    try:
        listed = actions(plan, current)
    except InfeasibleError as error:
        return [f"no order of moves is possible: {error}."]
    return [f"{action}." for action in listed] or ["nothing: the plan in force is this plan."]


def _pool(plan: Plan) -> str:
    kinds = [kind.name for kind in plan.types]
    return ", ".join(f"{kinds.count(name)} {name}" for name in dict.fromkeys(kinds))
