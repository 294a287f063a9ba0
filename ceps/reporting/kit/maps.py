"""Maps as inline SVG: areas or places in the colours of their groups, shores, and a bar of scale.

Areas are drawn one by one while they are few. Many are sampled along lines, and what belongs to one group is drawn as
one, so that a page stays small whatever it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from ceps.reporting.kit.html_page import series
from ceps.reporting.kit.svg_charts import path

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Box = tuple[float, float, float, float]

_WIDE = 1000  # units of the drawing across
_METRES = 111_195.0  # of a degree of latitude on a sphere of 6,371 km
_ROUND = (1, 2, 5)
_OUTLINED = 40  # outlines that are seen whole; of more each is fainter
_NARROWEST, _LOWEST = 0.8, 0.3  # width over height, and height over width, of a map of everything


@dataclass(frozen=True, eq=False)
class Ground:
    """What a map shows."""

    names: Sequence[str]  # Names of the groups, such as servers
    group_of: Ints  # int64 (n,), the group of each area or place, or -1 for none
    areas: Sequence[Sequence[Floats]]  # Rings (v, 2) of each area, x and y; empty if there are none
    places: Floats | None  # float64 (n, 2), a place in each; drawn where there are no areas
    weights: Floats  # float64 (n,), how much a place counts, for the size of its dot
    shores: Sequence[Floats] = ()  # Rings (v, 2) of land, drawn as lines over the areas; empty where not known
    on_earth: bool = True  # Whether x and y are degrees of longitude and latitude; else they are units of a plane
    colours: Ints | None = None  # int64, number of each group's colour; None: that of the group
    fills: Sequence[str] | None = None  # CSS colours of the groups, such as shades; None: those of series
    outlines: Sequence[Floats] = ()  # Rings (v, 2) that are drawn as thin lines on top of all
    border: str = "var(--paper)"  # CSS colour of the lines between areas

    def colour(self, group: int) -> str:
        """CSS colour of a group."""
        if self.fills is not None:
            return self.fills[group]
        return series(group if self.colours is None else int(self.colours[group]))


def whole_view(ground: Ground) -> Box | None:
    """Return west, south, east, north of all places with a margin, else of all areas; None without either."""
    if ground.places is not None and len(ground.places):
        points = ground.places
    else:
        rings = [ring for area in ground.areas for ring in area]
        if not rings:
            return None
        points = np.concatenate(rings)
    low, high = points.min(axis=0), points.max(axis=0)
    least = 0.02 if ground.on_earth else 1e-3 * max(float(np.abs(points).max()), 1e-9)
    margin = np.maximum(0.06 * (high - low), least)
    low, high = low - margin, high + margin
    # A few places far north of the others would make a map too narrow to see: give it room beside them.
    squeeze = _squeeze(ground, (0.0, float(low[1]), 0.0, float(high[1])))
    wide, tall = (high[0] - low[0]) * squeeze, high[1] - low[1]
    more = np.array([max(_NARROWEST * tall - wide, 0.0) / squeeze, max(_LOWEST * wide - tall, 0.0)]) / 2
    low, high = low - more, high + more
    if ground.on_earth:
        low, high = np.maximum(low, (-180.0, -90.0)), np.minimum(high, (180.0, 90.0))
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def crowded_view(ground: Ground, view: Box) -> Box | None:
    """Return the part of a view where most places lie close together, a window of their quartiles; None if no gain.

    The densest place is the one whose nearest sixth of all places is nearest; the window holds that part.
    """
    places = ground.places
    if places is None or len(places) < 40:
        return None
    flat = np.column_stack([places[:, 0] * _squeeze(ground, view), places[:, 1]])
    near = max(len(flat) // 6, 8)
    sample = flat[:: max(len(flat) // 500, 1)]
    reach = np.array([np.partition(np.square(flat - one).sum(axis=1), near)[near] for one in sample])
    heart = sample[reach.argmin()]
    inside = np.argsort(np.square(flat - heart).sum(axis=1), kind="stable")[:near]
    low, high = places[inside].min(axis=0), places[inside].max(axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low).max() / 2 * 1.15, 1e-6)
    if 2 * half > 0.35 * min(view[2] - view[0], view[3] - view[1]):
        return None
    wide = half / _squeeze(ground, (middle[0], middle[1], middle[0], middle[1])) * 1.5
    return float(middle[0] - wide), float(middle[1] - half), float(middle[0] + wide), float(middle[1] + half)


def _squeeze(ground: Ground, view: Box) -> float:
    """How much shorter a degree of longitude is than one of latitude in the middle of a view; 1 in a plane."""
    if not ground.on_earth:
        return 1.0
    return max(math.cos(math.radians((view[1] + view[3]) / 2)), 0.15)


def maps(*charts: str) -> str:
    """Return maps side by side where there is room; empty where there is none."""
    return f'<div class="maps">{"".join(charts)}</div>\n' if any(charts) else ""


def map_chart(
    label: str, ground: Ground, view: Box, *, caption: str = "", most_bytes: int = 36_000, tallest: int = 430
) -> str:
    """Return a map of a view with a bar of its scale, at most about `most_bytes` long."""
    west, south, east, north = view
    squeeze = _squeeze(ground, view)
    high = max(_WIDE * (north - south) / max((east - west) * squeeze, 1e-12), 1.0)
    scale = np.array([_WIDE / (east - west), -high / (north - south)])
    origin = np.array([west, north])
    window = (-8.0, -8.0, _WIDE + 8.0, high + 8.0)
    inside: list[list[Floats]] = [
        [clipped((np.asarray(ring, dtype=np.float64) - origin) * scale, window) for ring in area]
        for area in ground.areas
    ]
    drawn = ""
    if inside:
        drawn = _areas(ground, inside)
        rows = 320
        while len(drawn) > most_bytes and rows >= 40:
            drawn = _sampled(ground, inside, high, rows)
            rows = int(rows * 0.6)
    elif ground.places is not None:
        drawn = _dots(ground, (ground.places - origin) * scale, high)
    shores = _shores(ground, origin, scale, window, (east - west) * squeeze * _METRES if ground.on_earth else 0.0)
    wide = min(_WIDE, int(tallest * _WIDE / high))
    box = f'viewBox="0 0 {_WIDE} {round(high)}"'
    return (
        f'<figure class="map" style="flex:0 1 {max(wide, 200)}px"><figcaption>{escape(caption)}</figcaption>'
        f'<svg role="img" aria-label="{escape(label)}" {box}>{drawn}{shores}{_outlines(ground, origin, scale)}</svg>'
        f"{_scale(ground, (east - west) * squeeze)}</figure>\n"
    )


def clipped(ring: Floats, window: Box) -> Floats:
    """Return the part of a polygon (v, 2) within a window of left, top, right, bottom; (0, 2) if none. O(v)."""
    points = ring
    for axis, limit, sign in ((0, window[0], 1), (0, window[2], -1), (1, window[1], 1), (1, window[3], -1)):
        if not len(points):
            break
        height = sign * (points[:, axis] - limit)
        if (height >= 0).all():
            continue
        follow, next_height = np.roll(points, -1, axis=0), np.roll(height, -1)
        crosses = (height >= 0) != (next_height >= 0)
        share = np.where(crosses, height / np.where(crosses, height - next_height, 1.0), 0.0)
        met = points + share[:, None] * (follow - points)
        both = np.stack([points, met], axis=1).reshape(-1, 2)
        points = both[np.column_stack([height >= 0, crosses]).ravel()]
    return points


def _areas(ground: Ground, inside: list[list[Floats]]) -> str:
    data: dict[int, list[str]] = {}
    for group, rings in zip(ground.group_of.tolist(), inside, strict=True):
        if group >= 0:
            data.setdefault(group, []).extend(path(ring, closed=True) for ring in rings if len(ring) > 2)
    parts = [
        f'<path fill="{ground.colour(group)}" d="{"".join(data[group])}">{_title(ground, group)}</path>'
        for group in sorted(data)
        if any(data[group])
    ]
    return f'<g stroke="{ground.border}" stroke-width=".8" stroke-linejoin="round">{"".join(parts)}</g>'


def _title(ground: Ground, group: int) -> str:
    return f"<title>{escape(ground.names[group])}</title>"


def _sampled(ground: Ground, inside: list[list[Floats]], high: float, rows: int) -> str:
    """Draw areas of one group as one: runs along `rows` lines, each as thick as their distance. O(corners rows)."""
    pitch = high / rows  # runs end on the grid that lines lie on
    rings = [
        (group, ring)
        for group, area in zip(ground.group_of.tolist(), inside, strict=True)
        for ring in area
        if group >= 0 and len(ring) > 2
    ]
    if not rings:
        return ""
    begin = np.concatenate([ring for _, ring in rings]) / pitch
    end = np.concatenate([np.roll(ring, -1, axis=0) for _, ring in rings]) / pitch
    owner = np.repeat(np.arange(len(rings)), [len(ring) for _, ring in rings])
    # A line at the middle of each row; a ring crosses it an even number of times.
    low, top = np.minimum(begin[:, 1], end[:, 1]), np.maximum(begin[:, 1], end[:, 1])
    first = np.ceil(low - 0.5).astype(np.int64)
    count = np.ceil(top - 0.5).astype(np.int64) - first
    edge = np.repeat(np.arange(len(begin)), count)
    line = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + first[edge]
    share = (line + 0.5 - begin[edge, 1]) / (end[edge, 1] - begin[edge, 1])
    x = begin[edge, 0] + share * (end[edge, 0] - begin[edge, 0])
    order = np.lexsort((x, line, owner[edge]))
    group_of = np.array([group for group, _ in rings])
    runs = np.column_stack(
        [
            group_of[owner[edge][order][0::2]],
            line[order][0::2],
            np.rint(x[order][0::2]).astype(np.int64),
            np.rint(x[order][1::2]).astype(np.int64),
        ]
    )
    runs = runs[runs[:, 3] > runs[:, 2]]
    parts = []
    for group in np.unique(runs[:, 0]).tolist():
        mine = runs[runs[:, 0] == group, 1:]
        data = "".join(f"M{left} {row}.5h{right - left}" for row, left, right in _joined(mine))
        parts.append(f'<path stroke="{ground.colour(group)}" d="{data}">{_title(ground, group)}</path>')
    return f'<g stroke-width="1.04" transform="scale({pitch:.4f})">{"".join(parts)}</g>'


def _joined(runs: Ints) -> list[list[int]]:
    """Join runs (n, 3) of row, begin and end that touch, in the order of rows."""
    found: list[list[int]] = []
    for row, left, right in runs[np.lexsort((runs[:, 1], runs[:, 0]))].tolist():
        if found and found[-1][0] == row and found[-1][2] >= left:
            found[-1][2] = max(found[-1][2], right)
        else:
            found.append([row, left, right])
    return found


def _dots(ground: Ground, points: Floats, high: float) -> str:
    most = float(ground.weights.max(initial=0.0)) or 1.0
    size = np.clip(np.rint(8 + 16 * np.sqrt(ground.weights / most)), 8, 24).astype(np.int64) // 4 * 4
    shown = ((points >= -8) & (points <= (_WIDE + 8, high + 8))).all(axis=1)
    parts = []
    for group in np.unique(ground.group_of[ground.group_of >= 0]).tolist():
        parts.append(f'<g stroke="{ground.colour(group)}">{_title(ground, group)}')
        for wide in np.unique(size).tolist():
            rows = np.flatnonzero((ground.group_of == group) & (size == wide) & shown)
            where = "".join(f"M{x} {y}h0" for x, y in np.rint(points[rows]).astype(np.int64).tolist())
            if where:
                parts.append(f'<path stroke-width="{wide}" d="{where}"/>')
        parts.append("</g>")
    return f'<g stroke-linecap="round" fill="none">{"".join(parts)}</g>'


def _shores(ground: Ground, origin: Floats, scale: Floats, window: Box, metres: float) -> str:
    if not ground.shores or metres < 400_000:  # coarse shores would lie beside the true ones
        return ""
    lines = []
    for ring in ground.shores:
        flat = thinned((np.asarray(ring, dtype=np.float64) - origin) * scale, 1.2)
        part = clipped(flat, (window[0] - 8, window[1] - 8, window[2] + 8, window[3] + 8))
        if len(part) > 3:
            lines.append(path(part, closed=True))
    return f'<path class="hair" stroke="var(--ink)" d="{"".join(lines)}"/>' if lines else ""


def _outlines(ground: Ground, origin: Floats, scale: Floats) -> str:
    lines = [path((np.asarray(ring, np.float64) - origin) * scale, closed=True) for ring in ground.outlines]
    # one path would lie on itself as one line: each is seen through the others, the fainter the more there are
    opacity = round(min(max(_OUTLINED / max(len(lines), 1), 0.3), 0.8), 2)
    shown = "".join(f'<path d="{line}"/>' for line in lines if line)
    return f'<g class="outlines" stroke="var(--limit)" stroke-opacity="{opacity}">{shown}</g>' if shown else ""


def thinned(ring: Floats, slack: float) -> Floats:
    """Return a line (v, 2) without the points that lie within `slack` of what is left (Douglas and Peucker)."""
    keep = np.zeros(len(ring), dtype=bool)
    waiting = [(0, len(ring) - 1)]
    while waiting:
        first, last = waiting.pop()
        keep[[first, last]] = True
        if last - first < 2:
            continue
        chord = ring[last] - ring[first]
        offset = ring[first + 1 : last] - ring[first]
        share = np.clip(offset @ chord / max(float(chord @ chord), 1e-300), 0, 1)
        away = np.hypot(*(offset - share[:, None] * chord).T)
        place = int(away.argmax())
        if away[place] > slack:
            waiting += [(first, first + 1 + place), (first + 1 + place, last)]
    return ring[keep]


def _scale(ground: Ground, degrees: float) -> str:
    """Draw a bar of a round length, about a fifth of the map's width."""
    across = degrees * _METRES if ground.on_earth else degrees
    if not across > 0:
        return ""
    power = 10.0 ** math.floor(math.log10(across / 5))
    length = max(factor * power for factor in _ROUND if factor * power <= across / 5)
    unit = "" if not ground.on_earth else " km" if length >= 1000 else " m"
    shown = f"{length / 1000 if unit == ' km' else length:,g}{unit}"
    note = "" if not ground.on_earth or across < 4e6 else " at its middle latitude"
    return f'<div class="bar" style="width:{100 * length / across:.2f}%"></div><div class="scale">{shown}{note}</div>'
