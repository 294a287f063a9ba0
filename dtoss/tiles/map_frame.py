"""Where places stand on the map: web mercator of lon, lat, or a square round the bounds of a plane without a CRS."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyproj
from numpy.typing import NDArray

from dtoss.geometry.space import LONLAT, NO_CRS, Space

MERCATOR_RIM = 85.0511287798066
"""Latitude in degrees at which mercator's square ends; what is nearer to a pole stands at the rim."""
MARGIN = 0.1
"""Share of a plane's longer side that its square has round it."""
_NEAREST_POLE = 1.0 - 1e-12


@dataclass(frozen=True)
class Frame:
    """The map of a space, both ways."""

    space: Space
    # Of a plane without a CRS x0, y1 and side of the square that the whole map is, CRS units; else None
    plane: tuple[float, float, float] | None

    def world_of(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return where positions stand in the map's square, (n, 2): x to the right, y down, both 0 to 1.

        Places beyond the square stand at its rim; those that have no lon, lat are NaN.
        """
        if self.plane is None:
            return mercator(self.lonlat_of(positions))
        x0, y1, side = self.plane
        world = np.stack([(positions[:, 0] - x0) / side, (y1 - positions[:, 1]) / side], axis=1)
        return np.clip(world, 0.0, 1.0, out=world)

    def lonlat_of(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return lon, lat on the map of positions as the store has them, (n, 2) degrees; NaN where there is none."""
        if self.plane is not None:
            return unmercator(self.world_of(positions))
        if self.space.geographic:
            return np.array(positions, np.float64)
        return _finite(np.stack(_transformer(self.space.crs).transform(positions[:, 0], positions[:, 1]), axis=1))

    def lonlat_of_vectors(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return lon, lat on the map of vectors, (n, 2) degrees."""
        if self.space.metric == "sphere":
            return Space(LONLAT, "sphere").positions(vectors)
        return self.lonlat_of(vectors)

    def positions_of(self, lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the store's positions, (n, 2), of lon, lat on the map; NaN where there is none."""
        if self.plane is not None:
            x0, y1, side = self.plane
            world = mercator(lonlat)
            return np.stack([x0 + world[:, 0] * side, y1 - world[:, 1] * side], axis=1)
        if self.space.geographic:
            return np.array(lonlat, np.float64)
        inverse = _transformer(self.space.crs).transform(lonlat[:, 0], lonlat[:, 1], direction="INVERSE")
        return _finite(np.stack(inverse, axis=1))


def frame_of(space: Space, bounds: NDArray[np.float64] | None) -> Frame:
    """Return the map of a space.

    ``bounds``: of a plane xmin, ymin, xmax, ymax; None on the sphere, and of an empty index.
    """
    if space.crs != NO_CRS:
        return Frame(space, None)
    xmin, ymin, xmax, ymax = (0.0, 0.0, 1.0, 1.0) if bounds is None else np.asarray(bounds, np.float64).tolist()
    side = (1.0 + 2.0 * MARGIN) * max(xmax - xmin, ymax - ymin)
    if side <= 0.0:
        side = 1.0
    return Frame(space, (0.5 * (xmin + xmax - side), 0.5 * (ymin + ymax + side), side))


def mercator(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon, lat (n, 2) in mercator's square, x and y down from 0 to 1; what is beyond stands at its rim.

    Examples
    --------
    >>> mercator(np.array([[0.0, 0.0], [180.0, 90.0], [-90.0, -60.0]])).round(4).tolist()
    [[0.5, 0.5], [1.0, 0.0], [0.25, 0.7096]]
    """
    sine = np.clip(np.sin(np.radians(lonlat[:, 1])), -_NEAREST_POLE, _NEAREST_POLE)
    world = np.stack([lonlat[:, 0] / 360.0 + 0.5, 0.5 - np.arctanh(sine) / (2.0 * np.pi)], axis=1)
    return np.clip(world, 0.0, 1.0, out=world)


def unmercator(world: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return lon, lat in degrees of places in mercator's square: the inverse of :func:`mercator`."""
    lat = np.degrees(np.arctan(np.sinh(np.pi * (1.0 - 2.0 * world[:, 1]))))
    return np.stack([(world[:, 0] - 0.5) * 360.0, lat], axis=1)


def box_of(z: int, x: int, y: int) -> tuple[float, float, float, float]:
    """Return west, south, east and north of a tile, degrees on the map; tiles of the rim reach to the poles."""
    wide = 2**z
    west, east = x / wide * 360.0 - 180.0, (x + 1) / wide * 360.0 - 180.0
    (_, north), (_, south) = unmercator(np.array([[0.0, y / wide], [0.0, (y + 1) / wide]])).tolist()
    return west, -90.0 if y + 1 == wide else south, east, 90.0 if y == 0 else north


def _finite(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    positions[~np.isfinite(positions).all(axis=1)] = np.nan
    return positions


@cache
def _transformer(crs: str) -> Any:
    return pyproj.Transformer.from_crs(crs, LONLAT, always_xy=True)
