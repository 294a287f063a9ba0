"""The table in which a batch adds up: a row of numbers for each pane and key that is touched."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer

_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SHIFT = np.uint64(31)
_POSITIVE = (1 << 63) - 1
FREE_CELL = -1
"""The label of a slot that is free."""
_READ = "Array(int64, 1, 'C', readonly=True)"


class Cells(NamedTuple):
    """Pointers to a table of cells."""

    values: Any  # Rows of ``columns`` numbers
    columns: Any
    dense: Any  # Whether each pane and label has a place of its own, or a slot by its hash
    pane0: Any  # The first pane of a dense table
    offset: Any  # offset, stride: by label: where its first pane is in a dense table, and from one pane to the next
    stride: Any
    panes: Any  # panes, labels: by slot of a table by hash; a label of -1 is a free slot
    labels: Any
    mask: Any
    used: Any  # How many slots are not free


@kernel
def first_slot(pane, label, panes, labels, mask):
    """Return the slot of a pane and label, or the free one that it would take."""
    mixed = (np.uint64(pane & _POSITIVE) * _FACTORS[0]) ^ (np.uint64(label) * _FACTORS[1])
    slot = int((mixed ^ (mixed >> _SHIFT)) * _FACTORS[0] >> _SHIFT) & mask
    while labels[slot] != FREE_CELL:
        if labels[slot] == label and panes[slot] == pane:
            return slot
        slot = (slot + 1) & mask
    return slot


@kernel
def slot_of(pane, label, panes, labels, mask, used):
    """Return the slot of a pane and label, which is taken if it is free."""
    slot = first_slot(pane, label, panes, labels, mask)
    if labels[slot] == FREE_CELL:
        panes[slot], labels[slot] = pane, label
        used[0] += 1
    return slot


@kernel
def cell_of(cells, pane, label):
    """Return where the numbers of a pane and label begin."""
    if cells.dense:
        return (cells.offset[label] + (pane - cells.pane0) * cells.stride[label]) * cells.columns
    return slot_of(pane, label, cells.panes, cells.labels, cells.mask, cells.used) * cells.columns


@kernel(f"void({_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), int64[::1], int64[::1], int64[:, ::1])")
def grown(panes, labels, values, new_panes, new_labels, new_values):
    """Write what is in the slots of a table into those of a larger one, whose labels are all free."""
    columns = values.shape[1]
    mask = new_labels.size - 1
    used = np.zeros(1, np.int64)
    at_panes, at_labels, at_used = pointer(new_panes), pointer(new_labels), pointer(used)
    for slot in range(labels.size):
        if labels[slot] == FREE_CELL:
            continue
        other = slot_of(panes[slot], labels[slot], at_panes, at_labels, mask, at_used)
        for column in range(columns):
            new_values[other, column] = values[slot, column]
    used[0] += 0


@kernel(f"int64(int64[:, ::1], int64, int64, {_READ}, {_READ}, int64[::1], int64[::1], int64[::1])")
def kept_cells(values, pane0, panes, first, ordered, out_pane, out_label, ends):
    """Move the rows of a dense table that are not all 0 to its beginning, in their order, and return how many.

    ``pane0``, ``panes``: the first pane, and how many; ``first``, ``ordered``: int64 (groups + 1,) and (labels,). Group
    g has the labels ``ordered[first[g]:first[g + 1]]``; ``out_pane``, ``out_label``: where their panes and labels are
    written; ``ends``: int64 (groups,). Where those of each group end.
    """
    row = count = 0
    columns = values.shape[1]
    for group in range(ends.size):
        for pane in range(panes if first[group + 1] > first[group] else 0):
            for i in range(first[group], first[group + 1]):
                found = np.int64(0)
                for column in range(columns):
                    found |= values[row, column]
                if found != 0:
                    out_pane[count], out_label[count] = pane0 + pane, ordered[i]
                    for column in range(columns):
                        values[count, column] = values[row, column]
                    count += 1
                row += 1
        ends[group] = count
    return count
