"""Ours: a layout that stands is repaired by the cheapest moves, and a cell that is too much for a worker is shared.

Each worker above the mean gives cells away, those with the fewest bytes of subscriptions for their work first, to
whoever has least to do. Where a whole cell is more than anybody has room for, part of it goes: its rows are spread by
their hash, and its subscriptions are stored twice. When such a place cools down, its parts are merged, which moves
nothing.

What the next round is expected to cost by cell: a few guesses, of which the one is taken that has lately been best.

Places that stay are guessed best by the last rounds, noise by more of them, and a hot spot that wanders by cells around
it. Which of these a stream is shows in how well each guess has told what workers had to do.

Everything everywhere as long as it fits a worker's memory, and repair once it does not.

Cells on workers while they are moved: who has what, how much each has to do, and the moves that relieve a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ceps.balance.baselines import Decision, FixedLayout, Memory, everything, kd_cut
from ceps.balance.cell_layout import MOST_WORKERS, Floats, Ints, Layout, of_parts
from ceps.balance.round_costs import Loads
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import number, whole


@dataclass(frozen=True)
class Guess:
    """A way to guess."""

    keep: float  # Weight of what earlier rounds have cost; the last round has the rest
    blur: float = 0.0  # Share of a cell's work that is expected anywhere around it
    side: int = 1  # Rows and columns of the square of cells that is around it

    def __post_init__(self) -> None:
        number("keep", self.keep, "a weight from 0 up to, but not, 1", least=0.0, below=1.0)
        number("blur", self.blur, "a share from 0 to 1", least=0.0, most=1.0)
        whole("side", self.side, 1, 1 << 12)


GUESSES = (Guess(0.3), Guess(0.0), Guess(0.6), Guess(0.0, 0.3, 3), Guess(0.0, 0.6, 5), Guess(0.0, 1.0, 9))
"""What is there to be guessed by, as a rule."""
_FADE = 0.8
"""Weight of how good guesses were before the last round."""


class Forecast(NamedTuple):
    """A guess, and what has to be known for the next one."""

    work: Floats  # float64 (cells,). Shares of the work of all, expected
    # By name: ``mean``, float64 (k, cells), what the k guesses make of rounds before blurring; ``error``, float64 (k,),
    # how far they were off, the last rounds more
    memory: Mapping[str, NDArray[Any]]


def forecast(
    work: Floats, layout: Layout, memory: Mapping[str, NDArray[Any]], guesses: Sequence[Guess] = GUESSES
) -> Forecast:
    """Return what the next round is expected to cost.

    ``work``: float64 (cells,). Of the round that has ended; ``memory``: of the last call; empty, or of another grid,
    before the first; ``guesses``: at least one; the first is taken as long as nothing is known.

    Cost O(guesses x cells).

    Examples
    --------
    >>> from ceps.balance.cell_layout import of_cells
    >>> forecast(np.array([3.0, 1.0]), of_cells((1, 2), 2, [0, 1]), {}).work.tolist()
    [0.75, 0.25]
    """
    now, shape = _as_shares(work), layout.shape
    mean, error = memory.get("mean"), memory.get("error")
    if mean is None or error is None or mean.shape != (len(guesses), len(work)):
        fresh = np.tile(now, (len(guesses), 1))
        return Forecast(now, {"mean": fresh, "error": np.zeros(len(guesses))})
    had = _of_workers(layout, now)
    missed = [
        np.abs(_of_workers(layout, _blur(one, guess, shape)) - had).sum()
        for one, guess in zip(mean, guesses, strict=True)
    ]
    error = _FADE * error + (1.0 - _FADE) * np.array(missed)
    keep = np.array([guess.keep for guess in guesses])[:, None]
    mean = keep * mean + (1.0 - keep) * now
    best = int(error.argmin())
    return Forecast(_blur(mean[best], guesses[best], shape), {"mean": mean, "error": error})


def _as_shares(work: Floats) -> Floats:
    """Return work as shares of all, so that busy rounds do not count more than quiet ones; 0 where there is none."""
    total = float(work.sum())
    return work / total if total > 0.0 else np.zeros(len(work))


def _of_workers(layout: Layout, work: Floats) -> Floats:
    return np.bincount(layout.worker, layout.share * work[layout.cell], layout.workers).astype(np.float64)


def _blur(work: Floats, guess: Guess, shape: tuple[int, int]) -> Floats:
    """Return work of which a share is spread evenly over a square around each cell; none leaves the grid."""
    if guess.blur == 0.0:
        return work
    from scipy.ndimage import uniform_filter

    around: Floats = uniform_filter(work.reshape(shape), guess.side, mode="reflect").ravel()
    return (1.0 - guess.blur) * work + guess.blur * around


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
        """Return the layout repaired; see :class:`ceps.balance.baselines.Strategy`.

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


