"""Answering batches: put in curve order, split among threads, run through the kernels, put back."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.blocks import BLOCK
from dtoss.curve import curve_keys, radix_order
from dtoss.distance import EARTH_RADIUS, chord_of
from dtoss.knn_kernel import knn_kernel
from dtoss.lanes import LANES
from dtoss.parts import Parts, needed
from dtoss.range_kernel import range_kernel
from dtoss.regions import Regions
from dtoss.ring_sort import RINGS
from dtoss.table import Table
from dtoss.threads import in_pieces
from dtoss.walk import plan_starts

SORTED_FROM = 16
"""Queries from which on a batch is put in curve order first."""
BATCH = 4_000_000
"""Hits that one kernel call makes room for at the most, unless one query has more."""


@dataclass(frozen=True)
class Found:
    """Raw hits of a batch, query by query: which partition, which object in it, how far."""

    count: NDArray[np.int64]
    part: NDArray[np.int32]
    item: NDArray[np.int32]
    distance: NDArray[np.float64]
    ids: NDArray[np.int64] | None
    reads: NDArray[np.int32]


@dataclass(frozen=True)
class World:
    """What the kernels read: the partitions, and which of them a query concerns.

    Parameters
    ----------
    box : float64 (4,): the bounds of a planar index, zeros on the sphere.
    objects : how many there are in all.
    """

    parts: Parts
    regions: Regions
    reach: NDArray[np.float64]
    box: NDArray[np.float64]
    dimension: int
    string_ids: bool
    objects: int


class Scratch(threading.local):
    """Workspaces of the kernels, one for each thread, that grow to what its queries need."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, np.uint8)
        self.visits = np.empty(0, np.int32)
        self.gaps = np.empty(0)
        self.counters = np.empty(RINGS + 1, np.int64)
        self._make_room(512)

    def fit(self, table: Table) -> None:
        """Make room for visits to all blocks of any partition."""
        blocks = table.most_blocks + 1
        if len(self.seen) < blocks or len(self.visits) < len(self.seen) + table.most_links + 1:
            self.seen = np.zeros(max(blocks, len(self.seen)), np.uint8)
            self.visits = np.empty(len(self.seen) + table.most_links + 1, np.int32)
            self.gaps = np.empty(BLOCK * len(self.seen))

    def grow(self) -> None:
        """Double what a query may list and hit."""
        self._make_room(2 * len(self.distance))

    def _make_room(self, hits: int) -> None:
        self.distance = np.empty(hits)
        self.places = np.empty(4 * hits + LANES, np.int64)


_scratch = Scratch()


def answer(world: World, queries: NDArray[np.float64], radius: NDArray[np.float64], k: int, threads: int = 1) -> Found:
    """Answer a batch: the k nearest for k > 0, all within the radius for 0, only their number for -1.

    Parameters
    ----------
    queries : (m, dimension) vectors.
    radius : float64 (m,): metres on the sphere, CRS units in the plane.
    """
    if k > 0:
        return _knn(world, queries, radius, k, threads)
    m = len(queries)
    order: NDArray[np.int32] | None = None
    keys = np.zeros(0, np.int64)
    if m >= SORTED_FROM:
        keys = _concatenated(in_pieces(m, threads, lambda a, b: _keys(world, queries[a:b])))
        if (keys[1:] < keys[:-1]).any():
            order = radix_order(keys)
            queries, radius, keys = queries[order], radius[order], keys[order]
    found = _joined(in_pieces(m, threads, lambda a, b: _range_piece(world, queries[a:b], keys[a:b], radius[a:b], k)))
    return found if order is None else _unsorted(found, order)


def _keys(world: World, queries: NDArray[np.float64]) -> NDArray[np.int64]:
    return curve_keys(queries, world.box if world.dimension == 2 else None, coarse=True)


