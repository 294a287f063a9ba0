"""All objects within a radius: from the partition that holds a query to those that own what it does not know.

A query goes through these steps, a function each: ``search`` at home, and at others where its home does not know
all, and ``write_hits``.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import place_at
from dtoss.geometry.rounding import PRUNE
from dtoss.partitioning.partition_bounds import knows
from dtoss.partitioning.regions import fences_of, nearest_region
from dtoss.queries.kernels.address_table import OWNED_SITES, row_of
from dtoss.queries.kernels.disc_search import COUNTS, IDS_ONLY, PLACES, search
from dtoss.queries.kernels.hit_writing import write_hits
from dtoss.queries.kernels.knn_kernel import AHEAD, next_to_read
from dtoss.queries.kernels.query_arguments import Answers, Query, Ranged, scratch_of
from dtoss.queries.kernels.walk import fetch_blocks


@kernel(
    "Tuple((int64, int64))(int64[:, ::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], "
    "float64[::1], float64[::1], int64[::1], float64[:, ::1], int32[::1], int32[::1], int64, boolean, boolean, "
    "boolean, float64[::1], float64[::1], int64[::1], int32[::1], float64[::1], uint8[::1], float64[::1], int64[::1], "
    "float64[::1], int32[::1], int32[::1], int64[::1], int64[::1], int32[::1], uint8[::1])"
)
def range_kernel(rows, furthest, pivots, weights, order, border, reach, bounds, runs, queries, homes, blocks, begin,
                 strings, counting, ordered, radius, chord, places, visits, gaps, seen, distance, counts, out_distance,
                 out_part, out_item, out_id, out_count, out_reads, need):  # fmt: skip
    """Answer the queries from ``begin`` on as far as there is room; returns the query it came to and the hits written.

    The hits are negated and less one where a workspace was too small: the caller makes it larger. It keeps what is
    written, and comes again from the query that has no answer. Arguments as in ``knn_kernel``.
    """
    m, dimension = queries.shape
    fences = fences_of(pivots, weights, order, border)
    snapshot = Ranged(pointer(rows), fences, pointer(reach), pointer(furthest), pointer(bounds), pointer(runs))
    scratch = scratch_of(places, visits, gaps, seen, distance)
    out = Answers(pointer(out_id), pointer(out_distance), pointer(out_part), pointer(out_item), pointer(out_count),
                  pointer(out_reads), out_distance.size, strings, out_part.size > 0, ordered)  # fmt: skip
    q, planned = pointer(queries), homes.size > 0
    total, home = 0, -1
    asked = COUNTS if counting else PLACES if out.places or strings else IDS_ONLY
    for r in range(begin, m):
        query = Query(r, place_at(q, r, dimension), radius[r], chord[r], -1.0)
        far = np.sqrt(query.limit) * (1.0 + PRUNE)
        # which partition holds it, and which of its blocks is near: planned for a batch in curve order
        block = -1
        if planned:
            home, block = int(homes[r]), int(blocks[r])
            if r + AHEAD < m:
                fetch_blocks(row_of(snapshot.rows, int(homes[r + AHEAD])), int(blocks[r + AHEAD]), dimension)
        else:
            home = nearest_region(query.place, fences, max(home, 0))
        reads, size = 0, 0
        alone, missing = fences.partitions == 1, False
        # what the home has: all, where it knows everything within the radius
        owned = row_of(snapshot.rows, home)[OWNED_SITES]
        if owned < 0:
            need[home] = 1
            missing = True
        elif owned > 0:
            reads = 1
            if not alone and query.limit < np.inf:
                alone = knows(query.place, fences, snapshot.reach, home, far)
            size = search(snapshot, home, query, block, not alone, asked, 0, scratch)
        # what others own of it
        p, step = -1, -1
        if not alone:
            p, step = next_to_read(snapshot, query.place, home, far, step, False)
        while p >= 0 and size >= 0:
            if row_of(snapshot.rows, p)[OWNED_SITES] < 0:
                need[p] = 1
                missing = True
            else:
                reads += 1
                size = search(snapshot, p, query, -1, True, asked, size, scratch)
            p, step = next_to_read(snapshot, query.place, home, far, step, False)
        if size < 0:
            return r, -1 - total
        if missing:
            out.hits[r] = -1
            continue
        out.hits[r], out.reads[r] = size, reads
        if counting:
            continue
        if total + size > out.room:
            return r, total
        write_hits(snapshot.rows, query, size, total, scratch, pointer(counts), out)
        total += size
    return m, total
