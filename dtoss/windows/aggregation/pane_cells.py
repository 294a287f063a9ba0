"""Cells: values by pane and label, sorted, each label once in a pane; what patches are added to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.windows.aggregation.order_kernel import carried_back, put_in_places
from dtoss.windows.aggregation.slots_kernel import bounds

Numbers = NDArray[np.int64]
_SPARSE = 8
"""Panes times first labels for each cell, up to which cells are ordered by writing them to their places."""
CELLS_AT_ONCE = 1 << 12
"""Cells, about, that are put in order at once."""
_PACKED = 1 << 62


@dataclass(frozen=True)
class Cells:
    """Values by pane and label, sorted by both, no pane and label twice."""

    pane: Numbers  # int64 (n,)
    labels: Numbers  # int64 (n, labels). The key, or two keys, or a key and a bin or bucket
    values: Numbers  # int64 (n, columns)

    def __len__(self) -> int:
        return len(self.pane)

    @classmethod
    def none(cls, labels: int, columns: int) -> Cells:
        """Return cells that there are none of."""
        return cls(np.zeros(0, np.int64), np.zeros((0, labels), np.int64), np.zeros((0, columns), np.int64))

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Cells:
        """Return some of them, in their order."""
        if isinstance(rows, slice):
            return Cells(self.pane[rows], self.labels[rows], self.values[rows])
        at = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Cells(self.pane.take(at), self.labels.take(at, axis=0), self.values.take(at, axis=0))

    def between(self, first: int, last: int) -> Cells:
        """Return those of panes from ``first`` on and before ``last``, as views."""
        begin, end = np.searchsorted(self.pane, (first, last))
        return self.take(slice(int(begin), int(end)))

    def columns(self, kept: Sequence[int]) -> Cells:
        """Return them with some columns only, without those of zeros."""
        return Cells(self.pane, self.labels, np.ascontiguousarray(self.values[:, list(kept)])).standing()

    def standing(self) -> Cells:
        """Return those with any value that is not 0."""
        there = np.asarray(self.values.any(axis=1))
        return self if there.all() else self.take(there)


def sorted_cells(pane: Numbers, labels: Numbers, values: Numbers, at_once: int = CELLS_AT_ONCE) -> Cells:
    """Return values of different panes and labels as cells, about so many put in order at once.

    Cost O(n log n); O(n) where the places are few.
    """
    return _in_order(pane, labels, values, at_once)


def added(cells: Cells, more: Cells) -> Cells:
    """Return the sum of cells, without those that become 0. Cost O(n log n)."""
    if len(more) == 0 or len(cells) == 0:
        return cells if len(more) == 0 else more
    both = _together(cells, more)
    first = _firsts(both)
    sums = np.add.reduceat(both.values, first, axis=0)
    return Cells(both.pane[first], both.labels[first], sums).standing()


def replace_cells(cells: Cells, newer: Cells) -> Cells:
    """Return the cells with newer ones in place of those of their panes and labels, without values below 0."""
    both = newer if len(cells) == 0 else cells if len(newer) == 0 else _together(cells, newer)
    last = np.append(_firsts(both)[1:], len(both)) - 1  # stable: the newer one is behind
    there = last[: len(both)]
    return both.take(there[both.values[there, 0] >= 0])


def joined(parts: Sequence[Cells]) -> Cells:
    """Return cells whose panes follow one another as one; one part is not copied."""
    some = [part for part in parts if len(part)] or list(parts[:1])
    if len(some) == 1:
        return some[0]
    return Cells(
        np.concatenate([part.pane for part in some]),
        np.concatenate([part.labels for part in some]),
        np.concatenate([part.values for part in some]),
    )


def gathered(parts: Sequence[Cells]) -> Cells:
    """Return cells of different labels as one."""
    some = [part for part in parts if len(part)]
    if len(some) < 2:
        return some[0] if some else parts[0]
    whole = joined(some)
    return sorted_cells(whole.pane, whole.labels, whole.values)


def _together(cells: Cells, more: Cells) -> Cells:
    pane = np.concatenate([cells.pane, more.pane])
    labels = np.concatenate([cells.labels, more.labels])
    values = np.concatenate([cells.values, more.values])
    return _in_order(pane, labels, values)


def _firsts(cells: Cells) -> Numbers:
    """Return the first row of each pane and label, int64."""
    if len(cells) == 0:
        return np.zeros(0, np.int64)
    new = np.ones(len(cells), np.bool_)
    new[1:] = (cells.pane[1:] != cells.pane[:-1]) | (cells.labels[1:] != cells.labels[:-1]).any(axis=1)
    return np.flatnonzero(new)


def _in_order(pane: Numbers, labels: Numbers, values: Numbers, at_once: int = CELLS_AT_ONCE) -> Cells:
    """Return cells by pane and labels; those that are equal stay in their order."""
    if len(pane) == 0:
        return Cells(pane, labels, values)
    columns = [pane, *labels.T]
    lows, highs = (list(some) for some in zip(*map(bounds, columns), strict=True))
    spans = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    if spans[0] * spans[1] <= _SPARSE * len(pane):
        out = np.empty_like(pane), np.empty(labels.shape, np.int64), np.empty(values.shape, np.int64)
        runs = np.concatenate([[0], np.flatnonzero(pane[1:] < pane[:-1]) + 1, [len(pane)]])
        panes = max(1, at_once * spans[0] // len(pane), (len(runs) - 1) * spans[0] // len(pane))
        put_in_places(
            *map(_contiguous, (pane, labels, values)), runs[1:].copy(), runs[:-1].copy(), lows[0], panes, lows[1],
            spans[1], np.zeros(panes * spans[1] + 1, np.int64), *out,
        )  # fmt: skip
        if labels.shape[1] == 1 or carried_back(*out):
            return Cells(*out)
    return Cells(pane, labels, values).take(_order(columns, lows, spans))


def _contiguous(array: Numbers) -> Numbers:
    return np.ascontiguousarray(array, np.int64)


def _order(columns: Sequence[Numbers], lows: Sequence[int], spans: Sequence[int]) -> Numbers:
    """Return the order by some columns, whose least values and spans are given; rows that are equal stay in theirs."""
    places = 1
    for span in spans:
        places *= span
    if places >= _PACKED:
        return np.lexsort(columns[::-1])
    code = columns[0] - lows[0]
    for column, low, span in zip(columns[1:], lows[1:], spans[1:], strict=True):
        code = code * span + (column - low)
    return np.argsort(code, kind="stable")  # runs that are sorted, as those of groups, are merged
