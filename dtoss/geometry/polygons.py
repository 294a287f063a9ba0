"""Polygons to search within: rings of positions, or GeoJSON, as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.space import Space, as_positions

LEAST_HEIGHT = 0.01
"""Cosine of the largest angle between the middle of a polygon on the sphere and its corners: 89.4 degrees."""


@dataclass(frozen=True)
class Polygon:
    """A region bounded by rings; a place is inside where it is inside of an odd number of them, or on an edge.

    Parameters
    ----------
    corners
        float64 (v, dimension). The corners of all rings, none repeated at the end.
    first
        int64 (rings + 1,). Ring i has the corners ``first[i]:first[i + 1]``.
    middle
        float64 (dimension,). On the sphere the unit vector from which all corners are less than 89.4 degrees.
    """

    corners: NDArray[np.float64]
    first: NDArray[np.int64]
    middle: NDArray[np.float64]

    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the beginnings and ends of all edges, float64 (v, dimension) each."""
        after = np.arange(1, len(self.corners) + 1)
        after[self.first[1:] - 1] = self.first[:-1]
        return self.corners, self.corners[after]


def as_polygons(shape: Any, space: Space) -> list[Polygon]:
    """Return the polygons that one shape is made of.

    Parameters
    ----------
    shape
        An array (v, 2) of positions, the corners of one ring; or a GeoJSON Polygon, MultiPolygon, or Feature of one, as
        a dictionary or as an object with ``__geo_interface__``. A ring may end where it began or not, and run either
        way round. Edges are segments in the plane and great-circle arcs on the sphere, where the antimeridian and the
        poles are places like others.
    space
        What its positions mean.

    Raises
    ------
    ValueError
        If the shape is none of these, a ring has fewer than three corners, a position is not legal, or a polygon on
        the sphere does not fit in a hemisphere.
    """
    return [_polygon(rings, space) for rings in rings_of(shape)]


def rings_of(shape: Any) -> list[list[Any]]:
    """Return the rings of each polygon that one shape is made of, each (v, 2) as it was given; no number is checked.

    Raises
    ------
    ValueError
        If the shape is of another kind than :func:`as_polygons` takes.
    """
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
    """The rings of many shapes as flat arrays: how frames of polygons come, by the hundred thousand.

    Parameters
    ----------
    corners
        float64 (v, 2). Of all rings; one may end where it began or not.
    ring
        int64 (rings + 1,). Ring i has the corners ``ring[i]:ring[i + 1]``.
    polygon
        int64 (polygons + 1,). Polygon i has the rings ``polygon[i]:polygon[i + 1]``, at least one.
    shape
        int64 (shapes + 1,). Shape i has the polygons ``shape[i]:shape[i + 1]``; one without any holds nothing.
    """

    corners: NDArray[np.float64]
    ring: NDArray[np.int64]
    polygon: NDArray[np.int64]
    shape: NDArray[np.int64]

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
        )


def rings_together(shapes: list[list[list[Any]]]) -> Rings:
    """Return the rings of shapes, each a list of polygons, each a list of rings, as flat arrays.

    Raises
    ------
    ValueError
        If a ring is not a list of corners of two or three numbers; the message says of which shape.
    """
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
        _offsets(sizes),
        _offsets([len(rings) for polygons in shapes for rings in polygons]),
        _offsets([len(polygons) for polygons in shapes]),
    )


def _offsets(sizes: list[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]).astype(np.int64)


def polygons_in(rings: Rings, space: Space) -> list[list[Polygon]]:
    """Return the polygons that each shape is made of: :func:`as_polygons` of many at once.

    Raises
    ------
    ValueError
        As there; the message says of which shape.
    """
    try:
        made = _polygons_at_once(rings, space)
    except ValueError:
        made = None
    if made is None:  # one by one, until the one that is wrong says what
        made = []
        for number in range(len(rings)):
            try:
                made += [_polygon(list(polygon), space) for polygon in rings.of_shape(number)]
            except ValueError as error:
                raise ValueError(f"zone {number}: {error}") from None
    return [made[a:b] for a, b in zip(rings.shape[:-1].tolist(), rings.shape[1:].tolist(), strict=True)]


