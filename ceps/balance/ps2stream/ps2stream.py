"""PS2Stream (Chen et al., ICDE 2017): a kdt-tree to begin with, and cells that move while loads are too uneven.

That is its local adjustment (V-A). The global one (V-B), a new tree beside the old one, is not here.

PS2Stream's local adjustment (Chen et al., V.A): cells are split or joined where that saves work, and cells move.

Work is moved in units: what a worker has of a cell, which is the whole cell, its rest, or words of it.

Which cells to move from a busy worker to an idle one: enough load, for the fewest bytes (PS2Stream, def. 4).

The problem is NP-hard (Partition). GR is the paper's greedy way, DP its dynamic programme over sizes in units, SI and
RA what it compares them with. No set reaches the difference of the two workers: they would only change places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ceps.balance.baselines import Decision, Memory, stands
from ceps.balance.cell_layout import MOST_WORKERS, Flags, Floats, Ints, Layout, WordParts, of_parts
from ceps.balance.ps2stream.kdt import LEAVES, MOST_LEAVES, UNEVEN, By, kdt_layout, most_leaves
from ceps.balance.round_costs import Loads, Terms, WorkModel, sigma, split_work, work_of_workers
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
        """Return the layout after a round; see :class:`ceps.balance.baselines.Strategy`.

        Cost O(cells log cells) a move by GR, and O(terms) more where rows hold words.
        """
        if layout is None or not stands(layout, loads, self.workers):
            return Decision(self._begun(loads, asked), {"round": np.array(0)})
        count = int(memory.get("round", np.array(0))) + 1
        rng = np.random.default_rng((self.seed, count))
        found = adjust_layout(
            layout, loads, asked, self.sigma, load=self.load, way=self.choose, heaviest=self.heaviest, rng=rng
        )
        return Decision(found, {"round": np.array(count)}, loads.message_bytes + loads.spoken_bytes)

    def _begun(self, loads: Loads, asked: SubscriptionLoad) -> Layout:
        theta = most_leaves(self.workers, self.theta)
        spoken = loads.terms is not None and len(asked.cover) > 0
        by: By = self.by if spoken else "space"
        return kdt_layout(loads, asked, self.workers, self.delta, theta, self.sigma, leaves=self.leaves, by=by)


Load = Literal["paper", "work"]
_MOST_MOVES = 64


def count_loads(loads: Loads, asked: SubscriptionLoad, layout: Layout, load: Load) -> Loads:
    """Return loads as a strategy counts them: "work" as they are, "paper" with each row held against all of its cell.

    Rows times subscriptions is the load of a cell in def. 3; in def. 1 each row counts beside it. Words that a layout
    names are there even if no row has said them.
    """
    if loads.terms is not None:
        named = layout.words
        loads = replace(loads, terms=with_asked(loads.terms, asked, named.cell, named.word))
    if load == "work":
        return loads
    nothing, usual = np.zeros(len(loads.rows)), WorkModel()
    model = replace(loads.model, c=0.0)
    if model.b == 0.0:  # what a fit has found where all rows had about as many candidates
        model = replace(model, b=model.a * usual.b / usual.a)
    return replace(loads, candidates=loads.rows * loads.stored, matches=nothing, model=model)


def with_asked(terms: Terms, asked: SubscriptionLoad, cell: Ints, word: Ints) -> Terms:
    """Return terms with further pairs of a cell and a word, of which no row is known."""
    if len(cell) == 0:
        return terms
    count = int(max(terms.word.max(initial=0), word.max())) + 1
    known = terms.cell * count + terms.word
    fresh = np.unique(cell * count + word)
    fresh = fresh[np.append(known, -1)[np.searchsorted(known, fresh)] != fresh]
    if len(fresh) == 0:
        return terms
    under = asked.under_words.over(fresh // count, fresh % count).astype(np.float64)
    key = np.concatenate([known, fresh])
    order = np.argsort(key, kind="stable")
    rows = np.concatenate([terms.rows, np.zeros(len(fresh))])[order]
    return Terms(key[order] // count, key[order] % count, rows, np.concatenate([terms.under, under])[order])


@dataclass
class Cells:
    """A layout while it is adjusted."""

    layout: Layout
    loads: Loads  # As the strategy counts them
    owner: Ints  # int64 (cells,). Who has each cell, or its rest
    single: Flags  # bool (cells,). Cells that are not shared: the others stay as they are
    words: WordParts  # Words of cells with workers of their own
    changes: int = 0  # How often anything was moved

    @classmethod
    def of(cls, layout: Layout, loads: Loads) -> Cells:
        """Return the cells of a layout."""
        owner = layout.worker[layout.begin[:-1]].astype(np.int64)
        return cls(layout, loads, owner, np.diff(layout.begin) == 1, layout.words)

    def now(self) -> Layout:
        """Return the layout as it stands."""
        if self.changes == 0:
            return self.layout
        old = self.layout
        worker = np.where(self.single[old.cell], self.owner[old.cell], old.worker)
        return of_parts(old.shape, old.workers, old.cell, worker, old.share, self.words)

    def _put(self, cell: Ints, word: Ints, worker: Ints) -> None:
        """Take words of cells with their workers; those that go to the rest's worker stay with it."""
        elsewhere = worker != self.owner[cell]
        self.words = WordParts(cell[elsewhere], word[elsewhere], worker[elsewhere].astype(np.int32))
        self.changes += 1

    def give(self, cells: Ints, taker: int) -> None:
        """Give whole cells, or the rest of cells, to a worker."""
        if len(cells) == 0:
            return
        self.owner[cells] = taker
        self._put(self.words.cell, self.words.word, self.words.worker.astype(np.int64))

    def give_words(self, cell: Ints, giver: int, taker: int) -> None:
        """Give what a worker has of words of some cells to another one."""
        if len(cell) == 0:
            return
        mine = (self.words.worker == giver) & np.isin(self.words.cell, cell)
        self._put(self.words.cell, self.words.word, np.where(mine, taker, self.words.worker).astype(np.int64))

    def name(self, cell: int, words: Ints, worker: int) -> None:
        """Name words of a cell that go to a worker."""
        order = np.lexsort((np.append(self.words.word, words), np.append(self.words.cell, np.full(len(words), cell))))
        self._put(
            np.append(self.words.cell, np.full(len(words), cell))[order],
            np.append(self.words.word, words)[order],
            np.append(self.words.worker, np.full(len(words), worker))[order].astype(np.int64),
        )


