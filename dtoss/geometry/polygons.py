"""Polygons to search within: rings of positions, or GeoJSON with its straight edges, as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN, Space, as_positions
from dtoss.plain_numbers import floats
from dtoss.row_runs import offsets

SPHERICAL, PLANAR, BY_VECTORS = "spherical", "planar", "vectors"
"""Edges on the sphere: great-circle arcs, straight in longitude and latitude, and arcs as they were decided about
before corners, meridians and the equator were by the numbers that stand there: for what is stored since then."""
STRAIGHT_TOLERANCE = 0.1
"""Metres that a chain of arcs may leave the edge that it stands for; the edge itself decides about what is so near."""
LONGEST_PIECE = 45.0
"""Degrees of longitude of a piece of a chain: far from where an arc would go the other way round."""
CELL = QUARTER_TURN
"""Degrees of the cells into which a polygon is cut that does not fit in a hemisphere."""


def check_edges(edges: Any) -> str | None:
    """Return edges that a user names; None is what the shape means."""
    if edges not in (None, SPHERICAL, PLANAR):
        raise ValueError(f"edges is {edges!r}: one of {SPHERICAL!r}, {PLANAR!r} is wanted")
    return str(edges) if edges else None


def chains(
    corners: NDArray[np.float64], first: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return rings with so many corners more that great-circle arcs stay within 0.1 m of the straight edges.

    Corners (w, 2), where each ring begins, and how far the arcs of each edge of before may be from it, float64 (v,), in
    radians. ``corners``: float64 (v, 2). In degrees. An edge goes from one number to the other: none crosses the
    antimeridian, and one from 179 to -179 goes round the globe; ``first``: int64 (rings + 1,). Ring i has the corners
    ``first[i]:first[i + 1]``, one at least.

    A line on which longitude and latitude grow evenly, by ``a`` and ``b`` radians, has the geodesic curvature
    ``sin(lat) a (cos(lat)^2 a^2 + 2 b^2) / v^3`` where ``v^2 = cos(lat)^2 a^2 + b^2``; the middle of a piece leaves its
    chord by an eighth of that times the square of its length, which is less than ``sin(lat) a v / 4``.
    """
    along, leaves, counts = _pieces(corners, first)
    pieces = counts.astype(np.int64)
    start = offsets(pieces)
    owner = np.repeat(np.arange(len(pieces)), pieces)
    share: NDArray[np.float64] = (np.arange(start[-1]) - start[owner]) / pieces[owner]
    return corners[owner] + share[:, None] * along[owner], start[first], leaves / pieces**2


def arcs_of(corners: NDArray[np.float64], first: NDArray[np.int64]) -> float:
    """Return how many corners :func:`chains` makes of rings; of corners that are not legal any number."""
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.nansum(_pieces(corners, first)[2]))


