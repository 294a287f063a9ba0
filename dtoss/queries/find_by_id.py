"""Finding an object by its id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.partition import Partition
from dtoss.queries.open_partitions import OpenPartitions


@dataclass(frozen=True)
class Place:
    """Where an object is: its partition, its number among the objects, and its site."""

    partition: Partition
    item: int
    site: int


@dataclass(frozen=True)
class Lookup:
    """Owned objects by id. A partition's ids are sorted when it is first searched; files hold no such order."""

    parts: OpenPartitions
    string_ids: bool
    _orders: dict[int, tuple[NDArray[np.int64], NDArray[Any]]] = field(default_factory=dict)

    def find(self, object_id: Any) -> Place | None:
        """Return the place of the object of an id, or None. Cost O(P log n) once all partitions were searched."""
        if self.string_ids != isinstance(object_id, str) or isinstance(object_id, (bool, float)):
            return None
        for partition in self.parts.all():
            if partition.owned_objects == 0:
                continue
            order, ids = self._order(partition)
            at = int(np.searchsorted(ids, object_id))
            if at < len(ids) and ids[at] == object_id:
                item = int(order[at])
                site = int(np.searchsorted(partition.first_object, item, side="right")) - 1
                return Place(partition, item, site)
        return None

    def _order(self, partition: Partition) -> tuple[NDArray[np.int64], NDArray[Any]]:
        kept = self._orders.get(partition.number)
        if kept is None:
            owned = partition.ids[: partition.owned_objects]
            if isinstance(owned, pa.Array):
                order = pc.array_sort_indices(owned).to_numpy().astype(np.int64)
                kept = order, owned.take(pa.array(order)).to_numpy(zero_copy_only=False).astype(object)
            else:
                order = np.argsort(owned, kind="stable")
                kept = order, owned[order]
            self._orders[partition.number] = kept
        return kept
