"""Some partitions of a snapshot as an index: all others count as empty, and nothing is known of their objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.index import Index
from dtoss.partition import BALL, Blocks, Graph, Partition
from dtoss.partitioning.regions import Regions
from dtoss.queries.open_partitions import OpenPartitions, PartitionFacts

NOTHING = PartitionFacts(0, 0, -1.0)


def held_index(index: Index, held: Iterable[int], *, replicas: bool = True) -> Index:
    """Return an index of some partitions, which are opened when they are first read, as they are in the whole one.

    A place whose home is not held is answered by what the others own. A place whose home is held is answered by what
    its home knows, replicas among it, where that is all there is.

    ``index``: of all partitions; those that are not held are not opened, but one for its types where none is held;
    ``replicas``: whether a home answers by what it knows; without, each object is told by the partition that owns it.
    """
    mine = set(held)
    facts = [facts if number in mine else NOTHING for number, facts in enumerate(index.parts.facts)]
    like = min(mine, default=0)

    def opened(number: int) -> Partition:
        return index.parts[number] if number in mine else empty(index.parts[like], number)

    reach = index.reach if replicas else np.full(len(facts), -np.inf)
    return _narrowed(index, OpenPartitions([None] * len(facts), facts, opened), index.partitioning, reach)


def known_index(index: Index, number: int) -> Index:
    """Return an index of what one partition knows, as if its replicas were its own and there were no other."""
    alone = replace(index.parts[number], number=0)
    facts = PartitionFacts(len(alone.positions), len(alone.sites), alone.furthest)
    regions = index.partitioning
    one = Regions(regions.pivots[number : number + 1], regions.weights[number : number + 1])
    return _narrowed(index, OpenPartitions([alone], [facts]), one, index.reach[number : number + 1])


def _narrowed(index: Index, parts: OpenPartitions, regions: Regions, reach: NDArray[np.float64]) -> Index:
    """Return an index of other partitions of the same space, without borders.

    As many nearest objects are looked for as in the whole one: replicas may say how far these are at the most.
    """
    return Index(
        index.space,
        regions,
        reach,
        parts,
        bounds=index._bounds,
        snapshot=index.snapshot,
        string_ids=index.string_ids,
        border=lambda: index.border,  # type: ignore[arg-type, return-value]
        most=len(index),
    )


def empty(like: Partition, number: int) -> Partition:
    """Return a partition without objects, whose columns have the types of another one's."""
    none = np.zeros(0, np.int32)
    graph = Graph(np.zeros(1, np.int32), none)
    blocks = Blocks(np.zeros((0, BALL)), np.zeros(1, np.int32), none)
    ids = like.ids.slice(0, 0) if isinstance(like.ids, pa.Array) else like.ids[:0]
    return Partition(
        number,
        ids,
        like.positions[:0],
        like.sites[:0],
        np.zeros(1, np.int32),
        0,
        none,
        graph,
        none,
        (),
        like.keys[:0],
        blocks,
        none,
        -1.0,
        none,
        like.id_filter[:0],
        None if like.times is None else like.times.slice(0, 0),
        {name: column.slice(0, 0) for name, column in like.attributes.items()},
    )
