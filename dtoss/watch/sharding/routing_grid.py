"""The routing grid over where subscriptions are, and to which worker of its cell a row goes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.buckets import hashes_of
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, Space
from dtoss.watch.index.cell_frame import grid_positions
from dtoss.watch.watch_settings import Rows
from dtoss.watch.words.messages import Vocabulary, messages_of, vocabulary_of

SIDE = 128
"""Rows and columns of a grid where nothing else is said."""
_TURN = 2 * HALF_TURN
_FEW = 0.005
"""Share of places that may lie beyond the grid on each side."""
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class RoutingGrid:
    """Rows and columns of equal height and width; the number of a cell is ``row * columns + column``."""

    rows: int
    columns: int
    cut: float  # Of the sphere the longitude from which columns count eastwards, degrees; 0 in a plane
    x: float  # x, y: where the first column and row begin; ``x`` is east of the cut
    y: float
    width: float  # width, height: of all columns, and of all rows, in degrees or units of the CRS
    height: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows, self.columns

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.rows * self.columns


class CellRects(NamedTuple):
    """Rectangles of cells."""

    rects: NDArray[np.int64]  # int64 (p, 4). First column, first row, last column, last row
    of: NDArray[np.int64]  # int64 (p,). The rectangle of places that each belongs to, rising


def grid_of(space: Space, rects: NDArray[np.float64], rows: int = SIDE, columns: int = SIDE) -> RoutingGrid:
    """Return a grid over where most places are.

    ``rects``: float64 (n, 4). west, south, east, north, as :class:`dtoss.watch.index.covers.Covers` has them.

    Of no places it covers the globe, or a unit square of a plane. Cost O(1): of many, some are looked at.
    """
    sphere = space.metric == "sphere"
    some = rects[:: max(len(rects) // _SAMPLE, 1)]
    with np.errstate(over="ignore", invalid="ignore"):
        some = some[np.isfinite(some).all(axis=1)]
        east = np.where(sphere & (some[:, 0] > some[:, 2]), some[:, 2] + _TURN, some[:, 2])
        x, y = (some[:, 0] + east) / 2, (some[:, 1] + some[:, 3]) / 2
    whole = sphere & (east - some[:, 0] >= _TURN)
    x, y = x[~whole], y[~whole]
    if len(x) == 0:
        if sphere:
            return RoutingGrid(rows, columns, -HALF_TURN, 0.0, -QUARTER_TURN, _TURN, 2 * QUARTER_TURN)
        return RoutingGrid(rows, columns, 0.0, 0.0, 0.0, 1.0, 1.0)
    cut = _widest_gap(x) if sphere else 0.0
    first, wide = _extent(_east_of(x, cut, sphere))
    south, high = _extent(y)
    return RoutingGrid(rows, columns, cut, first, south, wide, high)


def _widest_gap(lon: NDArray[np.float64]) -> float:
    """Return a longitude in the middle of the widest stretch without places."""
    placed = np.sort(np.where(lon > HALF_TURN, lon - _TURN, lon))
    gaps = np.diff(placed, append=placed[0] + _TURN)
    at = int(gaps.argmax())
    middle = float(placed[at] + gaps[at] / 2)
    return middle - _TURN if middle > HALF_TURN else middle


def _extent(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(values, _FEW, method="lower"), np.quantile(values, 1.0 - _FEW, method="higher")
    size = float(high - low)
    # a border on each side, so that what lies at the edge has cells of its own
    return (float(low) - 0.02 * size, 1.04 * size) if size > 0.0 else (float(low) - 0.5, 1.0)


def _east_of(lon: NDArray[np.float64], cut: float, sphere: bool) -> NDArray[np.float64]:
    """Return how far east of the cut longitudes are; rising from the cut round to it."""
    return np.where(lon < cut, (lon - cut) + _TURN, lon - cut) if sphere else lon


def _numbers(values: NDArray[np.float64], first: float, size: float, count: int) -> NDArray[np.int64]:
    with np.errstate(over="ignore", invalid="ignore"):
        at = np.floor((values - first) / size * count)
    return np.clip(at, 0, count - 1).astype(np.int64)


def cells_of(grid: RoutingGrid, space: Space, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the cell of each position, int64 (n,). Cost O(n).

    ``positions``: float64 (n, 2). Legal ones.
    """
    if len(positions) == 0:
        return np.zeros(0, np.int64)
    placed = grid_positions(space, positions, space.vectors(positions))
    sphere = space.metric == "sphere"
    column = _numbers(_east_of(placed[:, 0], grid.cut, sphere), grid.x, grid.width, grid.columns)
    return _numbers(placed[:, 1], grid.y, grid.height, grid.rows) * grid.columns + column


