"""All objects within radii of a batch of queries, or only how many: put in curve order, searched in pieces, joined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.hilbert import radix_order
from dtoss.queries.block_runs import addresses_of_runs
from dtoss.queries.kernels.range_kernel import range_kernel
from dtoss.queries.open_partitions import needed
from dtoss.queries.open_snapshot import SORTED_FROM, OpenSnapshot, arguments_of, chords_of, keys_of, starts_of
from dtoss.queries.raw_hits import RawHits, Written, put_together
from dtoss.queries.threads import in_pieces
from dtoss.queries.workspace import workspace

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
