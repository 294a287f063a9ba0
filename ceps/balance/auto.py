"""Everything everywhere as long as it fits a worker's memory, and repair once it does not."""

from __future__ import annotations

from dataclasses import dataclass

from ceps.balance.baselines import FixedLayout, everything
from ceps.balance.cell_layout import MOST_WORKERS, Layout
from ceps.balance.repair import Repair
from ceps.balance.round_costs import Loads
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import number, whole


@dataclass(frozen=True)
class Auto:
    """Replicated while the index fits, else ours."""

    workers: int
    memory_bytes: float  # That the subscriptions of a worker may take

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("memory_bytes", self.memory_bytes, "bytes above 0", above=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout of one of the two; see :class:`ceps.balance.strategy.Strategy`."""
        if float(asked.bytes.sum()) > self.memory_bytes:
            return Repair(self.workers).next_layout(layout, loads, asked, memory)
        everywhere = layout is not None and layout.everywhere
        return FixedLayout(self.workers, everything).next_layout(layout if everywhere else None, loads, asked, memory)
