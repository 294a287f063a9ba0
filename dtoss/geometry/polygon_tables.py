"""Many polygons as flat tables, in which kernels find the few edges that decide about a place.

Each polygon has a plane of its own: the plane itself, or the gnomonic projection of its middle, where great-circle
arcs are straight. Across it the polygon is cut into strips, and each strip lists the edges that come into it: a ray
along the strip can cross no others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel, operand
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.rounding import PROJECTED, VECTOR
from dtoss.row_runs import offsets

TURNED = 0.7
"""Radians by which the axes of a projection are turned from east, so that no ray follows a meridian or a parallel."""
LISTED_EDGES = 8
"""Edges that the strips of a polygon list, for each of its edges, at the most, about."""
MOST_STRIPS = 1 << 16
U_BEGIN, V_BEGIN, U_END, V_END = range(4)
"""Columns of ``flat``."""
HALF_SPACES = 5
"""Half-spaces that a polygon lies in: those of the rectangle round it, and of the cap on the sphere."""
(
    U_AXIS,
    U_AXIS_Y,
    U_AXIS_Z,
    V_AXIS,
    V_AXIS_Y,
    V_AXIS_Z,
    UP_AXIS,
    UP_AXIS_Y,
    UP_AXIS_Z,
    LEAST_UP,
    LOWEST_U,
    HIGHEST_U,
    LOWEST_V,
    HIGHEST_V,
    FLAT_TOLERANCE,
    PER_STRIP,
    SIDE_TOLERANCE,
) = range(17)
"""Columns of ``facts``: the axes of the projection, the least height over its plane, the rectangle grown by what
rounding may do, that, strips for each unit, and how far from an edge, in radians, something else may decide."""


FACT_COLUMNS = SIDE_TOLERANCE + 1


class Areas(NamedTuple):
    """Polygons and their edges, as kernels take them."""

    facts: NDArray[np.float64]  # float64 (p, 17). Of each polygon, see the names of the columns
    # float64 (p, 5, 5). Half-spaces: a place v is outside where ``v . n > b``, as n, b, and the length of n; places of
    # the plane have z = 1
    sides: NDArray[np.float64]
    begins: NDArray[np.float64]  # begins, ends: float64 (e, 3). Of all edges, as vectors; those of the plane have z = 1
    ends: NDArray[np.float64]
    flat: NDArray[np.float64]  # float64 (e, 4). The same, projected: u and v of the beginning, u and v of the end
    strip: NDArray[np.int64]  # int64 (p + 1,). Polygon i has the strips ``strip[i]:strip[i + 1]``
    listed: NDArray[np.int64]  # int64 (strips + 1,). Strip i lists the edges ``edges[listed[i]:listed[i + 1]]``
    edges: NDArray[np.int32]  # int32


def areas_of(polygons: list[Polygon]) -> Areas:
    """Return the tables of at least one polygon. Cost O(v) for v corners."""
    sphere = polygons[0].corners.shape[1] == 3
    sizes = np.array([len(polygon.corners) for polygon in polygons])
    first = offsets(sizes)
    begins = _lifted(np.concatenate([polygon.corners for polygon in polygons]))
    after = np.arange(1, len(begins) + 1)
    rings = [polygon.first + at for polygon, at in zip(polygons, first[:-1].tolist(), strict=True)]
    after[np.concatenate([ring[1:] for ring in rings]) - 1] = np.concatenate([ring[:-1] for ring in rings])
    ends = begins[after]
    axes = _axes(np.stack([polygon.middle for polygon in polygons]))
    owner = np.repeat(np.arange(len(polygons)), sizes)
    u, v, height = (np.einsum("ij,ij->i", begins, axes[owner, axis]) for axis in range(3))
    flat = np.stack([u / height, v / height, (u / height)[after], (v / height)[after]], axis=1)
    facts = np.empty((len(polygons), FACT_COLUMNS))
    facts[:, U_AXIS:LEAST_UP] = axes.reshape(-1, 9)
    lowest = np.minimum.reduceat(height, first[:-1])
    band = np.array([polygon.band for polygon in polygons])
    by_vectors = np.array([polygon.degrees is None and polygon.straight is None for polygon in polygons])
    tolerance = (PROJECTED + band) / lowest**2 if sphere else np.zeros(len(polygons))
    facts[:, LEAST_UP] = lowest - (1e-9 + band if sphere else 0.0)
    facts[:, FLAT_TOLERANCE] = tolerance
    facts[:, SIDE_TOLERANCE] = np.where(by_vectors, 0.0, VECTOR + band)
    for column, of, sign, bound in (
        (LOWEST_U, 0, -1.0, np.minimum),
        (HIGHEST_U, 0, 1.0, np.maximum),
        (LOWEST_V, 1, -1.0, np.minimum),
        (HIGHEST_V, 1, 1.0, np.maximum),
    ):
        facts[:, column] = bound.reduceat(flat[:, of], first[:-1]) + sign * tolerance
    tall = facts[:, HIGHEST_V] - facts[:, LOWEST_V]
    crossed = np.add.reduceat(np.abs(flat[:, V_BEGIN] - flat[:, V_END]), first[:-1]) / np.maximum(tall, 1e-300)
    strips = np.clip(LISTED_EDGES * sizes / np.maximum(crossed, 1.0), 1, np.minimum(sizes, MOST_STRIPS)).astype(
        np.int64
    )
    facts[:, PER_STRIP] = np.where(tall > 0.0, strips / np.maximum(tall, 1e-300), 0.0)
    strip = offsets(strips)
    listed, edges = _strips(operand(flat), operand(facts), first.astype(np.int64), strip.astype(np.int64))
    return Areas(facts, _sides(facts, sphere), begins, ends, flat, strip.astype(np.int64), listed, edges)


def _lifted(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    if corners.shape[1] == 3:
        return corners
    return np.concatenate([corners, np.ones((len(corners), 1))], axis=1)


def _axes(middles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return east, north and up of each projection, float64 (p, 3, 3); those of the plane are its own."""
    if middles.shape[1] == 2:
        return np.broadcast_to(np.eye(3), (len(middles), 3, 3))
    aside = np.zeros_like(middles)
    aside[np.arange(len(middles)), np.abs(middles).argmin(axis=1)] = 1.0
    east = _cross(aside, middles)
    east /= np.sqrt((east * east).sum(axis=1))[:, None]
    north = _cross(middles, east)
    turned = np.cos(TURNED) * east + np.sin(TURNED) * north
    return np.stack([turned, _cross(middles, turned), middles], axis=1)


