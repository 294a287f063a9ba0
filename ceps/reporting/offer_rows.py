"""The offers of a plan as rows of the report, and what page and command say of them and of what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ceps.model.number_text import bytes_text, dollars, how_many, per_cent, per_cent_kept
from ceps.model.patterns import Patterns
from ceps.model.problem import TOLERANCE, InfeasibleError
from ceps.model.servers import ServerType
from ceps.offers.paying import all_day, by_hour, offer_of_plan
from ceps.offers.payment import LABELS, Terms, way_of, ways_of
from ceps.plan.offer import LEAST_RISK, Offer, wanted_risk
from ceps.plan.overload import overload_risk
from ceps.plan.plans import DAYS_A_MONTH, Plan
from ceps.rollout.actions import actions


def own_offer(plan: Plan) -> Offer:
    """Offer that a plan itself is: the one it remembers, else one of its own figures."""
    name = plan.method if plan.method in ("hourly", "mixed") else "fixed"
    taken = [offer for offer in plan.offers if offer.recommended]
    rest = [offer for offer in plan.offers if offer.name == name]
    for offer in [*rest, *taken]:
        if np.isclose(offer.cost_per_day, plan.cost_per_day, rtol=1e-9) and offer.plannable:
            return offer
    return offer_of_plan(plan, name, pay=way_of(plan.rented), recommended=True)


def offers_of(plan: Plan, now: Sequence[Offer] = ()) -> list[Offer]:
    """Offers, the one to take first, then those that may be taken, by price, then the others; a plain grid is last.

    What runs now is the one to take where it costs less than the plan at no more risk.
    """
    own = own_offer(plan)
    shown = [*(plan.offers or (own,)), *now]
    first = next((offer for offer in shown if offer.recommended), own)
    better = [
        offer for offer in now
        if offer.eligible and offer.risk is not None and first.risk is not None and offer.risk <= first.risk
        and offer.cost_per_day < first.cost_per_day * (1 - TOLERANCE)
    ]  # fmt: skip
    first = min(better, key=lambda offer: offer.cost_per_day, default=first)
    shown = [replace(offer, recommended=offer is first) for offer in shown]
    return sorted(
        shown,
        key=lambda offer: (
            not offer.recommended,
            offer.name == "grid",
            not offer.meets,
            not offer.allowed,
            not offer.plannable,
            offer.cost_per_day,
        ),
    )


def offers_now(current: Plan, best: Plan, patterns: Patterns | None) -> list[Offer]:
    """Return what runs now as an offer in each way to pay, at the prices of the new plan's catalogue.

    How safe it is on the patterns is known where they are given. Then it may be kept, if it has as many copies.
    """
    asked = best.options.get("risk", max(LEAST_RISK, 0.0 if best.risk is None else best.risk.worst))
    judged = repriced(current, best.servers)
    known = patterns is not None and set(patterns.partitions.tolist()) == set(current.partitions.tolist())
    if patterns is not None and known:
        scale = best.growth / judged.growth if judged.growth else 1.0
        judged = judged.under(patterns)
        judged = replace(judged, loads=judged.loads * scale, growth=best.growth)
        judged = replace(judged, risk=overload_risk(judged))
    alike = current.copies >= best.copies and best.zones is None and not best.spare
    found = []
    for way in ways_of(judged.servers):
        paid = paid_in(judged, way)
        offer = offer_of_plan(paid, "now", pay=way, plannable=alike and known, note="")
        late = None if not known else offer.risk
        found.append(replace(
            offer, risk=late, meets=known and (offer.risk or 0.0) <= asked, lower_bound=None,
            allowed=way in (way_of(best.rented), *(one.pay for one in best.offers if one.allowed)),
        ))  # fmt: skip
    return found


def repriced(plan: Plan, servers: Sequence[ServerType]) -> Plan:
    """Plan with the prices of a catalogue for the types that it has too."""
    known = {server.name: server for server in servers}
    types = tuple(known.get(server.name, server) for server in plan.servers)
    return plan if types == plan.servers else replace(plan, servers=types)


def paid_in(plan: Plan, way: str) -> Plan:
    """Plan paid in a way, its servers unchanged, or by the hour where they are resized."""
    if plan.types_by_hour is None:
        listed = 24 * sum(kind.dollars_per_hour for kind in plan.types)
        return all_day(replace(plan, rented=(), paid=None, cost_per_day=listed), way)
    if way == way_of(plan.rented):
        return plan
    return by_hour(plan, way, Terms())


def option_row(offer: Offer, over_bound: float | None) -> dict[str, Any]:
    """Row of an offer, with what it costs over the bound that holds for it."""
    known = over_bound is not None and offer.lower_bound is not None
    return {
        "offer": offer.name,
        "label": offer.label,
        "pay": offer.pay,
        "payLabel": LABELS[offer.pay],
        "monthlyRate": offer.cost_per_day * DAYS_A_MONTH,
        "monthlyRateLow": offer.low_cost_per_day * DAYS_A_MONTH,
        "monthlyRateHigh": offer.high_cost_per_day * DAYS_A_MONTH,
        "dueAtStart": offer.upfront,
        "lowerBoundMonthlyRate": (offer.lower_bound or 0.0) * DAYS_A_MONTH if known else None,
        "costOverLowerBound": over_bound,
        "nodeCount": offer.servers,
        "nodePools": pool_rows(offer),
        "overloadShare": offer.overload,
        "worstDayOverloadShare": offer.risk,
        "worstWeekday": offer.worst_day or None,
        "bytesMovedPerDay": offer.bytes_moved_per_day,
        "serversPerRequest": offer.servers_a_request,
        "targetUtilization": offer.utilisation or None,
        "meetsRisk": offer.meets,
        "isAllowed": offer.allowed,
        "canBePlanned": offer.plannable,
        "recommended": offer.recommended,
        "note": offer.note,
    }


def pool_rows(offer: Offer) -> list[dict[str, Any]]:
    """Servers of an offer that are alike; nodes times their hourly rate times 730 add up to its monthly rate."""
    return [
        {"type": kind, "pay": way, "nodeCount": count, "hourlyRatePerNode": cost / 24}
        for kind, way, count, cost in offer.pools
    ]


def action_sentences(plan: Plan, current: Plan | None, name: str = "plan.json") -> list[str]:
    """Say what to do, in order: rent and load, or what leads from the plan in force to the new one."""
    if not len(plan):
        return []
    if current is None:
        first = f"rent {_pool(plan)} and load {how_many(len(plan.partitions), 'partition')}"
        hourly = ", in the size of each hour" if plan.extras.get("resizes") else ""
        return [
            f"{first}, {bytes_text(float(plan.bytes.sum()))}, as {name} says{hourly}; on each, "
            f"dtoss serve --store STORE --plan {name} --server N --peers peers.toml."
        ]
    try:
        listed = actions(plan, current)
    except InfeasibleError as error:
        return [f"no order of moves is possible: {error}."]
    return [f"{action}." for action in listed] or ["nothing: the plan in force is this plan."]


def _pool(plan: Plan) -> str:
    kinds = [kind.name for kind in plan.types]
    return ", ".join(f"{kinds.count(name)} {name}" for name in dict.fromkeys(kinds))


_PRICES = {
    "list": "list prices", "reserved": "prices reserved for a year", "reserved-3y": "prices reserved for 3 years",
    "spot": "spot prices",
}  # fmt: skip
"""What the page calls the prices of a way to pay."""


def prices(offer: Mapping[str, Any], date: str) -> str:
    """Name the prices at which an offer is priced, and of what day they are."""
    ways = dict.fromkeys(pool["pay"] for pool in offer["nodePools"]) or {"list": None}
    words = " and ".join(_PRICES[way] for way in sorted(ways, key=list(_PRICES).index))
    return f"{words} of {date or 'unstated date'}"


_MOST_KINDS = 3


def kinds(offer: Mapping[str, Any]) -> str:
    """Name the types of an offer and how many there are of each; nothing where they change or are many."""
    counts: dict[str, int] = {}
    for pool in offer["nodePools"]:
        counts[pool["type"]] = counts.get(pool["type"], 0) + pool["nodeCount"]
    if not counts or len(counts) > _MOST_KINDS or "changes of type" in offer["note"]:
        return ""
    return f" ({', '.join(f'{count} {kind}' for kind, count in counts.items())})"


def payment_text(offer: Mapping[str, Any]) -> str:
    """Say how an offer is paid, where that is not by the list."""
    counts: dict[str, int] = {}
    for pool in offer["nodePools"]:
        counts[pool["pay"]] = counts.get(pool["pay"], 0) + pool["nodeCount"]
    if not set(counts) - {"list"}:
        return "" if offer["pay"] == "list" or counts else f", {LABELS[offer['pay']]}"
    if len(counts) == 1:
        return f", {LABELS[next(iter(counts))]}"
    words = LABELS | {"list": "at the list price", "spot": "at the spot price"}
    return ", " + " and ".join(f"{count} {words[way]}" for way, count in counts.items())


def risk_sentence(offer: Mapping[str, Any]) -> str:
    """Say what share of the requests comes too late: of the worst weekday where weekdays are known, else of all."""
    late = offer["worstDayOverloadShare"]
    if late is None:
        return "how many requests come late is not known"
    text = f"{per_cent(late)} of the requests expected late"
    return text if offer["worstWeekday"] is None else f"{text} on {offer['worstWeekday']}s, the worst weekday"


def range_sentence(offer: Mapping[str, Any]) -> str:
    """Say between what the cost would lie had other days been observed; nothing where it is sure."""
    low, high = dollars(offer["monthlyRateLow"]), dollars(offer["monthlyRateHigh"])
    return "" if low == high else f"Had other days been observed, it would be {low} to {high}."


def safer_sentence(safer: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """Say what a safer offer costs, how many requests are late, and how to get it."""
    late = safer["worstDayOverloadShare"]
    kept = max(late, wanted_risk(chosen["worstDayOverloadShare"]) or 0.0)
    rented = f"{how_many(safer['nodeCount'], 'server')}{kinds(safer)}{payment_text(safer)}"
    return (
        f"{dollars(safer['monthlyRate'])} a month for {rented}, "
        f"{per_cent(late)} late (dtoss plan --offer auto --risk {per_cent_kept(kept)})"
    )


PAYING = {
    "list": "paying the list price", "reserved": "reserving for a year", "reserved-3y": "reserving for 3 years",
    "spot": "paying spot prices",
}  # fmt: skip
"""Ways to pay, as what saves."""


def saves(what: str, saved: float, against: str) -> str:
    """Say what something saves, or costs, a month against something else."""
    if abs(saved) < 0.005:
        return f"{what} saves nothing {against}"
    return f"{what} {'saves' if saved > 0 else 'costs'} {dollars(abs(saved))} a month {against}"
