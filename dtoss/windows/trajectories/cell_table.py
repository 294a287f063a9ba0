"""The table in which a batch adds up: dense where panes and keys are few for the rows, else by hash."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtoss.row_runs import offsets
from dtoss.windows.keys import Numbers
from dtoss.windows.patches import KEY_GROUPS, NO_KEY, Patch, group_of
from dtoss.windows.trajectories.cells_kernel import FREE_CELL, grown, kept_cells
from dtoss.windows.trajectories.walk_kernel import HIGHER

_FEWEST, _MOST, _OF_ROW = 1 << 18, 1 << 29, 40
"""Numbers in a dense table: so many are legal in any case, never more than so many, and so many for each row."""
_SLOTS = 1 << 14
_NONE = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Groups:
    """Labels, from 0 on, by group."""

    keys: Numbers | None  # int64 (labels,), ascending. The key of each label; None where they are the same
    group: Numbers  # int64 (labels,)
    # first, ordered: int64 (GROUPS + 1,) and (labels,). Group g has the labels ``ordered[first[g]:first[g + 1]]``,
    # ascending
    first: Numbers
    ordered: Numbers

    def __len__(self) -> int:
        return len(self.group)

    def of(self, labels: Numbers) -> Numbers:
        """Return the keys of labels."""
        return labels if self.keys is None else self.keys[labels]

    def of_ranks(self, ranks: Numbers) -> Numbers:
        """Return the keys of labels plus one; -1 of 0."""
        return ranks - 1 if self.keys is None else np.append(NO_KEY, self.keys)[ranks]


def groups_of(count: int, keys: Numbers | None) -> Groups:
    """Return so many labels by group: they are keys, or stand for ascending ones."""
    group = group_of(np.arange(count, dtype=np.int64) if keys is None else keys)
    return Groups(keys, group, offsets(np.bincount(group, minlength=KEY_GROUPS)), np.argsort(group, kind="stable"))


@dataclass
class Table:
    """Numbers by pane and label."""

    values: Numbers  # int64 (cells or slots, columns)
    facts: Numbers  # int64 (4,). Columns, whether it is dense, the first pane of a dense one, slots less one
    offset: Numbers  # offset, stride: int64 (labels,). Of a dense one, whose cells are by group, pane and label
    stride: Numbers
    panes: Numbers  # int64 (slots,). Of one by hash
    labels: Numbers  # int64 (slots,). Of one by hash
    used: Numbers  # int64 (1,). How many slots are not free

    @property
    def arrays(self) -> tuple[Numbers, ...]:
        """What kernels take of it."""
        return self.values, self.facts, self.offset, self.stride, self.panes, self.labels, self.used

    def grow(self) -> None:
        """Make it four times as large."""
        count, columns = self.values.shape
        values, panes, labels = _slots(4 * count, columns)
        grown(self.panes, self.labels, self.values, panes, labels, values)
        self.values, self.panes, self.labels, self.facts[3] = values, panes, labels, len(labels) - 1


def table_of(groups: Groups, columns: int, first: int, panes: int, rows: int) -> Table:
    """Return a table of zeros.

    ``first``, ``panes``: the first pane that may be touched, and how many.
    """
    cells = panes * len(groups)
    if cells * max(columns, 1) > max(_FEWEST, min(_OF_ROW * rows, _MOST)):
        values, slot_panes, labels = _slots(_SLOTS, columns)
        return Table(
            values, np.array([columns, 0, 0, _SLOTS - 1]), _NONE, _NONE, slot_panes, labels, np.zeros(1, np.int64)
        )
    size = np.diff(groups.first)
    place = np.empty(len(groups), np.int64)
    place[groups.ordered] = np.arange(len(groups))
    base = panes * groups.first[:-1]
    offset = base[groups.group] + place - groups.first[groups.group]
    none = np.zeros(1, np.int64)
    return Table(
        np.zeros((cells, columns), np.int64), np.array([columns, 1, first, panes]), offset, size[groups.group], none,
        none.copy(), none.copy(),
    )  # fmt: skip


def highest(patch: Patch, buckets: Numbers) -> Patch:
    """Return the greatest speeds by key and bucket of a patch that has a column for each bucket.

    ``buckets``: int64 (columns,).
    """
    if len(buckets) == 1:
        label = np.column_stack([patch.labels[:, 0], np.full(len(patch), buckets[0])])
        return Patch(patch.offsets, patch.pane, label, patch.values - HIGHER)
    row, column = np.nonzero(patch.values)
    labels = np.stack([patch.labels[row, 0], buckets[column]], axis=1)
    value = patch.values[row, column][:, None] - HIGHER
    return Patch(np.searchsorted(row, patch.offsets).astype(np.int64), patch.pane[row], labels, value)


def _slots(count: int, columns: int) -> tuple[Numbers, Numbers, Numbers]:
    return np.zeros((count, columns), np.int64), np.zeros(count, np.int64), np.full(count, FREE_CELL, np.int64)


def patch_of(table: Table, groups: Groups) -> Patch:
    """Return the cells of a table that are not all 0, and use its memory for them.

    Cost O(cells), or O(n log n) for n slots that are not free.
    """
    columns = table.values.shape[1]
    if columns == 0:
        return Patch.none(1, 0)
    if table.facts[1]:
        (pane, label), ends = np.empty((2, len(table.values)), np.int64), np.zeros(KEY_GROUPS, np.int64)
        count = kept_cells(table.values, *table.facts[2:].tolist(), groups.first, groups.ordered, pane, label, ends)
        pane, label, values = pane[:count], label[:count], table.values[:count]
        return Patch(np.append(0, ends), pane, groups.of(label)[:, None], values)
    slots = np.flatnonzero((table.labels != FREE_CELL) & table.values.any(axis=1))
    pane, label = table.panes[slots], table.labels[slots]
    group = groups.group[label]
    order = np.lexsort((label, pane, group))
    return Patch(
        np.searchsorted(group[order], np.arange(KEY_GROUPS + 1)).astype(np.int64), pane[order],
        groups.of(label[order])[:, None], table.values[slots[order]],
    )  # fmt: skip
