"""Closed curves on the map: densified where it bends them, unrolled over the antimeridian, and open to the north.

A polygon of the sphere is bounded by rings with the interior on their left. On the map a ring is a curve that may go
round a pole, so that it ends one turn beside its beginning. Each is closed over the north pole. Then the places of a
polygon are those that its rings wind round once in all, or not at all where it is *turned out*: a polygon that holds
the south pole, or all that several rings leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import space_of
from dtoss.row_runs import offsets
from dtoss.tiles.map_frame import Frame

TOLERANCE = 2.0**-26
"""How far, in sides of the map, a chain of segments may leave the curve that it stands for: 0.6 m at the equator."""
ARC = 0.5
"""Degrees between the corners of an arc at the most."""
_RIM = 85.06
"""Latitude in degrees beyond which no tile reaches."""
_NEAREST_POLE = 89.9999
"""Latitude in degrees that stands for all nearer to a pole: the map has no place for the pole itself."""
_NOTHING = 1e-14
"""Width of a ring, in sides of the map, that is rounding: 0.4 um."""
_PASSES = 4
"""How often the segments of a plane that the map bends are split."""


@dataclass(frozen=True)
class MapRings:
    """The rings of n polygons on the map."""

    # float64 (v, 2). x to the right and y down in sides of the map, x without jumps; the last point of a ring is the
    # first one again, or stands whole turns beside it
    points: NDArray[np.float64]
    first: NDArray[np.int64]  # int64 (r + 1,). Ring i has the points ``first[i]:first[i + 1]``
    rings: NDArray[np.int64]  # int64 (n + 1,). Polygon i has the rings ``rings[i]:rings[i + 1]``
    winding: NDArray[np.int64]  # int64 (r,). How many turns to the east a ring ends beside its beginning
    turned_out: NDArray[np.bool_]  # bool (n,). Whether a polygon holds what its rings wind round not at all
    # float64 (r, 4). Of each ring: xmin, ymin, xmax, ymax, of whole turns only ymin and ymax
    boxes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.turned_out)


def rings_on_map(
    frame: Frame,
    vectors: NDArray[np.float64],
    first: NDArray[np.int64],
    rings: NDArray[np.int64],
    whole: NDArray[np.bool_] | None = None,
    tolerance: float = TOLERANCE,
) -> MapRings:
    """Return the polygons of closed rings, interior on the left, as the map has them. Cost O(points that are made).

    ``vectors``: float64 (v, 3) unit vectors, edges being great-circle arcs; or (v, 2) places of a plane; ``first``:
    int64 (r + 1,). Ring i has the vectors ``first[i]:first[i + 1]``, the last equal to the first; ``rings``: int64 (n +
    1,). The rings of polygon i; ``whole``: bool (n,). Which polygons without any ring are the whole sphere; None is
    none of them.
    """
    if vectors.shape[1] == 3:
        points, first = _on_sphere(vectors, first, tolerance)
    else:
        points, first = _in_plane(frame, vectors, first, tolerance)
    if frame.plane is None:
        points = _unrolled(points, first)
    begin, end = first[:-1], first[1:] - 1
    winding = np.rint(points[end, 0] - points[begin, 0]).astype(np.int64)
    low = np.minimum.reduceat(points, begin) if len(begin) else np.zeros((0, 2))
    high = np.maximum.reduceat(points, begin) if len(begin) else np.zeros((0, 2))
    # a ring stands where its west end is on the map, and is drawn there and at whole turns from there
    turns = np.floor(np.where(winding == 0, low[:, 0], points[begin, 0])) if frame.plane is None else np.zeros(len(low))
    points[:, 0] -= np.repeat(turns, np.diff(first))
    boxes = np.column_stack([low[:, 0] - turns, low[:, 1], high[:, 0] - turns, high[:, 1]])
    turned_out = _turned_out(points, first, rings, winding)
    if whole is not None:
        turned_out |= whole & (np.diff(rings) == 0)
    return MapRings(points, first, rings, winding, turned_out, boxes)


def split_arcs(
    vectors: NDArray[np.float64], first: NDArray[np.int64], pieces: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rings of unit vectors with each edge cut into so many equal arcs.

    ``vectors``: float64 (v, 3); ``first``: int64 (r + 1,); ``pieces``: int64 (v,). Of the edge from each vector on;
    those of the last ones of rings are passed over.
    """
    a, b, share, fresh = _cuts(vectors, first, pieces)
    wide = arc_lengths(a, b)
    made: NDArray[np.float64] = (
        a * (np.sinc((1.0 - share) * wide / np.pi) * (1.0 - share))[:, None]
        + b * (np.sinc(share * wide / np.pi) * share)[:, None]
    )
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    kept = share == 0.0
    made[kept] = a[kept]
    return made, fresh


