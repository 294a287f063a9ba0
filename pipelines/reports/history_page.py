"""The page of a history, made of the kit: what its questions cost and would cost elsewhere, then where it is cut."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from ceps.model.number_text import bytes_text, dollars, figure, how_many, per_cent
from ceps.reporting.kit.html_page import Card, cards, document, fold, notes, section, series, step_through, table, terms
from ceps.reporting.kit.maps import Ground, map_chart, maps
from ceps.reporting.kit.svg_charts import Bar, Curve, Tick, bars, curves, legend, nice, short
from pipelines.reports.history_facts import asked_view

Facts = Mapping[str, Any]
_FILLS = tuple(f"var(--h{number})" for number in range(6))
"""Shades of leaves, from those of which least is read."""
_STEPS = (1 / 300, 1 / 100, 1 / 30, 1 / 10, 1 / 3)
"""Shares of the most that a question reads of a leaf, at which the next shade begins."""
_MAP_BYTES = 90_000
"""Of a map, above which its leaves are drawn ever coarser."""
_TALLEST = (640, 520)
"""Pixels that a map may be high: one alone, and each of two."""
_MOST_TICKS = 8
"""Versions that are named below a chart."""
_ALIKE = 0.1
"""A difference of costs that a model does not tell from none."""


def page(facts: Facts) -> str:
    """Return the HTML text of the page of a history; it needs no script and no network."""
    return document(
        "History report",
        _head(facts),
        _first_screen(facts),
        _maps(facts),
        _kinds(facts),
        _adapting(facts),
        _stored(facts),
        _versions(facts),
        _foot(facts),
    )


def _head(facts: Facts) -> str:
    told = (
        f"{facts['history']}, version {facts['version']:,} of {_moment(facts['time'])}, "
        f"{how_many(facts['rows'], 'row')} in {how_many(facts['periods'], 'period')}"
    )
    return f"<header><h1>History report</h1><span>{escape(told)}</span></header>\n"


def _moment(time: str) -> str:
    return time[:16].replace("T", " ")


def _first_screen(facts: Facts) -> str:
    if not facts["contestants"]:
        lead = "Nothing is remembered of what was asked, so there is nothing to compare."
        next_ = "Ask it (dtoss history range ...), without --no-learn, and make this report again."
        return f'<p class="lead" id="saving">{lead}</p><p class="quiet" id="basis">{next_}</p>'
    ours, *others = facts["contestants"]
    shown = [_card(ours, None), *(_card(one, ours) for one in others)]
    return (
        f'<p class="lead" id="saving">{escape(saving_sentence(facts))}</p>'
        f'<p class="quiet" id="basis">{escape(_basis(facts))}</p>{cards(shown)}{notes(_remarks(facts))}'
    )


def saving_sentence(facts: Facts) -> str:
    """Return what the questions cost a day, beside the cheapest of the others.

    ``facts``: with at least one question that was compared.
    """
    ours, *others = facts["contestants"]
    best = min(others, key=lambda one: one["dollarsADay"])
    cost = f"{_dollars(ours['dollarsADay'])} a day for {how_many(facts['questions']['aDay'], 'question')}"
    if ours["dollarsADay"] <= 0:
        return f"{cost}."
    times = best["dollarsADay"] / ours["dollarsADay"]
    than = f"{best['label'][0].lower()}{best['label'][1:]}"
    if times > 1 + _ALIKE:
        return f"{cost}; {than}, the cheapest of the others, would cost {_times(times)} as much."
    if times > 1 / (1 + _ALIKE):
        return f"{cost}, about what {than} would cost."
    return f"{cost}; {than} would cost less: {_dollars(best['dollarsADay'])}."


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _dollars(value: float) -> str:
    """Dollars, of which less than a cent keeps two digits that count."""
    return dollars(value) if value == 0 or abs(value) >= 0.01 else f"${value:.2g}" if value >= 1e-4 else "under $0.0001"


def _basis(facts: Facts) -> str:
    asked, prices, sample = facts["questions"], facts["prices"], facts["sample"]
    return (
        f"By the last {how_many(asked['compared'], 'question')} that were asked, as if there were "
        f"{asked['aDay']:,g} a day. Ours is counted from the boxes of its "
        f"blocks; the others are modelled from {how_many(sample['rows'], 'row')}, each standing for "
        f"{figure(sample['standsFor'], 3)}. List prices of {prices['date']}: {prices['source']}."
    )


def _card(one: Mapping[str, Any], ours: Mapping[str, Any] | None) -> Card:
    facts = [
        ("requests", _count(one["requestsADay"])),
        ("read", bytes_text(one["bytesADay"])),
        ("for reading", _dollars(one["readingDollarsADay"])),
        (f"for keeping {bytes_text(float(one['bytesKept']))}", _dollars(one["keepingDollarsADay"])),
    ]
    if ours is None:
        return Card(one["label"], _dollars(one["dollarsADay"]), "a day", facts, "", "chosen", "counted")
    why = ""
    if ours["costAQuestion"] > 0:
        ratio = one["costAQuestion"] / ours["costAQuestion"]
        why = f"A question takes {_times(ratio)} the time."
    return Card(one["label"], _dollars(one["dollarsADay"]), "a day", facts, why, "dim", "modelled")


def _count(value: float) -> str:
    return figure(value, 2)


def _remarks(facts: Facts) -> list[tuple[str, str]]:
    asked = facts["questions"]
    found = []
    if not any(one["order"] == "place" for one in facts["orders"]):
        found.append(
            ("warn", "There is no order by place yet: dtoss history settle makes it; then a map shows its leaves.")
        )
    left = asked["remembered"] - asked["compared"]
    if left:
        told = how_many(left, "trajectory")
        found.append(("", f"{told} not compared: the others would need a copy by object as well."))
    lost = [
        kind["kind"]
        for kind in facts["kinds"]
        if min(cost for name, cost in kind["costAQuestion"].items() if name != "ours")
        < kind["costAQuestion"]["ours"] / (1 + _ALIKE)
    ]
    if lost:
        found.append(("", f"Of these kinds of questions another layout would read less: {', '.join(lost)}; see below."))
    return found


def _maps(facts: Facts) -> str:
    steps = [(f"{frame['version']:,}", frame["what"], _frame(facts, frame)) for frame in facts["frames"]]
    about = (
        "The leaves of the order by place, in which rows that lie together are read together. Where much is asked they "
        "are cut smaller; where nothing is asked any more they are joined again. Outlines are what was asked before."
    )
    edges = _edges(facts)
    key = [*zip(_shade_names(edges), _FILLS, [""] * len(_FILLS), strict=True), ("asked", "var(--limit)", "line")]
    chosen = step_through("version", "Version: choose one on the line, or go along with the arrow keys", steps)
    return section("Where it is cut", about, chosen, legend(key) if steps else "")


def _edges(facts: Facts) -> list[float]:
    """Rows of a leaf that a question reads, at which the next shade begins: the same in all frames."""
    most = max((leaf["rowsAQuestion"] for frame in facts["frames"] for leaf in frame["leaves"]), default=0.0)
    return [float(f"{max(most, 1.0) * step:.1g}") for step in _STEPS]


def _shade_names(edges: list[float]) -> list[str]:
    texts = [short(edge) for edge in edges]
    between = [f"{a} to {b}" for a, b in pairwise(texts)]
    return [f"under {texts[0]} rows a question", *between, f"{texts[-1]} and more"]


def _frame(facts: Facts, frame: Mapping[str, Any]) -> str:
    """Draw two maps of a frame: the whole, and where most is asked."""
    ground = _ground(facts, frame)
    leaves, asked = how_many(len(frame["leaves"]), "leaf"), how_many(frame["questions"], "question")
    requests = how_many(round(frame["requestsAQuestion"], 1), "request")
    told = f"{leaves}; of what was asked before nothing is remembered"
    if frame["questions"]:
        told = f"{leaves} after {asked}, one of which reads {bytes_text(frame['bytesAQuestion'])} in {requests}"
    more = ""
    if frame["wide"]:
        more = f" {how_many(frame['wide'], 'question')} about most of the map or all places are not drawn."
    if frame["periods"] > 1:
        more += f" The largest of {how_many(frame['periods'], 'period')} is shown."
    name = f"version {frame['version']:,}"
    west, south, east, north = frame["view"]
    view = (west, south, east, north)
    near = asked_view(frame["shapes"], view)
    views = [("All rows", f"Map of {name}: {told}.", view)]
    if near is not None:
        views.append(("Where most is asked", f"Map of where most is asked of {name}.", near))
    tall = _TALLEST[len(views) - 1]
    drawn = [
        map_chart(label, ground, box, caption=caption, most_bytes=_MAP_BYTES, tallest=tall)
        for caption, label, box in views
    ]
    text = escape(f"Version {frame['version']:,} ({frame['what']}, {_moment(frame['time'])}): {told}.{more}")
    return f'<p class="quiet">{text}</p>{maps(*drawn)}'


def _ground(facts: Facts, frame: Mapping[str, Any]) -> Ground:
    cells = np.array([leaf["cell"] for leaf in frame["leaves"]], np.float64).reshape(-1, 4)
    mean = np.array([leaf["rowsAQuestion"] for leaf in frame["leaves"]], np.float64)
    there = (cells[:, 2] > cells[:, 0]) & (cells[:, 3] > cells[:, 1])
    edges = _edges(facts)
    return Ground(
        names=_shade_names(edges),
        group_of=np.searchsorted(edges, mean[there], side="right").astype(np.int64),
        areas=[[np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])] for x0, y0, x1, y1 in cells[there].tolist()],
        places=None,
        weights=np.zeros(0),
        on_earth=bool(facts["onEarth"]),
        fills=_FILLS,
        outlines=[np.array(ring) for ring in frame["shapes"]],
        border="var(--frame)",
    )


def _kinds(facts: Facts) -> str:
    if not facts["kinds"]:
        return ""
    names = [one["name"] for one in facts["contestants"]]
    labels = [one["label"] for one in facts["contestants"]]
    rows = []
    for kind in facts["kinds"]:
        costs = kind["costAQuestion"]
        best = min(costs.values())
        rows.append(
            [
                f"{kind['kind']}",
                f"{kind['questions']:,}",
                *(f"{bytes_text(costs[name])}{' *' if costs[name] <= best else ''}" for name in names),
            ]
        )
    caption = (
        f"What one question costs: bytes read, and {bytes_text(float(facts['requestBytes']))} for each request; "
        "* the least"
    )
    about = "No layout is the best for every question. An average hides which ones another would serve better."
    return section("By kind of question", about, table(caption, ["kind", "questions", *labels], rows))


def _adapting(facts: Facts) -> str:
    steps = facts["adapting"]
    if not steps:
        return ""
    waste, rewritten = (np.cumsum([0, *(one[name] for one in steps)]).astype(np.float64) for name in ("waste", "bytes"))
    up = nice(float(max(waste.max(), rewritten.max())))
    said = [bytes_text(float(values[-1])) for values in (waste, rewritten)]
    label = f"Bytes read in vain by then, {said[0]} in all, and bytes rewritten by cuts and merges, {said[1]} in all."
    stride = -(-len(steps) // _MOST_TICKS)
    across = [
        Tick((number + 1.5) / (len(steps) + 1), f"{one['version']:,}", False)
        for number, one in enumerate(steps)
        if number % stride == 0
    ]
    lines = [Curve("read in vain", waste, 0), Curve("rewritten", rewritten, 1)]
    drawn = curves(label, lines, up[-1], across, [Tick(value / up[-1], short(value)) for value in up])
    key = legend([(f"read in vain, {said[0]}", series(0), "line"), (f"rewritten, {said[1]}", series(1), "line")])
    about = (
        "A leaf is rewritten only when questions have read as many bytes of it in vain as it has: so the second line "
        "never passes the first. Along the bottom: the versions that cut or merged leaves."
    )
    cut, merged = how_many(sum(one["cut"] for one in steps), "leaf"), sum(one["merged"] for one in steps)
    done = f'<p class="quiet">In {how_many(len(steps), "version")} {cut} were cut and {merged:,} were merged.</p>'
    return section("Regret and rewriting", about, done, drawn, key)


def _stored(facts: Facts) -> str:
    rows = [
        Bar(
            f"by {one['order']}: {how_many(one['leaves'], 'leaf')} in {how_many(one['files'], 'file')}",
            float(one["bytes"]),
            f"{bytes_text(float(one['bytes']))}, {one['bytes'] / max(one['rows'], 1):.1f} bytes a row",
            chosen=one["order"] == "time",
        )
        for one in facts["orders"]
    ]
    held = sum(one["bytes"] for one in facts["files"])
    told = [f"{one['order']} {bytes_text(float(one['bytes']))}" for one in facts["orders"]]
    about = "The order by time holds every row once and is the truth; the others are copies, made where they pay."
    files = [[_class(one), f"{one['files']:,}", bytes_text(float(one["bytes"])), _dead(one)] for one in facts["files"]]
    sizes = table(f"Files by size, {bytes_text(float(held))} in all", ["size", "files", "bytes", "not live"], files)
    return section("What is kept", about, bars(f"Bytes by order: {', '.join(told)}.", rows), sizes)


def _class(one: Mapping[str, Any]) -> str:
    if one["to"] is None:
        return f"{bytes_text(float(one['from']))} and more"
    return (
        f"{bytes_text(float(one['from']))} to {bytes_text(float(one['to']))}"
        if one["from"]
        else (f"under {bytes_text(float(one['to']))}")
    )


def _dead(one: Mapping[str, Any]) -> str:
    # what is beside rows in a file, its footer, is a few per cent
    return per_cent(max(1 - one["liveBytes"] / one["bytes"], 0.0)) if one["bytes"] else ""


def _versions(facts: Facts) -> str:
    if not facts["frames"]:
        return ""
    rows = [
        [
            f"{frame['version']:,}",
            _moment(frame["time"]),
            frame["what"],
            f"{len(frame['leaves']):,}",
            f"{frame['questions']:,}",
            f"{frame['requestsAQuestion']:.1f}",
            bytes_text(frame["bytesAQuestion"]),
        ]
        for frame in facts["frames"]
    ]
    head = ["version", "time", "by", "leaves", "questions", "requests a question", "read a question"]
    return fold("The versions that the map shows", table("Versions", head, rows, text=(1, 2)))


def _foot(facts: Facts) -> str:
    prices = facts["prices"]
    words = terms(
        [
            ("requests", "Ranges of files that are asked for: neighbouring blocks with gaps up to 256 kB are one."),
            (
                "dollars",
                f"${prices['per_thousand_requests']} for 1,000 requests; {prices['seconds_a_request'] * 1000:g} ms a "
                f"request and {prices['bytes_a_second'] / 1e6:g} MB/s on a machine of "
                f"${prices['per_machine_hour']} an hour; ${prices['per_gigabyte_month']} for a gigabyte a month.",
            ),
            (
                "modelled",
                "The others are laid out well: row groups of 12,800 rows where they are sorted by place, footers known "
                "before anything is read, gaps read over as ours are. Where a sampled row stands for thousands, their "
                "boxes come out smaller than they would be, which flatters them.",
            ),
            ("read in vain", "Bytes read beyond the blocks that the answers fill."),
        ]
    )
    return (
        f"{fold('What the words mean', words)}<footer>Made by dtoss history report of {escape(str(facts['history']))}. "
        "The same numbers are in report.json.</footer>\n"
    )
