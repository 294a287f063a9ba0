"""The regions of the partitions as polygons: power diagrams of the weighted pivots, in the plane and on the sphere.

In the plane a region is a convex polygon, clipped to the bounds. On the sphere the border of two weighted pivots is a
circle, ``x . n = c``, great only where their weights are equal. So a region is what many caps leave of the sphere: it
may be in several pieces and have holes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.partitioning.regions import Regions

NEAREST_CAPS = 48
"""Caps that a circle is compared with before all others, the nearest to the pivot."""
_SAGITTA = 1e-8
"""How far, in radians (6 cm), a chain of great-circle arcs may leave the circle that it stands for."""


@dataclass(frozen=True)
class RegionShape:
    """One region."""

    # Its pieces, each a list of closed rings (p, dimension), the outer one first, interior on the left; none for a
    # region that is empty, or is the whole sphere
    polygons: list[list[NDArray[np.float64]]]
    area: float  # Square CRS units or square metres; exact, whatever the rings leave out
    neighbours: NDArray[np.int64]  # Numbers of the regions that share a border with it


@dataclass(frozen=True)
class _Arcs:
    """Arcs of one region's border: on the circle of ``owner``, clockwise round its normal, from ``start`` to ``end``.

    An arc with ``full`` is the whole circle. Angles are measured from ``u`` towards ``v`` in the circle's plane.
    """

    owner: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    full: NDArray[np.bool_]


def region_shapes(regions: Regions, bounds: NDArray[np.float64] | None) -> list[RegionShape]:
    """Return the shape of each region. Cost O(P^2) and more where borders are many."""
    if regions.pivots.shape[1] == 2:
        assert bounds is not None
        return [_planar(regions, bounds, i) for i in range(len(regions))]
    return [_spherical(regions, i) for i in range(len(regions))]


def _half_spaces(regions: Regions, i: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the other regions, nearest border first, with the normals and offsets of ``x . n <= c``."""
    order = regions.borders.order[i].astype(np.int64)
    if len(order) < len(regions) - 1:
        order = np.concatenate([order, np.setdiff1d(np.arange(len(regions)), np.append(order, i))])
    d = regions.pivots[order] - regions.pivots[i]
    length = np.linalg.norm(d, axis=1)
    normal = d / length[:, None]
    shift = (regions.weights[i] - regions.weights[order]) / (2.0 * length)
    middle = 0.5 * (regions.pivots[order] + regions.pivots[i])
    # on the sphere the bisecting plane holds the origin
    offset = shift if regions.pivots.shape[1] == 3 else (middle * normal).sum(axis=1) + shift
    return order, normal, offset


def _planar(regions: Regions, bounds: NDArray[np.float64], i: int) -> RegionShape:
    xmin, ymin, xmax, ymax = bounds.tolist()
    centre = np.clip(regions.pivots[i], bounds[:2], bounds[2:])
    corners = np.array([[xmin, ymin], [xmax, ymin], [xmax, ymax], [xmin, ymax]]) - centre
    owner = np.full(4, -1)
    order, normal, offset = _half_spaces(regions, i)
    offset = offset - normal @ centre
    radius = np.linalg.norm(corners, axis=1).max()
    for j, n, c in zip(order.tolist(), normal, offset.tolist(), strict=True):
        if c >= radius:
            continue
        depth = corners @ n - c
        out = depth > 0.0
        if not out.any():
            continue
        if out.all():
            return RegionShape([], 0.0, np.zeros(0, np.int64))
        corners, owner = _clip(corners, owner, depth, out, j)
        radius = np.linalg.norm(corners, axis=1).max()
    x, y = corners.T
    area = 0.5 * float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
    ring = np.concatenate([corners, corners[:1]]) + centre
    return RegionShape([[ring]], area, np.unique(owner[owner >= 0]))


