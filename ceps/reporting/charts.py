"""What the report's charts show: a plan's loads, places, costs and moves, drawn by the kit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ceps.model.number_text import dollars, how_many, per_cent
from ceps.model.patterns import DAY, Patterns, hour_slices
from ceps.model.variation import WEEKDAYS
from ceps.plan.plans import Floats, Ints, Plan
from ceps.reporting.kit.html_page import SERIES_LIGHT, series
from ceps.reporting.kit.maps import Ground, crowded_view, map_chart, maps, whole_view
from ceps.reporting.kit.svg_charts import (
    Bar,
    Curve,
    Tick,
    bars,
    curves,
    dots,
    legend,
    nice,
    shade_legend,
    shades,
    short,
)
from ceps.reporting.report import Report

_MOST_ROWS = 32  # servers in a chart of shades; of more, the fullest
_MOST_CURVES = len(SERIES_LIGHT)
_MOST_POINTS = 336  # of one curve


def loads_on(plan: Plan, patterns: Patterns) -> Floats:
    """float64 (N, T), requests/s on each server of a plan when partitions are asked as these patterns say."""
    row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
    loads = patterns.loads[[row[number] for number in plan.partitions.tolist()]] * (plan.growth / plan.copies)
    found = np.zeros((len(plan), patterns.slots))
    for copy in range(plan.copies):
        np.add.at(found, plan.replicas[:, copy], loads)
    return found


def busy_hours(plan: Plan, weekdays: Sequence[Patterns]) -> tuple[Floats, bool]:
    """float64 (N, hours), largest share of its capacity that each server uses in each hour, and whether of a week.

    The week is that of the plan itself, or seven patterns of weekdays put in a row; else the hours are of a day.
    """
    capacity = np.maximum(plan.capacity_by_slot, 1e-300)
    parts = [plan.loads]
    if plan.loads.shape[1] * plan.slot_seconds == DAY and sorted(day.weekday or 0 for day in weekdays) == [*range(7)]:
        parts = [loads_on(plan, day) for day in sorted(weekdays, key=lambda day: day.weekday or 0)]
    busy = np.concatenate([loads / capacity for loads in parts], axis=1)
    slices = hour_slices(busy.shape[1], plan.slot_seconds)
    return np.column_stack([busy[:, part].max(axis=1) for part in slices]), len(slices) == 168


def _hours_across(week: bool) -> list[Tick]:
    if not week:
        return [Tick(hour / 24, f"{hour}", False, hour % 6 != 0) for hour in range(0, 25, 3)]
    middles = [Tick((day + 0.5) / 7, name[:3], False) for day, name in enumerate(WEEKDAYS)]
    return [*middles, *(Tick(day / 7, "") for day in range(1, 7))]


def colours_of(plan: Plan) -> Ints:
    """int64 (N,), number of each server's colour: their order, or where there are many, the fullest first."""
    if len(plan) <= _MOST_CURVES:
        return np.arange(len(plan))
    rank = np.empty(len(plan), dtype=np.int64)
    rank[_fullest(plan)] = np.arange(len(plan))
    return rank


def _fullest(plan: Plan) -> Ints:
    return np.argsort(-plan.utilisation_by_slot.max(axis=1), kind="stable")


def server_name(plan: Plan, k: int) -> str:
    """Name of a server: its number and type."""
    return f"server {plan.server_ids[k]} ({plan.types[k].name})"


def server_legend(plan: Plan) -> str:
    """Name the colours of servers, once for all charts; of many servers, the fullest."""
    colours = colours_of(plan)
    shown = sorted(range(len(plan)), key=lambda k: int(colours[k]))[:_MOST_CURVES]
    entries = [(server_name(plan, k), series(int(colours[k])), "") for k in shown if k < len(plan) - plan.spare]
    if len(plan) - plan.spare > len(entries):
        entries.append(("the other servers, by turns in the same colours", "var(--paper)", ""))
    return legend(entries) if len(plan) > plan.spare else ""


