"""Whether rows outside of a place are near it: how far they are from its circle or from the nearest of its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.distance import distance
from dtoss.geometry.ways import GREAT, STRAIGHT
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.index.place_sides import Sides, sides_of
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.matching.matcher import holding
from dtoss.watch.subscription import AROUND, CIRCLE, STAYS
from dtoss.watch.watch_settings import Rows

_DEGREES = 4.0
"""Pieces, at most, in which an edge that is straight in longitude and latitude is looked at first."""
_HALVINGS = 60
_AT_ONCE = 1 << 20


def near_places(
    standing: Standing,
    rows: Rows,
    row: NDArray[np.int64],
    subscription: NDArray[np.int32],
    metres: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Return which pairs are of a row at most so far outside of a place, whose condition it satisfies, bool (m,).

    ``row``, ``subscription``, ``metres``: (m,). Of each pair; units of the CRS in the plane. Cost O(edges) for a pair,
    and what rounding leaves of a distance may decide either way.
    """
    found = np.zeros(len(row), np.bool_)
    for first, built in standing.parts:
        mine = np.flatnonzero((subscription >= first) & (subscription < first + len(built)))
        mine = mine[holding(built, rows, row[mine], subscription[mine] - first)]
        if len(mine):
            found[mine] = _near(built, rows, row[mine], subscription[mine] - first, metres[mine])
    return found


def _near(
    built: SubscriptionIndex,
    rows: Rows,
    row: NDArray[np.int64],
    subscription: NDArray[np.int32],
    metres: NDArray[np.float64],
) -> NDArray[np.bool_]:
    vectors = built.space.vectors(rows.positions[row])
    found = np.zeros(len(row), np.bool_)
    kind = built.arrays["kind"][subscription]
    whole = (kind == CIRCLE) | (kind == AROUND)
    of = subscription[whole]
    far = distance(vectors[whole], built.arrays["vectors"][of])
    found[whole] = far <= built.arrays["radius"][of] + metres[whole]
    sides = None
    for one in np.unique(subscription[~whole]).tolist():
        mine = np.flatnonzero(~whole & (subscription == one))
        sides = sides_of(built, STAYS) if sides is None else sides
        at = np.flatnonzero(sides.owner == one)
        step = max(_AT_ONCE // max(len(at), 1), 1)
        for begin in range(0, len(mine), step):
            some = mine[begin : begin + step]
            nearest = _nearest(sides, at, rows.positions[row[some]], vectors[some])
            found[some] = distance(vectors[some], nearest) <= metres[some]
    return found


def _nearest(
    sides: Sides, at: NDArray[np.int64], positions: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest place on the edges of a place to each of some others, as vectors (n, dimension)."""
    facts, dimension = sides.facts[at], vectors.shape[1]
    straight = sides.kind[at] == STRAIGHT
    ends = facts[straight][:, :4].reshape(-1, 2, 2)
    places = []
    if dimension == 2:
        places.append(_on_segments(vectors, ends[:, 0], ends[:, 1]))
    elif len(ends):
        places.append(_on_straight(vectors, ends[:, 0], ends[:, 1]))
    arcs = facts[sides.kind[at] == GREAT]
    if len(arcs):
        places.append(_on_arcs(vectors, arcs[:, :3], arcs[:, 3:]))
    every = np.concatenate(places, axis=1)
    return every[np.arange(len(vectors)), ((every - vectors[:, None]) ** 2).sum(axis=2).argmin(axis=1)]


def _on_segments(
    places: NDArray[np.float64], begins: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest place on each segment to each place, (places, segments, 2)."""
    way = ends - begins
    long = np.maximum((way * way).sum(axis=1), np.finfo(float).tiny)
    share = np.clip(((places[:, None] - begins) * way).sum(axis=2) / long, 0.0, 1.0)
    return begins + share[..., None] * way


def _on_arcs(
    places: NDArray[np.float64], begins: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest place on each arc of a great circle to each place, (places, arcs, 3)."""
    normal = np.cross(begins, ends)
    long = np.maximum(np.sqrt((normal * normal).sum(axis=1)), np.finfo(float).tiny)
    normal = normal / long[:, None]
    foot = places[:, None] - (places @ normal.T)[..., None] * normal
    within = (np.cross(begins, foot) * normal).sum(axis=2) >= 0.0
    within &= (np.cross(foot, ends) * normal).sum(axis=2) >= 0.0
    size = np.sqrt((foot * foot).sum(axis=2))
    within &= size > 0.0
    end = ((places[:, None] - begins) ** 2).sum(axis=2) <= ((places[:, None] - ends) ** 2).sum(axis=2)
    corner = np.where(end[..., None], begins, ends)
    return np.where(within[..., None], foot / np.maximum(size, np.finfo(float).tiny)[..., None], corner)


def _on_straight(
    places: NDArray[np.float64], begins: NDArray[np.float64], ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the nearest place on edges that are straight in degrees to each place, (places, 1, 3).

    Edges are looked at in pieces of a few degrees; of those that may be nearest the place is found between two ends of
    pieces, where it is nearer and nearer to one.
    """

    def chords(share: Any, place: Any, edge: Any) -> NDArray[np.float64]:
        on = _vectors(begins[edge] + share[..., None] * (ends[edge] - begins[edge]))
        return np.asarray(np.sqrt(((on - places[place]) ** 2).sum(axis=-1)))

    every = np.arange(len(places))[:, None], np.arange(len(begins))[None]
    steps = max(int(np.ceil(np.abs(ends - begins).max() / _DEGREES)), 1)
    best, least = np.zeros((len(places), len(begins))), np.full((len(places), len(begins)), np.inf)
    for step in range(steps + 1):
        far = chords(np.full(best.shape, step / steps), *every)
        best, least = np.where(far < least, step / steps, best), np.minimum(far, least)
    # no place of an edge is further from the nearest end of a piece than all of a piece is long
    long = np.radians(np.abs(ends - begins).sum(axis=1)) / steps
    place, edge = np.nonzero(least - long <= least.min(axis=1)[:, None])
    low = np.maximum(best[place, edge] - 1.0 / steps, 0.0)
    high = np.minimum(best[place, edge] + 1.0 / steps, 1.0)
    for _ in range(_HALVINGS):
        one, other = low + (high - low) / 3.0, high - (high - low) / 3.0
        left = chords(one, place, edge) <= chords(other, place, edge)
        low, high = np.where(left, low, one), np.where(left, other, high)
    share, far = (low + high) / 2.0, chords((low + high) / 2.0, place, edge)
    worse = far > least[place, edge]
    share, far = np.where(worse, best[place, edge], share), np.where(worse, least[place, edge], far)
    order = np.lexsort((far, place))
    first = order[np.flatnonzero(np.append(True, place[order][1:] != place[order][:-1]))]
    edge, share = edge[first], share[first]
    return _vectors(begins[edge] + share[:, None] * (ends[edge] - begins[edge]))[:, None]


def _vectors(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit vectors of longitudes, of any turn, and latitudes."""
    lon, lat = np.radians(degrees[..., 0]), np.radians(degrees[..., 1])
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
