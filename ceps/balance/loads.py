"""What a round has cost, by cell, and what a unit of it costs: the work that strategies spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ceps.balance.layout import Floats, Ints, Layout

_NUMBER_BYTES = 8


@dataclass(frozen=True)
class WorkModel:
    """Seconds of work: ``a rows + b candidates + c matches``.

    Parameters
    ----------
    a, b, c
        Seconds each.
    error
        Of the fit: the root of the mean square of what is missed, over the mean seconds. 0 where nothing was fitted.
    """

    a: float = 1.0
    b: float = 0.01
    c: float = 0.0
    error: float = 0.0

    def work(self, rows: Floats, candidates: Floats, matches: Floats) -> Floats:
        """Return the seconds of rows, of their candidates and of their matches."""
        return self.a * rows + self.b * candidates + self.c * matches


def fitted(rows: Floats, candidates: Floats, matches: Floats, seconds: Floats) -> WorkModel:
    """Return the model that misses the seconds of tasks least, in squares, with no negative price.

    Parameters
    ----------
    rows, candidates, matches, seconds
        (tasks,).

    Notes
    -----
    Of fewer than three tasks, or of tasks without rows, it is the model that says 1 a row and 0.01 a candidate.

    Examples
    --------
    >>> made = fitted(*np.array([[10.0, 20.0, 5.0], [40.0, 10.0, 90.0], [0.0, 4.0, 8.0], [1.4, 2.2, 1.6]]))
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
    """Rows by cell and by the words that they hold: for strategies that split cells by words.

    Parameters
    ----------
    cell, word
        int64 (t,), rising by cell, then by word.
    rows
        float64 (t,). Rows of the cell that hold the word.
    candidates
        float64 (t,). Subscriptions that were looked at because the word holds them.
    """

    cell: Ints
    word: Ints
    rows: Floats
    candidates: Floats


@dataclass(frozen=True, eq=False)
class Loads:
    """A round: what rows of each cell have cost, and what is stored there. All float64 (cells,).

    Parameters
    ----------
    shape
        Rows and columns of the grid.
    rows, candidates, matches
        Rows that came, subscriptions that were looked at for them, and those that held them.
    stored, bytes
        Subscriptions that touch the cell, and their bytes.
    model
        What these cost.
    terms
        Rows by word; None where rows have no words.
    """

    shape: tuple[int, int]
    rows: Floats
    candidates: Floats
    matches: Floats
    stored: Floats
    bytes: Floats
    model: WorkModel = WorkModel()
    terms: Terms | None = None

    @cached_property
    def work(self) -> Floats:
        """Seconds of each cell, float64 (cells,)."""
        return self.model.work(self.rows, self.candidates, self.matches)

    @property
    def message_bytes(self) -> int:
        """Bytes that say what the round has cost: the cells that had rows, and three numbers of each."""
        return 4 * _NUMBER_BYTES * int(np.count_nonzero(self.rows))


def summed(parts: Sequence[Loads]) -> Loads:
    """Return rounds as one: what came is added, what is stored and its price are those of the last; without words."""
    last = parts[-1]
    rows, candidates, matches = (
        np.sum([getattr(one, name) for one in parts], axis=0) for name in ("rows", "candidates", "matches")
    )
    return Loads(last.shape, rows, candidates, matches, last.stored, last.bytes, last.model)


def work_of_workers(layout: Layout, loads: Loads) -> Floats:
    """Return the expected seconds of each worker, float64 (workers,).

    They add to those of the cells, unless one is split by words: there a row counts for each of its words that goes to
    a worker of its own, and for the rest.
    """
    parts = layout.share * loads.work[layout.cell]
    found: Floats = np.bincount(layout.worker, parts, layout.workers).astype(np.float64)
    words = layout.words
    if len(words) == 0 or loads.terms is None:
        return found
    terms = loads.terms
    most = int(max(words.word.max(), terms.word.max(initial=0))) + 1
    key, asked = terms.cell * most + terms.word, words.cell * most + words.word
    at = np.minimum(np.searchsorted(key, asked), max(len(key) - 1, 0))
    there = key[at] == asked if len(key) else np.zeros(len(asked), np.bool_)
    rows = np.where(there, terms.rows[at], 0.0) if len(key) else np.zeros(len(asked))
    candidates = np.where(there, terms.candidates[at], 0.0) if len(key) else np.zeros(len(asked))
    model = loads.model
    found += np.bincount(words.worker, model.a * rows + model.b * candidates, layout.workers)
    rest = layout.worker[layout.begin[words.cell]]
    found -= np.bincount(rest, model.b * candidates, layout.workers)
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
