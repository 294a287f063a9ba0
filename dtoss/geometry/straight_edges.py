"""Edges that are straight in longitude and latitude, as GeoJSON's are, as chains of great-circle arcs near them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN
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
