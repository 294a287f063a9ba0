"""All partitions of a snapshot in one table of addresses, so that one kernel call can read any of them.

A numba call costs about 0.05 microseconds for each array passed, and the number of arrays is fixed when it is
compiled. The table has one row a partition: addresses of its columns and their sizes. Whoever holds the table keeps
the arrays alive.

Balls round runs of 16 balls that follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.kernel import kernel
from dtoss.compiled.pointers import part_of
from dtoss.geometry.rounding import PRUNE
from dtoss.partition import BALL, FAN, MOST_LEVELS, RADIUS, Partition

(
    SITES,
    OBJECTS,
    FIRST,
    NEIGHBOURS,
    IDS,
    ID_OFFSETS,
    SITE_COUNT,
    OWNED_SITES,
    RIM,
    RIM_COUNT,
    LEVELS,
    MASK,
    KEYS,
    BALLS,
    BLOCK_FIRST,
    BLOCK_NEIGHBOURS,
    SINGLE,
    RIM_BALLS,
) = range(18)
LEVEL = 18
"""Column of the first level's graph; each level takes two."""
COLUMNS = LEVEL + 2 * MOST_LEVELS


@kernel
def row_of(rows, p):
    """Return the pointer to the row of partition p in a table, of which ``rows`` is the pointer."""
    return part_of(rows, p * COLUMNS, COLUMNS)


@dataclass(frozen=True)
class AddressTable:
    """Addresses of the columns of P partitions."""

    rows: NDArray[np.int64]  # int64 (P, COLUMNS)
    # float64 (P,). Distance or chord from each pivot to its furthest owned site, -1 where there is none
    furthest: NDArray[np.float64]
    most_blocks: int  # Blocks of the partition with the most
    most_links: int  # Neighbours of blocks, and rim sites, of the partition with the most
    partitions: tuple[Partition | None, ...]  # What keeps the addresses valid; None for one that is not open
    # The balls of rim sites of each partition that is open, kept like them
    rims: tuple[NDArray[np.float64] | None, ...]
    runs: NDArray[np.int64]  # int64 (P,). -1 until ``addresses_of_runs`` fills them


def make_table(partitions: Sequence[Partition | None], sites: Sequence[int], furthest: Sequence[float]) -> AddressTable:
    """Return the table of partitions in the order of their numbers.

    One that is not open has -1 owned sites, so that kernels ask for it, or 0 where it is known to be empty.
    """
    rows = np.zeros((len(partitions), COLUMNS), np.int64)
    rims: list[NDArray[np.float64] | None] = [None] * len(partitions)
    blocks = links = 0
    for number, partition in enumerate(partitions):
        if partition is None:
            rows[number, OWNED_SITES] = -1 if sites[number] else 0
        else:
            rims[number] = _fill(rows[number], partition)
            blocks, links = max(blocks, len(partition.blocks.balls)), max(links, _links(partition))
    return AddressTable(
        rows, np.array(furthest, dtype=np.float64), blocks, links, tuple(partitions), tuple(rims), _unmade(rows)
    )


def with_partitions(table: AddressTable, partitions: Sequence[Partition]) -> AddressTable:
    """Return the table with more partitions open."""
    rows = table.rows.copy()
    kept, rims = list(table.partitions), list(table.rims)
    blocks, links = table.most_blocks, table.most_links
    for partition in partitions:
        rims[partition.number] = _fill(rows[partition.number], partition)
        kept[partition.number] = partition
        blocks, links = max(blocks, len(partition.blocks.balls)), max(links, _links(partition))
    return AddressTable(rows, table.furthest, blocks, links, tuple(kept), tuple(rims), _unmade(rows))


def with_same(
    table: AddressTable, same: Sequence[bool], sites: Sequence[int], furthest: Sequence[float]
) -> AddressTable:
    """Return the table of an index some of whose partitions are those of another one's table; the others are not open.

    ``same``: of each partition, whether it is the same object there.
    """
    rows = table.rows.copy()
    kept: list[Partition | None] = []
    for number, (partition, stays) in enumerate(zip(table.partitions, same, strict=True)):
        kept.append(partition if stays else None)
        if kept[number] is None:
            rows[number] = 0
            rows[number, OWNED_SITES] = -1 if sites[number] else 0
    open_ones = [partition for partition in kept if partition is not None]
    return AddressTable(
        rows, np.array(furthest, dtype=np.float64),
        max((len(one.blocks.balls) for one in open_ones), default=0), max(map(_links, open_ones), default=0),
        tuple(kept), tuple(rim if stays else None for rim, stays in zip(table.rims, same, strict=True)), _unmade(rows),
    )  # fmt: skip


