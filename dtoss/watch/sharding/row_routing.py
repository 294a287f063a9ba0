"""Where a row goes: to a worker of its cell, by a hash of the row where several share it, and by its words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import hashes_of
from dtoss.watch.sharding.routing_grid import RoutingGrid
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of, vocabulary_of

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIXED = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_KEPT_BITS = np.uint64(11)
_UNIT = 2.0**-53


class Spoken(NamedTuple):
    """Rows that words send to workers of their own, each pair once."""

    row: NDArray[np.int64]  # int64, rising
    worker: NDArray[np.int32]  # int32


@dataclass(frozen=True, eq=False)
class Routing:
    """Cells on workers, as rows are sent by them; immutable."""

    grid: RoutingGrid
    workers: int  # How many there are
    begin: NDArray[np.int64]  # int64 (cells + 1,). The parts of cell c are ``begin[c]:begin[c + 1]``, at least one
    worker: NDArray[np.int32]  # int32 (parts,)
    share: NDArray[np.float64]  # float64 (parts,). Of the cell's rows; those of a cell add to 1
    # int64 (w,), rising. Cells of which some words go to workers of their own; each has one part, the rest
    word_cell: NDArray[np.int64]
    word: pa.Array  # large_string (w,). Folded, rising within a cell
    word_worker: NDArray[np.int32]  # int32 (w,)

    @cached_property
    def _bounds(self) -> NDArray[np.float64]:
        """Where the parts of all cells end, one cell after another: cell c has ``c`` to ``c + 1``."""
        cell = np.repeat(np.arange(self.grid.cells), np.diff(self.begin))
        added = np.cumsum(self.share)
        before = np.concatenate([[0.0], added])[self.begin[:-1]]
        bounds = cell + np.minimum(added - before[cell], 1.0)
        bounds[self.begin[1:] - 1] = np.arange(1, self.grid.cells + 1)
        return bounds

    def worker_of(self, cell: NDArray[np.int64], rows: Rows) -> NDArray[np.int32]:
        """Return the worker of each row, int32 (n,): of a cell that is split by words that of the rest.

        ``cell``: int64 (n,). Of the rows; ``rows``: n rows; those that share a cell are told apart by a hash of id and
        time, or of all that they are.
        """
        found = self.worker[self.begin[cell]]
        shared = np.flatnonzero(self.begin[cell + 1] - self.begin[cell] > 1)
        if len(shared):
            mine = cell[shared]
            at = np.searchsorted(self._bounds, mine + drawn(rows.take(shared)), "right")
            found[shared] = self.worker[np.clip(at, self.begin[mine], self.begin[mine + 1] - 1)]
        return found

    @cached_property
    def split(self) -> NDArray[np.bool_]:
        """Which cells are split by words, bool (cells,)."""
        found = np.zeros(self.grid.cells, np.bool_)
        found[self.word_cell] = True
        return found

    @cached_property
    def _vocabulary(self) -> tuple[Vocabulary, NDArray[np.int64]]:
        """The words that go somewhere, and the keys of cells and words, rising, as ``word_worker`` has them."""
        coded = self.word.dictionary_encode()
        number = coded.indices.to_numpy().astype(np.int64)
        key = self.word_cell * max(len(coded.dictionary), 1) + number
        return vocabulary_of(coded.dictionary.cast(pa.large_string())), key

    @cached_property
    def _by_key(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        _, key = self._vocabulary
        order = np.argsort(key)
        return key[order], self.word_worker[order]

    def workers_of_words(self, cell: NDArray[np.int64], words: pa.Array) -> NDArray[np.int32]:
        """Return the worker of each word in a cell that is split, int32 (n,); the rest's where it goes nowhere else."""
        vocabulary, _ = self._vocabulary
        number = vocabulary.numbers_of(words.cast(pa.large_string())).astype(np.int64)
        return self._workers_of(cell, number)

    def _workers_of(self, cell: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int32]:
        keys, workers = self._by_key
        rest = self.worker[self.begin[cell]]
        if len(keys) == 0:
            return rest
        key = cell * max(len(self._vocabulary[0].offsets) - 1, 1) + number
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where((number >= 0) & (keys[at] == key), workers[at], rest).astype(np.int32)

    def spoken(self, cell: NDArray[np.int64], text: pa.Array) -> Spoken:
        """Return which rows of cells that are split go to which workers besides the rest, for words that they hold.

        ``cell``: int64 (n,); ``text``: string (n,).
        """
        some = np.flatnonzero(self.split[cell])
        if len(some) == 0:
            return Spoken(np.zeros(0, np.int64), np.zeros(0, np.int32))
        held = messages_of(self._vocabulary[0], text.take(pa.array(some)))
        row = np.repeat(some, np.diff(held.first))
        worker = self._workers_of(cell[row], held.words.astype(np.int64))
        other = worker != self.worker[self.begin[cell[row]]]
        pairs = np.unique(row[other] * self.workers + worker[other])
        return Spoken(pairs // self.workers, (pairs % self.workers).astype(np.int32))


def drawn(rows: Rows) -> NDArray[np.float64]:
    """Return a number from 0 up to 1 for each row, float64 (n,), which looks random and is the row's own.

    It is a hash of id and time; of rows that lack one of them, of all that they are but attributes.
    """
    found = np.zeros(len(rows), np.uint64)
    if rows.ids is not None:
        found = _mixed(found, hashes_of(rows.ids).view(np.uint64))
    if rows.t is not None:
        found = _mixed(found, rows.t.view(np.uint64))
    if rows.ids is None or rows.t is None:
        for axis in range(2):
            found = _mixed(found, np.ascontiguousarray(rows.positions[:, axis] + 0.0).view(np.uint64))
        if rows.text is not None:
            found = _mixed(found, hashes_of(rows.text).view(np.uint64))
    return np.asarray((found >> _KEPT_BITS).astype(np.float64) * _UNIT)


def _mixed(state: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a state with more stirred in: the finisher of SplitMix64."""
    with np.errstate(over="ignore"):
        value = (state ^ more) + _ODD
        for shift, factor in zip(_SHIFTS, _MIXED, strict=False):
            value = (value ^ (value >> shift)) * factor
        return np.asarray(value ^ (value >> _SHIFTS[2]))
