"""Fusion of random jobs: python -m bench.windows.fusion [--operators 12 30 ...] [--jobs N] [--seconds S].

Figures 14 and 15 of Enorm (DEBS 2016): components, and rows that go between them as a share of all. Algorithm 1 with
both of its scores, to the letter, and with summed rates; the paper's baseline; and the exact model of
`ceps.streams.fusion`. Jobs are made as section 7 says, with 30 attributes.

Exits with 1 where summed rates send more than algorithm 1 in the mean, or at 12 and 30 operators more than they must.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from time import process_time

import numpy as np

from bench.measuring.verdicts import Goals
from ceps.streams.fusion import Fusion, Job, fuse, fusion_of, job_of, merge_by_rates

ATTRIBUTES = 30
"""Partition attributes of a random job."""
STEP = 3
"""By how much the number of an operator's attributes differs from the one before; the paper says: a random value."""
SIZES = (12, 30, 50, 100, 150)
PROVED = (12, 30)
"""Operators of jobs for which the exact model is a goal."""
GOALS = {12: (0.206, 0.206), 30: (0.202, 0.193)}
"""What a prototype left between components, on jobs of its own: by summed rates, and exactly."""


@dataclass(frozen=True)
class RandomJob:
    """A job of section 7: operators in the order in which they were made.

    Parameters
    ----------
    attributes
        What each operator may be split by.
    rates
        Rows between operators of one level and the next.
    """

    attributes: Mapping[str, frozenset[str]]
    rates: Mapping[tuple[str, str], float]


def random_job(operators: int, rng: np.random.Generator) -> RandomJob:
    """Return a job as section 7 makes one.

    An operator has a random subset of the attributes, of half of them at first, and each next one has a few more or
    less. Operators are divided into three to 0.75 n levels; each sends every one of the next level a random share of a
    random share of what it has left.
    """
    names = [f"o{number:03d}" for number in range(operators)]
    attributes, size = {}, ATTRIBUTES // 2
    for name in names:
        attributes[name] = frozenset(f"a{one:02d}" for one in rng.choice(ATTRIBUTES, size, replace=False))
        size = int(np.clip(size + rng.integers(-STEP, STEP + 1), 1, ATTRIBUTES))
    levels = int(rng.integers(3, max(3, int(0.75 * operators)) + 1))
    parts = [[names[number] for number in part] for part in np.array_split(np.arange(operators), levels)]
    rates = {}
    for above, below in pairwise(parts):
        for source in above:
            left = 1.0
            for target in below:
                rates[source, target] = rng.uniform(0.0, left) * rng.uniform()
                left -= rates[source, target]
    return RandomJob(attributes, rates)


Score = Callable[[str, str, frozenset[str], float], float]
"""Of two operators, of what their components share, and of the rate between them."""


def by_rate(source: str, target: str, shared: frozenset[str], rate: float) -> float:
    """Return the rows from one operator to the other: the paper's score COMM."""
    return rate


def by_attributes(source: str, target: str, shared: frozenset[str], rate: float) -> float:
    """Return how many attributes the two components share: the paper's score PA."""
    return len(shared)


def algorithm_1(job: RandomJob, score: Score = by_rate, *, to_the_letter: bool = False) -> list[int]:
    """Return the component of each operator by algorithm 1, in the order of the job.

    Its line numbers stand at the lines. Line 22 lets `src` and `dst` point to the same component and says nothing of
    the other operators of the two. By default they follow. To the letter they keep what they pointed to, which holds
    operators that have left; components are then those operators that point to the same one.

    Operators without attributes share none, so they are never fused (line 14).
    """
    downstream: dict[str, list[str]] = {name: [] for name in job.attributes}
    for source, target in job.rates:
        downstream[source].append(target)
    fused = {name: frozenset([name]) for name in job.attributes}  # 1 to 3
    number = {name: at for at, name in enumerate(job.attributes)}
    shared = dict.fromkeys(number.values(), frozenset[str]())
    for name, attributes in job.attributes.items():
        shared[number[name]] = attributes
    while True:  # 4
        most, best = 0.0, None  # 5
        for source in job.attributes:  # 6
            for target in downstream[source]:  # 9
                if target in fused[source]:  # 10
                    continue
                common = shared[number[source]] & shared[number[target]]  # 8 and 13
                if not common:  # 14
                    continue
                found = score(source, target, common, job.rates[source, target])  # 16
                if found > most:  # 17 to 20
                    most, best = found, (source, target)
        if best is None:  # 21 and 23
            return list(number.values())
        source, target = best
        whole = fused[source] | fused[target]  # 22
        new = max(shared) + 1
        shared[new] = frozenset.intersection(*(job.attributes[name] for name in whole))
        for name in best if to_the_letter else whole:
            fused[name], number[name] = whole, new


