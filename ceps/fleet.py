"""Fleets: how many servers of each type, cheapest first, whatever is placed on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceps.problem import Problem

Counts = NDArray[np.int64]

_SLACK = 1e-9  # relative; the same as the cost model's tolerance


@dataclass(frozen=True, eq=False)
class _Cover:
    """Integer covering: counts n >= 0 of J types with supply @ n >= need, at least cost."""

    supply: NDArray[np.float64]  # (3, J): requests/s, bytes and 1 for each server, each divided by its need
    prices: NDArray[np.float64]  # (J,)
    dual: NDArray[np.float64]  # (3,): prices of the needs; dual @ what is missing bounds the cost from below

    def bound(self, missing: NDArray[np.float64]) -> float:
        return float(self.dual @ np.maximum(missing, 0.0))


def cheapest_fleet(problem: Problem, rate: float | None = None, room: float | None = None) -> Counts:
    """int64 (J,), the cheapest fleet whose servers together have enough requests/s, bytes and number.

    Ties: the fewest servers. `rate` (requests/s at target utilisation) and `room` (bytes) raise what is asked
    for above the problem's own need. Branch and bound over the types; fast up to about ten types.
    """
    cover = _cover(problem, rate, room)
    if cover is None:
        return np.zeros(len(problem.servers), dtype=np.int64)
    order = np.argsort(-problem.rates, kind="stable")
    best_cost, best = np.inf, np.zeros(0, dtype=np.int64)
    seen: dict[tuple[int, bytes], tuple[float, int]] = {}
    stack = [(0, np.ones(3), 0.0, np.zeros(len(order), dtype=np.int64))]
    while stack:
        level, missing, cost, counts = stack.pop()
        if (missing <= _SLACK).all():
            if _before(cost, counts.sum(), best_cost, best.sum()):
                best_cost, best = cost, counts
            continue
        if level == len(order) or cost + cover.bound(missing) > best_cost * (1 + _SLACK):
            continue
        key = (level, np.round(missing, 12).tobytes())
        if key in seen and not _before(cost, int(counts.sum()), *seen[key]):
            continue
        seen[key] = (cost, int(counts.sum()))
        kind = order[level]
        most = _most(missing, cover.supply[:, kind])
        least = most if level == len(order) - 1 else 0
        for number in range(least, most + 1):  # popped in reverse: most first
            more = counts.copy()
            more[kind] = number
            stack.append(
                (level + 1, missing - number * cover.supply[:, kind], cost + number * cover.prices[kind], more)
            )
    return best


def fleets_between(problem: Problem, least: float, below: float, limit: int = 20_000) -> list[Counts]:
    """Fleets that cover the need and cost at least `least` and less than `below` dollars an hour, cheapest first.

    Ties: the fewest servers, then more of the types that stand first. Looks at no more than `limit` partial
    fleets, large types first, so a long list may be cut.
    """
    cover = _cover(problem)
    if cover is None:
        return []
    order = np.argsort(-problem.rates, kind="stable")
    found = []
    for counts, cost in _walk(cover, order, below * (1 - _SLACK), limit):
        if cost >= least * (1 - _SLACK):
            found.append((round(cost, 9), int(counts.sum()), tuple(-counts), counts))
    return [entry[3] for entry in sorted(found, key=lambda entry: entry[:3])]


def _walk(cover: _Cover, order: NDArray, below: float, limit: int) -> Iterator[tuple[Counts, float]]:
    stack = [(0, np.ones(3), 0.0, np.zeros(len(order), dtype=np.int64))]
    while stack and limit:
        limit -= 1
        level, missing, cost, counts = stack.pop()
        if level == len(order):
            if (missing <= _SLACK).all():
                yield counts, cost
            continue
        kind = order[level]
        number = 0
        branches = []
        while True:
            left = missing - number * cover.supply[:, kind]
            spent = cost + number * cover.prices[kind]
            if spent >= below or number > 10_000:
                break
            if spent + cover.bound(left) < below:
                more = counts.copy()
                more[kind] = number
                branches.append((level + 1, left, spent, more))
            number += 1
        stack.extend(branches)


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
    supply[0] = problem.rates / need_rate if need_rate > 0 else 1e9
    supply[1] = np.minimum(problem.room / need_room, 1e9) if need_room > 0 else 1e9
    supply[2] = 1.0 / need_count
    return _Cover(supply, problem.prices, _dual(supply, problem.prices))


def _dual(supply: NDArray[np.float64], prices: NDArray[np.float64]) -> NDArray[np.float64]:
    # Largest sum(y) with y @ supply <= prices, y >= 0: the linear relaxation seen from the needs.
    from scipy.optimize import linprog

    found = linprog(-np.ones(3), A_ub=supply.T, b_ub=prices, bounds=(0, None), method="highs")
    dual = np.maximum(found.x, 0.0)
    worst = float(np.max(dual @ supply / np.where(prices > 0, prices, np.inf), initial=0.0))
    dual[supply[:, prices <= 0].any(axis=1)] = 0.0
    return dual / max(1.0, worst)


def _most(missing: NDArray[np.float64], supply: NDArray[np.float64]) -> int:
    return max(0, int(np.ceil(np.max((missing - _SLACK) / supply))))


def _before(cost: float, number: int, other_cost: float, other_number: int) -> bool:
    """Whether one fleet is cheaper than the other, or costs the same with fewer servers."""
    if not np.isfinite(other_cost):
        return True
    if abs(cost - other_cost) <= _SLACK * max(cost, other_cost):
        return number < other_number
    return cost < other_cost
