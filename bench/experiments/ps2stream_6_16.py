"""PS2Stream's figures 6 to 16 by the simulator.

Tweets are messages of eight words at cities of the United States, words are as frequent as in the names of towns (those
of cities500 in the folder named by DTOSS_DATA; made without), and subscriptions are the paper's Q1, Q2 and Q3, and
*wide*: half of the regions ask for rare words anywhere. A worker's work is 1 a row and .01 for each subscription of the
cell that stands under one of its words, which is what lists by word look at; throughput is messages for the work of the
busiest. What the paper's partitioner minimises is the load of definition 1 (c1 = 2e-4, c2 = 1, c3 = .2), in which each
row is held against all that its leaf stores. Words are partitioned by frequency: hypergraph and metric are not built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from bench.experiments.results import Results, Row, grid, point
from bench.watch.spoken_rounds import TOWNS, Talk, spoken, switching, talk, workload
from ceps.balance.cell_layout import Layout
from ceps.balance.ps2stream.kdt import By, kdt_tree
from ceps.balance.ps2stream.ps2stream import PS2Stream, count_loads
from ceps.balance.rehearse import StrategyRun, rehearse
from ceps.balance.round_costs import Loads, WorkModel, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions
from ceps.strategies import strategy_of

WORKERS = 8
Choice = Literal["GR", "DP", "SI", "RA"]
CHOICES: tuple[Choice, ...] = ("GR", "DP", "SI", "RA")
ADJUSTING: dict[str, dict[str, Any]] = {
    "none": {"sigma": 1e9},
    "paper, phase II": {"heaviest": 0},
    "paper, both": {},
    "space, phase II": {"by": "space", "heaviest": 0},
    "space, both": {"by": "space"},
    "work, sigma 1.15": {"load": "work", "sigma": 1.15},
    "ours": {},
}
"""Ways to adjust, and how PS2Stream differs in them."""
SIZES: dict[str, Any] = {
    "smoke": (200, 100, ("Q3",), (8,), 5, CHOICES[:3], ("none", "paper, both", "ours"), 500),
    "here": (50_000, 20_000, ("Q1", "Q2", "Q3", "wide"), (4, 8, 16, 24), 60, CHOICES, tuple(ADJUSTING), 1_000_000),
    "full": (50_000, 20_000, ("Q1", "Q2", "Q3", "wide"), (4, 8, 16, 24), 60, CHOICES, tuple(ADJUSTING), 1_000_000),
}
"""Subscriptions, messages of a round, kinds of subscriptions, workers, rounds; choices of cells, ways to adjust,
and words at most."""
LEAF = WorkModel(1.0, 2e-4, 0.0)
"""Of definition 1: c2 and c1."""
FIRST = ("words", "uniform", "rtree", "kd", "space", "ps2stream")
TREES: dict[str, tuple[By, int]] = {
    "words, a leaf each": ("words", 1),
    "words, 8 leaves": ("words", 8),
    "space, a leaf each": ("space", 1),
    "space, 8 leaves": ("space", 8),
    "both, 8 leaves": ("both", 8),
}
NUMBER_BYTES, WORD_BYTES = 8, 20
LOAD = 0.5
"""Of what the best can do, at which latencies are read."""
TOTAL, THROUGHPUT, LATENCY = "load of definition 1", "messages a unit of the busiest worker's work", "latency, services"
DISPATCHER, WORKER, COPIES = "MB of a dispatcher", "MB of the largest worker", "copies stored"
DECISION, MOVED, DELAYED = "ms a decision", "of all bytes moved a round", "of all rows in cells that move"
MEAN, WORST, WORK, LEFT = "mean throughput", "worst throughput", "work, without adjustment 1", "definition 1, likewise"


def trees(world: Talk, kind: str, count: int, many: int, data: str) -> Iterator[Row]:
    """Yield the total load of trees by definition 1."""
    rng = np.random.default_rng(1)
    asked = workload(kind, world, count, rng).asked()
    loads = spoken(world, asked, many, rng, LEAF)
    for name, (by, leaves) in TREES.items():
        tree = kdt_tree(loads, asked, WORKERS, 0.5, 256, 1.5, leaves=leaves, by=by)
        yield point(name, kind, float(tree.load.sum()), TOTAL, data=data)


def layouts(
    world: Talk, kind: str, workers: int, count: int, many: int
) -> tuple[dict[str, Layout], Loads, SubscriptionLoad]:
    """Return the layouts of strategies on a sample, and another round to judge them."""
    rng = np.random.default_rng(2)
    asked = workload(kind, world, count, rng).asked()
    sample, later = (spoken(world, asked, many, rng) for _ in range(2))
    made = {name: strategy_of(name, workers).next_layout(None, sample, asked, {}).layout for name in FIRST}
    return made, later, asked


def throughputs(world: Talk, kind: str, all_workers: tuple[int, ...], count: int, many: int) -> Iterator[Row]:
    """Yield figures 6, 7 and 11, throughput by workers, and of 8 workers 8 to 10, latency and memory."""
    for workers in all_workers:
        made, later, asked = layouts(world, kind, workers, count, many)
        work = {name: work_of_workers(layout, later) for name, layout in made.items()}
        rate = {name: many / float(one.max()) for name, one in work.items()}
        for name, layout in made.items():
            yield point(name, f"{kind}, {workers}", rate[name], THROUGHPUT)
            if workers != WORKERS:
                continue
            use = LOAD * max(rate.values()) * work[name] / many
            late = (1 + use / 2 / (1 - use)) * work[name]
            held = [asked.bytes[stored_subscriptions(layout, asked, worker)].sum() for worker in range(WORKERS)]
            assert sum(held) >= asked.bytes.sum()  # each subscription is stored
            size = (NUMBER_BYTES + WORD_BYTES) * len(layout.words) + 2 * NUMBER_BYTES * len(layout.worker)
            waits = np.inf if use.max() >= 1 else float(late.sum() / work[name].sum())
            yield point(name, kind, waits, LATENCY, modelled=True)
            yield point(name, kind, size / 1e6, DISPATCHER)
            yield point(name, kind, max(held) / 1e6, WORKER)
            yield point(name, kind, sum(held) / asked.bytes.sum(), COPIES)


def migrations(world: Talk, ways: tuple[Choice, ...], count: int, many: int, rounds: int) -> Iterator[Row]:
    """Yield figures 12 to 15, how cells are chosen, of Q3 that switches."""
    held = list(switching(world, count, many, rounds, 4))
    for way in ways:
        for heaviest in (0, 8):
            strategy = PS2Stream(WORKERS, choose=way, load="work", sigma=1.15, heaviest=heaviest)
            one = rehearse(way, strategy, held)
            x = "phases I and II" if heaviest else "phase II"
            yield point(way, x, 1e3 * one.seconds, DECISION)
            yield point(way, x, one.moved_share[1:], MOVED)
            yield point(way, x, _share_delayed(one, [loads for loads, _ in held]), DELAYED)


def _share_delayed(one: StrategyRun, rounds: list[Loads]) -> float:
    """Return the share of rows that come while their cell is moved, if that takes all of the round after."""
    shares = []
    for number in range(1, one.rounds):
        before, now = one.layouts[number - 1], one.layouts[number]
        changed = (before.held != now.held).any(axis=0)
        rows = rounds[number + 1].rows
        shares.append(float(rows[changed].sum() / rows.sum()))
    return float(np.mean(shares))


def adjusting(world: Talk, ways: tuple[str, ...], count: int, many: int, rounds: int) -> Iterator[Row]:
    """Yield figure 16: throughput with and without adjustment while a tenth of the regions switch each fourth round."""
    held = list(switching(world, count, many, rounds, 4))
    first: tuple[float, float] | None = None
    for name in ways:
        strategy = strategy_of(name, WORKERS) if name == "ours" else PS2Stream(WORKERS, **ADJUSTING[name])
        one = rehearse(name, strategy, held)
        whole = sum(
            float(work_of_workers(layout, count_loads(loads, asked, layout, "paper"), True).sum())
            for layout, (loads, asked) in zip(one.layouts, held[1:], strict=True)
        )
        first = first or (whole, float(one.work.sum()))
        rate = many / one.work.max(axis=1)
        for unit, value in (
            (MEAN, rate),
            (WORST, rate.min()),
            (WORK, one.work.sum() / first[1]),
            (LEFT, whole / first[0]),
            (MOVED, one.moved_share[1:]),
        ):
            yield point(name, "switching Q3", value, unit)


def run(size: str) -> Iterator[Row]:
    """Yield loads of trees, figures 6 to 11 by kind of subscriptions, 12 to 16 of Q3 that switches."""
    count, many, kinds, workers, rounds, choices, ways, words = SIZES[size]
    world = talk()
    world = replace(world, share=world.share[:words] / world.share[:words].sum())
    data = "towns and words of " + ("GeoNames" if TOWNS.exists() else f"our making: {TOWNS.name} is not there")
    for kind in kinds:
        yield from trees(world, kind, count, many, data)
        if kind != "wide":
            yield from throughputs(world, kind, workers, count, many)
    yield from migrations(world, choices, count, many, rounds * 2 // 3)
    yield from adjusting(world, ways, count, many, rounds)


def draw(results: Results) -> str:
    """Return a table a unit."""
    tables = [grid(results, TOTAL, TOTAL, "{:,.0f}")]
    tables.append(grid(results, THROUGHPUT, f"kind, workers: {THROUGHPUT}", "{:.3g}"))
    tables += [grid(results, unit, unit) for unit in (LATENCY, DISPATCHER, WORKER, COPIES)]
    tables += [grid(results, unit, unit, "{:.4g}", series=CHOICES) for unit in (DECISION, MOVED, DELAYED)]
    switched = [row for row in results.rows if row.x == "switching Q3"]
    turned = tuple(point(row.series, row.unit, row.y, "") for row in switched)
    tables.append(grid(Results("", turned), "", "adjustment", "{:.3g}", down="series"))
    return "\n\n".join(tables)
