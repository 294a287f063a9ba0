"""Hot partitions: which ones make a plan dear because they cannot be divided, and what it would cost if they were."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from ceps.bounds.lower_bounds import fleet_bound, least_servers
from ceps.model.number_text import how_many
from ceps.model.patterns import Patterns
from ceps.model.problem import TOLERANCE, build_problem
from ceps.plan.planning import plan as make_plan
from ceps.plan.plans import DAYS_A_MONTH, Plan

TRIES = 4
"""Partitions that are split at the most, the hottest first."""

MOST_ITEMS = 500
"""Partitions up to which advice is sought: with more of them hardly a plan is above the bound."""


@dataclass(frozen=True)
class SplitAdvice:
    """Partitions whose halves could be placed more cheaply."""

    partitions: tuple[int, ...]  # Numbers of those to split, the hottest first
    cost_per_day: float  # Dollars a day of the plan in which each of them is two halves
    saved_per_day: float  # Dollars a day less than a plan of the partitions as they are
    servers: int  # servers, servers_saved: servers of it, and how many fewer they are (negative: more)
    servers_saved: int
    rebuild_with: int  # Partitions to rebuild the index with, so that each is about half of what it is: twice as many

    def to_dict(self) -> dict[str, Any]:
        """Build the entry of plan.json."""
        return {**vars(self), "partitions": list(self.partitions), "text": str(self)}

    def __str__(self) -> str:
        *first, last = map(str, self.partitions)
        named = f"{', '.join(first)} and {last}" if first else last
        then = f"${self.cost_per_day * DAYS_A_MONTH:,.2f} a month, ${self.saved_per_day * DAYS_A_MONTH:,.2f} less"
        if not self.cost_per_day and not self.saved_per_day:
            then = f"{how_many(self.servers, 'server')}, {self.servers_saved} fewer"
        return f"split {named}: then {then}; rebuild with {how_many(self.rebuild_with, 'partition')}"


def split_advice(patterns: Patterns, plan: Plan, seconds: float | None = None) -> SplitAdvice | None:
    """Return which partitions to split, if a plan costs more than it would with the hottest ones halved; else None.

    The hottest are those whose peak, or bytes, fill most of the largest type. One, two and up to `TRIES` of them are
    split in equal halves, and each time a plan is made afresh; the cheapest counts, of equals that with the fewest
    splits. A plan at the fleet bound needs no try: that bound does not depend on how partitions are cut.

    ``plan``: with a fixed fleet; for one that changes by the hour there is no advice; ``seconds``: how long to try, or
    None.
    """
    end = None if seconds is None else monotonic() + seconds
    if plan.types_by_hour is not None or not 0 < len(patterns) <= MOST_ITEMS:
        return None
    shared: dict[str, Any] = {"copies": plan.copies, "growth": plan.growth}
    problem = build_problem(patterns, plan.servers, plan.utilisation, **shared)
    fewest = least_servers(problem)
    paid = plan.cost_per_day > 0
    if (
        plan.spare
        or plan.zones is not None
        or (
            plan.cost_per_day <= fleet_bound(problem) * (1 + TOLERANCE)
            and (paid or fewest is None or len(plan) <= fewest)
        )
    ):
        return None

    def planned(given: Patterns) -> Plan | None:
        left = None if end is None else end - monotonic()
        if left is not None and left <= 0:
            return None
        return make_plan(given, None, plan.servers, plan.seed or 0, plan.utilisation, time_limit=left, **shared)

    base = planned(patterns)
    if base is None:
        return None
    base_cost, base_servers = min((base.cost_per_day, len(base)), (plan.cost_per_day, len(plan)))
    peaks = patterns.loads.max(axis=1) * plan.growth / plan.copies
    heat = np.maximum(peaks / problem.rates.max(), patterns.sizes / problem.room.max())
    hottest = np.argsort(-heat, kind="stable")
    found: list[tuple[float, int, int]] = []
    for count in range(1, min(TRIES, len(hottest)) + 1):
        tried = planned(halved(patterns, hottest[:count]))
        if tried is not None:
            found.append((round(tried.cost_per_day, 9), 0 if paid else len(tried), count))
            if count == min(found)[2]:
                best = tried
    if not found:
        return None
    cost, servers, count = min(found)
    saved = base_cost - cost
    if saved <= TOLERANCE * max(base_cost, 1e-9) and (paid or servers >= base_servers):
        return None
    return SplitAdvice(
        tuple(patterns.partitions[hottest[:count]].tolist()),
        best.cost_per_day,
        max(saved, 0.0),
        len(best),
        base_servers - len(best),
        2 * len(patterns),
    )


def halved(patterns: Patterns, rows: np.ndarray) -> Patterns:
    """Patterns in which some partitions are two equal halves: the second has a new number and the same place.

    ``rows``: int64 (n,), rows of the partitions to split.
    """
    loads, sizes = patterns.loads.copy(), patterns.sizes.copy()
    loads[rows] /= 2
    sizes[rows] /= 2
    fresh = patterns.partitions.max() + 1 + np.arange(len(rows))
    return replace(
        patterns,
        loads=np.concatenate([loads, loads[rows]]),
        sizes=np.concatenate([sizes, sizes[rows]]),
        partitions=np.concatenate([patterns.partitions, fresh]),
        positions=None
        if patterns.positions is None
        else np.concatenate([patterns.positions, patterns.positions[rows]]),
        reads=None,
        variation=None,
    )
