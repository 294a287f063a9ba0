"""Ours: a layout that stands is repaired by the cheapest moves, and a cell that is too much for a worker is shared.

Each worker above the mean gives cells away, those with the fewest bytes of subscriptions for their work first, to
whoever has least to do. Where a whole cell is more than anybody has room for, part of it goes: its rows are spread by
their hash, and its subscriptions are stored twice. When such a place cools down, its parts are merged, which moves
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ceps.arguments import number, whole
from ceps.balance.asked import Asked
from ceps.balance.baselines import kd_cut
from ceps.balance.layout import MOST_WORKERS, Floats, Ints, Layout, of_parts
from ceps.balance.loads import Loads
from ceps.balance.strategy import Decided, Memory

_NOTHING = 1e-12
_LOOKED = 64
"""Cells of a worker, the cheapest, of which neighbours are looked at."""
_OVERSHOOT = 1.25
"""A cell goes whole where it is up to so many times what is too much."""
_BESIDE = 0.75
"""Share of a cell's bytes that a worker lacks who has a cell beside it."""


@dataclass(frozen=True)
class Repair:
    """Relief of all workers above the mean, within a budget of bytes.

    Parameters
    ----------
    workers
        How many.
    budget
        Share of all subscriptions' bytes that may move in a round.
    slack
        A worker gives away what it has above ``1 + slack`` times the mean, and takes up to half the slack.
    least_share
        Part of the mean work below which no cell is shared.
    keep
        Weight of what earlier rounds have cost; the last round has the rest.
    merge_up_to
        Parts of a cell are joined where their worker has no more than so many times the mean then.
    """

    workers: int
    budget: float = 0.5
    slack: float = 0.05
    least_share: float = 0.02
    keep: float = 0.5
    merge_up_to: float = 1.0

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("budget", self.budget, "a share of all bytes, 0 or more", least=0.0)
        number("slack", self.slack, "a share of the mean, 0 or more", least=0.0)
        number("least_share", self.least_share, "a part of the mean, 0 or more", least=0.0)
        number("keep", self.keep, "a weight from 0 up to, but not, 1", least=0.0, below=1.0)
        number("merge_up_to", self.merge_up_to, "times the mean, 0 or more", least=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: Asked, memory: Memory) -> Decided:
        """Return the layout repaired; see :class:`ceps.balance.strategy.Strategy`.

        Without a layout a kd-tree is cut, and relieved. Of another number of workers: what those had who are gone
        goes to others whatever it costs, and new ones are filled by repair. Cost O(parts log parts) a worker above the
        mean, with few parts moved.
        """
        del asked
        if layout is None or layout.shape != loads.shape or len(layout.words):
            # what it begins with may be a guess, and is not remembered
            begun = _Parts.of(kd_cut(loads.shape, self.workers, loads.work), self.workers, loads.work, loads.bytes)
            begun.relieve(0.0, self.least_share, np.inf)
            return Decided(begun.layout())
        work = _as_shares(loads.work)
        before = memory.get("work")
        if before is not None and len(before) == len(work):
            work = self.keep * before + (1.0 - self.keep) * work
        parts = _Parts.of(layout, self.workers, work, loads.bytes)
        parts.place_lost()
        parts.merge(self.merge_up_to)
        parts.relieve(self.slack, self.least_share, self.budget * float(loads.bytes.sum()))
        return Decided(parts.layout() if parts.changed else layout, {"work": work}, loads.message_bytes)


def _as_shares(work: Floats) -> Floats:
    """Return work as shares of all, so that busy rounds do not count more than quiet ones; 0 where there is none."""
    total = float(work.sum())
    return work / total if total > 0.0 else np.zeros(len(work))


