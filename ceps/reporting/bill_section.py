"""What a time that has passed came to, in a report: a sentence, a table of servers, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from ceps.model.number_text import how_many, per_cent
from ceps.plan.plans import Plan
from ceps.reporting.kit.html_page import section, table
from ceps.reporting.realised import Bill, change_dollars, rentals, to_cents

SHOWN = 40
"""Servers that the table shows at the most."""


def bill_numbers(bill: Bill) -> dict[str, Any]:
    """Return the figures of a bill by the names that ``dtoss bill --json`` and report.json have for them."""
    zone = ZoneInfo(bill.plan.time_zone)
    dollars, best = float(bill.dollars.sum()), bill.hindsight_dollars
    return {
        "from": datetime.fromtimestamp(bill.since, zone).isoformat(),
        "to": datetime.fromtimestamp(bill.until, zone).isoformat(),
        "hours": bill.hours,
        "rate": dollars,
        "rented": [
            {"type": one.type, "prices": one.way, "hours": one.hours, "hourlyRate": one.price, "rate": one.dollars}
            for one in rentals(bill)
        ],
        "changesRate": change_dollars(bill),
        "requests": bill.requests,
        "plannedRequests": bill.planned_requests,
        "overloadShare": bill.late_share,
        "plannedOverloadShare": bill.planned_late_share,
        "ratePerMillion": dollars / bill.requests * 1e6 if bill.requests else None,
        "plannedRatePerMillion": dollars / bill.planned_requests * 1e6 if bill.planned_requests else None,
        "hindsightRate": best,
        "hindsightPrices": None if best is None else bill.hindsight_way,
        "planRateAtHindsightPrices": None if best is None else bill.beside_hindsight,
    }


def realised_numbers(bill: Bill) -> dict[str, Any]:
    """Return what report.json says of a bill: its figures, and the rows of the page's table."""
    columns, rows = server_rows(bill)
    return {**bill_numbers(bill), "columns": [*columns], "servers": [[*row] for row in rows]}


def realised_section(numbers: Mapping[str, Any] | None) -> str:
    """Return the part of the page about a time that has passed; empty where no log was given."""
    if numbers is None:
        return ""
    n = numbers
    begin, end = (datetime.fromisoformat(n[name]).strftime("%Y-%m-%d %H:%M") for name in ("from", "to"))
    about = (
        f"{begin} to {end}, by the servers' log: ${n['rate']:,.2f} for {n['requests']:,.0f} requests, "
        f"{_a_million(n['ratePerMillion'])}, where the plan expected {n['plannedRequests']:,.0f} and "
        f"{_a_million(n['plannedRatePerMillion'])}. {per_cent(n['overloadShare'])} of the requests came above a "
        f"server's capacity, {per_cent(n['plannedOverloadShare'])} were planned."
    )
    if n["hindsightRate"] is not None:
        about += (
            f" Fixed servers chosen with hindsight, filled to 100 %, would have cost ${n['hindsightRate']:,.2f} at "
            f"{n['hindsightPrices']} prices, at which the plan's cost ${n['planRateAtHindsightPrices']:,.2f}."
        )
    return section("What it came to", about, table("Servers in that time", n["columns"], n["servers"], text=(1,)))


def _a_million(rate: float | None) -> str:
    return "no request" if rate is None else f"${rate:,.2f} a million"


def server_rows(found: Bill) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names of the columns of a table of servers, and its rows; dollars sum to those of the last row."""
    made, late = found.plan, found.late(found.loads)
    busy, planned = found.busy, found.planned_busy
    cents = to_cents(found.dollars)
    names = ("server", "type", "busy at most", "planned", "on average", "planned", "above capacity", "$")
    rows: list[tuple[str, ...]] = [
        (
            str(number), _type(made, k), per_cent(busy[k].max(initial=0.0)), per_cent(planned[k].max(initial=0.0)),
            per_cent(found.mean(busy[k])), per_cent(found.mean(planned[k])), f"{late[k]:,.0f}", f"{cents[k]:,.2f}",
        )
        for k, number in enumerate(made.server_ids.tolist())
    ]  # fmt: skip
    if len(rows) > SHOWN:
        rest = (f"{late[SHOWN:].sum():,.0f}", f"{cents[SHOWN:].sum():,.2f}")
        rows = [*rows[:SHOWN], ("...", f"and {len(made) - SHOWN:,} more", *[""] * 4, *rest)]
    whole = found.capacity.sum(axis=0)
    total, expected = found.loads.sum(axis=0) / whole, found.planned.sum(axis=0) / whole
    rows.append(
        (
            "all", how_many(len(made), "server"), per_cent(total.max(initial=0.0)), per_cent(expected.max(initial=0.0)),
            per_cent(found.mean(total)), per_cent(found.mean(expected)), f"{late.sum():,.0f}", f"{cents.sum():,.2f}",
        )
    )  # fmt: skip
    return names, rows


def _type(made: Plan, k: int) -> str:
    """Return the type of a server: the largest of its hours, and that it is, where they differ."""
    resized = made.types_by_hour is not None and len(set(made.types_by_hour[k].tolist())) > 1
    return made.types[k].name + (" at most" if resized else "")
