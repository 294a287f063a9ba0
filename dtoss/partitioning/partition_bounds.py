"""What a partition knows round a query, and which other partitions a query must read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.compiled.pointers import pointer
from dtoss.geometry.distance import EARTH_RADIUS, Place, chord_of, place_at
from dtoss.geometry.rounding import PRUNE
from dtoss.partitioning.regions import Regions, fences_of, furthest_past_border, nearest_region, past_border, pivot_gap2


@kernel
def knows(place, fences, reach, home, far):
    """Return whether home knows every object within ``far`` of the query: ``max_j f_j(q) + r <= lambda``.

    ``reach`` is the pointer to lambda of each partition.
    """
    gap2 = pivot_gap2(place, fences, home)
    d = np.sqrt(gap2)
    allowed = reach[home] - far - PRUNE * (d + far)
    for t in range(home * fences.listed, (home + 1) * fences.listed):
        if d - fences.border[t] <= allowed:
            return True  # f_j(q) <= |q - p_i| - border[j], and the list ascends
        if past_border(place, fences, home, int(fences.order[t]), gap2) >= allowed:
            return False
    if fences.listed < fences.partitions - 1:
        for j in range(fences.partitions):
            if j != home and past_border(place, fences, home, j, gap2) >= allowed:
                return False
    return True


class Inside(NamedTuple):
    """How far inside its home a place lies, for all that are asked near it: made by :func:`inside_from`."""

    place: Place
    home: int  # The partition that holds it; -1 where nothing is known
    depth: float  # The distance to the nearest border of its home, or less; negative where one may have been passed


@kernel
def nowhere(dimension):
    """Return what is known before any place was asked: nothing."""
    return Inside(Place(0.0, 0.0, 0.0, dimension), -1, 0.0)


@kernel
def inside_from(place, fences, home):
    """Return how far inside its home a place lies; infinitely where there is one partition only."""
    tolerance = 2.0 * PRUNE * np.sqrt(pivot_gap2(place, fences, home))
    return Inside(place, home, -furthest_past_border(place, fences, home) - tolerance)


@kernel
def inside_near(inside, place, fences, home):
    """Return what is known of the borders near a place: what was known before, unless half of it is used up."""
    if inside.home == home and holds(inside, place):
        return inside
    return inside_from(place, fences, home)


@kernel
def holds(inside, place):
    """Return whether another place surely lies in the same home, and what is known of it is enough to go on with."""
    return inside.depth > 0.0 and depth_at(inside, place) >= 0.5 * inside.depth


@kernel
def depth_at(inside, place):
    """Return how far inside its home another place lies, at the least: a border comes nearer by what one moves."""
    x, y, z = place.x - inside.place.x, place.y - inside.place.y, place.z - inside.place.z
    return inside.depth - np.sqrt(x * x + y * y + z * z) * (1.0 + PRUNE)


@kernel
def is_listed(fences, home, j):
    """Return whether j is home itself or one of its listed borders."""
    t, end = home * fences.listed, (home + 1) * fences.listed
    while t < end and fences.order[t] != j:
        t += 1
    return t < end or j == home


@kernel
def other_partition(fences, home, step):
    """Return the partition to look at in a step: first the listed borders, then the rest by number."""
    if step < fences.listed:
        return int(fences.order[home * fences.listed + step])
    left = step - fences.listed
    for j in range(fences.partitions):
        if not is_listed(fences, home, j):
            if left == 0:
                return j
            left -= 1
    return home


@kernel
def must_read(place, fences, furthest, home, j, far):
    """Return whether partition j may own an object within ``far`` of a query whose home is another one (3.3.1).

    An object is owned by j where its power is least as computed, so it may lie before the border by rounding, and the
    further it is from the two pivots, the more. ``furthest`` is the pointer to how far from each pivot objects of its
    own are found.
    """
    gap = np.sqrt(pivot_gap2(place, fences, j))
    tolerance = PRUNE * (gap + far)
    if gap - furthest[j] > far + tolerance:
        return False
    owned = min(furthest[j], gap + far)  # no object of j that counts is further from its pivot
    return past_border(place, fences, home, j, owned * owned) >= -(far + tolerance)


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

    ``vectors``: float64 (n, dimension). Where requests ask; ``home``: int32 (n,). The region of each; ``radius``:
    float64 (n,). How far a request looks, metres on the sphere, CRS units in the plane; for the k nearest, the distance
    of the k-th; infinity is everywhere.

    Cost O(n P) at worst, O(n) where homes answer alone.
    """
    entries = manifest["partitions"]
    furthest = np.array([entry["furthest"] for entry in entries], np.float64)  # below 0: nothing to read
    reach = np.array([np.inf if value is None else value for value in manifest["reach"]], np.float64)
    return owners_that_may(regions, vectors, home, far_of_radius(radius, vectors.shape[1]), furthest, reach)


def far_of_radius(radius: NDArray[np.float64], dimension: int) -> NDArray[np.float64]:
    """Return how far radii reach as vectors see it, float64 (n,): chords on the sphere, infinity from half round on."""
    if dimension == 2:
        return radius
    return np.where(radius >= np.pi * EARTH_RADIUS, np.inf, chord_of(radius))


