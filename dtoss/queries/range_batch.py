"""All objects within radii of a batch of queries, or only how many: put in curve order, searched in pieces, joined."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.curve import radix_order
from dtoss.queries.kernels.range_kernel import range_kernel
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import BATCH, SORTED_FROM, OpenSnapshot, arguments_of, chords_of, keys_of, starts_of
from dtoss.queries.raw_hits import RawHits, joined, unsorted
from dtoss.queries.threads import in_pieces
from dtoss.queries.workspace import workspace


def range_batch(
    opened: OpenSnapshot, queries: NDArray[np.float64], radius: NDArray[np.float64], counting: bool, threads: int
) -> RawHits:
    """Answer a batch; as :func:`dtoss.queries.answer.answer`."""
    m = len(queries)
    order: NDArray[np.int32] | None = None
    keys = np.zeros(0, np.int64)
    if m >= SORTED_FROM:
        keys = np.concatenate(in_pieces(m, threads, lambda a, b: keys_of(opened, queries[a:b])))
        if (keys[1:] < keys[:-1]).any():
            order = radix_order(keys)
            queries, radius, keys = queries[order], radius[order], keys[order]

    def piece(a: int, b: int) -> RawHits:
        return _range_piece(opened, queries[a:b], keys[a:b], radius[a:b], counting)

    found = joined(in_pieces(m, threads, piece))
    return found if order is None else unsorted(found, order)


def _range_piece(
    opened: OpenSnapshot,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    radius: NDArray[np.float64],
    counting: bool,
) -> RawHits:
    m = len(queries)
    need = np.zeros(len(opened.parts), np.uint8)
    table = opened.parts.table
    workspace.fit(table)
    homes, blocks = starts_of(opened, table, queries, keys)
    arguments = arguments_of(opened, table)
    chord = chords_of(opened, radius)
    # memory that is not written costs nothing; what has to be joined is copied
    room = 0 if counting else min(1024 * m + 4096, 4 * BATCH)
    count, reads = np.zeros(m, np.int64), np.zeros(m, np.int32)
    parts: list[tuple[NDArray[Any], ...]] = []
    at = 0
    while True:
        out_distance, out_id = np.empty(room), np.empty(0 if opened.string_ids else room, np.int64)
        out_part, out_item = np.empty(room, np.int32), np.empty(room, np.int32)
        came, total = range_kernel(
            *arguments,
            queries,
            homes,
            blocks,
            at,
            opened.string_ids,
            counting,
            radius,
            chord,
            *workspace.arrays,
            workspace.counters,
            out_distance,
            out_part,
            out_item,
            out_id,
            count,
            reads,
            need,
        )
        if need.any():
            opened.parts.open(needed(need))
            return _range_piece(opened, queries, keys, radius, counting)
        if total < 0:
            total = -1 - total
            workspace.grow()
        elif came < m and total == 0:
            room *= 4
        if total > 0:
            keep = slice(0, total)
            parts.append((out_part[keep], out_item[keep], out_distance[keep], out_id[keep]))
        at = came
        if at == m:
            break
    workspace.trim()
    columns = (
        [np.concatenate([p[c] for p in parts]) if parts else _EMPTY[c] for c in range(4)]
        if len(parts) != 1
        else parts[0]
    )
    part, item, distance, ids = (np.asarray(column) for column in columns)
    return RawHits(count, part, item, distance, None if opened.string_ids else ids, reads)


_EMPTY = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int64))
