"""Discs that cover a polygon or a box, few and not much larger: what lies within is found among what lies in them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS, SPHERE, distance
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.rounding import DISC, DISC_METRES
from dtoss.geometry.space import Space

MOST_DISCS = 32
WASTE = 4.0
"""A polygon that fills this share (one in four) of a disc is not divided."""


@dataclass(frozen=True)
class Discs:
    """Closed discs: centres (d, dimension) as vectors, radii (d,) in metres or CRS units."""

    centres: NDArray[np.float64]
    radii: NDArray[np.float64]


def cover_polygon(polygon: Polygon) -> Discs:
    """Return discs that hold all of a polygon.

    The rectangle around it, in the plane or in the gnomonic projection of its middle, is divided where its border runs,
    and what lies outside is dropped. Cost O(v) for v corners and each time that tiles are halved: an edge is looked at
    again only in tiles into which it comes.
    """
    begins, ends = (_projected(edge, polygon) for edge in polygon.edges())
    low, high = begins.min(axis=0), begins.max(axis=0)
    area = abs(float((begins[:, 0] * ends[:, 1] - begins[:, 1] * ends[:, 0]).sum())) / 2
    whole = (low[0], low[1], high[0], high[1])
    if np.pi * float(((high - low) ** 2).sum()) / 4 <= WASTE * area:
        return _discs([whole], polygon)
    beside = 0.0 if polygon.band == 0.0 else polygon.band / float((polygon.corners @ polygon.middle).min()) ** 2
    waiting = [(-_size(whole), whole, np.arange(len(begins)))]
    done: list[tuple[float, float, float, float]] = []
    while waiting and len(waiting) + len(done) < MOST_DISCS:
        _, tile, edges = heapq.heappop(waiting)
        for half in _halves(tile):
            touching = edges[_touching(begins[edges], ends[edges], half, beside)]
            if len(touching):
                heapq.heappush(waiting, (-_size(half), half, touching))
            elif _holds(begins, ends, (half[0] + half[2]) / 2, (half[1] + half[3]) / 2):
                done.append(half)
    return _discs(done + [tile for _, tile, _ in waiting], polygon)


def cover_box(box: NDArray[np.float64], space: Space) -> Discs:
    """Return discs that hold all of a box xmin, ymin, xmax, ymax; on the sphere west, south, east, north in degrees.

    A tile of a box on the sphere is at most 90 degrees wide to either side of its centre: its furthest places are its
    corners then.
    """
    west, south, east, north = box.tolist()
    wide, high = east - west, north - south
    if space.dimension == 3:
        if wide < 0.0:
            wide += 360.0
        widest = 0.0 if south <= 0.0 <= north else min(abs(south), abs(north))
        length = wide * float(np.cos(np.radians(widest)))
    else:
        length = wide
    across, along = _tiles(length, high), _tiles(high, length)
    if space.dimension == 3:
        across = max(across, -(-int(np.ceil(wide)) // 90), 1)
    x = west + wide * np.arange(2 * across + 1) / (2 * across)
    y = south + high * np.arange(2 * along + 1) / (2 * along)

    def vectors(i: slice, j: slice) -> NDArray[np.float64]:
        grid = np.stack(np.meshgrid(x[i], y[j], indexing="ij"), axis=-1).reshape(-1, 2)
        if space.dimension == 3:
            grid[:, 0] -= 360.0 * (grid[:, 0] > 180.0)
            np.clip(grid[:, 1], -90.0, 90.0, out=grid[:, 1])
        return space.vectors(grid)

    centres = vectors(slice(1, None, 2), slice(1, None, 2))
    left, right = slice(0, -1, 2), slice(2, None, 2)
    corners = [vectors(i, j) for i in (left, right) for j in (left, right)]
    radii = np.max([distance(centres, corner) for corner in corners], axis=0)
    return Discs(centres, radii * DISC + DISC_METRES * (space.dimension == 3))


def _tiles(side: float, other: float) -> int:
    """Return into how many tiles a side is cut so that they are about square."""
    if side <= 0.0:
        return 1
    return int(np.clip(round(side / other), 1, MOST_DISCS)) if other > side / MOST_DISCS else MOST_DISCS


def _axes(polygon: Polygon) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    middle = polygon.middle
    aside = np.zeros(3)
    aside[int(np.abs(middle).argmin())] = 1.0
    east = np.cross(aside, middle)
    east /= np.linalg.norm(east)
    return east, np.cross(middle, east)


def _projected(corners: NDArray[np.float64], polygon: Polygon) -> NDArray[np.float64]:
    if corners.shape[1] == 2:
        return corners
    east, north = _axes(polygon)
    height = corners @ polygon.middle
    return np.stack([corners @ east / height, corners @ north / height], axis=1)


def _unprojected(places: NDArray[np.float64], polygon: Polygon) -> NDArray[np.float64]:
    if len(polygon.middle) == 2:
        return places
    east, north = _axes(polygon)
    vectors = polygon.middle + places[:, :1] * east + places[:, 1:] * north
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1)[:, None])


def _discs(tiles: list[tuple[float, float, float, float]], polygon: Polygon) -> Discs:
    t = np.array(tiles).reshape(-1, 4)
    centres = _unprojected((t[:, :2] + t[:, 2:]) / 2, polygon)
    # a tile is convex, and so is a cap: it holds the tile if it holds its corners
    corners = [_unprojected(t[:, list(pair)], polygon) for pair in ((0, 1), (2, 1), (2, 3), (0, 3))]
    radii = np.max([distance(centres, corner) for corner in corners], axis=0)
    more = DISC_METRES + 2.0 * polygon.band * EARTH_RADIUS if len(polygon.middle) == SPHERE else 0.0
    return Discs(np.ascontiguousarray(centres), radii * DISC + more)


def _size(tile: tuple[float, float, float, float]) -> float:
    return (tile[2] - tile[0]) ** 2 + (tile[3] - tile[1]) ** 2


def _halves(tile: tuple[float, float, float, float]) -> list[tuple[float, float, float, float]]:
    a, b, c, d = tile
    if c - a >= d - b:
        m = (a + c) / 2
        return [(a, b, m, d), (m, b, c, d)]
    m = (b + d) / 2
    return [(a, b, c, m), (a, m, c, d)]


def _touching(
    begins: NDArray[np.float64], ends: NDArray[np.float64], tile: tuple[float, float, float, float], beside: float
) -> NDArray[np.bool_]:
    """Return which edges come into a tile grown a little: by slabs, as rays are clipped."""
    grown = 1e-9 * (abs(tile[2]) + abs(tile[0]) + abs(tile[3]) + abs(tile[1])) + beside
    low, high = np.array(tile[:2]) - grown, np.array(tile[2:]) + grown
    along = ends - begins
    with np.errstate(divide="ignore", invalid="ignore"):
        t, u = (low - begins) / along, (high - begins) / along
    still = along == 0.0
    within = (begins >= low) & (begins <= high)
    t, u = np.where(still, np.where(within, -np.inf, np.inf), t), np.where(still, np.inf, u)
    enters = np.minimum(t, u).max(axis=1)
    leaves = np.maximum(t, u).min(axis=1)
    return np.asarray(np.maximum(enters, 0.0) <= np.minimum(leaves, 1.0))


def _holds(begins: NDArray[np.float64], ends: NDArray[np.float64], x: float, y: float) -> bool:
    crosses = (begins[:, 1] >= y) != (ends[:, 1] >= y)
    a, b = begins[crosses], ends[crosses]
    at = a[:, 0] + (y - a[:, 1]) / (b[:, 1] - a[:, 1]) * (b[:, 0] - a[:, 0])
    return bool(np.count_nonzero(at > x) % 2)
