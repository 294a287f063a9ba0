"""The report: what a plan costs and saves, as one HTML page and as JSON and CSV with the same numbers.

Every dollar is modelled: list prices times rented hours, on the patterns given. Figures are taken from the plan as it
is; only what is quick is priced here, and the methods of the papers where that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.model.number_text import bytes_text, per_cent
from ceps.model.patterns import DAY, Patterns
from ceps.model.problem import InfeasibleError
from ceps.offers.comparison import (
    LABELS,
    PAPERS,
    Comparison,
    autoscaling_note,
    bounds_by_utilisation,
    compare,
    what_if,
)
from ceps.offers.paying import offer_of_plan
from ceps.offers.payment import LABELS as PAYMENTS
from ceps.offers.payment import at_base_prices, way_of, ways_of
from ceps.plan.offer import Offer, safer_than
from ceps.plan.overload import overload_risk
from ceps.plan.planning import plan as make_plan
from ceps.plan.plans import DAYS_A_MONTH, Plan, diff, require_same_pivots
from ceps.reporting.offer_rows import (
    action_sentences,
    offers_now,
    offers_of,
    option_row,
    own_offer,
    paid_in,
    pool_rows,
    repriced,
)
from ceps.reporting.realised import Bill, realised_numbers

FORMAT = 2
"""Version of report.json."""

UTILISATIONS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Target utilisations at which the bound is shown."""

CHANGES_HOURLY = ("hourly", "gp-aas")
"""Methods whose fleet changes, by the hour at the most: no fixed fleet's bound holds for them."""

Rings = Sequence[NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Report:
    """All that the page shows."""

    recommended: Plan  # The plan that is recommended: the cheapest of those given
    current: Plan | None  # The plan that it is compared with; None where there is none, or only its figures are known
    plans: tuple[Plan, ...]  # All plans given, as given
    comparison: Comparison | None  # Cost of methods on the patterns, or None without patterns
    numbers: Mapping[str, Any]
    patterns: Patterns | None  # The patterns, or None
    weekdays: tuple[Patterns, ...]  # Patterns of single weekdays; empty if not given
    regions: Mapping[int, Rings]  # Polygons (v, 2) of lon and lat by partition number; empty if not given
    shores: Rings  # Rings (v, 2) of land; empty if not given

    @property
    def period(self) -> str:
        """After what the plan's slots repeat: "week" or "day"."""
        return "week" if self.recommended.loads.shape[1] * self.recommended.slot_seconds > DAY else "day"


def build_report(
    plans: Sequence[Plan],
    *,
    patterns: Patterns | None = None,
    current: Plan | None = None,
    regions: Mapping[int, Rings] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    methods: bool = False,
    weekdays: Sequence[Patterns] = (),
    shores: Rings = (),
    names: Sequence[str] = (),
    bill: Bill | None = None,
) -> Report:
    """Gather the report's numbers.

    Parameters
    ----------
    plans
        One or several plans for the same partitions; the cheapest is recommended.
    patterns
        The patterns they were made from. With them, the plain grid is priced, bounds are shown against target
        utilisation, and the map has places.
    current
        What runs today. If not given, the plan is compared with the dearest of several plans, else with the grid
        (GP) on the patterns if they have positions, else with nothing, and no savings are claimed.
    regions
        Polygons of each partition's region, arrays (v, 2) of lon and lat, by partition number.
    seed, time_limit
        Of the methods that are run here.
    methods
        Price every method of the papers as well, which takes many times as long.
    weekdays
        Patterns of single weekdays with the same partitions and slots.
    shores
        Rings of land, arrays (v, 2) of lon and lat, drawn on the map.
    names
        Files of the plans, as the page is to call them.
    bill
        What the recommended plan came to in a time that has passed; None where that is not known.

    Raises
    ------
    ValueError
        No plan, or plans and patterns for different pivots or partitions.
    """
    if not plans:
        raise ValueError("no plan to report on; give at least one")
    best = min(plans, key=lambda made: made.cost_per_day)
    for other in [*plans, *([current] if current is not None else [])]:
        require_same_pivots(best.pivots_hash, other.pivots_hash)
    for given in [*([] if patterns is None else [patterns]), *weekdays]:
        require_same_pivots(best.pivots_hash, given.pivots_hash)
        if set(given.partitions.tolist()) != set(best.partitions.tolist()):
            raise ValueError("the patterns have other partitions than the plan; use the patterns it was made from")
    file = names[plans.index(best)] if names else "plan.json"
    now = [] if current is None else offers_now(current, best, patterns)
    offers = offers_of(best, now)
    compared = _baseline(plans, best, current, patterns, seed, offers, now)
    comparison: Comparison | None = None
    points: list[dict[str, Any]] = []
    if patterns is not None:
        shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth}
        limit: dict[str, Any] = {"time_limit": time_limit}
        known = {best.method, None if compared is None else compared.method}
        known |= {"gp-aas" for offer in best.offers if offer.name == "autoscaling"}
        wanted = [name for name in (PAPERS if methods else ("gp",)) if methods or name not in known]
        wanted = [name for name in wanted if name != "gp-aas" or name not in known]
        comparison = compare(patterns, None, best.servers, seed, best.utilisation, methods=wanted, **shared, **limit)
        points = _points(patterns, best, seed, methods, shared | limit)
    numbers = _numbers(best, compared, plans, comparison, points, offers, file)
    numbers["realised"] = None if bill is None else realised_numbers(bill)
    before = None if compared is None else compared.plan
    return Report(
        best, before, tuple(plans), comparison, numbers, patterns, tuple(weekdays), regions or {}, tuple(shores)
    )