def _unmade(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.full(len(rows), -1, np.int64)


def _fill(row: NDArray[np.int64], partition: Partition) -> NDArray[np.float64]:
    """Fill a row of the table; returns the balls of the rim, which nobody else keeps."""
    row[SITES] = address(partition.sites, "sites")
    row[OBJECTS] = address(partition.first_object, "first objects")
    row[FIRST] = address(partition.graph.first, "graph")
    row[NEIGHBOURS] = address(partition.graph.neighbours, "neighbours")
    if isinstance(partition.ids, pa.Array):
        _, offsets, data = partition.ids.buffers()
        begin, end = partition.ids.offset, partition.ids.offset + len(partition.ids) + 1
        if data is not None:
            row[IDS] = address(np.frombuffer(data, np.uint8), "ids", partition.ids)
        row[ID_OFFSETS] = address(np.frombuffer(offsets, np.int64)[begin:end], "offsets of ids", partition.ids)
    else:
        row[IDS] = address(partition.ids, "ids")
    row[SITE_COUNT] = len(partition.sites)
    row[OWNED_SITES] = partition.owned_sites
    row[RIM] = address(partition.rim, "rim")
    row[RIM_COUNT] = len(partition.rim)
    balls = rim_balls(partition)
    row[RIM_BALLS] = address(balls, "balls of the rim")
    row[LEVELS] = len(partition.levels)
    row[KEYS] = address(partition.keys, "curve keys")
    row[BALLS] = address(partition.blocks.balls, "balls")
    row[BLOCK_FIRST] = address(partition.blocks.first, "blocks")
    row[BLOCK_NEIGHBOURS] = address(partition.blocks.neighbours, "neighbours of blocks")
    row[SINGLE] = len(partition.positions) == len(partition.sites)
    for level, graph in enumerate(partition.levels):
        row[LEVEL + 2 * level] = address(graph.first, f"level {level + 1}")
        row[LEVEL + 2 * level + 1] = address(graph.neighbours, f"neighbours of level {level + 1}")
    return balls


def rim_balls(partition: Partition) -> NDArray[np.float64]:
    """Return a ball round each 16 rim sites, in their order, float64 (r, 4)."""
    if len(partition.rim) == 0:
        return np.zeros((0, BALL))
    sites = partition.sites[partition.rim]
    balls = np.zeros((len(sites), BALL))
    balls[:, : sites.shape[1]] = sites
    return grouped_balls(balls)


def _links(partition: Partition) -> int:
    return len(partition.blocks.neighbours) + len(partition.rim)


def grouped_balls(balls: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a ball round each 16 of n balls, float64 (n / 16, 4) rounded up; the last one is round those left.

    ``balls``: float64 (n, 4). Centres, z = 0 in the plane, and radii.

    Examples
    --------
    >>> grouped_balls(np.array([[float(i), 0.0, 0.0, 0.5] for i in range(20)])).round(6).tolist()
    [[7.5, 0.0, 0.0, 8.0], [17.5, 0.0, 0.0, 2.0]]
    """
    left = np.repeat(balls[-1:], -len(balls) % FAN, axis=0)
    grouped = np.concatenate([balls, left]).reshape(-1, FAN, BALL)
    each = [np.ascontiguousarray(grouped[:, i].T) for i in range(FAN)]
    low, high = np.full((RADIUS, len(grouped)), np.inf), np.full((RADIUS, len(grouped)), -np.inf)
    for ball in each:
        np.minimum(low, ball[:RADIUS], out=low)
        np.maximum(high, ball[:RADIUS], out=high)
    middle = 0.5 * (low + high)
    far = np.zeros(len(grouped))
    for ball in each:
        gap = ball[:RADIUS] - middle
        np.maximum(far, np.sqrt((gap * gap).sum(axis=0)) + ball[RADIUS], out=far)
    return np.column_stack([*middle, far * (1.0 + PRUNE)])
