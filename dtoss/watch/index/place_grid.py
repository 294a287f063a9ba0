"""The arrays of a grid: which cells there are, where each begins, and what stands there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.watch.index.cell_frame import Frame
from dtoss.watch.index.covers import Covers
from dtoss.watch.index.grid_kernel import (
    EMPTY,
    PLACE_FACTS,
    count_cells,
    fill_cells,
    list_cells,
    number_cells,
    write_slots,
)
from dtoss.watch.index.levels import chosen_levels

_LEAST_ROOM = 16


def grid_arrays(
    covers: Covers, frame: Frame, sample: NDArray[np.float64] | None, only: int | None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of the grid of places. Cost O(cells).

    They are ``grid/world`` float64 (4,), the frame; ``grid/levels`` int64 (levels,); ``grid/slots`` int64 (room, 2), a
    table by key; ``grid/places`` float64 (k, 4) and ``grid/marks`` int32 (k, 2), what stands in each cell: the facts of
    :class:`Covers`, the subscription and its shape, in the order of subscriptions.
    """
    world = np.array(frame, np.float64)
    chosen = chosen_levels(covers.rects, frame, sample, only)
    begin = np.zeros(len(covers.owner) + 1, np.int64)
    total = count_cells(covers.rects, chosen.index, chosen.levels, world, begin)
    keys = np.empty(total, np.int64)
    list_cells(covers.rects, chosen.index, chosen.levels, world, begin, keys)
    room = _room(total)
    cell, distinct = np.empty(total, np.int32), np.empty(total, np.int64)
    found = number_cells(keys, cell, np.full(room, EMPTY, np.int64), np.zeros(room, np.int32), distinct)
    count = np.bincount(cell, minlength=found).astype(np.int64)
    first = np.cumsum(count) - count
    places, marks = np.empty((total, PLACE_FACTS)), np.empty((total, 2), np.int32)
    tags = np.ascontiguousarray(np.stack([covers.owner, covers.shape], axis=1))
    fill_cells(begin, cell, covers.facts, tags, first.copy(), places, marks)
    slots = np.full((_room(found), 2), EMPTY, np.int64)
    write_slots(np.ascontiguousarray(distinct[:found]), first, count, slots)
    return {
        "grid/world": world,
        "grid/levels": chosen.levels,
        "grid/slots": slots,
        "grid/places": places,
        "grid/marks": marks,
    }


def _room(cells: int) -> int:
    """Return a power of two, so that at most seven of ten slots are taken."""
    return 1 << max(int(np.ceil(np.log2(max(cells / 0.7, _LEAST_ROOM)))), 4)
