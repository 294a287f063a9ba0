"""Rows and messages against standing questions, beside a grid that is changed in place, trees, words or places alone.

python -m pytest bench/suites/test_watch.py -q --benchmark-only -p no:cacheprovider

Smaller than `python -m bench.watch.circles`, `words` and `building`, which print what docs/benchmarks.md has.
"""

from __future__ import annotations

from functools import lru_cache
from time import thread_time

import numpy as np
import pyarrow as pa
import pytest

from bench.watch.baselines import BoxTree, Reversed, circles_of
from bench.watch.circles import in_pieces, metres, places_of, same
from bench.watch.gi2 import GI2
from bench.watch.words import formulas, matched, squares, towns
from bench.watch.worlds import WORLDS, shuffled
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.index.word_index import BY_BOTH, BY_PLACE_ONLY, BY_WORDS_ONLY, build_worded, vocabulary_in
from dtoss.watch.matching.matcher import Matcher
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import messages_of

# what else the machine does counts less
pytestmark = [pytest.mark.timeout(600), pytest.mark.benchmark(timer=thread_time)]
SCALE, ROWS, SOME = 0.2, 50_000, 2_000
SUBSCRIPTIONS, MESSAGES, FEW = 200_000, 50_000, 2_000
SINGLE = (10, 12, 14, 16, 18)
"""Levels of single grids: rows of 20 km to 76 m."""
TOO_MANY = 3_000_000
"""Places of a grid that is left out."""
BYTES_GOAL, DELTA, DELTA_GOAL = 250, 10_000, 30.0


def built_of(table, **more):
    return build(table, space_of(), {}, text=False, **more)


@pytest.mark.parametrize("order", ["in order", "shuffled"])
@pytest.mark.parametrize("name", ["streets", "districts", "crowded"])
def test_circles(name, order, race):
    """Others: GI2 on a single grid, boxes in shapely's STRtree, a kd-tree of the rows, and two other single grids."""
    world = WORLDS[name](ROWS, SCALE)
    world = shuffled(world) if order == "shuffled" else world
    built = built_of(world.table())
    matcher = Matcher(built, np.ones(len(built), np.bool_))
    level = int(built.arrays["grid/levels"][-1])
    few = world.rows[:: ROWS // SOME].copy()
    others = {
        "GI2": GI2(world.centres, world.radius, level).match,
        "STRtree": BoxTree(circles_of(world.centres, world.radius)).match,
        "kd-tree of rows": Reversed(circles_of(world.centres, world.radius)).match,
    }
    wanted = matcher.match(Rows(few))
    assert all(same(wanted, other(few)) for other in others.values())
    race(
        f"{name}, {order}",
        "rows against circles",
        len(world.rows),
        lambda: in_pieces(built)(world.rows),
        {name: lambda other=other: other(world.rows) for name, other in others.items()},
        goals={"STRtree": 3.0},
        rounds=3,
    )


@pytest.mark.parametrize("name", ["streets", "districts"])
def test_levels(name, race):
    """The levels that a sample chooses beside single grids; of 20 km to 76 m, those that are not too large."""
    world = WORLDS[name](ROWS, SCALE)
    built = built_of(world.table())
    some = world.rows[: ROWS // 5].copy()
    fit = [level for level in SINGLE if places_of(world, level) < TOO_MANY]
    alone = {metres(level): in_pieces(built_of(world.table(), only_level=level)) for level in fit}
    race(
        name,
        "chosen levels, single grids",
        len(some),
        lambda: in_pieces(built)(some),
        {size: lambda way=way: way(some) for size, way in alone.items()},
        goals=dict.fromkeys(alone, 0.8),
    )


@lru_cache(maxsize=1)
def words():
    random = np.random.default_rng(0)
    places, known, share = towns(random)
    named = np.array(known, object)
    texts, boxes = formulas(named, share, random, SUBSCRIPTIONS), squares(places, random, SUBSCRIPTIONS)
    positions = places[random.integers(0, len(places), MESSAGES)] + random.normal(0.0, 0.02, (MESSAGES, 2))
    said = pa.array([" ".join(row) for row in random.choice(named, (MESSAGES, 8), p=share)])
    return texts, boxes, np.clip(positions, [-179.9, -89.9], [180.0, 89.9]), said


def test_words(race):
    """Words and place together beside either alone; the others are given fewer messages."""
    texts, boxes, positions, said = words()
    ways = {by: build_worded(texts, boxes, "sphere", by=by) for by in (BY_BOTH, BY_WORDS_ONLY, BY_PLACE_ONLY)}
    count = {BY_BOTH: MESSAGES, BY_WORDS_ONLY: FEW, BY_PLACE_ONLY: FEW}
    told = {by: messages_of(vocabulary_in(way), said.slice(0, count[by])) for by, way in ways.items()}
    last = race(
        "towns",
        "messages against words and place",
        MESSAGES,
        lambda: matched(ways[BY_BOTH], positions, told[BY_BOTH]),
        {
            "words only": lambda: matched(ways[BY_WORDS_ONLY], positions[:FEW], told[BY_WORDS_ONLY]),
            "place only": lambda: matched(ways[BY_PLACE_ONLY], positions[:FEW], told[BY_PLACE_ONLY]),
        },
        scale={"words only": MESSAGES / FEW, "place only": MESSAGES / FEW},
        goals={"words only": 3.0, "place only": 8.0},
        rounds=3,
    )
    assert last["words only"] == last["place only"]


def test_building(race):
    """A new index beside GI2 filled from nothing, and beside one in which a tenth is changed in place."""
    world = WORLDS["districts"](1, SCALE)
    table = world.table()
    tenth = slice(0, len(world.radius) // 10)
    grid = GI2(world.centres, world.radius, 11)

    def change():
        grid.delete(np.arange(len(world.radius))[tenth])
        grid.insert(world.centres[tenth], world.radius[tenth])

    last = race(
        "districts",
        "circles built",
        len(table),
        lambda: built_of(table),
        {
            "GI2": lambda: GI2(world.centres, world.radius, 11),
            "a tenth in place": change,
            "STRtree": lambda: BoxTree(circles_of(world.centres, world.radius)),
        },
        rounds=3,
    )
    index = sum(array.nbytes for array in last["ours"].arrays.values()) / len(table)
    print(f"\nan index of circles: {index:.0f} bytes each (goal: at most {BYTES_GOAL})")


@pytest.mark.parametrize("kind", ["circles", "words"])
def test_a_small_index(kind, benchmark):
    """10,000 subscriptions, what a change makes anew; at most 30 ms is the goal."""
    texts, boxes, _, _ = words()
    table = WORLDS["districts"](1, 0.01).table()
    work = {
        "circles": lambda: built_of(table),
        "words": lambda: build_worded(texts.slice(0, DELTA), boxes[:DELTA], "sphere"),
    }[kind]
    assert len(table) == DELTA
    benchmark.pedantic(work, rounds=9, warmup_rounds=1)
    took = benchmark.stats.stats.min * 1e3
    benchmark.extra_info["milliseconds"] = round(took, 1)
    print(f"\n{DELTA:,} {kind} built in {took:.1f} ms (goal: at most {DELTA_GOAL:.0f})")
