"""Figures 4.9 and 4.10: what servers cost a day, by the number of partitions: Gowalla, and cosine with 1,000 hotspots.

Methods and servers are those of `bench/experiments/ceps_4_5.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.ceps.instances import UNITS, patterns
from bench.experiments import ceps_4_5
from bench.experiments.results import Results, Row

COUNTS = (10, 25, 50, 100, 200, 500, 1_000, 2_000)
SIZES = {"smoke": ((10,), UNITS[:1]), "here": (COUNTS, UNITS[2:3]), "full": (COUNTS, UNITS)}
WORKLOADS = ("gow", "cos hs1000")


def run(size: str) -> Iterator[Row]:
    """Yield dollars a day, x is workload, number of partitions, load."""
    counts, loads = SIZES[size]
    return ceps_4_5.rows_of(
        (f"{name}, {count}, {units:g}", patterns(name, count, units, seed), units)
        for name in WORKLOADS
        for count in counts
        for seed, units in enumerate(loads)
    )


def draw(results: Results) -> str:
    """Return the cost over the bound, mean of the loads."""
    return ceps_4_5.draw(results, "workload, partitions")
