"""AHR and tabu search as written, algorithms 4.1 and 4.2 (CEPS+)."""

from __future__ import annotations

from collections import deque

import numpy as np

from ceps.model.packing import Effort
from ceps.model.problem import Floats, Outcome, Problem, Progress, price
from ceps.planners.ahr import ahr


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
