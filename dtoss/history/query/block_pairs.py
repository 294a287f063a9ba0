"""Which blocks concern places that are places about, each with its radius and interval, and which rows answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.distance import EARTH_RADIUS, SPHERE, chord_of, plane_distance, sphere_distance
from dtoss.geometry.rounding import NEARLY_AS_NEAR, TINY
from dtoss.geometry.space import Space
from dtoss.history.query.block_queries import first_since
from dtoss.history.query.scan_blocks import Piece
from dtoss.history.row_blocks import Blocks
from dtoss.row_runs import offsets

_TOP_BITS = 63
_ROOM = 4096
"""Pairs for which there is room at first."""
_FINEST, _DOUBLINGS = 2.0**-24, 26
"""The smallest radius that is guessed, as a share of all there is, and how often it is doubled."""


class Bounds(Protocol):
    """Boxes of vectors and spans of times: of blocks or of leaves."""

    @property
    def t_from(self) -> NDArray[Any]:
        """The earliest time of each."""

    @property
    def t_to(self) -> NDArray[Any]:
        """The latest time of each."""

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower corner of each."""

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper corner of each."""


@dataclass(frozen=True)
class Places:
    """Places that are places about: m of them."""

    vectors: NDArray[np.float64]  # float64 (m, dimension)
    radius: NDArray[np.float64]  # float64 (m,). Metres on the sphere, CRS units in the plane; closed
    first: NDArray[np.int64]  # first, last: int64 (m,). The interval of each, closed, as :func:`time_keys` counts
    last: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.radius)

    take = take_rows

    @property
    def limit2(self) -> NDArray[np.float64]:
        """The squared chord, or distance in the plane, beyond which nothing is within the radius, float64 (m,)."""
        reach = chord_of(self.radius) if self.vectors.shape[1] == SPHERE else self.radius
        far = ~np.isfinite(self.radius)
        return np.where(far, np.inf, np.where(far, 0.0, reach) ** 2 * NEARLY_AS_NEAR + TINY)


def time_keys(times: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers in the order of times as they are stored, int64 (n,).

    Examples
    --------
    >>> keys = time_keys(np.array([-np.inf, -1.5, -0.0, 0.0, 2.5]))
    >>> (np.diff(keys) > 0).tolist()
    [True, True, False, True]
    """
    if times.dtype != np.float64:
        return np.ascontiguousarray(times, dtype=np.int64)
    bits = (times + 0.0).view(np.int64)
    return np.asarray(bits ^ ((bits >> _TOP_BITS) & np.iinfo(np.int64).max), dtype=np.int64)


def touched(blocks: Bounds, places: Places) -> NDArray[np.bool_]:
    """Return which blocks may hold an answer to any of the places, bool (n,). Cost O(n m)."""
    hit = np.zeros(len(blocks.low), np.uint8)
    _touched(*_of_blocks(blocks), *_of_places(places), hit)
    return hit.view(np.bool_)


