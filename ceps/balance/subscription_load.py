"""What subscriptions ask, as far as balance needs it: cells, bytes, words; and what of it a worker has to store.

Which places stand under which words: rectangles of cells by word, held against cells that are named with words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ceps.balance.cell_layout import Flags, Floats, Ints, Layout, prefix_sums, spread, sums_over


@dataclass(frozen=True, eq=False)
class SubscriptionLoad:
    """Subscriptions on a routing grid; immutable."""

    shape: tuple[int, int]  # Rows and columns of the grid
    # int64 (p, 4), the first column, first row, last column and last row of the cells that a place touches, all within
    # the grid. A place that the grid's border cuts in two has two
    rects: Ints
    owner: Ints  # int64 (p,), the subscription of each rectangle, rising; each has at least one
    bytes: Floats  # float64 (n,), what each takes where it is stored
    # int64 (n + 1,). The words under which subscription i stands are ``cover[cover_begin[i]:cover_begin[i + 1]]``; one
    # without any need not hold a word
    cover_begin: Ints
    cover: Ints  # int64, numbers of words

    def __len__(self) -> int:
        return len(self.bytes)

    @cached_property
    def stored_by_cell(self) -> Ints:
        """How many subscriptions touch each cell, int64 (cells,); one whose two rectangles meet in a cell is two."""
        return np.rint(spread(self.shape, self.rects, np.ones(len(self.rects)))).astype(np.int64)

    @cached_property
    def bytes_by_cell(self) -> Floats:
        """Bytes of the subscriptions that touch each cell, float64 (cells,)."""
        return np.where(
            self.stored_by_cell > 0, np.maximum(spread(self.shape, self.rects, self.bytes[self.owner]), 0.0), 0.0
        )

    def touching(self, cells: Flags) -> Flags:
        """Return which subscriptions touch some cells, bool (n,), of bool (cells,). Cost O(rectangles + cells)."""
        hit = sums_over(prefix_sums(self.shape, cells), self.rects) > 0
        found = np.zeros(len(self), np.bool_)
        found[self.owner[hit]] = True
        return found

    @cached_property
    def under_words(self) -> UnderWords:
        """The rectangles of each word of a cover."""
        sizes = np.diff(self.cover_begin)[self.owner]
        rect = np.repeat(np.arange(len(self.rects)), sizes)
        at = np.repeat(self.cover_begin[self.owner] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        word = self.cover[at]
        order = np.argsort(word, kind="stable")
        words, begin = np.unique(word[order], return_index=True)
        rect = rect[order]
        return UnderWords(self.shape, words, np.append(begin, len(word)), self.owner[rect], self.rects[rect])


def no_words(shape: tuple[int, int], rects: NDArray[np.integer], bytes: Floats) -> SubscriptionLoad:
    """Return subscriptions of one rectangle each, without words."""
    count = len(rects)
    return SubscriptionLoad(
        shape, np.asarray(rects, np.int64), np.arange(count), np.asarray(bytes, np.float64),
        np.zeros(count + 1, np.int64), np.zeros(0, np.int64),
    )  # fmt: skip


def stored_subscriptions(layout: Layout, asked: SubscriptionLoad, worker: int) -> Flags:
    """Return which subscriptions a worker has to store, bool (n,).

    ``asked``: of the same grid.

    Cost O(rectangles + cells); where words split cells also that of :class:`ceps.balance.subscription_load.UnderWords`.
    """
    held = np.zeros(layout.cells, np.bool_)
    held[layout.cell[layout.worker == worker]] = True
    words = layout.words
    if len(words) == 0:
        return asked.touching(held)
    rest = np.zeros(layout.cells, np.bool_)
    rest[words.cells] = held[words.cells]
    found = asked.touching(held & ~rest)
    under = asked.under_words
    mine = words.worker == worker
    found[under.owner[under.holding(words.cell[mine], words.word[mine]) > 0]] = True
    found |= asked.touching(rest) & (np.diff(asked.cover_begin) == 0)
    # under a word of which not all cells of the rest go elsewhere
    named = rest[words.cell]
    left = sums_over(prefix_sums(asked.shape, rest), under.rects) - under.holding(words.cell[named], words.word[named])
    found[under.owner[left > 0]] = True
    return found


_AT_ONCE = 1 << 22
"""Pairs of a rectangle and a cell that are looked at in one go."""


@dataclass(frozen=True, eq=False)
class UnderWords:
    """Rectangles of cells, each under one word; immutable."""

    shape: tuple[int, int]  # Rows and columns of the grid
    words: Ints  # int64 (w,), rising. Those under which a rectangle stands
    begin: Ints  # int64 (w + 1,). The rectangles of word i are ``begin[i]:begin[i + 1]``
    owner: Ints  # int64 (p,). The subscription of each
    rects: Ints  # int64 (p, 4). First column, first row, last column, last row

    def over(self, cell: Ints, word: Ints) -> Ints:
        """Return how many rectangles under a word hold a cell, int64 (n,), for n pairs of them.

        Cost O(n log n), and for each word the least of its pairs and of the cells of the grid.
        """
        found = np.zeros(len(cell), np.int64)
        for rects, points in self._together(cell, word):
            if len(rects):
                found += np.bincount(points[self._hold(rects, cell[points])], minlength=len(cell))
            else:
                group = self._group(int(word[points[0]]))
                held = spread(self.shape, self.rects[group], np.ones(group.stop - group.start))
                found[points] = np.rint(held[cell[points]]).astype(np.int64)
        return found

    def holding(self, cell: Ints, word: Ints) -> Ints:
        """Return how many of n pairs of a cell and a word each rectangle holds, int64 (p,); the pairs are distinct."""
        found = np.zeros(len(self.owner), np.int64)
        for rects, points in self._together(cell, word):
            if len(rects):
                found += np.bincount(rects[self._hold(rects, cell[points])], minlength=len(found))
            else:
                group = self._group(int(word[points[0]]))
                marks = np.bincount(cell[points], minlength=self.shape[0] * self.shape[1])
                found[group] = sums_over(prefix_sums(self.shape, marks), self.rects[group])
        return found

    def in_cell(self, cell: int) -> tuple[Ints, Ints]:
        """Return the words under which somebody stands in a cell, rising, and how many do. Cost O(rectangles)."""
        word = np.repeat(self.words, np.diff(self.begin))
        row, column = divmod(cell, self.shape[1])
        west, south, east, north = self.rects.T
        return np.unique(
            word[(west <= column) & (column <= east) & (south <= row) & (row <= north)], return_counts=True
        )

    def pairs(self, words: Ints, rect: tuple[int, int, int, int], most: int) -> tuple[Ints, Ints] | None:
        """Return the cells of a rectangle and the words, of some, under which somebody stands there.

        Each pair once, rising; None where there are more than ``most`` of them with those that are there twice.
        """
        chosen = np.flatnonzero(np.isin(self.words, words))
        sizes = self.begin[chosen + 1] - self.begin[chosen]
        at = np.repeat(self.begin[chosen] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        word, rects = np.repeat(self.words[chosen], sizes), self.rects[at]
        west, south = np.maximum(rects[:, 0], rect[0]), np.maximum(rects[:, 1], rect[1])
        east, north = np.minimum(rects[:, 2], rect[2]), np.minimum(rects[:, 3], rect[3])
        wide, high = np.maximum(east - west + 1, 0), np.maximum(north - south + 1, 0)
        area = wide * high
        if area.sum() > most:
            return None
        of = np.repeat(np.arange(len(area)), area)
        inner = np.arange(len(of)) - np.repeat(np.cumsum(area) - area, area)
        cell = (south[of] + inner // wide[of]) * self.shape[1] + west[of] + inner % wide[of]
        count = int(self.words[-1]) + 1 if len(self.words) else 1
        key = np.unique(cell * count + word[of])
        return key // count, key % count

    def _group(self, word: int) -> slice:
        at = int(np.searchsorted(self.words, word))
        return slice(int(self.begin[at]), int(self.begin[at + 1]))

    def _hold(self, rects: Ints, cell: Ints) -> Flags:
        row, column = np.divmod(cell, self.shape[1])
        west, south, east, north = self.rects[rects].T
        return (west <= column) & (column <= east) & (south <= row) & (row <= north)

    def _together(self, cell: Ints, word: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield rectangles and points of the same word, pair by pair; no rectangles where all of a word are meant."""
        if len(self.words) == 0 or len(cell) == 0:
            return
        place = np.minimum(np.searchsorted(self.words, word), len(self.words) - 1)
        known = np.flatnonzero(self.words[place] == word)
        sizes = np.diff(self.begin)[place]
        pairs = np.bincount(place[known], sizes[known], len(self.words))
        many = pairs > self.shape[0] * self.shape[1]
        few, rest = known[~many[place[known]]], known[many[place[known]]]
        ends = np.cumsum(sizes[few])
        for piece in np.split(few, np.flatnonzero(np.diff(ends // _AT_ONCE)) + 1):
            points = np.repeat(piece, sizes[piece])
            ahead = np.cumsum(sizes[piece]) - sizes[piece]
            first = np.repeat(self.begin[place[piece]] - ahead, sizes[piece])
            if len(points):
                yield first + np.arange(len(points)), points
        rest = rest[np.argsort(place[rest], kind="stable")]
        for group in np.split(rest, np.flatnonzero(np.diff(place[rest])) + 1):
            if len(group):
                yield np.zeros(0, np.int64), group
