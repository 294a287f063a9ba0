"""Kernels of one place by itself: a number or two in, its answer out, and nothing of numpy on the way.

The steps are those of a batch, in which a place by itself has no query before it.

What kernels of one place are given: two rows of addresses, of a snapshot and of a thread's memory.

A call costs as much for two numbers as for one array, and a batch's kernels take some 25 arrays. What stays the same
from place to place stands in a row of int64, made once: an address or a count in each column.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES
from dtoss.compiled.pointers import float64_at, int32_at, int64_at, part_of, pointer, uint8_at
from dtoss.geometry.distance import EARTH_RADIUS, SPHERE, Place
from dtoss.geometry.hilbert import coarse_key
from dtoss.geometry.rounding import PRUNE
from dtoss.geometry.space import FURTHEST, HALF_TURN, QUARTER_TURN, unit_vector
from dtoss.partition import BLOCK, RADIUS
from dtoss.partitioning.partition_bounds import knows
from dtoss.partitioning.regions import Fences, nearest_region
from dtoss.queries.kernels.address_table import BALLS, OWNED_SITES, row_of
from dtoss.queries.kernels.disc_search import COUNTS, IDS_ONLY, PLACES, search
from dtoss.queries.kernels.hit_order import settle
from dtoss.queries.kernels.hit_writing import write_hits
from dtoss.queries.kernels.knn_kernel import (
    ANSWERED,
    NOT_OPEN,
    answer_at_home,
    answer_nearest,
    next_to_read,
    widen_to_others,
    write_answer,
)
from dtoss.queries.kernels.query_arguments import (
    NO_ROOM,
    Answers,
    Nearest,
    Others,
    Query,
    Ranged,
    Scratch,
    Snapshot,
    Trail,
)
from dtoss.queries.kernels.walk import block_on_curve, nearest_site

NO_PLACE = -4
"""In place of a number of hits: the place is not legal."""
TOO_SMALL = -5
"""In place of a number of hits: the memory has not been fitted to the snapshot."""
FAR_START = 8.0
"""Radii of a block's ball within which a place is near to it; where the curve jumps, the next block on it is far."""


@kernel
def near_block(row, place, bounds):
    """Return a block near a place by the curve, or -1 where there is none: then the hierarchy finds one."""
    block = block_on_curve(row, coarse_key(place, bounds))
    if block < 0:
        return block
    balls, at = float64_at(row[BALLS]), 4 * block
    a, b, c = balls[at] - place.x, balls[at + 1] - place.y, balls[at + 2] - place.z
    near = FAR_START * balls[at + RADIUS]
    return block if a * a + b * b + c * c <= near * near else -1


@kernel("int64(int64, int64, float64, float64, float64, int64[::1], float64[::1])")
def nearest_to_one(snapshot_row, memory_row, x, y, most, out_id, out_distance):
    """Write the objects nearest to a place within ``most``, as many as there is room for; returns how many these are.

    Below 0 it is why there is no answer yet: :data:`NO_PLACE`, :data:`TOO_SMALL`, or, after which the caller makes
    more room or opens what is flagged in the memory's ``need`` and asks again, ``NO_ROOM`` and ``NOT_OPEN``.

    ``x``, ``y``: A position as it was given: degrees, or CRS units in the plane; ``most``: the largest distance of a
    hit, as it is reported; infinity is none; ``out_id``: int64 (k,). The ids; not written where they are strings;
    ``out_distance``: float64 (k,).
    """
    given, mine, k = int64_at(snapshot_row), int64_at(memory_row), out_distance.size
    if not is_place(given, x, y):
        return NO_PLACE
    if not fits(given, mine):
        return TOO_SMALL
    snapshot, scratch, place = snapshot_at(given), scratch_at(mine), place_of(given, x, y)
    if k > scratch.room:
        return NO_ROOM
    query, need = query_of(place, most), uint8_at(mine[NEED_AT])
    out = answers_at(given, mine, k, pointer(out_id), pointer(out_distance))
    home = nearest_region(place, snapshot.fences, 0)
    row = row_of(snapshot.rows, home)
    if row[OWNED_SITES] < 0:
        need[home] = 1
        return NOT_OPEN
    # what the home has: often that is all
    size, alone, limit = 0, snapshot.fences.partitions == 1, query.limit
    if row[OWNED_SITES] > 0:
        nearest, block = Nearest(-1, 0.0, 0.0), near_block(row, place, snapshot.bounds)
        if k == 1:
            nearest = nearest_site(row, place, snapshot.bounds, -1, block)
            block = nearest.site // BLOCK
            if answer_nearest(snapshot, home, query, nearest, out):
                return out.hits[0]
        trail = Trail(-1, -1.0, -1, 1.0, int32_at(mine[ITEM_AT]))
        size, alone, limit, _ = answer_at_home(snapshot, home, query, block, nearest, trail, scratch, out)
    # what others own of it
    reads = 1
    if alone and size >= 0:
        settle(snapshot.rows, scratch.distance, scratch.part, scratch.item, 0, size)
    elif size >= 0:
        others = Others(need, int32_at(mine[ITEM_AT]), False)
        size, reads = widen_to_others(snapshot, home, query, k, limit, size, scratch, others)
    if size >= 0:
        write_answer(snapshot.rows, query, size, reads, scratch, out)
    return out.hits[0] if size >= 0 or size == ANSWERED else size