def rects_in(grid: RoutingGrid, space: Space, rects: NDArray[np.float64]) -> CellRects:
    """Return the cells that rectangles touch: each position in a rectangle lies in one of its cells. Cost O(n).

    ``rects``: float64 (n, 4). west, south, east, north; west > east across the antimeridian.
    """
    sphere = space.metric == "sphere"
    count = len(rects)
    west = _numbers(_east_of(rects[:, 0], grid.cut, sphere), grid.x, grid.width, grid.columns)
    east = _numbers(_east_of(rects[:, 2], grid.cut, sphere), grid.x, grid.width, grid.columns)
    south = _numbers(rects[:, 1], grid.y, grid.height, grid.rows)
    north = _numbers(rects[:, 3], grid.y, grid.height, grid.rows)
    first, last = np.zeros(count, np.int64), np.full(count, grid.columns - 1)
    each = np.arange(count)
    if not sphere:
        return CellRects(np.stack([west, south, east, north], axis=1), each)
    whole = rects[:, 2] - rects[:, 0] >= _TURN
    wrapped = _east_of(rects[:, 0], grid.cut, sphere) > _east_of(rects[:, 2], grid.cut, sphere)
    parts = [
        (each, np.stack([np.where(whole, first, west), south, np.where(whole | wrapped, last, east), north], axis=1)),
        _some(wrapped & ~whole, first, south, east, north),
        # a pole is one place, whatever its longitude
        _some(~whole & (rects[:, 3] >= QUARTER_TURN), first, north, last, north),
        _some(~whole & (rects[:, 1] <= -QUARTER_TURN), first, south, last, south),
    ]
    of = np.concatenate([some for some, _ in parts])
    order = np.argsort(of, kind="stable")
    return CellRects(np.concatenate([made for _, made in parts])[order], of[order])


