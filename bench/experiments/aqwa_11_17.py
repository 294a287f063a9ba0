"""Figures 11 and 13 to 17 of AQWA on counts: what each question reads, and what cuts rewrite.

Cabspotting round San Francisco (*taxi*) and made taxis of Beijing (*fleet*), each as six batches by time: the first is
partitioned, five are appended, on a grid of 1000 x 1000 cells. After each there are 1,000 questions at hotspots. Points
are those of files that are read whole, so no time is measured; elapsed seconds are a model's
(`bench/history/aqwa_worlds.py`). Two ways to begin, as the text and the authors' programs differ:

- *text*: halved until a half would be below one block (4.1); the same block is minCount.
- *100 files*: at most 100 files at the start, and minCount a sixhundredth of a batch: numFiles and minPartSize of
  github.com/ahmed-m-aly/AQWA.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from bench.experiments.results import Results, Row, markdown, point
from bench.history.aqwa_knn import nearest_rectangle
from bench.history.aqwa_run import Answered, AqwaRun, even_grid, first_parts
from bench.history.aqwa_worlds import Fixed, World, even_parts, ranges, spent, world_of
from bench.measuring.points import missing
from dtoss.history.aqwa.aqwa_grid import PointCounts, Rectangle
from dtoss.history.aqwa.aqwa_partitions import Rule

SIZES = {"smoke": (("made",), 40), "here": (("taxi",), 1_000), "full": (("taxi", "fleet"), 1_000)}
"""Worlds, and questions of a turn."""
SIDE = 5
SIDES = {5: "0.0025 %", 10: "0.01 %", 32: "0.1 %", 100: "1 %"}
KS = (1, 10, 100, 1_000)
CYCLES = (10, 100, 1_000)
MOVED = 5
"""One in so many questions are asked at the second hotspot before the batch arrives, in Fig 16."""
POINTS, ELAPSED, TASKS = "points a question", "elapsed s of 20 questions", "task s a question"
CUTS, REWRITTEN, FILES = "cuts", "rewritten, of all points", "files"
AT_OLD = "of it at the old hotspot"


@dataclass(frozen=True)
class Start:
    """How AQWA begins: minCount as a share of a batch, and the most files."""

    name: str
    share: int
    files: int | None


STARTS = (Start("text", 390, None), Start("100 files", 600, 100))
"""A batch of 50 GB has 390 blocks of 128 MB; one of 300 M points 600 times the 500,000 of the authors' programs."""
Layout = AqwaRun | Fixed


def begin(world: World, start: Start, **changed: object) -> AqwaRun:
    """Return AQWA on the first batch."""
    least = world.rows // start.share
    parts = first_parts(world.first, world.grid.everything, least, start.files)
    return AqwaRun(world.grid, world.first, parts, Rule(least, **changed))  # type: ignore[arg-type]


def rivals(world: World, start: Start, *, appended: bool = False) -> dict[str, Layout]:
    """Return the layouts of one start: the static grid, the static k-d tree, AQWA; all batches in where appended."""
    aqwa = begin(world, start)
    parts = [aqwa.rectangle(number) for number in aqwa.numbers.tolist()]
    found: dict[str, Layout] = {
        "grid": Fixed(even_parts(world.grid, len(parts)), world.first),
        "k-d": Fixed(parts, world.first),
        "AQWA": aqwa,
    }
    for layout in found.values() if appended else ():
        append_all(world, layout)
    return found


def append_all(world: World, layout: Layout) -> None:
    """Append all batches but the first."""
    for more in world.batches[1:]:
        layout.append_counts(more)


def ask_all(layout: Layout, questions: Iterable[Rectangle]) -> list[Answered]:
    """Return what the questions cost, in turn."""
    return [layout.ask_cells(question) for question in questions]


