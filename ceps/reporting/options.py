"""The offers of a plan as rows of the report, and what to do as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ceps.offers.of_plan import offer_of_plan
from ceps.offers.offer import Offer
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
    return offer_of_plan(plan, name, recommended=True)


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
