"""Fusion of random jobs as Enorm has it: jobs, algorithm 1 with both of its scores and to the letter, the baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ceps.streams.fusion import Fusion, Job

ATTRIBUTES = 30
"""Partition attributes of a random job."""
STEP = 3
"""By how much the number of an operator's attributes differs from the one before; the paper says: a random value."""


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