def _clip(
    corners: NDArray[np.float64], owner: NDArray[np.int64], depth: NDArray[np.float64], out: NDArray[np.bool_], j: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cut one run of corners off a convex polygon; ``owner`` is whose line the edge from each corner on lies on."""
    m = len(corners)
    leave = int(np.flatnonzero(~out & np.roll(out, -1))[0])
    enter = int(np.flatnonzero(out & ~np.roll(out, -1))[0])

    def crossing(a: int) -> NDArray[np.float64]:
        b = (a + 1) % m
        share = depth[a] / (depth[a] - depth[b])
        point: NDArray[np.float64] = corners[a] + share * (corners[b] - corners[a])
        return point

    kept = [(enter + 1 + t) % m for t in range((leave - enter - 1) % m + 1)]
    new = np.concatenate([crossing(enter)[None], corners[kept], crossing(leave)[None]])
    return new, np.concatenate([owner[[enter]], owner[kept], [j]])


def _spherical(regions: Regions, i: int) -> RegionShape:
    order, normal, offset = _half_spaces(regions, i)
    none = np.zeros(0, np.int64)
    if (offset <= -1.0).any():
        return RegionShape([], 0.0, none)
    cuts = offset < 1.0
    order, normal, offset = order[cuts], normal[cuts], offset[cuts]
    u, v = _frames(normal)
    arcs = _arcs(normal, offset, u, v)
    if len(arcs.owner) == 0:
        return RegionShape([], 4.0 * np.pi * EARTH_RADIUS**2 if len(order) == 0 else 0.0, none)
    chains = _chains(arcs, normal, offset, u, v)
    rings = [_ring(chain, arcs, normal, offset, u, v) for chain in chains]
    pieces = _pieces(rings)
    area = 0.0
    for piece in pieces:
        area += 2.0 * np.pi * (2 - len(piece))
        for ring in piece:
            area += _turned(chains[ring], arcs, normal, offset, u, v)
    polygons = [sorted((rings[ring] for ring in piece), key=len, reverse=True) for piece in pieces]
    return RegionShape(polygons, float(area) * EARTH_RADIUS**2, np.unique(order[arcs.owner]))


def _frames(normal: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two unit vectors in the plane of each circle; from u to v is clockwise round the normal."""
    other = np.eye(3)[np.argmin(np.abs(normal), axis=1)]
    u = np.cross(other, normal)
    u /= np.linalg.norm(u, axis=1)[:, None]
    return u, np.cross(u, normal)


def _arcs(
    normal: NDArray[np.float64], offset: NDArray[np.float64], u: NDArray[np.float64], v: NDArray[np.float64]
) -> _Arcs:
    """Return the parts of all circles that no cap covers."""
    radius = np.sqrt(1.0 - offset**2)
    found: list[tuple[int, float, float, bool]] = []
    for j in np.flatnonzero(~_covered(normal[:NEAREST_CAPS], offset[:NEAREST_CAPS], normal, offset, u, v)).tolist():
        # along circle j, cap k covers cos(t - middle) * size > gap
        a, b = normal @ u[j] * radius[j], normal @ v[j] * radius[j]
        gap, size = offset - offset[j] * (normal @ normal[j]), np.hypot(a, b)
        covers = np.arange(len(offset)) != j
        if (covers & (gap < -size)).any():
            continue
        covers &= gap < size
        if not covers.any():
            found.append((j, 0.0, 2.0 * np.pi, True))
            continue
        middle, half = np.arctan2(b, a)[covers], np.arccos(np.clip(gap[covers] / size[covers], -1.0, 1.0))
        low = np.mod(middle - half, 2.0 * np.pi)
        by_low = np.argsort(low)
        low, high = low[by_low], low[by_low] + 2.0 * half[by_low]
        reached = np.maximum.accumulate(high)
        # what the last caps cover goes on past the first turn
        reached = np.maximum(reached, reached[-1] - 2.0 * np.pi)
        after = np.append(low[1:], low[0] + 2.0 * np.pi)
        for t in np.flatnonzero(after > reached).tolist():
            found.append((j, float(reached[t]), float(after[t]), False))
    owner, start, end, full = (list(column) for column in zip(*found, strict=True)) if found else ([], [], [], [])
    return _Arcs(np.array(owner, np.int64), np.array(start), np.array(end), np.array(full, np.bool_))


def _covered(
    caps: NDArray[np.float64],
    tops: NDArray[np.float64],
    normal: NDArray[np.float64],
    offset: NDArray[np.float64],
    u: NDArray[np.float64],
    v: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return which circles the first few caps cover whole: nearly all that have no arc."""
    radius = np.sqrt(1.0 - offset**2)[:, None]
    a, b = u @ caps.T * radius, v @ caps.T * radius
    gap, size = tops - offset[:, None] * (normal @ caps.T), np.hypot(a, b)
    own = np.arange(len(offset))[:, None] == np.arange(len(caps))
    share = np.clip(gap / np.where(size > 0.0, size, 1.0), -1.0, 1.0)
    half = np.where((gap < size) & ~own, np.arccos(share), -np.inf)
    low = np.mod(np.arctan2(b, a) - half, 2.0 * np.pi, where=np.isfinite(half), out=np.full(half.shape, 7.0))
    by_low = np.argsort(low, axis=1)
    low = np.take_along_axis(low, by_low, axis=1)
    high = low + 2.0 * np.take_along_axis(half, by_low, axis=1)
    reached = np.maximum.accumulate(high, axis=1)
    reached = np.maximum(reached, reached[:, -1:] - 2.0 * np.pi)
    after = np.concatenate([low[:, 1:], low[:, :1] + 2.0 * np.pi], axis=1)
    open_gap = (np.minimum(after, low[:, :1] + 2.0 * np.pi) > reached).any(axis=1)
    covered: NDArray[np.bool_] = ((gap < -size) & ~own).any(axis=1) | ~open_gap
    return covered


def _point(
    arcs: _Arcs, k: int, angle: float | NDArray[np.float64], *circle: NDArray[np.float64]
) -> NDArray[np.float64]:
    normal, offset, u, v = circle
    j = arcs.owner[k]
    radius = np.sqrt(1.0 - offset[j] ** 2)
    angle = np.asarray(angle)[..., None]
    point: NDArray[np.float64] = offset[j] * normal[j] + radius * (np.cos(angle) * u[j] + np.sin(angle) * v[j])
    return point


def _chains(arcs: _Arcs, *circle: NDArray[np.float64]) -> list[list[int]]:
    """Return the arcs of each ring in their order: each goes on where the last one ended."""
    count = len(arcs.owner)
    starts = np.array([_point(arcs, k, float(arcs.start[k]), *circle) for k in range(count)])
    ends = np.array([_point(arcs, k, float(arcs.end[k]), *circle) for k in range(count)])
    free = ~arcs.full
    chains = [[k] for k in np.flatnonzero(arcs.full).tolist()]
    while free.any():
        k = int(np.flatnonzero(free)[0])
        chain, first = [k], k
        free[k] = False
        while True:
            gap = ((starts - ends[k]) ** 2).sum(axis=1)
            gap[~free] = np.inf
            k = int(np.argmin(gap))
            if ((starts[first] - ends[chain[-1]]) ** 2).sum() <= gap[k]:
                break
            chain.append(k)
            free[k] = False
        chains.append(chain)
    return chains


def _ring(chain: list[int], arcs: _Arcs, *circle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a closed ring of unit vectors: points on the circles, near enough for great-circle arcs between them."""
    offset = circle[1]
    parts = []
    for k in chain:
        c = float(offset[arcs.owner[k]])
        turn = float(arcs.end[k] - arcs.start[k])
        # an arc of length L on a circle of curvature g leaves the great circle by g L^2 / 8
        bend = abs(c) * np.sqrt(1.0 - c * c) * turn * turn / (8.0 * _SAGITTA)
        steps = max(int(np.ceil(np.sqrt(bend))), int(np.ceil(turn / (0.5 * np.pi))), 1)
        angles = arcs.start[k] + turn * np.arange(steps) / steps
        parts.append(_point(arcs, k, angles, *circle))
    return np.concatenate([*parts, parts[0][:1]])


def _turned(chain: list[int], arcs: _Arcs, *circle: NDArray[np.float64]) -> float:
    """Return 2 pi less the area on the left of a ring's border, 2 pi x corners aside: Gauss and Bonnet."""
    _, offset, u, v = circle
    total = 0.0
    for t, k in enumerate(chain):
        j = arcs.owner[k]
        # the interior lies outside the cap, so the border bends away from it by cos(cap) a radian of turn
        total += float(offset[j] * (arcs.end[k] - arcs.start[k]))
        if arcs.full[k]:
            continue
        after = chain[(t + 1) % len(chain)]
        i = arcs.owner[after]
        corner = _point(arcs, k, float(arcs.end[k]), *circle)
        a = -np.sin(arcs.end[k]) * u[j] + np.cos(arcs.end[k]) * v[j]
        b = -np.sin(arcs.start[after]) * u[i] + np.cos(arcs.start[after]) * v[i]
        total -= float(np.arctan2(np.cross(a, b) @ corner, a @ b))
    return total


def _pieces(rings: list[NDArray[np.float64]]) -> list[list[int]]:
    """Return which rings bound the same piece: those on the left of the same rings."""
    if len(rings) == 1:
        return [[0]]
    sides: dict[tuple[bool, ...], list[int]] = {}
    for i, ring in enumerate(rings):
        side = tuple(i == j or left_of(rings[j], ring[0]) for j in range(len(rings)))
        sides.setdefault(side, []).append(i)
    return list(sides.values())


def left_of(ring: NDArray[np.float64], place: NDArray[np.float64]) -> bool:
    """Return whether a place lies on the left of a ring: by crossings of the way there from the middle of an edge."""
    a, b = ring[:-1], ring[1:]
    edge = int(np.argmax(((b - a) ** 2).sum(axis=1)))
    begin = a[edge] + b[edge]
    begin /= np.linalg.norm(begin)
    plane = np.cross(begin, place)
    leaves_left = float(np.cross(a[edge], b[edge]) @ place) > 0.0
    sides_a, sides_b = a @ plane, b @ plane
    normals = np.cross(a, b)
    crosses = ((sides_a > 0.0) != (sides_b > 0.0)) & ((normals @ begin > 0.0) != (normals @ place > 0.0))
    # the meeting point of both planes must lie on both arcs, not opposite one of them
    meeting = np.cross(plane, normals)
    meeting *= np.sign((meeting * (a + b)).sum(axis=1))[:, None]
    crosses &= meeting @ (begin + place) > 0.0
    crosses[edge] = False
    return bool(leaves_left) == (int(crosses.sum()) % 2 == 0)
