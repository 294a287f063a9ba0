"""Whether all items fit a given fleet: decided by integer programs where they are small enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from ceps.bounds.solver import SMALLEST, minimise
from ceps.model.problem import TOLERANCE, Floats, Ints, Problem

_WIDEST = 8  # items of one server at the most, where sets are listed
_SETS = 50_000  # sets that are listed at the most
_STEPS = 20_000_000  # of the search for them
_PLACES = 4_000  # items x servers up to which items are assigned one by one
_FIRST = 12  # slots that an assignment looks at first


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is known of a fleet."""

    labels: Ints | None = None  # int64 (M,), a placement that fits, or None
    impossible: bool = False  # Whether it is proved that there is none


UNKNOWN = Verdict()


def fits(problem: Problem, labels: Ints, types: Ints) -> bool:
    """Whether a placement on servers of `types` overloads none, and keeps apart what must not meet."""
    loads = problem.cluster_columns(labels)
    used = types[: len(loads)]
    holds = problem.types_that_hold(loads)[np.arange(len(loads)), used]
    return bool(holds.all()) and not problem.conflicts(labels)


def pack_nearly_full(problem: Problem, types: Ints, seconds: float = 10.0) -> Verdict:
    """Decide by listing every set that a server may hold, where servers must be nearly full.

    What a fleet has above the summed load is all that its servers together may leave idle, in any slot. So each must
    be full up to that. Such sets are few where the fleet is tight and items are large; then an exact cover of the items
    by them is the answer. Unknown where there are more than 50,000.
    """
    from ceps.kernels.subsets import nearly_full

    if len(problem) > _WIDEST * len(types) or not len(problem):
        return UNKNOWN
    limits = _limits(problem)
    together = limits[types].sum(axis=0)
    share = problem.total / together
    if (share > 1 + TOLERANCE).any():
        return Verdict(impossible=True)
    tight = np.argsort(-share, kind="stable")
    idle = np.where(np.isfinite(together), together, 0.0) - problem.total
    order = np.argsort(-problem.columns[:, tight[0]], kind="stable")
    kinds, numbers = np.unique(types, return_counts=True)
    listed, owner = [], []
    for j, kind in enumerate(kinds):
        scale = limits[kind][tight]
        size = np.ascontiguousarray(problem.columns[order][:, tight] / scale)
        least = np.where(np.isfinite(together[tight]), 1 - idle[tight] / scale, 0.0) - 1e-8
        rest = np.vstack([np.cumsum(size[::-1], axis=0)[::-1], np.zeros(size.shape[1])]) + 1e-12
        out = np.empty((_SETS, _WIDEST), dtype=np.int64)
        count = nearly_full(size, least, np.full(size.shape[1], 1 + 2 * TOLERANCE), rest, out, _STEPS)
        if count < 0 or (least <= 0).all():  # a server may stay empty: not what this is for
            return UNKNOWN
        listed.append(out[:count])
        owner.append(np.full(count, j))
    sets, kind_of = np.concatenate(listed), np.concatenate(owner)
    if not len(sets):
        return Verdict(impossible=True)
    column, place = np.nonzero(sets >= 0)
    item = order[sets[column, place]]
    covers = coo_array((np.ones(len(item)), (item, column)), shape=(len(problem), len(sets)))
    rents = coo_array((np.ones(len(sets)), (kind_of, np.arange(len(sets)))), shape=(len(kinds), len(sets)))
    upper = _apart(problem, item, column, len(sets))
    exactly = np.append(np.ones(len(problem)), numbers)
    answer = minimise(
        np.zeros(len(sets)), csr_array(vstack([covers, rents])), exactly, exactly, upper=upper, seconds=seconds
    )
    if answer.x is None:
        return Verdict(impossible=answer.finished)
    labels = np.full(len(problem), -1)
    starts = np.concatenate([[0], np.cumsum(numbers)])
    used = [0] * len(kinds)
    ordered = np.argsort(types, kind="stable")  # servers by type, as `kinds`
    for chosen in np.flatnonzero(answer.x > 0.5):
        j = int(kind_of[chosen])
        if used[j] == numbers[j]:
            return UNKNOWN
        labels[item[column == chosen]] = ordered[starts[j] + used[j]]
        used[j] += 1
    if (labels < 0).any() or not fits(problem, labels, types):
        return UNKNOWN
    return Verdict(labels=labels)


