"""A partition built anew from what stays of it and what came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.building.construct import BuiltPartition, construct
from dtoss.building.stood import Cells, Stood
from dtoss.geometry.space import Space
from dtoss.partition import Partition
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.regions import Regions


@dataclass(frozen=True)
class Grounds:
    """What all partitions of an index are built upon."""

    space: Space
    regions: Regions
    reach: NDArray[np.float64]  # float64 (P,). Lambda of each
    bounds: NDArray[np.float64] | None  # Of a plane, float64 (4,); None on the sphere
    levels: bool = True  # Whether partitions have graphs over few of their sites, where a search may start


def homes_of(partition: Partition) -> NDArray[np.int32]:
    """Return the partition that owns each object which a partition knows, int32 (n,)."""
    owned = np.full(partition.owned_sites, partition.number, np.int32)
    return np.repeat(np.concatenate([owned, partition.replica_home]), np.diff(partition.first_object))


def renew(
    grounds: Grounds,
    partition: Partition,
    rows: NDArray[np.int64],
    came: Sequence[pa.RecordBatch],
    carried: Sequence[tuple[str, str]],
    kind: Callable[[str], pa.DataType],
    cells: Cells | None = None,
) -> BuiltPartition:
    """Return a partition built of some of its objects and of rows that came, which hold id, x, y, home and perhaps t.

    ``carried``: the attribute columns of what came, and the attribute of each, as pairs; ``kind``: the type of a column
    that no object of the partition has yet; ``cells``: of the partition, within the same bounds; all cells are cut
    where they are not known. Cost O(n).
    """
    home = homes_of(partition)
    whole = len(rows) == len(home)
    taken = None if whole else arrow_of(rows)

    def join(mine: pa.Array | None, column: str) -> pa.Array:
        theirs = [batch.column(column) for batch in came]
        if mine is None:
            return pa.concat_arrays([pa.nulls(len(rows), kind(column)), *theirs])
        kept = mine if taken is None else mine.take(taken)
        return pa.concat_arrays([kept, *(values.cast(mine.type) for values in theirs)])

    def numbers(mine: NDArray[Any], column: str) -> NDArray[Any]:
        kept = mine if whole else mine[rows]
        return np.concatenate([kept, *(batch.column(column).to_numpy() for batch in came)]).astype(mine.dtype)

    x, y = (numbers(np.ascontiguousarray(partition.positions[:, axis]), "xy"[axis]) for axis in (0, 1))
    text = isinstance(partition.ids, pa.Array)
    return construct(
        partition.number,
        join(partition.ids, "id") if text else numbers(partition.ids, "id"),
        np.stack([x, y], axis=1),
        numbers(home, "home"),
        grounds.space,
        grounds.regions,
        float(grounds.reach[partition.number]),
        grounds.bounds,
        attributes={name: join(partition.attributes.get(name), column) for column, name in carried},
        times=None if partition.times is None else join(partition.times, "t"),
        stood=None if cells is None else Stood(partition, cells, rows),
        with_levels=grounds.levels,
    )