def greedy_baseline(job: RandomJob, rng: np.random.Generator) -> list[int]:
    """Return components by the baseline of section 7.6, in the order of the job.

    The first operator takes in the downstream operator with which it shares most, again and again; then a random one
    that is not fused yet goes on.
    """
    component: dict[str, int] = {}
    waiting = list(job.attributes)
    while waiting:
        first = waiting[0] if not component else waiting[int(rng.integers(len(waiting)))]
        number, common, members = len(component), job.attributes[first], {first}
        while True:
            below = {
                target for (source, target), rate in job.rates.items()
                if rate > 0 and source in members and target not in members and target not in component
            }  # fmt: skip
            ranked = sorted(below, key=lambda name: (-len(common & job.attributes[name]), name))
            if not ranked or not common & job.attributes[ranked[0]]:
                break
            members.add(ranked[0])
            common &= job.attributes[ranked[0]]
        component |= dict.fromkeys(members, number)
        waiting = [name for name in waiting if name not in members]
    return [component[name] for name in job.attributes]


def told(job: Job, component: Sequence[int]) -> tuple[float, int]:
    """Return the share of rows between components, and how many components there are."""
    sent = sum(rate for (i, j), rate in job.rates.items() if component[i] != component[j])
    return sent / job.total, len(set(component))


def of_fusion(found: Fusion) -> tuple[float, int]:
    """Return the share of rows between components, and how many components there are."""
    return found.sent / found.total, len(found.components)


def table(operators: int, jobs: int, seconds: float) -> tuple[dict[str, list[tuple[float, int]]], list[float], int]:
    """Return for each way what it leaves of each job, processor seconds of the exact model, and how many it proved."""
    ways: dict[str, list[tuple[float, int]]] = {}
    spent, proved = [], 0
    for seed in range(jobs):
        made = random_job(operators, np.random.default_rng([operators, seed]))
        job = job_of(made.attributes, made.rates)
        ways.setdefault("baseline", []).append(told(job, greedy_baseline(made, np.random.default_rng(seed))))
        ways.setdefault("score = PA", []).append(told(job, algorithm_1(made, by_attributes)))
        ways.setdefault("to the letter", []).append(told(job, algorithm_1(made, to_the_letter=True)))
        ways.setdefault("score = COMM", []).append(told(job, algorithm_1(made)))
        ways.setdefault("summed rates", []).append(of_fusion(fusion_of(job, merge_by_rates(job))))
        began = process_time()
        found = fuse(made.attributes, made.rates, seconds=seconds)
        spent.append(process_time() - began)
        proved += found.proven
        ways.setdefault("exact", []).append(of_fusion(found))
    return ways, spent, proved


def main() -> None:
    """Print figures 14 and 15, and what misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--jobs", type=int, default=20, help="of each size; the paper takes 500 (default: 20)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the solver a job (default: 120)")
    options = parser.parse_args()
    goals = Goals()
    print("share of rows between components (components), mean of the jobs")
    for operators in options.operators:
        ways, spent, proved = table(operators, options.jobs, options.seconds)
        left = {way: mean(share for share, _ in found) for way, found in ways.items()}
        cells = [f"{way} {left[way]:.3f} ({mean(count for _, count in found):.1f})" for way, found in ways.items()]
        print(f"{operators:4d} operators: {' | '.join(cells)}")
        summed, exact = ([share for share, _ in ways[way]] for way in ("summed rates", "exact"))
        over = max(s - e for s, e in zip(summed, exact, strict=True))
        print(
            f"      exact: {proved} of {options.jobs} proved, processor seconds mean {mean(spent):.2f} "
            f"worst {max(spent):.2f}; summed rates are worse by {over:.3f} at the most"
        )
        if operators in GOALS:
            print("      a prototype on jobs of its own: summed rates {:.3f}, exact {:.3f}".format(*GOALS[operators]))
        aim = goals.ask(f"{operators} operators, summed rates", left["summed rates"], most=left["score = COMM"])
        print(f"      summed rates {left['summed rates']:.4f} {aim}, algorithm 1 {left['score = COMM']:.4f}")
        if operators in PROVED:
            print(f"      proved {proved} {goals.ask(f'{operators} operators, proved', proved, least=options.jobs)}")
    goals.end()


if __name__ == "__main__":
    main()
