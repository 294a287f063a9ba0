"""The page of a rehearsal: which strategy to take and why, then its map, hot cells and all figures.

Beside it the same as JSON, and as CSV with a line for each round.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.balance.cell_layout import Layout
from ceps.balance.rehearse import StrategyRun
from ceps.model.number_text import bytes_text, how_many, per_cent
from ceps.reporting.kit.html_page import Card, cards, document, fold, notes, section, series, step_through, table, terms
from ceps.reporting.kit.maps import Ground, map_chart, maps, whole_view
from ceps.reporting.kit.svg_charts import Bar, Curve, Tick, bars, curves, legend, nice, short
from dtoss.watch.sharding.routing_grid import RoutingGrid
from pipelines.simulation.simulate import Rehearsal, Rounds, facts_of

Facts = Mapping[str, Any]
_MOST_LINES = 6
"""Strategies whose course is drawn: the best ones."""
_TOP = 4.0
"""Times the mean that a chart shows at most: what is worse runs along its edge."""
_MEANINGS = {
    "replicated": "Every worker has all subscriptions; rows are spread by a hash.",
    "uniform": "The map halved until each worker has a rectangle.",
    "history": "Rectangles fitted to the first round by SWARM's cost, and left as they are.",
    "kd": "Rectangles with equal work in the first round, and left as they are.",
    "rtree": "Tiles with equally many subscriptions; where rows are does not count.",
    "swarm": "SWARM: the busiest and the idlest worker exchange a rectangle now and then.",
    "swarm-work": "SWARM with the real work of rows for its cost, which adds up.",
    "swarm-always": "SWARM with the real work of rows for its cost, in every round, with up to eight exchanges.",
    "space": "PS2Stream's tree without words: eight leaves of space for each worker, and left as they are.",
    "words": "Words dealt to workers by how often rows say them, everywhere alike; one worker sees all rows.",
    "ps2stream": "PS2Stream: a tree of space and words; where one worker has 1.5 times another, words and cells move.",
    "ps2stream-work": "PS2Stream with the real work of rows for its load.",
    "curve": "A curve through all cells cut into equal work after each round; cells at the cuts are shared.",
    "ours": "Every worker above the mean gives its cheapest cells away; a place too hot for one is shared by several.",
    "auto": "Everything everywhere while it fits a worker's memory, else ours.",
}


def page(facts: Facts, rounds: Rounds, results: Sequence[StrategyRun], geographic: bool) -> str:
    """Return the HTML text of the page; it needs no script and no network.

    ``geographic``: whether positions are degrees.
    """
    counts = sorted({one["workers"] for one in facts["strategies"]})
    drawn = [(count, _map(rounds, _result(facts, results, count), geographic)) for count in counts]
    return document(
        "Rehearsal of a watch",
        _head(facts),
        *(_first_screen(facts, count) for count in counts),
        *(_map_of(facts, count, parts, folded=len(counts) > 1) for count, parts in drawn),
        _table(facts),
        _foot(facts),
    )


def _of(facts: Facts, count: int) -> list[Facts]:
    """Return the strategies of a number of workers, the evenest first."""
    return sorted((one for one in facts["strategies"] if one["workers"] == count), key=lambda one: one["mean"])


def _taken(facts: Facts, count: int) -> Facts:
    name = next(one["strategy"] for one in facts["take"] if one["workers"] == count)
    return next(one for one in _of(facts, count) if one["strategy"] == name)


def _head(facts: Facts) -> str:
    about = (
        f"{facts['rows']:,} rows in {facts['rounds'] + 1:,} rounds of {_duration(facts['roundSeconds'])}, "
        f"{how_many(facts['subscriptions'], 'subscription')} of {bytes_text(facts['subscriptionBytes'])}"
    )
    why = (
        "A batch is over when its busiest worker is: at 2 times the mean, half of what you pay for waits. While all "
        "subscriptions fit the memory of each worker, replicated is even without any move, and is taken. Else, of "
        "strategies within 5 % of the evenest, the one that moves fewest bytes is, and then the one that stores fewest "
        "copies."
    )
    return (
        f"<header><h1>Rehearsal of a watch</h1><span>{escape(about)}</span></header>\n"
        f'<p class="quiet">{escape(why)}</p>\n'
    )


def _duration(seconds: float) -> str:
    for name, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {name}"
    return f"{seconds:g} s"


def advice(facts: Facts, count: int) -> str:
    """Return which strategy to take, and what it costs, in words."""
    best = _taken(facts, count)
    share = best["movedShare"]
    moved = f"{per_cent(share)} of the subscriptions' bytes move in a round" if share else "No subscription moves"
    return (
        f"Take {best['strategy']} with {how_many(count, 'worker')}: the busiest has {best['mean']:.2f} times the mean "
        f"work. {moved}, and all workers together store {best['copies']:.2f} copies"
    )


def _first_screen(facts: Facts, count: int) -> str:
    ranked, best = _of(facts, count), _taken(facts, count)
    shown = [best, *(one for one in ranked if one is not best)][:3]
    lead = f'<p class="lead">{escape(advice(facts, count))}.</p>'
    title = f"With {how_many(count, 'worker')}"
    return (
        f"<section><h2>{escape(title)}</h2>{lead}{cards([_card(one, one is best) for one in shown])}"
        f"{_course(facts, ranked, best)}{_moves_of(ranked, best)}</section>\n"
    )


def _card(one: Facts, chosen: bool) -> Card:
    return Card(
        one["strategy"],
        f"{one['mean']:.2f}",
        "times the mean",
        [
            ("worst round", f"{one['worst']:.2f}"),
            ("moved a round", per_cent(one["movedShare"])),
            ("copies stored", f"{one['copies']:.2f}"),
        ],
        why=_MEANINGS.get(one["strategy"], ""),
        kind="chosen" if chosen else "",
        badge="take this" if chosen else "",
    )


def _course(facts: Facts, ranked: Sequence[Facts], best: Facts) -> str:
    """Draw the busiest worker over the mean, round by round; nothing of one round, which is no course."""
    if facts["rounds"] < 2:
        return ""
    chosen = [best, *(one for one in ranked if one is not best)][:_MOST_LINES]
    most = min(max(max(one["maxOverMean"]) for one in chosen), _TOP)
    ticks = nice(most)
    lines = [
        Curve(one["strategy"], np.minimum(np.array(one["maxOverMean"]), ticks[-1]), number)
        for number, one in reversed(list(enumerate(chosen)))
    ]
    label = "Work of the busiest worker over the mean of all, by round, for " + ", ".join(x["strategy"] for x in chosen)
    up = [Tick(value / ticks[-1], short(value)) for value in ticks]
    keys = legend([(one["strategy"], series(number), "line") for number, one in enumerate(chosen)])
    caption = '<p class="about">Busiest worker over the mean of all, by round; 1 is even work.</p>'
    return f"{caption}{curves(label, lines, ticks[-1], _rounds(facts), up)}{keys}"


def _rounds(facts: Facts) -> list[Tick]:
    begin = facts["begin"]
    count = len(begin)
    step = max(count // 6, 1)
    form = "%H:%M" if begin[-1] - begin[0] < 2 * 86_400 else "%d %b"
    found: list[Tick] = []
    for number in range(0, count, step):
        text = datetime.fromtimestamp(begin[number], UTC).strftime(form)
        if not found or found[-1].text != text:
            found.append(Tick((number + 0.5) / count, text, False, len(found) % 2 == 1))
    return found


def _moves_of(ranked: Sequence[Facts], best: Facts) -> str:
    """Draw how much strategies move, those that move anything."""
    moving = sorted((one for one in ranked if one["movedShare"]), key=lambda one: (-one["movedShare"], one["strategy"]))
    rows = [Bar(one["strategy"], one["movedShare"], per_cent(one["movedShare"]), chosen=one is best) for one in moving]
    if not rows:
        return '<p class="about">No strategy moves a subscription.</p>'
    others = " The strategies that are not named move nothing." if len(rows) < len(ranked) else ""
    caption = f"Bytes of subscriptions moved in a round, as a share of all; a mean of the later rounds.{others}"
    return f'<p class="about">{caption}</p>{bars("Share of bytes moved in a round, by strategy", rows)}'


def _result(facts: Facts, results: Sequence[StrategyRun], count: int) -> StrategyRun:
    """Return what the strategy that is taken has done."""
    best = _taken(facts, count)
    return next(one for one in results if one.name == best["strategy"] and one.workers == count)


def _map(rounds: Rounds, result: StrategyRun, geographic: bool) -> tuple[str, str]:
    """Return the film and the table of hot cells; two empty texts where each worker has every cell."""
    if result.layouts[-1].held.all() and result.workers > 1:
        return "", ""
    return film(f"film{result.workers}", rounds, result, geographic), hottest(rounds, result)


def _map_of(facts: Facts, count: int, parts: tuple[str, str], *, folded: bool) -> str:
    title = f"Where {how_many(count, 'worker')} work"
    about = (
        f"Each cell of the grid in the colour of its worker under {_taken(facts, count)['strategy']}. A shared cell "
        "has that of the worker with the largest share, and a line around it. Cells without rows and subscriptions "
        "are left out."
    )
    if folded and any(parts):
        return fold(title, f'<p class="about">{escape(about)}</p>', *parts)
    return section(title, about, *parts)


def _table(facts: Facts) -> str:
    head = ["Strategy", "Workers", "Mean", "Worst", "Moved", "Most moved", "Copies", "Messages"]
    rows = [
        [
            one["strategy"],
            str(one["workers"]),
            f"{one['mean']:.3f}",
            f"{one['worst']:.2f}",
            per_cent(one["movedShare"]),
            per_cent(one["mostMovedShare"]),
            f"{one['copies']:.3f}",
            bytes_text(one["messageBytes"]),
        ]
        for one in sorted(facts["strategies"], key=lambda one: (one["workers"], one["mean"]))
    ]
    about = (
        "Mean and worst of all rounds: the busiest worker over the mean. Moved: bytes of subscriptions, in a round. "
        "Copies: workers that store a subscription, on average. Messages: what is sent for a decision."
    )
    return fold("All strategies", f'<p class="about">{about}</p>', table("The evenest first", head, rows))


def _foot(facts: Facts) -> str:
    prices = facts["prices"]
    remarks = [
        ("", f"A row counts {prices['row']:g}, a candidate {prices['candidate']:g}, a match {prices['match']:g}."),
        (
            "",
            "Each round is judged under the layout that was made of earlier rounds. Means leave out the first quarter.",
        ),
    ]
    if facts["skipped"]:
        remarks.append(("warn", f"{facts['skipped']:,} rows have no legal position, time or id and were left out."))
    used = {one["strategy"] for one in facts["strategies"]}
    meant = [(name, text) for name, text in _MEANINGS.items() if name in used]
    return fold("What each strategy does", terms(meant)) + notes(remarks)


MOST_FRAMES = 24
"""Rounds that are drawn."""
_TIMES_FIT = 8
"""Frames up to which the line has room for their times."""
_MOST_OUTLINES = 40
_HOTTEST = 8
_MICROSECONDS = 1_000_000
_MAP_BYTES = 40_000


def film(name: str, rounds: Rounds, result: StrategyRun, geographic: bool) -> str:
    """Return a map for some rounds, of which one is shown at a time. ``geographic``: whether positions are degrees."""
    shown = np.unique(np.linspace(0, result.rounds - 1, min(MOST_FRAMES, result.rounds)).round().astype(int)).tolist()
    there = rounds.asked.stored_by_cell > 0
    there[rounds.cell] = True
    frames = []
    for number in shown:
        begin = datetime.fromtimestamp(int(rounds.begin_us[number + 1]) / _MICROSECONDS, UTC)
        ground = _ground(rounds.grid, result.layouts[number], there, geographic)
        view = whole_view(ground)
        if view is None:
            continue
        label = f"Map of the worker of each cell in round {number + 1}"
        drawn = map_chart(label, ground, view, most_bytes=_MAP_BYTES, tallest=520)
        busiest = float(result.max_over_mean[number])
        when = begin.strftime("%d %b %H:%M")
        said = f"Round {number + 1}, from {when}: the busiest worker has {busiest:.2f} times the mean."
        text = f'<p class="quiet">{said}</p>'
        frames.append((str(number + 1), when if len(shown) <= _TIMES_FIT else "", f"{text}{maps(drawn)}"))
    return step_through(name, "Round", frames)


def _ground(grid: RoutingGrid, layout: Layout, there: NDArray[np.bool_], geographic: bool) -> Ground:
    """Return cells of one worker that stand side by side in a row as one area each."""
    largest = _largest(layout)
    areas, group = [], []
    for row in range(grid.rows):
        worker = np.where(there[row * grid.columns : (row + 1) * grid.columns], largest.reshape(grid.shape)[row], -1)
        edges = np.flatnonzero(np.diff(worker, prepend=-2, append=-2))
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if worker[begin] >= 0:
                areas.append([_ring(grid, row, begin, end)])
                group.append(int(worker[begin]))
    shared = [cell for cell in layout.shared.tolist() if there[cell]][:_MOST_OUTLINES]
    return Ground(
        [f"worker {number}" for number in range(layout.workers)],
        np.array(group, np.int64),
        areas,
        None,
        np.ones(len(areas)),
        on_earth=geographic,
        outlines=[_ring(grid, cell // grid.columns, cell % grid.columns, cell % grid.columns + 1) for cell in shared],
        border="none",
    )


def _largest(layout: Layout) -> NDArray[np.int64]:
    """Return the worker with the largest share of each cell, int64 (cells,)."""
    order = np.lexsort((layout.worker, -layout.share, layout.cell))
    first = np.append(True, np.diff(layout.cell[order]) > 0)
    return layout.worker[order[first]].astype(np.int64)


def _ring(grid: RoutingGrid, row: int, first: int, last: int) -> NDArray[np.float64]:
    """Return the corners of some cells of a row, x and y."""
    west, east = (grid.cut + grid.x + grid.width * column / grid.columns for column in (first, last))
    if grid.cut and west >= 180.0:
        west, east = west - 360.0, east - 360.0
    south, north = (grid.y + grid.height * (row + more) / grid.rows for more in (0, 1))
    return np.array([[west, south], [east, south], [east, north], [west, north], [west, south]])


def hottest(rounds: Rounds, result: StrategyRun) -> str:
    """Return a table of the cells that cost most in the last round, with their workers and shares."""
    number = result.rounds - 1
    loads, layout = rounds.loads(number + 1), result.layouts[number]
    work = loads.work
    mean = float(work.sum()) / layout.workers
    rows = []
    for cell in np.argsort(-work, kind="stable")[:_HOTTEST].tolist():
        if work[cell] <= 0.0 or mean <= 0.0:
            break
        part = slice(int(layout.begin[cell]), int(layout.begin[cell + 1]))
        held = sorted(zip(layout.share[part].tolist(), layout.worker[part].tolist(), strict=True), reverse=True)
        whose = ", ".join(f"{worker} ({100 * share:.0f} %)" for share, worker in held)
        spoken = np.unique(layout.words.worker[layout.words.cell == cell]).tolist()
        whose += f"; some words: {', '.join(map(str, spoken))}" if spoken else ""
        ring = _ring(
            rounds.grid, cell // rounds.grid.columns, cell % rounds.grid.columns, cell % rounds.grid.columns + 1
        )
        x, y = ring[:4].mean(axis=0).tolist()
        rows.append([f"{x:.4f}, {y:.4f}", f"{loads.rows[cell]:,.0f}", f"{work[cell] / mean:.2f}", whose])
    head = ["Middle", "Rows", "Share of a worker's mean", "Workers"]
    return table("The hottest cells of the last round", head, rows, text=[3]) if rows else ""


def csv_of(facts: dict[str, Any]) -> str:
    """Return a line for each round of each strategy."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["strategy", "workers", "round", "begin", "max_over_mean", "sigma", "moved_bytes"])
    for one in facts["strategies"]:
        columns = zip(facts["begin"], one["maxOverMean"], one["sigma"], one["movedBytes"], strict=True)
        for number, values in enumerate(columns, start=1):
            writer.writerow([one["strategy"], one["workers"], number, *("" if v is None else v for v in values)])
    return out.getvalue()


def write_rehearsal(rehearsal: Rehearsal, out: str) -> Path:
    """Write report.html, rehearsal.json and rounds.csv into a folder, and return the path of the page."""
    facts = facts_of(rehearsal)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rehearsal.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / "rounds.csv").write_text(csv_of(facts), encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page(facts, rehearsal.rounds, rehearsal.results, rehearsal.space.geographic), encoding="utf-8")
    return path
