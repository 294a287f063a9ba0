"""The rectangles that hold the places of subscriptions: what a grid lists, each part of a place once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS, chord_of
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.space import FURTHEST, HALF_TURN, QUARTER_TURN, Space
from dtoss.watch.index.cell_frame import lonlat_of

CIRCULAR, RECTANGULAR = -1, -2
"""Shapes of places that are told by what stands in a grid; polygons have numbers from 0 on."""
GROWN = 1e-9
"""Degrees by which rectangles are grown, beyond what rounding does."""
_NEAR_POLE = QUARTER_TURN - 1e-6
_WIDEST = 170.0
"""Degrees of longitude up to which a polygon's rectangle is made of its corners."""
_CHORD_TOLERANCE = 1e-11
_WHOLE = 5.0
"""More than any squared chord."""


@dataclass(frozen=True)
class Covers:
    """Parts of places."""

    owner: NDArray[np.int32]  # int32 (p,). The row of the subscription, rising; a polygon in parts has several
    # float64 (p, 4). west, south, east, north; of the sphere in degrees, west > east across the antimeridian
    rects: NDArray[np.float64]
    # float64 (p, 4). Of a circle the vector of its centre and the squared chord beyond which nothing is within; else
    # the rectangle
    facts: NDArray[np.float64]
    shape: NDArray[np.int32]  # int32 (p,). :data:`CIRCULAR`, :data:`RECTANGULAR`, or the number of the polygon