def owners_that_may(
    regions: Regions,
    vectors: NDArray[np.float64],
    home: NDArray[np.int32],
    far: NDArray[np.float64],
    furthest: NDArray[np.float64],
    reach: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the partitions that may own an object within some distance of each place, as pairs (place, partition).

    ``vectors``: float64 (n, dimension); ``home``: int32 (n,). The region of each; ``far``: float64 (n,). Distances or
    chords, infinity for everywhere; ``furthest``: float64 (P,). How far from its pivot objects of a partition are
    found, -1 where it has none; ``reach``: float64 (P,). Lambda of each partition: where a home knows everything within
    the distance, it is alone. None where replicas do not count.

    The home is always there. Cost O(n P) at worst, O(n) where homes answer alone.
    """
    known = np.full(len(regions), -np.inf) if reach is None else reach
    wide = operand(far * (1.0 + PRUNE), np.float64)
    place, part = _reads(operand(vectors), operand(home, np.int32), wide, *regions.arrays, known, furthest)
    return place, part


def owners_near(
    regions: Regions, vectors: NDArray[np.float64], far: NDArray[np.float64], furthest: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the partitions that may own an object within some distance of each place, as pairs (place, partition).

    ``vectors``: float64 (n, dimension); ``far``: float64 (n,). Distances or chords; ``furthest``: float64 (P,). How far
    from its pivot objects of a partition are found, -1 where it has none.

    Replicas do not count: what lies in one of these partitions alone is found there. Cost O(n P).
    """
    place, part = owners_that_may(regions, vectors, regions.nearest(vectors), far, furthest)
    kept = furthest[part] >= 0.0
    return place[kept], part[kept]


@kernel(
    "Tuple((int64[::1], int32[::1]))(float64[:, ::1], int32[::1], float64[::1], float64[:, ::1], float64[::1],"
    " int32[:, ::1], float64[:, ::1], float64[::1], float64[::1])"
)
def _reads(
    vectors: Any, home: Any, far: Any, pivots: Any, weights: Any, order: Any, distance: Any, reach_: Any, furthest_: Any
) -> Any:
    n, dimension = vectors.shape
    fences = fences_of(pivots, weights, order, distance)
    count = fences.partitions
    v, reach, furthest = pointer(vectors), pointer(reach_), pointer(furthest_)
    request, partition = np.empty(2 * n, np.int64), np.empty(2 * n, np.int32)
    used = 0
    for r in range(n):
        # whatever it reads, there is room for it
        if used + count > len(request):
            request = np.concatenate((request, np.empty(used + count, np.int64)))
            partition = np.concatenate((partition, np.empty(used + count, np.int32)))
        place, i = place_at(v, r, dimension), int(home[r])
        request[used], partition[used] = r, i
        used += 1
        if knows(place, fences, reach, i, far[r]):
            continue
        for j in range(count):
            if j != i and furthest[j] >= 0.0 and must_read(place, fences, furthest, i, j, far[r]):
                request[used], partition[used] = r, j
                used += 1
    return request[:used], partition[:used]


def shares_that_suffice(
    regions: Regions,
    vectors: NDArray[np.float64],
    far: NDArray[np.float64],
    searched: NDArray[np.float64],
    furthest: NDArray[np.float64],
    reach: NDArray[np.float64],
    held: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return of which places the home is held, and nothing within a distance is owned by a partition that is not.

    ``vectors``: float64 (n, dimension); ``far``: float64 (n,). Distances or chords, infinity for everywhere;
    ``searched``: float64 (n,). How far the search looked, at least as far: only where the home knows everything up to
    there were its replicas looked at; ``held``: bool (P,). The partitions that are held.

    An empty home does not suffice: it says nothing of what is beyond. Cost O(n) where homes know enough, O(n P) else.
    """
    wide, whole = operand(far * (1.0 + PRUNE), np.float64), operand(searched * (1.0 + PRUNE), np.float64)
    return _suffice(operand(vectors), wide, whole, *regions.arrays, reach, furthest, held)


@kernel(
    "bool_[::1](float64[:, ::1], float64[::1], float64[::1], float64[:, ::1], float64[::1], int32[:, ::1],"
    " float64[:, ::1], float64[::1], float64[::1], bool_[::1])"
)
def _suffice(
    vectors: Any,
    far: Any,
    searched: Any,
    pivots: Any,
    weights: Any,
    order: Any,
    distance: Any,
    reach_: Any,
    furthest_: Any,
    held: Any,
) -> Any:
    n, dimension = vectors.shape
    fences = fences_of(pivots, weights, order, distance)
    count = fences.partitions
    v, reach, furthest = pointer(vectors), pointer(reach_), pointer(furthest_)
    enough = np.zeros(n, np.bool_)
    i = 0
    for r in range(n):
        place = place_at(v, r, dimension)
        i = nearest_region(place, fences, i)
        if not held[i] or furthest[i] < 0.0:
            continue
        found = knows(place, fences, reach, i, searched[r])
        if not found:
            found = True
            for j in range(count):
                if not held[j] and furthest[j] >= 0.0 and must_read(place, fences, furthest, i, j, far[r]):
                    found = False
                    break
        enough[r] = found
    return enough
