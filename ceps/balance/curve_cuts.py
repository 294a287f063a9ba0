"""Cells cut along a space-filling curve into equal work, with the cells at the cuts shared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ceps.balance.cell_layout import MOST_WORKERS, Floats, Ints, Layout, of_parts
from ceps.balance.round_costs import Loads
from ceps.balance.strategy import Decision, Memory
from ceps.balance.subscription_load import SubscriptionLoad
from ceps.model.argument_checks import whole

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
        """Return the cut of what the last round has cost; see :class:`ceps.balance.strategy.Strategy`."""
        del asked, memory
        return Decision(
            cut(loads.shape, self.workers, loads.work), messages=0 if layout is None else loads.message_bytes
        )
