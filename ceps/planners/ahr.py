"""AHR, algorithm 4.1: merge complementing partitions until the servers are full (CEPS-)."""

from __future__ import annotations

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Ints, Outcome, Problem, Progress, price

METRICS = ("tv", "gain")

_LARGEST = {"tv": 12_000, "gain": 30_000}


def agglomerate(problem: Problem, kind: int, metric: str = "gain", wanted: int | None = None) -> Ints:
    """int64 (M,), clusters of items, none above what one server of type `kind` may hold.

    ``metric``: "tv": the chapter's flatness, the total variation of a cluster's summed pattern round the day, smallest
    first; "gain": the drop in the Euclidean norm of the slopes that a merge brings, largest first; ``wanted``: stop at
    this many clusters (default: as few as the total load and bytes need); more are left when no pair may be merged.
    Items that exceed the capacity alone stay alone.
    """
    from ceps.kernels.merge import merge_flattest, merge_gaining

    if metric not in METRICS:
        raise ValueError(f"metric = {metric!r}; known: {', '.join(METRICS)}")
    if len(problem) > _LARGEST[metric]:
        raise ValueError(
            f"AHR with metric {metric!r} takes at most {_LARGEST[metric]} items, not {len(problem)} (it compares "
            "all pairs); use method 'fleet', or larger partitions"
        )
    rate, room = problem.rates[kind], problem.room[kind]
    if wanted is None:
        total = problem.total
        wanted = int(np.ceil(max(total[:-1].max() / rate, total[-1] / room) * (1 - TOLERANCE)))
    # Near units of one server, so that the float32 Gram matrix does not overflow; a power of two loses nothing.
    slopes = (np.roll(problem.loads, -1, axis=1) - problem.loads) / 2.0 ** np.frexp(rate)[1]
    groups = int(problem.group_of.max(initial=-1)) + 1
    limits = (rate * (1 + TOLERANCE / 2), room * (1 + TOLERANCE / 2))
    rest = (problem.group_start, problem.group_of, groups, max(wanted, 1))
    if metric == "tv":
        return merge_flattest(problem.columns.copy(), slopes, *limits, *rest)
    single = slopes.astype(np.float32)
    return merge_gaining(problem.columns.copy(), slopes, single @ single.T, *limits, *rest)


def ahr(
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    metric: str = "tv",
    cap: str | None = None,
) -> Outcome:
    """Clusters of algorithm 4.1, each on the cheapest type that holds it.

    ``cap``: name of the type whose capacity ends merging; if not given, each type is tried and the cheapest result
    kept.
    """
    names = [server.name for server in problem.servers]
    if cap is not None and cap not in names:
        raise ValueError(f"cap = {cap!r} is no server type; known: {', '.join(names)}")
    kinds = range(len(names)) if cap is None else [names.index(cap)]
    found: list[Outcome] = []
    for kind in kinds:
        if effort.over and any(np.isfinite(outcome.cost_per_day) for outcome in found):
            break
        found.append(price(problem, agglomerate(problem, kind, metric), cap=kind))
    return min(found, key=lambda outcome: (outcome.cost_per_day, len(outcome.type_of)))
