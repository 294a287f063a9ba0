"""What subscriptions ask, as far as balance needs it: cells, bytes, words; and what of it a worker has to store."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ceps.balance.cell_layout import Flags, Floats, Ints, Layout
from ceps.balance.rectangles import prefix_sums, spread, sums_over
from ceps.balance.under_words import UnderWords


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

    Cost O(rectangles + cells); where words split cells also that of :class:`ceps.balance.under_words.UnderWords`.
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
