"""Fluid bound: whole servers, divisible items with weights of dual feasible functions, and what each type holds.

An item may stand on several types in parts, but only on types that hold it alone. Each type's servers must together
take their parts in each slot, in bytes and by every weighting. The fleet bound, in contrast, lets any server take any
load, so it is too low where types differ in bytes by request, or where few types hold the large items.

Where items do not divide, a fleet that covers the load is too small: 30 items of 0.51 of a server need 30 servers.
Such a weighting is one more need that every fleet must cover, found without any search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from ceps.bounds.lower_bounds import fleet_bound
from ceps.bounds.solver import SMALLEST, Answer, minimise
from ceps.model.problem import TOLERANCE, Floats, Problem

_SAME = 1e-7  # relative difference of costs below which they are the same: the solver's own accuracy
_SLOTS = 12  # slots that are looked at: fewer leave a lower bound valid, but lower
_PARTS = 20_000  # items x types up to which items are told apart
_CLEAR = 1e-6  # relative overload above which the solver's word is taken that a fleet is too small


@dataclass(frozen=True, eq=False)
class Fluid:
    """The program of a problem."""

    problem: Problem  # The items and types

    @cached_property
    def weightings(self) -> list[Weighting]:
        """Weightings of the items."""
        return weightings(self.problem)

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """Columns that are looked at, the last of them the bytes."""
        slots = len(self.problem.total) - 1
        busy = np.argsort(-self.problem.total[:-1], kind="stable")[: _SLOTS // 2]
        spread = np.linspace(0, slots - 1, min(slots, _SLOTS // 2)).astype(np.int64)
        return np.append(np.unique(np.concatenate([busy, spread])), slots)

    def shares(self, columns: NDArray[np.int64], kind: int) -> Floats:
        """float64 (M, len(columns) + weightings), what each item takes of one server of a type."""
        problem = self.problem
        slots = len(problem.total) - 1
        limits = np.where(columns == slots, problem.room[kind], problem.rates[kind]) * (1 + TOLERANCE)
        heavy = [one.of_item / one.of_type[kind] for one in self.weightings if one.of_type[kind] > 0]
        share = np.column_stack([problem.columns[:, columns] / limits, *heavy])
        return np.where(share >= SMALLEST, share, 0.0)

    def bound(self, seconds: float = 10.0) -> float:
        """Dollars a day that no plan undercuts, at least the fleet bound.

        A program of J whole numbers and M x J parts; where that is more than 20,000 parts, one of J numbers, in which
        the fleet covers load, bytes and weightings.
        """
        problem, least = self.problem, fleet_bound(self.problem)
        if not len(problem) or not (problem.prices > 0).all():
            return least
        answer = self._solve(1.0, seconds)
        unit = 24 * float(problem.prices.max())
        found = unit * answer.bound
        if answer.x is None:
            return max(least, found * (1 - 1e-9))
        dollars = 24 * float(problem.prices @ answer.x[: len(problem.prices)].round())
        return max(least, dollars if dollars <= found * (1 + _SAME) else found * (1 - 1e-9))

    def fleet(self, room: float, seconds: float = 5.0) -> NDArray[np.int64] | None:
        """int64 (J,), a cheap fleet that takes all parts with the share `room` to spare; None if none came."""
        if not len(self.problem) or not (self.problem.prices > 0).all():
            return None
        answer = self._solve(1.0 + room, seconds)
        return None if answer.x is None else answer.x[: len(self.problem.prices)].round().astype(np.int64)

    def _solve(self, factor: float, seconds: float) -> Answer:
        """Cheapest fleet for loads and bytes that are `factor` times what they are, in units of the dearest type."""
        problem = self.problem
        kinds = len(problem.servers)
        holds = problem.types_that_hold(problem.columns)
        usable = np.asarray(holds.any(axis=0))
        cover, low, high = self._cover(usable, factor)
        rows: object = cover
        parts = 0
        if len(problem) * kinds <= _PARTS:
            parted, at_least, at_most, parts = self._parted(holds, factor)
            rows = _stack(cover, parted)
            low, high = np.append(low, at_least), np.append(high, at_most)
        upper = np.append(np.where(usable, float(len(problem)), 0.0), np.ones(parts))
        whole = np.append(np.ones(kinds), np.zeros(parts))
        cost = np.append(problem.prices / problem.prices.max(), np.zeros(parts))
        return minimise(cost, rows, low, high, upper=upper, seconds=seconds, integral=whole)

    def _cover(self, usable: NDArray[np.bool_], factor: float) -> tuple[Floats, Floats, Floats]:
        """Rows over the numbers of servers: what all servers together must have."""
        problem = self.problem
        rate, room, count = problem.need
        supply = [np.ones(len(usable)) / count]
        supply += [problem.rates / (rate * factor)] if rate else []
        supply += [np.minimum(problem.room, 1e6 * room) / (room * factor)] if room else []
        supply += [one.of_type / one.of_item.sum() for one in self.weightings]
        # A coefficient that is dropped for being small would ask for more: it is raised instead.
        rows = np.maximum(np.array(supply), 2 * SMALLEST) * usable
        return rows, np.full(len(rows), 1 - 1e-8), np.full(len(rows), np.inf)

    def _parted(self, holds: NDArray[np.bool_], factor: float) -> tuple[csr_array, Floats, Floats, int]:
        """Rows over the numbers of servers and the parts of items, and how many parts there are."""
        problem, kinds = self.problem, holds.shape[1]
        item, kind = np.nonzero(holds)
        row, column, value = [item], [kinds + np.arange(len(item))], [np.ones(len(item))]
        count = len(problem)
        for j in range(kinds):
            mine = np.flatnonzero(kind == j)
            share = self.shares(self.columns, j)[item[mine]]
            at, c = np.nonzero(share)
            row += [count + c, count + np.arange(share.shape[1])]
            column += [kinds + mine[at], np.full(share.shape[1], j)]
            grown = np.where(c < len(self.columns), factor, 1.0)  # weightings do not grow
            value += [share[at, c] * grown, np.full(share.shape[1], -1.0)]
            count += share.shape[1]
        entries = np.concatenate(value), (np.concatenate(row), np.concatenate(column))
        least = np.append(np.ones(len(problem)), np.full(count - len(problem), -np.inf))
        most = np.append(np.ones(len(problem)), np.zeros(count - len(problem)))
        return csr_array(coo_array(entries, shape=(count, kinds + len(item)))), least, most, len(item)

    def peak(self, counts: NDArray[np.int64]) -> float:
        """Largest relative load of a fleet with `counts` servers of each type, at the least: above 1, it is too small.

        All slots are looked at. Infinite where some item fits none of them; 1 where there are too many parts to say.
        """
        from scipy.optimize import linprog

        problem = self.problem
        used = np.flatnonzero(counts)
        holds = problem.types_that_hold(problem.columns)[:, used]
        if not holds.any(axis=1).all():
            return np.inf
        if len(problem) * len(used) > _PARTS or not len(problem):
            return 1.0
        item, kind = np.nonzero(holds)
        every = np.arange(len(problem.total))
        row, column, value, count = [], [], [], 0
        for j, number in enumerate(used):
            mine = np.flatnonzero(kind == j)
            share = self.shares(every, int(number))[item[mine]] / counts[number]
            at, c = np.nonzero(share)
            row.append(count + c)
            column.append(mine[at])
            value.append(share[at, c])
            count += share.shape[1]
        row.append(np.arange(count))
        column.append(np.full(count, len(item)))
        value.append(np.full(count, -1.0))
        entries = np.concatenate(value), (np.concatenate(row), np.concatenate(column))
        limits = csr_array(coo_array(entries, shape=(count, len(item) + 1)))
        whole = csr_array((np.ones(len(item)), (item, np.arange(len(item)))), shape=(len(problem), len(item) + 1))
        cost = np.append(np.zeros(len(item)), 1.0)
        found = linprog(
            cost, A_ub=limits, b_ub=np.zeros(count), A_eq=whole, b_eq=np.ones(len(problem)), bounds=(0, None),
            method="highs",
        )  # fmt: skip
        return float(found.fun) if found.status == 0 else 1.0

    def too_small(self, counts: NDArray[np.int64]) -> bool:
        """Whether it is proved that the items do not fit a fleet."""
        return self.peak(counts) > 1 + _CLEAR


def _stack(cover: Floats, parted: csr_array) -> csr_array:
    from scipy.sparse import vstack

    wide = np.zeros((len(cover), parted.shape[1]))
    wide[:, : cover.shape[1]] = cover
    return csr_array(vstack([csr_array(wide), parted]))


_SAFE = 1e-8  # relative: a server counts as so much larger than it is, above the cost model's tolerance
_WEIGHT_PARTS = 6  # a server is cut into so many parts at the most
_REFERENCES = 6  # types whose parts are looked at
_COLUMNS = 12  # busy slots that are looked at
_TOP = 64  # worth up to which what a server holds is found exactly
_KEPT = 12  # weightings at the most


@dataclass(frozen=True, eq=False)
class Weighting:
    """One weighting."""

    of_item: Floats  # float64 (M,), 0 or more
    of_type: Floats  # float64 (J,): no set of items that a server of the type holds weighs more


def weightings(problem: Problem) -> list[Weighting]:
    """Weightings that ask for most, at most 12; none where no item is above a seventh of a server.

    Valid for any types, storage, exclusion groups and pins: each looks at one column (or the mean of the slots) and
    ignores everything else. O(M log M) for each column, type and number of parts.
    """
    if not len(problem) or not (problem.prices > 0).all():
        return []
    found: dict[bytes, tuple[float, Weighting]] = {}
    usable = problem.types_that_hold(problem.columns).any(axis=0)
    for sizes, capacity in _views(problem):
        references = np.unique(capacity[usable & np.isfinite(capacity)])
        if len(references) > _REFERENCES:
            references = references[np.linspace(0, len(references) - 1, _REFERENCES).round().astype(int)]
        for reference in references * (1 + _SAFE):
            for worth in _worths(sizes / reference):
                key = worth.tobytes()
                if not worth.any():
                    continue
                most = _most(sizes, worth, np.where(usable, capacity, 0.0))
                value = float(worth.sum() * (problem.prices / np.maximum(most, 1e-12)).min())
                if key not in found or value > found[key][0]:
                    found[key] = value, Weighting(worth.astype(np.float64), most)
    best = sorted(found.values(), key=lambda entry: -entry[0])[:_KEPT]
    return [weighting for _, weighting in best]


def _views(problem: Problem) -> Iterator[tuple[Floats, Floats]]:
    """Sizes (M,) and capacities (J,) by busy slot, by the mean of all slots, and by bytes."""
    busy = np.argsort(-problem.total[:-1], kind="stable")
    step = max(1, len(busy) // _COLUMNS // 4)
    for slot in busy[: step * _COLUMNS : step]:
        yield problem.loads[:, slot], problem.rates
    yield problem.loads.mean(axis=1), problem.rates
    if np.isfinite(problem.room).any():
        yield problem.bytes, problem.room


def _worths(share: Floats) -> Iterator[NDArray[np.int64]]:
    for parts in range(2, _WEIGHT_PARTS + 2):
        yield (share > 1 / parts).astype(np.int64)
        yield np.maximum(np.ceil(parts * share) - 1, 0).astype(np.int64)


def _most(sizes: Floats, worth: NDArray[np.int64], capacity: Floats) -> Floats:
    """float64 (J,), the most worth that each capacity holds: exact up to `_TOP`, above it with items divided."""
    from ceps.kernels.subsets import least_sizes

    counted = np.flatnonzero(worth > 0)
    size, value = sizes[counted], worth[counted]
    least = np.empty(min(_TOP, int(value.sum())) + 1)
    least_sizes(size, value, least)
    most = np.searchsorted(least, capacity * (1 + _SAFE), side="right") - 1.0
    order = np.argsort(size / value, kind="stable")
    reach = np.concatenate([[0.0], np.cumsum(size[order])])
    worths = np.concatenate([[0.0], np.cumsum(value[order].astype(np.float64))])
    divided = np.floor(np.interp(capacity * (1 + _SAFE), reach, worths) + 1e-9) if reach[-1] > 0 else worths[-1]
    return np.where(most < len(least) - 1, most, divided)
