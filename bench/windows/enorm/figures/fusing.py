"""Figures 14 and 15: components, and what goes between them, of random jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean

import numpy as np

from bench.windows.enorm.figures.drawing import Figure
from bench.windows.fusion import RandomJob, algorithm_1, by_attributes, greedy_baseline, of_fusion, random_job, told
from ceps.streams.fusion import fusion_of, job_of, merge_by_rates

SIZES = (50, 100, 150)
WAYS: dict[str, Callable[[RandomJob, int], list[int]]] = {
    "baseline": lambda job, seed: greedy_baseline(job, np.random.default_rng(seed)),
    "score = PA": lambda job, _: algorithm_1(job, by_attributes),
    "score = COMM": lambda job, _: algorithm_1(job),
}


def components_and_traffic(jobs: int, sizes: Sequence[int] = SIZES) -> tuple[Figure, Figure]:
    """Return both figures, of so many random jobs of each size; the paper has 500."""
    names = [*WAYS, "summed rates (ours)"]
    count: dict[str, dict[float, float]] = {name: {} for name in names}
    left: dict[str, dict[float, float]] = {name: {} for name in names}
    for operators in sizes:
        found: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
        for seed in range(jobs):
            made = random_job(operators, np.random.default_rng([operators, seed]))
            job = job_of(made.attributes, made.rates)
            for name, way in WAYS.items():
                found[name].append(told(job, way(made, seed)))
            found[names[-1]].append(of_fusion(fusion_of(job, merge_by_rates(job))))
        for name in names:
            left[name][operators] = 100 * mean(share for share, _ in found[name])
            count[name][operators] = mean(parts for _, parts in found[name])
    best = all(min(left, key=lambda name: left[name][size]) == names[-1] for size in sizes)
    most = all(count["score = COMM"][size] > count["score = PA"][size] for size in sizes)
    least = all(min(names[:-1], key=lambda name: left[name][size]) == "score = COMM" for size in sizes)
    said = [
        f"paper: score = COMM has more components than score = PA; here {'so' if most else 'not so'} at every size "
        f"({jobs} jobs of each)",
        f"paper: and the least traffic; here {'so' if least else 'not so'} among the paper's; "
        f"summed rates have {'less' if best else 'no less'} at every size",
    ]
    x = "operators"
    return (
        Figure("14", "average number of components", x, "components", count, said),
        Figure("15", "average traffic between components", x, "% of all rows", left),
    )