def squared_chords(radius: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    """Return bounds of squared chords: what is further is beyond a radius for sure, whatever rounding does."""
    if space.metric == "plane":
        with np.errstate(over="ignore"):
            return np.asarray(radius * radius * (1.0 + _CHORD_TOLERANCE) + np.finfo(float).tiny)
    chord = chord_of(radius)
    whole = radius >= np.pi * EARTH_RADIUS * (1.0 - _CHORD_TOLERANCE)
    far = np.where(chord > 1.0, _CHORD_TOLERANCE, 0.0)
    return np.where(whole, _WHOLE, chord * chord * (1.0 + _CHORD_TOLERANCE) + far + np.finfo(float).tiny)


def circle_rects(
    centres: NDArray[np.float64], vectors: NDArray[np.float64], radius: NDArray[np.float64], space: Space
) -> NDArray[np.float64]:
    """Return rectangles that hold circles, float64 (n, 4)."""
    if space.metric == "plane":
        radius = np.minimum(radius, 4 * FURTHEST)  # no position is further
        wide = radius + 1e-14 * (np.abs(centres).max(axis=1, initial=0.0) + radius)
        return np.stack(
            [centres[:, 0] - wide, centres[:, 1] - wide, centres[:, 0] + wide, centres[:, 1] + wide], axis=1
        )
    return cap_rects(lonlat_of(vectors), np.degrees(np.minimum(radius / EARTH_RADIUS, np.pi)))


def cap_rects(lonlat: NDArray[np.float64], angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rectangles that hold caps of the sphere, of centres (n, 2) and angles (n,) in degrees."""
    lon, lat = lonlat[:, 0], lonlat[:, 1]
    south, north = lat - angle - GROWN, lat + angle + GROWN
    pole = (south <= -_NEAR_POLE) | (north >= _NEAR_POLE)
    with np.errstate(invalid="ignore", divide="ignore"):
        sine = np.sin(np.radians(np.minimum(angle, QUARTER_TURN))) / np.cos(np.radians(lat))
        wide = np.degrees(np.arcsin(np.minimum(sine * (1.0 + GROWN), 1.0))) * (1.0 + GROWN) + GROWN
    west, east = _wrapped(lon - wide, lon + wide)
    whole = pole | (wide >= HALF_TURN / 2)
    return np.stack(
        [
            np.where(whole, -HALF_TURN, west),
            np.where(south <= -_NEAR_POLE, -QUARTER_TURN, south),
            np.where(whole, HALF_TURN, east),
            np.where(north >= _NEAR_POLE, QUARTER_TURN, north),
        ],
        axis=1,
    )


def box_rects(boxes: NDArray[np.float64], space: Space) -> NDArray[np.float64]:
    """Return boxes as rectangles that hold what the boxes hold, where the antimeridian is 180 only."""
    rects = boxes.copy()
    if space.metric == "sphere":
        # a place of longitude -180 goes by 180
        at = (boxes[:, 0] == -HALF_TURN) & (boxes[:, 2] < HALF_TURN)
        rects[at, 0] = HALF_TURN
    return rects


def polygon_rects(polygons: list[Polygon], space: Space) -> NDArray[np.float64]:
    """Return rectangles that hold polygons, float64 (p, 4). Cost O(v) for v corners."""
    straight = np.array([polygon.straight is not None for polygon in polygons], np.bool_)
    found = np.empty((len(polygons), 4))
    found[straight] = _straight_rects([one for one in polygons if one.straight is not None], space)
    found[~straight] = _arc_rects([one for one in polygons if one.straight is None], space)
    return found


def _straight_rects(polygons: list[Polygon], space: Space) -> NDArray[np.float64]:
    degrees = [one.degrees for one in polygons if one.degrees is not None]
    if not degrees:
        return np.zeros((0, 4))
    sizes = np.array([len(some) for some in degrees])
    first, corners = np.cumsum(sizes) - sizes, np.concatenate(degrees)
    rects = np.concatenate([np.minimum.reduceat(corners, first), np.maximum.reduceat(corners, first)], axis=1)
    # a pole has every longitude, and the longitude 0 in a grid
    pole = (rects[:, 1] == -QUARTER_TURN) | (rects[:, 3] == QUARTER_TURN)
    rects[pole, 0], rects[pole, 2] = -HALF_TURN, HALF_TURN
    return box_rects(rects, space)


def _arc_rects(polygons: list[Polygon], space: Space) -> NDArray[np.float64]:
    if not polygons:
        return np.zeros((0, 4))
    sizes = np.array([len(polygon.corners) for polygon in polygons])
    first = np.cumsum(sizes) - sizes
    edges = [polygon.edges() for polygon in polygons]
    begins, ends = np.concatenate([a for a, _ in edges]), np.concatenate([b for _, b in edges])
    if space.metric == "plane":
        low, high = np.minimum.reduceat(begins, first), np.maximum.reduceat(begins, first)
        return np.concatenate([low, high], axis=1)
    owner = np.repeat(np.arange(len(polygons)), sizes)
    lonlat = lonlat_of(begins)
    apex_south, apex_north = _apexes(begins, ends)
    south = np.minimum.reduceat(np.minimum(lonlat[:, 1], apex_south), first) - GROWN
    north = np.maximum.reduceat(np.maximum(lonlat[:, 1], apex_north), first) + GROWN
    # longitudes as differences from the first corner: right where they are not far
    away = _turned(lonlat[:, 0] - lonlat[first, 0][owner])
    step = _turned(lonlat_of(ends)[:, 0] - lonlat[:, 0])
    low, high = np.minimum.reduceat(away, first), np.maximum.reduceat(away, first)
    jumps = np.maximum.reduceat(np.abs(np.where(np.abs(away + step) > HALF_TURN, HALF_TURN, step)), first)
    west, east = _wrapped(lonlat[first, 0] + low - GROWN, lonlat[first, 0] + high + GROWN)
    rects = np.stack([west, south, east, north], axis=1)
    unsure = (high - low > _WIDEST) | (jumps > _WIDEST) | (south < -_NEAR_POLE) | (north > _NEAR_POLE)
    if unsure.any():
        middles = np.stack([polygon.middle for polygon in polygons])
        cosine = np.minimum.reduceat((begins * middles[owner]).sum(axis=1), first)
        angle = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) + 1e-6
        rects[unsure] = cap_rects(lonlat_of(middles), angle)[unsure]
    return rects


def arc_rects(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rectangles that hold arcs of great circles, from vectors (n, 3) to others: of n arcs float64 (n, 4)."""
    here, there = lonlat_of(begins), lonlat_of(ends)
    apex_south, apex_north = _apexes(begins, ends)
    south = np.minimum(np.minimum(here[:, 1], there[:, 1]), apex_south) - GROWN
    north = np.maximum(np.maximum(here[:, 1], there[:, 1]), apex_north) + GROWN
    step = _turned(there[:, 0] - here[:, 0])
    west, east = _wrapped(here[:, 0] + np.minimum(step, 0.0) - GROWN, here[:, 0] + np.maximum(step, 0.0) + GROWN)
    rects = np.stack([west, south, east, north], axis=1)
    whole = (np.abs(step) > _WIDEST) | (south < -_NEAR_POLE) | (north > _NEAR_POLE)
    rects[whole, 0], rects[whole, 2] = -HALF_TURN, HALF_TURN
    return rects


def _apexes(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and greatest latitudes within arcs, those of their ends where there is none."""
    normal = np.cross(begins, ends)
    square = (normal * normal).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = np.array([0.0, 0.0, 1.0]) - normal * (normal[:, 2] / square)[:, None]
        height = np.degrees(np.arccos(np.minimum(np.abs(normal[:, 2]) / np.sqrt(square), 1.0)))
    before = (np.cross(begins, top) * normal).sum(axis=1)
    after = (np.cross(top, ends) * normal).sum(axis=1)
    tolerance = GROWN * np.sqrt(square)
    level = np.zeros(len(begins))
    good = square > 0.0
    north = np.where(good & (before >= -tolerance) & (after >= -tolerance), height, level - QUARTER_TURN)
    south = np.where(good & (before <= tolerance) & (after <= tolerance), -height, level + QUARTER_TURN)
    return south, north


def _turned(lon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences of longitudes in [-180, 180)."""
    return np.asarray((lon + HALF_TURN) % (2 * HALF_TURN) - HALF_TURN)


def _wrapped(west: NDArray[np.float64], east: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (
        np.where(west < -HALF_TURN, west + 2 * HALF_TURN, west),
        np.where(east > HALF_TURN, east - 2 * HALF_TURN, east),
    )