def assign(problem: Problem, types: Ints, seconds: float) -> Verdict:
    """Decide by one whole number for each item and server; slots are added while a placement overloads them.

    Exponential at worst: unknown after `seconds`, and above 4,000 items x servers.
    """
    from time import monotonic

    deadline = monotonic() + seconds
    count, servers = len(problem), len(types)
    if count * servers > _PLACES or not count:
        return UNKNOWN
    limits = _limits(problem)
    slots = len(problem.total) - 1
    busy = np.argsort(-problem.total[:-1], kind="stable")
    columns = sorted({*busy[: _FIRST // 2].tolist(), *np.linspace(0, slots - 1, _FIRST).astype(int).tolist(), slots})
    upper = problem.types_that_hold(problem.columns)[:, types].astype(np.float64)
    if not upper.any(axis=1).all():
        return Verdict(impossible=True)
    # Servers of one type are alike: the largest item stands on the first of each.
    largest = int((problem.columns / limits[types].max(axis=0)).max(axis=1).argmax())
    upper[largest, 1:] *= types[1:] != types[:-1]
    place = np.arange(count * servers).reshape(count, servers)
    apart = _group_rows(problem, place)
    whole = coo_array((np.ones(place.size), (np.repeat(np.arange(count), servers), place.ravel())))
    while True:
        demand = np.concatenate([_loads(problem, limits[types[k]], place, k, columns) for k in range(servers)])
        rows = csr_array(vstack([whole, csr_array(demand), apart]))
        least = np.append(np.ones(count), np.full(rows.shape[0] - count, -np.inf))
        left = deadline - monotonic()
        if left <= 0:
            return UNKNOWN
        answer = minimise(np.zeros(place.size), rows, least, np.ones(rows.shape[0]), upper=upper.ravel(), seconds=left)
        if answer.x is None:
            return Verdict(impossible=answer.finished)
        labels = answer.x[place].argmax(axis=1).astype(np.int64)
        share = np.zeros((servers, slots + 1))
        np.add.at(share, labels, problem.columns)
        share /= limits[types]
        broken = {int(row.argmax()) for row in share if row.max() > 1 + TOLERANCE}
        if not broken and not problem.conflicts(labels):
            return Verdict(labels=labels)
        more = broken - set(columns)
        if not more:
            return UNKNOWN
        columns = sorted({*columns, *more})


def _limits(problem: Problem) -> Floats:
    """float64 (J, T + 1), what each type takes in each column."""
    slots = len(problem.total) - 1
    return np.concatenate([np.repeat(problem.rates[:, None], slots, axis=1), problem.room[:, None]], axis=1)


def _loads(problem: Problem, limit: Floats, place: NDArray[np.int64], server: int, columns: list[int]) -> Floats:
    """Rows (len(columns), places): shares of one server, a little less than they are."""
    share = problem.columns[:, columns] / (limit[columns] * (1 + TOLERANCE))
    rows = np.zeros((len(columns), place.size))
    rows[:, place[:, server]] = np.where(share >= SMALLEST, share, 0.0).T
    return rows


def _group_rows(problem: Problem, place: NDArray[np.int64]) -> csr_array:
    """One row for each exclusion group and server: at most one of the group stands there."""
    item = np.repeat(np.arange(len(problem)), np.diff(problem.group_start))
    servers = place.shape[1]
    _, group = np.unique(problem.group_of, return_inverse=True)
    row = (group[:, None] * servers + np.arange(servers)).ravel()
    shape = ((int(group.max(initial=-1)) + 1) * servers, place.size)
    return csr_array(coo_array((np.ones(len(row)), (row, place[item].ravel())), shape=shape))


def _apart(problem: Problem, item: Ints, column: Ints, count: int) -> Floats:
    """float64 (count,), 0 for sets that hold two items of one exclusion group, 1 for the others."""
    upper = np.ones(count)
    if len(problem.group_of):
        members = np.diff(problem.group_start)[item]
        column = np.repeat(column, members)
        starts = np.repeat(problem.group_start[item] - np.concatenate([[0], np.cumsum(members)[:-1]]), members)
        group = problem.group_of[starts + np.arange(len(column))]
        pairs, seen = np.unique(np.column_stack([column, group]), axis=0, return_counts=True)
        upper[pairs[seen > 1, 0]] = 0.0
    return upper
