"""A layout: of each routing cell the workers that have it, with shares, and which words of a cell go where.

Cells are those of a grid of rows and columns: the number of a cell is ``row * columns + column``.

Rectangles of cells of a grid: sums over each, and how many of them hold each cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
MOST_WORKERS = 4096
MOST_CELLS = 1 << 24
SAME = 1e-9
"""By how much shares of a cell may miss 1."""


@dataclass(frozen=True, eq=False)
class WordParts:
    """Words of cells that go to workers of their own; all other words of these cells go to the cell's rest."""

    cell: Ints  # int64 (w,), rising
    word: Ints  # int64 (w,), numbers of words, rising within a cell
    worker: NDArray[np.int32]  # int32 (w,)

    def __len__(self) -> int:
        return len(self.cell)

    @cached_property
    def cells(self) -> Ints:
        """The cells that are split by words, rising, each once."""
        return np.unique(self.cell)


NO_WORDS = WordParts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32))


@dataclass(frozen=True, eq=False)
class Layout:
    """Cells on workers; immutable. :func:`of_cells`, :func:`of_parts` and :func:`replicated` make it.

    A row goes to one of the workers of its cell, drawn by shares from a hash of the row. In a cell that is split by
    words it goes to each worker that has one of its words, and always to the cell's rest, which is its only part: there
    are the subscriptions that no word need hold, and those of words that go nowhere else.
    """

    shape: tuple[int, int]  # Rows and columns of the grid
    workers: int  # How many there are; one may have nothing
    begin: Ints  # int64 (cells + 1,). The parts of cell c are ``begin[c]:begin[c + 1]``, at least one
    worker: NDArray[np.int32]  # int32 (parts,), rising within a cell
    share: Floats  # float64 (parts,), above 0; those of a cell add to 1
    words: WordParts = NO_WORDS  # Words of cells that go to other workers than the rest

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.shape[0] * self.shape[1]

    @cached_property
    def cell(self) -> Ints:
        """The cell of each part, int64 (parts,)."""
        return np.repeat(np.arange(self.cells), np.diff(self.begin))

    @cached_property
    def shared(self) -> Ints:
        """The cells that several workers share, rising."""
        return np.flatnonzero(np.diff(self.begin) > 1)

    @property
    def everywhere(self) -> bool:
        """Whether each worker has something of each cell."""
        return len(self.worker) == self.cells * self.workers

    @cached_property
    def held(self) -> Flags:
        """Which worker has something of which cell, bool (workers, cells)."""
        found = np.zeros((self.workers, self.cells), np.bool_)
        found[self.worker, self.cell] = True
        found[self.words.worker, self.words.cell] = True
        return found

    def same_as(self, other: Layout) -> bool:
        """Whether another one says the same."""
        mine: tuple[NDArray[Any], ...] = (
            self.begin,
            self.worker,
            self.share,
            self.words.cell,
            self.words.word,
            self.words.worker,
        )
        others: tuple[NDArray[Any], ...] = (
            other.begin,
            other.worker,
            other.share,
            other.words.cell,
            other.words.word,
            other.words.worker,
        )
        alike = self.shape == other.shape and self.workers == other.workers
        return alike and all(np.array_equal(a, b) for a, b in zip(mine, others, strict=True))


def of_cells(shape: tuple[int, int], workers: int, worker_of: ArrayLike) -> Layout:
    """Return a layout of whole cells.

    ``worker_of``: (cells,), the worker of each.

    Examples
    --------
    >>> of_cells((1, 3), 2, [0, 1, 1]).held.tolist()
    [[True, False, False], [False, True, True]]
    """
    given = np.asarray(worker_of, np.int64)
    count = checked_shape(shape)
    if given.shape != (count,):
        raise ValueError(f"worker_of has shape {given.shape}; for {count} cells it must be {(count,)}")
    return of_parts(shape, workers, np.arange(count), given, np.ones(count))


def of_parts(
    shape: tuple[int, int],
    workers: int,
    cell: ArrayLike,
    worker: ArrayLike,
    share: ArrayLike,
    words: WordParts = NO_WORDS,
) -> Layout:
    """Return the layout of parts in any order; those of a cell and a worker are joined.

    ``cell``, ``worker``, ``share``: (parts,). Shares are above 0, and add to 1 in each cell.

    Examples
    --------
    >>> made = of_parts((1, 2), 2, [1, 0, 1], [1, 0, 0], [0.25, 1.0, 0.75])
    >>> made.begin.tolist(), made.worker.tolist(), made.share.tolist()
    ([0, 1, 3], [0, 0, 1], [1.0, 0.75, 0.25])
    """
    count = checked_shape(shape)
    workers = whole("workers", workers, 1, MOST_WORKERS)
    cells, whose = np.asarray(cell, np.int64), np.asarray(worker, np.int64)
    shares = np.asarray(share, np.float64)
    _check_within("cell", cells, count)
    _check_within("worker", whose, workers)
    if not (shares > 0.0).all():
        raise ValueError(f"share {shares[~(shares > 0.0)][0]:g} of a part; it must be above 0")
    key, inverse = np.unique(cells * workers + whose, return_inverse=True)
    joined = np.bincount(inverse, shares, len(key)).astype(np.float64)
    cells, whose = key // workers, key % workers
    sums = np.bincount(cells, joined, count)
    wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= SAME))
    if len(wrong):
        raise ValueError(f"shares of cell {wrong[0]} add to {sums[wrong[0]]:g}; they must add to 1")
    begin = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=count))])
    return Layout(shape, workers, begin, whose.astype(np.int32), joined, _checked_words(words, begin, workers))


