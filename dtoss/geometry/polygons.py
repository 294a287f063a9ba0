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
