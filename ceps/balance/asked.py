"""What subscriptions ask, as far as balance needs it: cells, bytes, words; and what of it a worker has to store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ceps.balance.layout import Flags, Floats, Ints, Layout

FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW = range(4)


@dataclass(frozen=True, eq=False)
class Asked:
    """Subscriptions on a routing grid; immutable.

    Parameters
    ----------
    shape
        Rows and columns of the grid.
    rects
        int64 (p, 4), the first column, first row, last column and last row of the cells that a place touches, all
        within the grid. A place that the grid's border cuts in two has two.
    owner
        int64 (p,), the subscription of each rectangle, rising; each has at least one.
    bytes
        float64 (n,), what each takes where it is stored.
    cover_begin
        int64 (n + 1,). The words under which subscription i stands are ``cover[cover_begin[i]:cover_begin[i + 1]]``;
        one without any need not hold a word.
    cover
        int64, numbers of words.
    """

    shape: tuple[int, int]
    rects: Ints
    owner: Ints
    bytes: Floats
    cover_begin: Ints
    cover: Ints

    def __len__(self) -> int:
        return len(self.bytes)

    @cached_property
    def stored_by_cell(self) -> Ints:
        """How many subscriptions touch each cell, int64 (cells,); one whose two rectangles meet in a cell is two."""
        return np.rint(self._spread(np.ones(len(self.rects)))).astype(np.int64)

    @cached_property
    def bytes_by_cell(self) -> Floats:
        """Bytes of the subscriptions that touch each cell, float64 (cells,)."""
        # sums of differences miss 0 by a rounding
        return np.where(self.stored_by_cell > 0, np.maximum(self._spread(self.bytes[self.owner]), 0.0), 0.0)

    def _spread(self, weight: Floats) -> Floats:
        """Return the sum of the weights of the rectangles over each cell. Cost O(rectangles + cells)."""
        rows, columns = self.shape
        edges = np.zeros((rows + 1, columns + 1))
        for row, more in ((FIRST_ROW, 0), (LAST_ROW, 1)):
            for column, further in ((FIRST_COLUMN, 0), (LAST_COLUMN, 1)):
                sign = 1.0 if more == further else -1.0
                at = (self.rects[:, row] + more) * (columns + 1) + self.rects[:, column] + further
                edges += sign * np.bincount(at, weight, edges.size).reshape(edges.shape)
        return edges.cumsum(axis=0).cumsum(axis=1)[:-1, :-1].ravel()

    def touching(self, cells: Flags) -> Flags:
        """Return which subscriptions touch some cells, bool (n,), of bool (cells,). Cost O(rectangles + cells)."""
        sums = np.zeros((self.shape[0] + 1, self.shape[1] + 1), np.int64)
        sums[1:, 1:] = cells.reshape(self.shape).cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
        west, south, east, north = self.rects.T
        east, north = east + 1, north + 1
        hit = sums[north, east] - sums[south, east] - sums[north, west] + sums[south, west] > 0
        found = np.zeros(len(self), np.bool_)
        found[self.owner[hit]] = True
        return found


def no_words(shape: tuple[int, int], rects: NDArray[np.integer], bytes: Floats) -> Asked:
    """Return subscriptions of one rectangle each, without words."""
    count = len(rects)
    return Asked(
        shape, np.asarray(rects, np.int64), np.arange(count), np.asarray(bytes, np.float64),
        np.zeros(count + 1, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip


def stored(layout: Layout, asked: Asked, worker: int) -> Flags:
    """Return which subscriptions a worker has to store, bool (n,). Cost O(rectangles + cells), more for split cells.

    Parameters
    ----------
    layout
        Cells on workers.
    asked
        Of the same grid.
    worker
        Its number.
    """
    whole_cells = np.zeros(layout.cells, np.bool_)
    whole_cells[layout.cell[layout.worker == worker]] = True
    if len(layout.words) == 0:
        return asked.touching(whole_cells)
    split = layout.words.cells
    rest_of = layout.worker[layout.begin[split]]
    whole_cells[split] = False
    found = asked.touching(whole_cells)
    mine = layout.words.worker == worker
    for cell in np.union1d(split[rest_of == worker], layout.words.cell[mine]).tolist():
        here = layout.words.cell == cell
        one = np.zeros(layout.cells, np.bool_)
        one[cell] = True
        there = np.flatnonzero(asked.touching(one) & ~found)
        rest = int(layout.worker[layout.begin[cell]])
        word, goes_to = layout.words.word[here], layout.words.worker[here]
        found[there[_have_words_of(asked, there, word, goes_to, rest, worker)]] = True
    return found


def _have_words_of(asked: Asked, some: Ints, words: Ints, workers: NDArray[np.int32], rest: int, worker: int) -> Flags:
    """Return which of some subscriptions of a split cell have a word of a worker, or have none and it is the rest."""
    sizes = (asked.cover_begin[1:] - asked.cover_begin[:-1])[some]
    found = (sizes == 0) & (rest == worker)
    at = np.repeat(asked.cover_begin[some] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
    word = asked.cover[at]
    place = np.minimum(np.searchsorted(words, word), len(words) - 1)
    goes_to = np.where(words[place] == word, workers[place], rest)
    found[np.repeat(np.arange(len(some)), sizes)[goes_to == worker]] = True
    return found


def stored_bytes(layout: Layout, asked: Asked) -> Floats:
    """Return the bytes that each worker stores, float64 (workers,)."""
    return np.array([asked.bytes[stored(layout, asked, one)].sum() for one in range(layout.workers)])


def moved_bytes(before: Layout | None, after: Layout, asked: Asked) -> float:
    """Return the bytes of subscriptions that workers have to store and did not before; all where there was nothing.

    A worker is its number: with another number of them, new ones begin with nothing.
    """
    moved = 0.0
    for worker in range(after.workers):
        now = stored(after, asked, worker)
        if before is not None and worker < before.workers:
            if not changed(before, after, worker):
                continue
            now &= ~stored(before, asked, worker)
        moved += float(asked.bytes[now].sum())
    return moved


def changed(before: Layout, after: Layout, worker: int) -> bool:
    """Return whether a worker has something of a cell that it did not have, or other words of one."""
    if len(before.words) or len(after.words):
        return True
    had = np.zeros(before.cells, np.bool_)
    had[before.cell[before.worker == worker]] = True
    return not had[after.cell[after.worker == worker]].all()
