"""The report: what a plan costs and saves, as one HTML page and as JSON and CSV with the same numbers.

Every dollar is modelled: list prices times rented hours, on the patterns given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.comparison import LABELS, Comparison, WhatIf, autoscaling_note, compare, what_if
from ceps.overload import overload_risk
from ceps.patterns import Patterns
from ceps.planning import plan as make_plan
from ceps.plans import DAYS_A_MONTH, Plan, diff, require_same_pivots
from ceps.problem import InfeasibleError

FORMAT = 1
"""Version of report.json."""


@dataclass(frozen=True, eq=False)
class Report:
    """All that the page shows.

    Parameters
    ----------
    recommended
        The plan that is recommended: the cheapest of those given.
    current
        What it is compared with, or None.
    plans
        All plans given, as given.
    comparison
        Every method's cost on the patterns, or None without patterns.
    what_if
        Cost against target utilisation; empty without patterns.
    numbers
        Content of report.json.
    patterns
        The patterns, or None.
    regions
        Polygons (v, 2) of lon and lat by partition number; empty if not given.
    """

    recommended: Plan
    current: Plan | None
    plans: tuple[Plan, ...]
    comparison: Comparison | None
    what_if: tuple[WhatIf, ...]
    numbers: Mapping[str, Any]
    patterns: Patterns | None
    regions: Mapping[int, Sequence[NDArray[np.float64]]]


def build_report(
    plans: Sequence[Plan],
    *,
    patterns: Patterns | None = None,
    current: Plan | None = None,
    regions: Mapping[int, Sequence[NDArray[np.float64]]] | None = None,
    seed: int = 0,
    time_limit: float | None = None,
) -> Report:
    """Gather the report's numbers.

    Parameters
    ----------
    plans
        One or several plans for the same partitions; the cheapest is recommended.
    patterns
        The patterns they were made from. With them, every competitor is priced, cost is shown against target
        utilisation, and load curves are split by partition.
    current
        What runs today. If not given: the dearest of several plans, else the grid (GP) on the patterns if they
        have positions, else nothing, and no savings are claimed.
    regions
        Polygons of each partition's region, arrays (v, 2) of lon and lat, by partition number.
    seed, time_limit
        Of the methods that are run here.

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
    comparison: Comparison | None = None
    points: tuple[WhatIf, ...] = ()
    if patterns is not None:
        require_same_pivots(best.pivots_hash, patterns.pivots_hash)
        if set(patterns.partitions.tolist()) != set(best.partitions.tolist()):
            raise ValueError("the patterns have other partitions than the plan; use the patterns it was made from")
        shared: dict[str, Any] = {"copies": best.copies, "growth": best.growth, "time_limit": time_limit}
        comparison = compare(patterns, None, best.servers, seed, best.utilisation, **shared)
        points = what_if(patterns, None, best.servers, seed, **shared)
    if current is None:
        current = _assumed_current(plans, best, patterns, seed)
    numbers = _numbers(best, current, plans, comparison, points)
    return Report(best, current, tuple(plans), comparison, points, numbers, patterns, regions or {})


def _assumed_current(plans: Sequence[Plan], best: Plan, patterns: Patterns | None, seed: int) -> Plan | None:
    if len(plans) > 1:
        return max(plans, key=lambda made: made.cost_per_day)
    if patterns is None or patterns.positions is None or best.method == "gp":
        return None
    try:
        return make_plan(
            patterns, None, best.servers, seed, best.utilisation, "gp", copies=best.copies, growth=best.growth
        )
    except InfeasibleError:
        return None


