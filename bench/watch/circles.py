"""Rows against circles: python -m bench.watch.circles [WORLDS...] [--rows N]: how many times as fast as others.

GI2 stands on the best single grid whose rows are a power of two from 20 m to 80 km, STRtree is a tree of boxes; each
world also with its rows shuffled, and with rows where few circles are. One thread, in processor seconds of it, the
least of several in turns; all find the same.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.watch.baselines import BoxTree, circles_of
from bench.watch.gi2 import GI2, count_lists
from bench.watch.worlds import WORLDS, World, elsewhere, shuffled
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.index.cell_frame import GLOBE
from dtoss.watch.index.covers import circle_rects
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.matching.matches import Matches
from dtoss.watch.watch_settings import Rows

LEVELS = range(8, 21)
"""Of single grids: rows of 78 km down to 19 m."""
MOST_PLACES = 30_000_000
"""Places of a single grid that memory is enough for."""
_ENOUGH_SECONDS = 1.5
"""What a call may take; a way that takes longer is asked for fewer rows."""
_LEAST_ROWS = 2_000
TREE_GOAL = 3.0
"""Times as fast as STRtree."""

Floats = NDArray[np.float64]
Way = Callable[[Floats], Any]


def in_pieces(built: SubscriptionIndex) -> Way:
    """Return what finds all matches of rows, some at a time, and how many there are."""
    matcher = Matcher(built, np.ones(len(built), np.bool_))
    return lambda positions: sum(len(piece) for piece in matcher.pieces(Rows(positions)))


def spent(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor seconds of this thread that a call took, and what it returned."""
    began = time.thread_time()
    found = work()
    return time.thread_time() - began, found


@dataclass
class Racer:
    """One way to match, on as many rows as it can be asked for.

    Parameters
    ----------
    way
        Takes positions.
    rows
        float64 (m, 2).
    least
        Seconds a row, the least so far.
    """

    way: Way
    rows: Floats
    least: float = field(default=np.inf)

    @classmethod
    def of(cls, way: Way, rows: Floats) -> Racer:
        """Return a way, tried on a few rows to see how many it can be asked for."""
        some = rows[:: max(len(rows) // _LEAST_ROWS, 1)].copy()
        way(some[:10])
        seconds, _ = spent(lambda: way(some))
        fit = max(int(_ENOUGH_SECONDS / (seconds / len(some))), _LEAST_ROWS)
        wanted = min(fit, len(rows))
        # whole stretches of rows, so that neighbours stay neighbours
        stretch = len(rows) // max(len(rows) // max(wanted, 1), 1)
        return cls(way, rows if wanted == len(rows) else _stretches(rows, min(wanted, stretch)))

    def run(self) -> None:
        """Time it once."""
        seconds, _ = spent(lambda: self.way(self.rows))
        self.least = min(self.least, seconds / len(self.rows))


def _stretches(rows: Floats, count: int) -> Floats:
    """Return so many rows, in twenty stretches."""
    each = max(count // 20, 1)
    starts = np.linspace(0, len(rows) - each, 20).astype(int)
    return np.ascontiguousarray(np.concatenate([rows[start : start + each] for start in starts]))


def in_turns(racers: Mapping[Any, Racer], rounds: int) -> None:
    """Time all ways, in turns."""
    for _ in range(rounds):
        for racer in racers.values():
            racer.run()


def same(ours: Matches, theirs: Matches) -> bool:
    """Return whether both have the same pairs with the same distances."""
    order = np.lexsort((theirs.subscription, theirs.row))
    return all(
        np.array_equal(getattr(ours, name), getattr(theirs, name)[order], equal_nan=True)
        for name in ("row", "subscription", "distance")
    )


def places_of(world: World, level: int) -> int:
    """Return in how many cells of a single grid the circles stand."""
    space = space_of()
    rects = circle_rects(world.centres, space.vectors(world.centres), world.radius, space)
    return int(count_lists(rects, level, np.array(GLOBE, np.float64), np.empty(len(rects), np.int64)))


def best_grid(world: World, rounds: int) -> int:
    """Return the level of the quickest single grid that memory is enough for; one is held at a time."""
    found = {}
    for level in LEVELS:
        if places_of(world, level) <= MOST_PLACES:
            built = build(world.table(), space_of(), {}, text=False, only_level=level)
            racer = Racer.of(in_pieces(built), world.rows)
            in_turns({level: racer}, rounds)
            found[level] = racer.least
    return min(found, key=lambda level: found[level])


def beside_others(world: World, level: int, rounds: int) -> None:
    """Print ours beside GI2 and a tree of boxes, for rows in order, in none, and elsewhere."""
    built = build(world.table(), space_of(), {}, text=False)
    matcher = Matcher(built, np.ones(len(built), np.bool_))
    others = {
        "GI2": GI2(world.centres, world.radius, level),
        "STRtree": BoxTree(circles_of(world.centres, world.radius)),
    }
    for asked in (world, shuffled(world), elsewhere(world)):
        check = _stretches(asked.rows, _LEAST_ROWS)
        wanted = matcher.match(Rows(check))
        racers = {"ours": Racer.of(in_pieces(built), asked.rows)}
        for name, other in others.items():
            assert same(wanted, other.match(check)), f"{name} must find the same"
            racers[name] = Racer.of(other.match, asked.rows)
        in_turns(racers, rounds)
        ours = racers["ours"].least
        told = ", ".join(
            f"{name} {racer.least / ours:.2f} x" + (f" (goal {TREE_GOAL:.0f})" if name == "STRtree" else "")
            for name, racer in racers.items()
            if name != "ours"
        )
        matches = in_pieces(built)(asked.rows) / len(asked.rows)
        print(
            f"  {asked.order}: {1e-6 / ours:.2f} M rows/s, {matches:.1f} matches a row, "
            f"{matches / ours / 1e6:.1f} M matches/s; {told}"
        )


def main() -> None:
    """Print the figures of all worlds, or of those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", choices=[[], *WORLDS], metavar="WORLD", help=f"of {', '.join(WORLDS)}")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the circles")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in options.worlds or WORLDS:
        world = WORLDS[name](options.rows, options.scale)
        print(f"\n{world.name}; load {os.getloadavg()[0]:.0f}", flush=True)
        beside_others(world, best_grid(world, options.rounds), options.rounds)


if __name__ == "__main__":
    main()
