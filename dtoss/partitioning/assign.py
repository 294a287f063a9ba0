"""Sending each object to its own partition, and copies of border objects to the partitions that must know them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import place_at
from dtoss.partitioning.partition_bounds import is_listed
from dtoss.partitioning.regions import Regions, fences_of, nearest_region, past_border, pivot_gap2


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where n objects go."""

    home: NDArray[np.int32]  # int32 (n,). The partition that owns each object
    # row, partition: int32 (r,). Object ``row[i]`` is also sent to ``partition[i]``; sorted by row
    row: NDArray[np.int32]
    partition: NDArray[np.int32]


@kernel(
    "int64(float64[:, ::1], float64[:, ::1], float64[::1], int32[:, ::1], float64[:, ::1], float64[::1], float64, "
    "int32[::1], int32[::1], int32[::1])"
)
def _assign(vectors, pivots, weights, order, distance, reach, furthest, home, row, partition):
    """Fill home, and row and partition as far as they have room; returns how many copies there are."""
    n, dimension = vectors.shape
    fences = fences_of(pivots, weights, order, distance)
    count, listed, border = fences.partitions, fences.listed, fences.border
    v = pointer(vectors)
    copies = 0
    i = 0
    for r in range(n):
        place = place_at(v, r, dimension)
        i = nearest_region(place, fences, i)
        home[r] = i
        gap2 = pivot_gap2(place, fences, i)
        d = np.sqrt(gap2)
        # the listed borders ascend: behind one that nobody reaches across there is none
        ended = listed == count - 1
        for t in range(i * listed, (i + 1) * listed):
            if border[t] > d + furthest:
                ended = True
                break
            j = int(fences.order[t])
            if border[t] > d + reach[j]:
                continue
            if past_border(place, fences, i, j, gap2) >= -reach[j]:
                if copies < row.size:
                    row[copies], partition[copies] = r, j
                copies += 1
        if not ended:
            for j in range(count):
                if not is_listed(fences, i, j) and past_border(place, fences, i, j, gap2) >= -reach[j]:
                    if copies < row.size:
                        row[copies], partition[copies] = r, j
                    copies += 1
    return copies


def assign(vectors: NDArray[np.float64], regions: Regions, reach: NDArray[np.float64]) -> Assignment:
    """Return the partition of each object and its copies.

    An object owned by i is also sent to every other partition j with ``f_j(o) >= -reach[j]``, so that partition j
    knows every object within reach[j] of its region, plane by plane and whatever rounding says (dissertation, section
    3.1.3).

    ``vectors``: (n, dimension); ``reach``: float64 (P,), lambda of each receiving partition, a distance or chord, not
    negative; ignored where P is 1.

    Cost O(n) with a factor that grows with the borders near an object.
    """
    n = len(vectors)
    vectors = operand(vectors)
    home = np.empty(n, np.int32)
    room = n // 4 + 64
    reach = operand(reach, dtype=np.float64)
    furthest = float(reach.max(initial=0.0)) if len(regions) > 1 else 0.0
    while True:
        row, partition = np.empty(room, np.int32), np.empty(room, np.int32)
        copies = _assign(vectors, *regions.arrays, reach, furthest, home, row, partition)
        if copies <= room:
            return Assignment(home, row[:copies], partition[:copies])
        room = copies
