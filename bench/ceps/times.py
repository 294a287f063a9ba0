"""G4: CPU seconds that planning takes, and how much memory, on one core (u = 1.0).

Planners have one thread, so CPU time is what the clock shows on a machine with nothing else to do.

taskset -c 1 python -m bench.ceps.times [--largest 20000] [--repeats 3]

Exits with 1 and the names of the goals that are missed.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from statistics import median
from time import process_time

import numpy as np

from bench.ceps.instances import catalogue, mediums, patterns
from bench.measuring.verdicts import Goals
from ceps.model.packing import Effort
from ceps.model.problem import build_problem
from ceps.plan.planning import run
from ceps.planners.ahr import agglomerate

RUNS = [
    # method, servers, workload, partitions, units, goal in seconds
    ("fleet", "m3", "cos-s hs1000", 1000, 15.8, None),
    ("fleet", "m3", "cos-s hs1000", 5000, 15.8, 1.0),
    ("fleet", "m3", "zipf2", 5000, 15.8, 1.0),
    ("fleet", "m3", "cos-s hs1000", 20000, 15.8, 5.0),
    ("fleet", "m3", "zipf2", 20000, 15.8, 5.0),
    ("fleet", "medium", "cos-s hs1000", 5000, 199.4, None),
    ("fleet", "medium", "gow-noise", 5000, 199.4, None),
    ("fleet", "medium", "cos-s hs1000", 20000, 199.4, None),
    ("gain", "m3", "cos-s hs1000", 1000, 15.8, 1.0),
    ("gain", "medium", "cos-s hs1000", 1000, 49.4, 1.0),
    ("gain", "m3", "cos-s hs1000", 5000, 15.8, 8.0),
    ("gain", "medium", "cos-s hs1000", 5000, 199.4, 8.0),
    ("gain", "m3", "cos-s hs1000", 20000, 15.8, 90.0),
    ("gain", "medium", "cos-s hs1000", 20000, 199.4, 90.0),
    ("tv", "medium", "cos-s hs1000", 5000, 49.4, 20.0),
]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(words)
    small = build_problem(patterns("cos hs100", 60, 5.4, 0), catalogue(), 1.0)
    for method in ("fleet", "gain", "tv"):  # compile before the clock runs
        run(method, small, np.random.default_rng(0), Effort())
    goals = Goals()
    for method, kind, name, count, units, goal in RUNS:
        if count > options.largest:
            continue
        problem = build_problem(patterns(name, count, units, 0), catalogue() if kind == "m3" else mediums(), 1.0)
        seconds = []
        for _ in range(options.repeats if count <= 5000 else 1):
            began = process_time()
            if method == "tv":
                agglomerate(problem, 0, "tv")
            else:
                outcome = run(method, problem, np.random.default_rng(0), Effort())
            seconds.append(process_time() - began)
        result = "" if method == "tv" else f"{len(outcome.type_of)} servers, {outcome.cost_per_day:.2f} $/day"
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        title = f"G4, {method}, {kind}, {name}, P = {count}"
        aim = "" if goal is None else goals.ask(title + ", s", median(seconds), most=goal)
        print(
            f"{method:6s} {kind:7s} {name:13s} P={count:<6d} U={units:<6} {median(seconds):7.2f} CPU s {aim:10s} "
            f"{result} most memory so far {memory:.1f} GB",
            flush=True,
        )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"most memory {memory:.1f} GB {goals.ask('G4, memory, GB', memory, most=6)}")
    goals.end()


if __name__ == "__main__":
    main()
