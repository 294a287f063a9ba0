"""The workloads and catalogues that every CEPS figure in docs/benchmarks.md is made with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ceps import Patterns, ServerType, load_servers
from ceps.model.packing import Effort
from ceps.model.problem import Outcome, Problem
from ceps.plan.planning import run
from datasets.workloads import make

# Loads in m3.medium at full capacity: 17 to 33 dollars a day, the range of the chapter's figures.
UNITS = (10.3, 12.4, 15.8, 20.6)

WORKLOADS: dict[str, dict[str, Any]] = {
    "cos hs10": {"hotspots": 10},
    "cos hs100": {"hotspots": 100},
    "cos hs1000": {"hotspots": 1000},
    "cos-s hs10": {"hotspots": 10, "sizes": "city"},
    "cos-s hs100": {"hotspots": 100, "sizes": "city"},
    "cos-s hs1000": {"hotspots": 1000, "sizes": "city"},
    "zipf0": {"workload": "zipf", "skew": 0.0, "hotspots": 1000},
    "zipf1": {"workload": "zipf", "skew": 1.0, "hotspots": 1000},
    "zipf2": {"workload": "zipf", "skew": 2.0, "hotspots": 1000},
    "zipf3": {"workload": "zipf", "skew": 3.0, "hotspots": 1000},
    "gow": {"workload": "gowalla", "hotspots": 300},
    "gow-noise": {"workload": "gowalla", "hotspots": 300, "events": 914_000},
}
NOISE_FREE = ("cos hs10", "cos hs100", "cos hs1000", "cos-s hs10", "cos-s hs100", "cos-s hs1000", "gow")


def catalogue(medium_bytes: float = np.inf) -> tuple[ServerType, ...]:
    """The four m3 types, storage unlimited or in proportion to the type with `medium_bytes` on the smallest."""
    return tuple(
        replace(server, bytes=medium_bytes * size)
        for server, size in zip(load_servers("m3-2015"), (1, 2, 4, 8), strict=True)
    )


def mediums() -> tuple[ServerType, ...]:
    """The smallest type alone, storage unlimited: the homogeneous problem."""
    return catalogue()[:1]


def patterns(name: str, partitions: int, units: float, seed: int) -> Patterns:
    """Patterns of a workload whose total peak is `units` mediums."""
    return make(partitions=partitions, peak=units * 1000, seed=seed, **WORKLOADS[name])


def cases(partitions: int) -> Iterator[tuple[str, float, Patterns]]:
    """The 48 instances of one size: every workload at every load, one seed each."""
    for name in WORKLOADS:
        for seed, units in enumerate(UNITS):
            yield name, units, patterns(name, partitions, units, seed)


def solve(method: str, problem: Problem, **options: Any) -> Outcome:
    """The plan of a method, by seed 0."""
    return run(method, problem, np.random.default_rng(0), Effort(), **options)
