"""An index of subscriptions with words: by a word that a text must hold, and by place under words that many ask.

A subscription stands under each word of its cover, in the cells of a level of a grid that its rectangle touches: the
finest level whose cells are as large as the rectangle, and no finer than the word needs. Words select already, so
cells are coarse. What is larger than any cell stands in a list of the word. Where no word of a formula need be there,
it stands under a word that every text has.

Keys of cells and words: what stands under a word in a cell of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer, shift
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN
from dtoss.watch.index.cell_frame import GLOBE, column_of, columns_of, row_of
from dtoss.watch.index.grid_kernel import PLACE_FACTS, count_cells, frame_in, number_cells, reach_of, write_slots
from dtoss.watch.words.formula_programs import FormulaPrograms, compile_words
from dtoss.watch.words.messages import Vocabulary

BY_BOTH, BY_WORDS_ONLY, BY_PLACE_ONLY = "both", "words", "place"
"""What finds a subscription; the last two for comparison."""
FROM_START = -1
"""Of a subscription under the first word of its cover: it need not be looked for under others."""
_LEVELS = np.array([0, 3, 5, 7, 9, 11, 13, 15], np.int64)
"""Levels of the grid: rows of 2,500 km to 600 m. The first place stands for the lists."""
_ENOUGH = 0.5
"""Subscriptions, expected, in a cell under a word; cells need not be finer."""
_GAIN = 1.1
_SAMPLE = 1024
_HUGE = 1e299
_FREE_BITS = 62


class WordIndex(NamedTuple):
    """Subscriptions with words, s of them, v known words; the word v is one that every text has."""

    letters: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    slots: NDArray[np.int64]
    covers: NDArray[np.int32]
    code: NDArray[np.int32]
    phrase: NDArray[np.int32]
    phrases: NDArray[np.int32]
    # int32 (v + 2, 2). Where the list of each word begins in ``places``, and bit k if it has cells in level k
    heads: NDArray[np.int32]
    # int64 (t, 2). By cell and word: the key, and where what stands there begins and how much it is
    table: NDArray[np.int64]
    # int64, a power of two. Bits of the keys of ``table``: most keys that it lacks are turned away by a bit
    sift: NDArray[np.int64]
    places: NDArray[np.float64]  # float64 (p, 4). Rectangles: west, south, east, north
    marks: NDArray[np.int32]  # int32 (p, 3). Subscription, first test, where its cover begins or -1
    world: NDArray[np.float64]  # float64 (4,). The frame of the grid: sphere, x, y, side
    levels: NDArray[np.int64]  # int64 (l,). Levels of the grid; the first is none

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self)


class _Postings(NamedTuple):
    """A subscription under a word, each."""

    word: NDArray[np.int64]
    rects: NDArray[np.float64]
    marks: NDArray[np.int32]


def build_worded(
    texts: pa.Array | Sequence[str],
    boxes: NDArray[np.float64],
    metric: str,
    sample_positions: NDArray[np.float64] | None = None,
    by: str = BY_BOTH,
) -> WordIndex:
    """Return the index of subscriptions with words. Cost O(bytes of the formulas + cells).

    ``boxes``: float64 (k, 4). west, south, east, north of a rectangle that holds the place; west > east across the
    antimeridian, which is 180 and not -180; ``metric``: "sphere" or "plane"; ``sample_positions``: float64 (m, 2).
    Where messages are, about; None takes the middles of the rectangles.
    """
    said = (texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())).cast(pa.large_string())
    vocabulary, compiled = compile_words(said, by != BY_PLACE_ONLY)
    everything = len(vocabulary.offsets) - 1
    postings = _postings(compiled, operand(boxes, np.float64), everything)
    world = _world(boxes, metric)
    if by == BY_WORDS_ONLY:
        index = np.zeros(len(postings.word), np.int64)
    else:
        index = _levels_of(postings, world, boxes, sample_positions, everything + 1)
    heads, table, sift, places, marks = _laid_out(postings, index, world, everything + 1)
    kept = (compiled.covers, compiled.code, compiled.phrase, compiled.phrases)
    return WordIndex(*vocabulary, *kept, heads, table, sift, places, marks, world, _LEVELS.copy())


def vocabulary_in(worded: WordIndex) -> Vocabulary:
    """Return the words of an index."""
    return Vocabulary(worded.letters, worded.offsets, worded.slots)


def _postings(compiled: FormulaPrograms, boxes: NDArray[np.float64], everything: int) -> _Postings:
    """Return each subscription under each word of its cover, under ``everything`` where it has none."""
    begin = compiled.cover[:, 0].astype(np.int64)
    sizes = compiled.cover[:, 1] - begin
    without = sizes == 0
    sizes = np.maximum(sizes, 1)
    owner = np.repeat(np.arange(len(boxes), dtype=np.int32), sizes)
    at = np.repeat(begin, sizes)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    word = np.append(compiled.covers, 0)[at + step].astype(np.int64)
    word[without[owner]] = everything
    marks = np.empty((len(owner), MARKS), np.int32)
    marks[:, 0] = owner
    marks[:, 1] = np.repeat(compiled.entry, sizes)
    marks[:, 2] = np.where(step == 0, FROM_START, at)
    return _Postings(word, boxes[owner], marks)


def _world(boxes: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """Return the frame: the globe, or a square of a plane in which most places are. Others count at its border."""
    if metric == "sphere":
        return np.array(GLOBE, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middles = _middles(boxes)
    middles = middles[(np.abs(boxes) < _HUGE).all(axis=1)]
    if len(middles) == 0:
        return np.array([0.0, 0.0, 0.0, 1.0])
    some = middles[:: max(len(middles) // (16 * _SAMPLE), 1)]
    low, high = np.quantile(some, 0.005, axis=0), np.quantile(some, 0.995, axis=0)
    side = float((high - low).max())
    return np.array([0.0, low[0], low[1], side if side > 0.0 else 1.0])


def _middles(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    west = np.where(boxes[:, 0] > boxes[:, 2], boxes[:, 0] - 2 * HALF_TURN, boxes[:, 0])
    return np.stack([(west + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2], axis=1)


def _finest_of_size(rects: NDArray[np.float64], world: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the place of the finest level whose cells are as large as each rectangle; 0 where none is."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        wide, high = rects[:, 2] - rects[:, 0], rects[:, 3] - rects[:, 1]
        if world[0]:
            wide = np.where(wide < 0.0, wide + 2 * HALF_TURN, wide)
            nearest = np.where(rects[:, 1] * rects[:, 3] <= 0.0, 0.0, np.abs(rects[:, 1::2]).min(axis=1))
            wide = wide * (1.0 - (np.minimum(nearest, QUARTER_TURN) / QUARTER_TURN) ** 2)
        size = np.maximum(np.maximum(wide, high) / world[3], 2.0**-(ROW_BITS_OF_WORDS))
        exact = np.floor(-np.log2(size))
    exact = np.where(np.isfinite(exact), exact, 0.0)
    return np.asarray(np.searchsorted(_LEVELS, np.maximum(exact, 0.0), "right") - 1)


def _levels_of(
    postings: _Postings,
    world: NDArray[np.float64],
    boxes: NDArray[np.float64],
    positions: NDArray[np.float64] | None,
    words: int,
) -> NDArray[np.int64]:
    """Return the place of each posting's level, 0 for the list of its word."""
    if len(postings.word) == 0:
        return np.zeros(0, np.int64)
    asked = np.bincount(postings.word, minlength=words)
    finest = _finest_of_size(postings.rects, world)
    crowd = _crowds(postings.rects, finest, world, _middles(boxes) if positions is None else positions)
    enough = asked[:, None] * crowd[None, :] <= _ENOUGH
    useful = np.argmax(crowd <= _GAIN * crowd.min())
    level = np.where(enough.any(axis=1), np.minimum(np.argmax(enough, axis=1), useful), useful)
    return np.asarray(np.minimum(finest, level[postings.word]))


