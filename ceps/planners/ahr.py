"""AHR, algorithm 4.1: merge complementing partitions until the servers are full (CEPS-); by gain it works."""

from __future__ import annotations

from collections import deque

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import TOLERANCE, Floats, Ints, Outcome, Problem, Progress, price
from ceps.planners.fleet_first import cheaper, search_fleets

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


def gain_and_dissolve(
    problem: Problem, rng: np.random.Generator, effort: Effort, progress: Progress | None = None
) -> Outcome:
    """Clusters of gain-AHR for the largest type, packed onto the cheapest fleet that takes them.

    The emptiest clusters are dissolved and their items placed anew, then tabu search makes them fit, as in
    `search_fleets`.
    """
    if not len(problem):
        return price(problem, np.empty(0, dtype=np.int64))
    largest = int(np.argmax(problem.rates))
    labels = agglomerate(problem, largest, "gain")
    clustered = price(problem, labels)
    return cheaper(search_fleets(problem, labels, rng, effort, progress), clustered)


def literal_tabu(
    problem: Problem,
    rng: np.random.Generator,
    effort: Effort,
    progress: Progress | None = None,
    *,
    cap: str | None = None,
    flatness: float = 0.1,
    listed: int = 50,
    neighbours: int = 200,
    idle: int = 30,
) -> Outcome:
    """Clusters of algorithm 4.1, then random single moves that make the plan cheaper, as algorithm 4.2 has it.

    A step draws `neighbours` moves of a random partition to a random server, keeps those that change neither
    cluster's flatness by more than the share `flatness`, and takes the cheapest that is not on the list of the last
    `listed` moves, or that beats the best plan so far. It ends after `idle` steps without a cheaper plan. Idle time,
    the chapter's measure, falls when the cost does (section 1 of the docs), so cost is what is compared.

    Extras: `started`, the cost before the search. ``problem``, ``rng``, ``effort``, ``progress``: as every planner;
    `effort` only by its deadline.
    """
    start = ahr(problem, rng, effort, progress, metric="tv", cap=cap)
    labels = start.labels.copy()
    count = len(start.type_of)
    if count < 2:
        return Outcome(start.labels, start.type_of, start.cost_per_day, {"started": start.cost_per_day})
    loads = problem.cluster_columns(labels)
    costs = _costs(problem, loads)
    best_labels, best_cost = labels.copy(), float(costs.sum())
    taboo: deque[tuple[int, int]] = deque(maxlen=listed)
    quiet = 0
    while quiet < idle and not effort.over:
        quiet += 1
        chosen = None
        chosen_cost = float(costs.sum())
        for item, target in zip(
            rng.integers(len(problem), size=neighbours), rng.integers(count, size=neighbours), strict=True
        ):
            source = labels[item]
            if target == source:
                continue
            after = np.stack([loads[source] - problem.columns[item], loads[target] + problem.columns[item]])
            cost = costs.sum() + _costs(problem, after).sum() - costs[source] - costs[target]
            if not cost < chosen_cost:
                continue
            before = loads[[source, target]]
            if (np.abs(_flatness(after) - _flatness(before)) > flatness * _flatness(before)).any():
                continue
            if (item, target) in taboo and not cost < best_cost:
                continue
            chosen, chosen_cost = (int(item), int(target), after), float(cost)
        if chosen is None:
            continue
        item, target, after = chosen
        source = labels[item]
        taboo.append((item, int(source)))
        labels[item] = target
        loads[[source, target]] = after
        costs[[source, target]] = _costs(problem, after)
        if costs.sum() < best_cost:
            best_labels, best_cost, quiet = labels.copy(), float(costs.sum()), 0
    found = price(problem, best_labels)
    return Outcome(found.labels, found.type_of, found.cost_per_day, {"started": start.cost_per_day})


def _costs(problem: Problem, columns: Floats) -> Floats:
    # A cluster that nothing holds costs as many of the largest servers as its peak needs, so that moves can mend it.
    kinds = problem.cheapest_types(columns)
    largest = int(problem.rates.argmax())
    need = columns[:, :-1].max(axis=1) / problem.rates[largest]
    over = 24 * problem.prices[largest] * (1 + need)
    empty = ~columns.any(axis=1)
    return np.where(empty, 0.0, np.where(kinds >= 0, 24 * problem.prices[kinds], over))


def _flatness(columns: Floats) -> Floats:
    loads = columns[:, :-1]
    return np.abs(np.roll(loads, -1, axis=1) - loads).sum(axis=1)
