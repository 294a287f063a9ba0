"""Layouts that do not change: what a user would do by hand, to be compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ceps.balance.cell_layout import (
    FIRST_COLUMN,
    FIRST_ROW,
    LAST_COLUMN,
    LAST_ROW,
    MOST_WORKERS,
    Floats,
    Ints,
    Layout,
    of_cells,
    replicated,
)
from ceps.balance.round_costs import Loads
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import whole


def stands(layout: Layout | None, loads: Loads, workers: int) -> bool:
    """Whether a layout is of the grid of the loads, and of so many workers."""
    return layout is not None and layout.shape == loads.shape and layout.workers == workers


First = Callable[[Loads, SubscriptionLoad, int], Layout]
"""Returns a layout of a sample, of what is asked, and for so many workers."""


@dataclass(frozen=True)
class FixedLayout:
    """A layout that is made of the first loads, and left as it is."""

    workers: int
    first: First

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the same layout; see :class:`ceps.balance.strategy.Strategy`."""
        del memory
        if layout is not None and stands(layout, loads, self.workers):
            return Decision(layout)
        return Decision(self.first(loads, asked, self.workers))


def everything(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return the layout in which each worker has everything."""
    del asked
    return replicated(loads.shape, workers)


def kd_cut(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return rectangles of cells, one for each worker, cut along their longer side where work is halved.

    More workers than cells leave some with nothing. Where there is no work, each cell counts the same.
    """
    del asked
    shape, work = loads.shape, loads.work
    weight = work if work.sum() > 0.0 else np.ones(len(work))
    table = weight.reshape(shape)
    owner = np.zeros(shape, np.int64)
    waiting = [(0, workers, 0, shape[0], 0, shape[1])]
    while waiting:
        first, count, south, north, west, east = waiting.pop()
        owner[south:north, west:east] = first
        if count == 1 or (north - south) * (east - west) == 1:
            continue
        by_row = (north - south) >= (east - west)
        less = count // 2
        sums = np.cumsum(table[south:north, west:east].sum(axis=1 if by_row else 0))
        at = _nearest(sums, less / count)
        if by_row:
            waiting += [
                (first, less, south, south + at, west, east),
                (first + less, count - less, south + at, north, west, east),
            ]
        else:
            waiting += [
                (first, less, south, north, west, west + at),
                (first + less, count - less, south, north, west + at, east),
            ]
    return of_cells(shape, workers, owner.ravel())


def _nearest(sums: Floats, share: float) -> int:
    """Return how many of the first values have a share of all, about; at least one, and not all."""
    total = float(sums[-1])
    if total <= 0.0:
        return max(min(round(len(sums) * share), len(sums) - 1), 1)
    return int(np.argmin(np.abs(sums[:-1] - share * total))) + 1


def tiles(loads: Loads, asked: SubscriptionLoad, workers: int) -> Layout:
    """Return tiles with equally many subscriptions, slab by slab (Leutenegger et al., STR); rows do not count."""
    rows, columns = loads.shape
    middle_x = (asked.rects[:, FIRST_COLUMN] + asked.rects[:, LAST_COLUMN]) // 2
    middle_y = (asked.rects[:, FIRST_ROW] + asked.rects[:, LAST_ROW]) // 2
    count = np.bincount(middle_y * columns + middle_x, minlength=rows * columns).reshape(rows, columns)
    slabs = max(round(workers**0.5), 1)
    ends: Ints = np.linspace(0, workers, slabs + 1).astype(np.int64)
    in_slab = ends[1:] - ends[:-1]
    owner = np.zeros((rows, columns), np.int64)
    slab_of = _dealt(count.sum(axis=0), in_slab)
    for slab in range(slabs):
        mine = slab_of == slab
        tile = _dealt(count[:, mine].sum(axis=1), np.ones(in_slab[slab], np.int64))
        owner[:, mine] = (ends[slab] + tile)[:, None]
    return of_cells(loads.shape, workers, owner.ravel())


def _dealt(counts: Ints, parts: Ints) -> Ints:
    """Return the part of each value in turn, so that parts have what is their share of the sum, about."""
    total = float(counts.sum())
    ends = np.cumsum(parts) / parts.sum()
    middles = (np.cumsum(counts) - counts / 2) / total if total > 0.0 else (np.arange(len(counts)) + 0.5) / len(counts)
    return np.minimum(np.searchsorted(ends, middles, "right"), len(parts) - 1)
