"""Ours: a layout that stands is repaired by the cheapest moves, and a cell that is too much for a worker is shared.

Each worker above the mean gives cells away, those with the fewest bytes of subscriptions for their work first, to
whoever has least to do. Where a whole cell is more than anybody has room for, part of it goes: its rows are spread by
their hash, and its subscriptions are stored twice. When such a place cools down, its parts are merged, which moves
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ceps.balance.baselines import kd_cut
from ceps.balance.cell_layout import MOST_WORKERS, Layout
from ceps.balance.cell_moves import Parts
from ceps.balance.round_costs import Loads
from ceps.balance.round_forecast import GUESSES, Guess, forecast
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import number, whole


@dataclass(frozen=True)
class Repair:
    """Relief of all workers above the mean, within a budget of bytes."""

    workers: int
    budget: float = 0.5  # Share of all subscriptions' bytes that may move in a round
    # A worker gives away what it has above ``1 + slack`` times the mean, and takes up to half the slack
    slack: float = 0.05
    least_share: float = 0.02  # Part of the mean work below which no cell is shared
    # How the next round is guessed by those that have ended; the one that has lately been best is taken
    guesses: tuple[Guess, ...] = GUESSES
    # Parts of a cell are joined where their worker has no more than so many times the mean then
    merge_up_to: float = 1.0

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("budget", self.budget, "a share of all bytes, 0 or more", least=0.0)
        number("slack", self.slack, "a share of the mean, 0 or more", least=0.0)
        number("least_share", self.least_share, "a part of the mean, 0 or more", least=0.0)
        if not self.guesses:
            raise ValueError("guesses is empty; there must be one at least")
        number("merge_up_to", self.merge_up_to, "times the mean, 0 or more", least=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout repaired; see :class:`ceps.balance.strategy.Strategy`.

        Without a layout, or from one in which everybody has everything, a kd-tree is cut and relieved. Of another
        number of workers: what those had who are gone goes to others whatever it costs, and new ones are filled by
        repair. Cost O(cells log cells) for each worker above the mean, with few cells moved.
        """
        if layout is None or self._anew(layout, loads):
            # what it begins with may be a guess, and is not remembered
            begun = Parts.of(kd_cut(loads, asked, self.workers), self.workers, loads.work, loads.bytes)
            begun.relieve(0.0, self.least_share, np.inf)
            return Decision(begun.layout())
        expected = forecast(loads.work, layout, memory, self.guesses)
        parts = Parts.of(layout, self.workers, expected.work, loads.bytes)
        parts.merge(self.merge_up_to)
        parts.relieve(self.slack, self.least_share, self.budget * float(loads.bytes.sum()))
        return Decision(parts.layout() if parts.changed else layout, expected.memory, loads.message_bytes)

    def _anew(self, layout: Layout, loads: Loads) -> bool:
        everything = layout.everywhere and layout.workers > 1
        return layout.shape != loads.shape or len(layout.words) > 0 or everything
