"""Indexes of subscriptions made and changed: python -m bench.watch.building [--scale S].

How many circles a second an index is built of and how large it is, what a change of 10,000 costs in a store, and at
which share of changed subscriptions a new index is cheaper than one that is changed in place, as GI2 is. Then memory:
of a process that maps a million subscriptions, and of a row that all of them match. One thread, in processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measuring.machine import resident
from bench.watch.circles import in_pieces, spent
from bench.watch.gi2 import GI2
from bench.watch.worlds import WORLDS, World, circles, districts
from dtoss.commits.folder import LocalFolder
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.index.index_changes import prepare
from dtoss.watch.index.index_files import open_built, write_built
from dtoss.watch.index.large_and_small import Standing, standing_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.matcher import Matcher, StandingMatcher
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows, Settings

SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5)
"""Of subscriptions that are changed."""
DELTA = 10_000
GI2_LEVEL = 11
"""Of the single grid, 9.8 km: near the best for circles at towns."""
CIRCLES_GOAL, BYTES_GOAL, DELTA_GOAL, WORKER_GOAL = 1e6, 250, 30, 100
_ROWS = 200_000
_ONE_PLACE = (2.0, 48.0)


def least(call: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Return the least processor seconds of this thread that a call took, and what it returned last."""
    best, found = np.inf, None
    for _ in range(times):
        found = None
        seconds, found = spent(call)
        best = min(best, seconds)
    return best, found


def built_of(table: pa.Table) -> SubscriptionIndex:
    """Return the index of circles."""
    return build(table, space_of(), {}, text=False)


def sizes(scale: float) -> None:
    """Print how fast indexes are built, and how large they are."""
    print("built: M circles/s, bytes each of the index, with what subscriptions say, in the file; 10,000 of them")
    for name in WORLDS:
        world = WORLDS[name](1, scale)
        table = world.table()
        built_of(table.slice(0, 1000))
        seconds, built = least(lambda table=table: built_of(table), 3)  # type: ignore[misc]
        few, _ = least(lambda table=table: built_of(table.slice(0, DELTA)), 7)  # type: ignore[misc]
        index = sum(array.nbytes for array in built.arrays.values()) / len(built)
        with tempfile.TemporaryDirectory() as folder:
            file = write_built(LocalFolder(folder), built, "base")["bytes"] / len(built)
        print(
            f"  {world.name}: {len(built) / seconds / 1e6:.2f} M/s (goal {CIRCLES_GOAL / 1e6:.0f}), {index:.0f} bytes "
            f"(goal {BYTES_GOAL}), {built.bytes / len(built):.0f}, {file:.0f}; "
            f"{few * 1e3:.1f} ms (goal {DELTA_GOAL})",
            flush=True,
        )


def in_a_store(scale: float) -> None:
    """Print what a change of 10,000 circles of a million costs until a batch can use it, all threads."""
    world = districts(1, scale)
    settings = Settings(space_of(), "int64", "timestamp")
    with tempfile.TemporaryDirectory() as folder:
        home = Home(folder)
        change = subscribe(home, world.table())
        began = process_time()
        files = prepare(home, change.number, settings, None)
        print(f"a store: {len(world.radius):,} circles are ready for batches in {process_time() - began:.1f} s")
        standing_of(home, files)
        rng, spent_here = np.random.default_rng(0), []
        for _ in range(3):
            moved = World("", world.centres, world.radius * rng.uniform(0.5, 2.0), world.rows)
            some = np.sort(rng.choice(len(world.radius), DELTA, replace=False))
            table = moved.table(some).set_column(0, "id", pa.array(some).cast(pa.string()))
            number = subscribe(home, table).number
            began = process_time()
            ready = prepare(home, number, settings, files)
            standing_of(home, ready)
            spent_here.append(process_time() - began)
        print(
            f"  {DELTA:,} others: {min(spent_here) * 1e3:.0f} ms, read, built, written and opened (goal {DELTA_GOAL})"
        )


