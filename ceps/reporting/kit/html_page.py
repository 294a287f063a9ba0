"""A page: its frame, its style, its sections and folds, and its colours, light and dark.

Cards: a figure with its name and a few facts, and steps: what to do in order.

Tables with a caption, heads and scopes; numbers to the right, and sideways room on narrow screens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--ground); margin: 0; overflow-wrap: break-word; }
main { max-width: 1120px; margin: 0 auto; padding: 20px 36px 40px; background: var(--paper); }
header { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 24px;
  border-bottom: 2px solid var(--ink); padding-bottom: 6px; margin-bottom: 14px; }
h1 { font-size: 18px; margin: 0; } h2 { font-size: 19px; line-height: 1.3; margin: 40px 0 4px; }
.lead { font-size: 24px; line-height: 1.3; font-weight: 650; margin: 0 0 4px; max-width: 46em; text-wrap: balance; }
.quiet, header span, .about, footer, figcaption { color: var(--quiet); font-size: 14px; }
.quiet, .about, footer { max-width: 78ch; } .about { margin: 0 0 10px; }
figure { margin: 0 0 10px; } figcaption { margin: 0 0 4px; }
ul.notes { margin: 12px 0 0; padding: 0; list-style: none; font-size: 15px; }
ul.notes li { border-left: 4px solid var(--accent); background: var(--card); padding: 6px 12px; margin-top: 8px; }
ul.notes li.warn { border-color: var(--warn); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); gap: 12px; margin: 14px 0; }
.card { border: 1px solid var(--rule); border-radius: 8px; padding: 12px 16px; background: var(--card); }
.card.chosen { background: var(--chosen); border: 2px solid var(--accent); padding: 11px 15px; }
.card.dim { background: var(--paper); border-style: dashed; }
.card h2 { margin: 0; font-size: 15px; } .card.dim h2, .card.dim .figure { color: var(--quiet); }
.card .badge { color: var(--accent); font-size: 13px; font-weight: 650; float: right; margin-left: 8px; }
.card .figure { font-size: 26px; line-height: 1.25; font-weight: 650; margin: 0; }
.card .figure small { font-size: 14px; font-weight: 400; white-space: nowrap; }
.card .figure.long { font-size: 20px; } .together { white-space: nowrap; }
.card dl { display: grid; grid-template-columns: auto 1fr; gap: 1px 12px; margin: 6px 0 0; font-size: 14px; }
.card dt { color: var(--quiet); }
.card dd { margin: 0; text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.card p.why { font-size: 13.5px; color: var(--quiet); margin: 6px 0 0; line-height: 1.4; }
.next { border: 1px solid var(--rule); border-radius: 8px; padding: 10px 16px; margin: 0; }
.next p { margin: 0; } .next ol { margin: 6px 0 0; padding-left: 24px; font-size: 15px; }
.scroll { overflow-x: auto; } .scroll + .scroll { margin-top: 18px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
caption { text-align: left; color: var(--quiet); padding-bottom: 4px; }
th, td { text-align: right; padding: 4px 10px; border-bottom: 1px solid var(--rule); vertical-align: top;
  font-variant-numeric: tabular-nums; }
thead th { border-bottom: 1.5px solid var(--frame); vertical-align: bottom; }
tbody th { font-weight: 400; min-width: 11em; } th:first-child, td:first-child, .text { text-align: left; }
tr.chosen th, tr.chosen td { font-weight: 650; background: var(--chosen); }
details { border: 1px solid var(--rule); border-radius: 8px; padding: 8px 16px; margin-top: 26px; }
summary { font-weight: 650; cursor: pointer; } summary:focus-visible { outline: 3px solid var(--accent); }
details dt { font-weight: 650; margin-top: 8px; } details dd { margin: 0; }
svg { display: block; overflow: visible; width: 100%; } svg svg { overflow: hidden; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: var(--quiet); }
svg text.strong { fill: var(--ink); } svg text.limit { fill: var(--limit); } svg .end { text-anchor: end; }
svg .mid { text-anchor: middle; } .plot { padding: 8px 12px 26px 46px; } .plot.wide { padding-left: 96px; }
.plot.none { padding-left: 0; padding-right: 0; }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--frame); stroke-width: 1; }
.full { stroke: var(--limit); stroke-width: 1.5; } .dash { stroke-dasharray: 5 4; }
.curve { fill: none; stroke-width: 2; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.outlines path { fill: none; stroke-width: 1; vector-effect: non-scaling-stroke; }
.hair { fill: none; stroke-width: 1; vector-effect: non-scaling-stroke; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; margin: 4px 0 10px; padding: 0;
  font-size: 13px; color: var(--quiet); }
.legend i { display: inline-block; width: 22px; height: 10px; margin-right: 6px; border-radius: 2px; }
.legend i.line { height: 0; border-top: 3px solid; border-radius: 0; vertical-align: middle; }
.legend i.dashed { border-top-style: dashed; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 8px 32px; }
.maps { display: flex; flex-wrap: wrap; gap: 8px 32px; } .maps figure { min-width: min(260px, 100%); }
.map svg { border: 1px solid var(--frame); background: var(--sea); overflow: hidden; height: auto; }
.bar { height: 6px; border: 1px solid var(--ink); border-top: 0; margin: 5px 0 0; }
.scale { font-size: 12px; color: var(--quiet); }
footer { margin-top: 36px; border-top: 1px solid var(--rule); padding-top: 10px; }
@media (max-width: 1000px) { .cards { grid-template-columns: 1fr 1fr; } }
@media (max-width: 560px) {
  .cards { grid-template-columns: 1fr; }
  body { font-size: 15.5px; } main { padding: 12px 14px 28px; } .lead { font-size: 20px; } h2 { margin-top: 30px; }
  .wide-only { display: none; } .card { padding: 9px 12px; } .card.chosen { padding: 8px 11px; }
  .plot { padding-left: 40px; padding-right: 6px; } .plot.wide { padding-left: 74px; }
}
@page { size: A4; margin: 12mm 11mm; }
@media print {
  body { background: none; font-size: 12.5px; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  main { padding: 0; max-width: none; } h2 { margin-top: 24px; font-size: 16px; } .lead { font-size: 18px; }
  .card .figure { font-size: 19px; } .cards { grid-template-columns: 1fr 1fr; }
  .card dl, .card .figure small, table, .quiet, .about, figcaption, footer { font-size: 11.5px; }
  figure, .card, tr, .next, ul.notes li { break-inside: avoid; } h2, .about { break-after: avoid; }
  .scroll { overflow: visible; } .pair { grid-template-columns: 1fr 1fr; } .card, .card.chosen { padding: 8px 10px; }
  details::details-content { content-visibility: visible; height: auto; } .card dd { text-align: right; }
  summary { list-style: none; }
}
"""


