"""Figures 14 and 15 of Enorm: components, and rows that go between them, of random jobs made as its section 7 says.

Algorithm 1 with both of its scores, so read that all operators of two components become one; to the letter only the two
that are compared do. *summed rates* add up what a component sends, and the *exact* model (`ceps.streams.fusion`) is
solved for small jobs. The paper has 500 jobs of each size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from bench.experiments.results import Results, Row, grid, point
from bench.windows.fusion import RandomJob, algorithm_1, by_attributes, greedy_baseline, of_fusion, random_job, told
from ceps.streams.fusion import fuse, fusion_of, job_of, merge_by_rates

SIZES = {
    "smoke": ({8: 3, 14: 2}, 8),
    "here": ({12: 20, 30: 20, 50: 60, 100: 60, 150: 60}, 12),
    "full": ({12: 500, 30: 500, 50: 500, 100: 500, 150: 500}, 30),
}
"""Jobs by the number of their operators, and up to how many operators the exact model is solved."""
SECONDS = 60.0
"""Of the exact model a job."""
WAYS: dict[str, Callable[[RandomJob, int], list[int]]] = {
    "baseline": lambda job, seed: greedy_baseline(job, np.random.default_rng(seed)),
    "score = PA": lambda job, _: algorithm_1(job, by_attributes),
    "to the letter": lambda job, _: algorithm_1(job, to_the_letter=True),
    "score = COMM": lambda job, _: algorithm_1(job),
}
SUMMED, EXACT = "summed rates", "exact"
COUNT, LEFT = "components", "of all rows between components"


def run(size: str) -> Iterator[Row]:
    """Yield components and the share of rows between them, x is the number of operators."""
    counts, most = SIZES[size]
    for operators, jobs in counts.items():
        found: dict[str, list[tuple[float, int]]] = {}
        for seed in range(jobs):
            made = random_job(operators, np.random.default_rng([operators, seed]))
            job = job_of(made.attributes, made.rates)
            for name, way in WAYS.items():
                found.setdefault(name, []).append(told(job, way(made, seed)))
            found.setdefault(SUMMED, []).append(of_fusion(fusion_of(job, merge_by_rates(job))))
            if operators <= most:
                best = fuse(made.attributes, made.rates, seconds=SECONDS)
                found.setdefault(EXACT, []).append(of_fusion(best))
                assert not best.proven or min(each[-1][0] for each in found.values()) >= best.sent / best.total - 1e-9
        for name, values in found.items():
            left, count = zip(*values, strict=True)
            yield point(name, operators, left, LEFT, data="random jobs of section 7")
            yield point(name, operators, count, COUNT)


def draw(results: Results) -> str:
    """Return both figures."""
    return "\n\n".join(grid(results, unit, f"operators: {unit}", "{:.3g}") for unit in (COUNT, LEFT))
