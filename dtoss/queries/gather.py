"""Values of raw hits, gathered from the partitions that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.geometry.space import Space
from dtoss.locks import once
from dtoss.names import position_names
from dtoss.partition import Partition, numbers
from dtoss.queries.open_partitions import OpenPartitions
from dtoss.queries.raw_hits import RawHits

if TYPE_CHECKING:
    from dtoss.queries.find_by_id import Lookup

COORDINATE = {"lon": 0, "lat": 1, "x": 0, "y": 1}
"""Which coordinate a column of positions is: no attribute has one of these names."""


def floats_of(column: pa.Array) -> NDArray[np.float64]:
    """Return an Arrow array of numbers as float64, NaN where it is null.

    What its ``to_numpy`` does too, after it has loaded pandas.
    """
    column = column.cast(pa.float64())
    valid, values = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    floats = np.frombuffer(values, np.float64)[rows] if len(column) else np.zeros(0)
    if column.null_count == 0:
        return floats
    held = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[rows]
    return np.where(held != 0, floats, np.nan)


def take(parts: OpenPartitions, part: NDArray[Any], item: NDArray[Any], column: Callable[[Any], Any]) -> pa.Array:
    """Return a column's values of objects, by the numbers of their partitions and their numbers there."""
    order = _by_partition(parts, part)
    sorted_part = part[order]
    pieces = []
    for number in np.unique(sorted_part).tolist():
        low, high = np.searchsorted(sorted_part, [number, number + 1])
        pieces.append(column(parts[number]).take(numbers(item[order[low:high]])))
    if not pieces:
        return column(parts[0]).slice(0, 0)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(numbers(back))


NUMBERED_SHORT = 1 << 16
"""Partitions up to which their numbers are sorted by digits, in a fifth of the time."""


def _by_partition(parts: OpenPartitions, part: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return hits in the order of their partitions, as they stand within each."""
    return np.argsort(part.astype(np.uint16) if len(parts) <= NUMBERED_SHORT else part, kind="stable")


def take_columns(parts: OpenPartitions, found: RawHits, columns: Sequence[str]) -> list[pa.Array]:
    """Return the attributes of raw hits, in their order; lon and lat, or x and y, are columns too."""
    positions = None
    if any(name in COORDINATE for name in columns):
        positions = take_positions(parts, found.part, found.item)
    return [
        take(parts, found.part, found.item, partial(_attribute, name))
        if positions is None or name not in COORDINATE
        else numbers(positions[:, COORDINATE[name]])
        for name in columns
    ]


def take_positions(parts: OpenPartitions, part: NDArray[Any], item: NDArray[Any]) -> NDArray[np.float64]:
    """Return the positions of objects, float64 (n, 2), by the numbers of their partitions and their numbers there."""
    positions = np.empty((len(part), 2))
    order = _by_partition(parts, part)
    numbers, first = np.unique(part[order], return_index=True)
    for number, low, high in zip(numbers.tolist(), first, np.append(first, len(part))[1:], strict=True):
        rows = order[low:high]
        positions[rows] = parts[number].positions[item[rows]]
    return positions


def _attribute(name: str, partition: Partition) -> pa.Array:
    return partition.attributes[name]


def take_ids(parts: OpenPartitions, found: RawHits) -> pa.Array:
    """Return the ids of raw hits, in their order."""
    if found.ids is not None:
        return numbers(found.ids)
    return take(parts, found.part, found.item, lambda partition: partition.ids)


class Whereabouts:
    """Where the objects of an index are, for hits that are asked for it later."""

    def __init__(self, parts: OpenPartitions, space: Space, string_ids: bool) -> None:
        self._parts, self._space, self._string_ids = parts, space, string_ids

    @property
    def crs(self) -> str:
        """The CRS of positions."""
        return self._space.crs

    @property
    def names(self) -> tuple[str, str]:
        """How the two coordinates are called."""
        return position_names(self._space.geographic)

    @once
    def lookup(self) -> Lookup:
        """Objects by their ids."""
        from dtoss.queries.find_by_id import Lookup

        return Lookup(self._parts, self._string_ids)

    def positions_of(self, ids: NDArray[Any]) -> NDArray[np.float64]:
        """Return the positions of objects that are there, float64 (n, 2)."""
        found = self.lookup.find_all(ids)
        return take_positions(self._parts, found[:, 0], found[:, 1])