def in_place_or_anew(scale: float) -> None:
    """Print what it costs to change a share of the circles: in place, by a small index, by a new one; and to match."""
    world = districts(_ROWS, scale)
    count = len(world.radius)
    table = world.table()
    anew, base = least(lambda: built_of(table), 3)
    rate = _rate(in_pieces(base), world)
    print(f"changed, of {count:,} circles: a new index takes {anew:.2f} s, rows then {rate:.2f} M/s")
    rng = np.random.default_rng(6)
    for share in SHARES:
        some = rng.choice(count, int(share * count), replace=False)
        centres, radius = world.centres[some], world.radius[some] * rng.uniform(0.5, 2.0, len(some))
        inplace, slow, swept = _in_place(world, some, centres, radius)
        small_took, small = least(lambda c=centres, r=radius: built_of(circles(c, r)), 3)  # type: ignore[misc]
        alive = np.ones(count + len(some), np.bool_)
        alive[some] = False
        both = StandingMatcher(Standing(base, small), alive)
        mine = _rate(lambda rows, both=both: sum(len(p) for p in both.pieces(Rows(rows))), world)  # type: ignore[misc]
        print(
            f"  {share:.1%}: in place {inplace * 1e3:.0f} ms, rows then {slow:.2f} and {swept:.2f} M/s; "
            f"a small index beside {small_took * 1e3:.0f} ms, rows then {mine:.2f} M/s; "
            f"anew / in place {anew / inplace:.1f}, anew / small {anew / small_took:.1f}",
            flush=True,
        )


def _in_place(world: World, some: Any, centres: Any, radius: Any) -> tuple[float, float, float]:
    """Return seconds to change circles of GI2, the rate of the first rows then, and of later ones."""
    grid = GI2(world.centres, world.radius, GI2_LEVEL)

    def change() -> None:
        grid.delete(some)
        grid.insert(centres, radius)

    seconds, _ = spent(change)
    first, _ = spent(lambda: grid.match(world.rows))
    return seconds, len(world.rows) / first / 1e6, _rate(grid.match, world)


def _rate(way: Callable[[Any], Any], world: World) -> float:
    way(world.rows[:1000].copy())
    seconds, _ = least(lambda: way(world.rows), 3)
    return len(world.rows) / seconds / 1e6


def memory(scale: float) -> None:
    """Print memory of processes that map an index and match rows, each measured in a process of its own."""
    world = districts(1, scale)
    crowd = circles(np.tile(_ONE_PLACE, (len(world.radius), 1)), np.full(len(world.radius), 30.0))
    with tempfile.TemporaryDirectory() as folder:
        for name, table in (("towns", world.table()), ("one place", crowd)):
            file = write_built(LocalFolder(folder), built_of(table), name.replace(" ", "-"))["name"]
            said = subprocess.run(
                [sys.executable, "-m", "bench.watch.building", "--map", folder, file, name],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            told = json.loads(said.splitlines()[-1])
            print(
                f"memory, {len(table):,} at {name}: a process without it {told['before'] / 1e6:.0f} MB, its own memory "
                f"grows by {told['own'] / 1e6:.0f} MB (goal {WORKER_GOAL}) while {told['matches']:,} matches are made, "
                f"{told['mapped'] / len(table):.0f} bytes a subscription are mapped and touched"
            )


def mapped(folder: str, name: str, what: str) -> None:
    """Match rows against the index of a file, and print how memory grew, as JSON."""
    rows = np.tile(_ONE_PLACE, (3, 1)) if what == "one place" else districts(_ROWS).rows
    some = built_of(circles(rows[:3], np.full(3, 1.0)))
    for _ in Matcher(some, np.ones(3, np.bool_)).pieces(Rows(rows[:3].copy())):
        pass
    own, files = resident(os.getpid())
    built = open_built(LocalFolder(folder), name)
    matcher = Matcher(built, np.ones(len(built), np.bool_))
    matches = grown = touched = 0
    for piece in matcher.pieces(Rows(rows)):
        matches += len(piece)
        now, there = resident(os.getpid())
        grown, touched = max(grown, now - own), max(touched, there - files)
    print(json.dumps({"before": own, "own": grown, "mapped": touched, "matches": matches}))


PARTS: dict[str, Callable[[float], None]] = {
    "sizes": sizes,
    "store": in_a_store,
    "changed": in_place_or_anew,
    "memory": memory,
}


def main() -> None:
    """Print all figures, or those of some parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the circles")
    parser.add_argument("--map", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.map:
        mapped(*options.map)
        return
    print(f"load {os.getloadavg()[0]:.0f}")
    for part in options.parts or PARTS:
        PARTS[part](options.scale)


if __name__ == "__main__":
    main()
