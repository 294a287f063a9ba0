"""A partition as it stood, when it is built once more of most of its objects: which of its sites are sites again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.cells.changed_cells import Before
from dtoss.partition import Partition


@dataclass(frozen=True)
class Cells:
    """What a partition's file does not say of its m cells, as :class:`dtoss.cells.diagram.Diagram` has it."""

    area: NDArray[np.float64]
    radius: NDArray[np.float64]
    compact: NDArray[np.bool_]
    keys: NDArray[np.int64]  # Places on the curve


@dataclass(frozen=True)
class Stood:
    """A partition, its cells, and which of its objects stay."""

    partition: Partition
    cells: Cells
    rows: NDArray[np.int64]  # int64 (k,). The first k objects of which the partition is built anew

    def before(self) -> Before:
        """Return the diagram of its sites."""
        graph, cells = self.partition.graph, self.cells
        return Before(graph.first, graph.neighbours, cells.area, cells.radius, cells.compact)

    def keys(self) -> NDArray[np.int64]:
        """Return the places on the curve of the objects that stay, int64 (k,)."""
        return np.repeat(self.cells.keys, np.diff(self.partition.first_object))[self.rows]

    def uncertified(self, numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which of some sites, by their numbers here, were not certified, bool (n,); those of -1 are not."""
        found = np.zeros(len(self.partition.sites) + 1, np.bool_)
        found[self.partition.uncertified] = True
        return found[numbers]

    def numbers(
        self, sites: NDArray[np.float64], first: NDArray[np.int32], order: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Return the number here of each of n new sites, int32 (n,), -1 where none stood at its place.

        ``first``, ``order``: the objects on site i are ``order[first[i]:first[i + 1]]``. Cost O(n).
        """
        partition = self.partition
        site = np.empty(len(order), np.int32)
        site[order] = np.repeat(np.arange(len(sites), dtype=np.int32), np.diff(first))
        stays = np.repeat(np.arange(len(partition.sites), dtype=np.int32), np.diff(partition.first_object))[self.rows]
        found = np.full(len(sites), -1, np.int32)
        found[site[: len(self.rows)]] = stays
        left = np.ones(len(partition.sites), np.bool_)
        left[stays] = False
        # all objects of a site may go, and others come to its place
        old, new = np.flatnonzero(left), np.flatnonzero(found < 0)
        both = np.concatenate([partition.sites[old], sites[new]])
        along = np.lexsort(both.T)
        again = (both[along[1:]] == both[along[:-1]]).all(axis=1)
        found[new[along[1:][again] - len(old)]] = old[along[:-1][again]]
        return found
