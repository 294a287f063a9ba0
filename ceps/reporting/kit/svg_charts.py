"""Charts as inline SVG: curves, bars, dots and shades.

A chart is as wide as its place. Text and strokes keep their size at every width: words stand at percentages of the
width, shapes lie in a stretched drawing of 1,000 units. Each chart is one image with a sentence of what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ceps.model.number_text import figure
from ceps.reporting.kit.html_page import HEAT_STEPS, series

Floats = NDArray[np.float64]
_WIDE = 1000  # units of a stretched drawing, both ways


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: where (0 to 1), its text, whether a line is drawn, and whether narrow pages leave it out."""

    at: float
    text: str
    line: bool = True
    minor: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a chart: its name, its values (n,), and the number of its colour.

    `style` is "" (a line), "area" (filled down to the axis), "limit" or "dashed" (in the colour of limits, a value
    holds until the next), or "bound" (a dashed line in that colour).
    """

    name: str
    values: Floats
    colour: int = 0
    style: str = ""


def nice(most: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to at least `most`, about `count` steps; [0, 1] where `most` is not above 0.

    Examples
    --------
    >>> nice(870.0), nice(0.0)
    ([0.0, 200.0, 400.0, 600.0, 800.0, 1000.0], [0.0, 1.0])
    """
    if not (most > 0 and math.isfinite(most)):
        return [0.0, 1.0]
    rough = most / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((power * factor for factor in (1, 2, 2.5, 5, 10)), key=lambda size: abs(math.log(size / rough)))
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]


