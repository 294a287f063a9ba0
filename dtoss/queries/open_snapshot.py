"""What the kernels of queries are given: the partitions, the queries' places on the curve, and memory to work in.

Balls round runs of 16 blocks, of 256, and so on: of thousands of sites at once, whether a large disc holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.geometry.distance import EARTH_RADIUS, chord_of
from dtoss.geometry.hilbert import curve_keys
from dtoss.partition import BALL, FAN, Blocks
from dtoss.partitioning.regions import Regions
from dtoss.queries.kernels.address_table import AddressTable, grouped_balls
from dtoss.queries.kernels.walk import plan_starts
from dtoss.queries.open_partitions import OpenPartitions

SORTED_FROM = 16
"""Queries from which on a batch is put in curve order first."""
BATCH = 4_000_000
"""Hits that one kernel call makes room for at the most, unless one query has more."""


@dataclass(frozen=True)
class OpenSnapshot:
    """What the kernels read: the partitions, and which of them a query concerns."""

    parts: OpenPartitions
    regions: Regions
    reach: NDArray[np.float64]  # float64 (P,). Lambda of each partition, a distance or chord
    box: NDArray[np.float64]  # float64 (4,). The bounds of a planar index, zeros on the sphere
    dimension: int  # 2 in the plane, 3 on the sphere
    string_ids: bool  # Whether ids are strings
    objects: int  # How many there are in all
    # uint8 of each partition: which of its objects count; None where all do
    masks: tuple[NDArray[np.uint8], ...] | None = None


def keys_of(opened: OpenSnapshot, queries: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of queries on the curve, whose order is good for the caches."""
    return curve_keys(queries, opened.box if opened.dimension == 2 else None, coarse=True)


def starts_of(
    opened: OpenSnapshot,
    table: AddressTable,
    queries: NDArray[np.float64],
    keys: NDArray[np.int64],
    asked: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return where the queries of a batch start, in the order of their ascending keys; empty arrays without keys.

    ``asked`` are the rows of the queries in this order; empty, they stand in it.
    """
    homes, blocks = np.empty(len(keys), np.int32), np.empty(len(keys), np.int32)
    if len(keys):
        r = opened.regions
        borders = r.borders
        plan_starts(
            table.rows, r.pivots, r.weights, borders.order, borders.distance, queries, keys, asked, homes, blocks
        )
    return homes, blocks


def arguments_of(opened: OpenSnapshot, table: AddressTable) -> tuple[Any, ...]:
    """Return what every kernel of queries takes first."""
    r = opened.regions
    return (
        table.rows,
        table.furthest,
        r.pivots,
        r.weights,
        r.borders.order,
        r.borders.distance,
        opened.reach,
        opened.box,
    )


def chords_of(opened: OpenSnapshot, radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared distances, as vectors see them, of radii; infinity from half round the Earth on."""
    if opened.dimension == 2 or (
        len(radius) and radius[0] == np.inf and (len(radius) == 1 or (radius == np.inf).all())
    ):
        return radius * radius
    return np.where(radius >= np.pi * EARTH_RADIUS, np.inf, chord_of(radius) ** 2)


def addresses_of_runs(table: AddressTable) -> NDArray[np.int64]:
    """Return the addresses of the balls of runs of each partition, int64 (P,); 0 where there are none.

    They are made when they are first asked for, and kept with the blocks. Cost O(b) for b blocks, once.
    """
    if table.runs[0] < 0:
        made = np.zeros(len(table.runs), np.int64)
        for number, partition in enumerate(table.partitions):
            if partition is not None and len(partition.blocks.balls) > FAN:
                made[number] = address(runs_of(partition.blocks), "balls of runs")
        table.runs[:] = made
    return table.runs


def runs_of(blocks: Blocks) -> NDArray[np.float64]:
    """Return the balls of runs of a partition's blocks, made when they are first asked for."""
    if not blocks.runs:
        blocks.runs.append(balls_of_runs(blocks.balls))
    return blocks.runs[0]


def balls_of_runs(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 of b blocks, then round each 256, and so on until there are no more than 16.

    ``balls``: float64 (b, 4). Centres and radii of the blocks.

    Examples
    --------
    >>> balls_of_runs(np.array([[float(i), 0.0, 0.0, 0.5] for i in range(20)])).round(6).tolist()
    [[7.5, 0.0, 0.0, 8.0], [17.5, 0.0, 0.0, 2.0]]
    """
    levels = [np.zeros((0, BALL))]
    while len(balls) > FAN:
        balls = grouped_balls(balls)
        levels.append(balls)
    return np.concatenate(levels)
