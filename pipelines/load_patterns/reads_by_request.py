"""Which partitions each request reads, and in how many millionths of a request it counts there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.model.reads import distinct_sets
from ceps.model.servers import RequestCosts
from dtoss.geometry.space import Space
from dtoss.index import Index
from dtoss.opening import open_index
from dtoss.partitioning.partition_bounds import reads_of
from dtoss.partitioning.regions import Regions
from dtoss.row_runs import offsets
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest

HITS = 2_000_000
"""Hits that are held at a time."""


@dataclass(frozen=True)
class Read:
    """What some requests read."""

    request: NDArray[np.int64]  # request, partition: int64 (m,) each, pairs: this request reads this partition
    partition: NDArray[np.int64]
    # int64 (n,), as how many millionths each request counts in each of the partitions that it reads
    counted: NDArray[np.int64]


@dataclass(frozen=True)
class Reader:
    """What is needed to say what requests read."""

    manifest: dict[str, Any]
    space: Space
    regions: Regions
    index: Index | None  # The snapshot; None where no request asks for its k nearest
    costs: RequestCosts | None  # How many base requests each counts as; one, whatever it asks for, when None

    @classmethod
    def of(cls, store: str, manifest: dict[str, Any], nearest: bool, costs: RequestCosts | None) -> Reader:
        """Return the reader of a snapshot."""
        index = open_index(store, manifest["snapshot"], verify="touch", lazy=True) if nearest else None
        return cls(manifest, space_of_manifest(manifest), regions_of_manifest(manifest), index, costs)

    def read(
        self,
        places: NDArray[np.float64],
        k: NDArray[np.int64],
        limit: NDArray[np.float64],
        weight: NDArray[np.int64],
    ) -> Read:
        """Return what requests read.

        ``places``: float64 (n, 2); ``k``: int64 (n,), how many nearest each asks for; 0 asks for none; ``limit``:
        float64 (n,), metres or CRS units; infinity is none; ``weight``: int64 (n,), the millionths that each row stands
        for.
        """
        vectors = self.space.vectors(places)
        home = self.regions.nearest(vectors)
        request, partition = np.arange(len(places)), home
        looks = np.flatnonzero((k > 0) | (limit < np.inf))
        if len(looks):
            far = limit[looks]
            if self.index is not None:
                far = furthest_hits(self.index, places[looks], limit[looks], k[looks])
            pairs = reads_of(self.manifest, self.regions, vectors[looks], home[looks], far)
            alone = np.ones(len(places), np.bool_)
            alone[looks] = False
            stays = np.flatnonzero(alone)
            request = np.concatenate([looks[pairs[0]], stays])
            partition = np.concatenate([pairs[1], home[stays]])
        counted = weight
        if self.costs is not None:
            counted = _base_requests(self.costs, weight, k, limit, np.bincount(request, minlength=len(places)))
        return Read(request, partition.astype(np.int64), counted)


def furthest_hits(
    index: Index, places: NDArray[np.float64], limit: NDArray[np.float64], k: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far each request must look, float64 (n,): its k-th hit, or its limit if there are fewer.

    ``places``: float64 (n, 2), positions; ``limit``: float64 (n,), metres or CRS units; infinity is none; ``k``: int64
    (n,); 0 asks for all within the limit.
    """
    far = limit.copy()
    asking = np.flatnonzero(k > 0)
    step = max(HITS // int(k.max(initial=1)), 1)
    for begin in range(0, len(asking), step):
        some = asking[begin : begin + step]
        found = index.search(places[some], limit[some], int(k[some].max()))
        enough = found.count >= k[some]
        last = np.cumsum(found.count) - found.count + k[some] - 1
        far[some[enough]] = found.distance[last[enough]]
    return far


def _base_requests(
    costs: RequestCosts,
    weight: NDArray[np.int64],
    k: NDArray[np.int64],
    limit: NDArray[np.float64],
    partitions: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the millionths of base requests that each request counts as in each of the partitions that it reads.

    Its cost was measured over all that it reads, so they share it, but none counts less than one request for it, or
    than all of a cheaper one.
    """
    whole = costs.weights(k.astype(np.float64), limit)
    return np.rint(weight * np.maximum(whole / partitions, np.minimum(whole, 1.0))).astype(np.int64)


def sum_cells(cell: NDArray[np.int64], weight: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cells that occur, ascending, and the sum of the weights of each."""
    found, place = np.unique(cell, return_inverse=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, place, weight)
    return found, sums


def sets_of(read: Read, weight: NDArray[np.int64], kind: NDArray[np.int64]) -> tuple[NDArray[np.int64], pa.Table]:
    """Return the sets of partitions that requests of a kind read together, and how often.

    The kind of each set, int64 (S,), and a table of the sets, ``together`` as :func:`packed`, and ``weight``.
    ``weight``: int64 (n,), the millionths that each stands for, whatever it costs; ``kind``: int64 (n,), 0 or more:
    sets of two kinds are two sets.
    """
    start, members, whose = distinct_sets(read.request, read.partition)
    several = np.flatnonzero(whose >= 0)
    kinds = int(kind.max(initial=0)) + 1
    found, sums = sum_cells(whose[several] * kinds + kind[several], weight[several])
    together = packed(start, members).take(pa.array(found // kinds))
    return found % kinds, pa.table({"together": together, "weight": sums})


def packed(start: NDArray[np.int64], members: NDArray[np.int64]) -> pa.BinaryArray:
    """Return sets of partitions as bytes that are equal where the sets are."""
    offsets, values = (4 * start).astype(np.int32), members.astype("<i4")
    return pa.BinaryArray.from_buffers(pa.binary(), len(start) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def unpack_sets(together: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the partitions of sets, and where each set begins."""
    length = pc.binary_length(together).to_numpy(zero_copy_only=False).astype(np.int64) // 4
    members = np.frombuffer(b"".join(together.to_pylist()), "<i4").astype(np.int64)
    return offsets(length), members