def _polygons_at_once(rings: Rings, space: Space) -> list[Polygon] | None:
    """Return all polygons in turn, None where one of them has to be looked at by itself."""
    if len(rings.polygon) == 1:
        return []
    if (np.diff(rings.polygon) == 0).any() or (np.diff(rings.ring) == 0).any():
        return None
    vectors = space.vectors(as_positions(rings.corners, space, name="corners of a polygon"))
    kept = np.ones(len(vectors), np.bool_)
    kept[1:] = (vectors[1:] != vectors[:-1]).any(axis=1)
    begin = rings.ring[:-1]
    kept[begin] = True
    # the last corner of each ring that differs from the one before
    last = np.maximum.reduceat(np.where(kept, np.arange(len(kept)), -1), begin)
    closed = (last > begin) & (vectors[last] == vectors[begin]).all(axis=1)
    kept[last[closed]] = False
    sizes = np.add.reduceat(kept.astype(np.int64), begin)
    if (sizes < 3).any():
        return None
    vectors = np.ascontiguousarray(vectors[kept])
    ring = np.concatenate([[0], np.cumsum(sizes)])
    at = ring[rings.polygon]
    middles = np.add.reduceat(vectors, at[:-1], axis=0) / np.diff(at)[:, None]
    good = np.ones(len(middles), np.bool_)
    if space.dimension == 3:
        length = np.sqrt((middles * middles).sum(axis=1))
        good = length >= 1e-12
        middles /= np.where(good, length, 1.0)[:, None]
        heights = (vectors * np.repeat(middles, np.diff(at), axis=0)).sum(axis=1)
        good &= np.minimum.reduceat(heights, at[:-1]) >= LEAST_HEIGHT
    made = []
    for number, (a, b, c, d) in enumerate(
        zip(rings.polygon[:-1].tolist(), rings.polygon[1:].tolist(), at[:-1].tolist(), at[1:].tolist(), strict=True)
    ):
        corners = vectors[c:d]
        made.append(Polygon(corners, ring[a : b + 1] - c, middles[number] if good[number] else _middle(corners, space)))
    return made


def _corners(ring: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(ring, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("the corners of a polygon are not numbers: give (v, 2), lon before lat") from None
    if array.ndim == 2 and array.shape[1] == 3:
        return array[:, :2]  # GeoJSON may carry heights
    if array.size == 0:
        return np.zeros((0, 2))
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"corners of a polygon have shape {array.shape}: (v, 2) is wanted, lon before lat")
    return array


def _polygon(rings: list[Any], space: Space) -> Polygon:
    corners, sizes = [], []
    for ring in rings:
        try:
            array = np.asarray(ring, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError("the corners of a polygon are not numbers: give (v, 2), lon before lat") from None
        if array.ndim == 2 and array.shape[1] == 3:
            array = array[:, :2]  # GeoJSON may carry heights
        vectors = space.vectors(as_positions(array, space, name="corners of a polygon"))
        kept = np.ones(len(vectors), np.bool_)
        kept[1:] = (vectors[1:] != vectors[:-1]).any(axis=1)
        vectors = vectors[kept]
        if len(vectors) > 1 and (vectors[0] == vectors[-1]).all():
            vectors = vectors[:-1]
        if len(vectors) < 3:
            raise ValueError(f"a ring of a polygon has {len(vectors)} distinct corners: at least 3 are wanted")
        corners.append(vectors)
        sizes.append(len(vectors))
    if not corners:
        raise ValueError("a polygon has no rings: at least one is wanted")
    together = np.ascontiguousarray(np.concatenate(corners))
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Polygon(together, first, _middle(together, space))


def _middle(corners: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    middle: NDArray[np.float64] = corners.mean(axis=0)
    if space.dimension == 2:
        return middle
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
    raise ValueError("a polygon on the sphere has to fit in a hemisphere: cut it into parts, as a MultiPolygon")