@dataclass
class _Parts:
    """Cells by worker while they are moved; ``load`` is kept beside them.

    Parameters
    ----------
    shape
        Rows and columns.
    workers
        How many.
    work, size
        float64 (cells,). Seconds of each cell, and bytes of its subscriptions.
    shares
        Of each cell the share of each worker that has some of it.
    load
        float64 (workers,).
    held
        Cells of each worker.
    lost
        Cells and shares of workers that are gone.
    """

    shape: tuple[int, int]
    workers: int
    work: Floats
    size: Floats
    shares: list[dict[int, float]]
    load: Floats
    held: list[set[int]]
    lost: list[tuple[int, float]] = field(default_factory=list)
    changed: bool = False

    @classmethod
    def of(cls, layout: Layout, workers: int, work: Floats, size: Floats) -> _Parts:
        shares: list[dict[int, float]] = [{} for _ in range(layout.cells)]
        held: list[set[int]] = [set() for _ in range(workers)]
        lost = []
        triples = zip(layout.cell.tolist(), layout.worker.tolist(), layout.share.tolist(), strict=True)
        for cell, worker, share in triples:
            if worker < workers:
                shares[cell][worker] = share
                held[worker].add(cell)
            else:
                lost.append((cell, share))
        there = layout.worker < workers
        load = np.bincount(layout.worker[there], (layout.share * work[layout.cell])[there], workers).astype(np.float64)
        return cls(layout.shape, workers, work, size, shares, load, held, lost)

    @property
    def mean(self) -> float:
        """The work of a worker if all had the same."""
        return float(self.work.sum()) / self.workers

    def place_lost(self) -> None:
        """Give the cells of workers that are gone to those with least to do, the dearest first."""
        for cell, share in sorted(self.lost, key=lambda one: (-self.work[one[0]] * one[1], one[0])):
            holders = self.shares[cell]
            taker = min(holders, key=lambda one: (self.load[one], one)) if holders else int(self.load.argmin())
            self._give(cell, taker, share)

    def _give(self, cell: int, worker: int, share: float) -> None:
        self.shares[cell][worker] = self.shares[cell].get(worker, 0.0) + share
        self.held[worker].add(cell)
        self.load[worker] += share * self.work[cell]
        self.changed = True

    def _take(self, cell: int, worker: int, share: float) -> None:
        """Take a share of a cell from a worker; all of it where no more is left."""
        left = self.shares[cell][worker] - share
        self.load[worker] -= share * self.work[cell]
        if left > _NOTHING:
            self.shares[cell][worker] = left
        else:
            del self.shares[cell][worker]
            self.held[worker].discard(cell)

    def move(self, cell: int, giver: int, taker: int, share: float) -> None:
        """Move a share of a cell."""
        self._take(cell, giver, share)
        self._give(cell, taker, share)

    def merge(self, most: float) -> None:
        """Join parts of cells, the smallest first, where a worker that has one has room for another: no byte moves."""
        bound = most * self.mean
        shared = [cell for cell, holders in enumerate(self.shares) if len(holders) > 1]
        for cell in sorted(shared, key=lambda one: (self.work[one], one)):
            holders = self.shares[cell]
            for giver in sorted(holders, key=lambda one: (holders[one], one)):
                others = [one for one in holders if one != giver]
                if not others:
                    break
                taker = min(others, key=lambda one: (self.load[one], one))
                if self.load[taker] + holders[giver] * self.work[cell] <= bound:
                    self.move(cell, giver, taker, holders[giver])

    def relieve(self, slack: float, least_share: float, budget: float) -> None:
        """Let workers above the mean give cells away, as long as the budget lasts: whole ones, then parts."""
        mean = self.mean
        if mean <= 0.0:
            return
        most, up_to = (1.0 + slack) * mean, (1.0 + 0.5 * slack) * mean
        for giver in np.argsort(-self.load, kind="stable").tolist():
            if self.load[giver] <= most:
                break
            budget -= self._give_whole(giver, most, up_to, budget)
            if self.load[giver] > most:
                budget -= self._give_parts(giver, most, up_to, least_share * mean, budget)

    def _give_whole(self, giver: int, most: float, up_to: float, budget: float) -> float:
        """Move whole cells of a worker, those with the fewest bytes for their work first; return the bytes."""
        found = []
        cells, mine = self._cheapest(giver)
        few = np.flatnonzero(mine <= _OVERSHOOT * (self.load[giver] - up_to))[:_LOOKED]
        for cell, work in zip(cells[few].tolist(), mine[few].tolist(), strict=True):
            near = self._near(cell, giver, work, up_to)
            found.append((self._cost(cell, near) / work, cell))
        spent = 0.0
        for _, cell in sorted(found):
            if self.load[giver] <= most:
                break
            work = self.shares[cell][giver] * self.work[cell]
            near = self._near(cell, giver, work, up_to)
            taker = int(self.load.argmin()) if near is None else near
            cost = 0.0 if taker in self.shares[cell] else float(self.size[cell])
            fits = self.load[taker] + work <= up_to and work <= _OVERSHOOT * (self.load[giver] - up_to)
            if taker != giver and fits and spent + cost <= budget:
                self.move(cell, giver, taker, self.shares[cell][giver])
                spent += cost
        return spent

    def _near(self, cell: int, giver: int, mine: float, up_to: float) -> int | None:
        """Return the worker with least to do that has part of a cell, or one beside it, and room; None for none."""
        there = {one for one in self.shares[cell] if one != giver}
        if not there:
            there = {one for beside in self._beside(cell) for one in self.shares[beside] if one != giver}
        with_room = [one for one in there if self.load[one] + mine <= up_to]
        return min(with_room, key=lambda one: (self.load[one], one)) if with_room else None

    def _beside(self, cell: int) -> list[int]:
        rows, columns = self.shape
        row, column = divmod(cell, columns)
        found = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
        return [y * columns + x for y, x in found if 0 <= y < rows and 0 <= x < columns]

    def _cost(self, cell: int, near: int | None) -> float:
        """Return the bytes of a move, as they are likely to be: a neighbour has some of them, and who shares all."""
        size = float(self.size[cell])
        if near is None:
            return size
        return 0.0 if near in self.shares[cell] else _BESIDE * size

    def _give_parts(self, giver: int, most: float, up_to: float, least: float, budget: float) -> float:
        """Share cells of a worker with others, those with the fewest bytes for what may go first; return the bytes."""
        spent = 0.0
        cells, mine = self._cheapest(giver)
        size = self.size[cells]
        while self.load[giver] > most and len(cells):
            room = up_to - float(self.load.min())
            part = np.minimum(mine, min(room, float(self.load[giver] - up_to)))
            price = np.where(part >= least, size / np.maximum(part, _NOTHING), np.inf)
            at = int(price.argmin())
            if not np.isfinite(price[at]):
                break
            cell = int(cells[at])
            cost = self._part(giver, cell, up_to, least, budget - spent)
            if cost is None:
                break
            spent += cost
            mine[at] = self.shares[cell].get(giver, 0.0) * self.work[cell]
        return spent

    def _cheapest(self, worker: int) -> tuple[Ints, Floats]:
        """Return the cells of a worker that have work, by bytes for work, and the work of its parts."""
        cells: Ints = np.fromiter(sorted(self.held[worker]), np.int64)
        mine = self.work[cells] * np.array([self.shares[cell][worker] for cell in cells.tolist()])
        order = np.argsort(self.size[cells] / np.maximum(mine, _NOTHING), kind="stable")
        order = order[mine[order] > 0.0]
        return cells[order], mine[order]

    def _part(self, giver: int, cell: int, up_to: float, least: float, budget: float) -> float | None:
        """Move part of a cell; return the bytes that it costs, None where it may not be."""
        holders = self.shares[cell]
        near = [one for one in holders if one != giver and up_to - self.load[one] >= least]
        taker = min(near, key=lambda one: (self.load[one], one)) if near else int(self.load.argmin())
        cost = 0.0 if taker in holders else float(self.size[cell])
        part = min(holders[giver] * self.work[cell], up_to - self.load[taker], self.load[giver] - up_to)
        if cost > budget or taker == giver or part < least:
            return None
        self.move(cell, giver, taker, part / self.work[cell])
        return cost

    def layout(self) -> Layout:
        """Return what stands now."""
        triples = [(cell, worker, share) for cell, some in enumerate(self.shares) for worker, share in some.items()]
        cell, worker, share = (np.array(column) for column in zip(*triples, strict=True))
        sums = np.bincount(cell, share)
        return of_parts(self.shape, self.workers, cell, worker, share / sums[cell])
