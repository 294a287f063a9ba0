"""Sums by key over the last panes before an end, however many: each pane is added to those after it once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.windows.aggregation.pane_cells import Cells, Numbers
from dtoss.windows.aggregation.slots import Slots, different

_MOST = 1 << 24
"""Numbers of a table of all sums: an eighth of a gigabyte."""


@dataclass(frozen=True)
class Backwards:
    """Values by pane before an end and key."""

    slots: Slots
    back: Numbers  # int64 (n,), rising. Panes from that of the value to the last one before the end
    slot: NDArray[np.int32]  # int32 (n,). The key's
    values: Numbers  # int64 (n, columns)
    # int64 (panes, columns, keys). The sums over the last panes, of one on; None where none is made
    table: Numbers | None = None

    def within(self, panes: int) -> Numbers:
        """Return the sums over the last panes, int64 (columns, keys). O(keys) with a table, else O(values)."""
        if self.table is not None:
            return self.table[min(panes, len(self.table)) - 1]
        count = int(np.searchsorted(self.back, panes))
        found = np.zeros((self.values.shape[1], len(self.slots)), np.int64)
        for column, row in zip(self.values[:count].T, found, strict=True):
            np.add.at(row, self.slot[:count], column)
        return found

    def with_table(self, panes: int) -> Backwards:
        """Return them with a table of the sums over up to so many panes, where it is not too large."""
        columns, keys = self.values.shape[1], len(self.slots)
        if self.table is not None or panes * columns * keys > _MOST:
            return self
        table = np.zeros((panes, keys, columns), np.int64)
        there = self.back < panes
        np.add.at(table, (self.back[there], self.slot[there]), self.values[there])
        table = np.ascontiguousarray(table.transpose(0, 2, 1))
        none = self.back[:0], self.slot[:0], self.values[:0]  # the table has all of them
        return Backwards(self.slots, *none, np.cumsum(table, axis=0, out=table))


def backwards(pane: Numbers, key: Numbers, values: Numbers, end: int) -> Backwards:
    """Return values of panes before an end, in any order, backwards. Cost O(n log n), O(n) where they are in order.

    ``pane``, ``key``: int64 (n,); ``values``: int64 (n, columns).
    """
    there = np.flatnonzero(pane < end)[::-1]
    back = end - 1 - pane[there]
    if (back[1:] < back[:-1]).any():
        order = np.argsort(back, kind="stable")
        there, back = there[order], back[order]
    slots = Slots(different([key[there]]))
    return Backwards(slots, back, slots.of(key[there]), np.ascontiguousarray(values[there]))


def cells_backwards(parts: list[Cells], columns: int, end: int) -> Backwards:
    """Return cells of a key each, of no pane and key twice, backwards."""
    whole = join_rows([Cells.none(1, columns), *parts])
    return backwards(whole.pane, whole.labels[:, 0], whole.values, end)
