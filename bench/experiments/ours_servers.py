"""What the default plan costs over the lower bound that no fixed plan can beat: 12 workloads, 4 loads, three sizes.

Workloads are those of section 4.4.1.1 (`bench/ceps/instances.py`), servers the four m3 types, u = 1.0. No time is
measured, so any machine finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.ceps.instances import UNITS, WORKLOADS, catalogue, patterns
from bench.experiments.ceps_4_5 import plan_cost
from bench.experiments.results import Results, Row, markdown, point
from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.problem import build_problem

SIZES = {
    "smoke": ((30,), ("gow", "cos hs100"), UNITS[:1]),
    "here": ((500, 1000, 2000), WORKLOADS, UNITS),
    "full": ((500, 1000, 2000, 5000), WORKLOADS, UNITS),
}
"""Partitions, workloads, loads in m3.medium."""
SERIES, UNIT = "fleet", "times the lower bound"
EXACT = 1 + 1e-9


def run(size: str) -> Iterator[Row]:
    """Yield the cost over the bound, x is partitions, workload and load."""
    counts, names, loads = SIZES[size]
    for count in counts:
        for name in names:
            for seed, units in enumerate(loads):
                problem = build_problem(patterns(name, count, units, seed), catalogue(), 1.0)
                cost = plan_cost("fleet", problem) / fleet_bound(problem)
                yield point(SERIES, f"{count}, {name}, {units:g}", cost, UNIT, data="workloads of 4.4.1.1")


def draw(results: Results) -> str:
    """Return how many plans are at the bound, and the worst, by size."""
    found: dict[str, list[float]] = {}
    for x, ratio in results.of(SERIES).items():
        found.setdefault(x.partition(",")[0], []).append(ratio)
    rows = [[count, len(costs), sum(c <= EXACT for c in costs), f"{max(costs):.3f}"] for count, costs in found.items()]
    return markdown(["partitions", "plans", "at the bound", "worst, over the bound"], rows)