def _numbers(
    best: Plan, current: Plan | None, plans: Sequence[Plan], comparison: Comparison | None, points: Sequence[WhatIf]
) -> dict[str, Any]:
    risk = overload_risk(best)
    monthly = best.cost_per_month
    now = None if current is None else current.cost_per_month
    savings = None if now is None else now - monthly
    note = "" if comparison is None else autoscaling_note(comparison, best.cost_per_day)
    moved = None if current is None or current.copies != best.copies else diff(best, current)
    prices = sorted({(server.date, server.source) for server in best.servers})
    return {
        "format": FORMAT,
        "kind": "ceps report",
        "modelled": True,
        "currency": "USD",
        "monthHours": 730,
        "priceDate": ", ".join(sorted({date for date, _ in prices if date})),
        "priceSource": "; ".join(sorted({source for _, source in prices if source})),
        "recommendedMethod": best.method,
        "currentMethod": None if current is None else current.method,
        "monthlySavings": savings,
        "monthlySavingsPercent": None if not now or savings is None else 100 * savings / now,
        "currentMonthlyRate": now,
        "recommendedMonthlyRate": monthly,
        "currentNodeCount": None if current is None else len(current),
        "recommendedNodeCount": len(best),
        "currentNodePools": None if current is None else _pools(current),
        "recommendedNodePools": _pools(best),
        "recommendedDailyRate": best.cost_per_day,
        "lowerBoundDailyRate": best.lower_bound,
        "lowerBoundMonthlyRate": best.lower_bound * DAYS_A_MONTH,
        "costOverLowerBound": best.gap if np.isfinite(best.gap) else None,
        "targetUtilization": best.utilisation,
        "performanceRisk": risk.grade,
        "performanceRiskName": risk.name,
        "expectedOverloadShare": risk.overload,
        "peakUtilization": float((best.peaks / best.capacity).max(initial=0.0)) if len(best) else 0.0,
        "meanUtilization": float(best.loads.mean(axis=1).sum() / best.capacity.sum()) if len(best) else 0.0,
        "partitions": len(best.partitions),
        "copies": best.copies,
        "bytesStored": float(best.sizes.sum() * best.copies),
        "bytesMovedFromCurrent": None if moved is None else moved.bytes_moved,
        "shareMovedFromCurrent": None if moved is None else moved.share_moved,
        "autoscalingNote": note,
        "hourlyBoundDailyRate": None if comparison is None else comparison.hourly_bound,
        "methods": _method_rows(best, current, plans, comparison),
        "costByTargetUtilization": [
            {
                "targetUtilization": point.utilisation,
                "dailyRate": point.cost_per_day,
                "lowerBoundDailyRate": point.lower_bound,
                "nodeCount": point.servers,
                "expectedOverloadShare": point.overload,
            }
            for point in points
        ],
        "pivotsHash": best.pivots_hash,
        "timeZone": best.time_zone,
        "weekday": best.weekday,
        "daysObserved": best.days,
    }


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
    best: Plan, current: Plan | None, plans: Sequence[Plan], comparison: Comparison | None
) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for made in [*plans, *([] if current is None else [current])]:
        if made.method not in rows or made.cost_per_day < rows[made.method]["dailyRate"]:
            rows[made.method] = _method_row(made.method, made.cost_per_day, len(made), 0.0, 0.0)
    for other in comparison.rows if comparison is not None else ():
        if other.method not in rows:
            rows[other.method] = _method_row(
                other.method, other.cost_per_day, other.servers, other.overload, other.bytes_moved
            )
    for row in rows.values():
        row["costOverLowerBound"] = None if row["dailyRate"] is None else row["dailyRate"] / (best.lower_bound or 1.0)
        row["recommended"] = row["method"] == best.method
    return sorted(rows.values(), key=lambda row: (row["dailyRate"] is None, row["dailyRate"] or 0.0, row["method"]))


def _method_row(method: str, cost: float, servers: int, overload: float, moved: float) -> dict[str, Any]:
    finite = np.isfinite(cost)
    return {
        "method": method,
        "label": LABELS.get(method, method),
        "dailyRate": float(cost) if finite else None,
        "monthlyRate": float(cost) * DAYS_A_MONTH if finite else None,
        "nodeCount": servers,
        "overloadShare": float(overload),
        "bytesMovedPerDay": float(moved),
    }
