"""Answering batches: who is near, or how many are.

All objects within radii of a batch of queries, or only how many: put in curve order, searched in pieces, joined.

k nearest neighbours of a batch of queries: each piece in curve order, its answers written where they belong.

Long answers a piece at a time: as many queries as have so many hits, or a part of the hits of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.geometry.hilbert import radix_order, sorted_keys
from dtoss.queries.kernels.knn_kernel import knn_kernel
from dtoss.queries.kernels.range_kernel import range_kernel
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import (
    BATCH,
    SORTED_FROM,
    OpenSnapshot,
    addresses_of_runs,
    arguments_of,
    chords_of,
    keys_of,
    starts_of,
)
from dtoss.queries.raw_hits import RawHits, Written, put_together
from dtoss.queries.threads import LEAST, in_pieces
from dtoss.queries.workspace import workspace


def answer(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: int,
    threads: int = 1,
    *,
    places: bool = True,
    ordered: bool = True,
) -> RawHits:
    """Answer a batch: the k nearest for k > 0, all within the radius for 0, only their number for -1.

    ``queries``: (m, dimension) vectors; ``radius``: float64 (m,). Metres on the sphere, CRS units in the plane;
    ``threads``: A batch is split among so many; the answer is the same; ``ordered``: whether hits within a radius are
    wanted in the order (distance, id).
    """
    if k > 0:
        return knn_batch(opened, queries, radius, k, threads, places)
    return range_batch(opened, queries, radius, threads, k < 0, places, ordered)


MORE = 4
"""Times the room that a query with more hits than there is room for is given."""


def range_batch(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    radius: NDArray[np.float64],
    threads: int,
    counting: bool = False,
    places: bool = True,
    ordered: bool = True,
) -> RawHits:
    """Answer a batch; as :func:`dtoss.queries.batch_answer.answer`."""
    m = len(queries)
    order: NDArray[np.int32] | None = None
    keys = np.zeros(0, np.int64)
    if m >= SORTED_FROM:
        keys = np.concatenate(in_pieces(m, threads, lambda a, b: keys_of(opened, queries[a:b])))
        if (keys[1:] < keys[:-1]).any():
            order = radix_order(keys)
            queries, radius, keys = queries[order], radius[order], keys[order]
    reads = np.zeros(m, np.int32)
    places = not counting and (places or opened.string_ids)

    def piece(a: int, b: int) -> list[Written]:
        rows = slice(a, b)
        return _range_piece(
            opened, queries[rows], keys[rows], radius[rows], (counting, ordered, places), reads[rows], b - a == m
        )

    found = [written for some in in_pieces(m, threads, piece) for written in some]
    return put_together(found, reads, order, opened.string_ids)


def _range_piece(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    radius: NDArray[np.float64],
    asked: tuple[bool, bool, bool],
    reads: NDArray[np.int32],
    whole: bool,
) -> list[Written]:
    """Return what is found: where this is the whole batch, in memory that the next one is written to."""
    m = len(queries)
    counting, ordered, places = asked
    need = np.zeros(len(opened.parts), np.uint8)
    table = opened.parts.table
    workspace.fit(table)
    homes, blocks = starts_of(opened, table, queries, keys, np.zeros(0, np.int32))
    arguments, runs = arguments_of(opened, table), addresses_of_runs(table)
    chord = chords_of(opened, radius)
    count = np.zeros(m, np.int64)
    written: list[Written] = []
    room = 0 if counting else workspace.sizes.written
    out = workspace.columns(room, places, not opened.string_ids, whole)
    at = 0
    while True:
        came, total = range_kernel(
            *arguments,
            runs,
            queries,
            homes,
            blocks,
            at,
            opened.string_ids,
            counting,
            ordered,
            radius,
            chord,
            *workspace.arrays,
            workspace.counters,
            *out,
            count,
            reads,
            need,
        )
        if need.any():
            opened.parts.open(needed(need))
            return _range_piece(opened, queries, keys, radius, asked, reads, whole)
        if total < 0:
            workspace.grow()
        elif came < m and total == 0:
            room *= MORE
        if came > at:
            written.append(Written(count[at:came], (out[1], out[2], out[0], out[3])))
        at = came
        if at == m:
            break
        out = workspace.columns(room, places, not opened.string_ids, False)
    workspace.trim()
    return written


SHORT = 2048
"""Hits of a piece of a batch below which another thread takes longer to wake than to answer."""


def knn_batch(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    radius: NDArray[np.float64],
    k: int,
    threads: int,
    places: bool = True,
) -> RawHits:
    """Answer a batch; as :func:`dtoss.queries.batch_answer.answer`."""
    m = len(queries)
    k = min(k, max(opened.objects, 1))
    step = max(BATCH // k, 1)
    if m > step:
        pieces = [(queries[a : a + step], radius[a : a + step]) for a in range(0, m, step)]
        return join_rows([knn_batch(opened, *piece, k, threads, places) for piece in pieces])
    places = places or opened.string_ids
    ids = np.empty((0, 0) if opened.string_ids else (m, k), np.int64)
    distance = np.empty((m, k))
    shape = (m, k) if places else (0, 0)
    part, item = np.empty(shape, np.int32), np.empty(shape, np.int32)
    count, reads = np.empty(m, np.int64), np.empty(m, np.int32)
    out = (ids, distance, part, item, count, reads)
    if m < SORTED_FROM:
        _knn_rows(opened, queries, np.zeros(0, np.int64), _ALL, radius, k, out)
    else:
        _knn_sorted(opened, queries, radius, k, threads, out)
    if m == 1:
        size = int(count[0])
        columns: list[NDArray[Any]] = [a[0, :size] if a.size else a.reshape(-1) for a in (part, item, distance, ids)]
    elif (count == k).all():
        columns = [a.reshape(-1) for a in (part, item, distance, ids)]
    else:
        flat = (np.arange(k) < count[:, None]).reshape(-1)
        columns = [a.reshape(-1)[flat] if a.size else a.reshape(-1) for a in (part, item, distance, ids)]
    return RawHits(count, columns[0], columns[1], columns[2], None if opened.string_ids else columns[3], reads)


_ALL = np.zeros(0, np.int32)
"""In place of the rows of some queries: all of them."""


def _knn_sorted(
    opened: OpenSnapshot,
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
        keys[a:b] = keys_of(opened, queries[a:b])
        if (keys[a + 1 : b] < keys[a : b - 1]).any():
            return np.arange(a, b)
        _knn_rows(opened, queries[a:b], keys[a:b], _ALL, radius[a:b], k, tuple(column[a:b] for column in out))
        return np.zeros(0, np.int64)

    def in_order(a: int, b: int) -> None:
        _knn_rows(opened, queries, along[a:b], rows[a:b], radius, k, out)

    least = max(SHORT // k, LEAST)
    left = np.concatenate(in_pieces(len(queries), threads, at_once, least))
    if len(left):
        order, along = sorted_keys(keys[left] if len(left) < len(keys) else keys)
        rows = order if len(left) == len(keys) else left[order].astype(np.int32)
        in_pieces(len(rows), threads, in_order, least)


def _knn_rows(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    asked: NDArray[np.int32],
    radius: NDArray[np.float64],
    k: int,
    out: tuple[NDArray[Any], ...],
) -> None:
    """Fill the answers of the rows that are asked for, all where none are named; ``keys`` are these rows'.

    Queries that need partitions which are not open are answered in a second round.
    """
    need = np.zeros(len(opened.parts), np.uint8)
    table = opened.parts.table
    workspace.fit(table)
    homes, blocks = starts_of(opened, table, queries, keys, asked)
    arguments = arguments_of(opened, table)
    chord = chords_of(opened, radius)
    nearest = np.full(len(opened.parts) + k, -1, np.int32)
    rows = len(asked) or len(queries)
    at = 0
    while True:
        at = knn_kernel(
            *arguments,
            queries,
            asked,
            homes,
            blocks,
            at,
            k,
            opened.string_ids,
            radius,
            chord,
            *workspace.arrays,
            *out,
            need,
            nearest,
        )
        if at == rows:
            break
        workspace.grow()
    workspace.trim()
    if need.any():
        opened.parts.open(needed(need))
        count = out[4]
        left = np.flatnonzero((count[asked] if len(asked) else count) < 0)
        again = asked[left] if len(asked) else left.astype(np.int32)
        _knn_rows(opened, queries, keys[left] if len(keys) else keys, again, radius, k, out)


COUNTED = 4096
"""Queries whose hits are counted at a time."""


def pieces_of(
    queries: int,
    most: int,
    count: Callable[[slice], NDArray[np.int64]],
    search: Callable[[slice], RawHits],
    counted: int = COUNTED,
) -> Iterator[tuple[int, RawHits]]:
    """Yield the first query and the hits of each piece, in order: at most ``most`` hits, and never none.

    ``most``: hits in a piece, at least 1.

    Holds at a time ``most`` hits, or those of one query where these are more.

    Examples
    --------
    >>> sizes = np.array([2, 0, 1, 7])
    >>> def found(rows):
    ...     total, empty = sizes[rows].sum(), np.zeros(0, np.int32)
    ...     return RawHits(sizes[rows], empty, empty, np.zeros(total), np.arange(total), np.zeros(0, np.int32))
    >>> [(first, hits.count.tolist()) for first, hits in pieces_of(4, 3, sizes.__getitem__, found)]
    [(0, [2, 0, 1]), (3, [3]), (3, [3]), (3, [1])]
    """
    for begin in range(0, queries, counted):
        counts = count(slice(begin, min(begin + counted, queries)))
        ends = np.cumsum(counts)
        first = 0
        while first < len(counts):
            before = int(ends[first] - counts[first])
            last = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
            if ends[last - 1] > before:
                found = search(slice(begin + first, begin + last))
                for part in _parts(found, most):
                    yield begin + first, part
            first = last


def _parts(found: RawHits, most: int) -> Iterator[RawHits]:
    """Yield hits that are those of one query, if they are more than ``most``, so many at a time."""
    total = len(found.distance)
    if total <= most:
        yield found
        return
    for at in range(0, total, most):
        rows = slice(at, min(at + most, total))
        yield replace(
            found,
            count=np.array([rows.stop - at]),
            part=found.part[rows],
            item=found.item[rows],
            distance=found.distance[rows],
            ids=None if found.ids is None else found.ids[rows],
        )