def _pieces(
    corners: NDArray[np.float64], first: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return of each edge where it leads, how far one arc would leave it in radians, and how many it becomes."""
    after = np.arange(1, len(corners) + 1)
    after[first[1:] - 1] = first[:-1]
    along = corners[after] - corners
    a, b = np.radians(np.abs(along)).T
    low, high = np.sort(np.radians(np.abs([corners[:, 1], corners[after, 1]])), axis=0)
    widest = np.where(corners[:, 1] * corners[after, 1] < 0.0, 1.0, np.cos(low))
    leaves = np.sin(high) * a * np.hypot(widest * a, b) / 4.0
    pieces = np.maximum(np.ceil(np.sqrt(leaves * EARTH_RADIUS / STRAIGHT_TOLERANCE)), 1.0)
    return along, leaves, np.maximum(pieces, np.ceil(np.abs(along[:, 0]) / LONGEST_PIECE))


def cells_of(rings: list[NDArray[np.float64]]) -> list[list[NDArray[np.float64]]]:
    """Return parts of a polygon, each in a cell of 90 degrees and each a list of rings, that are together the polygon.

    What lies on the sides of cells belongs to both of them. Cost O(v) for v corners and each of the 8 cells.
    """
    found = []
    for west in np.arange(-HALF_TURN, HALF_TURN, CELL).tolist():
        for south in (-QUARTER_TURN, 0.0):
            part = rings
            for axis, sign, bound in ((0, 1.0, west), (0, -1.0, west + CELL), (1, 1.0, south), (1, -1.0, south + CELL)):
                part = [cut for ring in part if len(cut := _beyond(ring, axis, sign, bound))]
            if part:
                found.append(part)
    return found


def _beyond(ring: NDArray[np.float64], axis: int, sign: float, bound: float) -> NDArray[np.float64]:
    """Return the part of a ring on one side of a meridian or parallel; where it was cut it runs along it."""
    after = np.roll(ring, -1, axis=0)
    here, there = sign * (ring[:, axis] - bound), sign * (after[:, axis] - bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = ring + (here / (here - there))[:, None] * (after - ring)
    crossing[:, axis] = bound
    both = np.stack([ring, crossing], axis=1).reshape(-1, 2)
    kept = np.stack([here >= 0.0, (here > 0.0) & (there < 0.0) | (here < 0.0) & (there > 0.0)], axis=1).reshape(-1)
    return both[kept]


SOME_CORNERS = 1_000
LEAST_HEIGHT = 0.01
"""Cosine of the largest angle between the middle of a polygon on the sphere and its corners: 89.4 degrees."""
CUT_BAND = 1e-13
"""Radians by which rounding may move the corners where a polygon was cut."""
LEAST_CORNERS = 3


@dataclass(frozen=True)
class Polygon:
    """A region bounded by rings; a place is inside where it is inside of an odd number of them, or on an edge."""

    corners: NDArray[np.float64]  # float64 (v, dimension). The corners of all rings, none repeated at the end
    first: NDArray[np.int64]  # int64 (rings + 1,). Ring i has the corners ``first[i]:first[i + 1]``
    # float64 (dimension,). On the sphere the unit vector from which all corners are less than 89.4 degrees
    middle: NDArray[np.float64]
    # float64 (v, 2). The corners as they were written, lon and lat: without ``straight`` they decide about corners,
    # meridians and the equator. None where vectors decide about everything
    degrees: NDArray[np.float64] | None = None
    # The same polygon in lon and lat, where its edges are straight there: it decides, and the corners above are those
    # of arcs that stay near it. Parts of one polygon have the whole one here
    straight: Polygon | None = None
    band: float = 0.0  # Radians that these arcs may leave the straight edges

    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the beginnings and ends of all edges, float64 (v, dimension) each."""
        return self.corners, self.corners[self.after()]

    def after(self) -> NDArray[np.int64]:
        """Return for each corner the number of the next one of its ring, int64 (v,)."""
        after = np.arange(1, len(self.corners) + 1)
        after[self.first[1:] - 1] = self.first[:-1]
        return after


def as_polygons(shape: Any, space: Space, edges: str | None = None) -> list[Polygon]:
    """Return the polygons that one shape is made of.

    ``shape``: an array (v, 2) of positions, the corners of one ring; or a GeoJSON Polygon, MultiPolygon, or Feature of
    one, as a dictionary or as an object with ``__geo_interface__``. A ring may end where it began or not, and run
    either way round. Edges are segments in the plane; ``edges``: on the sphere: "spherical" edges are great-circle
    arcs, for which the antimeridian and the poles are places like others; "planar" ones are straight in longitude and
    latitude, and one from 179 to -179 goes round the globe. None is what the shape means (:func:`edges_meant`).
    """
    meant = edges or edges_meant(shape)
    return [part for polygon in rings_of(shape) for part in _alone(polygon, space, meant)]


def arcs_meant(shape: Any, space: Space) -> float:
    """Return how many great-circle arcs the straight edges of a shape become, about; 0 where its edges are arcs."""
    if not space.geographic or edges_meant(shape) != PLANAR:
        return 0.0
    rings = [ring for polygon in rings_of(shape) for ring in map(_corners, polygon) if len(ring)]
    return arcs_of(np.concatenate(rings), offsets([len(ring) for ring in rings])) if rings else 0.0


def edges_meant(shape: Any) -> str:
    """Return the edges of a shape that nobody named: straight ones for GeoJSON, as RFC 7946 says, arcs for an array.

    A geometry may say itself what its edges are, in a member of that name, as GeoParquet's columns do.
    """
    if not isinstance(shape, Mapping):
        return PLANAR if hasattr(shape, "__geo_interface__") else SPHERICAL
    inner = shape.get("geometry")
    return check_edges(shape.get("edges") or (inner.get("edges") if isinstance(inner, Mapping) else None)) or PLANAR


def long_edge(corners: NDArray[np.float64], first: NDArray[np.int64], edges: str) -> str | None:
    """Return what to say of an edge that spans more than half the longitudes, where nobody said which way it goes.

    None where there is none; an edge along a pole has no length, one of all longitudes goes all the way round, and arcs
    that are short over the antimeridian are as they seem.
    """
    if len(corners) == 0 or (_sizes(first) == 0).any():
        return None
    after = np.arange(1, len(corners) + 1)
    after[first[1:] - 1] = first[:-1]
    wide = np.abs(corners[:, 0] - corners[after, 0])
    most = 2 * HALF_TURN if edges == PLANAR else HALF_TURN + QUARTER_TURN
    far = (wide > HALF_TURN) & (wide < most) & (np.abs(corners[:, 1]) < QUARTER_TURN)
    if not far.any():
        return None
    at = int(far.argmax())
    return f"an edge from longitude {corners[at, 0]:g} to {corners[after[at], 0]:g} spans {wide[at]:g} degrees"


def rings_of(shape: Any) -> list[list[Any]]:
    """Return the rings of each polygon that one shape is made of, each (v, 2) as it was given; no number is checked."""
    if hasattr(shape, "__geo_interface__"):
        shape = shape.__geo_interface__
    return _geojson_rings(shape) if isinstance(shape, Mapping) else [[shape]]


def _geojson_rings(shape: Mapping[str, Any]) -> list[list[Any]]:
    """Return the rings of each polygon in turn, without calling itself: collections may nest thousands deep."""
    found: list[list[Any]] = []
    waiting: list[Any] = [shape]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, Mapping):
            raise ValueError(f"a shape within another is of type {type(one).__name__}: a GeoJSON object is wanted")
        kind = one.get("type")
        if kind == "Feature":
            waiting.append(one.get("geometry") or {})
        elif kind == "FeatureCollection":
            waiting += reversed(_listed(one, "features"))
        elif kind == "Polygon":
            found.append(_listed(one, "coordinates"))
        elif kind == "MultiPolygon":
            found += (_listed({"coordinates": rings}, "coordinates") for rings in _listed(one, "coordinates"))
        else:
            raise ValueError(f"a shape of type {kind!r} is not searched within: Polygon or MultiPolygon is wanted")
    return found


