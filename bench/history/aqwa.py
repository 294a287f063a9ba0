"""Figures 11 and 13 to 17 of the AQWA paper again, on counts: what each question reads, and what cuts rewrite.

``python -m bench.history.aqwa --set taxi`` (Cabspotting, of the folder named by DTOSS_DATA) or ``fleet`` (made taxis of
Beijing) prints a table for each figure. Nothing is timed but by a model (`bench.history.aqwa_worlds`): a file is a map
task. Three ways to begin and to cut:

- ``text``: halved until a half would be below one block (4.1); the same block is minCount.
- ``100 files``: at most 100 files at the start and minCount a sixhundredth of a batch, which are the numbers of the
  authors' programs (github.com/ahmed-m-aly/AQWA: numFiles, minPartSize); cut by the paper's search, T = 200, c = 2.
- ``programs``: the same start; the best of all lines, c = 10, T = 1,000 and all revalued when weights fade, as there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.history.aqwa_knn import nearest_rectangle
from bench.history.aqwa_run import Answered, AqwaRun, first_parts
from bench.history.aqwa_worlds import Fixed, Spent, World, even_parts, ranges, spent, world_of
from bench.measuring.points import missing
from dtoss.history.aqwa.aqwa_grid import Rectangle
from dtoss.history.aqwa.aqwa_partitions import Rule

BLOCK_SHARE = 390
"""A batch of 50 GB has so many blocks of 128 MB."""
PROGRAM_SHARE = 600
"""A batch of 300 M points has so many times the 500,000 that the authors' programs leave in a partition."""
PROGRAM_FILES = 100
QUESTIONS = 1_000
SIDE = 5
SIDES = {5: "0.0025 %", 10: "0.01 %", 32: "0.1 %", 100: "1 %"}
KS = (1, 10, 100, 1_000)
CYCLES = (10, 100, 200, 1_000, 10_000)
MOVED = 200
"""Questions at the second hotspot before the batch arrives, in Fig 16: ten times 20, as in the authors' programs."""


@dataclass(frozen=True)
class Start:
    """How AQWA begins and cuts: minCount as a share of a batch, and the most files at the start."""

    name: str
    share: int
    files: int | None
    rule: dict[str, object]


STARTS = (
    Start("text", BLOCK_SHARE, None, {}),
    Start("100 files", PROGRAM_SHARE, PROGRAM_FILES, {}),
    Start(
        "programs", PROGRAM_SHARE, PROGRAM_FILES, {"choice": "all", "fading": 10.0, "fade_every": 1000, "lazily": False}
    ),
)
Layout = AqwaRun | Fixed


def begin(world: World, start: Start, **changed: object) -> AqwaRun:
    """Return AQWA on the first batch."""
    least = world.rows // start.share
    parts = first_parts(world.first, world.grid.everything, least, start.files)
    return AqwaRun(world.grid, world.first, parts, Rule(least, **{**start.rule, **changed}))  # type: ignore[arg-type]


def rivals(world: World, start: Start) -> dict[str, Layout]:
    """Return the layouts of one start: the static grid, the static k-d tree, AQWA."""
    aqwa = begin(world, start)
    parts = [aqwa.rectangle(number) for number in aqwa.numbers.tolist()]
    return {
        "grid": Fixed(even_parts(world.grid, len(parts)), world.first),
        "k-d": Fixed(parts, world.first),
        "AQWA": aqwa,
    }


def asked(layout: Layout, questions: Iterable[Rectangle]) -> list[Answered]:
    """Return what the questions cost, in turn."""
    return [layout.ask_cells(question) for question in questions]


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(title: str, *columns: str) -> None:
    """Print a heading and the first two rows of a table."""
    print(f"\n{title}\n")
    row(*columns)
    print("|" + "---|" * len(columns))


def ratio(rival: float, ours: float) -> str:
    """Return how many times as much a rival takes."""
    return f"{rival / ours:.1f}"


