"""Section V-B of PS2Stream, global adjustment, by the simulator: a new tree, at first for new subscriptions only.

Each round a fifth of the subscriptions go, and as many come, which ask otherwise in every region (Q1 for Q2, and the
other way). After some rounds there is a new tree. What stands stays under the old one beside it, until a tenth is left
and moves; or all of it moves at once; or there is no new tree, and cells move as before. A row that goes to a worker
under both trees counts twice there. Work and words are those of `ps2stream_6_16`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.experiments.results import Results, Row, grid, point
from bench.watch.spoken_rounds import REGIONS, Asking, Talk, asking, spoken, talk
from ceps.balance.cell_layout import Layout
from ceps.balance.ps2stream.ps2stream import PS2Stream
from ceps.balance.round_costs import Loads, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions

WORKERS = 8
SIZES = {
    "smoke": (200, 100, 20, 500),
    "here": (20_000, 10_000, 40, 1_000_000),
    "full": (50_000, 20_000, 60, 1_000_000),
}
"""Subscriptions, messages of a round, rounds, and words at most."""
GONE, LEAST, CHECKED = 0.2, 0.1, 5
"""Share of subscriptions that goes in a round, and of old ones that moves; rounds before a new tree, and last ones."""
ALONE, BESIDE, AT_ONCE = "no new tree", "beside the old one", "moved at once"
MEAN, END = "messages a unit of the busiest worker's work", "the same in the last rounds"
X = "regions that turn"
MOVED = "of all bytes moved to the new tree"


def _round(world: Talk, asking: Asking, many: int, number: int) -> tuple[Loads, SubscriptionLoad]:
    """Return what the messages of a round cost, which are the same for all subscriptions."""
    asked = asking.asked()
    return spoken(world, asked, many, np.random.default_rng((7, number))), asked


def _moved(asking: Asking, before: Layout, after: Layout) -> float:
    """Return the bytes of subscriptions that workers store newly, over those of all of these."""
    asked = asking.asked()
    fresh = [
        stored_subscriptions(after, asked, one) & ~stored_subscriptions(before, asked, one) for one in range(WORKERS)
    ]
    return float(sum(asked.bytes[some].sum() for some in fresh) / asked.bytes.sum())


def run(size: str) -> Iterator[Row]:
    """Yield throughput from the new tree on, and what moves to it."""
    count, many, rounds, words = SIZES[size]
    world = talk()
    world = replace(world, share=world.share[:words] / world.share[:words].sum())
    rng, strategy = np.random.default_rng(6), PS2Stream(WORKERS)
    kinds = [asking("Q1", world, count, rng), asking("Q2", world, count, rng)]
    second = rng.random(REGIONS * REGIONS) < 0.5
    before, after = (kinds[0].where(some[kinds[0].region], kinds[1]) for some in (second, ~second))
    came, rates = np.zeros(count, np.int64), {name: [] for name in (ALONE, BESIDE, AT_ONCE)}
    under = dict.fromkeys(rates, ((strategy.next_layout(None, *_round(world, before, many, 0), {}), 0),))
    for number in range(1, rounds):
        came[rng.random(count) < GONE] = number
        now = after.where(came == 0, before)
        for name, trees in under.items():
            work, next_trees = np.zeros(WORKERS), []
            for made, since in trees:
                # a tree has what came until the next one was there
                mine = (came >= since) & (came < min((other for _, other in trees if other > since), default=rounds))
                loads, asked = _round(world, now.part(mine), many, number)
                work += work_of_workers(made.layout, loads)
                next_trees.append((strategy.next_layout(made.layout, loads, asked, made.memory), since))
            rates[name].append(many / float(work.max()))
            under[name] = tuple(next_trees)
        old = came <= CHECKED
        if number == CHECKED:
            new = strategy.next_layout(None, *_round(world, now, many, number), {})
            under |= {BESIDE: (*under[BESIDE], (new, number + 1)), AT_ONCE: ((new, 0),)}
            yield point(AT_ONCE, X, _moved(now, under[ALONE][0][0].layout, new.layout), MOVED)
        elif len(under[BESIDE]) == 2 and old.mean() <= LEAST:
            layouts = [made.layout for made, _ in under[BESIDE]]
            yield point(BESIDE, X, _moved(now.part(old), *layouts) * old.mean(), MOVED)
            under[BESIDE] = ((under[BESIDE][1][0], 0),)
    for name, rate in rates.items():
        yield point(name, X, rate[CHECKED:], MEAN, data=f"{count:,} subscriptions, {many:,} messages a round")
        yield point(name, X, rate[-CHECKED:], END)


def draw(results: Results) -> str:
    """Return a row a way."""
    turned = tuple(point(row.series, row.unit, row.y, "") for row in results.rows)
    return grid(Results("", turned), "", "new tree", "{:.3g}", down="series")
