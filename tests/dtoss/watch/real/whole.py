"""Real rows through the batch function, each event held to a plain account (a part of check-data).

``python -m tests.dtoss.watch.real.whole`` takes a day of 500 taxis, ships at Piraeus, aircraft, earthquakes and the
check-ins of Gowalla and Brightkite: each with 1, 2 and 7 tasks, in batches that are cut at random, in time and with
late rows. The same batches give the same files, and without late rows other batches give the same events of each
object.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from datasets.tables.command import run, say
from tests.dtoss.watch.real.held_real import World, hold
from tests.dtoss.watch.real.worlds import aircraft, check_ins, cuts, earthquakes, ships, spoken, taxis

WORLDS: dict[str, Callable[..., World]] = {
    "taxis": taxis,
    "ships": ships,
    "aircraft": aircraft,
    "earthquakes": earthquakes,
    "gowalla": partial(check_ins, "gowalla_checkins"),
    "brightkite": partial(check_ins, "brightkite_checkins"),
    "gowalla in words": partial(spoken, "gowalla_checkins"),
    "brightkite in words": partial(spoken, "brightkite_checkins"),
}
TASKS = (1, 2, 7)
EXPIRE = {"ships": 1_200_000_000, "taxis": 900_000_000}
"""Microseconds after which a silent object is over, where that is tried."""


def held(name: str, most: int | None, fences: int, seed: int, folder: Path, tasks: tuple[int, ...] = TASKS) -> str:
    """Hold a world in every way, and return what was compared."""
    rng = np.random.default_rng(seed)
    make = WORLDS[name]
    events = batches = unsure = 0

    def ran(world: World, ends: list[int], count: int, expire: int | None = None) -> Any:
        nonlocal events, batches, unsure
        found = hold(world, folder / str(rng.integers(1 << 60)), ends, count, expire)
        events, batches, unsure = events + found.events, batches + found.batches, unsure + found.unsure
        return found

    for late in (0.0, 0.2) if most is None else (0.2,):
        parts = int(rng.integers(4, 12))
        world = make(most, late, fences, parts)
        ends = cuts(rng, len(world.rows), parts)
        first = ran(world, ends, tasks[0])
        assert ran(world, ends, tasks[0]).names == first.names, "equal batches have other files"
        for count in tasks[1:]:
            again = ran(world, ends, count)
            assert again.events == first.events
            assert first.by_object is None or (again.by_object == first.by_object).all()
        if name in EXPIRE:
            ran(world, ends, tasks[-1], EXPIRE[name])
    # all fences stand from the first batch on: how rows are cut into batches does not show
    world = make(most, 0.0, fences, 1)
    told = [
        ran(world, cuts(rng, len(world.rows), parts), count) for parts, count in zip((1, 3, 17), tasks, strict=False)
    ]
    assert len({one.events for one in told}) == 1 or ties(told)
    for one in told[1:]:
        assert one.by_object is None or ties(told) or (one.by_object == told[0].by_object).all()
    return (
        f"{len(world.rows):,} rows, {len(world.fences):,} fences, {batches} batches, {events:,} events, {unsure} unsure"
    )


def ties(told: list[Any]) -> bool:
    """Whether rows of one object and moment were left out, which batches may do otherwise."""
    return any(one.counts.get(name, 0) for one in told for name in ("tied", "repeated", "late"))


def main(
    only: Annotated[str | None, typer.Option(help="One of the worlds.")] = None,
    most: Annotated[int | None, typer.Option(help="Rows of a world at most; all there are if not given.")] = None,
    fences: Annotated[int, typer.Option(help="Of a world.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Where batches are cut.")] = 0,
) -> None:
    """Hold real rows to the plain account of what is told."""
    os.fsync = lambda _number: None  # no power fails here
    for name in [only] if only else list(WORLDS):
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            found = held(name, most, fences, seed, Path(folder))
        say(f"real: {name}: {found}, none differs; {time.process_time() - began:,.0f} s of a processor")


if __name__ == "__main__":
    run(main)
