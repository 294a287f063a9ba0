"""Where figures of a catalogue of servers are from: published, doubled, measured or assumed, and of what day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ceps.model.costs import KEYS
from ceps.model.number_text import how_many
from ceps.model.servers import COMMITTED, HOW, NEEDED, OPTIONAL, read_catalogue

STATED = (*NEEDED[1:], *OPTIONAL, *KEYS)
"""Fields of a block that have an origin."""

AGEING = ("requests_per_second", "dollars_per_hour", *COMMITTED)
"""Those that are no longer right after a while: prices, and what a program answers."""


@dataclass(frozen=True)
class Origin:
    """Where a figure is from."""

    how: str  # One of :data:`ceps.model.servers.HOW`; "" where that is not said
    source: str  # In words; "" where that is not said
    date: str  # Of what day (ISO 8601); "" where that is not said


@dataclass(frozen=True)
class Figure:
    """A figure of a catalogue."""

    server: str
    field: str
    value: Any  # As the file has it
    origin: Origin  # Where it is from


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a figure's origin."""

    kind: str  # "missing", "stale", or "odd" for what cannot be
    server: str
    field: str
    text: str  # What is wrong, and what to write


def figures_of(path: str | Path) -> tuple[Figure, ...]:
    """Return the figures of a catalogue with their origins, in the order of the file."""
    content = read_catalogue(path)
    found = []
    for block in content["server"]:
        for field in STATED:
            if field in block:
                found.append(Figure(str(block["name"]), field, block[field], _origin(field, block, content)))
    return tuple(found)


def _origin(field: str, block: Mapping[str, Any], content: Mapping[str, Any]) -> Origin:
    """Return the origin of a field: what the block says of it goes before what the file says, and that before none."""
    own, of_all = (_table(one.get("origins", {}).get(field, {})) for one in (block, content))
    parts = {}
    for part in ("how", "source", "date"):
        places = (own, of_all) if part == "how" else (own, of_all, block, content)
        parts[part] = next((str(place[part]) for place in places if place.get(part)), "")
    return Origin(**parts)


def _table(said: Any) -> Mapping[str, Any]:
    return {"how": said} if isinstance(said, str) else said


def findings_of(figures: Sequence[Figure], today: date, most_days: float) -> tuple[Finding, ...]:
    """Return what is missing, stale or odd, in the order of the figures. ``today``: the day."""
    found = []
    price = {one.server: one.value for one in figures if one.field == "dollars_per_hour"}
    for one in figures:
        origin = one.origin
        if not origin.how:
            text = f'how it is known is not said: write origins.{one.field} = "{HOW[0]}", or {", ".join(HOW[1:])}'
            found.append(Finding("missing", one.server, one.field, text))
        if not origin.source:
            found.append(Finding("missing", one.server, one.field, "its source is not said: write source = ..."))
        found += _of_day(one, today, most_days)
        if one.field in COMMITTED and one.value > price[one.server]:
            text = f"{one.value:g} is above the list's price of {price[one.server]:g}: nobody would take it"
            found.append(Finding("odd", one.server, one.field, text))
    return tuple(found)


def _of_day(one: Figure, today: date, most_days: float) -> list[Finding]:
    """Return what is wrong with the day of a figure."""
    said = one.origin.date
    try:
        day = date.fromisoformat(said)
    except ValueError:
        text = f"its day is {said!r}: write date = YYYY-MM-DD" if said else "its day is not said: write date = ..."
        return [Finding("missing", one.server, one.field, text)]
    old = today - day
    if old < timedelta(0):
        return [Finding("odd", one.server, one.field, f"it is of {day}, which is to come")]
    if one.field in AGEING and old.days > most_days:
        again = "measure" if one.origin.how == "measured" else "look"
        text = f"it is of {day}, {how_many(old.days, 'day')} ago, more than {most_days:,.6g}: {again} again"
        return [Finding("stale", one.server, one.field, text)]
    return []
