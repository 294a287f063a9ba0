"""The report as one HTML page, made of the kit: the decision first, then what it rests on."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ceps.model.number_text import bytes_text, dollars, how_many, per_cent
from ceps.plan.offer import NAMES, NO_RISK
from ceps.plan.plans import Plan
from ceps.reporting import charts
from ceps.reporting.kit.html_page import Card, cards, document, fold, notes, section, steps, table, terms
from ceps.reporting.offer_rows import (
    PAYING,
    kinds,
    payment_text,
    prices,
    range_sentence,
    risk_sentence,
    safer_sentence,
    saves,
)
from ceps.reporting.realised import realised_section
from ceps.reporting.report import Report, build_report

_OFFERS = {
    "fixed": ("Fixed servers", ""),
    "hourly": ("Resized hourly", " resized hourly"),
    "mixed": ("Reserved and hourly", ""),
    "safer": ("Fixed servers, more room", ""),
    "now": ("What runs now", ""),
    "grid": ("Plain grid", ""),
    "autoscaling": ("Autoscaling", ", started and stopped as load changes"),
}
"""What the page calls placements: as the title of a card, and behind "Rent n servers"."""

_SENTENCES = {
    "fleet": "Fleets from the bound up, cheapest first; partitions are moved and swapped until one holds them.",
    "gain": "Merge what flattens peaks most, then dissolve the emptiest server.",
    "hourly": "Clusters that stay, on servers that change their type by the hour; no data moves.",
    "mixed": "Reserved servers for what is asked at all hours, and hourly ones for the rest.",
    "tv": "As the dissertation writes it: merge clusters of the smallest total variation first (CEPS-).",
    "tabu": "The same, then random single moves that are kept where they lower the cost (CEPS+).",
    "gp": "One contiguous cell of a grid a server, with the number of cells that costs least.",
    "gp-typical": "The same with the number of cells that most grids of its kind end up with.",
    "gp-r": "Partitions placed at random on the number of servers that costs least.",
    "gp-aas": "A grid that reacts: shrink when half empty for 30 minutes, split when full, merge when two fit one.",
    "gp-aas-slot": "The same, were servers billed by the slot instead of the started hour; no bound holds for it.",
}


def page(report: Report) -> str:
    """HTML text of the report; needs no script and no network."""
    return document(
        "Server cost report",
        _head(report),
        _first_screen(report),
        realised_section(report.numbers["realised"]),
        _busy(report),
        _servers(report),
        _utilisation(report),
        _moved(report),
        _methods(report),
        _foot(report),
    )


def _head(report: Report) -> str:
    n = report.numbers
    stored = f", {bytes_text(n['bytesStored'])}" if n["bytesStored"] else ""
    return (
        f"<header><h1>Server cost report</h1><span>{how_many(n['partitions'], 'partition')}{stored}, servers at most "
        f"{per_cent(n['targetUtilization'])} full as planned</span></header>\n"
    )


def _first_screen(report: Report) -> str:
    n = report.numbers
    chosen = n["offers"][0]
    priced = prices(chosen, n["priceDate"])
    basis = f"Modelled at {priced}, from the requests of {how_many(n['daysObserved'], report.period)}."
    if n["savingsAgainst"] and n["savingsAgainst"] != "now":
        basis += f" The comparison is with {n['savingsAgainst']}, not with your bill."
    more = [(name, text) for name, text in (
        ("range", range_sentence(chosen)), ("safer", _safer(n)), ("discount", discount_sentence(n)),
    ) if text]  # fmt: skip
    shown = [_offer_card(row, chosen["pay"]) for row in _card_rows(n)]
    told = "".join(f'<span id="{name}">{_unbroken(text)}</span> ' for name, text in more)
    return (
        f'<p class="lead"><span id="saving">{_unbroken(saving_sentence(report))};</span> '
        f'<span id="risk">{_unbroken(risk_sentence(chosen))}.</span></p>'
        f"{f'<p>{told.strip()}</p>' if told else ''}"
        f'<p class="quiet">{escape(basis)}</p>'
        f'{cards([*shown, *_compared_card(report)])}<p class="quiet">{escape(_MEANINGS)}</p>{_actions(report)}'
        f"{notes(_remarks(report))}"
    )


def _card_rows(numbers: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows that have a card: what is recommended, what is safer, and other placements in the same way to pay."""
    chosen, safer = numbers["offers"][0], numbers["saferOffer"]
    shown = [chosen, *([safer] if safer else [])]
    for row in numbers["offers"]:
        named = row["offer"] in ("grid", "now", *(other["offer"] for other in shown))
        alike = abs(row["monthlyRate"] - chosen["monthlyRate"]) <= 1e-9 * chosen["monthlyRate"]
        if not named and not alike and row["pay"] == chosen["pay"]:
            shown.append(row)
    return shown[:_MOST_CARDS]