def _listed(shape: Mapping[str, Any], name: str) -> list[Any]:
    """Return a member that is a list: a tuple where a library made it."""
    value = shape.get(name, [])
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise ValueError(f"{name} of a shape are of type {type(value).__name__}: a list is wanted")
    return list(value)


@dataclass(frozen=True)
class Rings:
    """The rings of many shapes as flat arrays: how frames of polygons come, by the hundred thousand."""

    corners: NDArray[np.float64]  # float64 (v, 2). Of all rings; one may end where it began or not
    ring: NDArray[np.int64]  # int64 (rings + 1,). Ring i has the corners ``ring[i]:ring[i + 1]``
    # int64 (polygons + 1,). Polygon i has the rings ``polygon[i]:polygon[i + 1]``, at least one
    polygon: NDArray[np.int64]
    # int64 (shapes + 1,). Shape i has the polygons ``shape[i]:shape[i + 1]``; one without any holds nothing
    shape: NDArray[np.int64]
    edges: str = PLANAR  # On the sphere: "planar", "spherical", or "vectors" (:mod:`dtoss.geometry.polygons`)

    def __len__(self) -> int:
        return len(self.shape) - 1

    def of_shape(self, number: int) -> list[list[NDArray[np.float64]]]:
        """Return the rings of each polygon of one shape."""
        return [
            [self.corners[self.ring[r] : self.ring[r + 1]] for r in range(self.polygon[p], self.polygon[p + 1])]
            for p in range(self.shape[number], self.shape[number + 1])
        ]

    def between(self, first: int, last: int) -> Rings:
        """Return some consecutive shapes."""
        polygons = slice(self.shape[first], self.shape[last] + 1)
        rings = slice(self.polygon[polygons.start], self.polygon[polygons.stop - 1] + 1)
        corners = slice(self.ring[rings.start], self.ring[rings.stop - 1])
        return Rings(
            self.corners[corners],
            self.ring[rings] - corners.start,
            self.polygon[polygons] - rings.start,
            self.shape[first : last + 1] - polygons.start,
            self.edges,
        )