def pairs(blocks: Bounds, places: Places) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return which blocks may hold an answer to which places: numbers of both, int32 (p,), by block. Cost O(n m)."""
    room = _ROOM
    while True:
        found = np.empty((2, room), np.int32)
        count = _pairs(*_of_blocks(blocks), *_of_places(places), found[0], found[1])
        if count <= room:
            return found[0, :count].copy(), found[1, :count].copy()
        room = count


@dataclass(frozen=True)
class Rows:
    """Rows of some blocks, one block after the other, as they are compared with places."""

    begin: NDArray[np.int64]  # int64 (n + 1,). Where the rows of each block begin, and the end
    t: NDArray[np.int64]  # int64. As :func:`time_keys` counts
    vectors: NDArray[np.float64]  # float64 (rows, dimension)
    counts: NDArray[np.uint8]  # uint8. Which rows count
    by_time: bool  # Whether the rows of each block ascend by time

    @classmethod
    def of(cls, piece: Piece, space: Space) -> Rows:
        """Return the rows of a piece; those that do not count need no position."""
        places = piece.positions(np.arange(len(piece.rows)))
        good = np.ascontiguousarray(piece.good)
        if not good.all():
            places = np.where(good[:, None], places, 0.0)
        begin = offsets(piece.blocks.rows)
        t = time_keys(piece.t)
        ascends = np.append(True, t[1:] >= t[:-1])
        ascends[begin[:-1]] = True
        vectors = space.vectors(np.ascontiguousarray(places))
        return cls(begin, t, vectors, good.view(np.uint8), bool(ascends.all()))


def answers(
    rows: Rows, blocks: Blocks, places: Places
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return the rows within the radius and interval of each place: place, row and distance, by block.

    int32 (h,), int32 (h,) and float64 (h,). The distances are those that an index reports.
    """
    block, place = pairs(blocks, places)
    room = _ROOM
    vectors, limit2, first, last = _of_places(places)
    while True:
        found, far = np.empty((2, room), np.int32), np.empty(room)
        count = _answers(
            rows.begin, operand(rows.t), operand(rows.vectors), operand(rows.counts), block, place, vectors, limit2,
            operand(places.radius), first, last, rows.by_time, found[0], found[1], far,
        )  # fmt: skip
        if count <= room:
            return found[0, :count], found[1, :count], far[:count]
        room = count


def _of_blocks(blocks: Bounds) -> tuple[NDArray[Any], ...]:
    return (
        operand(blocks.low),
        operand(blocks.high),
        operand(time_keys(blocks.t_from)),
        operand(time_keys(blocks.t_to)),
    )


def _of_places(places: Places) -> tuple[NDArray[Any], ...]:
    return operand(places.vectors), operand(places.limit2), operand(places.first), operand(places.last)


class _Boxes(NamedTuple):
    """Blocks, as kernels pass them on."""

    low: Any
    high: Any
    begin: Any
    end: Any


class _PlaceArrays(NamedTuple):
    """Places, as kernels pass them on."""

    vectors: Any
    limit2: Any
    first: Any
    last: Any


@kernel
def _in_time(boxes, b, places, q):
    """Return whether a block's times meet a place's interval, and any of its rows is somewhere."""
    there = boxes.low[b, 0] <= boxes.high[b, 0]
    return there and boxes.begin[b] <= places.last[q] and boxes.end[b] >= places.first[q]


@kernel
def _in_reach(boxes, b, places, q):
    """Return whether a block's box meets a place's disc."""
    gap2 = 0.0
    for i in range(places.vectors.shape[1]):
        v = places.vectors[q, i]
        below, above = boxes.low[b, i] - v, v - boxes.high[b, i]
        gap = below if below > 0.0 else (above if above > 0.0 else 0.0)
        gap2 += gap * gap
    return gap2 <= places.limit2[q]


_BLOCKS = "float64[:, ::1], float64[:, ::1], int64[::1], int64[::1]"
_ASKED = "float64[:, ::1], float64[::1], int64[::1], int64[::1]"


@kernel(f"void({_BLOCKS}, {_ASKED}, uint8[::1])")
def _touched(low, high, begin, end, vectors, limit2, first, last, hit):
    boxes, places = _Boxes(low, high, begin, end), _PlaceArrays(vectors, limit2, first, last)
    for b in range(begin.size):
        for q in range(first.size):
            if _in_time(boxes, b, places, q) and _in_reach(boxes, b, places, q):
                hit[b] = 1
                break


@kernel(f"int64({_BLOCKS}, {_ASKED}, int32[::1], int32[::1])")
def _pairs(low, high, begin, end, vectors, limit2, first, last, block, place):
    """Return how many pairs there are, and write as many as there is room for."""
    boxes, places = _Boxes(low, high, begin, end), _PlaceArrays(vectors, limit2, first, last)
    n = 0
    for b in range(begin.size):
        for q in range(first.size):
            if _in_time(boxes, b, places, q) and _in_reach(boxes, b, places, q):
                if n < block.size:
                    block[n] = b
                    place[n] = q
                n += 1
    return n