@dataclass(frozen=True, eq=False)
class Baseline:
    """What a plan is compared with, at the same way to pay."""

    method: str
    basis: str  # What it is called
    same: Offer  # same, listed: it as an offer, paid as the plan is, and by the list
    listed: Offer
    paid: float  # Dollars a day as it is paid now; by the list where it is only a model
    plan: Plan | None  # Its plan, where known


def _baseline(
    plans: Sequence[Plan],
    best: Plan,
    current: Plan | None,
    patterns: Patterns | None,
    seed: int,
    offers: Sequence[Offer],
    now: Sequence[Offer],
) -> Baseline | None:
    """Find what the plan is compared with: "now" only where it was given, else the remembered grid, else a new one."""
    way = offers[0].pay
    if current is not None:
        return _in_both(current.method, "now", now, way, current.cost_per_day, current)
    if len(plans) > 1:
        dear = max(plans, key=lambda made: made.cost_per_day)
        return _in_both(
            dear.method, "the dearest plan given", _each_way("now", dear, best), way, dear.cost_per_day, dear
        )
    known = [offer for offer in best.offers if offer.name == "grid"]
    if known:
        return _in_both("gp", "a plain grid", known, way, None, None)
    if patterns is None or patterns.positions is None or best.method == "gp":
        return None
    try:
        shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth}
        grid = make_plan(patterns, None, best.servers, seed, best.utilisation, "gp", **shared)
    except InfeasibleError:
        return None
    return _in_both("gp", "a plain grid", _each_way("grid", grid, best), way, None, grid)


def _each_way(name: str, made: Plan, best: Plan) -> list[Offer]:
    priced = repriced(made, best.servers)
    return [offer_of_plan(paid_in(priced, way), name, pay=way) for way in ways_of(best.servers)]


def _in_both(
    method: str, basis: str, offers: Sequence[Offer], way: str, paid: float | None, plan: Plan | None
) -> Baseline:
    by_way = {offer.pay: offer for offer in offers}
    listed = by_way.get("list", offers[0])
    return Baseline(method, basis, by_way.get(way, listed), listed, listed.cost_per_day if paid is None else paid, plan)


