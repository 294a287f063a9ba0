"""The corners of cells, the same numbers from each of the cells that meet there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.cell_polygons import CellPolygons
from dtoss.export.planar import on_grid
from dtoss.geometry.rounding import ONE_CORNER
from dtoss.row_runs import offsets

_NEAR = 1e-8
"""Radians, 6 cm, or as a share of the bounds: a corner that is further from where its cell has it is left there."""
_FINE = 2.0**-42
"""Share of the diagonal of the bounds to which corners of a plane are rounded: thousands of roundings."""
_SAME_CORNER = 1e-8
"""Degrees, 1 mm: corners nearer together than this may be one."""
_STEPS = 4.0
"""Steps of the grid of a plane: corners nearer together than this may be one."""
_CROWD = 8
"""Corners at one place that are looked at."""
_LONG = 0.9
"""Radians of arcs that get points of their circle, so that none is nearly half a turn."""
_APART = 1e-9
"""Radians from the ends of an arc that a point between them has to have."""
_TRIANGLE = 3


def corners_of(
    made: CellPolygons,
    sites: NDArray[np.float64],
    others: NDArray[np.float64],
    bounds: NDArray[np.float64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the corners of cells, rounded to a grid: lon, lat in degrees, or x, y.

    Each is made of the three sites that are nearest to it, in their order, and not of the cell that it is asked for.
    Corners may stand there twice, one after the other. Cost O(corners).

    Cell i has ``points[first[i]:first[i + 1]]``, counter-clockwise, float64 (v, 2). ``sites``: float64 (m, dimension).
    Their sites; ``others``: float64 (c, dimension). The candidates that ``made.owner`` counts.
    """
    count = np.diff(made.first)
    cell = np.repeat(np.arange(len(count)), count)
    kept = made.length > ONE_CORNER * float(np.abs(made.vertices).max(initial=0.0))
    kept |= (np.bincount(cell[kept], minlength=len(count)) < _TRIANGLE)[cell]
    cell, own, right = cell[kept], made.vertices[kept], made.owner[kept]
    count = np.bincount(cell, minlength=len(count))
    first = offsets(count)
    before = np.arange(-1, len(cell) - 1)
    before[first[:-1][count > 0]] = first[1:][count > 0] - 1
    left = right[before]
    if bounds is not None:
        return first, _planar(own, sites[cell], left, right, others, bounds)
    met = np.flatnonzero((left >= 0) & (right >= 0) & (left != right))
    places = own.copy()
    found = _opposite(sites[cell[met]], others[left[met]], others[right[met]], own[met])
    near = ((found - own[met]) ** 2).sum(axis=1) < _NEAR * _NEAR
    places[met[near]] = found[near]
    along = (left == right) & (right >= 0)
    long = along | ((made.length[kept] > 0.9 * _LONG) & (right >= 0))
    if long.any():
        first, places = _long_arcs(first, places, along, long, right, sites, others, np.unique(cell[long]))
    x, y, z = places.T
    lonlat = np.column_stack([np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))])
    return first, together(on_grid(lonlat), _SAME_CORNER)


def together(points: NDArray[np.float64], apart: float) -> NDArray[np.float64]:
    """Return points (n, 2) of which those that are as near together are one: the one that stands there most often.

    Where four sites and more are as far from a corner, each cell knows other three of them. A corner is that of three
    cells at the least, so others are not looked at. Cost O(n log n).
    """
    order = np.lexsort(points.T)
    fresh = np.ones(len(points), np.bool_)
    fresh[1:] = (points[order[1:]] != points[order[:-1]]).any(axis=1)
    number = np.empty(len(points), np.int64)
    number[order] = np.cumsum(fresh) - 1
    places, count = points[order[fresh]], np.bincount(number)
    few = np.flatnonzero(count < _TRIANGLE)
    if len(few) == 0:
        return points
    from scipy.spatial import cKDTree  # a fifth of a second that a server which shows no cells has no use for

    gap, near = cKDTree(places).query(places[few], k=_CROWD, distance_upper_bound=apart)
    moved = few[np.isfinite(gap[:, 1])]
    if len(moved) == 0:
        return points
    near = near[np.isfinite(gap[:, 1])]
    often = np.append(count, -1)[near]
    # the lowest number of those that stand there most often
    best = np.where(often == often.max(axis=1, keepdims=True), near, len(places)).min(axis=1)
    instead = np.arange(len(places))
    instead[moved] = best
    for _ in range(_CROWD):
        instead = instead[instead]
    merged: NDArray[np.float64] = places[instead[number]]
    return merged


