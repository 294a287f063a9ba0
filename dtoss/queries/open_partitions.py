"""The partitions of an index, opened when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtoss.errors import StoreError
from dtoss.locks import Lock
from dtoss.partition import Partition
from dtoss.queries.kernels.address_table import AddressTable, make_table, with_partitions, with_same


@dataclass(frozen=True)
class PartitionFacts:
    """What is known of a partition before its file is opened."""

    objects: int
    sites: int
    furthest: float


class OpenPartitions:
    """P partitions and the table of their addresses, which grows as they are opened; any number of threads may read.

    ``opened``: the partitions, or None for one that is not open yet; ``opener``: opens the partition of a number;
    needed where one is None; ``table``: of those that are open; made when None.
    """

    def __init__(
        self,
        opened: Sequence[Partition | None],
        facts: Sequence[PartitionFacts],
        opener: Callable[[int], Partition] | None = None,
        table: AddressTable | None = None,
    ) -> None:
        self.facts = tuple(facts)
        self._opened = list(opened)
        self._opener = opener
        self._lock = Lock()
        self._types = next((partition for partition in opened if partition is not None), None)
        if table is None:
            table = make_table(self._opened, [f.sites for f in facts], [f.furthest for f in facts])
        self.table: AddressTable = table

    def take(self, others: OpenPartitions, same: Sequence[bool]) -> None:
        """Take the partitions of another index that are the same ones, and open there; for who has opened none yet."""
        table = others.table
        self._opened = [one if stays else None for one, stays in zip(table.partitions, same, strict=True)]
        self._types = next((one for one in self._opened if one is not None), None)
        facts = self.facts
        self.table = with_same(table, same, [f.sites for f in facts], [f.furthest for f in facts])

    def __len__(self) -> int:
        return len(self._opened)

    def __getitem__(self, number: int) -> Partition:
        partition = self._opened[number]
        if partition is None:
            self.open([number])
            partition = self._opened[number]
        assert partition is not None
        return partition

    def open(self, numbers: Sequence[int]) -> None:
        """Open partitions that are not open yet."""
        with self._lock:
            fresh = []
            try:
                for number in numbers:
                    # not by what is open: a fork may have come before the table knew of it
                    if self.table.partitions[number] is None:
                        partition = self._opened[number]
                        if partition is None:
                            if self._opener is None:
                                raise RuntimeError(f"partition {number} is missing and nothing can open it")
                            partition = self._opener(number)
                            self._same_types(partition)
                            self._opened[number] = partition
                        fresh.append(partition)
            finally:
                # readers keep the table they began with; a new one only knows more
                if fresh:
                    self.table = with_partitions(self.table, fresh)

    def _same_types(self, partition: Partition) -> None:
        if self._types is None:
            self._types = partition
        for name, column in partition.attributes.items():
            other = self._types.attributes[name].type
            if column.type != other:
                raise StoreError(
                    f"column {name!r} is {column.type} in partition {partition.number} and {other} in partition "
                    f"{self._types.number}: the file of one is damaged; roll back or rebuild"
                )

    def all(self) -> tuple[Partition, ...]:
        """Return all partitions, open."""
        self.open(range(len(self)))
        return tuple(self[number] for number in range(len(self)))

    def has_nulls(self, name: str) -> bool:
        """Return whether a column of attributes has nulls in a partition that is open; coordinates have none."""
        opened = (partition.attributes.get(name) for partition in self._opened if partition is not None)
        return any(column is not None and column.null_count for column in opened)

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenPartitions, (self.all(), self.facts)


def facts_of(partition: Partition) -> PartitionFacts:
    """Return the facts of an open partition."""
    return PartitionFacts(partition.owned_objects, partition.owned_sites, partition.furthest)


def needed(flags: np.ndarray) -> list[int]:
    """Return the numbers of the partitions that kernels asked for."""
    found: list[int] = np.flatnonzero(flags).tolist()
    return found
