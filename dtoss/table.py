"""All partitions of a snapshot in one table of addresses, so that one kernel call can read any of them.

A numba call costs about 0.05 microseconds for each array passed, and the number of arrays is fixed when it is compiled. The
table has one row a partition: addresses of its columns and their sizes. Whoever holds the table keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.partition import Partition

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
) = range(13)
LEVEL = 13
"""Column of the first level's graph; each level takes two."""
MOST_LEVELS = 7
COLUMNS = LEVEL + 2 * MOST_LEVELS


@dataclass(frozen=True)
class Table:
    """Addresses of the columns of P partitions.

    Parameters
    ----------
    rows : int64 (P, COLUMNS).
    furthest : float64 (P,): distance or chord from each pivot to its furthest owned site, -1 where there is none.
    most_sites : sites of the largest partition.
    partitions : what keeps the addresses valid; None for one that is not open.
    """

    rows: NDArray[np.int64]
    furthest: NDArray[np.float64]
    most_sites: int
    partitions: tuple[Partition | None, ...]


def make_table(partitions: Sequence[Partition | None]) -> Table:
    """Return the table of some partitions in the order of their numbers; one that is not open counts as empty."""
    rows = np.zeros((max(len(partitions), 1), COLUMNS), np.int64)
    furthest = np.full(max(len(partitions), 1), -1.0)
    most = 0
    for number, partition in enumerate(partitions):
        if partition is None:
            continue
        row = rows[number]
        row[SITES] = _address(partition.sites)
        row[OBJECTS] = _address(partition.first_object)
        row[FIRST] = _address(partition.graph.first)
        row[NEIGHBOURS] = _address(partition.graph.neighbours)
        if isinstance(partition.ids, pa.Array):
            _, offsets, data = partition.ids.buffers()
            row[IDS] = data.address if data is not None else 0
            row[ID_OFFSETS] = offsets.address + 8 * partition.ids.offset
        else:
            row[IDS] = _address(partition.ids)
        row[SITE_COUNT] = len(partition.sites)
        row[OWNED_SITES] = partition.owned_sites
        row[RIM] = _address(partition.rim)
        row[RIM_COUNT] = len(partition.rim)
        row[LEVELS] = len(partition.levels)
        row[KEYS] = _address(partition.keys)
        for level, graph in enumerate(partition.levels):
            row[LEVEL + 2 * level] = _address(graph.first)
            row[LEVEL + 2 * level + 1] = _address(graph.neighbours)
        furthest[number] = partition.furthest
        most = max(most, len(partition.sites))
    return Table(rows, furthest, most, tuple(partitions))


def _address(array: NDArray[np.generic]) -> int:
    if not array.flags.c_contiguous:
        raise ValueError("columns of a partition must be contiguous")
    return int(array.ctypes.data)