def costs(world: World, series: str, x: object, layout: Layout, questions: Iterable[Rectangle]) -> Iterator[Row]:
    """Yield what a layout's questions cost in the mean; of AQWA the second half of them too, and its cuts."""
    answers = ask_all(layout, questions)
    points = int(layout.counts.within(*world.grid.everything))
    halves = {series: answers, f"{series}, second half": answers[len(answers) // 2 :]}
    for name, some in halves.items() if isinstance(layout, AqwaRun) else [(series, answers)]:
        cost = spent(some, world.scale)
        yield point(name, x, cost.points, POINTS, data=world.name)
        yield point(name, x, cost.task_seconds, TASKS, modelled=True)
        yield point(name, x, cost.elapsed, ELAPSED, modelled=True)
        yield point(name, x, cost.cuts, CUTS)
        yield point(name, x, cost.rewritten / points, REWRITTEN)
    yield point(series, x, len(layout.rectangles), FILES)


def by_batch(world: World, start: Start, head: str, count: int) -> Iterator[Row]:
    """Fig 11: after each batch questions of 5 x 5 cells at the five densest places; then static layouts made anew."""
    layouts = rivals(world, start)
    for batch, more in enumerate(world.batches):
        for name, layout in layouts.items():
            if batch:
                layout.append_counts(more)
            questions = ranges(world, [0, 1, 2, 3, 4], count, SIDE, seed=batch)
            yield from costs(world, f"11, {head}: {name}", batch + 1, layout, questions)
    counts, files = layouts["AQWA"].counts, len(layouts["AQWA"].rectangles)
    made = {
        "grid": Fixed(even_parts(world.grid, files), counts),
        "k-d": Fixed(first_parts(counts, world.grid.everything, 1, files), counts),
        "AQWA": layouts["AQWA"],
    }
    last = len(world.batches)
    for name, layout in made.items():
        questions = ranges(world, [0, 1, 2, 3, 4], count, SIDE, seed=last - 1)
        yield from costs(world, f"11, {head}, made anew: {name}", last, layout, questions)


def steady(world: World, start: Start, series: str, x: object, questions: list[Rectangle]) -> Iterator[Row]:
    """Yield what all three layouts read, all batches in."""
    for name, layout in rivals(world, start, appended=True).items():
        yield from costs(world, f"{series}: {name}", x, layout, questions)


def by_k(world: World, start: Start, head: str, count: int) -> Iterator[Row]:
    """Fig 14: by k."""
    counts = world.first
    for more in world.batches[1:]:
        counts = counts.with_more(more)
    for k in KS:
        questions = []
        for at in ranges(world, [0, 1, 2, 3, 4], count, 1):
            x0, y0, x1, y1 = world.grid.box(at)
            questions.append(nearest_rectangle(world.grid, counts, ((x0 + x1) / 2, (y0 + y1) / 2), k))
        yield from steady(world, start, f"14, {head}", k, questions)


def serial(world: World, start: Start, head: str, count: int) -> Iterator[Row]:
    """Fig 15: five hotspots one after the other, questions of 10 x 10 cells."""
    for name, layout in rivals(world, start, appended=True).items():
        for spot in range(len(world.spots)):
            yield from costs(world, f"15, {head}: {name}", spot + 1, layout, ranges(world, [spot], count, 10))


def by_cycle(world: World, start: Start, head: str, count: int) -> Iterator[Row]:
    """Fig 16: a hotspot moves, then a batch five times as large comes; by T and c."""
    for fading in (2.0, 10.0):
        for cycle in CYCLES:
            aqwa = begin(world, start, fade_every=cycle, fading=fading)
            ask_all(aqwa, ranges(world, [0], count, 10))
            ask_all(aqwa, ranges(world, [1], count // MOVED, 10))
            append_all(world, aqwa)
            row, column = world.spots[0]
            there = set(aqwa.overlapped(Rectangle(row, column, row + 20, column + 20))[0].tolist())
            after = ask_all(aqwa, ranges(world, [1], count, 10, seed=1))
            at_old = 0
            for cut in (cut for answer in after for cut in answer.cuts):
                if cut.part in there:
                    at_old += cut.points
                    there |= {cut.first, cut.second}
            rewritten = sum(answer.rewritten for answer in after)
            points = int(aqwa.counts.within(*world.grid.everything))
            series = f"16, {head}: AQWA, c = {fading:g}"
            yield point(series, cycle, rewritten / points, REWRITTEN)
            yield point(series, cycle, at_old / max(rewritten, 1), AT_OLD)


def searches(world: World, head: str, count: int) -> Iterator[Row]:
    """Yield what the text's two sentences on the best cut make of it, and what the best of all lines does."""
    names = {"gain": "most saved, of the lines looked at", "even": "the most even cost", "all": "best of all lines"}
    for choice, name in names.items():
        aqwa = begin(world, STARTS[1], choice=choice)
        append_all(world, aqwa)
        yield from costs(world, f"best cut, {head}", name, aqwa, ranges(world, [0, 1, 2, 3, 4], count, SIDE))


def made_world() -> World:
    """Return a small world with a dense place, on a grid of 100 x 100 cells."""
    rng = np.random.default_rng(1)
    grid = even_grid([0, 0, 1000, 1000], 100)
    dense = [np.concatenate([rng.normal(300, 30, (20_000, 2)), rng.uniform(0, 1000, (5_000, 2))]) for _ in range(3)]
    batches = tuple(PointCounts.of(grid, np.clip(one, 0, 1000)) for one in dense)
    return World("made", grid, batches, ((30, 30), (80, 10), (10, 80), (50, 50), (70, 70)), 0)


def run(size: str) -> Iterator[Row]:
    """Yield points read, cuts and points rewritten; a series is figure, world, start and layout."""
    worlds, count = SIZES[size]
    for name in worlds:
        if name == "taxi" and missing("taxi"):
            continue
        world = made_world() if name == "made" else world_of(name)
        yield from searches(world, name, count)
        for start in STARTS:
            head = f"{name}, {start.name}"
            yield from by_batch(world, start, head, count)
            for side, area in SIDES.items():
                if side < world.grid.rows:
                    questions = list(ranges(world, [0, 1, 2, 3, 4], count, side))
                    yield from steady(world, start, f"13, {head}", area, questions)
            yield from by_k(world, start, head, count)
            yield from serial(world, start, head, count)
            yield from by_cycle(world, start, head, count)
            for spots in range(1, len(world.spots) + 1):
                questions = list(ranges(world, list(range(spots)), spots * count, 10))
                yield from steady(world, start, f"17, {head}", spots, questions)


def draw(results: Results) -> str:
    """Return how many times AQWA's costs the static layouts have, and the figures by world and start."""
    heads = list(dict.fromkeys(row.series[4:].rpartition(": ")[0] for row in results.rows if row.series[:3] == "13,"))
    units = {"points": POINTS, "map tasks": TASKS, "elapsed": ELAPSED}
    rows = []
    for head in (one for each in heads for one in (each, f"{each}, made anew")):
        ours = {unit: list(results.of(f"11, {head}: AQWA", unit).values())[-1] for unit in units.values()}
        theirs = (list(results.of(f"11, {head}: {who}", unit).values())[-1] / ours[unit]
                  for who in ("grid", "k-d") for unit in units.values())  # fmt: skip
        rows.append([head, *(f"{one:.1f}" for one in theirs)])
    said = [markdown(["after the last batch", *(f"{who}: {name}" for who in ("grid", "k-d") for name in units)], rows)]

    def ratios(figure: str, head: str, who: str) -> str:
        ours = results.of(f"{figure}, {head}: AQWA" + (", second half" if figure != "15" else ""), POINTS)
        return ", ".join(f"{one / ours[x]:.1f}" for x, one in results.of(f"{figure}, {head}: {who}", POINTS).items())

    lines = {
        "11: rewritten after each batch, of all points": lambda head: _all(results, f"11, {head}: AQWA", REWRITTEN),
        f"13: k-d / AQWA at {', '.join(SIDES.values())}": lambda head: ratios("13", head, "k-d"),
        f"14: k-d / AQWA at k = {', '.join(map(str, KS))}": lambda head: ratios("14", head, "k-d"),
        "15: k-d / AQWA at each hotspot": lambda head: ratios("15", head, "k-d"),
        "15: grid / AQWA": lambda head: ratios("15", head, "grid"),
        f"16: rewritten, c = 2, T = {', '.join(map(str, CYCLES))}": lambda head: _all(
            results, f"16, {head}: AQWA, c = 2", REWRITTEN
        ),
        "16: the same, c = 10": lambda head: _all(results, f"16, {head}: AQWA, c = 10", REWRITTEN),
        "17: k-d / AQWA with 1 to 5 hotspots": lambda head: ratios("17", head, "k-d"),
        "17: rewritten, of all points": lambda head: _all(results, f"17, {head}: AQWA", REWRITTEN),
    }
    said.append(markdown(["figure", *heads], ([name, *map(line, heads)] for name, line in lines.items())))
    worlds = dict.fromkeys(head.partition(", ")[0] for head in heads)
    late = [results.of(f"best cut, {world}, second half", POINTS) for world in worlds]
    rows = [[name, *(f"{one[name]:,.0f}" for one in late)] for name in late[0]]
    said.append(markdown(["best cut: points a question", *worlds], rows))
    return "\n\n".join(said)


def _all(results: Results, series: str, unit: str) -> str:
    return ", ".join(f"{value:.2f}" for value in results.of(series, unit).values())
