"""The report's charts as plotly figures in plain dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ceps.plans import Floats, Ints, Plan
from ceps.reporting.report import Report
from ceps.texts import how_many

Figure = dict[str, Any]

COLOURS = (
    "#2f6fb0", "#e0803a", "#3f9a62", "#8a63b5", "#c2514f", "#5aa7b8", "#b59a3a", "#77838f", "#d87fae", "#53736a",
    "#94b85a", "#a0603c",
)  # fmt: skip
_MOST_HEAT = 120  # servers in a heat map; of more, the busiest
_MOST_CURVES = 4  # servers with load curves
_MOST_BANDS = 8  # partitions up to which each has a band of its own
_MAP_WIDTH = 760  # pixels
_PART = 4  # hours of a part of the day
_FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif", "size": 13, "color": "#1d2733"}
_QUIET = "#c3ccd6"
_STRONG = "#2f6fb0"
_HEAT = [[0.0, "#f6f8fa"], [0.25, "#cfe0ef"], [0.5, "#7fb0d8"], [0.75, "#2f6fb0"], [0.95, "#143d6b"], [1.0, "#b3261e"]]


def hours(slots: int, slot_seconds: int) -> list[float]:
    """Hour at which each slot begins."""
    return [slot * slot_seconds / 3600 for slot in range(slots)]


def costs(report: Report) -> Figure:
    """Bars: dollars a day of each method, with the lower bound as a line."""
    rows = [row for row in report.numbers["methods"] if row["dailyRate"] is not None][::-1]
    best = report.numbers["lowerBoundDailyRate"]
    most = max([row["dailyRate"] for row in rows], default=1.0)
    shown = min(most, 6 * max(best, 1e-9)) * 1.16
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [row["label"] for row in rows],
        "x": [row["dailyRate"] for row in rows],
        "text": [_bar_text(row, shown) for row in rows],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": [_STRONG if row["recommended"] else _QUIET for row in rows]},
        "hovertemplate": "%{y}<br>%{x:.2f} dollars a day<extra></extra>",
    }
    layout = _layout(60 + 34 * len(rows), left=330, right=90)
    layout["xaxis"] = _axis("dollars a day, modelled", range=[0, shown])
    layout["yaxis"] = {"automargin": True, "ticksuffix": "  "}
    layout["shapes"] = [_line(best)]
    layout["annotations"] = [
        {
            "x": best, "y": 1.0, "yref": "paper", "yanchor": "bottom", "showarrow": False,
            "text": f"lower bound of a fixed fleet {best:.2f}", "font": {"size": 12, "color": "#b3261e"},
        }
    ]  # fmt: skip
    return {"data": [bars], "layout": layout}


def _bar_text(row: Mapping[str, Any], shown: float) -> str:
    text = f"{row['dailyRate']:.2f}"
    if row["overloadShare"] >= 1e-5:
        text += f"  ({100 * row['overloadShare']:.2g} % overload)"
    return text if row["dailyRate"] <= shown else f"{text} >"


def heat(plan: Plan, title: str) -> Figure:
    """Heat map of utilisation, servers by slots; 1 is a fully busy server."""
    order = np.argsort(-plan.peaks, kind="stable")[:_MOST_HEAT]
    order = order[np.argsort(plan.server_ids[order], kind="stable")]
    names = [f"{plan.server_ids[k]} · {plan.types[k].name}" for k in order]
    trace = {
        "type": "heatmap",
        "z": np.round(plan.utilisation_by_slot[order], 3).tolist(),
        "x": hours(plan.loads.shape[1], plan.slot_seconds),
        "y": names,
        "zmin": 0,
        "zmax": 1.0,
        "colorscale": _HEAT,
        "colorbar": {"title": {"text": "busy", "side": "right"}, "tickformat": ".0%", "thickness": 12, "len": 0.9},
        "hovertemplate": "server %{y}<br>%{x:.2f} h<br>%{z:.1%} busy<extra></extra>",
    }
    layout = _layout(max(150, min(90 + 22 * len(order), 620)), left=130, right=20, top=34)
    layout["title"] = {"text": title, "font": {"size": 14}, "x": 0, "xref": "paper", "xanchor": "left"}
    layout["xaxis"] = _axis(
        f"hour ({plan.time_zone})", dtick=3 if plan.loads.shape[1] * plan.slot_seconds < 90_000 else 24
    )
    layout["yaxis"] = {"autorange": "reversed", "type": "category", "automargin": True, "showgrid": False}
    return {"data": [trace], "layout": layout}


def curves(report: Report) -> list[Figure]:
    """Load of the busiest servers, stacked by partition."""
    plan, patterns = report.recommended, report.patterns
    if patterns is None or not len(plan):
        return []
    rows = {number: row for row, number in enumerate(patterns.partitions.tolist())}
    scale = plan.growth / plan.copies
    x = hours(plan.loads.shape[1], plan.slot_seconds)
    figures = []
    for k in np.argsort(-plan.peaks / plan.capacity, kind="stable")[:_MOST_CURVES]:
        members = [rows[number] for number in plan.partitions[plan.members(k)].tolist()]
        loads = patterns.loads[members] * scale
        bands = _bands(loads, patterns.partitions[members], x)
        traces = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": x,
                "y": np.round(values, 3).tolist(),
                "stackgroup": "one",
                "line": {"width": 0.4, "color": COLOURS[number % len(COLOURS)]},
                "fillcolor": COLOURS[number % len(COLOURS)],
                "hovertemplate": name + "<br>%{x:.2f} h: %{y:.1f} requests/s<extra></extra>",
            }
            for number, name, values in bands
        ]
        capacity = float(plan.capacity[k])
        layout = _layout(250, left=70, right=170, top=34)
        text = f"server {plan.server_ids[k]} ({plan.types[k].name}), {how_many(len(members), 'partition')}"
        layout["title"] = {"text": text, "font": {"size": 14}, "x": 0, "xref": "paper", "xanchor": "left"}
        layout["xaxis"] = _axis(f"hour ({plan.time_zone})", dtick=3 if x[-1] < 24 else 24)
        layout["yaxis"] = _axis("requests/s", range=[0, capacity * 1.06])
        layout["legend"] = {"x": 1.01, "y": 1, "font": {"size": 11}, "traceorder": "reversed"}
        layout["shapes"] = [_level(capacity, "#b3261e", "solid"), _level(capacity * plan.utilisation, "#b3261e", "dot")]
        figures.append({"data": traces, "layout": layout})
    return figures


def _bands(loads: Floats, numbers: Ints, x: Sequence[float]) -> list[tuple[int, str, Floats]]:
    """One band a partition, largest peak first; of many partitions, one for each part of the day they peak in.

    With the number of its colour; a part of the day has the same colour on every server.
    """
    if len(loads) <= _MOST_BANDS:
        order = np.argsort(-loads.max(axis=1), kind="stable")
        return [(place, f"partition {numbers[i]}", loads[i]) for place, i in enumerate(order)]
    part = (np.array(x)[loads.argmax(axis=1)] % 24 // _PART).astype(int)
    return [
        (
            p,
            f"{int((part == p).sum())} busiest {p * _PART}-{(p + 1) * _PART} h",
            loads[part == p].sum(axis=0),
        )
        for p in range(24 // _PART)
        if (part == p).any()
    ]


def against_utilisation(report: Report) -> Figure | None:
    """Cost and lower bound against target utilisation, with the expected overload."""
    points = report.what_if
    if not points:
        return None
    x = [point.utilisation for point in points]
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "name": "plan", "x": x,
            "y": [point.cost_per_day for point in points], "line": {"color": _STRONG, "width": 2.5, "shape": "linear"},
            "marker": {"size": 8},
            "text": [f"{100 * point.overload:.2g} % expected overload" for point in points],
            "hovertemplate": "u = %{x:.2f}: %{y:.2f} dollars a day<br>%{text}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines", "name": "lower bound", "x": x,
            "y": [point.lower_bound for point in points], "line": {"color": "#b3261e", "width": 1.5, "dash": "dash"},
        },
    ]  # fmt: skip
    layout = _layout(270, left=70, right=30)
    layout["xaxis"] = _axis("target utilisation u", tickformat=".0%")
    layout["yaxis"] = _axis("dollars a day", rangemode="tozero")
    layout["legend"] = {"x": 0.02, "y": 0.08}
    layout["shapes"] = [_line(report.recommended.utilisation, "#77838f")]
    return {"data": data, "layout": layout}


def region_map(report: Report) -> Figure | None:
    """Map: the region (or place) of each partition in the colour of its server; None without either."""
    plan = report.recommended
    if not len(plan):
        return None
    figure = _polygons(report) if report.regions else _points(report)
    if figure is None:
        return None
    west, south, east, north = _view(report)
    ratio = 1 / max(float(np.cos(np.radians((south + north) / 2))), 0.2)
    height = _MAP_WIDTH * ratio * (north - south) / (east - west)
    layout = _layout(int(min(max(height, 180), 520)) + 60, left=60, right=960 - 60 - _MAP_WIDTH, top=10)
    layout["xaxis"] = _axis("longitude", zeroline=False, range=[west, east], constrain="domain")
    layout["yaxis"] = _axis(
        "latitude", zeroline=False, range=[south, north], constrain="domain", scaleanchor="x", scaleratio=ratio
    )
    layout["legend"] = {"font": {"size": 11}, "itemsizing": "constant"}
    layout["showlegend"] = len(plan) <= 24
    return {"data": figure, "layout": layout}


def _view(report: Report) -> tuple[float, float, float, float]:
    """West, south, east and north of what the map shows: where partitions are, with a margin, or all regions."""
    if report.patterns is not None and report.patterns.positions is not None:
        places = report.patterns.positions
    else:
        rings = [np.asarray(ring, dtype=np.float64) for shape in report.regions.values() for ring in shape]
        places = np.concatenate([np.zeros((0, 2)), *rings])
    low, high = places.min(axis=0), places.max(axis=0)
    on_earth = (np.abs(places) <= (360.0, 90.0)).all()
    margin = np.maximum(0.08 * (high - low), 0.2)
    low, high = low - margin, high + margin
    if on_earth:
        low, high = np.maximum(low, (-180.0, -90.0)), np.minimum(high, (180.0, 90.0))
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _polygons(report: Report) -> list[dict[str, Any]]:
    plan = report.recommended
    traces = []
    for k in range(len(plan) - plan.spare):
        lon: list[float | None] = []
        lat: list[float | None] = []
        for number in plan.partitions[plan.server_of == k].tolist():
            for ring in report.regions.get(number, ()):
                corners = np.round(np.asarray(ring, dtype=np.float64), 4)
                lon += [*corners[:, 0].tolist(), float(corners[0, 0]), None]
                lat += [*corners[:, 1].tolist(), float(corners[0, 1]), None]
        if not lon:
            continue
        colour = COLOURS[k % len(COLOURS)]
        traces.append(
            {
                "type": "scatter", "mode": "lines", "fill": "toself", "x": lon, "y": lat, "name": _name(plan, k),
                "line": {"width": 0.5, "color": "#ffffff"}, "fillcolor": colour, "hoverinfo": "name",
            }
        )  # fmt: skip
    return traces


def _points(report: Report) -> list[dict[str, Any]] | None:
    plan, patterns = report.recommended, report.patterns
    if patterns is None or patterns.positions is None:
        return None
    rows = {number: row for row, number in enumerate(patterns.partitions.tolist())}
    traces = []
    size = 4 + 10 * np.sqrt(patterns.loads.max(axis=1) / max(patterns.loads.max(initial=0.0), 1e-300))
    for k in range(len(plan) - plan.spare):
        numbers = plan.partitions[plan.server_of == k].tolist()
        members = [rows[number] for number in numbers]
        where = np.round(patterns.positions[members], 4)
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": where[:, 0].tolist(), "y": where[:, 1].tolist(),
                "name": _name(plan, k), "text": [f"partition {number}" for number in numbers],
                "marker": {
                    "size": np.round(size[members], 1).tolist(), "color": COLOURS[k % len(COLOURS)],
                    "line": {"width": 0.5, "color": "#ffffff"},
                },
                "hovertemplate": "%{text}<br>%{x:.2f}, %{y:.2f}<extra>" + _name(plan, k) + "</extra>",
            }
        )  # fmt: skip
    return traces


def moved(report: Report) -> Figure | None:
    """Bars: share of the stored bytes that changing over moves once, and that autoscaling moves every day."""
    stored = report.numbers["bytesStored"]
    if not stored:
        return None
    bars: list[tuple[str, float]] = []
    if report.numbers["shareMovedFromCurrent"] is not None:
        bars.append(("changing over, once", report.numbers["shareMovedFromCurrent"]))
    bars += [
        (f"{row['label'].split(',')[0]}, every day", row["bytesMovedPerDay"] / stored)
        for row in report.numbers["methods"]
        if row["method"] == "gp-aas"
    ]
    if not bars:
        return None
    trace = {
        "type": "bar", "orientation": "h", "y": [name for name, _ in bars], "x": [value for _, value in bars],
        "text": [f"{value:.1%}" if value < 2 else f"{value:.1f} times all" for _, value in bars],
        "textposition": "outside", "cliponaxis": False,
        "marker": {"color": [_STRONG if number == 0 else _QUIET for number in range(len(bars))]},
    }  # fmt: skip
    layout = _layout(90 + 34 * len(bars), left=330, right=90)
    most = max(value for _, value in bars)
    layout["xaxis"] = _axis("bytes moved over bytes stored", tickformat=".0%", range=[0, max(most, 0.01) * 1.15])
    layout["yaxis"] = {"automargin": True, "autorange": "reversed", "ticksuffix": "  "}
    return {"data": [trace], "layout": layout}


def _name(plan: Plan, k: int) -> str:
    return f"server {plan.server_ids[k]}"


def _layout(height: int, left: int = 60, right: int = 30, top: int = 24) -> dict[str, Any]:
    return {
        "height": height,
        "width": 960,
        "margin": {"l": left, "r": right, "t": top, "b": 46},
        "font": dict(_FONT),
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "showlegend": True,
        "bargap": 0.35,
        "hoverlabel": {"font": {"size": 12}},
    } | ({"showlegend": False} if left > 300 else {})


def _axis(title: str, **more: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 8, "font": {"size": 12.5}},
        "gridcolor": "#e9edf2",
        "linecolor": "#c3ccd6",
        **more,
    }


def _line(x: float, colour: str = "#b3261e") -> dict[str, Any]:
    return {
        "type": "line", "x0": x, "x1": x, "yref": "paper", "y0": 0, "y1": 1,
        "line": {"color": colour, "width": 1.5, "dash": "dash"}, "layer": "below",
    }  # fmt: skip


def _level(y: float, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y,
        "line": {"color": colour, "width": 1.5, "dash": dash},
    }  # fmt: skip


def all_figures(report: Report) -> Sequence[tuple[str, Figure]]:
    """Every figure with the name of its place on the page, in the page's order."""
    found: list[tuple[str, Figure | None]] = [("costs", costs(report))]
    if report.current is not None:
        found.append(("before", heat(report.current, f"now: {how_many(len(report.current), 'server')}")))
    found.append(("after", heat(report.recommended, f"recommended: {how_many(len(report.recommended), 'server')}")))
    found.append(("map", region_map(report)))
    found += [(f"curve{number}", figure) for number, figure in enumerate(curves(report))]
    found += [("utilisation", against_utilisation(report)), ("moved", moved(report))]
    return [(name, figure) for name, figure in found if figure is not None]
