"""A server's share of a snapshot: what it says of places, of those whose homes it holds and of all others.

Some partitions of a snapshot as an index: all others count as empty, and nothing is known of their objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.index import Index
from dtoss.kinds.alone import table_of
from dtoss.kinds.hit_tables import last_distance, merge_hits, renumber
from dtoss.kinds.kind import Search
from dtoss.locks import Lock, Recent, once
from dtoss.partition import BALL, Blocks, Graph, Partition
from dtoss.partitioning.partition_bounds import far_of_radius, shares_that_suffice
from dtoss.partitioning.regions import Regions
from dtoss.queries.open_partitions import OpenPartitions, PartitionFacts

_VIEWS = 16
"""Sets of partitions that a share keeps as indexes."""


class PartitionNotHeldError(KeyError):
    """What was asked is about a partition that this server does not hold: the asker asks another one."""


@dataclass(frozen=True, eq=False)
class AtHome:
    """What the server of their homes says of places."""

    hits: pa.Table  # By place, distance and id; of a place that needs nobody else, all of its answer
    far: NDArray[np.float64]  # float64 (m,). How far the answer of each place reaches at the most
    alone: NDArray[np.bool_]  # bool (m,). Which places need nobody else


class Share:
    """Some partitions of a snapshot; thread-safe.

    ``index``: of all partitions; only those that are held are opened.
    """

    def __init__(self, index: Index, held: Iterable[int]) -> None:
        self.index = index
        self.held = tuple(sorted(set(held)))
        self.here = held_index(index, self.held)
        self.furthest = furthest_of(index)
        self._lock = Lock()
        self._owned: Recent[Index] = Recent(_VIEWS)
        self._known: dict[int, Index] = {}

    def check_held(self, partitions: Iterable[int]) -> None:
        """Refuse partitions that are not held."""
        numbers = np.array([*partitions], np.int64)
        there = (numbers >= 0) & (numbers < len(self.furthest))
        there[there] = self._is_held[numbers[there]]
        if not there.all():
            raise PartitionNotHeldError(f"partition {numbers[~there].min()} is not held here")

    def owned(self, partitions: tuple[int, ...]) -> Index:
        """Return the index of what some of the partitions own: each object is in one of them, and no replica counts."""
        self.check_held(partitions)
        return self._owned.of(partitions, lambda: (held_index(self.index, partitions, replicas=False), 1))

    def known(self, number: int) -> Index:
        """Return the index of what a partition that is held knows."""
        with self._lock:
            found = self._known.get(number)
            if found is None:
                found = self._known[number] = known_index(self.index, number)
        return found

    def hits(self, asked: Search) -> pa.Table:
        """Return what the partitions that are held have of an answer, at most k of each place."""
        return table_of(self.here.engine, asked)

    def at_home(self, asked: Search) -> AtHome:
        """Return what is known here of places whose homes are held.

        What is held gives a distance beyond which nothing of the answer lies, and where all that may lie up to there is
        held, nobody else is asked. Else what the home knows, replicas among it, may give a lesser one (dissertation,
        3.3.1).
        """
        vectors = self.index.space.vectors(asked.positions)
        if not self._is_held[self.index.partitioning.nearest(vectors)].all():
            raise PartitionNotHeldError("the home of a place is not held here")
        found, far = self.hits(asked), asked.radius
        if asked.k:
            far = np.minimum(far, last_distance(found, len(asked), asked.k))
        alone = self.suffices(vectors, far, replicas=asked.where is None)
        rest = np.flatnonzero(~alone)
        if len(rest) == 0:
            return AtHome(found, far, alone)
        some = asked.take(rest)
        known, near = self._known_at(some, self.index.partitioning.nearest(vectors[rest]))
        far[rest] = np.minimum(far[rest], near)
        alone[rest] = self.suffices(vectors[rest], far[rest])
        return AtHome(merge_hits([found, renumber(known, rest)], asked.k), far, alone)

    def suffices(
        self,
        vectors: NDArray[np.float64],
        far: NDArray[np.float64],
        *,
        searched: NDArray[np.float64] | None = None,
        replicas: bool = True,
    ) -> NDArray[np.bool_]:
        """Return of which places no partition that is not held may have anything within a distance, bool (m,).

        ``far``: float64 (m,). Metres or CRS units; ``searched``: float64 (m,). How far the search looked that found
        what is known, where that was further: of a home that does not know all up to there no replica was looked at.
        None where it was not.
        """
        dimension = vectors.shape[1]
        return shares_that_suffice(
            self.index.partitioning,
            vectors,
            far_of_radius(far, dimension),
            far_of_radius(far if searched is None else searched, dimension),
            self.furthest,
            self.index.reach if replicas else self._unknown,
            self._is_held,
        )

    @once
    def mark(self) -> bytes:
        """What stands for the partitions that are held, of however many there are."""
        return hashlib.blake2b(self._is_held.tobytes(), digest_size=16).digest()

    @once
    def _unknown(self) -> NDArray[np.float64]:
        return np.full(len(self.furthest), -np.inf)

    @once
    def _is_held(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.furthest), np.bool_)
        found[list(self.held)] = True
        return found

    def _known_at(self, asked: Search, home: NDArray[np.int32]) -> tuple[pa.Table, NDArray[np.float64]]:
        """Return the hits that homes know, and how far the answer of each place reaches at the most."""
        tables, far = [table_of(self.here.engine, asked.take(np.zeros(0, np.int64)))], asked.radius.copy()
        for number in np.unique(home).tolist():
            rows = np.flatnonzero(home == number)
            if self.furthest[number] < 0.0:
                continue  # an empty home may have replicas, but says nothing of what is beyond
            some = table_of(self.known(number).engine, asked.take(rows), replicas=True)
            tables.append(renumber(some, rows))
            if asked.k:
                far[rows] = np.minimum(far[rows], last_distance(some, len(rows), asked.k))
        return merge_hits(tables, 0), far


def furthest_of(index: Index) -> NDArray[np.float64]:
    """Return how far from its pivot objects of each partition are found, float64 (P,), -1 where it has none."""
    return np.array([one.furthest if one.sites else -1.0 for one in index.parts.facts])


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
    return _index_of_parts(index, OpenPartitions([None] * len(facts), facts, opened), index.partitioning, reach)


def known_index(index: Index, number: int) -> Index:
    """Return an index of what one partition knows, as if its replicas were its own and there were no other."""
    alone = replace(index.parts[number], number=0)
    facts = PartitionFacts(len(alone.positions), len(alone.sites), alone.furthest)
    one = take_rows(index.partitioning, slice(number, number + 1))
    return _index_of_parts(index, OpenPartitions([alone], [facts]), one, index.reach[number : number + 1])


def _index_of_parts(index: Index, parts: OpenPartitions, regions: Regions, reach: NDArray[np.float64]) -> Index:
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
