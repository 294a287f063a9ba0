"""The greatest speeds of cells that a batch has touched, also among moves that it has not."""

from __future__ import annotations

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.windows.trajectories.cells_kernel import FREE_CELL, first_slot
from dtoss.windows.trajectories.walk_kernel import DENSE, HIGHER, PANE0, TABLE_MASK


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
