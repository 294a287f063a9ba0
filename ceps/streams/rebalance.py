"""Which worker has which groups of a stream's keys: placed by the pattern of a day, moved rarely and within a budget.

A group is what moves together: the state of some keys. The imbalance of a placement is the largest load of a worker
in a slot over its fair share, the mean of all workers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import how_many
from ceps.model.problem import Floats, Ints
from ceps.streams.co_location import keep_transitions
from ceps.streams.evenness import explained_by_noise, fair_shares, least_imbalance, loads_of
from ceps.streams.relief import SAME, Groups, best_of_all, filled, placed, relieved

MOST_WORKERS = 100_000
MOST = 1e15
"""Rows of a group in a slot, bytes of its state, transitions between two groups, at the most."""
FALSE_ALARMS = 1e-4
"""The chance to move something where there is nothing but noise: one in a month of being asked every five minutes."""
_FEW = 20_000  # placements up to which all are looked at


@dataclass(frozen=True, eq=False)
class Rebalanced:
    """Groups on workers."""

    worker_of: Ints  # int64 (groups,), the worker of each group
    bytes_moved: float  # Of groups that had a worker and have another one now
    before: float  # The imbalance where nothing moves; groups without a worker stand where load is least
    after: float
    bound: float  # No placement within the budget has less
    explained: bool = False  # Whether noise explains what stood before, or it was accepted, so that nothing moved


def rebalance(
    loads: ArrayLike,
    bytes: ArrayLike,
    home: ArrayLike | None,
    workers: int,
    *,
    budget: float,
    flow: ArrayLike | None = None,
    accepted: float | None = None,
    significance: float = FALSE_ALARMS,
    seed: int = 0,
) -> Rebalanced:
    """Return the worker of each group: a first placement, or relief of one that stands.

    Where no group has a worker, all are placed so that the largest imbalance of all slots is least. Where some have
    one, nothing moves while noise explains the imbalance: counts of rows vary, by Poisson's law, even where all
    workers are asked alike. Where it is too large for that, groups move until it is as small as the budget allows.

    Parameters
    ----------
    loads
        (groups,) or (groups, slots): rows counted of each group, in the slots of a usual day, or lately. Slots of fewer
        than 100 rows a worker are added to the next.
    bytes
        (groups,), the state that moves with each group.
    home
        (groups,), the worker of each group, from 0, or -1 where it has none: it is new, or its worker is gone. None
        where no group has one.
    workers
        How many there are.
    budget
        Bytes that may move. A group without a worker costs nothing.
    flow
        (groups, groups), how often objects go from one group to another. Wherever something is placed or moved, as
        many of these as possible stay on a worker.
    accepted
        An imbalance that may stand, whether noise explains it or not, and that transitions may cost: 1 or more. None
        is 1 without a flow, and 1.2 with one.
    significance
        The chance of a move where there is nothing but noise, above 0; 1 moves whenever it helps.
    seed
        Of the search.

    Raises
    ------
    ValueError
        Shapes do not fit each other, a value is out of its bounds, or a home is no worker.

    Notes
    -----
    All placements are looked at where there are at most 20,000. Else tabu search by `ceps.model.packing`: once for a
    first placement; for relief, for a dozen targets between what stands and what must be. The same arguments give the
    same placement.

    Examples
    --------
    >>> found = rebalance([800, 800, 200, 200], [5, 5, 5, 5], [0, 0, 1, 1], 2, budget=10)
    >>> found.worker_of, found.bytes_moved, found.before, found.after
    (array([0, 1, 0, 1]), 10.0, 1.6, 1.0)
    >>> rebalance([950, 1050], [5, 5], [0, 1], 2, budget=10).explained
    True
    """
    workers = whole("workers", workers, 1, MOST_WORKERS)
    given = np.asarray(loads)
    if given.ndim not in (1, 2):
        raise ValueError(f"loads have shape {given.shape}; it must be (groups,), or (groups, slots)")
    count = len(given)
    rows = _amounts("loads", loads, given.shape).reshape(count, *(given.shape[1:] or (1,)))
    sizes = _amounts("bytes", bytes, (count,))
    between = None if flow is None else _amounts("flow", flow, (count, count))
    at_home = np.full(count, -1) if home is None else _homes(home, count, workers)
    if budget != np.inf:
        budget = number("budget", budget, "bytes, 0 or more, or infinite where any may move", least=0.0)
    if accepted is None:
        accepted = 1.0 if flow is None else 1.2
    accepted = number("accepted", accepted, "an imbalance, 1 or more", least=1.0)
    significance = number("significance", significance, "a chance above 0, at most 1", above=0.0, most=1.0)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**63 - 1))
    shares, totals = fair_shares(rows, workers)
    groups = Groups(shares, sizes, at_home, workers, budget)
    if not count or workers == 1:
        return Rebalanced(np.zeros(count, np.int64), 0.0, 1.0, 1.0, 1.0, bool(count))
    start = filled(groups)
    bound = least_imbalance(shares, sizes, at_home, workers, budget)
    before = groups.imbalance(start)
    stands = bool((at_home >= 0).any())
    if stands:
        limits = np.maximum(explained_by_noise(totals, workers, significance), accepted)
        if (loads_of(shares, start, workers).max(axis=0) <= limits * (1 + SAME)).all():
            return Rebalanced(start, 0.0, before, before, bound, explained=True)
    if count <= 1 or workers <= _FEW ** (1 / count):
        found = best_of_all(groups, between, accepted)
    else:
        found = (relieved if stands else placed)(groups, start, bound, rng)
        if between is not None:
            found = keep_transitions(groups, found, between, max(groups.imbalance(found), accepted))
    return Rebalanced(found, groups.moved(found), before, groups.imbalance(found), bound)


def _amounts(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    given = np.asarray(values)
    if given.shape != shape:
        raise ValueError(f"{name} have shape {given.shape}; for {how_many(shape[0], 'group')} it must be {shape}")
    if given.dtype.kind not in "iufb":
        raise ValueError(f"{name} are of type {given.dtype}; they must be numbers")
    amounts = given.astype(np.float64)
    bad = np.argwhere(~((amounts >= 0) & (amounts <= MOST)))
    if len(bad):
        at = tuple(bad[0].tolist())
        raise ValueError(f"{name}[{', '.join(map(str, at))}] = {amounts[at]:g}; it must be from 0 to {MOST:g}")
    return amounts


def _homes(home: ArrayLike, count: int, workers: int) -> Ints:
    given = np.asarray(home)
    if given.shape != (count,):
        raise ValueError(f"home has shape {given.shape}; for {how_many(count, 'group')} it must be {(count,)}")
    bad = np.ones(count, np.bool_)
    if given.dtype.kind in "iuf":
        bad = ~((given >= -1) & (given < workers) & (given == np.floor(given)))
    if bad.any():
        at = int(bad.argmax())
        raise ValueError(
            f"home[{at}] = {given[at]!s}; it must be a worker, a whole number from 0 to {workers - 1}, or -1 where "
            "the group has none or its worker is gone"
        )
    return given.astype(np.int64)