@kernel("int64(int64, int64, float64, float64, float64, boolean, boolean)")
def within_of_one(snapshot_row, memory_row, x, y, radius, counting, ordered):
    """Write the objects within a radius of a place to the memory of the thread, or count them; returns how many.

    Below 0 it is why there is no answer yet. Arguments as in :func:`nearest_to_one`.
    """
    given, mine = int64_at(snapshot_row), int64_at(memory_row)
    if not is_place(given, x, y):
        return NO_PLACE
    if not fits(given, mine):
        return TOO_SMALL
    snapshot, scratch, place = ranged_at(given), scratch_at(mine), place_of(given, x, y)
    query, need, out = query_of(place, radius), uint8_at(mine[NEED_AT]), listed_at(given, mine, ordered)
    asked = COUNTS if counting else PLACES if out.strings else IDS_ONLY
    far = np.sqrt(query.limit) * (1.0 + PRUNE)
    home = nearest_region(place, snapshot.fences, 0)
    row = row_of(snapshot.rows, home)
    size, alone, missing = 0, snapshot.fences.partitions == 1, row[OWNED_SITES] < 0
    if missing:
        need[home] = 1
    elif row[OWNED_SITES] > 0:
        if not alone and query.limit < np.inf:
            alone = knows(place, snapshot.fences, snapshot.reach, home, far)
        block = near_block(row, place, snapshot.bounds)
        size = search(snapshot, home, query, block, not alone, asked, 0, scratch)
    # what others own of it
    p, step = -1, -1
    if not alone:
        p, step = next_to_read(snapshot, place, home, far, step, False)
    while p >= 0 and size >= 0:
        if row_of(snapshot.rows, p)[OWNED_SITES] < 0:
            need[p] = 1
            missing = True
        else:
            size = search(snapshot, p, query, -1, True, asked, size, scratch)
        p, step = next_to_read(snapshot, place, home, far, step, False)
    if missing:
        return NOT_OPEN
    if size >= 0 and not counting:
        write_hits(snapshot.rows, query, size, 0, scratch, int64_at(mine[COUNTERS_AT]), out)
    return size


(
    ROWS_AT,
    FURTHEST_AT,
    PIVOTS_AT,
    WEIGHTS_AT,
    ORDER_AT,
    BORDER_AT,
    REACH_AT,
    BOUNDS_AT,
    PARTITIONS,
    BORDER_COUNT,
    DIMENSION,
    STRING_IDS,
    MOST_BLOCKS,
    MOST_LINKS,
    RUNS_AT,
) = range(15)
"""Columns of a snapshot's row: the arrays that a batch's kernels take first, and what says how large they are."""
(
    PLACES_AT,
    VISITS_AT,
    GAPS_AT,
    SEEN_AT,
    DISTANCE_AT,
    NEED_AT,
    PART_AT,
    ITEM_AT,
    TOLD_AT,
    READS_AT,
    ID_AT,
    FAR_AT,
    COUNTERS_AT,
    ROOM_OF_HITS,
    ROOM_OF_VISITS,
    ROOM_OF_SEEN,
    ROOM_OF_NEED,
) = range(17)
"""Columns of a thread's row: the arrays of its workspace, and what they have room for."""
COLUMNS_OF_ROW = 17
"""Of a thread's; that of a snapshot has fewer."""