def document(title: str, *parts: str, language: str = "en") -> str:
    """Return a whole HTML page: `parts` one after the other in its frame, nothing of it from elsewhere.

    The page forbids itself every request, so that it shows the same wherever it is opened.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        f'<!DOCTYPE html>\n<html lang="{language}"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{css()}{_STYLE}</style></head>\n<body><main>\n{''.join(parts)}</main></body></html>\n"
    )


def section(title: str, about: str, *parts: str) -> str:
    """Return a section of a page: its title, a sentence about it, and what it shows; empty where it shows nothing."""
    if not any(parts):
        return ""
    head = f"<section><h2>{escape(title)}</h2>"
    return f'{head}<p class="about">{escape(about)}</p>{"".join(parts)}</section>\n'


def fold(title: str, *parts: str) -> str:
    """Return a part of the page that is closed until it is asked for; on paper it is open, where browsers can."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>\n"


def notes(texts: list[tuple[str, str]]) -> str:
    """Return remarks, of (kind, text); of kind "warn" they stand out. Empty where there are none."""
    if not texts:
        return ""
    items = "".join(f"<li{' class=warn' if kind == 'warn' else ''}>{escape(text)}</li>" for kind, text in texts)
    return f'<ul class="notes">{items}</ul>\n'


def terms(pairs: list[tuple[str, str]]) -> str:
    """Return names and what they mean, as a list of definitions."""
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs) + "</dl>"


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


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, chosen: int = -1, text: Sequence[int] = ()
) -> str:
    """Return a table; the first column heads its rows.

    ``text``: columns, beside the first, that hold words and so begin at their left.
    """
    kinds = [' class="text"' if place in text else "" for place in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    body = []
    for number, row in enumerate(rows):
        first, *others = row
        cells = "".join(f"<td{kind}>{escape(value)}</td>" for value, kind in zip(others, kinds[1:], strict=True))
        mark = ' class="chosen"' if number == chosen else ""
        body.append(f'<tr{mark}><th scope="row">{escape(first)}</th>{cells}</tr>')
    # A region that scrolls sideways must be reached by keys.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(body)}</tbody></table></div>\n"
    )


_STEP_STYLE = """
.steps { border: 0; margin: 0; padding: 0; min-width: 0; } .steps legend { padding: 0; font-size: 14px; }
.steps > input { position: absolute; opacity: 0; }
.steps .track { display: flex; margin: 6px 0 10px; border-top: 3px solid var(--frame); }
.steps label { flex: 1 1 0; min-width: 0; padding: 8px 4px 4px 0; font-size: 13px; color: var(--quiet); cursor: pointer;
  position: relative; line-height: 1.3; }
.steps label::before { content: ""; position: absolute; top: -9px; left: 0; width: 11px; height: 11px;
  border-radius: 50%; background: var(--paper); border: 2px solid var(--frame); }
.steps .shown > div { display: none; }
@media (max-width: 560px) { .steps label span { display: none; } }
@media print { .steps .shown > div { display: block !important; } .steps .track { display: none; } }
"""


