"""PS2Stream (Chen et al., ICDE 2017): a kdt-tree to begin with, and cells that move while loads are too uneven.

That is its local adjustment (V-A). The global one (V-B), a new tree beside the old one, is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ceps.balance.baselines import stands
from ceps.balance.cell_layout import MOST_WORKERS, Layout
from ceps.balance.ps2stream.adjusting import Load, adjusted
from ceps.balance.ps2stream.kdt import LEAVES, MOST_LEAVES, UNEVEN, By, kdt_layout, most_leaves
from ceps.balance.ps2stream.migration import Way
from ceps.balance.round_costs import Loads
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import number, whole


@dataclass(frozen=True)
class PS2Stream:
    """Cells move from the most to the least loaded worker while one has ``sigma`` times another's load."""

    workers: int
    sigma: float = UNEVEN  # The load of the busiest over the least busy that may stand, above 1
    delta: float = 0.5  # Likeness of words said and asked for, above which a node is one of space
    theta: int = MOST_LEAVES  # Nodes of the tree at the most; the number of workers counts where it is more
    choose: Way = "GR"  # "GR", "DP", "SI" or "RA": how cells are chosen
    load: Load = "paper"  # "paper": rows times subscriptions of a cell (def. 3). "work": what rows have cost
    by: By = "both"  # "both", "space" or "words": how the tree may be cut; without words in rows only space is
    leaves: int = LEAVES  # Of the tree for each worker, at least, as far as they can be had
    heaviest: int = 8  # How many cells of the busiest worker may be split by words each time (p); 0 for none
    seed: int = 0

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        whole("leaves", self.leaves, 1, 1 << 10)
        whole("heaviest", self.heaviest, 0, 1 << 20)
        whole("theta", self.theta, 1, 1 << 20)
        number("sigma", self.sigma, "how often one load may be another's, above 1", above=1.0)
        number("delta", self.delta, "a likeness from 0 to 1", least=0.0, most=1.0)
        if self.load not in ("paper", "work"):
            raise ValueError(f"load = {self.load!r}; it must be 'paper' or 'work'")
        if self.by not in ("both", "space", "words"):
            raise ValueError(f"by = {self.by!r}; it must be 'both', 'space' or 'words'")
        if self.choose not in ("GR", "DP", "SI", "RA"):
            raise ValueError(f"choose = {self.choose!r}; it must be 'GR', 'DP', 'SI' or 'RA'")

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout after a round; see :class:`ceps.balance.strategy.Strategy`.

        Cost O(cells log cells) a move by GR, and O(terms) more where rows hold words.
        """
        if layout is None or not stands(layout, loads, self.workers):
            return Decision(self._begun(loads, asked), {"round": np.array(0)})
        count = int(memory.get("round", np.array(0))) + 1
        rng = np.random.default_rng((self.seed, count))
        found = adjusted(
            layout, loads, asked, self.sigma, load=self.load, way=self.choose, heaviest=self.heaviest, rng=rng
        )
        return Decision(found, {"round": np.array(count)}, loads.message_bytes + loads.spoken_bytes)

    def _begun(self, loads: Loads, asked: SubscriptionLoad) -> Layout:
        theta = most_leaves(self.workers, self.theta)
        spoken = loads.terms is not None and len(asked.cover) > 0
        by: By = self.by if spoken else "space"
        return kdt_layout(loads, asked, self.workers, self.delta, theta, self.sigma, leaves=self.leaves, by=by)
