"""Places into the cells of grids: how many cells, which, and what stands in each, in the order of subscriptions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.space import QUARTER_TURN
from dtoss.watch.index.cell_frame import Frame, cell_key, column_of, columns_of, row_of

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio."""
_SHIFT = np.uint64(32)
_BEGIN_BITS = 32
_COUNT_MASK = (1 << 32) - 1
_NORTH, _EAST = 3, 2
EMPTY = -1
"""The key of a slot in which no cell is."""
PLACE_FACTS = 4
"""Numbers that stand in a grid for a place."""


class Reach(NamedTuple):
    """Columns of a row that a rectangle touches: ``first`` to ``last``, and from 0 to ``wrapped``, -1 for none."""

    first: int
    last: int
    wrapped: int


@kernel
def frame_in(world):
    """Return the frame of an array: sphere, x, y, side."""
    return Frame(int(world[0]), world[1], world[_EAST], world[_NORTH])


@kernel
def place_in(key, room):
    """Return the place of a table of ``room`` slots, a power of two, where the search for a cell begins."""
    mixed = np.uint64(key) * _FACTOR
    return int(mixed >> _SHIFT) & (room - 1)


@kernel
def entry_of(slots, room, key):
    """Return what stands under a key of a table, of which ``slots`` is the pointer; 0 for nothing."""
    at = place_in(key, room)
    while slots[2 * at] != key:
        if slots[2 * at] == EMPTY:
            return 0
        at = (at + 1) & (room - 1)
    return slots[2 * at + 1]


@kernel
def reach_of(frame, level, row, rect):
    """Return the columns of a row that a rectangle, of which ``rect`` is the pointer, touches."""
    columns = columns_of(frame, level, row)
    west, east = column_of(frame, columns, rect[0]), column_of(frame, columns, rect[_EAST])
    if frame.sphere:
        # a pole is one place, whatever its longitude
        top = row == (1 << level) - 1 and rect[_NORTH] >= QUARTER_TURN
        if top or (row == 0 and rect[1] <= -QUARTER_TURN):
            return Reach(0, columns - 1, -1)
        if rect[0] > rect[_EAST]:
            return Reach(west, columns - 1, min(east, west - 1))
    return Reach(west, east, -1)


@kernel(
    "int64(Array(float64, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True),"
    " Array(int64, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), int64[::1])"
)
def count_cells(rects, index, levels, world, begin):
    """Set where the cells of each rectangle begin in a list of all, and return how many there are."""
    frame = frame_in(pointer(world))
    total = 0
    for p in range(rects.shape[0]):
        begin[p] = total
        level = levels[index[p]]
        rect = shift(pointer(rects), PLACE_FACTS * p)
        for row in range(row_of(frame, level, rect[1]), row_of(frame, level, rect[_NORTH]) + 1):
            reach = reach_of(frame, level, row, rect)
            total += reach.last - reach.first + reach.wrapped + 2
    begin[rects.shape[0]] = total
    return total


@kernel(
    "void(Array(float64, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True),"
    " Array(int64, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True), int64[::1], int64[::1])"
)
def list_cells(rects, index, levels, world, begin, keys):
    """List the cells of each rectangle."""
    frame = frame_in(pointer(world))
    for p in range(rects.shape[0]):
        at = begin[p]
        level = levels[index[p]]
        rect = shift(pointer(rects), PLACE_FACTS * p)
        for row in range(row_of(frame, level, rect[1]), row_of(frame, level, rect[_NORTH]) + 1):
            reach = reach_of(frame, level, row, rect)
            for column in range(reach.first, reach.last + 1):
                keys[at] = cell_key(index[p], row, column)
                at += 1
            for column in range(reach.wrapped + 1):
                keys[at] = cell_key(index[p], row, column)
                at += 1


@kernel("int64(int64[::1], int32[::1], int64[::1], int32[::1], int64[::1])")
def number_cells(keys, cell, slots, numbers, distinct):
    """Set the number of each cell, in the order in which they are listed; return how many are distinct."""
    found, room = 0, slots.size
    for i in range(keys.size):
        key = keys[i]
        at = place_in(key, room)
        while slots[at] != key and slots[at] != EMPTY:
            at = (at + 1) & (room - 1)
        if slots[at] == EMPTY:
            slots[at] = key
            numbers[at] = found
            distinct[found] = key
            found += 1
        cell[i] = numbers[at]
    return found


@kernel(
    "void(int64[::1], int32[::1], Array(float64, 2, 'C', readonly=True), int32[:, ::1], int64[::1],"
    " float64[:, ::1], int32[:, ::1])"
)
def fill_cells(begin, cell, facts, tags, ends, places, marks):
    """Write what stands in each cell, one cell after another.

    ``ends`` has where each cell begins, and in the end where it ends.
    """
    for p in range(facts.shape[0]):
        for i in range(begin[p], begin[p + 1]):
            at = ends[cell[i]]
            ends[cell[i]] = at + 1
            for column in range(PLACE_FACTS):
                places[at, column] = facts[p, column]
            marks[at, 0] = tags[p, 0]
            marks[at, 1] = tags[p, 1]


@kernel("void(int64[::1], int64[::1], int64[::1], int64[:, ::1])")
def write_slots(distinct, begin, count, slots):
    """Write the table by which cells are found: key, and where it begins and how much stands there in one number."""
    room = slots.shape[0]
    for i in range(distinct.size):
        at = place_in(distinct[i], room)
        while slots[at, 0] != EMPTY:
            at = (at + 1) & (room - 1)
        slots[at, 0] = distinct[i]
        slots[at, 1] = (begin[i] << _BEGIN_BITS) | count[i]


@kernel
def begin_of(entry):
    """Return where a cell begins, of the second number of its slot."""
    return entry >> _BEGIN_BITS


@kernel
def count_of(entry):
    """Return how much stands in a cell."""
    return entry & _COUNT_MASK