def rings_together(shapes: list[list[list[Any]]], edges: str = PLANAR) -> Rings:
    """Return the rings of shapes, each a list of polygons, each a list of rings, as flat arrays."""
    corners, sizes = [np.zeros((0, 2))], []
    for number, polygons in enumerate(shapes):
        for ring in (ring for rings in polygons for ring in rings):
            try:
                corners.append(_corners(ring))
            except ValueError as error:
                raise ValueError(f"zone {number}: {error}") from None
            sizes.append(len(corners[-1]))
    return Rings(
        np.concatenate(corners),
        offsets(sizes),
        offsets([len(rings) for polygons in shapes for rings in polygons]),
        offsets([len(polygons) for polygons in shapes]),
        edges,
    )


def _sizes(begin: NDArray[np.int64]) -> NDArray[np.int64]:
    # np.diff takes several times as long, which counts where a question has one polygon
    return begin[1:] - begin[:-1]


def _flat(ring: Any) -> NDArray[np.float64]:
    """Return corners as they are given, without the heights that GeoJSON may carry."""
    try:
        array = floats(ring)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the corners of a polygon are not numbers ({error}): give (v, 2), lon before lat") from None
    return array[:, :2] if array.ndim == 2 and array.shape[1] == 3 else array


def _corners(ring: Any) -> NDArray[np.float64]:
    array = _flat(ring)
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"corners of a polygon have shape {array.shape}: (v, 2) is wanted, lon before lat")
    return array


def polygons_in(rings: Rings, space: Space) -> list[list[Polygon]]:
    """Return the polygons that each shape is made of: :func:`as_polygons` of many at once."""
    try:
        made = [[one] for one in _polygons(rings.corners, rings.ring, rings.polygon, space, rings.edges)]
    except ValueError:  # one by one, until the one that is wrong says what
        made = []
        for number in range(len(rings)):
            try:
                made += [_alone(list(polygon), space, rings.edges) for polygon in rings.of_shape(number)]
            except ValueError as error:
                raise ValueError(f"zone {number}: {error}") from None
    ends = zip(rings.shape[:-1].tolist(), rings.shape[1:].tolist(), strict=True)
    return [[part for parts in made[a:b] for part in parts] for a, b in ends]


class _TooWideError(ValueError):
    """A polygon that does not fit in a hemisphere."""


def _alone(rings: list[Any], space: Space, edges: str) -> list[Polygon]:
    """Return the polygon of some rings; one of straight edges that fits in no hemisphere as its parts."""
    read = [_corners(ring) for ring in rings]
    corners, first = np.concatenate([np.zeros((0, 2)), *read]), offsets([len(ring) for ring in read])
    try:
        return _polygons(corners, first, np.array([0, len(rings)]), space, edges)
    except _TooWideError:
        if edges != PLANAR or not space.geographic:
            raise
    places = as_positions(corners, space, name="corners of a polygon")
    kept, start = _distinct(places, first, LEAST_CORNERS)
    whole = Polygon(places[kept], start, places[kept].mean(axis=0))
    found = []
    for part in cells_of([whole.corners[a:b] for a, b in pairwise(start.tolist())]):
        near, around, left = chains(np.concatenate(part), offsets([len(ring) for ring in part]))
        (one,) = _fit(space.vectors(near), around, np.array([0, len(part)]), space, 1, near)
        found.append(replace(one, straight=whole, band=max(float(left.max()), CUT_BAND)))
    return found


def _polygons(
    corners: NDArray[np.float64], first: NDArray[np.int64], polygon: NDArray[np.int64], space: Space, edges: str
) -> list[Polygon]:
    """Return polygons of rings: ``i`` has the rings ``polygon[i]:polygon[i + 1]``, as ``first`` cuts the corners."""
    if len(polygon) == 1:
        return []
    if (_sizes(polygon) == 0).any():
        raise ValueError("a polygon has no rings: at least one is wanted")
    if (_sizes(first) == 0).any():
        raise _few(0)
    places = as_positions(corners, space, name="corners of a polygon")
    if edges == BY_VECTORS or not space.geographic:
        return _fit(space.vectors(places), first, polygon, space)
    if edges == SPHERICAL:
        places, first = _over_poles(places, first)
        return _fit(space.vectors(places), first, polygon, space, degrees=places)
    kept, start = _distinct(places, first, LEAST_CORNERS)
    places = places[kept]
    near, around, left = chains(places, start)
    at = start[polygon]
    middles = np.add.reduceat(places, at[:-1], axis=0) / _sizes(at)[:, None]
    ends = zip(polygon[:-1].tolist(), polygon[1:].tolist(), at[:-1].tolist(), at[1:].tolist(), strict=True)
    flat = [Polygon(places[c:d], start[a : b + 1] - c, middles[i]) for i, (a, b, c, d) in enumerate(ends)]
    bands = np.maximum.reduceat(left, at[:-1]).tolist()
    return _fit(space.vectors(near), around, polygon, space, 1, near, flat, bands)


