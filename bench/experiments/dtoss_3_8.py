"""Figures 3.8 to 3.10, 3.12 and 3.13 of the dissertation: what building takes by stage, nodes and processors.

A node has a partition, and all have as many objects; a second build is D-MOVIES, whose nodes sort what a hash deals to
them along the Z-order. Processor time of one thread is measured, stage by stage and partition by partition; seconds of
many nodes are a model: pivots are chosen by one, objects are dealt by all alike, and each node waits for the largest
partition, whose cells its processors share; what is wrong at borders it mends with one of them. No message has a price.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import process_time

import numpy as np

from bench.experiments.dtoss_3_15 import Floats, objects_of
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.race import timed
from bench.peers.d_movies import DMovies
from dtoss.building.in_memory import Progress, build_in_memory
from dtoss.geometry.space import space_of
from dtoss.partitioning.pivots import sampled_one_in

SIZES = {"smoke": (500, (2, 4), 1), "here": (25_000, (8, 16, 32), 3), "full": (500_000, (32, 64, 128), 1)}
"""Objects of a node, nodes, turns of which the quickest counts."""
PROCESSORS = (1, 8, 32)
PIVOTS, DEALING, CELLS, BORDERS = "choosing partitions", "sorting objects", "building partitions", "joining borders"
EACH, ELAPSED, FASTER = "processor us an object", "s with all nodes (modelled)", "times as fast (modelled)"


@dataclass
class Clock(Progress):
    """Processor seconds of each step, and of each partition."""

    steps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    last: float = 0.0

    def begin(self, step: str, total: int = 0) -> None:
        """Note the end of the step before."""
        if self.step:
            self.one_more()
        self.step, self.last = step, process_time()

    def one_more(self) -> None:
        """Note a part of a step."""
        now = process_time()
        self.steps[self.step].append(now - self.last)
        self.last = now


def steps_of(objects: Floats, nodes: int) -> dict[str, list[float]]:
    """Return processor seconds of each step of a build, those of the cells by partition."""
    clock = Clock()
    sample = np.random.default_rng(0).random(len(objects)) < 1 / sampled_one_in(len(objects), nodes)
    rest = {"pivots": "balanced", "bounds": None, "reach": None, "seed": 0, "engine": "kernel", "threads": 1}
    ids, space = np.arange(len(objects)), space_of("none")
    build_in_memory(ids, objects, space, {}, partitions=nodes, sample=sample, progress=clock, **rest)  # type: ignore[arg-type]
    clock.begin("")
    return clock.steps


def elapsed(steps: dict[str, list[float]], nodes: int, processors: int) -> float:
    """Return the seconds until the last node is done."""
    return steps[PIVOTS][0] + steps[DEALING][0] / nodes + diagram(steps, nodes, processors)


def diagram(steps: dict[str, list[float]], nodes: int, processors: int) -> float:
    """Return the seconds of a node for its cells and what is wrong at its borders."""
    return max(steps[CELLS]) / processors + sum(steps[BORDERS]) / nodes


def run(size: str) -> Iterator[Row]:
    """Yield what an object takes by stage, and the model; x is objects and nodes."""
    each, numbers, turns = SIZES[size]
    for kind in ("uniform", "taxi"):
        for nodes in numbers:
            objects, x = objects_of(kind, each * nodes), f"{kind}, {nodes}"
            steps = min((steps_of(objects, nodes) for _ in range(turns)), key=lambda one: sum(map(sum, one.values())))
            us = {name: 1e6 * sum(some) / len(objects) for name, some in steps.items()}
            for name in (PIVOTS, DEALING, CELLS, BORDERS):
                yield point(name, x, us[name], EACH, data=f"{each:,} objects a node")
            yield point("D-ToSS", x, us[CELLS] + us[BORDERS], EACH)
            spent = min(timed(lambda: DMovies(objects, nodes), process_time)[0] for _ in range(turns))  # noqa: B023
            yield point("D-MOVIES", x, 1e6 * spent / len(objects), EACH)
            for processors in PROCESSORS:
                series = f"{processors} processors a node"
                yield point(series, x, elapsed(steps, nodes, processors), ELAPSED, modelled=True)
                faster = diagram(steps, nodes, 1) / diagram(steps, nodes, processors)
                yield point(series, x, faster, FASTER, modelled=True)


def draw(results: Results) -> str:
    """Return a table of each unit."""
    return "\n\n".join(grid(results, unit, f"objects, nodes: {unit}", "{:.3g}") for unit in (EACH, ELAPSED, FASTER))
