"""Keys of cells and words: what stands under a word in a cell of a grid."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer, shift
from dtoss.watch.index.cell_frame import column_of, columns_of, row_of
from dtoss.watch.index.grid_kernel import PLACE_FACTS, frame_in, reach_of

ROW_BITS_OF_WORDS = 16
"""Of the row of a cell; its column has one more."""
_CELL_SHIFT = 2 * ROW_BITS_OF_WORDS + 1
_COLUMN_SHIFT = ROW_BITS_OF_WORDS + 1
_NORTH = 3
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio."""
_BIT_SHIFT = np.uint64(26)
_BITS_A_KEY = 16
BITS_OF_SIFT = 6
"""A number of a sift has 2^6 bits."""
LAST_BIT = (1 << BITS_OF_SIFT) - 1
_BIT = np.left_shift(np.int64(1), np.arange(1 << BITS_OF_SIFT))
"""The numbers with one bit; that of the last is negative."""
MARKS = 3
"""Numbers that stand beside a place: subscription, first test, where its cover begins or -1."""


@kernel
def cell_of_words(index, row, column):
    """Return the number of a cell of the level in place ``index``."""
    return (index << _CELL_SHIFT) | (row << _COLUMN_SHIFT) | column


@kernel
def cell_at(frame, index, level, x, y):
    """Return the number of the cell in which a position lies."""
    row = row_of(frame, level, y)
    return cell_of_words(index, row, column_of(frame, columns_of(frame, level, row), x))


@kernel(
    "void(Array(float64, 2, 'C', readonly=True), Array(int64, 1, 'C', readonly=True),"
    " Array(int64, 1, 'C', readonly=True), Array(float64, 1, 'C', readonly=True),"
    " Array(int64, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), int64, int64[::1])"
)
def list_word_cells(rects, index, levels, world, begin, words, bits, keys):
    """List the keys of each rectangle: its cells, each with its word in the lowest ``bits``."""
    frame = frame_in(pointer(world))
    for p in range(rects.shape[0]):
        at = begin[p]
        level = levels[index[p]]
        rect = shift(pointer(rects), PLACE_FACTS * p)
        for row in range(row_of(frame, level, rect[1]), row_of(frame, level, rect[_NORTH]) + 1):
            reach = reach_of(frame, level, row, rect)
            for column in range(reach.first, reach.last + 1):
                keys[at] = (cell_of_words(index[p], row, column) << bits) | words[p]
                at += 1
            for column in range(reach.wrapped + 1):
                keys[at] = (cell_of_words(index[p], row, column) << bits) | words[p]
                at += 1


@kernel(
    "void(Array(float64, 2, 'C', readonly=True), int64, Array(int64, 1, 'C', readonly=True),"
    " Array(float64, 1, 'C', readonly=True), int64[::1])"
)
def cells_of_positions(positions, index, levels, world, cells):
    """Set the cell of each position in the level in place ``index``."""
    frame = frame_in(pointer(world))
    for i in range(positions.shape[0]):
        cells[i] = cell_at(frame, index, levels[index], positions[i, 0], positions[i, 1])


@kernel(
    "void(int64[::1], int32[::1], Array(float64, 2, 'C', readonly=True), Array(int32, 2, 'C', readonly=True),"
    " int64[::1], float64[:, ::1], int32[:, ::1])"
)
def fill_word_cells(begin, cell, rects, marks, ends, places, out):
    """Write what stands in each cell, one cell after another; ``ends`` has where each begins, and in the end ends."""
    for p in range(rects.shape[0]):
        for i in range(begin[p], begin[p + 1]):
            at = ends[cell[i]]
            ends[cell[i]] = at + 1
            for column in range(PLACE_FACTS):
                places[at, column] = rects[p, column]
            for column in range(MARKS):
                out[at, column] = marks[p, column]


def slots_of_keys(count: int) -> NDArray[np.int64]:
    """Return a free table of keys of so many cells: at most half full."""
    return np.full((1 << max(int(2 * count - 1).bit_length(), 1), 2), -1, np.int64)


def sift_for(count: int) -> NDArray[np.int64]:
    """Return a sift for so many keys, of 16 to 32 bits a key: about one key of twenty that is not there passes."""
    return np.zeros(max((1 << int(_BITS_A_KEY * count).bit_length()) >> BITS_OF_SIFT, 1), np.int64)


@kernel
def bit_of(key, size):
    """Return the bit of a key in a sift of ``size`` numbers."""
    return int((np.uint64(key) * _FACTOR) >> _BIT_SHIFT) & ((size << BITS_OF_SIFT) - 1)


@kernel("void(Array(int64, 1, 'C', readonly=True), int64[::1])")
def write_sift(keys, sift):
    """Set the bits of keys."""
    for i in range(keys.size):
        bit = bit_of(keys[i], sift.size)
        sift[bit >> BITS_OF_SIFT] |= _BIT[bit & LAST_BIT]
