"""The report: what a plan costs and saves, as one HTML page and as JSON and CSV with the same numbers.

Every dollar is modelled: list prices times rented hours, on the patterns given. Figures are taken from the plan as it
is; only what is quick is priced here, and the methods of the papers where that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.offers.comparison import (
    LABELS,
    Comparison,
    WhatIf,
    autoscaling_note,
    bounds_by_utilisation,
    compare,
    what_if,
)
from ceps.offers.offer import Offer
from ceps.overload import overload_risk
from ceps.patterns import DAY, Patterns
from ceps.planning import plan as make_plan
from ceps.plans import DAYS_A_MONTH, Plan, bytes_text, diff, require_same_pivots
from ceps.problem import InfeasibleError
from ceps.reporting.options import action_sentences, offers_of, option_row, own_offer
from ceps.reporting.words import share

FORMAT = 2
"""Version of report.json."""

UTILISATIONS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Target utilisations at which the bound is shown."""

CHANGES_HOURLY = ("hourly", "gp-aas")
"""Methods whose fleet changes, by the hour at the most: no fixed fleet's bound holds for them."""

Rings = Sequence[NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Report:
    """All that the page shows.

    Parameters
    ----------
    recommended
        The plan that is recommended: the cheapest of those given.
    current
        The plan that it is compared with; None where there is none, or only its figures are known.
    plans
        All plans given, as given.
    comparison
        Cost of methods on the patterns, or None without patterns.
    numbers
        Content of report.json.
    patterns
        The patterns, or None.
    weekdays
        Patterns of single weekdays; empty if not given.
    regions
        Polygons (v, 2) of lon and lat by partition number; empty if not given.
    shores
        Rings (v, 2) of land; empty if not given.
    """

    recommended: Plan
    current: Plan | None
    plans: tuple[Plan, ...]
    comparison: Comparison | None
    numbers: Mapping[str, Any]
    patterns: Patterns | None
    weekdays: tuple[Patterns, ...]
    regions: Mapping[int, Rings]
    shores: Rings

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
    compared = _baseline(plans, best, current, patterns, seed)
    compared_method = None if compared is None else compared.method
    comparison: Comparison | None = None
    points: list[dict[str, Any]] = []
    if patterns is not None:
        shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth}
        limit: dict[str, Any] = {"time_limit": time_limit}
        wanted = None if methods else [name for name in ("gp",) if name not in (best.method, compared_method)]
        comparison = compare(patterns, None, best.servers, seed, best.utilisation, methods=wanted, **shared, **limit)
        made = (
            what_if(patterns, None, best.servers, seed, utilisations=UTILISATIONS, **shared, **limit) if methods else ()
        )
        points = _points(patterns, best, made)
    numbers = _numbers(best, compared, plans, comparison, points)
    before = None if compared is None else compared.plan
    return Report(
        best, before, tuple(plans), comparison, numbers, patterns, tuple(weekdays), regions or {}, tuple(shores)
    )


@dataclass(frozen=True, eq=False)
class Baseline:
    """What a plan is compared with: its method, dollars a day, servers, what it is called, and the plan where known."""

    method: str
    cost_per_day: float
    servers: int
    basis: str
    plan: Plan | None


def _baseline(
    plans: Sequence[Plan], best: Plan, current: Plan | None, patterns: Patterns | None, seed: int
) -> Baseline | None:
    """Find what the plan is compared with: "now" only where it was given, else the remembered grid, else a new one."""
    if current is not None:
        return Baseline(current.method, current.cost_per_day, len(current), "now", current)
    if len(plans) > 1:
        dear = max(plans, key=lambda made: made.cost_per_day)
        return Baseline(dear.method, dear.cost_per_day, len(dear), "the dearest plan given", dear)
    known = next((offer for offer in best.offers if offer.name == "grid"), None)
    if known is not None:
        return Baseline("gp", known.cost_per_day, known.servers, "a plain grid", None)
    if patterns is None or patterns.positions is None or best.method == "gp":
        return None
    try:
        shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth}
        grid = make_plan(patterns, None, best.servers, seed, best.utilisation, "gp", **shared)
    except InfeasibleError:
        return None
    return Baseline("gp", grid.cost_per_day, len(grid), "a plain grid", grid)