def adjust_layout(
    layout: Layout, loads: Loads, asked: SubscriptionLoad, limit: float, *, load: Load = "paper", way: Way = "GR",
    heaviest: int = 0, rng: np.random.Generator,
) -> Layout:  # fmt: skip
    """Return a layout in which no worker has more than ``limit`` times another's work, as far as that can be had.

    ``rng``: draws for "RA".

    From the busiest worker to the least busy, up to 64 times. Phase I never makes the work of all more, by the loads of
    the round; where rows hold no words, only phase II is there.
    """
    every = load == "paper"
    cells = Cells.of(layout, count_loads(loads, asked, layout, load))
    for _ in range(_MOST_MOVES):
        work = work_of_workers(cells.now(), cells.loads, every)
        if sigma(work) <= limit:
            break
        high, low = int(work.argmax()), int(work.argmin())
        before = cells.changes
        if heaviest and cells.loads.terms is not None:
            split_and_join(cells, asked, high, low, heaviest, every)
            work = work_of_workers(cells.now(), cells.loads, every)
        if sigma(work) > limit and work[high] > work[low]:
            _move(cells, high, low, float(work[high] - work[low]), way, every, rng)
        if cells.changes == before:
            break
    return cells.now()


def split_and_join(cells: Cells, asked: SubscriptionLoad, high: int, low: int, heaviest: int, every: bool) -> None:
    """Do phase I from one worker to another; the work of all never rises.

    ``cells``: the layout, with loads that have terms; changed.
    """
    work = work_of_workers(cells.now(), cells.loads, every)
    _split(cells, asked, high, low, float(work[high] - work[low]), heaviest, every)
    work = work_of_workers(cells.now(), cells.loads, every)
    _join(cells, high, low, float(work[high] - work[low]), every)


