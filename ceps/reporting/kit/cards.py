"""Cards: a figure with its name and a few facts, and steps: what to do in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Card:
    """One card."""

    title: str
    figure: str
    unit: str = ""  # What stands small behind it, such as "a month"
    facts: Sequence[tuple[str, str]] = ()  # Names and values below
    why: str = ""  # A sentence at its end, or nothing
    kind: str = ""  # "chosen" (the one to take), "dim" (only to compare with), or ""
    badge: str = ""  # A word or two in its corner


_LONG = 9  # signs of a figure from which on it is written smaller, so that it stays on its line


def cards(items: Sequence[Card]) -> str:
    """Return cards side by side where there is room, below one another where there is not."""
    return f'<div class="cards">{"".join(_card(item) for item in items)}</div>\n' if items else ""


def _card(card: Card) -> str:
    unit = f" <small>{escape(card.unit)}</small>" if card.unit else ""
    badge = f'<span class="badge">{escape(card.badge)}</span>' if card.badge else ""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in card.facts)
    kind = f"card {card.kind}".strip()
    size = "figure long" if len(card.figure) > _LONG else "figure"
    return (
        f'<div class="{kind}">{badge}<h2>{escape(card.title)}</h2><p class="{size}">{escape(card.figure)}{unit}</p>'
        + (f"<dl>{facts}</dl>" if facts else "")
        + (f'<p class="why">{escape(card.why)}</p>' if card.why else "")
        + "</div>"
    )


def steps(first: str, rest: Sequence[str] = (), more: int = 0) -> str:
    """Return what to do: `first` as a sentence, the `rest` numbered from 2, and how many `more` are not shown."""
    shown = "".join(f"<li>{escape(text)}</li>" for text in rest)
    tail = f'<p class="quiet">and {more:,} more {"steps" if more > 1 else "step"}</p>' if more else ""
    listed = f'<ol start="2">{shown}</ol>' if shown else ""
    return f'<div class="next"><p id="next"><strong>Next:</strong> {escape(first)}</p>{listed}{tail}</div>\n'
