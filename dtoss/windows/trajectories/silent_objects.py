"""Moves of objects without rows in a batch: they may be the greatest where those with rows are slower than before.

The greatest speeds of cells that a batch has touched, also among moves that it has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dtoss.column_rows import begin_of, take_rows
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.windows.keys import Labels, Numbers
from dtoss.windows.patches import NO_KEY
from dtoss.windows.trajectories.cell_table import Groups, Table
from dtoss.windows.trajectories.cells_kernel import FREE_CELL, first_slot
from dtoss.windows.trajectories.walk_kernel import DENSE, HIGHER, PANE0, TABLE_MASK


@dataclass(frozen=True)
class Others:
    """Rows that end a move and may still change, object by object."""

    bucket: Numbers  # int64 (k,). Of each object
    # int64 (k + 1,). Object i has the rows ``first[i]:first[i + 1]``
    first: Numbers = field(metadata=begin_of("t", "speed", "labels"))
    t: Numbers  # int64 (n,). Microseconds since 1970
    speed: Numbers  # int64 (n,), mm/s
    labels: Labels

    take = take_rows


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
    raise_others(
        panes[0], labels.first is None, np.arange(len(at)), some.first, np.ascontiguousarray(some.first[1:]),
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