@dataclass(frozen=True)
class Auto:
    """Replicated while the index fits, else ours."""

    workers: int
    memory_bytes: float  # That the subscriptions of a worker may take

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)
        number("memory_bytes", self.memory_bytes, "bytes above 0", above=0.0)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout of one of the two; see :class:`ceps.balance.baselines.Strategy`."""
        if float(asked.bytes.sum()) > self.memory_bytes:
            return Repair(self.workers).next_layout(layout, loads, asked, memory)
        everywhere = layout is not None and layout.everywhere
        return FixedLayout(self.workers, everything).next_layout(layout if everywhere else None, loads, asked, memory)


_NOTHING = 1e-12
_LOOKED = 64
"""Cells of a worker, the cheapest, of which neighbours are looked at before any of them goes."""
_OVERSHOOT = 1.25
"""A cell goes whole where it is up to so many times what is too much."""
_BESIDE = 0.75
"""Share of a cell's bytes that a worker lacks who has a cell beside it."""


@dataclass
class Parts:
    """Cells by worker while they are moved; ``load`` is kept beside them."""

    shape: tuple[int, int]
    workers: int
    work: Floats  # work, size: float64 (cells,). Seconds of each cell, and bytes of its subscriptions
    size: Floats
    sole: Ints  # int64 (cells,). The worker of each cell that one has alone, -1 of those that are shared
    shared: dict[int, dict[int, float]]  # Of each other cell the share of each worker that has some of it
    load: Floats  # float64 (workers,)
    changed: bool = False  # Whether anything was moved

    @classmethod
    def of(cls, layout: Layout, workers: int, work: Floats, size: Floats) -> Parts:
        """Return the cells of a layout; what workers had who are gone goes to those with least to do, dearest first."""
        there = layout.worker < workers
        load = np.bincount(layout.worker[there], (layout.share * work[layout.cell])[there], workers).astype(np.float64)
        sole = np.where(np.diff(layout.begin) == 1, layout.worker[layout.begin[:-1]], -1).astype(np.int64)
        found = cls(layout.shape, workers, work, size, sole, {}, load)
        for cell in layout.shared.tolist():
            part = slice(int(layout.begin[cell]), int(layout.begin[cell + 1]))
            held = zip(layout.worker[part].tolist(), layout.share[part].tolist(), strict=True)
            found.shared[cell] = {worker: share for worker, share in held if worker < workers}
        lost = np.flatnonzero(~there)
        cells, shares = layout.cell[lost], layout.share[lost]
        found.sole[cells] = -1
        for at in np.lexsort((cells, -work[cells] * shares)).tolist():
            cell = int(cells[at])
            holders = found.shared.setdefault(cell, {})
            taker = min(holders, key=lambda one: (found.load[one], one)) if holders else int(found.load.argmin())
            found._give(cell, taker, float(shares[at]))
        return found

    def holders(self, cell: int) -> dict[int, float]:
        """Return the share of each worker that has some of a cell."""
        sole = int(self.sole[cell])
        return {sole: 1.0} if sole >= 0 else self.shared[cell]

    def cells_of(self, worker: int) -> Ints:
        """Return the cells of which a worker has some, int64, rising."""
        some = [cell for cell, holders in self.shared.items() if worker in holders]
        return np.union1d(np.flatnonzero(self.sole == worker), np.array(some, np.int64))

    @property
    def mean(self) -> float:
        """The work of a worker if all had the same."""
        return float(self.work.sum()) / self.workers

    def _give(self, cell: int, worker: int, share: float) -> None:
        self.load[worker] += share * self.work[cell]
        holders = self.shared[cell]
        holders[worker] = holders.get(worker, 0.0) + share
        if len(holders) == 1 and holders[worker] > 1.0 - _NOTHING:
            del self.shared[cell]
            self.sole[cell] = worker
        self.changed = True

    def _take(self, cell: int, worker: int, share: float) -> None:
        """Take a share of a cell from a worker; all of it where no more is left."""
        self.load[worker] -= share * self.work[cell]
        holders = self.shared[cell] = dict(self.holders(cell))
        self.sole[cell] = -1
        holders[worker] -= share
        if holders[worker] <= _NOTHING:
            del holders[worker]

    def move(self, cell: int, giver: int, taker: int, share: float) -> None:
        """Move a share of a cell."""
        self._take(cell, giver, share)
        self._give(cell, taker, share)

    def merge(self, most: float) -> None:
        """Join parts of cells, the smallest first, where a worker that has one has room for another: no byte moves."""
        bound = most * self.mean
        for cell in sorted(self.shared, key=lambda one: (self.work[one], one)):
            holders = dict(self.shared[cell])
            for giver in sorted(holders, key=lambda one: (holders[one], one)):
                now = self.holders(cell)
                others = [one for one in now if one != giver]
                if not others:
                    break
                taker = min(others, key=lambda one: (self.load[one], one))
                if self.load[taker] + now[giver] * self.work[cell] <= bound:
                    self.move(cell, giver, taker, now[giver])

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
        cells, mine = self._cheapest(giver)
        fits = np.flatnonzero(mine <= _OVERSHOOT * (self.load[giver] - up_to))
        cells, mine = cells[fits], mine[fits]
        spent = 0.0
        for begin in range(0, len(cells), _LOOKED):
            if self.load[giver] <= most:
                break
            some = slice(begin, begin + _LOOKED)
            spent += self._give_some(giver, cells[some], mine[some], most, up_to, budget - spent)
        return spent

    def _give_some(self, giver: int, cells: Ints, mine: Floats, most: float, up_to: float, budget: float) -> float:
        """Move some of a few cells of a worker; return the bytes."""
        found = []
        for cell, work in zip(cells.tolist(), mine.tolist(), strict=True):
            near = self._near(cell, giver, work, up_to)
            found.append((self._cost(cell, near) / work, cell))
        spent = 0.0
        for _, cell in sorted(found):
            if self.load[giver] <= most:
                break
            work = self.holders(cell)[giver] * self.work[cell]
            near = self._near(cell, giver, work, up_to)
            taker = int(self.load.argmin()) if near is None else near
            cost = 0.0 if taker in self.holders(cell) else float(self.size[cell])
            fits = self.load[taker] + work <= up_to and work <= _OVERSHOOT * (self.load[giver] - up_to)
            if taker != giver and fits and spent + cost <= budget:
                self.move(cell, giver, taker, self.holders(cell)[giver])
                spent += cost
        return spent

    def _near(self, cell: int, giver: int, mine: float, up_to: float) -> int | None:
        """Return the worker with least to do that has part of a cell, or one beside it, and room; None for none."""
        there = {one for one in self.holders(cell) if one != giver}
        if not there:
            there = {one for beside in self._beside(cell) for one in self.holders(beside) if one != giver}
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
        return 0.0 if near in self.holders(cell) else _BESIDE * size

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
            mine[at] = self.holders(cell).get(giver, 0.0) * self.work[cell]
        return spent

    def _cheapest(self, worker: int) -> tuple[Ints, Floats]:
        """Return the cells of a worker that have work, by bytes for work, and the work of its parts."""
        cells = self.cells_of(worker)
        mine = self.work[cells].copy()
        for at in np.flatnonzero(self.sole[cells] < 0).tolist():
            mine[at] *= self.shared[int(cells[at])][worker]
        order = np.argsort(self.size[cells] / np.maximum(mine, _NOTHING), kind="stable")
        order = order[mine[order] > 0.0]
        return cells[order], mine[order]

    def _part(self, giver: int, cell: int, up_to: float, least: float, budget: float) -> float | None:
        """Move part of a cell; return the bytes that it costs, None where it may not be."""
        holders = self.holders(cell)
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
        whole = np.flatnonzero(self.sole >= 0)
        triples = [(cell, worker, share) for cell, some in self.shared.items() for worker, share in some.items()]
        cell, worker, share = np.array(triples).reshape(-1, 3).T
        cells = np.concatenate([whole, cell.astype(np.int64)])
        shares = np.concatenate([np.ones(len(whole)), share])
        sums = np.bincount(cells, shares)
        workers = np.concatenate([self.sole[whole], worker.astype(np.int64)])
        return of_parts(self.shape, self.workers, cells, workers, shares / sums[cells])
