"""Which places stand under which words: rectangles of cells by word, held against cells that are named with words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ceps.balance.cell_layout import Flags, Ints
from ceps.balance.rectangles import prefix_sums, spread, sums_over

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
