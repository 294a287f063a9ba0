"""Servers that cost nothing: what of a problem is left to pay for, and servers counted instead of dollars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ceps.model.problem import Ints, Problem


def free_types(problem: Problem) -> NDArray[np.bool_]:
    """Bool (J,), whether each type costs nothing."""
    return np.asarray(problem.prices == 0)


def to_pay_for(problem: Problem) -> NDArray[np.bool_]:
    """Bool (M,), whether each item fits no type that costs nothing, so that its server has a price."""
    held = problem.types_that_hold(problem.columns)[:, free_types(problem)]
    return np.asarray(~held.any(axis=1))


def paid_part(problem: Problem) -> Problem:
    """Return the items that fit no free type, with the types that have a price: all that costs dollars.

    The rest can stand on servers that cost nothing, each on one of its own, so the cheapest plan of this part costs
    what the cheapest plan of all does. The problem itself where no type is free.
    """
    free = free_types(problem)
    if not free.any():
        return problem
    return part(problem, np.flatnonzero(to_pay_for(problem)), np.flatnonzero(~free))


def largest_free_types(problem: Problem) -> Ints:
    """int64 (j,), the free types than which no other free one has as many requests/s and bytes; of equals the first."""
    kinds = np.flatnonzero(free_types(problem))
    rates, room = problem.rates[kinds], problem.room[kinds]
    more = (rates[:, None] <= rates) & (room[:, None] <= room)
    equal = more & more.T
    better = (more & ~equal) | np.tril(equal, -1)
    return kinds[~better.any(axis=1)]


def count_servers(problem: Problem, kinds: Ints) -> Problem:
    """Return the problem with some types only, at one dollar an hour each, so that a cost is a number of servers."""
    servers = (problem.servers[kind] for kind in kinds)
    return replace(problem, servers=tuple(replace(server, dollars_per_hour=1.0) for server in servers))


def part(problem: Problem, items: Ints, kinds: Ints) -> Problem:
    """Return some items of a problem, in their order, and some types; `item_of` is not kept.

    ``items``: int64 (m,), items to keep, ascending; ``kinds``: int64 (j,), types to keep, ascending.
    """
    start = problem.group_start
    sizes = np.diff(start)[items]
    held = [problem.group_of[start[item] : start[item + 1]] for item in items[sizes > 0]]
    return replace(
        problem,
        columns=problem.columns[items],
        servers=tuple(problem.servers[kind] for kind in kinds),
        item_of=np.empty((0, 1), dtype=np.int64),
        group_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        group_of=np.concatenate([np.empty(0, dtype=np.int64), *held]),
        pins=problem.pins[items],
        positions=None if problem.positions is None else problem.positions[items],
        copies=1,
        at_least=0,  # servers of the other types count as well
    )