def _split(cells: Cells, asked: SubscriptionLoad, high: int, low: int, gap: float, heaviest: int, every: bool) -> None:
    """Of the heaviest cells of the busiest let words go, or all but them, where that saves work in all.

    The part with fewer subscriptions goes, unless its work is as much as the two workers differ by.
    """
    loads, model = cells.loads, cells.loads.model
    whole = cells.single & (cells.owner == high)
    whole[cells.words.cell] = False
    mine = np.flatnonzero(whole & (loads.rows > 0.0))
    for cell in mine[np.argsort(-loads.work[mine], kind="stable")[:heaviest]].tolist():
        word, count = asked.under_words.in_cell(cell)
        if len(word) == 0:
            continue
        here = np.full(len(word), cell)
        terms = loads.terms
        assert terms is not None
        rows, _ = terms.at(here, word)
        under = count.astype(np.float64)
        order = np.argsort(rows / under, kind="stable")
        there, held = float(loads.rows[cell]), float(loads.candidates[cell])
        with np.errstate(divide="ignore"):
            heard = -there * np.expm1(np.cumsum(np.log1p(-np.minimum(rows[order] / there, 1.0))))
        gone = np.cumsum(under[order])
        looked = np.cumsum((rows * under)[order])
        spared = np.minimum(there * gone if every else looked, held)
        own = model.a * heard + model.b * (np.minimum(heard * gone, spared) if every else spared)
        saved = model.b * spared - own
        at = int(saved.argmax())
        if not saved[at] > 0.0:
            continue
        words = np.sort(word[order[: at + 1]])
        few = gone[at] <= 0.5 * loads.stored[cell]
        goes = float(own[at]) if few else float(loads.work[cell] - model.b * spared[at])
        if goes >= gap:
            continue
        gap -= goes
        if not few:
            cells.give(np.array([cell]), low)
        cells.name(cell, words, low if few else high)
        cells.loads = loads = replace(loads, terms=with_asked(terms, asked, np.full(len(words), cell), words))


def _join(cells: Cells, high: int, low: int, gap: float, every: bool) -> None:
    """Let what the busiest has of split cells go to the least busy that has part of them, where that saves work."""
    before = _by_cell(cells.now(), cells.loads, every)
    held = cells.now().held
    both = np.flatnonzero(held[high] & held[low] & cells.single)
    if len(both) == 0:
        return
    trial = Cells(cells.layout, cells.loads, cells.owner.copy(), cells.single, cells.words, cells.changes)
    trial.give(both[trial.owner[both] == high], low)
    trial.give_words(both, high, low)
    saved = before - _by_cell(trial.now(), cells.loads, every)
    work = _work_in(cells, both, high, every)
    order = np.argsort(-saved[both], kind="stable")
    fits = np.cumsum(work[order]) < gap
    some = both[order[fits & (saved[both][order] > 0.0)]]
    if len(some):
        cells.give(some[cells.owner[some] == high], low)
        cells.give_words(some, high, low)


def _by_cell(layout: Layout, loads: Loads, every: bool) -> Floats:
    """Return the work of each cell by all workers, float64 (cells,)."""
    split = split_work(layout, loads, every)
    return loads.work + np.bincount(split.cell, split.work - split.spared, len(loads.rows))


def _work_in(cells: Cells, some: Ints, worker: int, every: bool) -> Floats:
    """Return what a worker does in some cells, float64 (n,)."""
    split = split_work(cells.now(), cells.loads, every)
    mine = split.worker == worker
    found: Floats = np.bincount(split.cell[mine], split.work[mine], len(cells.owner)).astype(np.float64)
    rest = cells.loads.work - np.bincount(split.cell, split.spared, len(cells.owner))
    found += np.where(cells.owner == worker, rest, 0.0)
    return found[some]


def _move(cells: Cells, high: int, low: int, gap: float, way: Way, every: bool, rng: np.random.Generator) -> None:
    """Phase II: move units with enough load and the fewest bytes from the busiest to the least busy."""
    loads, count = cells.loads, len(cells.owner)
    mine = np.flatnonzero(cells.single & (cells.owner == high))
    load, size = loads.work[mine], loads.bytes[mine]
    parts = np.zeros(0, np.int64)
    if len(cells.words) and loads.terms is not None:
        split = split_work(cells.now(), loads, every)
        bytes_of = split.under / np.maximum(loads.stored[split.cell], 1.0) * loads.bytes[split.cell]
        load = load - np.bincount(split.cell, split.spared, count)[mine]
        size = np.maximum(size - np.bincount(split.cell, bytes_of, count)[mine], 0.0)
        own = split.worker == high
        parts = split.cell[own]
        load, size = np.append(load, split.work[own]), np.append(size, bytes_of[own])
    some = chosen(way, load, size, gap / 2, gap, rng)
    if len(some) == 0:
        return
    whole, words = mine[some[some < len(mine)]], parts[some[some >= len(mine)] - len(mine)]
    cells.give_words(words, high, low)
    cells.give(whole, low)


