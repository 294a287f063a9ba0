"""Moves of objects without rows in a batch: they may be the greatest where those with rows are slower than before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dtoss.windows.labels import Labels, Numbers, offsets, together
from dtoss.windows.patches import NO_KEY
from dtoss.windows.trajectories.cell_table import Groups, Table
from dtoss.windows.trajectories.highest_kernel import raise_others


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
