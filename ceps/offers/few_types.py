"""Fleets of few types: the subsets of a catalogue that promise most, planned in order of what they can cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np

from ceps.model.argument_checks import whole
from ceps.model.problem import TOLERANCE, InfeasibleError, Problem
from ceps.model.servers import ServerType
from ceps.plan.plans import Plan

_TRIED = 12  # subsets that are planned at the most
_BOUNDED = 2_000  # subsets whose bound is computed at the most


def with_few_types(
    problem: Problem,
    most: int,
    plan_with: Callable[[tuple[ServerType, ...]], Plan],
    bound_of: Callable[[Problem], float],
) -> Plan:
    """Cheapest plan found that rents at most so many types.

    Subsets of the catalogue are planned from the lowest bound up, until none left can be cheaper or `_TRIED` were. The
    plan's bound is the least that any subset's plan can cost.

    ``most``: types at the most, 1 or more; ``bound_of``: dollars a day that no plan of that kind undercuts.
    """
    most = whole("at_most_types", most, 1, 1_000, "")
    types = problem.servers
    if most >= len(types):
        return plan_with(types)
    bounds, all_of_them = _bounds(problem, most, bound_of)
    if not bounds:
        raise InfeasibleError(f"no {most} of the types hold every partition; allow more types or split partitions")
    best: Plan | None = None
    for tried, (bound, chosen) in enumerate(bounds):
        if tried == _TRIED or (best is not None and best.cost_per_day <= bound * (1 + TOLERANCE)):
            break
        try:
            made = plan_with(tuple(types[kind] for kind in chosen))
        except InfeasibleError:
            continue
        if best is None or made.cost_per_day < best.cost_per_day * (1 - TOLERANCE):
            best = _in_catalogue(made, types)
    if best is None:
        raise InfeasibleError(f"no plan of at most {most} types was found; allow more types")
    least = bounds[0][0] if all_of_them else bound_of(problem)
    return replace(best, lower_bound=min(least, best.cost_per_day))


def _bounds(
    problem: Problem, most: int, bound_of: Callable[[Problem], float]
) -> tuple[list[tuple[float, tuple[int, ...]]], bool]:
    """Bound and types of each subset on which everything fits, cheapest first, and whether none was left out."""
    holds = problem.types_that_hold(problem.columns)
    kinds = list(range(len(problem.servers)))
    whole_list = comb(len(kinds), most) <= _BOUNDED
    if not whole_list:
        # The dearest for what they do are left out, so long as there are too many.
        worth = np.argsort(problem.prices / problem.rates, kind="stable").tolist()
        while len(worth) > most and comb(len(worth) + 2, most) > _BOUNDED:
            worth.pop()
        kinds = sorted({*worth, int(problem.rates.argmax()), int(problem.room.argmax())})
    found = []
    for chosen in combinations(kinds, most):
        if holds[:, list(chosen)].any(axis=1).all():
            within = replace(problem, servers=tuple(problem.servers[kind] for kind in chosen))
            found.append((bound_of(within), chosen))
    return sorted(found), whole_list


def _in_catalogue(made: Plan, types: Sequence[ServerType]) -> Plan:
    """Plan with its types numbered as in the whole catalogue."""
    names = {server.name: number for number, server in enumerate(types)}
    place = np.array([names[server.name] for server in made.servers], dtype=np.int64)
    hourly = None if made.types_by_hour is None else place[made.types_by_hour]
    return replace(made, servers=tuple(types), type_of=place[made.type_of], types_by_hour=hourly)