def _fit(
    vectors: NDArray[np.float64],
    first: NDArray[np.int64],
    polygon: NDArray[np.int64],
    space: Space,
    least: int = LEAST_CORNERS,
    degrees: NDArray[np.float64] | None = None,
    straight: list[Polygon] | None = None,
    bands: list[float] | None = None,
) -> list[Polygon]:
    """Return the polygons of rings of vectors, each round a middle from which all of its corners are seen."""
    kept, ring = _distinct(vectors, first, least)
    vectors = np.ascontiguousarray(vectors[kept])
    degrees = None if degrees is None else degrees[kept]
    at = ring[polygon]
    middles = np.add.reduceat(vectors, at[:-1], axis=0) / _sizes(at)[:, None]
    good = np.ones(len(middles), np.bool_)
    if space.dimension == 3:
        length = np.sqrt((middles * middles).sum(axis=1))
        good = length >= 1e-12
        middles /= np.where(good, length, 1.0)[:, None]
        heights = (vectors * np.repeat(middles, _sizes(at), axis=0)).sum(axis=1)
        good &= np.minimum.reduceat(heights, at[:-1]) >= LEAST_HEIGHT
    made = []
    ends = zip(polygon[:-1].tolist(), polygon[1:].tolist(), at[:-1].tolist(), at[1:].tolist(), strict=True)
    for number, (a, b, c, d) in enumerate(ends):
        middle = middles[number] if good[number] else _middle(vectors[c:d])
        written = None if degrees is None else degrees[c:d]
        flat, band = (None, 0.0) if straight is None or bands is None else (straight[number], bands[number])
        made.append(Polygon(vectors[c:d], ring[a : b + 1] - c, middle, written, flat, band))
    return made


def _distinct(
    values: NDArray[np.float64], first: NDArray[np.int64], least: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which corners differ from the one before, the last from the first, and where each ring begins then."""
    kept = np.ones(len(values), np.bool_)
    kept[1:] = (values[1:] != values[:-1]).any(axis=1)
    begin = first[:-1]
    kept[begin] = True
    # the last corner of each ring that differs from the one before
    last = np.maximum.reduceat(np.where(kept, np.arange(len(kept)), -1), begin)
    closed = (last > begin) & (values[last] == values[begin]).all(axis=1)
    kept[last[closed]] = False
    sizes = np.add.reduceat(kept.astype(np.int64), begin)
    if (sizes < least).any():
        raise _few(int(sizes.min()))
    return kept, offsets(sizes)


def _few(count: int) -> ValueError:
    return ValueError(f"a ring of a polygon has {count} distinct corners: at least {LEAST_CORNERS} are wanted")


def _over_poles(places: NDArray[np.float64], first: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rings of arcs with a pole as a corner where an edge leads over it: both halves are meridians then."""
    after = np.arange(1, len(places) + 1)
    after[first[1:] - 1] = first[:-1]
    north = places[:, 1] + places[after, 1]
    over = (np.abs(places[:, 0] - places[after, 0]) == HALF_TURN) & (north != 0.0)
    over &= (np.abs(places[:, 1]) < QUARTER_TURN) & (np.abs(places[after, 1]) < QUARTER_TURN)
    if not over.any():
        return places, first
    at = np.flatnonzero(over)
    poles = np.stack([places[at, 0], np.copysign(QUARTER_TURN, north[at])], axis=1)
    return np.insert(places, at + 1, poles, axis=0), first + np.searchsorted(at, first)


def _middle(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    if len(corners) > 2 * SOME_CORNERS:  # where some fit in no hemisphere all do not, and that is found sooner
        _middle(corners[:: len(corners) // SOME_CORNERS])
    middle: NDArray[np.float64] = corners.mean(axis=0)
    for step in range(2, 400):
        length = float(np.linalg.norm(middle))
        if length < 1e-12:
            break
        middle = middle / length
        heights = corners @ middle
        if heights.min() >= LEAST_HEIGHT:
            return middle
        # shorter and shorter steps to the corner furthest away lead to the middle of the smallest cap
        middle = middle + (corners[heights.argmin()] - middle) / step
    raise _TooWideError("a polygon on the sphere has to fit in a hemisphere: cut it into parts, as a MultiPolygon")
