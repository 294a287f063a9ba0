"""Fleets: how many servers of each type, cheapest first, whatever is placed on them, and those that cost nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from ceps.model.problem import Ints, Problem
from ceps.model.servers import MOST_DOLLARS

Counts = NDArray[np.int64]

_SLACK = 1e-9  # relative; the same as the cost model's tolerance
_MET = 1.01e-9  # what may be missing: a number of servers that leaves `_SLACK` leaves a little more by rounding
_NODES = 200_000  # steps of a search for the cheapest fleet at the most
_LOOKED = 5_000_000  # partial fleets looked at in it, most of which are no step because they cost too much
_BRANCHES = 20_000  # numbers of servers of one type that are tried: more are a type far too small
_TRIED = 10  # numbers of servers of one type looked at for each partial fleet, on average
_MOST = 1e9  # of what is needed, as much as a server can be said to have


@dataclass(frozen=True, eq=False)
class _Cover:
    """Integer covering: counts n >= 0 of J types with supply @ n >= need, at least cost."""

    supply: NDArray[np.float64]  # (3, J): requests/s, bytes and 1 for each server, each divided by its need
    prices: NDArray[np.float64]  # (J,), each raised by `finest`, so that of equal costs the fewest servers win
    finest: float
    dual: NDArray[np.float64]  # (3,): prices of the needs; dual @ what is missing bounds the cost from below

    def bound(self, missing: NDArray[np.float64]) -> float:
        return float(self.dual @ np.maximum(missing, 0.0))


def cheapest_fleet(
    problem: Problem,
    rate: float | None = None,
    room: float | None = None,
    each: int | None = None,
    deadline: float | None = None,
) -> Counts | None:
    """int64 (J,), the cheapest fleet whose servers together have enough requests/s, bytes and number.

    Ties: the fewest servers. `rate` (requests/s at target utilisation) and `room` (bytes) raise what is asked
    for above the problem's own need. With `each`, of fleets that have at most so many servers of a type; None where
    there is none. Branch and bound over the types; fast up to about ten types. Where it takes more than `_NODES`
    steps, or goes on past `deadline` (`time.monotonic`), the cheapest fleet that it found.
    """
    return _cheapest(problem, rate, room, each, deadline)[0]


def least_fleet_cost(problem: Problem, deadline: float | None = None) -> float:
    """Dollars an hour that no fleet undercuts which has enough requests/s, bytes and servers.

    The cost of `cheapest_fleet`; of the linear relaxation where the search for it was cut short.
    """
    counts, relaxed = _cheapest(problem, deadline=deadline)
    assert counts is not None
    return fleet_cost(problem, counts) if relaxed is None else min(relaxed, fleet_cost(problem, counts))


def _cheapest(
    problem: Problem,
    rate: float | None = None,
    room: float | None = None,
    each: int | None = None,
    deadline: float | None = None,
) -> tuple[Counts | None, float | None]:
    """Cheapest fleet found, and, where it may not be the cheapest of all, what none undercuts."""
    cover = _cover(problem, rate, room)
    if cover is None:
        return np.zeros(len(problem.servers), dtype=np.int64), None
    order = np.argsort(-problem.rates, kind="stable")
    most_each = each if each is not None else np.iinfo(np.int32).max
    with np.errstate(divide="ignore"):
        alone = np.ceil((1.0 - _SLACK) / cover.supply).max(axis=0)  # so many of a type supply all by themselves
    useful = np.minimum(_useful(problem, alone <= most_each), most_each)[order]
    at_most = useful.tolist()
    # reach[level] is what all servers of the types from that level on would supply
    reach = [tuple(row) for row in np.cumsum((cover.supply.T[order] * useful[:, None])[::-1], axis=0)[::-1].tolist()]
    supply = [tuple(column) for column in cover.supply.T[order].tolist()]
    prices, dual = cover.prices[order].tolist(), tuple(cover.dual.tolist())
    unit = prices[0] if min(prices) == max(prices) else 0.0  # all fleets cost multiples of it
    best_cost, best, cut, nodes, looked = np.inf, (0,) * len(order), False, 0, 0
    seen: dict[tuple[float, ...], float] = {}
    stack: list[tuple[float, tuple[float, float, float], tuple[int, ...]]] = [(0.0, (1.0, 1.0, 1.0), ())]
    while stack:
        cost, missing, counts = stack.pop()
        level = len(counts)
        looked += 1
        least = cost + sum(price * gap for price, gap in zip(dual, missing, strict=True) if gap > 0)
        if unit:
            least = unit * math.ceil(least / unit - 1e-6)
        if least >= best_cost - cover.finest / 10:
            continue
        if max(missing) <= _MET:
            best_cost, best = cost, counts + (0,) * (len(order) - level)
            continue
        key = (level, *(round(gap, 12) for gap in missing))
        if level == len(order) or seen.get(key, np.inf) <= cost:
            continue
        if any(gap > most + _MET for gap, most in zip(missing, reach[level], strict=True)):
            continue
        nodes += 1
        late = deadline is not None and looked % 256 == 0 and monotonic() >= deadline
        if (nodes > _NODES or looked > _LOOKED or late) and best_cost < np.inf:
            cut = True
            break
        seen[key] = cost
        has = supply[level]
        most = max(0, *(math.ceil((gap - _SLACK) / one) for gap, one in zip(missing, has, strict=True)))
        most = min(most, at_most[level])
        first = most if level == len(order) - 1 else 0
        if most - first > _BRANCHES:
            cut, numbers = True, [*range(_BRANCHES // 2), *range(most - _BRANCHES // 2, most + 1)]
        else:
            numbers = list(range(first, most + 1))
        for number in numbers:  # popped in reverse: most first
            left = (missing[0] - number * has[0], missing[1] - number * has[1], missing[2] - number * has[2])
            stack.append((cost + number * prices[level], left, (*counts, number)))
    if best_cost == np.inf:
        return None, None
    found = np.zeros(len(order), dtype=np.int64)
    found[order] = best
    return found, cover.bound(np.ones(3)) * (1 - 1e-6) - 2 * cover.finest if cut else None


def _useful(problem: Problem, endless: NDArray[np.bool_]) -> Counts:
    """How many of each type a cheapest fleet can need: so many that a larger type would replace them are not.

    Only a type of which there are enough for everything, `endless`, can replace others whatever else is rented.
    """
    rates, room, prices = problem.rates, problem.room, problem.prices
    most = np.full(len(rates), np.iinfo(np.int32).max)
    for small in range(len(rates)):
        for large in range(len(rates)):
            if not endless[large] or rates[large] <= rates[small] or room[large] < room[small]:
                continue
            room_for = np.floor(room[large] / room[small]) if np.isfinite(room[large]) else np.inf
            together = min(np.floor(rates[large] / rates[small]), room_for if np.isfinite(room[small]) else np.inf)
            if together >= 1 and together * prices[small] >= prices[large]:
                most[small] = min(most[small], int(together) - 1 + problem.need[2])
    return most


def fleets_between(
    problem: Problem, least: float, below: float, limit: int = 20_000, deadline: float | None = None
) -> list[Counts]:
    """Fleets that cover the need and cost at least `least` and less than `below` dollars an hour, cheapest first.

    Ties: the fewest servers, then more of the types that stand first. Looks at no more than `limit` partial
    fleets, large types first, and not on past `deadline` (`time.monotonic`), so a long list may be cut.
    """
    return list_fleets(problem, least, below, limit, deadline)[0]


def list_fleets(
    problem: Problem, least: float, below: float, limit: int = 20_000, deadline: float | None = None
) -> tuple[list[Counts], bool]:
    """As `fleets_between`, and whether the list is complete: not cut, nor ended at 10,000 servers of a type."""
    cover = _cover(problem)
    if cover is None:
        return [], True
    order = np.argsort(-problem.rates, kind="stable")
    found, complete = [], False
    most = min(len(problem), 10_000)
    for entry in _walk(cover, order, most, below * (1 - _SLACK), limit, deadline):
        if entry is None:
            complete = most == len(problem)
        elif entry[1] >= least * (1 - _SLACK):
            found.append((entry[1], tuple(-entry[0]), entry[0]))
    return [entry[2] for entry in sorted(found, key=lambda entry: entry[:2])], complete


def _walk(
    cover: _Cover, order: NDArray, most: int, below: float, limit: int, deadline: float | None
) -> Iterator[tuple[Counts, float] | None]:
    """Each fleet with its cost, and None at the end where none was left out for `limit` or `deadline`."""
    stack = [(0, np.ones(3), 0.0, np.zeros(len(order), dtype=np.int64))]
    limit *= _TRIED
    while stack and limit > 0 and (deadline is None or monotonic() < deadline):
        limit -= 1
        level, missing, cost, counts = stack.pop()
        if level == len(order):
            if (missing <= _MET).all():
                yield counts, cost
            continue
        kind = order[level]
        number = 0
        branches = []
        while True:
            left = missing - number * cover.supply[:, kind]
            spent = cost + number * cover.prices[kind]
            limit -= 1
            if spent >= below or number > most or limit < 0:
                break
            if spent + cover.bound(left) < below:
                more = counts.copy()
                more[kind] = number
                branches.append((level + 1, left, spent, more))
            number += 1
        stack.extend(branches)
    if limit > 0 and not stack:
        yield None


def fleet_types(problem: Problem, counts: Counts) -> NDArray[np.int64]:
    """int64 (N,), the type of each server of a fleet, largest capacity first; ties as listed."""
    order = np.argsort(-problem.rates, kind="stable")
    return np.repeat(order, counts[order])


def fleet_cost(problem: Problem, counts: Counts) -> float:
    """Dollars an hour of a fleet."""
    return float(problem.prices @ counts)


def _cover(problem: Problem, rate: float | None = None, room: float | None = None) -> _Cover | None:
    need_rate, need_room, need_count = problem.need
    if not need_count:
        return None
    need_rate = max(need_rate, rate or 0.0)
    need_room = max(need_room, room or 0.0)
    supply = np.ones((3, len(problem.servers)))
    # Tiny needs would make infinite supplies.
    supply[0] = np.minimum(problem.rates, _MOST * need_rate) / need_rate if need_rate > 0 else _MOST
    supply[1] = np.minimum(problem.room, _MOST * need_room) / need_room if need_room > 0 else _MOST
    supply[2] = 1.0 / need_count
    cheapest = float(problem.prices[problem.prices > 0].min(initial=MOST_DOLLARS))
    finest = 1e-9 * cheapest / max(1.0, 1 / supply.min())
    prices = problem.prices + finest
    return _Cover(supply, prices, finest, _dual(supply, prices))


def _dual(supply: NDArray[np.float64], prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest sum(y) with y @ supply <= prices, y >= 0: the linear relaxation seen from the needs.

    Tries every corner: three of the J + 3 limits hold with equality there.
    """
    limits = np.concatenate([supply.T, -np.eye(3)])
    bounds = np.append(prices, np.zeros(3))
    corners = np.array(list(combinations(range(len(bounds)), 3)))
    corners = corners[np.abs(np.linalg.det(limits[corners])) > 1e-12 * np.prod(np.abs(limits[corners]).max(2), axis=1)]
    found = np.linalg.solve(limits[corners], bounds[corners][:, :, None])[:, :, 0]
    inside = (found @ limits.T <= bounds + 1e-9 * prices.max()).all(axis=1)
    if not inside.any():
        return np.zeros(3)
    dual = np.maximum(found[inside][found[inside].sum(axis=1).argmax()], 0.0)
    return dual / max(1.0, float((dual @ supply / prices).max()))


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
