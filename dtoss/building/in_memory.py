"""All partitions of objects that are in memory: the steps of a cycle, in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.building.border import BorderTable, fix
from dtoss.building.build_progress import Progress
from dtoss.building.construct import construct
from dtoss.building.reach import choose_reach
from dtoss.geometry.space import Space
from dtoss.partition import Ids, Partition, numbers
from dtoss.partitioning.assign import Assignment, assign
from dtoss.partitioning.pivots import choose_pivots
from dtoss.partitioning.regions import Regions, planar_bounds


@dataclass(frozen=True)
class InMemory:
    """What an index is made of."""

    regions: Regions
    reach: NDArray[np.float64]  # float64 (P,). Lambda of each
    partitions: list[Partition]  # In the order of their numbers
    bounds: NDArray[np.float64] | None  # Of a plane, float64 (4,); None on the sphere
    border: BorderTable  # The exact cells of sites near borders
    areas: tuple[float, ...]  # Of the certified cells of each: square CRS units or steradians


def build_in_memory(
    keys: Ids,
    places: NDArray[np.float64],
    space: Space,
    attributes: dict[str, pa.Array],
    *,
    partitions: int,
    pivots: str,
    bounds: ArrayLike | None,
    reach: float | None,
    seed: int,
    sample: NDArray[np.bool_],
    engine: str,
    threads: int,
    progress: Progress,
) -> InMemory:
    """Return the partitions of objects.

    ``places``: float64 (n, 2). Legal positions; ``sample``: bool (n,). The objects that partitions are chosen by.
    """
    progress.begin("choosing partitions")
    if bounds is not None and space.dimension != 2:
        raise ValueError(
            f"bounds are {bounds!r}: those of a plane are wanted, and positions are compared on the sphere"
        )
    vectors = space.vectors(places)
    box = planar_bounds(vectors, bounds) if space.dimension == 2 else None
    some = vectors[sample]
    regions = choose_pivots(some, partitions, method=pivots, seed=seed)
    count = len(regions)
    if reach is None:
        reaches = choose_reach(some, len(keys), regions, box)
    else:
        reaches = np.full(count, np.inf if count == 1 else reach)
    progress.begin("sorting objects")
    sent = assign(vectors, regions, reaches)
    member, start = members_of(sent, count)

    def one(number: int) -> Any:
        mine = member[start[number] : start[number + 1]]
        taken = numbers(mine)
        built = construct(
            number,
            keys.take(taken) if isinstance(keys, pa.Array) else keys[mine],
            places[mine],
            sent.home[mine],
            space,
            regions,
            float(reaches[number]),
            box,
            attributes={name: column.take(taken) for name, column in attributes.items()},
            engine=engine,
        )
        progress.one_more()
        return built

    progress.begin("building partitions", count)
    if threads > 1 and count > 1:
        with ThreadPoolExecutor(threads) as pool:
            built = list(pool.map(one, range(count)))
    else:
        built = [one(number) for number in range(count)]
    progress.begin("joining borders")
    border = fix([b.border for b in built], box, threads=threads, engine=engine)
    return InMemory(regions, reaches, [b.partition for b in built], box, border, tuple(b.area for b in built))


def members_of(sent: Assignment, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of each partition, owned and copied, one partition after another, and where each begins."""
    where = np.concatenate([sent.home, sent.partition])
    rows = np.concatenate([np.arange(len(sent.home), dtype=np.int64), sent.row.astype(np.int64)])
    order = np.argsort(where, kind="stable")
    return rows[order], np.searchsorted(where[order], np.arange(count + 1))
