"""What a strategy is: from the layout of a round, and what the round has cost, the layout of the next one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from ceps.balance.cell_layout import Layout
from ceps.balance.round_costs import Loads
from ceps.balance.subscription_load import SubscriptionLoad

Memory = Mapping[str, NDArray[Any]]
"""What a strategy keeps from round to round, by name: plain arrays, so that it is kept beside its layout."""

NOTHING: Memory = MappingProxyType({})


class Decision(NamedTuple):
    """What a strategy has decided."""

    layout: Layout  # Of the next round
    memory: Memory = NOTHING  # What it wants to see then
    messages: int = 0  # Bytes that workers and whoever decides have sent each other for it


class Strategy(Protocol):
    """A way to spread cells; its parameters are frozen. It draws no random numbers but from a seed of its own."""

    @property
    def workers(self) -> int:
        """How many there are."""

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout of the next round.

        ``layout``: of the round that has ended; None before the first. One of another grid or number of workers is
        begun from as if there were none, unless the strategy says better; ``loads``: of the round that has ended; of a
        sample of the past before the first; ``memory``: what it has returned of the round before; empty before the
        first.
        """