def short(value: float) -> str:
    """Return a number of an axis: 3 digits, thousands as k, millions as M.

    Examples
    --------
    >>> [short(x) for x in (0.0, 0.25, 950.0, 12_000.0, 2.5e6)]
    ['0', '0.25', '950', '12k', '2.5M']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{figure(value / (1e3 if unit == 'k' else size), 3)}{unit}"
    return figure(value, 3)


def curves(
    label: str,
    lines: Sequence[Curve],
    most: float,
    across: Sequence[Tick],
    up: Sequence[Tick],
    *,
    points: Sequence[tuple[float, float, str]] = (),
    height: int = 220,
) -> str:
    """Return a chart of curves over the same stretch of time. ``lines``: the curves, the first at the back."""
    drawn = "".join(_curve(line, most) for line in lines)
    marks = "".join(
        f'<circle cx="{100 * x:.2f}%" cy="{height * (1 - value / (most or 1.0)):.1f}" r="5" fill="var(--accent)">'
        f"<title>{escape(name)}</title></circle>"
        for x, value, name in points
    )
    return _plot(label, height, _axes(across, up, height) + _stretched(drawn, height) + marks)


def _curve(line: Curve, most: float) -> str:
    values = np.nan_to_num(np.asarray(line.values, dtype=np.float64), posinf=most) / (most or 1.0)
    if line.style in ("limit", "dashed") and len(values):
        x = np.repeat(np.linspace(0, _WIDE, len(values) + 1), 2)[1:-1]
        y = np.repeat(values, 2)
    else:
        x, y = (np.arange(len(values)) + 0.5) * _WIDE / max(len(values), 1), values
        x, y = np.concatenate([[0], x, [_WIDE]]), np.concatenate([y[:1], y, y[-1:]])
    points = np.column_stack([x, _WIDE * (1 - np.clip(y, 0, 1.05))])
    title = f"<title>{escape(line.name)}</title>"
    if line.style == "area":
        points = np.concatenate([points, [[_WIDE, _WIDE], [0, _WIDE]]])
        return f'<path fill="{series(line.colour)}" d="{path(points, closed=True)}">{title}</path>'
    colour = "var(--limit)" if line.style else series(line.colour)
    dash = " dash" if line.style in ("dashed", "bound") else ""
    return f'<path class="curve{dash}" stroke="{colour}" d="{path(points)}">{title}</path>'


def path(points: Floats, *, closed: bool = False) -> str:
    """Return whole-numbered path data of points (n, 2), without repeated points and corners that are none. O(n)."""
    dots = np.rint(points).astype(np.int64)
    steps = np.diff(dots, axis=0)
    dots = dots[np.concatenate([[True], steps.any(axis=1)])] if len(dots) else dots
    if len(dots) > 2:
        before, after = np.diff(dots, axis=0)[:-1], np.diff(dots, axis=0)[1:]
        straight = (before[:, 0] * after[:, 1] == before[:, 1] * after[:, 0]) & ((before * after).sum(axis=1) > 0)
        dots = dots[np.concatenate([[True], ~straight, [True]])]
    if not len(dots):
        return ""
    moves = [f"{dx} {dy}".replace(" -", "-") for dx, dy in np.diff(dots, axis=0).tolist()]
    joined = "".join(move if number == 0 or move[0] == "-" else f" {move}" for number, move in enumerate(moves))
    return f"M{dots[0, 0]} {dots[0, 1]}" + (f"l{joined}" if moves else "h0") + ("z" if closed else "")


def _axes(across: Sequence[Tick], up: Sequence[Tick], height: int) -> str:
    parts = []
    for tick in up:
        y = round((1 - tick.at) * height, 1)
        if tick.line:
            parts.append(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
        if tick.text:
            parts.append(f'<text class="end" x="-6" y="{round(y + 4, 1)}">{escape(tick.text)}</text>')
    for tick in across:
        x, kind = f"{round(100 * tick.at, 2):g}%", " wide-only" if tick.minor else ""
        if tick.line:
            parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
        if tick.text:
            parts.append(f'<text class="mid{kind}" x="{x}" y="{height + 17}">{escape(tick.text)}</text>')
    return "".join(parts) + f'<line class="axis" x1="0" x2="100%" y1="{height}" y2="{height}"/>'


def _stretched(drawn: str, height: int, top: int = 0) -> str:
    box = f'viewBox="0 0 {_WIDE} {_WIDE}" preserveAspectRatio="none"'
    return f'<svg x="0" y="{top}" width="100%" height="{height}" {box} aria-hidden="true">{drawn}</svg>'


def _plot(label: str, height: int, drawn: str, kind: str = "") -> str:
    return (
        f'<div class="plot{" " + kind if kind else ""}"><svg role="img" aria-label="{escape(label)}" height="{height}">'
        f"{drawn}</svg></div>\n"
    )


@dataclass(frozen=True)
class Bar:
    """A row of a bar chart: its name, value, the value's text, where its bound lies if anywhere, if it stands out."""

    name: str
    value: float
    text: str
    bound: float | None = None
    chosen: bool = False