def _points(patterns: Patterns, best: Plan, made: Sequence[WhatIf]) -> list[dict[str, Any]]:
    """Bound, and where plans were made their cost, at each target utilisation at which every partition fits."""
    planned = {point.utilisation: point for point in made}
    shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth}
    points = []
    for target, bound in bounds_by_utilisation(patterns, best.servers, UTILISATIONS, **shared).items():
        point = planned.get(target)
        points.append(
            {
                "targetUtilization": target,
                "dailyRate": None if point is None else point.cost_per_day,
                "monthlyRate": None if point is None else point.cost_per_day * DAYS_A_MONTH,
                "lowerBoundDailyRate": bound,
                "lowerBoundMonthlyRate": bound * DAYS_A_MONTH,
                "nodeCount": None if point is None else point.servers,
                "expectedOverloadShare": None if point is None else point.overload,
            }
        )
    return points


def _numbers(
    best: Plan,
    compared: Baseline | None,
    plans: Sequence[Plan],
    comparison: Comparison | None,
    points: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    risk = best.risk or overload_risk(best)
    offers = offers_of(best)
    taken, own = offers[0], own_offer(best)
    monthly = taken.cost_per_day * DAYS_A_MONTH
    before = None if compared is None else compared.cost_per_day * DAYS_A_MONTH
    savings = None if before is None else before - monthly
    note = "" if comparison is None or best.offers else autoscaling_note(comparison, best.cost_per_day)
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
        "currentMethod": None if compared is None else compared.method,
        "savingsAgainst": None if compared is None else compared.basis,
        "monthlySavings": savings,
        "monthlySavingsPercent": None if not before or savings is None else 100 * savings / before,
        "currentMonthlyRate": before,
        "recommendedMonthlyRate": monthly,
        "currentNodeCount": None if compared is None else compared.servers,
        "recommendedNodeCount": taken.servers,
        "currentNodePools": None if compared is None or compared.plan is None else _pools(compared.plan),
        "recommendedNodePools": _pools(best),
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
        "advice": str(best.options.get("advice", {}).get("text", "")),
        "actions": action_sentences(best, now),
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


def _pools(made: Plan) -> list[dict[str, Any]]:
    counts = np.bincount(made.type_of, minlength=len(made.servers))
    return [
        {
            "type": server.name,
            "nodeCount": int(count),
            "hourlyRatePerNode": server.dollars_per_hour,
            "requestsPerSecond": server.requests_per_second,
        }
        for server, count in zip(made.servers, counts, strict=True)
        if count
    ]


def _method_rows(
    best: Plan, compared: Baseline | None, plans: Sequence[Plan], comparison: Comparison | None
) -> list[dict[str, Any]]:
    """Rows of methods, cheapest first: each of the plans, what they are compared with, and what was priced."""
    rows: dict[str, dict[str, Any]] = {}
    before = compared.plan if compared is not None else None
    for made in [*plans, *([] if before is None else [before])]:
        if made.method not in rows or made.cost_per_day < rows[made.method]["dailyRate"]:
            moved = made.extras.get("bytes_loaded", 0.0)
            rows[made.method] = _method_row(
                made.method, made.cost_per_day, len(made), made.overload, moved, made.lower_bound
            )
    for offer in best.offers:
        method = "gp" if offer.name == "grid" else offer.name
        if method not in rows and method not in ("fixed", "autoscaling"):
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
        saved = None if compared is None or row["dailyRate"] is None else compared.cost_per_day - row["dailyRate"]
        row["monthlySavings"] = None if saved is None else saved * DAYS_A_MONTH
        row["recommended"] = row["method"] == best.method
    return sorted(rows.values(), key=lambda row: (row["dailyRate"] is None, row["dailyRate"] or 0.0, row["method"]))


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
    daily = {offer.label.capitalize(): offer.bytes_moved_per_day for offer in offers if offer.bytes_moved_per_day}
    if not daily:
        priced = [row for row in rows if row["bytesMovedPerDay"] > 0 and row["method"] != "gp-aas-slot"]
        daily = {row["label"].split(",")[0]: row["bytesMovedPerDay"] for row in priced}
    found = [("Changing over, once", once)] if once else []
    found += [(f"{label}, every day", value) for label, value in daily.items()]
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
    return share(moved) if moved < 2 else f"{moved:,.1f} times all"
