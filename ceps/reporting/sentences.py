"""What page and command say of offers, in the same words: what to rent, how it is paid, what is late, what is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ceps.model.number_text import dollars, how_many, per_cent, per_cent_kept
from ceps.offers.payment import LABELS
from ceps.plan.offer import wanted_risk

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