Way = Literal["GR", "DP", "SI", "RA"]
UNIT_BYTES = 2_000.0
"""Of sizes in the dynamic programme: rounded up to whole ones, so that it is an approximation."""
_MOST_UNITS = 1 << 16


def chosen(way: Way, load: Floats, size: Floats, least: float, below: float, rng: np.random.Generator) -> Ints:
    """Return which cells to move, int64, rising; none where no set has enough and not too much.

    ``way``: "GR", "DP", "SI" or "RA"; ``load``, ``size``: float64 (n,). Of the cells of the busy worker; those without
    load are never chosen; ``rng``: draws the order of RA.
    """
    if way == "GR":
        return greedy(load, size, least, below)
    if way == "DP":
        return exact(load, size, least, below)
    if way == "SI":
        return in_order(np.argsort(-size, kind="stable"), load, least, below)
    if way == "RA":
        return in_order(rng.permutation(len(load)), load, least, below)
    raise ValueError(f"choose = {way!r}; it must be 'GR', 'DP', 'SI' or 'RA'")


def greedy(load: Floats, size: Floats, least: float, below: float) -> Ints:
    """Return the cells that GR chooses: by bytes for load, each that would reach ``least`` being a way to end.

    One that would be too much with what was taken ends by itself, which the paper does not say: so a set is found where
    there is one. Cost O(n log n).

    Examples
    --------
    >>> greedy(np.array([5.0, 4.0, 9.0]), np.array([1.0, 1.0, 9.0]), 6.0, 20.0).tolist()
    [0, 1]
    """
    usable = np.flatnonzero((load > 0.0) & (load < below))
    order = usable[np.argsort(size[usable] / load[usable], kind="stable")]
    taken: list[int] = []
    best: tuple[float, list[int]] | None = None
    total = cost = 0.0
    for cell in order.tolist():
        if total + load[cell] < least:
            taken.append(cell)
            total, cost = total + float(load[cell]), cost + float(size[cell])
            continue
        # where it would be too much with the others, the cell is enough by itself
        others, paid = (list(taken), cost) if total + load[cell] < below else ([], 0.0)
        enough = total + load[cell] < below or load[cell] >= least
        if enough and (best is None or paid + size[cell] < best[0]):
            best = (paid + float(size[cell]), [*others, cell])
    return np.array(sorted(best[1]) if best is not None else [], np.int64)


def exact(load: Floats, size: Floats, least: float, below: float, unit: float = UNIT_BYTES) -> Ints:
    """Return the cells of the least size in whole units that have ``least`` load, by dynamic programming.

    Sizes are looked at up to GR's answer, which is returned where the best set would have too much. Cost O(n s) in time
    and memory, for s units of GR's answer.
    """
    bound = greedy(load, size, least, below)
    usable = np.flatnonzero((load > 0.0) & (load < below))
    if len(bound) == 0:
        return bound
    units = np.ceil(size[usable] / unit).astype(np.int64)
    most = int(np.ceil(size[bound] / unit).sum())
    if most > _MOST_UNITS:
        return exact(load, size, least, below, unit * 2)
    best = np.zeros(most + 1)
    taken: Flags = np.zeros((len(usable), most + 1), np.bool_)
    for item, (cell, width) in enumerate(zip(usable.tolist(), units.tolist(), strict=True)):
        if width > most:
            continue
        more = best[: most + 1 - width] + load[cell]
        better = more > best[width:]
        taken[item, width:] = better
        best[width:] = np.where(better, more, best[width:])
    enough = np.flatnonzero(best >= least)
    if len(enough) == 0:
        return bound
    left, found = int(enough[0]), []
    for item in range(len(usable) - 1, -1, -1):
        if taken[item, left]:
            found.append(int(usable[item]))
            left -= int(units[item])
    cells = np.array(sorted(found), np.int64)
    return cells if load[cells].sum() < below else bound


def in_order(order: Ints, load: Floats, least: float, below: float) -> Ints:
    """Return cells taken in an order until they have ``least`` load; one that would make it too much is passed over."""
    taken, total = [], 0.0
    for cell in order.tolist():
        if load[cell] > 0.0 and total + load[cell] < below:
            taken.append(cell)
            total += float(load[cell])
            if total >= least:
                return np.array(sorted(taken), np.int64)
    return np.zeros(0, np.int64)
