"""Which worker has which groups of a stream's keys: placed by the pattern of a day, moved rarely and within a budget.

A group is what moves together: the state of some keys. The imbalance of a placement is the largest load of a worker
in a slot over its fair share, the mean of all workers.

Transitions that stay on a worker: objects go from one group to another, and both should be in one place.

Placing groups on workers, and moving few of them: the least imbalance within a budget of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import how_many
from ceps.model.packing import Effort, Packing
from ceps.model.problem import Floats, Ints, Problem
from ceps.model.servers import ServerType
from ceps.streams.evenness import explained_by_noise, fair_shares, imbalance, least_imbalance, loads_of

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
    start = fill_homeless(groups)
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
        found = (relieve if stands else first_placement)(groups, start, bound, rng)
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


_IDLE = 300  # steps without a better best after which it stops
_STEPS, _LEAST_STEPS = 5_000, 100
_WORK = 3e9  # of all steps, where it is about 40 for each pair of groups and 5,000 for each slot
_TENURE = 12  # steps for which a group does not go back to where it was
_LOOKED = 20_000  # moves and swaps of a step whose loads are looked at
_CHUNK = 500


def share_cut(worker_of: Ints, flow: Floats) -> float:
    """Return the share of transitions between groups that go from one worker to another; 0 where there are none.

    ``worker_of``: int64 (G,); ``flow``: float64 (G, G); what stays in a group is not counted.
    """
    between = np.array(flow, dtype=np.float64)
    np.fill_diagonal(between, 0.0)
    total = float(between.sum())
    return float(between[worker_of[:, None] != worker_of].sum()) / total if total else 0.0


def keep_transitions(groups: Groups, start: Ints, flow: Floats, accepted: float) -> Ints:
    """Return a placement that cuts fewer transitions, of an imbalance of at most `accepted`, within the budget.

    Tabu search: each step makes the move or swap that saves most, or costs least, among those that are allowed. The
    same arguments give the same placement. O(G^2) a step, and what its loads take; a few seconds in all.

    ``start``: int64 (G,), a placement of at most that imbalance, within the budget; ``flow``: float64 (G, G), how often
    objects go from one group to another.
    """
    count, workers = len(groups), groups.workers
    each = np.arange(count)
    ties = flow + flow.T
    np.fill_diagonal(ties, 0.0)
    label, best = start.copy(), start
    loads = loads_of(groups.shares, label, workers)
    spent, saved, most, found_at = groups.moved(label), 0.0, 0.0, 0
    until = np.zeros((count, workers), np.int64)
    below = np.tril_indices(count)
    most_steps = int(np.clip(_WORK / (40 * count**2 + 5_000 * groups.shares.shape[1]), _LEAST_STEPS, _STEPS))
    for step in range(1, most_steps + 1):
        there = np.zeros((count, workers))
        there[each, label] = 1.0
        there = ties @ there
        gain = there - there[each, label][:, None]
        swap = gain[:, label] + gain[:, label].T - 2 * ties
        tabu = until > step
        # What is tabu may be done all the same where it gives a new best.
        wins = most - saved + SAME * max(1.0, most)
        gain[each, label] = -np.inf
        swap[(label[:, None] == label) | ((tabu[:, label] | tabu[:, label].T) & (swap <= wins))] = -np.inf
        swap[below] = -np.inf
        gain[tabu & (gain <= wins)] = -np.inf
        worth = np.concatenate([gain.ravel(), swap.ravel()])
        chosen = _first_allowed(groups, label, loads, worth, accepted, groups.budget * (1 + SAME) - spent)
        if chosen < 0:
            break
        saved += float(worth[chosen])
        if chosen < count * workers:
            steps = [divmod(chosen, workers)]
        else:
            i, j = divmod(chosen - count * workers, count)
            steps = [(i, int(label[j])), (j, int(label[i]))]
        for group, worker in steps:
            until[group, label[group]] = step + _TENURE
            loads[label[group]] -= groups.shares[group]
            loads[worker] += groups.shares[group]
            label[group] = worker
        spent = groups.moved(label)
        if saved > most + SAME * max(1.0, most):
            most, best, found_at = saved, label.copy(), step
        elif step - found_at >= _IDLE:
            break
    return best


def _first_allowed(groups: Groups, label: Ints, loads: Floats, worth: Floats, accepted: float, left: float) -> int:
    """Return the move or swap of most worth that keeps within the imbalance and the bytes left, or -1."""
    count, workers = len(groups), groups.workers
    looked = min(_LOOKED, len(worth))
    ranked = np.argpartition(-worth, looked - 1)[:looked] if looked < len(worth) else np.arange(len(worth))
    ranked = ranked[np.argsort(-worth[ranked], kind="stable")]
    ranked = ranked[worth[ranked] > -np.inf]
    home, bytes, shares = groups.home, groups.bytes, groups.shares
    away = np.where((home >= 0) & (label != home), bytes, 0.0)
    limit = accepted * (1 + SAME)
    for begin in range(0, len(ranked), _CHUNK):
        chosen = ranked[begin : begin + _CHUNK]
        single = chosen < count * workers
        i, k = np.divmod(chosen, workers)
        first, second = np.divmod(chosen - count * workers, count)
        i, j = np.where(single, i, first), np.where(single, 0, second)
        goal = np.where(single, k, label[j])
        come = shares[i] - np.where(single[:, None], 0.0, shares[j])
        fits = (loads[goal] + come).max(axis=1) <= limit
        fits &= single | ((loads[label[i]] - come).max(axis=1) <= limit)
        bill = np.where((home[i] >= 0) & (goal != home[i]), bytes[i], 0.0) - away[i]
        back = np.where((home[j] >= 0) & (label[i] != home[j]), bytes[j], 0.0) - away[j]
        fits &= bill + np.where(single, 0.0, back) <= left
        if fits.any():
            return int(chosen[fits.argmax()])
    return -1


SAME = 1e-9
"""Relative: bytes and imbalances that differ by less are the same."""
_CLOSE = 1e-3  # imbalances between which no target is tried any more
_ROUNDS = 12  # targets at the most
_RELUCTANCES = (1.0, 8.0, 64.0)  # what moving all bytes weighs, in times of the present overload
_PLACING, _MOVING = Effort(idle=1000), Effort()


@dataclass(frozen=True, eq=False)
class Groups:
    """What is placed."""

    shares: Floats  # float64 (G, S), loads over the fair share of a worker
    bytes: Floats  # float64 (G,), what moves with each
    home: Ints  # int64 (G,), the worker of each, or -1
    workers: int  # How many there are
    budget: float  # Bytes that may leave their homes

    def __len__(self) -> int:
        return len(self.shares)

    def moved(self, worker_of: Ints) -> float:
        """Return the bytes of groups that are not at home; those without a home are not counted.

        ``worker_of``: int64 (G,).
        """
        return float(self.bytes[(self.home >= 0) & (self.home != worker_of)].sum())

    def affordable(self, worker_of: Ints) -> bool:
        """Return whether a placement moves no more than the budget. ``worker_of``: int64 (G,)."""
        return self.moved(worker_of) <= self.budget * (1 + SAME)

    def imbalance(self, worker_of: Ints) -> float:
        """Return the largest share of a worker in a slot. ``worker_of``: int64 (G,)."""
        return imbalance(self.shares, worker_of, self.workers)

    def packing(self, worker_of: Ints, most: float = 1.0) -> Packing:
        """Return a search that begins with a placement, on workers that take `most` times their fair share.

        ``worker_of``: int64 (G,), -1 for groups that are nowhere.
        """
        count = len(self)
        problem = Problem(
            columns=np.column_stack([self.shares, self.bytes]),
            servers=(ServerType("worker", most, np.inf, 1.0),),
            utilisation=1.0,
            slot_seconds=1,
            item_of=np.arange(count)[:, None],
            group_start=np.zeros(count + 1, np.int64),
            group_of=np.zeros(0, np.int64),
            pins=np.full(count, -1),
        )
        return Packing(problem, np.zeros(self.workers, np.int64), worker_of)


def fill_homeless(groups: Groups) -> Ints:
    """Return a placement where nothing moves: groups without a home stand where load is least, largest first.

    Those without load stand where groups are fewest. O(G K S).
    """
    busy = groups.shares.max(axis=1, initial=0.0) > 0
    packing = groups.packing(groups.home)
    packing.fill()
    worker_of = packing.label.copy()
    idle = np.flatnonzero(~busy & (groups.home < 0))
    worker_of[idle] = -1
    counts = np.bincount(worker_of[worker_of >= 0], minlength=groups.workers)
    for group in idle:
        worker_of[group] = counts.argmin()
        counts[worker_of[group]] += 1
    return worker_of


def first_placement(groups: Groups, start: Ints, bound: float, rng: np.random.Generator) -> Ints:
    """Return a first placement of the least imbalance found, from `start` on. ``start``: int64 (G,), a placement."""
    packing = groups.packing(start)
    packing.balance(rng, _PLACING, target=bound)
    return packing.label


def relieve(groups: Groups, start: Ints, bound: float, rng: np.random.Generator) -> Ints:
    """Return a placement of the least imbalance found that the budget allows.

    Targets between the bound and what stands are halved. For each, overload above it is moved away, bytes counted as
    more and more of a burden; then whatever can go home goes home.

    ``start``: int64 (G,), a placement that moves nothing.
    """
    best, worst, least = start, groups.imbalance(start), bound
    total = float(groups.bytes.sum())
    burden = groups.bytes / total if total else groups.bytes
    target = least * (1 + SAME)
    for _ in range(_ROUNDS):
        if worst - least <= _CLOSE or target >= worst:
            break
        found = None
        for reluctance in _RELUCTANCES:
            packing = groups.packing(start, target)
            packing.relieve(rng, _MOVING, groups.home, reluctance * burden)
            if packing.fits:
                packing.send_home(groups.home)
                if groups.affordable(packing.label):
                    found = packing.label
                    break
        if found is None:
            least = max(least, target)
        else:
            best, worst = found, min(worst, groups.imbalance(found))
        target = (least + worst) / 2
    return best


def best_of_all(groups: Groups, flow: Floats | None, accepted: float) -> Ints:
    """Return the best of all K^G placements within the budget.

    The least imbalance; with a flow, of those with an imbalance of at most `accepted`, or the least, the one that cuts
    fewest transitions. Then the fewest bytes moved, the fewest groups on a worker, and the first.

    ``flow``: float64 (G, G), how often objects go from one group to another, or None.
    """
    count, workers = len(groups), groups.workers
    every = np.arange(workers**count)[:, None] // workers ** np.arange(count - 1, -1, -1) % workers
    moved = ((groups.home >= 0) & (every != groups.home)) @ groups.bytes
    every, moved = _where(moved <= groups.budget * (1 + SAME), every, moved)
    most = np.zeros(len(every))
    for k in range(workers):
        here = (every == k).astype(np.float64)
        for column in groups.shares.T:
            np.maximum(most, here @ column, out=most)
    if flow is not None:
        every, moved, most = _where(most <= max(most.min(), accepted) * (1 + SAME), every, moved, most)
        cut = np.zeros(len(every))
        for i, row in enumerate(flow):
            cut += (every[:, i, None] != every) @ row
        every, moved, most = _where(cut <= cut.min() * (1 + SAME), every, moved, most)
    every, moved = _where(most <= most.min() * (1 + SAME), every, moved)
    every = every[moved <= moved.min() * (1 + SAME)]
    largest = np.max([(every == k).sum(axis=1) for k in range(workers)], axis=0)
    return every[largest.argmin()].astype(np.int64)


def _where(chosen: NDArray[np.bool_], *arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    return tuple(array[chosen] for array in arrays)
