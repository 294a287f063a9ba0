"""What bounds the places of subscriptions that ways are held against: circles and edges, found by a tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import join_rows
from dtoss.geometry.polygons import Polygon
from dtoss.geometry.rect_tree import RectTree, tree_of
from dtoss.geometry.space import HALF_TURN, QUARTER_TURN
from dtoss.geometry.ways import GREAT, ROUND, SIDE_FACTS, STRAIGHT
from dtoss.watch.index.build_index import covers_of
from dtoss.watch.index.covers import CIRCULAR, GROWN, RECTANGULAR, arc_rects
from dtoss.watch.index.subscription_index import SubscriptionIndex
from dtoss.watch.subscription import CROSS

_KEPT, _BOX_SIDES = "sides", 4


@dataclass(frozen=True)
class Sides:
    """Sides of places."""

    owner: NDArray[np.int32]  # int32 (k,). The row of the subscription
    kind: NDArray[np.uint8]  # kind, facts: uint8 (k,) and float64 (k, 6), see :mod:`dtoss.geometry.ways`
    facts: NDArray[np.float64]
    # float64 (k, 4). Rectangles that hold them: west, south, east and north, where west may be greater on the sphere
    rects: NDArray[np.float64]

    @cached_property
    def tree(self) -> tuple[RectTree, NDArray[np.int64]]:
        """The tree of the rectangles, and whose each of them is: what crosses the antimeridian has two."""
        flat, whose = split_at_seam(self.rects)
        return tree_of(flat), whose


def split_at_seam(rects: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return rectangles (n, 4) whose west is not greater than their east, two of one else, and whose each is."""
    over = np.flatnonzero(rects[:, 0] > rects[:, 2])
    flat = np.concatenate([rects, rects[over]])
    flat[over, 2] = HALF_TURN
    flat[len(rects) :, 0] = -HALF_TURN
    return flat, np.concatenate([np.arange(len(rects)), over])


def sides_of(built: SubscriptionIndex, events: int = CROSS) -> Sides:
    """Return the sides of the places whose subscriptions want one of some events, as bits; the index keeps them."""
    key = f"{_KEPT} {events}"
    if key not in built.memo:
        built.memo[key] = _sides_in(built, events)
    found: Sides = built.memo[key]
    return found


def _sides_in(built: SubscriptionIndex, events: int) -> Sides:
    """Cost O(v) for v corners."""
    covers = covers_of(built)
    wanted = (built.arrays["events"][covers.owner] & events) != 0
    rounds = np.flatnonzero(wanted & (covers.shape == CIRCULAR))
    boxes = np.flatnonzero(wanted & (covers.shape == RECTANGULAR))
    parts = np.flatnonzero(wanted & (covers.shape >= 0))
    facts = np.zeros((len(rounds), SIDE_FACTS))
    facts[:, :3], facts[:, 3] = covers.facts[rounds, :3], built.arrays["radius"][covers.owner[rounds]]
    sphere = built.space.metric == "sphere"
    made = [
        Sides(covers.owner[rounds], np.full(len(rounds), ROUND, np.uint8), facts, covers.rects[rounds]),
        _straight(np.repeat(covers.owner[boxes], _BOX_SIDES), _box_edges(covers.facts[boxes], sphere), sphere),
    ]
    last = None
    for part in parts.tolist():
        polygon = built.polygon(int(covers.shape[part]))
        # what was cut into parts has all of its edges in each of them
        if polygon.straight is None or polygon.straight is not last:
            made.append(_polygon_sides(polygon, covers.owner[part], sphere))
        last = polygon.straight
    return join_rows(made)


def _box_edges(boxes: NDArray[np.float64], sphere: bool) -> NDArray[np.float64]:
    """Return the four edges of each box, float64 (4 n, 4); its east is beyond 180 where it crosses the antimeridian."""
    west, south, east, north = boxes.T
    if sphere:
        east = np.where(east < west, east + 2 * HALF_TURN, east)
    low = np.stack([west, south, east, south], axis=1)
    high = np.stack([west, north, east, north], axis=1)
    left = np.stack([west, south, west, north], axis=1)
    right = np.stack([east, south, east, north], axis=1)
    return np.stack([low, high, left, right], axis=1).reshape(-1, 4)


def _straight(owner: NDArray[np.int32], edges: NDArray[np.float64], sphere: bool) -> Sides:
    """Return edges (k, 4) that are straight in x and y, or in longitude and latitude; a pole has every longitude."""
    if sphere:
        top = np.flatnonzero((np.abs(edges[:, 1]) == QUARTER_TURN) | (np.abs(edges[:, 3]) == QUARTER_TURN))
        lat = np.where(np.abs(edges[top, 1]) == QUARTER_TURN, edges[top, 1], edges[top, 3])
        far = np.full(len(top), HALF_TURN)
        owner = np.concatenate([owner, owner[top]])
        edges = np.concatenate([edges, np.stack([-far, lat, far, lat], axis=1)])
    facts = np.zeros((len(edges), SIDE_FACTS))
    facts[:, :4] = edges
    low, high = np.minimum(edges[:, :2], edges[:, 2:]), np.maximum(edges[:, :2], edges[:, 2:])
    rects = np.concatenate([low, high], axis=1)
    if sphere:
        beyond = (rects[:, [0, 2]] > HALF_TURN) * 2 * HALF_TURN
        rects[:, [0, 2]] -= beyond
        rects += np.array([-GROWN, -GROWN, GROWN, GROWN])
    return Sides(owner, np.full(len(edges), STRAIGHT, np.uint8), facts, rects)


def _polygon_sides(polygon: Polygon, owner: np.int32, sphere: bool) -> Sides:
    shape = polygon if polygon.straight is None else polygon.straight
    begins, ends = shape.edges()
    whose = np.full(len(begins), owner, np.int32)
    if begins.shape[1] == 2:
        return _straight(whose, np.concatenate([begins, ends], axis=1), sphere)
    facts = np.concatenate([begins, ends], axis=1)
    return Sides(whose, np.full(len(facts), GREAT, np.uint8), facts, arc_rects(begins, ends))