def busy_charts(report: Report) -> str:
    """Shades by hour: the fullest server of each weekday, where weekdays are known, and each server."""
    plan = report.recommended
    if not len(plan):
        return ""
    busy, week = busy_hours(plan, report.weekdays)
    parts = []
    if week:
        fullest = busy.max(axis=0).reshape(7, 24)
        worst = int(fullest.max(axis=1).argmax())
        label = (
            f"The fullest server by weekday and hour: {WEEKDAYS[worst]} is the fullest, "
            f"with {per_cent(fullest[worst].max())} of a server's capacity at {int(fullest[worst].argmax())} h."
        )
        drawn = shades(label, WEEKDAYS, fullest, _hours_across(False), row=24)
        parts.append(_captioned("The fullest server of each hour", drawn))
    order = _fullest(plan)[:_MOST_ROWS]
    order = order[np.argsort(plan.server_ids[order], kind="stable")]
    names = [f"server {number}" for number in plan.server_ids[order].tolist()]
    over = int((busy.max(axis=1) > 1 + 1e-9).sum())
    period = "week" if week else "day"
    label = f"How busy {how_many(len(order), 'server')} are in each hour of the {period}: " + (
        f"{how_many(over, 'server')} above full capacity at times." if over else "none is above its full capacity."
    )
    which = "Each server" if len(order) == len(plan) else f"The {len(order)} fullest of {how_many(len(plan), 'server')}"
    row = 26 if len(order) <= 8 else 18 if len(order) <= 20 else 13
    drawn = shades(label, names, busy[order], _hours_across(week), row=row)
    parts.append(_captioned(f"{which}, by hour of the {period}", drawn))
    return "".join(parts) + shade_legend()


def _captioned(text: str, chart: str) -> str:
    return f"<figure><figcaption>{text}</figcaption>{chart}</figure>"


def load_charts(report: Report) -> str:
    """Two charts: all requests below what is rented, and the share of its capacity that each server uses."""
    plan = report.recommended
    if not len(plan):
        return ""
    week = plan.loads.shape[1] * plan.slot_seconds > DAY
    across = _hours_across(week)
    capacity = plan.capacity_by_slot
    total, rented = _thin(plan.loads.sum(axis=0)), _thin(capacity.sum(axis=0))
    most = float(max(total.max(), rented.max()))
    up = nice(most)
    label = (
        f"All requests through the {'week' if week else 'day'}: {short(float(total.min()))} to "
        f"{short(float(total.max()))} requests a second; servers answer {short(float(rented.max()))}."
    )
    drawn = curves(
        label,
        [Curve("requests", total, 0, "area"), Curve("rented capacity", rented, style="limit")],
        up[-1],
        across,
        [Tick(value / up[-1], short(value)) for value in up],
    )
    key = legend([("all requests", series(0), ""), ("what is rented can answer", "var(--limit)", "line")])
    first = _captioned("All requests, requests a second", drawn + key)
    return f'<div class="pair">{first}{_each_server(plan, capacity, across)}</div>'


def _each_server(plan: Plan, capacity: Floats, across: Sequence[Tick]) -> str:
    colours = colours_of(plan)
    shown = [k for k in _fullest(plan).tolist() if k < len(plan) - plan.spare][:_MOST_CURVES]
    busy = plan.loads / np.maximum(capacity, 1e-300)
    lines = [Curve(server_name(plan, k), _thin(busy[k]), int(colours[k])) for k in reversed(shown)]
    lines += [Curve("full", np.ones(2), style="limit"), Curve("target", np.full(2, plan.utilisation), style="dashed")]
    most = max(1.1, float(busy.max(initial=0.0)) * 1.03)
    up = [Tick(value / most, f"{100 * value:.0f} %") for value in (0, 0.25, 0.5, 0.75, 1.0)]
    label = (
        f"Share of its capacity that each server uses: at most {per_cent(float(busy.max(initial=0.0)))}, "
        f"with a target of {per_cent(plan.utilisation)}."
    )
    which = "Each server" if len(shown) == len(plan) - plan.spare else f"The {len(shown)} fullest servers"
    target = f"target, {per_cent(plan.utilisation)}"
    key = legend([("full capacity", "var(--limit)", "line"), (target, "var(--limit)", "line dashed")])
    return _captioned(f"{which}, share of capacity", curves(label, lines, most, across, up) + key)