def _checked_words(words: WordParts, begin: Ints, workers: int) -> WordParts:
    if len(words) == 0:
        return NO_WORDS
    order = np.lexsort((words.word, words.cell))
    cell, word, worker = words.cell[order], words.word[order], words.worker[order]
    _check_within("cell of a word", cell, len(begin) - 1)
    _check_within("worker of a word", worker, workers)
    twice = (cell[1:] == cell[:-1]) & (word[1:] == word[:-1])
    if twice.any():
        at = int(twice.argmax())
        raise ValueError(f"word {word[at]} of cell {cell[at]} goes to two workers; it must go to one")
    shared = np.flatnonzero(np.diff(begin)[cell] > 1)
    if len(shared):
        raise ValueError(f"cell {cell[shared[0]]} is shared and split by words; it must be one of them")
    return WordParts(cell, word, worker.astype(np.int32))


def replicated(shape: tuple[int, int], workers: int) -> Layout:
    """Return the layout in which each worker has everything, and rows are spread by their hash."""
    count, workers = checked_shape(shape), whole("workers", workers, 1, MOST_WORKERS)
    return Layout(
        shape,
        workers,
        np.arange(0, count * workers + 1, workers),
        np.tile(np.arange(workers, dtype=np.int32), count),
        np.full(count * workers, 1.0 / workers),
    )


def checked_shape(shape: tuple[int, int]) -> int:
    """Return how many cells a grid has."""
    rows, columns = shape
    if rows < 1 or columns < 1 or rows * columns > MOST_CELLS:
        raise ValueError(f"a grid of {rows} rows and {columns} columns; it must have from 1 to {MOST_CELLS} cells")
    return rows * columns


def _check_within(name: str, values: NDArray[np.integer], most: int) -> None:
    bad = np.flatnonzero((values < 0) | (values >= most))
    if len(bad):
        raise ValueError(f"{name} {values[bad[0]]}; it must be a whole number from 0 to {most - 1}")


FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW = range(4)


def prefix_sums(shape: tuple[int, int], values: Floats | Ints | Flags) -> NDArray[Any]:
    """Return the sums of all cells below and to the left, (rows + 1, columns + 1): float64 of floats, else int64."""
    kind = np.float64 if values.dtype.kind == "f" else np.int64
    sums = np.zeros((shape[0] + 1, shape[1] + 1), kind)
    sums[1:, 1:] = values.reshape(shape).cumsum(axis=0, dtype=kind).cumsum(axis=1)
    return sums


def sums_over(sums: NDArray[Any], rects: Ints) -> NDArray[Any]:
    """Return the sum over each rectangle of cells, (n,), of :func:`prefix_sums`."""
    west, south, east, north = (rects[:, at] for at in (FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW))
    return sums_within(sums, south, north, west, east)


def sums_within(sums: NDArray[Any], south: Ints, north: Ints, west: Ints, east: Ints) -> NDArray[Any]:
    """Return sums over rectangles by their sides, (n,), 0 where a rectangle has no cell."""
    top, right = np.maximum(north + 1, south), np.maximum(east + 1, west)
    found: NDArray[Any] = sums[top, right] - sums[south, right] - sums[top, west] + sums[south, west]
    return found


def spread(shape: tuple[int, int], rects: Ints, weight: Floats) -> Floats:
    """Return the sum of the weights of the rectangles that hold each cell, float64 (cells,).

    Cost O(rectangles + cells). Sums of differences miss 0 by a rounding, unless weights are whole numbers.
    """
    rows, columns = shape
    edges = np.zeros((rows + 1, columns + 1))
    for row, more in ((FIRST_ROW, 0), (LAST_ROW, 1)):
        for column, further in ((FIRST_COLUMN, 0), (LAST_COLUMN, 1)):
            sign = 1.0 if more == further else -1.0
            at = (rects[:, row] + more) * (columns + 1) + rects[:, column] + further
            edges += sign * np.bincount(at, weight, edges.size).reshape(edges.shape)
    return edges.cumsum(axis=0).cumsum(axis=1)[:-1, :-1].ravel()
