"""Values of raw hits, gathered from the partitions that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.partition import Partition
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.queries.raw_hits import RawHits


def take(parts: OpenPartitions, found: RawHits, column: Callable[[Any], Any]) -> pa.Array:
    """Return a column's values for raw hits, in their order."""
    order = np.argsort(found.part, kind="stable")
    sorted_part = found.part[order]
    pieces = []
    for number in np.unique(sorted_part).tolist():
        low, high = np.searchsorted(sorted_part, [number, number + 1])
        pieces.append(column(parts[number]).take(pa.array(found.item[order[low:high]])))
    if not pieces:
        return column(parts[0]).slice(0, 0)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(back))


def take_columns(parts: OpenPartitions, found: RawHits, columns: Sequence[str]) -> list[pa.Array]:
    """Return the attributes of raw hits, in their order."""
    return [take(parts, found, partial(_attribute, name)) for name in columns]


def _attribute(name: str, partition: Partition) -> pa.Array:
    return partition.attributes[name]


def take_ids(parts: OpenPartitions, found: RawHits) -> pa.Array:
    """Return the ids of raw hits, in their order."""
    return pa.array(found.ids) if found.ids is not None else take(parts, found, lambda partition: partition.ids)
