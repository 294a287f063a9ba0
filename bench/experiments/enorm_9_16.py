"""Figures 9 to 13 and 16 of Enorm, and its sections 5.1.1 and 7.7, on the operators of `bench/windows/enorm/`.

Processor seconds of one process, the least of some turns; the paper has 18 million rows and six machines. There is no
network: a row that goes to another component becomes bytes and back, and a pause is the time for that. Figure 13 is a
model of queues, fed with a pause of figure 10. *dtoss.windows* is the product on the same windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench.experiments.results import Results, Row, grid, point
from bench.windows.balance import flux
from bench.windows.enorm.changing import DIRECT
from bench.windows.enorm.figures.choosing import choices
from bench.windows.enorm.figures.lagging import KEYS, START, latencies
from bench.windows.enorm.figures.migration import SHARES, moved_in, overhead, pauses, split_and_combine
from bench.windows.enorm.figures.migration import SIZES as GROUPS
from bench.windows.enorm.figures.simple import Lines
from bench.windows.enorm.figures.throughput import KEYS as PANES
from bench.windows.enorm.figures.throughput import consolidating, fused, one_or_two_components

SIZES = {
    "smoke": (1_000, 1, (10,), (10,), (100,)),
    "here": (60_000, 2, PANES, GROUPS, SHARES),
    "full": (18_000_000, 3, PANES, GROUPS, SHARES),
}
"""Rows, turns of which the least counts, keys of a pane, keys of a key group, per cent of groups that move."""
RATE, PAUSE, DONE, MORE, MEAN, WORST, SECONDS, COST = (
    "rows a second",
    "pause, ms",
    "completion, s",
    "% more processor seconds",
    "mean latency, ms",
    "worst latency, ms",
    "processor s",
    "processor s in the longest window",
)


def points(lines: Lines, unit: str, series: str = "") -> Iterator[Row]:
    """Yield a figure's lines."""
    for name, line in lines.items():
        yield from (point(series + name, f"{x:g}", y, unit) for x, y in line.items())


def run(size: str) -> Iterator[Row]:
    """Yield figures 9 to 13 and 16; a series is figure and line."""
    rows, times, panes, groups, shares = SIZES[size]
    yield from points(consolidating(rows, times, panes), RATE, "9: ")
    for way, seconds in one_or_two_components(rows, panes[-1], times + 2).items():
        yield point("7.7: components", way, seconds, SECONDS, data=f"even keys, {rows:,} rows")
    for windows, costs in choices(rows, panes[-1]).items():
        for reading, (split, combine) in costs.items():
            yield point(f"5.1.1, {windows}: split", reading, split, COST)
            yield point(f"5.1.1, {windows}: combine", reading, combine, COST)
    yield from points(pauses(times, groups), PAUSE, "10: ")
    pause, done = split_and_combine(times, groups)
    yield from points(pause, PAUSE, "11: ")
    yield from points(done, DONE, "11: ")
    yield from points(overhead(rows // 2, rows // 10, times, shares), MORE, "12: ")
    for name, lag in latencies(flux, moved_in(KEYS if size != "smoke" else groups[-1], DIRECT, times) / 1e3).items():
        yield point(f"13: {name}", "20 minutes", 1e3 * lag.mean[START * 60 :].mean(), MEAN, modelled=True)
        yield point(f"13: {name}", "20 minutes", 1e3 * lag.worst.max(), WORST, modelled=True)
    yield from points(fused(rows // 3, panes[-1], times), SECONDS, "16: ")


def draw(results: Results) -> str:
    """Return a table a figure."""
    tables = []
    for figure in ("9", "7.7", "5.1.1", "10", "11", "12", "13", "16"):
        mine = [row for row in results.rows if row.series.startswith((f"{figure}: ", f"{figure}, "))]
        for unit in dict.fromkeys(row.unit for row in mine):
            shown = tuple(replace(row, series=row.series.removeprefix(f"{figure}: ")) for row in mine)
            tables.append(grid(Results("", shown), unit, f"figure {figure}: {unit}", "{:,.3g}", down="series"))
    return "\n\n".join(tables)