def _concatenated(pieces: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _starts(
    world: World, table: Table, queries: NDArray[np.float64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return where the queries of a batch in curve order start; empty arrays for queries by themselves."""
    homes, blocks = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    if len(keys):
        r = world.regions
        plan_starts(table.rows, r.pivots, r.weights, r.borders.order, r.borders.distance, queries, keys, homes, blocks)
    return homes, blocks


def _world_arguments(world: World, table: Table) -> tuple[Any, ...]:
    r = world.regions
    return (
        table.rows,
        table.furthest,
        r.pivots,
        r.weights,
        r.borders.order,
        r.borders.distance,
        world.reach,
        world.box,
    )


def _chords(world: World, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances, as vectors see them, of radii; infinity from half round the Earth on."""
    if world.dimension == 2 or (len(radius) and radius[0] == np.inf and (len(radius) == 1 or (radius == np.inf).all())):
        return radius * radius
    return np.where(radius >= np.pi * EARTH_RADIUS, np.inf, chord_of(radius) ** 2)


def _knn(world: World, queries: NDArray[np.float64], radius: NDArray[np.float64], k: int, threads: int) -> Found:
    m = len(queries)
    k = min(k, max(world.objects, 1))
    step = max(BATCH // k, 1)
    if m > step:
        pieces = [(queries[a : a + step], radius[a : a + step]) for a in range(0, m, step)]
        return _joined([_knn(world, *piece, k, threads) for piece in pieces])
    ids = np.empty((0, 0) if world.string_ids else (m, k), np.int64)
    distance = np.empty((m, k))
    part, item = np.empty((m, k), np.int32), np.empty((m, k), np.int32)
    count, reads = np.empty(m, np.int64), np.empty(m, np.int32)
    out = (ids, distance, part, item, count, reads)
    if m < SORTED_FROM:
        _knn_rows(world, queries, np.zeros(0, np.int64), radius, k, out)
    else:
        _knn_sorted(world, queries, radius, k, threads, out)
    if m == 1:
        size = int(count[0])
        return Found(
            count,
            part[0, :size],
            item[0, :size],
            distance[0, :size],
            None if world.string_ids else ids[0, :size],
            reads,
        )
    if (count == k).all():
        columns: list[NDArray[Any]] = [a.reshape(-1) for a in (part, item, distance, ids)]
    else:
        flat = (np.arange(k) < count[:, None]).reshape(-1)
        columns = [a.reshape(-1)[flat] if a.size else a.reshape(-1) for a in (part, item, distance, ids)]
    return Found(count, columns[0], columns[1], columns[2], None if world.string_ids else columns[3], reads)


def _knn_sorted(
    world: World,
    queries: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: int,
    threads: int,
    out: tuple[NDArray[Any], ...],
) -> None:
    """Fill the answers of a batch: at once those of pieces that are in curve order, then the others in that order.

    Most batches that are in order are so in each piece, and a thread is woken once for all of its work.
    """
    keys = np.empty(len(queries), np.int64)

    def at_once(a: int, b: int) -> NDArray[np.int64]:
        """Return the rows that are left."""
        keys[a:b] = _keys(world, queries[a:b])
        if (keys[a + 1 : b] < keys[a : b - 1]).any():
            return np.arange(a, b)
        _knn_rows(world, queries[a:b], keys[a:b], radius[a:b], k, tuple(column[a:b] for column in out))
        return np.zeros(0, np.int64)

    def in_order(a: int, b: int) -> None:
        rows = order[a:b]
        some = tuple(np.empty((b - a if len(column) else 0, *column.shape[1:]), column.dtype) for column in out)
        _knn_rows(world, queries[rows], keys[rows], radius[rows], k, some)
        _put(out, rows, some)

    left = np.concatenate(in_pieces(len(queries), threads, at_once))
    if len(left):
        order = left[radix_order(keys[left])]
        in_pieces(len(order), threads, in_order)


def _put(whole: tuple[NDArray[Any], ...], rows: NDArray[Any], some: tuple[NDArray[Any], ...]) -> None:
    for column, values in zip(whole, some, strict=True):
        if column.size:
            column[rows] = values


def _knn_rows(
    world: World,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    radius: NDArray[np.float64],
    k: int,
    out: tuple[NDArray[Any], ...],
) -> None:
    """Fill the answers of a piece; queries that need partitions which are not open are answered in a second round."""
    scratch = _scratch
    need = np.zeros(len(world.parts), np.uint8)
    table = world.parts.table
    scratch.fit(table)
    homes, blocks = _starts(world, table, queries, keys)
    arguments = _world_arguments(world, table)
    chord = _chords(world, radius)
    at = 0
    while True:
        at = knn_kernel(
            *arguments,
            queries,
            homes,
            blocks,
            at,
            k,
            world.string_ids,
            radius,
            chord,
            scratch.places,
            scratch.visits,
            scratch.gaps,
            scratch.seen,
            scratch.distance,
            *out,
            need,
        )
        if at == len(queries):
            break
        scratch.grow()
    if need.any():
        world.parts.open(needed(need))
        rows = np.flatnonzero(out[4] < 0)
        again = tuple(a[rows] if a.size else a for a in out)
        _knn_rows(world, queries[rows], keys[rows] if len(keys) else keys, radius[rows], k, again)
        _put(out, rows, again)


def _range_piece(
    world: World, queries: NDArray[np.float64], keys: NDArray[np.int64], radius: NDArray[np.float64], k: int
) -> Found:
    m = len(queries)
    counting = k < 0
    scratch = _scratch
    need = np.zeros(len(world.parts), np.uint8)
    table = world.parts.table
    scratch.fit(table)
    homes, blocks = _starts(world, table, queries, keys)
    arguments = _world_arguments(world, table)
    chord = _chords(world, radius)
    # memory that is not written costs nothing; what has to be joined is copied
    room = 0 if counting else min(1024 * m + 4096, 4 * BATCH)
    count, reads = np.zeros(m, np.int64), np.zeros(m, np.int32)
    parts: list[tuple[NDArray[Any], ...]] = []
    at = 0
    while True:
        out_distance, out_id = np.empty(room), np.empty(0 if world.string_ids else room, np.int64)
        out_part, out_item = np.empty(room, np.int32), np.empty(room, np.int32)
        came, total = range_kernel(
            *arguments,
            queries,
            homes,
            blocks,
            at,
            world.string_ids,
            counting,
            radius,
            chord,
            scratch.places,
            scratch.visits,
            scratch.gaps,
            scratch.seen,
            scratch.distance,
            scratch.counters,
            out_distance,
            out_part,
            out_item,
            out_id,
            count,
            reads,
            need,
        )
        if need.any():
            world.parts.open(needed(need))
            return _range_piece(world, queries, keys, radius, k)
        if total < 0:
            total = -1 - total
            scratch.grow()
        elif came < m and total == 0:
            room *= 4
        if total > 0:
            keep = slice(0, total)
            parts.append((out_part[keep], out_item[keep], out_distance[keep], out_id[keep]))
        at = came
        if at == m:
            break
    columns = (
        [np.concatenate([p[c] for p in parts]) if parts else _EMPTY[c] for c in range(4)]
        if len(parts) != 1
        else parts[0]
    )
    part, item, distance, ids = (np.asarray(column) for column in columns)
    return Found(count, part, item, distance, None if world.string_ids else ids, reads)


_EMPTY = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))


def _joined(pieces: list[Found]) -> Found:
    if len(pieces) == 1:
        return pieces[0]
    ids = None if pieces[0].ids is None else np.concatenate([p.ids for p in pieces if p.ids is not None])
    return Found(
        count=np.concatenate([p.count for p in pieces]),
        part=np.concatenate([p.part for p in pieces]),
        item=np.concatenate([p.item for p in pieces]),
        distance=np.concatenate([p.distance for p in pieces]),
        ids=ids,
        reads=np.concatenate([p.reads for p in pieces]),
    )


def _unsorted(found: Found, order: NDArray[np.int32]) -> Found:
    """Put a batch that was answered in curve order back into the order of its rows."""
    count = np.empty_like(found.count)
    count[order] = found.count
    reads = np.empty_like(found.reads)
    reads[order] = found.reads
    if len(found.part) == 0:
        return Found(count, found.part, found.item, found.distance, found.ids, reads)
    begin = np.cumsum(count) - count
    size = found.count
    if (size == size[0]).all():
        shape = (len(size), int(size[0]))

        def back(a: NDArray[Any]) -> NDArray[Any]:
            out = np.empty(shape, a.dtype)
            out[order] = a.reshape(shape)
            return out.reshape(-1)
    else:
        target = np.repeat(begin[order] - (np.cumsum(size) - size), size) + np.arange(len(found.part))

        def back(a: NDArray[Any]) -> NDArray[Any]:
            out = np.empty_like(a)
            out[target] = a
            return out

    return Found(
        count,
        back(found.part),
        back(found.item),
        back(found.distance),
        None if found.ids is None else back(found.ids),
        reads,
    )