_ROW = 40  # pixels of a row: words, then the bar


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Return bars from 0, each below its name and value, crossed by a line where its bound lies."""
    if not rows:
        return ""
    most = max([row.value for row in rows] + [row.bound or 0.0 for row in rows]) or 1.0
    parts = []
    for number, row in enumerate(rows):
        top = number * _ROW
        fill = "var(--accent)" if row.chosen else "var(--frame)"
        parts.append(_words(row.name, row.text, top, strong=row.chosen))
        wide = f"{100 * row.value / most:.2f}%"
        parts.append(f'<rect x="0" y="{top + 20}" width="{wide}" height="12" rx="2" fill="{fill}"/>')
        if row.bound is not None:
            x = f"{100 * row.bound / most:.2f}%"
            parts.append(f'<line class="full" x1="{x}" x2="{x}" y1="{top + 17}" y2="{top + 35}"/>')
    return _plot(label, len(rows) * _ROW, "".join(parts), "none")


def dots(label: str, rows: Sequence[tuple[str, float, str]], ticks: Sequence[tuple[float, str]]) -> str:
    """Return one dot a row, of (name, value, text), on an axis of powers of ten, so that small and large are seen.

    Values at or below the first tick stand at it. `ticks` are (value, text), ascending.
    """
    if not rows or len(ticks) < 2:
        return ""
    low, high = math.log10(ticks[0][0]), math.log10(ticks[-1][0])
    height = len(rows) * _ROW
    parts = []
    for value, text in ticks:
        x = f"{100 * (math.log10(value) - low) / (high - low):.2f}%"
        side = "" if value == ticks[0][0] else "end" if value == ticks[-1][0] else "mid"
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{height}"/>')
        parts.append(f'<text class="{side}" x="{x}" y="{height + 17}">{escape(text)}</text>')
    for number, (name, value, text) in enumerate(rows):
        top = number * _ROW
        x = f"{100 * min(max((math.log10(max(value, 1e-300)) - low) / (high - low), 0.0), 1.0):.2f}%"
        parts.append(_words(name, text, top, strong=number == 0))
        parts.append(f'<line x1="0" x2="{x}" y1="{top + 27}" y2="{top + 27}" stroke="var(--frame)" stroke-width="2"/>')
        parts.append(f'<circle cx="{x}" cy="{top + 27}" r="6" fill="var(--accent)"/>')
    return _plot(label, height, "".join(parts), "none")


def _words(name: str, value: str, top: int, *, strong: bool) -> str:
    kind = "strong" if strong else ""
    return (
        f'<text class="{kind}" x="0" y="{top + 14}">{escape(name)}</text>'
        f'<text class="end strong" x="100%" y="{top + 14}">{escape(value)}</text>'
    )


def shades(
    label: str, names: Sequence[str], values: Floats, across: Sequence[Tick], *, row: int = 18, gap: int = 2
) -> str:
    """Return rows of shades, `values` (rows, columns) as shares of full; runs of one shade are one stroke."""
    if not values.size:
        return ""
    height = len(names) * row
    level = np.searchsorted(HEAT_STEPS, np.nan_to_num(values) - 1e-9, side="left")
    columns = values.shape[1]
    drawn: dict[int, list[str]] = {}
    for number, line in enumerate(level):
        start = np.flatnonzero(np.concatenate([[True], line[1:] != line[:-1]]))
        end = np.append(start[1:], columns)
        for shade, begin, stop in zip(line[start].tolist(), start.tolist(), end.tolist(), strict=True):
            drawn.setdefault(shade, []).append(f"M{begin} {number}.5h{stop - begin}")
    inner = "".join(f'<path stroke="var(--h{shade})" d="{"".join(runs)}"/>' for shade, runs in sorted(drawn.items()))
    thick = round(1 - gap / row, 3)
    box = f'viewBox="0 0 {columns} {len(names)}" preserveAspectRatio="none"'
    body = f'<svg width="100%" height="{height}" {box} aria-hidden="true"><g stroke-width="{thick}">{inner}</g></svg>'
    texts = "".join(
        f'<text class="end" x="-6" y="{round((number + 0.5) * row + 4, 1)}">{escape(name)}</text>'
        for number, name in enumerate(names)
    )
    return _plot(label, height, body + texts + _axes(across, (), height), "wide")


def shade_legend() -> str:
    """Return what the shades mean."""
    edges = ["0", *(f"{100 * step:.0f}" for step in HEAT_STEPS)]
    texts = [f"{a} to {b} %" for a, b in pairwise(edges)] + ["above 100 %"]
    items = "".join(f'<li><i style="background:var(--h{n})"></i>{text}</li>' for n, text in enumerate(texts))
    return f'<ul class="legend">{items}</ul>'


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Return a legend of (name, CSS colour, style): style "" for areas, "line" or "line dashed" for lines."""
    if not entries:
        return ""
    items = []
    for name, colour, style in entries:
        look = f"border-color:{colour}" if style else f"background:{colour}"
        kind = f' class="{style}"' if style else ""
        items.append(f'<li><i{kind} style="{look}"></i>{escape(name)}</li>')
    return f'<ul class="legend">{"".join(items)}</ul>\n'
