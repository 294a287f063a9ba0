"""The report as one self-contained HTML page: plotly's script inside, no network, fit for print."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from ceps.plans import bytes_text
from ceps.reporting.charts import Figure, all_figures
from ceps.reporting.report import Report
from ceps.texts import how_many

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: #1d2733;
  background: #f3f5f8; margin: 0; }
main { width: 1040px; margin: 0 auto; padding: 28px 40px 48px; background: #fff; }
header { display: flex; justify-content: space-between; align-items: baseline; border-bottom: 2px solid #1d2733;
  padding-bottom: 8px; margin-bottom: 22px; }
h1 { font-size: 23px; margin: 0; } h2 { font-size: 17px; margin: 34px 0 4px; }
header span, .about, footer { color: #5b6876; font-size: 13px; }
.about { margin: 0 0 8px; max-width: 90ch; }
.tiles { display: grid; grid-template-columns: 1.5fr 1fr 1fr 1fr; gap: 14px; }
.tile { border: 1px solid #dde3ea; border-radius: 8px; padding: 14px 16px; }
.tile.main { background: #eaf2fa; border-color: #b9d2e9; }
.tile b { display: block; font-size: 27px; line-height: 1.25; font-weight: 650; white-space: nowrap; }
.tile.main b { font-size: 33px; }
.tile small { color: #5b6876; font-size: 12.5px; display: block; line-height: 1.4; }
.notes { margin: 14px 0 0; padding: 0; list-style: none; }
.notes li { border-left: 4px solid #b9d2e9; background: #f6f9fc; padding: 7px 12px; margin-top: 8px; font-size: 14px; }
.notes li.warn { border-color: #e0803a; background: #fdf4ec; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; margin-top: 8px; }
th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid #e9edf2; }
th:first-child, td:first-child { text-align: left; } tr.on td { font-weight: 650; background: #eaf2fa; }
.chart { margin: 6px 0; overflow: hidden; }
footer { margin-top: 34px; border-top: 1px solid #dde3ea; padding-top: 10px; }
@page { size: A4; margin: 12mm 10mm; }
@media print {
  body { background: #fff; -webkit-print-color-adjust: exact; print-color-adjust: exact; zoom: .68; }
  main { width: 1040px; padding: 0; } .modebar { display: none !important; }
  .chart, .tile, tr, .notes li { break-inside: avoid; } h2, .about { break-after: avoid; }
  section.new { break-before: page; }
}
"""

_SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
for (const [name, figure] of Object.entries(figures)) {
  Plotly.newPlot(name, figure.data, figure.layout, {displayModeBar: false, responsive: false});
}
"""


def page(report: Report) -> str:
    """HTML text of the report.

    Raises
    ------
    ImportError
        plotly is not installed; the message says how to get it.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the HTML report needs plotly: pip install 'dtoss[report]'") from error
    figures = dict(all_figures(report))
    data = json.dumps(figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = [
        _head(report),
        _costs(figures),
        _table(report),
        _heat(report, figures),
        _map(figures),
        _curves(report, figures),
        _what_if(report, figures),
        _moved(report, figures),
        _foot(report),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Server cost report</title>\n'
        f'<meta name="viewport" content="width=1040"><style>{_STYLE}</style>\n'
        f"<script>{get_plotlyjs()}</script></head>\n<body><main>\n{''.join(parts)}</main>\n"
        f'<script type="application/json" id="figures">{data}</script>\n<script>{_SCRIPT}</script></body></html>\n'
    )


def _head(report: Report) -> str:
    n = report.numbers
    priced = f" at list prices of {escape(n['priceDate'])}" if n["priceDate"] else " at list prices of unstated date"
    tiles = []
    if n["monthlySavings"] is None:
        tiles.append(
            f'<div class="tile main"><small>cost a month, modelled{priced}</small>'
            f"<b>${n['recommendedMonthlyRate']:,.0f}</b><small>nothing to compare it with was given</small></div>"
        )
    else:
        word = "saved a month" if n["monthlySavings"] >= 0 else "more a month"
        tiles.append(
            f'<div class="tile main"><small>{word}, modelled{priced}</small>'
            f"<b>${abs(n['monthlySavings']):,.0f}</b><small>${n['currentMonthlyRate']:,.0f} now → "
            f"${n['recommendedMonthlyRate']:,.0f} recommended ({abs(n['monthlySavingsPercent'] or 0):.0f} % "
            f"{'less' if n['monthlySavings'] >= 0 else 'more'})</small></div>"
        )
    before = "" if n["currentNodeCount"] is None else f"{n['currentNodeCount']} now → "
    gap = 100 * (n["costOverLowerBound"] - 1)
    proven = (
        "no fleet that is fixed all day costs less: it is at the bound"
        if gap < 1e-6
        else f"{gap:.1f} % above the lower bound"
    )
    tiles += [
        f'<div class="tile"><small>cost a day</small><b>${n["recommendedDailyRate"]:,.2f}</b><small>{proven} '
        f"of ${n['lowerBoundDailyRate']:,.2f}</small></div>",
        f'<div class="tile"><small>servers</small><b>{n["recommendedNodeCount"]}</b>'
        f"<small>{before}{escape(_pools(n['recommendedNodePools']))}</small></div>",
        f'<div class="tile"><small>overload risk</small><b>{escape(n["performanceRiskName"])}</b><small>grade '
        f"{n['performanceRisk']} of 4: {_share(n['expectedOverloadShare'])} of requests expected above capacity, "
        f"from sampling noise alone</small></div>",
    ]
    return (
        f"<header><h1>Server cost report</h1><span>{how_many(n['partitions'], 'partition')}, "
        f"{bytes_text(n['bytesStored'])}, target utilisation {n['targetUtilization']:.0%}</span></header>"
        f'<div class="tiles">{"".join(tiles)}</div>{_notes(report)}'
    )


def _notes(report: Report) -> str:
    n = report.numbers
    notes = []
    if n["autoscalingNote"]:
        notes.append(("warn", n["autoscalingNote"]))
    hourly = next((row for row in n["methods"] if row["method"] == "hourly"), None)
    if hourly and hourly["dailyRate"] is not None and hourly["dailyRate"] < n["recommendedDailyRate"] * (1 - 1e-9):
        less = 100 * (1 - hourly["dailyRate"] / n["recommendedDailyRate"])
        notes.append(
            ("", f"Hourly types on fixed clusters would cost {hourly['dailyRate']:.2f} dollars a day, {less:.0f} % "
                 "less, if a server can be resized each hour without moving its data (network volumes).")
        )  # fmt: skip
    if n["currentMethod"] == "gp":
        notes.append(("", "“Now” is the usual grid, one contiguous cell a server at its best cell count; give your own "
                          "plan as current to compare with what you run."))  # fmt: skip
    text = "".join(f'<li class="{kind}">{escape(words)}</li>' for kind, words in notes)
    return f'<ul class="notes">{text}</ul>' if text else ""


def _costs(figures: dict[str, Figure]) -> str:
    return _section("Cost of each method", "On the same patterns, by the same price list.", [("costs", figures)])


def _table(report: Report) -> str:
    rows = []
    for row in report.numbers["methods"]:
        cost = "does not fit" if row["dailyRate"] is None else f"{row['dailyRate']:,.2f}"
        month = "" if row["monthlyRate"] is None else f"{row['monthlyRate']:,.0f}"
        ratio = "" if row["costOverLowerBound"] is None else f"{row['costOverLowerBound']:.3f}"
        rows.append(
            f'<tr class="{"on" if row["recommended"] else ""}"><td>{escape(row["label"])}</td><td>{cost}</td>'
            f"<td>{month}</td><td>{ratio}</td><td>{row['nodeCount']}</td><td>{_share(row['overloadShare'])}</td>"
            f"<td>{bytes_text(row['bytesMovedPerDay']) if row['bytesMovedPerDay'] else '-'}</td></tr>"
        )
    head = "<tr><th>method</th><th>$ a day</th><th>$ a month</th><th>over bound</th><th>servers</th>"
    return f"<table>{head}<th>overload</th><th>moved a day</th></tr>{''.join(rows)}</table>"


def _heat(report: Report, figures: dict[str, Figure]) -> str:
    n = report.numbers
    about = (
        f"Share of its full capacity that each server uses through the day; red is full. The recommended plan uses "
        f"{n['meanUtilization']:.0%} on average and {n['peakUtilization']:.0%} at the worst server's peak."
    )
    places: list[tuple[str, dict[str, Figure]]] = [(name, figures) for name in ("before", "after") if name in figures]
    return _section("How busy the servers are", about, places, new=True)


def _map(figures: dict[str, Figure]) -> str:
    if "map" not in figures:
        return ""
    about = "Partitions in the colour of their server. What one server holds need not lie together."
    return _section("Where the partitions are", about, [("map", figures)])


def _curves(report: Report, figures: dict[str, Figure]) -> str:
    names = [name for name in figures if name.startswith("curve")]
    if not names:
        return ""
    about = (
        "The servers with the fullest peaks, each partition a band: different busy hours fill one another's gaps. "
        "Solid red is full capacity, dotted the target."
    )
    return _section("Load of the busiest servers", about, [(name, figures) for name in names])


def _what_if(report: Report, figures: dict[str, Figure]) -> str:
    if "utilisation" not in figures:
        return ""
    about = "Planning closer to full capacity is cheaper and leaves less for days busier than the patterns."
    return _section("Cost against target utilisation", about, [("utilisation", figures)])


def _moved(report: Report, figures: dict[str, Figure]) -> str:
    n = report.numbers
    if "moved" not in figures:
        return ""
    about = "Bytes that travel between servers."
    if n["bytesMovedFromCurrent"] is not None:
        about = f"Changing over from what runs now moves {bytes_text(n['bytesMovedFromCurrent'])} once."
    return _section("Moved data", about, [("moved", figures)])


def _foot(report: Report) -> str:
    n = report.numbers
    source = f" Prices: {escape(n['priceSource'])}." if n["priceSource"] else ""
    return (
        f"<footer>Modelled, not billed: list price times rented hours for a month of {n['monthHours']} h, with the "
        f"requests of {how_many(n['daysObserved'], 'day')} observed, times in {escape(n['timeZone'])}.{source} Taxes, "
        f"discounts, network and volumes are not included. Overload risk assumes Poisson noise and no change of "
        "habits.</footer>"
    )


def _section(title: str, about: str, places: list[tuple[str, dict[str, Figure]]], new: bool = False) -> str:
    charts = "".join(
        f'<div class="chart" id="{name}" style="height:{_height(figures[name])}px"></div>' for name, figures in places
    )
    kind = ' class="new"' if new else ""
    return f'<section{kind}><h2>{escape(title)}</h2><p class="about">{escape(about)}</p>{charts}</section>\n'


def _height(figure: Figure) -> Any:
    return figure["layout"]["height"]


def _pools(pools: list[dict[str, Any]]) -> str:
    return ", ".join(f"{pool['nodeCount']} {pool['type']}" for pool in pools)


def _share(value: float) -> str:
    if value <= 0:
        return "0 %"
    return f"{100 * value:.2g} %" if value >= 1e-8 else "under 0.000001 %"
