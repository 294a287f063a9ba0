"""What a round has cost, by cell, and what a unit of it costs: the work that strategies spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ceps.balance.cell_layout import Floats, Ints, Layout

_NUMBER_BYTES = 8


@dataclass(frozen=True)
class WorkModel:
    """Seconds of work: ``a rows + b candidates + c matches``."""

    a: float = 1.0  # Seconds each
    b: float = 0.01  # Seconds each
    c: float = 0.0  # Seconds each
    # Of the fit: the root of the mean square of what is missed, over the mean seconds. 0 where nothing was fitted
    error: float = 0.0

    def work(self, rows: Floats, candidates: Floats, matches: Floats) -> Floats:
        """Return the seconds of rows, of their candidates and of their matches."""
        return self.a * rows + self.b * candidates + self.c * matches


def fit_work_model(rows: Floats, candidates: Floats, matches: Floats, seconds: Floats) -> WorkModel:
    """Return the model that misses the seconds of tasks least, in squares, with no negative price.

    ``rows``, ``candidates``, ``matches``, ``seconds``: (tasks,).

    Of fewer than three tasks, or of tasks without rows, it is the model that says 1 a row and 0.01 a candidate.

    Examples
    --------
    >>> made = fit_work_model(*np.array([[10.0, 20.0, 5.0], [40.0, 10.0, 90.0], [0.0, 4.0, 8.0], [1.4, 2.2, 1.6]]))
    >>> round(made.a, 6), round(made.b, 6), round(made.c, 6), round(made.error, 6)
    (0.1, 0.01, 0.025, 0.0)
    """
    counts = np.stack([rows, candidates, matches], axis=1).astype(np.float64)
    seconds = np.asarray(seconds, np.float64)
    scale = counts.max(axis=0, initial=0.0)
    if len(counts) < 3 or scale[0] == 0.0 or not seconds.sum() > 0.0:
        return WorkModel()
    scale[scale == 0.0] = 1.0
    price, missed = nnls(counts / scale, seconds)
    a, b, c = (price / scale).tolist()
    if a + b + c == 0.0:
        return WorkModel()
    return WorkModel(a, b, c, float(missed / np.sqrt(len(seconds)) / seconds.mean()))


@dataclass(frozen=True, eq=False)
class Terms:
    """Rows by cell and by the words that they hold: for strategies that split cells by words."""

    cell: Ints  # int64 (t,), rising by cell, then by word
    word: Ints  # int64 (t,), rising by cell, then by word
    rows: Floats  # float64 (t,). Rows of the cell that hold the word; 0 of words that are asked for and not said
    # float64 (t,). Subscriptions that touch the cell and stand under the word: those that each such row is held against
    under: Floats

    def at(self, cell: Ints, word: Ints) -> tuple[Floats, Floats]:
        """Return rows and subscriptions of pairs of a cell and a word, each float64 (n,); 0 where none are known."""
        if len(self.cell) == 0 or len(cell) == 0:
            return np.zeros(len(cell)), np.zeros(len(cell))
        most = int(max(self.word.max(), word.max())) + 1
        keys, asked = self.cell * most + self.word, cell * most + word
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        there = keys[at] == asked
        return np.where(there, self.rows[at], 0.0), np.where(there, self.under[at], 0.0)


@dataclass(frozen=True, eq=False)
class Loads:
    """A round: what rows of each cell have cost, and what is stored there. All float64 (cells,)."""

    shape: tuple[int, int]  # Rows and columns of the grid
    # rows, candidates, matches: rows that came, subscriptions that were looked at for them, and those that held them
    rows: Floats
    candidates: Floats
    matches: Floats
    stored: Floats  # stored, bytes: subscriptions that touch the cell, and their bytes
    bytes: Floats
    model: WorkModel = WorkModel()
    terms: Terms | None = None  # Rows by word; None where rows have no words

    @cached_property
    def work(self) -> Floats:
        """Seconds of each cell, float64 (cells,)."""
        return self.model.work(self.rows, self.candidates, self.matches)

    @property
    def message_bytes(self) -> int:
        """Bytes that say what the round has cost: the cells that had rows, and three numbers of each."""
        return 4 * _NUMBER_BYTES * int(np.count_nonzero(self.rows))

    @property
    def spoken_bytes(self) -> int:
        """Bytes that say what rows hold: of each pair of a cell and a word how many."""
        return 0 if self.terms is None else 3 * _NUMBER_BYTES * int(np.count_nonzero(self.terms.rows))


def work_of_workers(layout: Layout, loads: Loads, every: bool = False) -> Floats:
    """Return the expected seconds of each worker, float64 (workers,).

    They add to those of the cells, unless one is split by words: there a row counts for the rest, and for each other
    worker that has one of its words.
    """
    parts = layout.share * loads.work[layout.cell]
    found: Floats = np.bincount(layout.worker, parts, layout.workers).astype(np.float64)
    if len(layout.words) == 0 or loads.terms is None:
        return found
    split = split_work(layout, loads, every)
    found += np.bincount(split.worker, split.work, layout.workers)
    found -= np.bincount(layout.worker[layout.begin[split.cell]], split.spared, layout.workers)
    return found


class SplitWork(NamedTuple):
    """What the words of cells cost that go to another worker than the rest; g pairs of a cell and such a worker."""

    cell: Ints  # int64 (g,), rising
    worker: Ints  # int64 (g,), rising within a cell
    work: Floats  # float64 (g,). Seconds that the worker has with them: its rows, their candidates and matches
    spared: Floats  # float64 (g,). Seconds that the rest does not have; it gets the rows too
    under: Floats  # float64 (g,). Subscriptions that stand there under these words, one under two of them twice


def split_work(layout: Layout, loads: Loads, every: bool = False) -> SplitWork:
    """Return what the words cost that go to workers of their own. Cost O(terms + words of the layout).

    Rows that hold several words of a worker are not known: words are taken as said independently of each other.
    Matches go with candidates.

    ``every``: whether each row is held against all subscriptions of the cell that its worker has (PS2Stream, def. 3),
    and not only against those under its words.
    """
    words, terms, model = layout.words, loads.terms, loads.model
    assert terms is not None
    elsewhere = words.worker != layout.worker[layout.begin[words.cell]]
    cell, word, worker = words.cell[elsewhere], words.word[elsewhere], words.worker[elsewhere].astype(np.int64)
    rows, under = terms.at(cell, word)
    key, group = np.unique(cell * layout.workers + worker, return_inverse=True)
    cells = key // layout.workers
    heard = either(rows, loads.rows[cell], group, loads.rows[cells])
    there = np.bincount(group, under, len(key)).astype(np.float64)
    looked: Floats = np.bincount(group, rows * under, len(key)).astype(np.float64)
    spared: Floats = loads.rows[cells] * there if every else looked
    whole = loads.candidates[cells]
    # one under two words is counted twice, but no more is spared than there is
    sums = np.bincount(cells, spared, len(loads.rows))[cells]
    spared = spared * np.minimum(np.divide(whole, sums, out=np.ones(len(key)), where=sums > 0.0), 1.0)
    part = np.divide(spared, whole, out=np.zeros(len(key)), where=whole > 0.0)
    told = model.c * part * loads.matches[cells]
    work = model.a * heard + model.b * (np.minimum(heard * there, spared) if every else spared) + told
    return SplitWork(cells, key % layout.workers, work, model.b * spared + told, there)


def either(rows: Floats, of: Floats, group: Ints, whole: Floats) -> Floats:
    """Return how many rows hold any word of a group, float64 (g,), as if words were said independently of each other.

    ``rows``, ``of``: float64 (n,). Rows that hold a word, of how many; ``group``: int64 (n,). The group of each;
    ``whole``: float64 (g,). Rows of each group.

    Examples
    --------
    >>> either(np.array([50.0, 50.0]), np.array([100.0, 100.0]), np.array([0, 0]), np.array([100.0])).tolist()
    [75.0]
    """
    said = np.divide(rows, of, out=np.zeros(len(rows)), where=of > 0.0)
    with np.errstate(divide="ignore"):
        silent = np.bincount(group, np.log1p(-np.minimum(said, 1.0)), len(whole))
    found: Floats = -whole * np.expm1(silent)
    return found


def max_over_mean(work: Floats) -> float:
    """Return the largest over the mean, 1 where there is nothing. The name that the readings use for imbalance."""
    mean = float(work.mean())
    return float(work.max()) / mean if mean > 0.0 else 1.0


def sigma(work: Floats) -> float:
    """Return the largest over the least, infinite where one has nothing and another something: PS2Stream, def. 2."""
    least, most = float(work.min()), float(work.max())
    if most == 0.0:
        return 1.0
    return most / least if least > 0.0 else float("inf")


def shares_of_seconds(work: Floats, seconds: float) -> NDArray[np.float64]:
    """Return measured seconds of a task given to its cells as the model says, float64 (cells,)."""
    total = float(work.sum())
    return work * (seconds / total) if total > 0.0 else np.zeros(len(work))