_MOST_CARDS = 3
_MEANINGS = (
    "A request is late when it comes above a server's full capacity. Servers a request: how many one request touches, "
    "on average. A lower bound is what no plan of its kind, paid the same way, can cost less than. A plain grid gives "
    "each server one piece of the map."
)


def _unbroken(text: str) -> str:
    """Text for the page, no line of which ends between a number and its sign."""
    return re.sub(r"([\d.,]+ %)", r'<span class="together">\1</span>', escape(text))


def saving_sentence(report: Report) -> str:
    """Say what to rent, what that costs a month, and how much less that is than what it is compared with."""
    n = report.numbers
    chosen = n["offers"][0]
    phrase = _OFFERS.get(chosen["offer"], ("", ""))[1]
    verb = "Keep" if chosen["offer"] == "now" else "Rent"
    text = f"{verb} {how_many(chosen['nodeCount'], 'server')}{kinds(chosen)}{phrase}{payment_text(chosen)}"
    text += f": {dollars(chosen['monthlyRate'])} a month"
    if n["monthlySavings"] is None:
        return text
    percent = n["monthlySavingsPercent"] or 0.0
    than = n["savingsAgainst"]
    same = " paid the same way" if n["payment"] != "list" or n["discountMonthlySavings"] else ""
    if abs(percent) < 0.5:
        return f"{text}, about as much as {than}{same}"
    size = f"{abs(percent):.0f} %"
    if than == "now":
        return f"{text}, {size} {'less' if percent > 0 else 'more'} than now{same}"
    return f"{text}, {size} {'under' if percent > 0 else 'above'} {than}{same}"


def _safer(numbers: Mapping[str, Any]) -> str:
    chosen, safer = numbers["offers"][0], numbers["saferOffer"]
    if safer is not None:
        return f"Safer: {safer_sentence(safer, chosen)}."
    late = chosen["worstDayOverloadShare"]
    return "" if late is None or late < NO_RISK else "No safer offer was priced: dtoss plan --offer auto looks for one."


def discount_sentence(numbers: Mapping[str, Any]) -> str:
    """Say what placing saves and what paying otherwise saves, as two numbers; nothing where nothing is compared."""
    placed, discount = numbers["monthlySavings"], numbers["discountMonthlySavings"]
    if placed is None or discount is None:
        return ""
    against = "what runs" if numbers["savingsAgainst"] == "now" else numbers["savingsAgainst"]
    text = saves("Placing", placed, f"against {against} paid the same way")
    if abs(discount) < 0.005:
        return f"{text}."
    before = "how it is paid now" if numbers["savingsAgainst"] == "now" else "the list price"
    return f"{text}; {saves(PAYING[numbers['payment']], discount, f'against {before}')}."


def _offer_card(offer: Mapping[str, Any], pay: str) -> Card:
    badge = "recommended" if offer["recommended"] else ""
    if not offer["meetsRisk"] and offer["canBePlanned"]:
        badge = "late too often"
    kind = "chosen" if offer["recommended"] else ""
    return Card(
        _title(offer),
        dollars(offer["monthlyRate"]),
        "a month",
        _facts(offer, pay),
        _sentence(offer["note"]),
        kind,
        badge,
    )


def _title(offer: Mapping[str, Any]) -> str:
    """Return what the page calls a placement; its own label where that says more than its kind."""
    return _OFFERS[offer["offer"]][0] if offer["label"] == NAMES.get(offer["offer"]) else offer["label"].capitalize()


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}." if note else ""


def _facts(offer: Mapping[str, Any], pay: str) -> list[tuple[str, str]]:
    late = offer["worstDayOverloadShare"]
    facts = [("servers", f"{offer['nodeCount']:,}")]
    if offer["pay"] != pay:
        facts.append(("paid", offer["payLabel"]))
    if offer["dueAtStart"]:
        facts.append(("of it due at the start", dollars(offer["dueAtStart"])))
    if late is None:
        facts.append(("requests late", "not modelled"))
    else:
        facts.append(
            (f"late on {offer['worstWeekday']}s" if offer["worstWeekday"] else "requests late", per_cent(late))
        )
    facts.append(("data moved a day", bytes_text(offer["bytesMovedPerDay"]) if offer["bytesMovedPerDay"] else "none"))
    if offer["serversPerRequest"] is not None:
        facts.append(("servers a request", f"{offer['serversPerRequest']:.2f}"))
    if offer["costOverLowerBound"] is not None:
        facts.append(("above its lower bound", _above(offer["costOverLowerBound"])))
    return facts


