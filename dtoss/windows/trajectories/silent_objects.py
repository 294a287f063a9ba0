"""Moves of objects without rows in a batch: they may be the greatest where those with rows are slower than before.

The greatest speeds of cells that a batch has touched, also among moves that it has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.windows.keys import Labels, Numbers, offsets, together
from dtoss.windows.patches import NO_KEY
from dtoss.windows.trajectories.cell_table import Groups, Table
from dtoss.windows.trajectories.cells_kernel import FREE_CELL, first_slot
from dtoss.windows.trajectories.walk_kernel import DENSE, HIGHER, PANE0, TABLE_MASK


@dataclass(frozen=True)
class Others:
    """Rows that end a move and may still change, object by object."""

    bucket: Numbers  # bucket, rows: int64 (k,). Of each object, and how many it has
    rows: Numbers
    t: Numbers  # int64 (n,). Microseconds since 1970, and mm/s
    speed: Numbers  # int64 (n,). Microseconds since 1970, and mm/s
    labels: Labels

    def take(self, objects: Numbers) -> Others:
        """Return those of some objects, by their numbers, which ascend."""
        there = np.zeros(len(self.rows), np.bool_)
        there[objects] = True
        rows = np.flatnonzero(np.repeat(there, self.rows))
        return Others(
            self.bucket[objects], self.rows[objects], self.t[rows], self.speed[rows], self.labels.take(rows)
        )  # fmt: skip


def joined_others(parts: Sequence[Others]) -> Others:
    """Return those of different objects as one."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Others(none, none, none, none, Labels(none))
    return Others(
        np.concatenate([part.bucket for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.t for part in parts]),
        np.concatenate([part.speed for part in parts]),
        together([part.labels for part in parts]),
    )


def raised_to(others: Others, high: Table, groups: Groups, buckets: Numbers, panes: tuple[int, int], pane: int) -> None:
    """Raise the cells of a table that were touched to the speeds of others. Cost O(their rows).

    ``buckets``: int64, rising. Of the columns; ``panes``: the first one of the table, and the one after its last;
    ``pane``: microseconds of one.
    """
    some = others.take(np.flatnonzero(np.isin(others.bucket, buckets)))
    at, labels = some.t // pane, some.labels
    key = labels.key
    if groups.keys is not None:
        place = np.minimum(np.searchsorted(groups.keys, key), max(len(groups.keys) - 1, 0))
        key = np.where(groups.keys[place] == key, place, NO_KEY) if len(groups.keys) else np.full(len(key), NO_KEY)
    outside = (at < panes[0]) | (at >= panes[1])
    begin = offsets(some.rows)
    raise_others(
        panes[0], labels.first is None, np.arange(len(at)), begin, np.ascontiguousarray(begin[1:]),
        np.searchsorted(buckets, some.bucket), at, np.zeros(1, np.int64) if labels.first is None else labels.first,
        np.ascontiguousarray(key), np.where(outside, -1, some.speed), *high.arrays,
    )  # fmt: skip


@kernel(
    "void(int64, boolean, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def raise_others(
    horizon, single, order, begin, start, bucket, pane, first, key, speed,
    values, facts, offset, stride, panes, labels, used,
):  # fmt: skip
    """Raise the cells that were touched to the speeds of the moves that stayed as they were.

    ``horizon``: the pane of the first rows that may change; ``order``, ``begin``, ``start``, ``bucket``: objects k with
    their rows ``order[begin[k]:begin[k + 1]]``, those from ``start[k]`` on are done already.
    """
    at_panes, at_labels = pointer(panes), pointer(labels)
    for k in range(begin.size - 1):
        for at in range(begin[k], start[k]):
            row = order[at]
            if pane[row] < horizon or speed[row] < 0:
                continue
            low, high = (row, row + int(key[row] >= 0)) if single else (first[row], first[row + 1])
            for i in range(low, high):
                if facts[DENSE] != 0:
                    cell = offset[key[i]] + (pane[row] - facts[PANE0]) * stride[key[i]]
                else:
                    cell = first_slot(pane[row], key[i], at_panes, at_labels, facts[TABLE_MASK])
                    if labels[cell] == FREE_CELL:
                        continue
                if values[cell, bucket[k]] != 0:
                    values[cell, bucket[k]] = max(values[cell, bucket[k]], speed[row] + HIGHER)