def _some(where: NDArray[np.bool_], *sides: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = np.flatnonzero(where)
    return rows, np.stack([side[rows] for side in sides], axis=1)


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIXED = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_KEPT_BITS = np.uint64(11)
_UNIT = 2.0**-53


class Spoken(NamedTuple):
    """Rows that words send to workers of their own, each pair once."""

    row: NDArray[np.int64]  # int64, rising
    worker: NDArray[np.int32]  # int32


@dataclass(frozen=True, eq=False)
class Routing:
    """Cells on workers, as rows are sent by them; immutable."""

    grid: RoutingGrid
    workers: int  # How many there are
    begin: NDArray[np.int64]  # int64 (cells + 1,). The parts of cell c are ``begin[c]:begin[c + 1]``, at least one
    worker: NDArray[np.int32]  # int32 (parts,)
    share: NDArray[np.float64]  # float64 (parts,). Of the cell's rows; those of a cell add to 1
    # int64 (w,), rising. Cells of which some words go to workers of their own; each has one part, the rest
    word_cell: NDArray[np.int64]
    word: pa.Array  # large_string (w,). Folded, rising within a cell
    word_worker: NDArray[np.int32]  # int32 (w,)

    @cached_property
    def _bounds(self) -> NDArray[np.float64]:
        """Where the parts of all cells end, one cell after another: cell c has ``c`` to ``c + 1``."""
        cell = np.repeat(np.arange(self.grid.cells), np.diff(self.begin))
        added = np.cumsum(self.share)
        before = np.concatenate([[0.0], added])[self.begin[:-1]]
        bounds = cell + np.minimum(added - before[cell], 1.0)
        bounds[self.begin[1:] - 1] = np.arange(1, self.grid.cells + 1)
        return bounds

    def worker_of(self, cell: NDArray[np.int64], rows: Rows) -> NDArray[np.int32]:
        """Return the worker of each row, int32 (n,): of a cell that is split by words that of the rest.

        ``cell``: int64 (n,). Of the rows; ``rows``: n rows; those that share a cell are told apart by a hash of id and
        time, or of all that they are.
        """
        found = self.worker[self.begin[cell]]
        shared = np.flatnonzero(self.begin[cell + 1] - self.begin[cell] > 1)
        if len(shared):
            mine = cell[shared]
            at = np.searchsorted(self._bounds, mine + drawn(rows.take(shared)), "right")
            found[shared] = self.worker[np.clip(at, self.begin[mine], self.begin[mine + 1] - 1)]
        return found

    @cached_property
    def split(self) -> NDArray[np.bool_]:
        """Which cells are split by words, bool (cells,)."""
        found = np.zeros(self.grid.cells, np.bool_)
        found[self.word_cell] = True
        return found

    @cached_property
    def _vocabulary(self) -> tuple[Vocabulary, NDArray[np.int64]]:
        """The words that go somewhere, and the keys of cells and words, rising, as ``word_worker`` has them."""
        coded = self.word.dictionary_encode()
        number = coded.indices.to_numpy().astype(np.int64)
        key = self.word_cell * max(len(coded.dictionary), 1) + number
        return vocabulary_of(coded.dictionary.cast(pa.large_string())), key

    @cached_property
    def _by_key(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        _, key = self._vocabulary
        order = np.argsort(key)
        return key[order], self.word_worker[order]

    def workers_of_words(self, cell: NDArray[np.int64], words: pa.Array) -> NDArray[np.int32]:
        """Return the worker of each word in a cell that is split, int32 (n,); the rest's where it goes nowhere else."""
        vocabulary, _ = self._vocabulary
        number = vocabulary.numbers_of(words.cast(pa.large_string())).astype(np.int64)
        return self._workers_of(cell, number)

    def _workers_of(self, cell: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int32]:
        keys, workers = self._by_key
        rest = self.worker[self.begin[cell]]
        if len(keys) == 0:
            return rest
        key = cell * max(len(self._vocabulary[0].offsets) - 1, 1) + number
        at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        return np.where((number >= 0) & (keys[at] == key), workers[at], rest).astype(np.int32)

    def spoken(self, cell: NDArray[np.int64], text: pa.Array) -> Spoken:
        """Return which rows of cells that are split go to which workers besides the rest, for words that they hold.

        ``cell``: int64 (n,); ``text``: string (n,).
        """
        some = np.flatnonzero(self.split[cell])
        if len(some) == 0:
            return Spoken(np.zeros(0, np.int64), np.zeros(0, np.int32))
        held = messages_of(self._vocabulary[0], text.take(pa.array(some)))
        row = np.repeat(some, np.diff(held.first))
        worker = self._workers_of(cell[row], held.words.astype(np.int64))
        other = worker != self.worker[self.begin[cell[row]]]
        pairs = np.unique(row[other] * self.workers + worker[other])
        return Spoken(pairs // self.workers, (pairs % self.workers).astype(np.int32))


def drawn(rows: Rows) -> NDArray[np.float64]:
    """Return a number from 0 up to 1 for each row, float64 (n,), which looks random and is the row's own.

    It is a hash of id and time; of rows that lack one of them, of all that they are but attributes.
    """
    found = np.zeros(len(rows), np.uint64)
    if rows.ids is not None:
        found = _mixed(found, hashes_of(rows.ids).view(np.uint64))
    if rows.t is not None:
        found = _mixed(found, rows.t.view(np.uint64))
    if rows.ids is None or rows.t is None:
        for axis in range(2):
            found = _mixed(found, np.ascontiguousarray(rows.positions[:, axis] + 0.0).view(np.uint64))
        if rows.text is not None:
            found = _mixed(found, hashes_of(rows.text).view(np.uint64))
    return np.asarray((found >> _KEPT_BITS).astype(np.float64) * _UNIT)


def _mixed(state: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a state with more stirred in: the finisher of SplitMix64."""
    with np.errstate(over="ignore"):
        value = (state ^ more) + _ODD
        for shift, factor in zip(_SHIFTS, _MIXED, strict=False):
            value = (value ^ (value >> shift)) * factor
        return np.asarray(value ^ (value >> _SHIFTS[2]))