@kernel(
    "int64(int64[::1], int64[::1], float64[:, ::1], uint8[::1], int32[::1], int32[::1], "
    f"{_ASKED.replace('int64[::1], int64[::1]', 'float64[::1], int64[::1], int64[::1]')}, boolean, "
    "int32[::1], int32[::1], float64[::1])"
)
def _answers(
    begin, t, rows, counts, blocks, places, vectors, limit2, radius, first, last, by_time, place, row, distance
):  # fmt: skip
    """Return how many rows answer, and write as many as there is room for."""
    n = 0
    for p in range(blocks.size):
        q = places[p]
        at, end = begin[blocks[p]], begin[blocks[p] + 1]
        if by_time:
            at = first_since(t, at, end, first[q])
        while at < end:
            if t[at] > last[q] and by_time:
                break
            if counts[at] and first[q] <= t[at] <= last[q]:
                far2 = 0.0
                for i in range(rows.shape[1]):
                    gap = rows[at, i] - vectors[q, i]
                    far2 += gap * gap
                if far2 <= limit2[q]:
                    if rows.shape[1] == SPHERE:
                        far = sphere_distance(
                            vectors[q, 0], vectors[q, 1], vectors[q, 2], rows[at, 0], rows[at, 1], rows[at, 2]
                        )
                    else:
                        far = plane_distance(vectors[q, 0], vectors[q, 1], rows[at, 0], rows[at, 1])
                    if far <= radius[q]:
                        if n < place.size:
                            place[n] = q
                            row[n] = at
                            distance[n] = far
                        n += 1
            at += 1
    return n


def guessed(bounds: Bounds, rows: NDArray[Any], places: Places, wanted: float, space: Space) -> NDArray[np.float64]:
    """Return radii within which about so many rows are expected, float64 (m,): as if rows lay evenly in their boxes.

    Infinite where all the rows that can be in the interval are fewer.
    """
    there = bounds.low[:, 0] <= bounds.high[:, 0]
    extent = 1.0
    if space.dimension < SPHERE and there.any():
        extent = float((bounds.high[there].max(axis=0) - bounds.low[there].min(axis=0)).max())
    out = np.empty(len(places))
    finest = max(extent, TINY) * _FINEST
    _guessed(*_of_blocks(bounds), *_of_places(places), rows.astype(np.float64), wanted, finest, out)
    return out * EARTH_RADIUS if space.dimension == SPHERE else out


@kernel(f"void({_BLOCKS}, {_ASKED}, float64[::1], float64, float64, float64[::1])")
def _guessed(low, high, begin, end, vectors, limit2, first, last, rows, wanted, finest, out):
    boxes, places = _Boxes(low, high, begin, end), _PlaceArrays(vectors, limit2, first, last)
    for q in range(out.size):
        # the larger the radius, the more rows are expected
        few, enough = -1, _DOUBLINGS
        while enough - few > 1:
            middle = (few + enough) // 2
            radius = finest * (1 << middle)
            expected = 0.0
            for b in range(rows.size):
                if _in_time(boxes, b, places, q):
                    expected += rows[b] * _share(boxes, b, places, q, radius)
                    if expected >= wanted:
                        break
            if expected >= wanted:
                enough = middle
            else:
                few = middle
        out[q] = finest * (1 << enough) if enough < _DOUBLINGS else np.inf


@kernel
def _share(boxes, b, places, q, radius):
    """Return the share of a block's rows that is expected in an interval and a square."""
    share, largest = 1.0, 0.0
    for i in range(places.vectors.shape[1]):
        v, low, high = places.vectors[q, i], boxes.low[b, i], boxes.high[b, i]
        inside = min(high, v + radius) - max(low, v - radius)
        if inside < 0.0:
            return 0.0
        part = inside / (high - low) if high > low else 1.0
        share *= part
        largest = max(largest, part)
    if places.vectors.shape[1] == SPHERE:
        share /= max(largest, TINY)  # places are on a surface, not in all of the box
    span = float(boxes.end[b]) - float(boxes.begin[b])
    if span > 0.0:
        first, last = max(boxes.begin[b], places.first[q]), min(boxes.end[b], places.last[q])
        share *= max(float(last) - float(first), 1.0) / span
    return share