def arc_lengths(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the angles between unit vectors, row by row, in radians."""
    return 2.0 * np.arcsin(np.clip(0.5 * np.linalg.norm(b - a, axis=1), 0.0, 1.0))


def map_lonlat(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon and lat of unit vectors in degrees, those nearest to a pole as near as the map has them."""
    lonlat = space_of().positions(vectors)
    lonlat[:, 1] = np.clip(lonlat[:, 1], -_NEAREST_POLE, _NEAREST_POLE)
    return lonlat


def _on_sphere(
    vectors: NDArray[np.float64], first: NDArray[np.int64], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rings of unit vectors on the map, x with jumps."""
    after = _after(first)
    wide = arc_lengths(vectors, vectors[after])
    if wide.max(initial=0.0) > np.radians(ARC):
        vectors, first = split_arcs(vectors, first, np.ceil(np.degrees(wide) / ARC - 1e-9).astype(np.int64))
        after = _after(first)
        wide = arc_lengths(vectors, vectors[after])
    lonlat = map_lonlat(vectors)
    lat = lonlat[:, 1]
    # the map bends an arc at latitude t by tan t, and stretches it by 1 / cos t
    lowest, highest = np.minimum(np.abs(lat), np.abs(lat[after])), np.maximum(np.abs(lat), np.abs(lat[after]))
    high = np.radians(np.minimum(highest + np.degrees(wide), _RIM))
    bend = wide * wide * np.sin(high) / (np.cos(high) ** 2 * 16.0 * np.pi)
    bend[lowest > _RIM] = 0.0
    if bend.max(initial=0.0) > tolerance:
        vectors, first = split_arcs(vectors, first, np.ceil(np.sqrt(bend / tolerance)).astype(np.int64))
        lonlat = map_lonlat(vectors)
    return _mercator(lonlat), first


def _mercator(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places on the map as :func:`.map_frame.mercator` does, but those beyond its rim where they would stand."""
    y = 0.5 - np.arctanh(np.sin(np.radians(lonlat[:, 1]))) / (2.0 * np.pi)
    return np.column_stack([lonlat[:, 0] / 360.0 + 0.5, y])


def _in_plane(
    frame: Frame, places: NDArray[np.float64], first: NDArray[np.int64], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rings of a plane on the map: where it has a CRS, the map bends their edges."""
    points = frame.world_of(places)
    for _ in range(_PASSES if frame.plane is None else 0):
        after = _after(first)
        gap = frame.world_of(0.5 * (places + places[after])) - 0.5 * (points + points[after])
        gap[:, 0] -= 0.5 * np.rint(2.0 * gap[:, 0])  # an edge over the antimeridian
        bend = np.hypot(gap[:, 0], gap[:, 1])
        if not (bend > tolerance).any():
            break
        pieces = np.minimum(np.ceil(np.sqrt(np.nan_to_num(bend) / tolerance)), 256).astype(np.int64)
        a, b, share, first = _cuts(places, first, pieces)
        places = a + share[:, None] * (b - a)
        points = frame.world_of(places)
    return points, first


def _cuts(
    places: NDArray[np.float64], first: NDArray[np.int64], pieces: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return for each point of cut edges the ends of its edge and its share of the way, and where the rings begin."""
    count = np.maximum(pieces, 1)
    count[first[1:] - 1] = 1
    total = offsets(count)
    edge = np.repeat(np.arange(len(places)), count)
    share = (np.arange(total[-1]) - total[edge]) / count[edge]
    return places[edge], places[_after(first)[edge]], share, total[first]


def _after(first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which point follows each; the last of a ring, which is its first again, is followed by itself."""
    after = np.arange(1, int(first[-1]) + 1)
    after[first[1:] - 1] -= 1
    return after


def _unrolled(points: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return rings on the map whose x goes on past the antimeridian."""
    turns = np.zeros(len(points))
    turns[1:] = -np.rint(np.diff(points[:, 0]))
    turns[first[:-1]] = 0.0
    turns = np.cumsum(turns)
    turns -= np.repeat(turns[first[:-1]], np.diff(first))
    return np.column_stack([points[:, 0] + turns, points[:, 1]])


def _turned_out(
    points: NDArray[np.float64], first: NDArray[np.int64], rings: NDArray[np.int64], winding: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which polygons hold what their rings wind round not at all.

    South of all rings they are wound round 0 times, north of all as often as the rings go round the pole: one of both
    more than the other tells. Where these are the same, the rings bound as much as they wind round, or as they leave.
    """
    polygon = np.repeat(np.arange(len(rings) - 1), np.diff(rings))
    after = _after(first)
    a, b = points, points[after]
    owner = np.repeat(polygon, np.diff(first))

    def area(y: NDArray[np.float64]) -> NDArray[np.float64]:
        # y is down: what lies between an edge to the east and the map's north counts
        strips = (b[:, 0] - a[:, 0]) * 0.5 * (y + y[after])
        return np.bincount(owner, strips, minlength=len(rings) - 1).astype(np.float64)

    # beyond the rim, where a ring near a pole may go any way round it, only what is nowhere else counts
    shown = area(np.clip(points[:, 1], 0.0, 1.0))
    wide = np.bincount(owner, np.abs(b[:, 0] - a[:, 0]), minlength=len(rings) - 1)
    shown = np.where(np.abs(shown) > _NOTHING * wide, shown, area(points[:, 1]))
    turns = np.bincount(polygon, winding, minlength=len(rings) - 1)
    out: NDArray[np.bool_] = (turns < 0) | ((turns == 0) & (shown < 0.0))
    return out