def step_through(name: str, title: str, steps: Sequence[tuple[str, str, str]], first: int = -1) -> str:
    """Return pictures of which one is shown at a time: a group of radio buttons that looks like a slider.

    Arrow keys go from one to the next. Empty where there are no steps; one step is shown as it is.
    """
    if len(steps) < 2:
        return "".join(html for _, _, html in steps)
    begin = first % len(steps)
    rules, inputs, marks, shown = [], [], [], []
    for number, (short, more, html) in enumerate(steps):
        key = f"{name}-{number}"
        ticked = " checked" if number == begin else ""
        inputs.append(f'<input type="radio" name="{escape(name)}" id="{key}"{ticked}>')
        tail = f"<span><br>{escape(more)}</span>" if more else ""
        marks.append(f'<label for="{key}">{escape(short)}{tail}</label>')
        shown.append(f'<div class="{key}">{html}</div>')
        rules.append(
            f"#{key}:checked ~ .shown > .{key} {{ display: block; }}\n"
            f"#{key}:checked ~ .track label[for={key}] {{ color: var(--ink); font-weight: 650; }}\n"
            f"#{key}:checked ~ .track label[for={key}]::before {{ background: var(--accent); "
            "border-color: var(--accent); }\n"
            f"#{key}:focus-visible ~ .track label[for={key}] {{ outline: 3px solid var(--accent); }}\n"
        )
    return (
        f"<style>{_STEP_STYLE}{''.join(rules)}</style>\n"
        f'<fieldset class="steps"><legend>{escape(title)}</legend>{"".join(inputs)}'
        f'<div class="track">{"".join(marks)}</div><div class="shown">{"".join(shown)}</div></fieldset>\n'
    )


LIGHT: Mapping[str, str] = {
    "ground": "#f2f4f7", "paper": "#ffffff", "card": "#f6f8fa", "chosen": "#e8f1fa", "ink": "#18222d",
    "quiet": "#515d6a", "rule": "#d3dae2", "frame": "#7a8694", "accent": "#1c5fa3", "limit": "#b3261e",
    "warn": "#8a4b08", "sea": "#eef2f6",
}  # fmt: skip
"""Colours by role on a light page: grounds, texts, rules and marks."""

DARK: Mapping[str, str] = {
    "ground": "#0d1217", "paper": "#151b22", "card": "#1b232c", "chosen": "#1a2b3d", "ink": "#e8edf2",
    "quiet": "#a9b4c0", "rule": "#323d49", "frame": "#788694", "accent": "#6fb1ee", "limit": "#ff8a80",
    "warn": "#f0b36b", "sea": "#10161c",
}  # fmt: skip
"""The same roles on a dark page."""

GROUNDS = ("ground", "paper", "card", "chosen")
TEXTS = ("ink", "quiet", "accent", "limit", "warn")
"""Roles that text is written in; each is read on each of `GROUNDS`."""

SERIES_LIGHT = (
    "#1f6fb2", "#c25a12", "#2a7d4f", "#8357bd", "#bf3d3a", "#17808f", "#82701a", "#66717c", "#b84a90", "#3f6558",
    "#567d1a", "#8b5330",
)  # fmt: skip
SERIES_DARK = (
    "#62a9e6", "#f0954f", "#5fc08a", "#b394e0", "#ef7f78", "#55c1d2", "#cdb74c", "#a9b4bf", "#e58cc4", "#8fb5a6",
    "#a5cf5c", "#c99068",
)  # fmt: skip
"""Colours of series, such as servers; a thirteenth series has that of the first."""

HEAT_LIGHT = ("#e3ebf3", "#bcd3e8", "#8ab4d9", "#4f8dc2", "#23659f", "#0f3c66", "#c4302b")
HEAT_DARK = ("#22303d", "#2b465e", "#2f6590", "#4189c0", "#6fb0e2", "#bfe0fb", "#ff8a65")
"""Shades of shares, from nothing to full, and one for more than full."""

HEAT_STEPS = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Shares at which the next shade begins; the last one begins above 1."""


def series(number: int) -> str:
    """Return the CSS colour of a series by its number, 0 or more."""
    return f"var(--s{number % len(SERIES_LIGHT)})"


def css() -> str:
    """Return the style sheet's variables: `--ink` and so on, `--s0` of series, `--h0` of shades; print is light."""
    light = _variables(LIGHT, SERIES_LIGHT, HEAT_LIGHT)
    dark = _variables(DARK, SERIES_DARK, HEAT_DARK)
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )


def _variables(roles: Mapping[str, str], marks: tuple[str, ...], shades: tuple[str, ...]) -> str:
    named = [
        *roles.items(),
        *((f"s{n}", c) for n, c in enumerate(marks)),
        *((f"h{n}", c) for n, c in enumerate(shades)),
    ]
    return " ".join(f"--{name}: {colour};" for name, colour in named)
