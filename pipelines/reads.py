"""Which partitions a request reads: its home, and those that may own an object near enough (section 3.3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.distance import EARTH_RADIUS, chord_of
from dtoss.index import Index
from dtoss.kernels import kernel, operand
from dtoss.knows import SLACK, knows, must_read
from dtoss.pointers import pointer
from dtoss.regions import Regions

HITS = 2_000_000
"""Hits that are held at a time."""


def reads_of(
    manifest: dict[str, Any],
    regions: Regions,
    vectors: NDArray[np.float64],
    home: NDArray[np.int32],
    radius: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the partitions that requests read, one pair (request, partition) for each, request by request.

    The home partition answers alone where it knows everything within the radius; otherwise every partition that may
    own an object there is read as well, as by :meth:`dtoss.Index.search`.

    Parameters
    ----------
    manifest : of the snapshot whose regions these are.
    vectors : float64 (n, dimension): where requests ask.
    home : int32 (n,): the region of each.
    radius : float64 (n,): how far a request looks, metres on the sphere, CRS units in the plane; for the k nearest,
        the distance of the k-th; infinity is everywhere.

    Notes
    -----
    Cost O(n P) at worst, O(n) where homes answer alone.
    """
    far = radius
    if vectors.shape[1] == 3:
        far = np.where(radius >= np.pi * EARTH_RADIUS, np.inf, chord_of(radius))
    far = far * (1.0 + SLACK)
    entries = manifest["partitions"]
    furthest = np.array([entry["furthest"] for entry in entries], np.float64)  # below 0: nothing to read
    reach = np.array([np.inf if value is None else value for value in manifest["reach"]], np.float64)
    return _reads(operand(vectors), operand(home, np.int32), operand(far, np.float64), *regions.arrays, reach, furthest)


@kernel(
    "Tuple((int64[::1], int32[::1]))(float64[:, ::1], int32[::1], float64[::1], float64[:, ::1], float64[::1],"
    " int32[:, ::1], float64[:, ::1], float64[::1], float64[::1])"
)
def _reads(
    vectors_: Any,
    home: Any,
    far: Any,
    pivots_: Any,
    weights_: Any,
    order_: Any,
    distance_: Any,
    reach_: Any,
    furthest_: Any,
) -> Any:
    n, dimension = vectors_.shape
    count, listed = pivots_.shape[0], order_.shape[1]
    v, pivots, weights, order = pointer(vectors_), pointer(pivots_), pointer(weights_), pointer(order_)
    distance, reach, furthest = pointer(distance_), pointer(reach_), pointer(furthest_)
    request, partition = np.empty(2 * n, np.int64), np.empty(2 * n, np.int32)
    used = 0
    for r in range(n):
        if used + count > len(request):
            request = np.concatenate((request, np.empty(used + count, np.int64)))
            partition = np.concatenate((partition, np.empty(used + count, np.int32)))
        at, i = r * dimension, int(home[r])
        x, y, z = v[at], v[at + 1], v[at + 2] if dimension == 3 else 0.0
        request[used], partition[used] = r, i
        used += 1
        if knows(x, y, z, dimension, i, far[r], count, listed, pivots, weights, order, distance, reach):
            continue
        for j in range(count):
            if j != i and furthest[j] >= 0.0 and must_read(x, y, z, dimension, i, j, far[r], pivots, weights, furthest):
                request[used], partition[used] = r, j
                used += 1
    return request[:used], partition[:used]


def furthest_hits(
    index: Index, places: NDArray[np.float64], limit: NDArray[np.float64], k: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far each request must look, float64 (n,): its k-th hit, or its limit if there are fewer.

    Parameters
    ----------
    places : float64 (n, 2), positions.
    limit : float64 (n,), metres or CRS units; infinity is none.
    k : int64 (n,); 0 asks for all within the limit.
    """
    far = limit.copy()
    asking = np.flatnonzero(k > 0)
    step = max(HITS // int(k.max(initial=1)), 1)
    for begin in range(0, len(asking), step):
        some = asking[begin : begin + step]
        found = index.search(places[some], limit[some], int(k[some].max()))
        enough = found.count >= k[some]
        last = np.cumsum(found.count) - found.count + k[some] - 1
        far[some[enough]] = found.distance[last[enough]]
    return far