def _thin(values: Floats) -> Floats:
    """At most `_MOST_POINTS` values: the largest of each stretch."""
    step = -(-len(values) // _MOST_POINTS)
    if step <= 1:
        return values
    return np.maximum.reduceat(values, np.arange(0, len(values), step))


def map_charts(report: Report) -> str:
    """Map all partitions and, where many lie close together, of that place from near."""
    plan = report.recommended
    ground = _ground(report)
    view = None if ground is None else whole_view(ground)
    if ground is None or view is None or not len(plan):
        return ""
    what = (
        f"{how_many(len(plan.partitions), 'partition')} in the colours of {how_many(len(plan) - plan.spare, 'server')}"
    )
    place = "x {:g} to {:g}, y {:g} to {:g}"
    if ground.on_earth:
        place = "longitude {:.1f} to {:.1f}, latitude {:.1f} to {:.1f}"
    label = f"Map of {what}, {place.format(view[0], view[2], view[1], view[3])}."
    near = crowded_view(ground, view)
    whole = map_chart(label, ground, view, caption="All partitions")
    if near is None:
        return maps(whole)
    detail = f"Map of the densest place, {place.format(near[0], near[2], near[1], near[3])}."
    caption = "Where they lie closest together"
    return maps(whole, map_chart(detail, ground, near, caption=caption, most_bytes=20_000, tallest=350))


def _ground(report: Report) -> Ground | None:
    plan, patterns = report.recommended, report.patterns
    places = weights = None
    if patterns is not None and patterns.positions is not None:
        row = {number: place for place, number in enumerate(patterns.partitions.tolist())}
        rows = [row[number] for number in plan.partitions.tolist()]
        places, weights = patterns.positions[rows], patterns.loads[rows].max(axis=1)
    if not report.regions and places is None:
        return None
    areas = [
        [np.asarray(ring, dtype=np.float64) for ring in report.regions.get(number, ())]
        for number in plan.partitions.tolist()
    ]
    points = places if places is not None else np.concatenate([np.zeros((1, 2)), *(r for area in areas for r in area)])
    return Ground(
        names=[f"{server_name(plan, k)}, {how_many(len(plan.members(k)), 'partition')}" for k in range(len(plan))],
        group_of=plan.server_of,
        areas=areas if report.regions else (),
        places=places,
        weights=np.zeros(len(plan.partitions)) if weights is None else weights,
        shores=report.shores,
        on_earth=bool((np.abs(points) <= (360.0, 90.0)).all()),
        colours=colours_of(plan),
    )


def cost_chart(report: Report) -> str:
    """Bars: dollars a month of each method, each crossed by the bound that holds for it."""
    rows = [row for row in report.numbers["methods"] if row["monthlyRate"] is not None]
    if len(rows) < 2:
        return ""
    shown = [
        Bar(
            row["label"].partition(" (")[0],
            row["monthlyRate"],
            dollars(row["monthlyRate"]),
            row["lowerBoundMonthlyRate"],
            row["recommended"],
        )
        for row in rows
    ]
    first, last = shown[0], shown[-1]
    label = f"Dollars a month of {len(shown)} ways, all at list prices: from {first.name} at {first.text} to "
    label += f"{last.name} at {last.text}."
    key = legend([("lower bound: no plan of its kind costs less", "var(--limit)", "line")])
    return _captioned("Dollars a month at list prices", bars(label, shown) + key)


def utilisation_chart(report: Report) -> str:
    """Dollars a month against the target utilisation: the bound, the plans that were made, and this plan."""
    points = report.numbers["costByTargetUtilization"]
    if len(points) < 2:
        return ""
    plan = report.recommended
    at = np.array([point["targetUtilization"] for point in points])
    bound = np.array([point["lowerBoundMonthlyRate"] for point in points])
    made = [point["monthlyRate"] for point in points]
    known = all(value is not None for value in made)
    lines = [Curve("lower bound", bound, style="bound")]
    if known:
        lines.insert(0, Curve("plans", np.array(made, dtype=np.float64), 0))
    most = max(float(bound.max()), plan.cost_per_month, *(value for value in made if value is not None))
    up = nice(most)
    across = [Tick((number + 0.5) / len(at), f"{100 * u:.0f} %", False, number % 2 == 1) for number, u in enumerate(at)]
    place = float(np.interp(plan.utilisation, at, (np.arange(len(at)) + 0.5) / len(at)))
    label = (
        f"Dollars a month against target utilisation: the bound falls from {dollars(bound[0])} at {per_cent(at[0])} to "
        f"{dollars(bound[-1])} at {per_cent(at[-1])}; this plan costs {dollars(plan.cost_per_month)} at "
        f"{per_cent(plan.utilisation)}."
    )
    chart = curves(
        label, lines, up[-1], across, [Tick(value / up[-1], f"${short(value)}") for value in up],
        points=[(place, plan.cost_per_month, f"this plan: {dollars(plan.cost_per_month)} a month")],
    )  # fmt: skip
    key = legend(
        [("this plan", "var(--accent)", "")]
        + ([("plans for other targets", series(0), "line")] if known else [])
        + [("lower bound of such plans, paid the same way", "var(--limit)", "line dashed")]
    )
    return _captioned("Dollars a month, by how full servers may be at their peak", chart + key)


def moved_chart(report: Report) -> str:
    """Dots on an axis of powers of ten: bytes that move once, and every day, over the bytes stored."""
    rows = report.numbers["moved"]
    if not rows:
        return ""
    shown = [(row["label"], row["share"], row["text"]) for row in rows]
    label = "Data moved over data stored: " + "; ".join(f"{name} {text}" for name, _, text in shown) + "."
    ticks = [(0.001, "0.1 %"), (0.01, "1 %"), (0.1, "10 %"), (1.0, "all"), (10.0, "10x")]
    if max(value for _, value, _ in shown) > 10:
        ticks.append((100.0, "100x"))
    return _captioned("Data moved over data stored; each line is ten times the one before", dots(label, shown, ticks))
