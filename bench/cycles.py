"""Cycles beside full rebuilds of the same rows: `python -m bench.cycles`, processor seconds of all processes.

A million taxis, 8 partitions, the sphere, a time and two attributes; 1, 10, 50 and 100 % of them report, then 1 %, all
in one city of 100, where there are 128 partitions. Cycle and rebuild take turns in one warm session. Processor seconds
are the least of all turns, wall seconds the median. The floor is a cycle's work in one process without Spark.
`--memory 200` runs so many cycles of 10 % and shows the memory of all processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from statistics import median
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.cycling import Cycling, Spent, cycling
from bench.measuring.machine import resident
from bench.measuring.updates import CITIES, OBJECTS, World, reporting, reports, world
from datasets.tables.command import run, say

GOALS = {0.01: (0.45, 2.5), 0.1: (0.5, 3.0), 0.5: (0.7, 4.0), 1.0: (0.9, 5.0)}
"""Of each share of updates: at most this share of the rebuild's processor time, and so many wall seconds."""
TOWN = (0.25, 1.5)
EARLY, LATE = slice(10, 30), slice(-20, None)
"""Cycles whose memory is compared."""


def turns_of(running: Cycling, rng: np.random.Generator, which: np.ndarray | float, turns: int) -> list[list[Spent]]:
    """Return what cycles used, and what full rebuilds of the same rows did, in turns; one of each before is warm-up."""
    spent: list[list[Spent]] = [[], []]
    for _ in range(turns + 1):
        spent[0].append(running.cycle(newer_rows(running, rng, which)))
        spent[1].append(running.full())
    return [runs[1:] for runs in spent]


def row(name: str, spent: Sequence[Sequence[Spent]], goal: tuple[float, float]) -> str:
    """Return a row of the table: processor seconds of both, their ratio, wall seconds, partitions built and linked."""
    ours, full = (min(one.processor for one in runs) for runs in spent)
    wall, others = (median(one.wall for one in runs) for runs in spent)
    done = spent[0][-1].manifest["cycle"]
    share = ours / full
    word = "goal" if share <= goal[0] else "MISSED"
    quick = "goal" if wall <= goal[1] else "MISSED"
    return (
        f"| {name} | {ours:.2f} | {full:.2f} | {share:.2f} ({word} {goal[0]:g}) | {wall:.2f} ({quick} {goal[1]:g}) "
        f"| {others:.2f} | {done['built']} and {done['linked']} |"
    )


def where(name: str, runs: Sequence[Spent]) -> str:
    """Return where the processor time of a run went, of the one that used least: by stage and by process."""
    best = min(runs, key=lambda one: one.processor)
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in best.stages.items())
    between = best.processor - sum(best.stages.values())
    kinds = ", ".join(f"{kind} {seconds:.2f}" for kind, seconds in best.kinds.items())
    return f"- {name}: {stages}, between stages {between:.2f}; {kinds}"


def newer_rows(running: Cycling, rng: np.random.Generator, which: np.ndarray | float) -> pa.Table:
    """Return newer rows of some taxis, or of a share of them."""
    some = reporting(rng, len(running.rows), which) if isinstance(which, float) else which
    return reports(rng, running.rows, some, 1)


def least(name: str, running: Cycling, rng: np.random.Generator, which: np.ndarray | float) -> str:
    """Return where the processor time of a cycle's work goes in one process, without Spark."""
    spent = running.floor(newer_rows(running, rng, which))
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in spent.items())
    return f"- {name}, floor: {sum(spent.values()):.2f}: {stages}"


def grown(running: Cycling, rng: np.random.Generator, cycles: int) -> str:
    """Return what memory all processes had after each of so many cycles of 10 %: medians early and late."""
    had = []
    for number in range(cycles):
        running.cycle(newer_rows(running, rng, 0.1))
        had.append(sum(resident(os.getpid())))
        if number % 20 == 19:
            say(f"cycle {number + 1}: {had[-1] / 1e6:,.0f} MB")
    early, late = median(had[EARLY]), median(had[LATE])
    return (
        f"memory of all processes, own and mapped, medians: {early / 1e6:,.0f} MB in cycles 11 to 30, "
        f"{late / 1e6:,.0f} MB in the last 20 of {cycles}: {late / early - 1:+.1%}"
    )


def main(
    objects: Annotated[int, typer.Option(help="How many.")] = OBJECTS,
    turns: Annotated[int, typer.Option(help="Of cycle and rebuild, for each row of the table.")] = 20,
    memory: Annotated[int, typer.Option(help="Cycles whose memory is watched, instead of the table.")] = 0,
    floor: Annotated[
        bool, typer.Option("--floor/--no-floor", help="Do the work of cycles in this process, without Spark.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the fleet and of who reports.")] = 0,
) -> None:
    """Print the table, where the time goes, and what memory does."""
    made = world(objects, CITIES, seed)
    if not memory:
        compared(made, turns, floor, seed)
    else:
        with cycling(made.rows, 8) as running:
            print(grown(running, np.random.default_rng(seed), memory))


def compared(made: World, turns: int, floor: bool, seed: int) -> None:
    """Print a row for each share of updates and the one city, and below it where the time went."""
    rng = np.random.default_rng(seed)
    head = (
        "updated", "cycle, processor s", "rebuild", "share", "wall s, median", "rebuild, wall s", "built and linked",
    )  # fmt: skip
    notes = []
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|", flush=True)
    with cycling(made.rows, 8) as running:
        for share, goal in GOALS.items():
            spent = turns_of(running, rng, share, turns)
            print(row(f"{share:.0%}", spent, goal), flush=True)
            notes += [where(f"{share:.0%}, cycle", spent[0]), where(f"{share:.0%}, rebuild", spent[1])]
            if floor:
                notes.append(least(f"{share:.0%}", running, rng, share))
    town = made.taxis[: len(made.rows) // 100]
    with cycling(made.rows, 128) as running:
        spent = turns_of(running, rng, town, turns)
        name = f"{len(town) / len(made.rows):.1%}, all in {made.city}, 128 partitions"
        print(row(name, spent, TOWN), flush=True)
        notes += [where("one city, cycle", spent[0]), where("one city, rebuild", spent[1])]
        if floor:
            notes.append(least("one city", running, rng, town))
    print("\nProcessor seconds, where they went:\n")
    print("\n".join(notes))


if __name__ == "__main__":
    run(main)