def _above(ratio: float | None) -> str:
    return "" if ratio is None else "0 %, proved" if ratio < 1 + 1e-8 else per_cent(ratio - 1)


def _compared_card(report: Report) -> list[Card]:
    n = report.numbers
    if n["currentMonthlyRate"] is None:
        return []
    now = n["savingsAgainst"] == "now"
    saved = n["monthlySavings"]
    if saved > 0.005:
        text = f"The plan saves {dollars(saved)} a month against it."
    elif saved < -0.005:
        text = f"The plan costs {dollars(-saved)} more a month."
    else:
        text = "The plan costs as much."
    facts = [("servers", f"{n['currentNodeCount']:,}")]
    figure, discount = n["currentMonthlyRate"], n["discountMonthlySavings"]
    if now and abs(discount) >= 0.005:
        figure = n["currentPaidMonthlyRate"]
        facts.append(("paid as the plan is", dollars(n["currentMonthlyRate"])))
        text = f"The plan saves {dollars(n['totalMonthlySavings'])} a month: {dollars(saved)} by placing, "
        text += f"{dollars(discount)} by how it is paid."
    grid = next((row for row in n["offers"] if row["offer"] == "grid" and row["pay"] == n["payment"]), None)
    if grid is not None and n["savingsAgainst"] == "a plain grid":
        facts = _facts({**grid, "costOverLowerBound": None}, n["payment"])
    title = "Now" if now else n["savingsAgainst"].removeprefix("a ").removeprefix("the ").capitalize()
    if not now:
        text += f" This is against {n['savingsAgainst']}, not your bill."
        grid_only = n["savingsAgainst"] == "a plain grid"
        if grid_only and report.recommended.zones is not None:
            text += " It keeps nothing free for the loss of a zone."
        if grid_only and report.recommended.spare:
            text += " It has no spare server."
    return [Card(title, dollars(figure), "a month", facts, text, "" if now else "dim")]


_MOST_STEPS = 6


def _actions(report: Report) -> str:
    listed = report.numbers["actions"]
    if not listed:
        return ""
    return steps(listed[0], listed[1:_MOST_STEPS], max(len(listed) - _MOST_STEPS, 0))


def _remarks(report: Report) -> list[tuple[str, str]]:
    n = report.numbers
    found = [("warn", n["autoscalingNote"])] if n["autoscalingNote"] else []
    if n["advice"]:
        found.append(("", n["advice"]))
    chosen = n["offers"][0]
    for row in n["offers"]:
        scales = row["offer"] == "autoscaling" and row["pay"] == chosen["pay"]
        if scales and row["monthlyRate"] < chosen["monthlyRate"] * (1 - 1e-9):
            less = 1 - row["monthlyRate"] / chosen["monthlyRate"]
            found.append(
                ("warn", f"Autoscaling would be cheaper here: {dollars(row['monthlyRate'])} a month, {per_cent(less)} "
                         f"less, paid the same way. It would move {bytes_text(row['bytesMovedPerDay'])} a day. How "
                         "many requests it leaves late on busier days is not modelled.")
            )  # fmt: skip
    if n["recommendedOffer"] == "now":
        found.append(
            ("warn", f"What runs now costs less than this plan at no more risk, paid the way that is named. The plan "
                     f"costs {dollars(n['planMonthlyRate'])} a month; the charts below are of the plan.")
        )  # fmt: skip
        return found
    if n["recommendedOffer"] != n["planOffer"]:
        title = _OFFERS[n["planOffer"]][0].lower()
        found.append(
            ("warn", f"This plan is the offer of {title}, {dollars(n['planMonthlyRate'])} a month; so are the charts "
                     f"below. dtoss plan --offer {n['recommendedOffer']} makes the one that is recommended.")
        )  # fmt: skip
    return found


