"""What a strategy is, and layouts that do not change or are cut along a curve, to be compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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
    of_parts,
    replicated,
)
from ceps.balance.round_costs import Loads
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
        """Return the same layout; see :class:`ceps.balance.baselines.Strategy`."""
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


_LEAST = 1e-6
"""Shares below this are given to a neighbour."""


@lru_cache(maxsize=8)
def along_curve(shape: tuple[int, int]) -> Ints:
    """Return the cells of a grid in the order of Hilbert's curve, int64 (cells,). Cost O(n log n).

    Examples
    --------
    >>> along_curve((2, 2)).tolist()
    [0, 2, 3, 1]
    """
    rows, columns = shape
    cell = np.arange(rows * columns)
    y, x = cell // columns, cell % columns
    place = np.zeros(len(cell), np.int64)
    side = 1 << max(int(max(rows, columns) - 1).bit_length() - 1, 0)
    while side:
        right, top = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ top)
        flip = right & ~top
        x = np.where(flip, side - 1 - (x & (side - 1)), x & (side - 1))
        y = np.where(flip, side - 1 - (y & (side - 1)), y & (side - 1))
        x, y = np.where(top, x, y), np.where(top, y, x)
        side >>= 1
    return np.argsort(place, kind="stable")


def cut(shape: tuple[int, int], workers: int, work: Floats) -> Layout:
    """Return the layout that gives each worker the same work: a stretch of the curve, with parts of cells at its ends.

    ``work``: float64 (cells,), 0 or more. Where it is 0 everywhere, each cell counts the same.

    Examples
    --------
    >>> made = cut((1, 2), 2, np.array([3.0, 1.0]))
    >>> made.cell.tolist(), made.worker.tolist(), made.share.round(3).tolist()
    ([0, 0, 1], [0, 1, 1], [0.667, 0.333, 1.0])
    """
    order = along_curve(shape)
    total = float(work.sum())
    weight = work[order] / total if total > 0.0 else np.full(len(order), 1.0 / len(order))
    ends = np.cumsum(weight)
    begins = np.concatenate([[0.0], ends[:-1]])
    first = np.clip(np.floor(begins * workers + _LEAST).astype(np.int64), 0, workers - 1)
    last = np.clip(np.ceil(ends * workers - _LEAST).astype(np.int64) - 1, first, workers - 1)
    count = last - first + 1
    at = np.repeat(np.arange(len(order)), count)
    worker = np.repeat(first, count) + np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    low, high = np.maximum(begins[at], worker / workers), np.minimum(ends[at], (worker + 1) / workers)
    # a cell without work, and one whose parts rounding has lost, is its first worker's
    part = np.where(count[at] == 1, 1.0, np.maximum(high - low, 0.0))
    part = np.where(part > _LEAST * weight[at], part, 0.0)
    sums = np.bincount(at, part, len(order))
    kept = part > 0.0
    return of_parts(shape, workers, order[at[kept]], worker[kept], part[kept] / sums[at[kept]])


@dataclass(frozen=True)
class CurveCut:
    """The curve cut anew after each round."""

    workers: int

    def __post_init__(self) -> None:
        whole("workers", self.workers, 1, MOST_WORKERS)

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the cut of what the last round has cost; see :class:`ceps.balance.baselines.Strategy`."""
        del asked, memory
        return Decision(
            cut(loads.shape, self.workers, loads.work), messages=0 if layout is None else loads.message_bytes
        )


Memory = Mapping[str, NDArray[Any]]
"""What a strategy keeps from round to round, by name: plain arrays, so that it is kept beside its layout."""

NOTHING: Memory = MappingProxyType({})


class Decision(NamedTuple):
    """What a strategy has decided."""

    layout: Layout  # Of the next round
    memory: Memory = NOTHING  # What it wants to see then
    messages: int = 0  # Bytes that workers and whoever decides have sent each other for it


class Strategy(Protocol):
    """A way to spread cells; its parameters are frozen. It draws no random numbers but from a seed of its own."""

    @property
    def workers(self) -> int:
        """How many there are."""

    def next_layout(self, layout: Layout | None, loads: Loads, asked: SubscriptionLoad, memory: Memory) -> Decision:
        """Return the layout of the next round.

        ``layout``: of the round that has ended; None before the first. One of another grid or number of workers is
        begun from as if there were none, unless the strategy says better; ``loads``: of the round that has ended; of a
        sample of the past before the first; ``memory``: what it has returned of the round before; empty before the
        first.
        """