def appended(world: World) -> None:
    """Fig 11: after each batch 1,000 questions of 5 x 5 cells at the five densest places."""
    verdicts: list[tuple[object, ...]] = []
    for start in STARTS:
        layouts = rivals(world, start)
        files = len(layouts["k-d"].rectangles)
        head(
            f"Fig 11, start `{start.name}`: {files} files, minCount {world.rows // start.share:,} points",
            *("batches", "grid", "k-d", "AQWA", "its second half", "cuts", "rewritten, of all points", "files"),
        )
        sums: dict[str, list[Spent]] = {name: [] for name in layouts}
        for batch, more in enumerate(world.batches):
            if batch:
                for layout in layouts.values():
                    layout.append_counts(more)
            costs = {}
            for name, layout in layouts.items():
                answers = asked(layout, ranges(world, [0, 1, 2, 3, 4], QUESTIONS, SIDE, seed=batch))
                costs[name] = spent(answers, world.scale)
                late = spent(answers[QUESTIONS // 2 :], world.scale)
                sums[name].append(costs[name])
            all_points = int(layouts["AQWA"].counts.within(*world.grid.everything))
            row(
                batch + 1,
                *(f"{costs[name].points:,.0f}" for name in layouts),
                f"{late.points:,.0f}",
                costs["AQWA"].cuts,
                f"{costs['AQWA'].rewritten / all_points:.2f}",
                len(layouts["AQWA"].rectangles),
            )
        verdicts.append((start.name, "as at the start", *_times(sums, -1)))
        verdicts.append((start.name, *_anew(world, layouts)))
    head(
        "How many times AQWA's costs a static layout has, after the last batch (cuts aside)",
        *("start", "static layouts", "grid: points", "map tasks", "elapsed", "k-d: points", "map tasks", "elapsed"),
    )
    for verdict in verdicts:
        row(*verdict)


def _times(sums: dict[str, list[Spent]], batch: int) -> list[str]:
    ours = sums["AQWA"][batch]
    return [
        ratio(getattr(sums[name][batch], what), getattr(ours, what))
        for name in ("grid", "k-d")
        for what in ("points", "task_seconds", "elapsed")
    ]


def _anew(world: World, layouts: dict[str, Layout]) -> tuple[object, ...]:
    """Return the same against static layouts that are made anew of all points, with as many files as AQWA has now."""
    counts = layouts["AQWA"].counts
    files = len(layouts["AQWA"].rectangles)
    made: dict[str, Layout] = {
        "grid": Fixed(even_parts(world.grid, files), counts),
        "k-d": Fixed(first_parts(counts, world.grid.everything, 1, files), counts),
        "AQWA": layouts["AQWA"],
    }
    last = len(world.batches) - 1
    sums = {
        name: [spent(asked(layout, ranges(world, [0, 1, 2, 3, 4], QUESTIONS, SIDE, seed=last)), world.scale)]
        for name, layout in made.items()
    }
    return f"made anew with AQWA's {files} files", *_times(sums, 0)


def steady(world: World, start: Start, questions: list[Rectangle], *cells: object) -> None:
    """Print a row: all batches are in, and the second half of the questions counts."""
    layouts = rivals(world, start)
    found = {}
    for name, layout in layouts.items():
        for more in world.batches[1:]:
            layout.append_counts(more)
        found[name] = asked(layout, questions)
    half = {name: spent(answers[len(answers) // 2 :], world.scale) for name, answers in found.items()}
    whole = spent(found["AQWA"], world.scale)
    ours = half["AQWA"]
    row(
        *cells,
        *(f"{cost.points:,.0f}" for cost in half.values()),
        ratio(half["grid"].points, ours.points),
        ratio(half["k-d"].points, ours.points),
        f"{half['grid'].elapsed:.1f}, {half['k-d'].elapsed:.1f}, {ours.elapsed:.1f}",
        whole.cuts,
        f"{whole.rewritten / int(layouts['AQWA'].counts.within(*world.grid.everything)):.2f}",
    )


STEADY = ("grid", "k-d", "AQWA", "grid / AQWA", "k-d / AQWA", "elapsed s", "cuts", "rewritten, of all points")


def sizes(world: World, start: Start) -> None:
    """Fig 13: by the size of the question."""
    head(f"Fig 13, start `{start.name}`: points read by a range", "area of the world", *STEADY)
    for side, area in SIDES.items():
        steady(world, start, list(ranges(world, [0, 1, 2, 3, 4], QUESTIONS, side)), area)


def neighbours(world: World, start: Start) -> None:
    """Fig 14: by k."""
    head(f"Fig 14, start `{start.name}`: points read by kNN", "k", "cells asked", *STEADY)
    counts = world.first
    for more in world.batches[1:]:
        counts = counts.with_more(more)
    for k in KS:
        questions = []
        for at in ranges(world, [0, 1, 2, 3, 4], QUESTIONS, 1):
            x0, y0, x1, y1 = world.grid.box(at)
            questions.append(nearest_rectangle(world.grid, counts, ((x0 + x1) / 2, (y0 + y1) / 2), k))
        cells = sum((q.bottom - q.top) * (q.right - q.left) for q in questions) / len(questions)
        steady(world, start, questions, k, f"{cells:.1f}")


def serial(world: World, start: Start) -> None:
    """Fig 15: five hotspots one after the other."""
    head(
        f"Fig 15, start `{start.name}`: points read, 1,000 questions of 10 x 10 cells at each hotspot in turn",
        *("hotspot", "grid", "k-d", "AQWA", "its second half", "grid / AQWA", "k-d / AQWA", "cuts"),
        "rewritten, of all points",
    )
    layouts = rivals(world, start)
    for layout in layouts.values():
        for more in world.batches[1:]:
            layout.append_counts(more)
    points = int(layouts["AQWA"].counts.within(*world.grid.everything))
    for spot in range(len(world.spots)):
        found = {name: asked(layout, ranges(world, [spot], QUESTIONS, 10)) for name, layout in layouts.items()}
        cost = {name: spent(answers, world.scale) for name, answers in found.items()}
        late = spent(found["AQWA"][QUESTIONS // 2 :], world.scale)
        row(
            spot + 1,
            *(f"{each.points:,.0f}" for each in cost.values()),
            f"{late.points:,.0f}",
            ratio(cost["grid"].points, cost["AQWA"].points),
            ratio(cost["k-d"].points, cost["AQWA"].points),
            cost["AQWA"].cuts,
            f"{cost['AQWA'].rewritten / points:.2f}",
        )


def cycles(world: World, start: Start) -> None:
    """Fig 16: a hotspot moves, then a batch five times as large comes; by T."""
    head(
        f"Fig 16, start `{start.name}`: by T, after the hotspot has moved and five batches have come at once",
        *("T", "c", "cuts then", "rewritten then, of all points", "of it at the old hotspot", "points a question then"),
    )
    for fading in (2.0, 10.0):
        for cycle in CYCLES:
            aqwa = begin(world, start, fade_every=cycle, fading=fading)
            asked(aqwa, ranges(world, [0], QUESTIONS, 10))
            asked(aqwa, ranges(world, [1], MOVED, 10))
            for more in world.batches[1:]:
                aqwa.append_counts(more)
            spot = world.spots[0]
            old = Rectangle(spot[0], spot[1], spot[0] + 20, spot[1] + 20)
            there = set(aqwa.overlapped(old)[0].tolist())
            after = asked(aqwa, ranges(world, [1], QUESTIONS, 10, seed=1))
            at_old = 0
            for cut in (cut for answer in after for cut in answer.cuts):
                if cut.part in there:
                    at_old += cut.points
                    there |= {cut.first, cut.second}
            cost = spent(after, world.scale)
            points = int(aqwa.counts.within(*world.grid.everything))
            row(
                *(f"{cycle:,}", f"{fading:g}", cost.cuts, f"{cost.rewritten / points:.2f}"),
                *(f"{at_old / max(cost.rewritten, 1):.0%}", f"{cost.points:,.0f}"),
            )


def together(world: World, start: Start) -> None:
    """Fig 17: one to five hotspots at once."""
    head(f"Fig 17, start `{start.name}`: 1,000 questions of 10 x 10 cells at each, interleaved", "hotspots", *STEADY)
    for count in range(1, len(world.spots) + 1):
        steady(world, start, list(ranges(world, list(range(count)), count * QUESTIONS, 10)), count)


def searches(world: World) -> None:
    """What the text's two sentences on the best cut make of it."""
    head(
        "The best cut, from 100 files, all batches in: 1,000 questions of 5 x 5 cells at five hotspots",
        *("best cut", "points read, second half", "cuts", "rewritten, of all points"),
    )
    names = {"gain": "most saved, of the lines looked at", "even": "the most even cost", "all": "best of all lines"}
    for choice, name in names.items():
        aqwa = begin(world, STARTS[1], choice=choice)
        for more in world.batches[1:]:
            aqwa.append_counts(more)
        answers = asked(aqwa, ranges(world, [0, 1, 2, 3, 4], QUESTIONS, SIDE))
        cost = spent(answers, world.scale)
        points = int(aqwa.counts.within(*world.grid.everything))
        late = spent(answers[QUESTIONS // 2 :], world.scale)
        row(name, f"{late.points:,.0f}", cost.cuts, f"{cost.rewritten / points:.2f}")


def main(words: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", choices=["taxi", "fleet"], default="fleet" if missing("taxi") else "taxi")
    options = parser.parse_args(words)
    world = world_of(options.set)
    points = sum(int(batch.within(*world.grid.everything)) for batch in world.batches)
    print(f"{world.name}: {points:,} points in {len(world.batches)} batches, {world.left_out:,} left out; 1000 x 1000")
    appended(world)
    searches(world)
    for start in STARTS[:2]:
        sizes(world, start)
        neighbours(world, start)
        serial(world, start)
        cycles(world, start)
        together(world, start)


if __name__ == "__main__":
    main()
