"""Finding an object by its id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.geometry.curve import radix_order
from dtoss.ids import LARGEST
from dtoss.locks import once
from dtoss.partition import Partition
from dtoss.queries.kernels.address_table import AddressTable
from dtoss.queries.kernels.id_order import ITEM_BITS, place_of_number, place_of_text, text_keys
from dtoss.queries.open_partitions import OpenPartitions

ROWS_OF_32_BITS = 2**31
"""Objects up to which their order is one of 32 bits."""


class Place(NamedTuple):
    """Where an object is: its partition, its number among the objects, and its site."""

    partition: Partition
    item: int
    site: int


@dataclass(frozen=True)
class IdOrder:
    """The owned objects of all partitions in the order of their ids' keys.

    Parameters
    ----------
    keys
        int64 (n,), ascending: ids that are numbers, hashes of others.
    places
        int64 (n,). The object of each: its partition, and in the lowest bits its number there.
    table
        Of all partitions, open.
    """

    keys: NDArray[np.int64]
    places: NDArray[np.int64]
    table: AddressTable


class Lookup:
    """Owned objects by id; files hold no such order, so it is made when the first one is looked for.

    It takes 16 bytes an object, and a time that grows with their number alone: 30 to 60 ms a million.
    """

    def __init__(self, parts: OpenPartitions, string_ids: bool) -> None:
        self._parts, self._string_ids = parts, string_ids

    def find(self, object_id: Any) -> Place | None:
        """Return the place of the object of an id, or None. Cost O(log n) once the order is made, which is O(n)."""
        if self._string_ids != isinstance(object_id, str) or isinstance(object_id, (bool, float)):
            return None
        order = self._order
        if self._string_ids:
            try:
                text = np.frombuffer(bytearray(str.encode(object_id)), np.uint8)
            except UnicodeEncodeError:
                return None  # half a pair of UTF-16: no id in a file is one
            number, item, site = place_of_text(order.keys, order.places, order.table.rows, text)
        else:
            key = _as_number(order.keys, object_id)
            if key is None:
                return None
            number, item, site = place_of_number(order.keys, order.places, order.table.rows, key)
        return None if number < 0 else Place(self._parts[number], item, site)

    @once
    def _order(self) -> IdOrder:
        partitions = self._parts.all()
        table = self._parts.table
        count = [partition.owned_objects for partition in partitions]
        first = np.concatenate([[0], np.cumsum(count, dtype=np.int64)])
        if self._string_ids:
            keys = np.empty(first[-1], np.int64)
            text_keys(table.rows, first, keys)
        else:
            keys = np.concatenate([p.ids[: p.owned_objects] for p in partitions])
        places = np.concatenate([np.arange(n) | number << ITEM_BITS for number, n in enumerate(count)])
        order = _ascending(keys)
        return IdOrder(keys[order], places[order], table)


def _as_number(keys: NDArray[np.int64], object_id: Any) -> int | None:
    """Return an id as the number that equals it, None where there is no such key."""
    if type(object_id) is int:
        return object_id if -LARGEST - 1 <= object_id <= LARGEST else None
    at = int(np.searchsorted(keys, object_id)) if len(keys) else 0
    return int(keys[at]) if at < len(keys) and keys[at] == object_id else None


def _ascending(keys: NDArray[np.int64]) -> NDArray[Any]:
    """Return the stable order that sorts keys."""
    low, high = (int(keys.min()), int(keys.max())) if len(keys) else (0, 0)
    if high - low > LARGEST or len(keys) >= ROWS_OF_32_BITS:
        return np.argsort(keys, kind="stable")
    return radix_order(keys - low)
