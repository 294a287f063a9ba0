"""What kernels of one place are given: two rows of addresses, of a snapshot and of a thread's memory.

A call costs as much for two numbers as for one array, and a batch's kernels take some 25 arrays. What stays the same
from place to place stands in a row of int64, made once: an address or a count in each column.
"""

from __future__ import annotations

import numpy as np

from dtoss.compiled.kernel import kernel
from dtoss.compiled.lanes16 import LANES
from dtoss.compiled.pointers import float64_at, int32_at, int64_at, part_of, uint8_at
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.position import SPHERE, Place
from dtoss.geometry.space import FURTHEST, HALF_TURN, QUARTER_TURN, unit_vector
from dtoss.partitioning.borders import Fences
from dtoss.queries.kernels.query_arguments import Answers, Query, Ranged, Scratch, Snapshot

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