def _cross(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``np.cross(a, b)`` of rows of three, the same bits: numpy takes a fifth of the time of a question."""
    out = np.empty_like(a)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        out[:, i] = a[:, j] * b[:, k] - a[:, k] * b[:, j]
    return out


def _sides(facts: NDArray[np.float64], sphere: bool) -> NDArray[np.float64]:
    axes = facts[:, U_AXIS:LEAST_UP].reshape(-1, 3, 3)
    sides = np.zeros((len(facts), HALF_SPACES, HALF_SPACES))
    for side, (axis, column, sign) in enumerate(
        ((0, LOWEST_U, -1.0), (0, HIGHEST_U, 1.0), (1, LOWEST_V, -1.0), (1, HIGHEST_V, 1.0))
    ):
        sides[:, side, :3] = sign * (axes[:, axis] - facts[:, column, None] * axes[:, 2])
        sides[:, side, 4] = np.sqrt(1.0 + facts[:, column] ** 2) if sphere else 1.0
    if sphere:
        sides[:, 4, :3] = -axes[:, 2]
        sides[:, 4, 3] = -facts[:, LEAST_UP]
        sides[:, 4, 4] = 1.0
    return sides


@kernel
def strip_of(v: Any, bottom: Any, per_strip: Any, strips: Any) -> Any:
    """Return the strip of a polygon in which v lies: it never falls as v grows, whatever rounding does."""
    at = (v - bottom) * per_strip
    if not at > 0.0:
        return 0
    return int(at) if at < strips else strips - 1


@kernel("Tuple((int64[::1], int32[::1]))(float64[:, ::1], float64[:, ::1], int64[::1], int64[::1])")
def _strips(flat: Any, facts: Any, first: Any, strip: Any) -> Any:
    """Return where the edges of each strip begin, and the edges."""
    polygons = facts.shape[0]
    listed = np.zeros(strip[polygons] + 1, np.int64)
    # counted, then written from the end of each strip to its beginning
    edges = np.empty(0, np.int32)
    for turn in range(2):
        for p in range(polygons):
            bottom, tolerance, per_strip = facts[p, LOWEST_V], 2.0 * facts[p, FLAT_TOLERANCE], facts[p, PER_STRIP]
            strips = strip[p + 1] - strip[p]
            for e in range(first[p], first[p + 1]):
                low = min(flat[e, V_BEGIN], flat[e, V_END]) - tolerance
                high = max(flat[e, V_BEGIN], flat[e, V_END]) + tolerance
                begin = strip[p] + strip_of(low, bottom, per_strip, strips)
                end = strip[p] + strip_of(high, bottom, per_strip, strips)
                for s in range(begin, end + 1):
                    if turn == 0:
                        listed[s] += 1
                    else:
                        listed[s] -= 1
                        edges[listed[s]] = e
        if turn == 0:
            total = 0
            for s in range(listed.size):
                total += listed[s]
                listed[s] = total
            edges = np.empty(total, np.int32)
    return listed, edges