@kernel
def snapshot_at(row):
    """Return the snapshot of a row."""
    fences = Fences(
        float64_at(row[PIVOTS_AT]), float64_at(row[WEIGHTS_AT]), int32_at(row[ORDER_AT]), float64_at(row[BORDER_AT]),
        row[PARTITIONS], row[BORDER_COUNT],
    )  # fmt: skip
    return Snapshot(int64_at(row[ROWS_AT]), fences, float64_at(row[REACH_AT]), float64_at(row[FURTHEST_AT]),
                    float64_at(row[BOUNDS_AT]))  # fmt: skip


@kernel
def ranged_at(row):
    """Return the snapshot of a row, with what ranges search."""
    s = snapshot_at(row)
    return Ranged(s.rows, s.fences, s.reach, s.furthest, s.bounds, int64_at(row[RUNS_AT]))


@kernel
def listed_at(row, mine, ordered):
    """Return where the hits within a radius of one place are written: to the memory of the thread."""
    strings = row[STRING_IDS] != 0
    return Answers(int64_at(mine[ID_AT]), float64_at(mine[FAR_AT]), int32_at(mine[PART_AT]), int32_at(mine[ITEM_AT]),
                  int64_at(mine[TOLD_AT]), int32_at(mine[READS_AT]), mine[ROOM_OF_HITS], strings, strings,
                  ordered)  # fmt: skip


@kernel
def scratch_at(mine):
    """Return the scratch of a thread's row; its places are cut as by ``scratch_of``."""
    room, whole = mine[ROOM_OF_HITS], int64_at(mine[PLACES_AT])
    keys, behind = part_of(whole, 0, room + LANES), room + LANES
    ordered, part = part_of(whole, behind, room), part_of(whole, behind + room, room)
    item = part_of(whole, behind + 2 * room, room)
    return Scratch(keys, ordered, part, item, float64_at(mine[DISTANCE_AT]), int32_at(mine[VISITS_AT]),
                   float64_at(mine[GAPS_AT]), uint8_at(mine[SEEN_AT]), room)  # fmt: skip


@kernel
def fits(row, mine):
    """Return whether the memory of a thread is large enough for any partition of a snapshot."""
    blocks = row[MOST_BLOCKS] + 1
    return (
        mine[ROOM_OF_SEEN] >= blocks
        and mine[ROOM_OF_VISITS] >= mine[ROOM_OF_SEEN] + row[MOST_LINKS] + 1
        and mine[ROOM_OF_NEED] >= row[PARTITIONS]
    )


@kernel
def is_place(row, x, y):
    """Return whether a position is legal; one that is not a number is none."""
    if row[DIMENSION] == SPHERE:
        return abs(x) <= HALF_TURN and abs(y) <= QUARTER_TURN
    return abs(x) <= FURTHEST and abs(y) <= FURTHEST


@kernel
def place_of(row, x, y):
    """Return the place of a legal position, with the bits that a batch has."""
    if row[DIMENSION] == SPHERE:
        a, b, c = unit_vector(x, y)
        return Place(a, b, c, SPHERE)
    return Place(x + 0.0, y + 0.0, 0.0, 2)


@kernel
def answers_at(row, mine, room, out_id, out_distance):
    """Return where the answer of one query is written: ids and distances by the pointers given."""
    strings = row[STRING_IDS] != 0
    return Answers(out_id, out_distance, int32_at(mine[PART_AT]), int32_at(mine[ITEM_AT]), int64_at(mine[TOLD_AT]),
                   int32_at(mine[READS_AT]), room, strings, strings, True)  # fmt: skip


@kernel
def query_of(place, radius):
    """Return the query of a place and the largest distance of its hits, as it is reported; infinity is none."""
    limit = radius * radius
    if place.dimension == SPHERE and radius < np.inf:
        limit = np.inf
        if radius < np.pi * EARTH_RADIUS:
            # comparisons with it allow for its rounding: only reported distances decide
            chord = 2.0 * np.sin(radius / (2.0 * EARTH_RADIUS))
            limit = chord * chord
    return Query(0, place, radius, limit, -1.0)
