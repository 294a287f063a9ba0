"""k nearest neighbours of a batch of queries: each piece in curve order, its answers written where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.hilbert import sorted_keys
from dtoss.queries.kernels.knn_kernel import knn_kernel
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import BATCH, SORTED_FROM, OpenSnapshot, arguments_of, chords_of, keys_of, starts_of
from dtoss.queries.raw_hits import RawHits, joined
from dtoss.queries.threads import LEAST, in_pieces
from dtoss.queries.workspace import workspace

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
        return joined([knn_batch(opened, *piece, k, threads, places) for piece in pieces])
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
    nearest = np.full(len(opened.parts), -1, np.int32)
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
