"""What strategies would have done with a stream: each round judged under the layout that was made of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from ceps.balance.baselines import NOTHING, Strategy
from ceps.balance.cell_layout import Flags, Floats, Ints, Layout
from ceps.balance.round_costs import Loads, max_over_mean, sigma, work_of_workers
from ceps.balance.subscription_load import SubscriptionLoad, stored_subscriptions

WARM_ROUNDS = 0.25
"""Share of the rounds, the first, that means leave out: before them no strategy knows much."""
_FEWEST = 4


@dataclass(frozen=True, eq=False)
class StrategyRun:
    """What one strategy would have done, by round: r rounds were judged."""

    name: str
    work: Floats  # float64 (r, workers). Of each worker, in seconds or what the model counts
    moved: Floats  # float64 (r,). Bytes of subscriptions that had to be stored newly for the layout of the round
    copies: Floats  # float64 (r,). Bytes that all workers store, over those of all subscriptions
    messages: Ints  # int64 (r,). Bytes sent for the decision after the round
    seconds: Floats  # float64 (r,). That the decision has taken; differs from run to run
    layouts: Sequence[Layout]
    total_bytes: float  # Of all subscriptions, once

    @property
    def workers(self) -> int:
        """How many there are."""
        return int(self.work.shape[1])

    @property
    def rounds(self) -> int:
        """How many were judged."""
        return len(self.work)

    @property
    def max_over_mean(self) -> Floats:
        """The busiest worker's work over the mean of all, float64 (r,)."""
        return np.array([max_over_mean(one) for one in self.work])

    @property
    def sigma(self) -> Floats:
        """The busiest worker's work over that of the least busy, float64 (r,)."""
        return np.array([sigma(one) for one in self.work])

    @property
    def moved_share(self) -> Floats:
        """Bytes moved, over those of all subscriptions, float64 (r,)."""
        return self.moved / self.total_bytes if self.total_bytes > 0.0 else np.zeros(self.rounds)

    @property
    def settled(self) -> slice:
        """The rounds of which means are taken."""
        first = int(WARM_ROUNDS * self.rounds)
        return slice(first if self.rounds >= _FEWEST else 0, None)


def rehearse(name: str, strategy: Strategy, rounds: Iterable[tuple[Loads, SubscriptionLoad]]) -> StrategyRun:
    """Return what a strategy would have done with rounds, of which the first is the sample that it begins with.

    ``rounds``: what rows of each cell have cost, and what was asked; at least two.

    Cost of a round: that of the decision, and O(subscriptions + cells) for each worker whose cells have changed.
    """
    waiting = iter(rounds)
    first = next(waiting, None)
    if first is None:
        raise ValueError("there is no round; at least two are wanted, of which the first is the sample to begin with")
    books = _Books(first[1])
    begun = perf_counter()
    decided = strategy.next_layout(None, first[0], first[1], NOTHING)
    spent = perf_counter() - begun
    moved = books.take(decided.layout, first[1])
    work, moves, copies, messages, seconds = [], [], [], [], []
    layouts: list[Layout] = []
    for loads, asked in waiting:
        work.append(work_of_workers(decided.layout, loads))
        moves.append(moved if layouts else 0.0)  # what stands before the first round is loaded, not moved
        copies.append(books.copies)
        layouts.append(decided.layout)
        begun = perf_counter()
        decided = strategy.next_layout(decided.layout, loads, asked, decided.memory)
        spent = perf_counter() - begun
        seconds.append(spent)
        messages.append(decided.messages)
        moved = books.take(decided.layout, asked)
    if not layouts:
        raise ValueError("there is one round; at least two are wanted, of which the first is the sample to begin with")
    return StrategyRun(
        name,
        np.stack(work),
        np.array(moves),
        np.array(copies),
        np.array(messages, np.int64),
        np.array(seconds),
        layouts,
        float(first[1].bytes.sum()),
    )


class _Books:
    """What each worker stores, kept from layout to layout."""

    def __init__(self, asked: SubscriptionLoad) -> None:
        self._asked = asked
        self._layout: Layout | None = None
        self._stored: list[Flags] = []

    def take(self, layout: Layout, asked: SubscriptionLoad) -> float:
        """Take the next layout; return the bytes that workers have to store now and did not before."""
        before, had = self._layout, self._stored
        if before is layout and asked is self._asked:
            return 0.0
        same = asked is self._asked
        self._stored = [
            had[one] if same and _as_before(before, layout, one) else stored_subscriptions(layout, asked, one)
            for one in range(layout.workers)
        ]
        self._layout, self._asked = layout, asked
        moved = 0.0
        for one, now in enumerate(self._stored):
            fresh = now & ~had[one] if one < len(had) and len(had[one]) == len(now) else now
            moved += float(asked.bytes[fresh].sum()) if len(had) <= one or had[one] is not now else 0.0
        return moved

    @property
    def copies(self) -> float:
        """Bytes that all store, over those of all subscriptions."""
        total = float(self._asked.bytes.sum())
        return float(sum(self._asked.bytes[one].sum() for one in self._stored)) / total if total > 0.0 else 1.0


def _as_before(before: Layout | None, layout: Layout, worker: int) -> bool:
    if before is None or worker >= before.workers or before.shape != layout.shape:
        return False
    if len(before.words) or len(layout.words):
        return False
    return np.array_equal(before.cell[before.worker == worker], layout.cell[layout.worker == worker])
