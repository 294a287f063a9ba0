"""Placing groups on workers, and moving few of them: the least imbalance within a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceps.model.packing import Effort, Packing
from ceps.model.problem import Floats, Ints, Problem
from ceps.model.servers import ServerType
from ceps.streams.evenness import imbalance

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
        """Return whether a placement moves no more than the budget.

        ``worker_of``: int64 (G,).
        """
        return self.moved(worker_of) <= self.budget * (1 + SAME)

    def imbalance(self, worker_of: Ints) -> float:
        """Return the largest share of a worker in a slot.

        ``worker_of``: int64 (G,).
        """
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


def filled(groups: Groups) -> Ints:
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


def placed(groups: Groups, start: Ints, bound: float, rng: np.random.Generator) -> Ints:
    """Return a first placement of the least imbalance found, from `start` on.

    ``start``: int64 (G,), a placement.
    """
    packing = groups.packing(start)
    packing.balance(rng, _PLACING, target=bound)
    return packing.label


def relieved(groups: Groups, start: Ints, bound: float, rng: np.random.Generator) -> Ints:
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