def _points(
    patterns: Patterns, best: Plan, seed: int, methods: bool, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Bound of the plan's kind in its way to pay, and where plans were made their cost, at target utilisations.

    A mixed fleet has no curve: its bound is an integer program for each target.
    """
    way, fixed = way_of(best.rented), best.types_by_hour is None
    if not fixed and (best.method != "hourly" or way != "list"):
        return []
    servers = at_base_prices(best.servers, way)
    shared = {name: options[name] for name in ("copies", "growth")}
    made = what_if(patterns, None, servers, seed, utilisations=UTILISATIONS, **options) if methods and fixed else ()
    planned = {point.utilisation: point for point in made}
    targets = sorted({*UTILISATIONS, best.utilisation})
    bounds = bounds_by_utilisation(patterns, servers, targets, hourly=not fixed, **shared)
    if best.utilisation in bounds:
        bounds[best.utilisation] = max(bounds[best.utilisation], min(best.lower_bound, best.cost_per_day))
    points: list[dict[str, Any]] = []
    least = 0.0
    for target, bound in sorted(bounds.items(), reverse=True):
        least = max(least, bound)  # what no fuller plan undercuts, no emptier one does
        point = planned.get(target)
        points.append(
            {
                "targetUtilization": target,
                "dailyRate": None if point is None else point.cost_per_day,
                "monthlyRate": None if point is None else point.cost_per_day * DAYS_A_MONTH,
                "lowerBoundDailyRate": least,
                "lowerBoundMonthlyRate": least * DAYS_A_MONTH,
                "nodeCount": None if point is None else point.servers,
                "expectedOverloadShare": None if point is None else point.overload,
            }
        )
    return points[::-1]


def _numbers(
    best: Plan,
    compared: Baseline | None,
    plans: Sequence[Plan],
    comparison: Comparison | None,
    points: Sequence[Mapping[str, Any]],
    offers: Sequence[Offer],
    file: str,
) -> dict[str, Any]:
    risk = best.risk or overload_risk(best)
    taken, own = offers[0], own_offer(best)
    monthly = taken.cost_per_day * DAYS_A_MONTH
    before = None if compared is None else compared.same.cost_per_day * DAYS_A_MONTH
    paid = None if compared is None else compared.paid * DAYS_A_MONTH
    savings = None if before is None else before - monthly
    scales = any(offer.name == "autoscaling" for offer in offers)
    note = "" if comparison is None or scales else autoscaling_note(comparison, paid_in(best, "list").cost_per_day)
    safer = safer_than(offers, taken)
    now = compared.plan if compared is not None and compared.basis == "now" else None
    moved = None if now is None or now.copies != best.copies else diff(best, now)
    prices = sorted({(server.date, server.source) for server in best.servers})
    rows = _method_rows(best, compared, plans, comparison)
    return {
        "format": FORMAT,
        "kind": "ceps report",
        "modelled": True,
        "currency": "USD",
        "monthHours": 730,
        "priceDate": ", ".join(sorted({date for date, _ in prices if date})),
        "priceSource": "; ".join(sorted({source for _, source in prices if source})),
        "recommendedMethod": best.method,
        "recommendedOffer": taken.name,
        "planOffer": own.name,
        "planMonthlyRate": best.cost_per_month,
        "planFile": file,
        "payment": taken.pay,
        "paymentLabel": PAYMENTS[taken.pay],
        "dueAtStart": taken.upfront,
        "currentMethod": None if compared is None else compared.method,
        "savingsAgainst": None if compared is None else compared.basis,
        "monthlySavings": savings,
        "monthlySavingsPercent": None if not before or savings is None else 100 * savings / before,
        "currentMonthlyRate": before,
        "currentPaidMonthlyRate": paid,
        "currentListMonthlyRate": None if compared is None else compared.listed.cost_per_day * DAYS_A_MONTH,
        "discountMonthlySavings": None if before is None or paid is None else paid - before,
        "totalMonthlySavings": None if paid is None else paid - monthly,
        "recommendedMonthlyRate": monthly,
        "currentNodeCount": None if compared is None else compared.same.servers,
        "recommendedNodeCount": taken.servers,
        "currentNodePools": None if compared is None else pool_rows(compared.same),
        "recommendedNodePools": pool_rows(taken) or pool_rows(own),
        "recommendedDailyRate": taken.cost_per_day,
        "lowerBoundDailyRate": taken.lower_bound,
        "lowerBoundMonthlyRate": None if taken.lower_bound is None else taken.lower_bound * DAYS_A_MONTH,
        "costOverLowerBound": over_bound(taken.cost_per_day, taken.lower_bound),
        "targetUtilization": best.utilisation,
        "performanceRisk": risk.grade,
        "performanceRiskName": risk.name,
        "expectedOverloadShare": risk.overload,
        "worstWeekday": risk.worst_name or None,
        "worstDayOverloadShare": risk.worst,
        "serversPerRequest": best.servers_a_request,
        "peakUtilization": float(best.utilisation_by_slot.max(initial=0.0)),
        "meanUtilization": float(best.loads.sum() / max(float(best.capacity_by_slot.sum()), 1e-300)),
        "partitions": len(best.partitions),
        "copies": best.copies,
        "bytesStored": float(best.sizes.sum() * best.copies),
        "bytesMovedFromCurrent": None if moved is None else moved.bytes_moved,
        "shareMovedFromCurrent": None if moved is None else moved.share_moved,
        "autoscalingNote": note,
        "hourlyBoundDailyRate": None if comparison is None else comparison.hourly_bound,
        "offers": [option_row(offer, over_bound(offer.cost_per_day, offer.lower_bound)) for offer in offers],
        "saferOffer": None if safer is None else option_row(safer, over_bound(safer.cost_per_day, safer.lower_bound)),
        "advice": str(best.options.get("advice", {}).get("text", "")),
        "actions": action_sentences(best, now, file),
        "methods": rows,
        "moved": _moved(best, None if moved is None else moved.bytes_moved, rows, offers),
        "costByTargetUtilization": list(points),
        "pivotsHash": best.pivots_hash,
        "timeZone": best.time_zone,
        "weekday": best.weekday,
        "daysObserved": best.days,
    }


def over_bound(cost: float, bound: float | None) -> float | None:
    """Cost over a lower bound; None where there is none, where the bound is 0 but the cost is not, or the bound fails.

    What answers less than it is asked may cost less than a bound for plans that answer all. That is no ratio to show.

    Examples
    --------
    >>> over_bound(6.0, 5.0), over_bound(4.0, 5.0), over_bound(0.0, 0.0)
    (1.2, None, 1.0)
    """
    if bound is None or not np.isfinite(cost):
        return None
    if bound <= 0:
        return 1.0 if cost == 0 else None
    ratio = cost / bound
    return None if ratio < 1 - 1e-9 else max(ratio, 1.0)


def _method_rows(
    best: Plan, compared: Baseline | None, plans: Sequence[Plan], comparison: Comparison | None
) -> list[dict[str, Any]]:
    """Rows of methods, all by the list, cheapest first: the plans, what they are compared with, and what was priced."""
    rows: dict[str, dict[str, Any]] = {}
    before = compared.plan if compared is not None else None
    for paid in [*plans, *([] if before is None else [before])]:
        made = _at_list_prices(repriced(paid, best.servers))
        if made.method not in rows or made.cost_per_day < rows[made.method]["dailyRate"]:
            moved = made.extras.get("bytes_loaded", 0.0)
            rows[made.method] = _method_row(
                made.method, made.cost_per_day, len(made), made.overload, moved, made.lower_bound
            )
    for offer in best.offers:
        method = {"grid": "gp", "autoscaling": "gp-aas"}.get(offer.name, offer.name)
        if method not in rows and method not in ("fixed", "safer") and offer.pay == "list":
            figures = (offer.overload, offer.bytes_moved_per_day, offer.lower_bound)
            rows[method] = _method_row(method, offer.cost_per_day, offer.servers, *figures)
    for other in comparison.rows if comparison is not None else ():
        if other.method in rows or comparison is None:
            continue
        bound: float | None = comparison.lower_bound
        if other.method == "gp-aas-slot":
            bound = None
        elif other.method in CHANGES_HOURLY:
            bound = comparison.hourly_bound
        rows[other.method] = _method_row(
            other.method, other.cost_per_day, other.servers, other.overload, other.bytes_moved, bound
        )
    for row in rows.values():
        saved = None
        if compared is not None and row["dailyRate"] is not None:
            saved = compared.listed.cost_per_day - row["dailyRate"]
        row["monthlySavings"] = None if saved is None else saved * DAYS_A_MONTH
        row["recommended"] = row["method"] == best.method
    return sorted(rows.values(), key=lambda row: (row["dailyRate"] is None, row["dailyRate"] or 0.0, row["method"]))


def _at_list_prices(made: Plan) -> Plan:
    """Plan paid by the list, with the bound of that offer; 0 where it is not known."""
    paid, bound = paid_in(made, "list"), made.lower_bound
    if way_of(made.rented) != "list":
        alike = [offer.lower_bound for offer in made.offers if offer.pay == "list"
                 and np.isclose(offer.cost_per_day, paid.cost_per_day, rtol=1e-9)]  # fmt: skip
        bound = next((least for least in alike if least is not None), 0.0)
    return replace(paid, lower_bound=min(bound, paid.cost_per_day))


def _method_row(
    method: str, cost: float, servers: int, overload: float, moved: float, bound: float | None
) -> dict[str, Any]:
    finite = bool(np.isfinite(cost))
    ratio = over_bound(cost, bound)
    return {
        "method": method,
        "label": LABELS.get(method, method),
        "dailyRate": float(cost) if finite else None,
        "monthlyRate": float(cost) * DAYS_A_MONTH if finite else None,
        "lowerBoundMonthlyRate": None if ratio is None or bound is None else bound * DAYS_A_MONTH,
        "costOverLowerBound": ratio,
        "nodeCount": servers,
        "overloadShare": float(overload),
        "bytesMovedPerDay": float(moved),
    }


def _moved(
    best: Plan, once: float | None, rows: Sequence[Mapping[str, Any]], offers: Sequence[Offer]
) -> list[dict[str, Any]]:
    """List what moves, over what is stored: the change-over once, the rest daily; empty where nothing is stored."""
    stored = float(best.sizes.sum() * best.copies)
    if not stored:
        return []
    daily = {
        offer.label.capitalize(): offer.bytes_moved_per_day
        for offer in offers
        if offer.bytes_moved_per_day and offer.pay == offers[0].pay
    }
    if not daily:
        priced = [row for row in rows if row["bytesMovedPerDay"] > 0 and row["method"] != "gp-aas-slot"]
        daily = {row["label"].split(",")[0]: row["bytesMovedPerDay"] for row in priced}
    found = [("Changing over, once", once)] if once else []
    found += [(f"{label}, daily", value) for label, value in daily.items()]
    return [
        {
            "label": label,
            "bytes": value,
            "share": value / stored,
            "text": f"{bytes_text(value)}, {_times(value / stored)}",
        }
        for label, value in found
    ]


def _times(moved: float) -> str:
    return per_cent(moved) if moved < 2 else f"{moved:,.1f}x"
