"""Dual feasible functions: weights of items of which each type of server holds only so much, in any one column.

Where items do not divide, a fleet that covers the load is too small: 30 items of 0.51 of a server need 30 servers.
Such a weighting is one more need that every fleet must cover, found without any search.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceps.model.problem import Floats, Problem

_SAFE = 1e-8  # relative: a server counts as so much larger than it is, above the cost model's tolerance
_PARTS = 6  # a server is cut into so many parts at the most
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
    for parts in range(2, _PARTS + 2):
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
