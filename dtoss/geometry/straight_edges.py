"""Edges that are straight in longitude and latitude, as GeoJSON's are, as chains of great-circle arcs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.polygons import Rings
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN

EDGE_KINDS = ("spherical", "planar")
"""What edges of polygons on the sphere may be: great-circle arcs, or straight in longitude and latitude."""
STRAIGHT_TOLERANCE = 0.1
"""Metres that a chain of arcs may leave the edge that it stands for."""


def as_edges(edges: Any) -> bool:
    """Return whether edges are straight in longitude and latitude.

    Raises
    ------
    ValueError
        If it is no kind of edges.
    """
    if edges not in EDGE_KINDS:
        raise ValueError(f"edges is {edges!r}: one of {', '.join(map(repr, EDGE_KINDS))} is wanted")
    return bool(edges == EDGE_KINDS[1])


def straightened(rings: Rings) -> Rings:
    """Return rings with so many corners more that great-circle arcs stay within 0.1 m of the straight edges.

    Parameters
    ----------
    rings
        In degrees. An edge goes from one number to the other: none crosses the antimeridian, and one from 179 to -179
        goes round the globe.

    Notes
    -----
    A line on which longitude and latitude grow evenly, by ``a`` and ``b`` radians, has the geodesic curvature
    ``sin(lat) a (cos(lat)^2 a^2 + 2 b^2) / v^3`` where ``v^2 = cos(lat)^2 a^2 + b^2``; the middle of a piece leaves its
    chord by an eighth of that times the square of its length, which is less than ``sin(lat) a v / 4``.
    """
    begin, sizes = rings.ring[:-1], np.diff(rings.ring)
    after = np.arange(1, len(rings.corners) + 1)
    after[rings.ring[1:][sizes > 0] - 1] = begin[sizes > 0]
    along = rings.corners[after] - rings.corners
    with np.errstate(invalid="ignore"):
        a, b = np.radians(np.abs(along)).T
        low, high = np.sort(np.radians(np.clip(np.abs([rings.corners[:, 1], rings.corners[after, 1]]), 0, 90)), axis=0)
        crossing = rings.corners[:, 1] * rings.corners[after, 1] < 0.0
        widest = np.where(crossing, 1.0, np.cos(low))
        leaves = np.sin(high) * a * np.hypot(widest * a, b) / 4.0
        x, y = np.abs(rings.corners).T
        legal = (x <= HALF_TURN) & (y <= QUARTER_TURN)
        leaves = np.where(legal & legal[after], leaves, 0.0)
    pieces = np.maximum(np.ceil(np.sqrt(leaves * EARTH_RADIUS / STRAIGHT_TOLERANCE)), 1.0).astype(np.int64)
    first = np.concatenate([[0], np.cumsum(pieces)])
    owner = np.repeat(np.arange(len(pieces)), pieces)
    share: NDArray[np.float64] = (np.arange(first[-1]) - first[owner]) / pieces[owner]
    corners = rings.corners[owner] + share[:, None] * along[owner]
    return Rings(corners, first[rings.ring], rings.polygon, rings.shape)
