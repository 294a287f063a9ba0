"""PS2Stream (Chen et al., ICDE 2017): a kdt-tree to begin with, and cells that move while loads are too uneven."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ceps.arguments import number, whole
from ceps.balance.asked import Asked
from ceps.balance.baselines import stands
from ceps.balance.kdt import kdt_layout
from ceps.balance.layout import MOST_WORKERS, Floats, Layout, of_parts
from ceps.balance.loads import Loads, sigma
from ceps.balance.migration import Way, chosen
from ceps.balance.strategy import Decided, Memory

_MOST_MOVES = 64
_ALL_SPACE = -1.0
"""A likeness that every node has more of."""


@dataclass(frozen=True)
class PS2Stream:
    """Cells move from the most to the least loaded worker while one has ``sigma`` times another's load.

    Parameters
    ----------
    workers
        How many.
    sigma
        The load of the busiest over the least busy that may stand, above 1.
    delta
        Likeness of words said and asked for, above which a node is one of space.
    theta
        Nodes of the tree at the most; the number of workers counts where it is more.
    choose
        "GR", "DP", "SI" or "RA": how cells are chosen.
    load
        "paper": rows times subscriptions of a cell (def. 3). "work": what rows have cost.
    seed
        Of RA.
    """

    workers: int
    sigma: float = 1.5
    delta: float = 0.5
    theta: int = 256
    choose: Way = "GR"
    load: Literal["paper", "work"] = "paper"
    seed: int = 0

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        whole("theta", self.theta, 1, 1 << 20)
        number("sigma", self.sigma, "how often one load may be another's, above 1", above=1.0)
        number("delta", self.delta, "a likeness from 0 to 1", least=0.0, most=1.0)
        if self.load not in ("paper", "work"):
            raise ValueError(f"load = {self.load!r}; it must be 'paper' or 'work'")
        if self.choose not in ("GR", "DP", "SI", "RA"):
            raise ValueError(f"choose = {self.choose!r}; it must be 'GR', 'DP', 'SI' or 'RA'")

    def next_layout(self, layout: Layout | None, loads: Loads, asked: Asked, memory: Memory) -> Decided:
        """Return the layout after a round; see :class:`ceps.balance.strategy.Strategy`.

        Cells that words split stay where they are: only whole cells move. Cost O(cells log cells) a move by GR.
        """
        if layout is None or not stands(layout, loads, self.workers):
            return Decided(self._begun(loads, asked), {"round": np.array(0)})
        count = int(memory.get("round", np.array(0))) + 1
        rng = np.random.default_rng((self.seed, count))
        load = loads.rows * loads.stored if self.load == "paper" else loads.work
        moved = _relieved(layout, load, loads.bytes, self.sigma, self.choose, rng)
        return Decided(layout if moved is None else moved, {"round": np.array(count)}, loads.message_bytes)

    def _begun(self, loads: Loads, asked: Asked) -> Layout:
        theta = max(self.theta, 2 * self.workers)
        delta = self.delta if loads.terms is not None and len(asked.cover) else _ALL_SPACE
        return kdt_layout(loads, asked, self.workers, delta, theta, self.sigma)


def _relieved(
    layout: Layout, load: Floats, size: Floats, limit: float, way: Way, rng: np.random.Generator
) -> Layout | None:
    """Return the layout with cells moved (phase II); None where none has to, or none can."""
    whole_cells = np.diff(layout.begin) == 1
    whole_cells[layout.words.cell] = False
    owner = layout.worker[layout.begin[:-1]].astype(np.int64)
    work: Floats = np.bincount(layout.worker, layout.share * load[layout.cell], layout.workers).astype(np.float64)
    changed = False
    for _ in range(_MOST_MOVES):
        if sigma(work) <= limit:
            break
        high, low = int(work.argmax()), int(work.argmin())
        cells = np.flatnonzero(whole_cells & (owner == high))
        gap = float(work[high] - work[low])
        some = cells[chosen(way, load[cells], size[cells], gap / 2, gap, rng)]
        if len(some) == 0:
            break
        owner[some] = low
        gone = float(load[some].sum())
        work[high], work[low] = work[high] - gone, work[low] + gone
        changed = True
    if not changed:
        return None
    worker = np.where(whole_cells[layout.cell], owner[layout.cell], layout.worker)
    return of_parts(layout.shape, layout.workers, layout.cell, worker, layout.share, layout.words)