def _sorted_rows(*rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return arrays (n, dimension) with the rows of the same number in ascending order."""
    ordered = list(rows)
    for top in range(len(ordered) - 1, 0, -1):
        for i in range(top):
            a, b = ordered[i], ordered[i + 1]
            swap, same = np.zeros(len(a), np.bool_), np.ones(len(a), np.bool_)
            for axis in range(a.shape[1]):
                swap |= same & (a[:, axis] > b[:, axis])
                same &= a[:, axis] == b[:, axis]
            ordered[i], ordered[i + 1] = np.where(swap[:, None], b, a), np.where(swap[:, None], a, b)
    return ordered


def _opposite(
    a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64], own: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the place as far from three sites of the sphere, of the two that there are the one near ``own``.

    NaN where the three do not say.
    """
    a, b, c = _sorted_rows(a, b, c)
    x, y, z = a.T
    sign = np.where(z >= 0.0, 1.0, -1.0)
    t = -1.0 / (sign + z)
    s = x * y * t
    one = np.column_stack([1.0 + sign * x * x * t, sign * s, -sign * x])
    two = np.column_stack([s, sign + y * y * t, -y])
    # seen from the first in its tangent plane, as cells are cut; homogeneous, for corners a quarter turn away
    d, e = b - a, c - a
    du, dv, eu, ev = ((v * axis).sum(axis=1) for v in (d, e) for axis in (one, two))
    h, k = 0.5 * (d * d).sum(axis=1), 0.5 * (e * e).sum(axis=1)
    place = (du * ev - dv * eu)[:, None] * a + (h * ev - k * dv)[:, None] * one + (du * k - eu * h)[:, None] * two
    size = np.linalg.norm(place, axis=1) * np.where((place * own).sum(axis=1) < 0.0, -1.0, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        made: NDArray[np.float64] = place / size[:, None]
    return made


def _long_arcs(
    first: NDArray[np.int64],
    places: NDArray[np.float64],
    along: NDArray[np.bool_],
    long: NDArray[np.bool_],
    owner: NDArray[np.int64],
    sites: NDArray[np.float64],
    others: NDArray[np.float64],
    cells: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return corners with points on long edges of some cells: not those of its own, but where both sites say."""
    pieces, sizes = [], np.diff(first)
    start = 0
    for i in cells.tolist():
        begin, end = int(first[i]), int(first[i + 1])
        pieces.append(places[start:begin])
        start = end
        mine: list[NDArray[np.float64]] = []
        ends = [j for j in range(begin, end) if not along[j]]
        if not ends:
            mine += _quarters(sites[i], others[owner[begin]], None, None)
        for t, j in enumerate(ends):
            to = ends[(t + 1) % len(ends)]
            mine.append(places[j])
            if long[j] or to != (j + 1 if j + 1 < end else begin):
                mine += _quarters(sites[i], others[owner[j]], places[j], places[to])
        sizes[i] = len(mine)
        pieces.append(np.array(mine))
    pieces.append(places[start:])
    return offsets(sizes), np.concatenate(pieces)


def _quarters(
    site: NDArray[np.float64],
    other: NDArray[np.float64],
    begin: NDArray[np.float64] | None,
    end: NDArray[np.float64] | None,
) -> list[NDArray[np.float64]]:
    """Return the points, a quarter turn apart, of the circle between two sites, from one place on it to another."""
    low, high = sorted((site.tolist(), other.tolist()))
    normal = np.array(high) - low
    normal /= np.linalg.norm(normal)
    u = np.cross(np.eye(3)[np.argmin(np.abs(normal))], normal)
    u /= np.linalg.norm(u)
    v = np.cross(normal, u)
    inward = -np.cross(u, v) if site.tolist() == low else np.cross(u, v)
    axis = np.cross(inward, u)  # counter-clockwise round the site's side

    def angle(place: NDArray[np.float64]) -> float:
        return float(np.arctan2(place @ axis, place @ u))

    points = [u, axis, -u, -axis]
    if begin is None or end is None:
        return points
    from_, way = angle(begin), (angle(end) - angle(begin)) % (2.0 * np.pi)
    if way < _LONG:
        return []
    gone = sorted(((angle(point) - from_) % (2.0 * np.pi), i) for i, point in enumerate(points))
    return [points[i] for turn, i in gone if _APART < turn < way - _APART]


def _planar(
    own: NDArray[np.float64],
    site: NDArray[np.float64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    others: NDArray[np.float64],
    bounds: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return corners of a plane: of three sites, or of two and the side of the bounds that they are on."""
    span = float(np.hypot(bounds[2] - bounds[0], bounds[3] - bounds[1]))
    step = _grid_of(bounds)
    places = own.copy()
    met = np.flatnonzero((left >= 0) & (right >= 0) & (left != right))
    a, b, c = _sorted_rows(site[met], others[left[met]], others[right[met]])
    d, e = b - a, c - a
    h, k = 0.5 * (d * d).sum(axis=1), 0.5 * (e * e).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        size = d[:, 0] * e[:, 1] - d[:, 1] * e[:, 0]
        found = a + np.column_stack([h * e[:, 1] - k * d[:, 1], d[:, 0] * k - e[:, 0] * h]) / size[:, None]
        near = np.hypot(*(found - own[met]).T) < _NEAR * span
    places[met[near]] = found[near]
    low, high = bounds[:2], bounds[2:]
    side = np.flatnonzero((left < 0) != (right < 0))
    a, b = _sorted_rows(site[side], others[np.maximum(left, right)[side]]) if len(side) else (own[:0], own[:0])
    d = b - a
    h = 0.5 * (d * d).sum(axis=1)
    for axis in (0, 1):
        for border in (low, high):
            on = np.abs(own[side, axis] - border[axis]) <= step
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                rest = a[:, 1 - axis] + (h - d[:, axis] * (border[axis] - a[:, axis])) / d[:, 1 - axis]
                on &= np.abs(rest - own[side, 1 - axis]) < _NEAR * span
            places[side[on], 1 - axis] = rest[on]
    return on_plane(places, bounds)


def on_plane(places: NDArray[np.float64], bounds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return places (n, 2) of a plane on a grid, those at its bounds upon them, and those that are as one as one.

    Cost O(n log n).
    """
    step = _grid_of(bounds)
    low, high = bounds[:2], bounds[2:]
    points = np.clip(np.round(places / step) * step, low, high)
    for axis in (0, 1):
        for border in (low, high):
            points[np.abs(places[:, axis] - border[axis]) <= step, axis] = border[axis]
    # a grid as fine as numbers are there has corners of their own a step apart
    return together(points, _STEPS * step) if step > _STEPS * np.spacing(np.abs(bounds).max()) else points


def _grid_of(bounds: NDArray[np.float64]) -> float:
    span = float(np.hypot(bounds[2] - bounds[0], bounds[3] - bounds[1]))
    return float(2.0 ** np.ceil(np.log2(max(_FINE * span, float(np.spacing(np.abs(bounds).max()))))))