def _busy(report: Report) -> str:
    n = report.numbers
    about = (
        f"The share of its full capacity that each server uses. {per_cent(n['meanUtilization'])} on average, "
        f"{per_cent(n['peakUtilization'])} at the worst server's peak on the day that was planned."
    )
    return section("How busy the servers are", about, charts.busy_charts(report))


def _servers(report: Report) -> str:
    """Show loads and the map below one legend, since both are in the colours of servers."""
    about = (
        f"Requests through the {report.period}, times in {report.numbers['timeZone']}. What one server holds need not "
        "lie together: different busy hours fill one another's gaps."
    )
    drawn = (charts.load_charts(report), charts.map_charts(report))
    key = charts.server_legend(report.recommended) if any(drawn) else ""
    return section(f"Servers through the {report.period} and on the map", about, key, *drawn)


def _utilisation(report: Report) -> str:
    about = "Planning closer to full capacity is cheaper and leaves less for days busier than the patterns."
    return section("Cost against target utilisation", about, charts.utilisation_chart(report))


def _moved(report: Report) -> str:
    about = "Bytes that travel between servers."
    return section("Moved data", about, charts.moved_chart(report))


def _methods(report: Report) -> str:
    rows = report.numbers["methods"]
    offers = report.numbers["offers"]
    offered = table(
        "Each placement in each way to pay, on the same patterns, modelled",
        [
            "placement",
            "paid",
            "$ a month",
            "late on the worst day",
            "above its lower bound",
            "servers",
            "moved a day",
            "servers a request",
        ],
        [_offer_cells(row) for row in offers],
        text=[1],
        chosen=next((number for number, row in enumerate(offers) if row["recommended"]), -1),
    )
    head = ["method", "$ a month", "above its lower bound", "servers", "late on days like the pattern", "moved a day"]
    body = [
        [
            row["label"],
            "does not fit" if row["monthlyRate"] is None else dollars(row["monthlyRate"]).replace("$", ""),
            _above(row["costOverLowerBound"]),
            f"{row['nodeCount']:,}",
            per_cent(row["overloadShare"]),
            bytes_text(row["bytesMovedPerDay"]) if row["bytesMovedPerDay"] else "none",
        ]
        for row in rows
    ]
    chosen = next((number for number, row in enumerate(rows) if row["recommended"]), -1)
    told = [(row["label"], _SENTENCES[row["method"]]) for row in rows if row["method"] in _SENTENCES]
    return fold(
        "All that was compared",
        offered if len(offers) > 1 else "",
        table("What each method of placing costs, all at list prices, modelled", head, body, chosen=chosen),
        charts.cost_chart(report),
        terms(told),
    )


def _offer_cells(row: Mapping[str, Any]) -> list[str]:
    late, calls = row["worstDayOverloadShare"], row["serversPerRequest"]
    return [
        _title(row),
        row["payLabel"] + ("" if row["isAllowed"] else ", not allowed"),
        dollars(row["monthlyRate"]).replace("$", ""),
        "not modelled" if late is None else per_cent(late),
        _above(row["costOverLowerBound"]),
        f"{row['nodeCount']:,}",
        bytes_text(row["bytesMovedPerDay"]) if row["bytesMovedPerDay"] else "none",
        "" if calls is None else f"{calls:.2f}",
    ]


def _foot(report: Report) -> str:
    n = report.numbers
    source = f" Prices: {escape(n['priceSource'])}." if n["priceSource"] else ""
    priced = prices(n["offers"][0], n["priceDate"])
    return (
        f"<footer>Modelled, not billed: {escape(priced)} times rented hours for a month of {n['monthHours']} h, with "
        f"the requests of {how_many(n['daysObserved'], report.period)} observed, times in {escape(n['timeZone'])}."
        f"{source} "
        "Taxes, other discounts, network and volumes are not included.</footer>\n"
    )


def write_report(folder: str | Path, plans: Sequence[Plan], **options: Any) -> Path:
    """Write report.html, report.json and report.csv into `folder`; returns the path of the page.

    `options` are those of `build_report`. The page holds all that it shows and needs no network.

    Raises
    ------
    ValueError
        As `build_report`.
    """
    report = build_report(plans, **options)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    html = page(report)
    text = json.dumps(report.numbers, indent=1, allow_nan=False)
    (target / "report.json").write_text(text + "\n", encoding="utf-8")
    with (target / "report.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(report.numbers["methods"][0]))
        writer.writeheader()
        writer.writerows(report.numbers["methods"])
    (target / "report.html").write_text(html, encoding="utf-8")
    return target / "report.html"