def _crowds(
    rects: NDArray[np.float64], finest: NDArray[np.int64], world: NDArray[np.float64], positions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each level the chance that what stands in it or above it is where a message is looked for."""
    random = np.random.default_rng(0)
    some = random.integers(0, len(rects), min(_SAMPLE, 4 * len(rects)))
    rects, finest = operand(rects[some]), finest[some]
    where = operand(positions[random.integers(0, len(positions), _SAMPLE)], np.float64)
    crowd = np.ones(len(_LEVELS))
    bits = np.zeros(len(rects), np.int64)
    for place in range(1, len(_LEVELS)):
        index = np.minimum(finest, place)
        pairs = float((index == 0).sum()) * len(where)
        for each in range(1, place + 1):
            mine = np.flatnonzero(index == each)
            if len(mine):
                keys = _keys(operand(rects[mine]), index[mine], world, bits[mine], 0)[1]
                cells = np.empty(len(where), np.int64)
                cells_of_positions(where, each, _LEVELS, world, cells)
                keys.sort()
                pairs += float((np.searchsorted(keys, cells, "right") - np.searchsorted(keys, cells)).sum())
        crowd[place] = pairs / (len(rects) * len(where))
    return crowd


def _keys(
    rects: NDArray[np.float64],
    index: NDArray[np.int64],
    world: NDArray[np.float64],
    words: NDArray[np.int64],
    bits: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the keys of each rectangle begin, and all keys."""
    begin = np.empty(len(rects) + 1, np.int64)
    keys = np.empty(count_cells(rects, index, _LEVELS, world, begin), np.int64)
    list_word_cells(rects, index, _LEVELS, world, begin, words, bits, keys)
    return begin, keys


def _laid_out(
    postings: _Postings, index: NDArray[np.int64], world: NDArray[np.float64], words: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int32]]:
    """Return heads, table, sift, places and marks: first the lists of words, then cells."""
    bits = bits_of(words)
    listed = np.flatnonzero(index == 0)
    listed = listed[np.argsort(postings.word[listed], kind="stable")]
    counts = np.bincount(postings.word[listed], minlength=words)
    heads = np.zeros((words + 1, 2), np.int32)
    heads[1:, 0] = np.cumsum(counts)
    celled = np.flatnonzero(index)
    np.bitwise_or.at(heads[:, 1], postings.word[celled], (1 << index[celled]).astype(np.int32))
    rects, marks = operand(postings.rects[celled]), operand(postings.marks[celled])
    begin, keys = _keys(rects, index[celled], world, operand(postings.word[celled]), bits)
    table = slots_of_keys(len(keys))
    cell, distinct = np.empty(len(keys), np.int32), np.empty(len(keys), np.int64)
    found = number_cells(keys, cell, operand(table[:, 0]), np.empty(len(table), np.int32), distinct)
    size = np.bincount(cell, minlength=found).astype(np.int64)
    first = len(listed) + np.cumsum(size) - size
    table = slots_of_keys(found)
    write_slots(distinct[:found], first, size, table)
    sift = sift_for(found)
    write_sift(distinct[:found], sift)
    places, out = np.empty((len(listed) + len(keys), 4)), np.empty((len(listed) + len(keys), MARKS), np.int32)
    places[: len(listed)], out[: len(listed)] = postings.rects[listed], postings.marks[listed]
    fill_word_cells(begin, cell, rects, marks, first.copy(), places, out)
    return heads, table, sift, places, out


def bits_of(words: int) -> int:
    """Return the bits of a key that say a word."""
    bits = int(words).bit_length()
    if bits + 2 * ROW_BITS_OF_WORDS + 1 + 3 > _FREE_BITS:
        raise ValueError(f"{words} distinct words are more than an index can hold: about 67 million")
    return bits


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
