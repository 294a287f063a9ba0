"""What the kernels of queries are given: the partitions, the queries' places on the curve, and memory to work in."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.lanes16 import LANES
from dtoss.geometry.curve import curve_keys
from dtoss.geometry.distance import EARTH_RADIUS, chord_of
from dtoss.partition import BLOCK
from dtoss.partitioning.regions import Regions
from dtoss.parts import Parts
from dtoss.ring_sort import RINGS
from dtoss.table import Table
from dtoss.walk import plan_starts

SORTED_FROM = 16
"""Queries from which on a batch is put in curve order first."""
BATCH = 4_000_000
"""Hits that one kernel call makes room for at the most, unless one query has more."""
FIRST = 512
"""Hits of a query that a workspace has room for at first."""
KEPT = 1 << 20
"""And those that it keeps room for from batch to batch: 40 MB a thread."""


@dataclass(frozen=True)
class World:
    """What the kernels read: the partitions, and which of them a query concerns.

    Parameters
    ----------
    box : float64 (4,): the bounds of a planar index, zeros on the sphere.
    objects : how many there are in all.
    """

    parts: Parts
    regions: Regions
    reach: NDArray[np.float64]
    box: NDArray[np.float64]
    dimension: int
    string_ids: bool
    objects: int


def keys_of(world: World, queries: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of queries on the curve, whose order is good for the caches."""
    return curve_keys(queries, world.box if world.dimension == 2 else None, coarse=True)


def starts_of(
    world: World, table: Table, queries: NDArray[np.float64], keys: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return where the queries of a batch in curve order start; empty arrays for queries by themselves."""
    homes, blocks = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    if len(keys):
        r = world.regions
        plan_starts(table.rows, r.pivots, r.weights, r.borders.order, r.borders.distance, queries, keys, homes, blocks)
    return homes, blocks


def arguments_of(world: World, table: Table) -> tuple[Any, ...]:
    """Return what every kernel of queries takes first."""
    r = world.regions
    return (
        table.rows,
        table.furthest,
        r.pivots,
        r.weights,
        r.borders.order,
        r.borders.distance,
        world.reach,
        world.box,
    )


def chords_of(world: World, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances, as vectors see them, of radii; infinity from half round the Earth on."""
    if world.dimension == 2 or (len(radius) and radius[0] == np.inf and (len(radius) == 1 or (radius == np.inf).all())):
        return radius * radius
    return np.where(radius >= np.pi * EARTH_RADIUS, np.inf, chord_of(radius) ** 2)


class Workspace(threading.local):
    """Memory that the kernels work in, each thread its own, which grows to what its queries need."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, np.uint8)
        self.visits = np.empty(0, np.int32)
        self.gaps = np.empty(0)
        self.counters = np.empty(RINGS + 1, np.int64)
        self._make_room(FIRST)

    def fit(self, table: Table) -> None:
        """Make room for visits to all blocks of any partition."""
        blocks = table.most_blocks + 1
        if len(self.seen) < blocks or len(self.visits) < len(self.seen) + table.most_links + 1:
            self.seen = np.zeros(max(blocks, len(self.seen)), np.uint8)
            self.visits = np.empty(len(self.seen) + table.most_links + 1, np.int32)
            self.gaps = np.empty(BLOCK * len(self.seen))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What every kernel works in: places, visits, gaps, seen, distance."""
        return self.places, self.visits, self.gaps, self.seen, self.distance

    def trim(self) -> None:
        """Let go of what a query with very many hits needed: threads live on."""
        if len(self.distance) > KEPT:
            self._make_room(FIRST)

    def grow(self) -> None:
        """Double what a query may list and hit."""
        self._make_room(2 * len(self.distance))

    def _make_room(self, hits: int) -> None:
        self.distance = np.empty(hits)
        self.places = np.empty(4 * hits + LANES, np.int64)


workspace = Workspace()
