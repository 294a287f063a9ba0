"""k nearest neighbours of a batch of queries: each piece in curve order, its answers written where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.curve import radix_order
from dtoss.queries.kernels.knn_kernel import knn_kernel
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import BATCH, SORTED_FROM, OpenSnapshot, arguments_of, chords_of, keys_of, starts_of
from dtoss.queries.raw_hits import RawHits, joined
from dtoss.queries.threads import in_pieces
from dtoss.queries.workspace import workspace


def knn_batch(
    opened: OpenSnapshot, queries: NDArray[np.float64], radius: NDArray[np.float64], k: int, threads: int
) -> RawHits:
    """Answer a batch; as :func:`dtoss.queries.answer.answer`."""
    m = len(queries)
    k = min(k, max(opened.objects, 1))
    step = max(BATCH // k, 1)
    if m > step:
        pieces = [(queries[a : a + step], radius[a : a + step]) for a in range(0, m, step)]
        return joined([knn_batch(opened, *piece, k, threads) for piece in pieces])
    ids = np.empty((0, 0) if opened.string_ids else (m, k), np.int64)
    distance = np.empty((m, k))
    part, item = np.empty((m, k), np.int32), np.empty((m, k), np.int32)
    count, reads = np.empty(m, np.int64), np.empty(m, np.int32)
    out = (ids, distance, part, item, count, reads)
    if m < SORTED_FROM:
        _knn_rows(opened, queries, np.zeros(0, np.int64), radius, k, out)
    else:
        _knn_sorted(opened, queries, radius, k, threads, out)
    if m == 1:
        size = int(count[0])
        return RawHits(
            count,
            part[0, :size],
            item[0, :size],
            distance[0, :size],
            None if opened.string_ids else ids[0, :size],
            reads,
        )
    if (count == k).all():
        columns: list[NDArray[Any]] = [a.reshape(-1) for a in (part, item, distance, ids)]
    else:
        flat = (np.arange(k) < count[:, None]).reshape(-1)
        columns = [a.reshape(-1)[flat] if a.size else a.reshape(-1) for a in (part, item, distance, ids)]
    return RawHits(count, columns[0], columns[1], columns[2], None if opened.string_ids else columns[3], reads)


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
        _knn_rows(opened, queries[a:b], keys[a:b], radius[a:b], k, tuple(column[a:b] for column in out))
        return np.zeros(0, np.int64)

    def in_order(a: int, b: int) -> None:
        rows = order[a:b]
        some = tuple(np.empty((b - a if len(column) else 0, *column.shape[1:]), column.dtype) for column in out)
        _knn_rows(opened, queries[rows], keys[rows], radius[rows], k, some)
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
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    radius: NDArray[np.float64],
    k: int,
    out: tuple[NDArray[Any], ...],
) -> None:
    """Fill the answers of a piece; queries that need partitions which are not open are answered in a second round."""
    need = np.zeros(len(opened.parts), np.uint8)
    table = opened.parts.table
    workspace.fit(table)
    homes, blocks = starts_of(opened, table, queries, keys)
    arguments = arguments_of(opened, table)
    chord = chords_of(opened, radius)
    at = 0
    while True:
        at = knn_kernel(
            *arguments,
            queries,
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
        )
        if at == len(queries):
            break
        workspace.grow()
    workspace.trim()
    if need.any():
        opened.parts.open(needed(need))
        rows = np.flatnonzero(out[4] < 0)
        again = tuple(a[rows] if a.size else a for a in out)
        _knn_rows(opened, queries[rows], keys[rows] if len(keys) else keys, radius[rows], k, again)
        _put(out, rows, again)
