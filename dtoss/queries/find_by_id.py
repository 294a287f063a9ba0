"""Finding an object by its id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.id_filter import text_buffers
from dtoss.ids import LARGEST
from dtoss.locks import once
from dtoss.partition import Ids, Partition, values_of
from dtoss.queries.kernels.id_search import (
    ALL_SITES,
    BY_ID,
    COLUMNS_OF_IDS,
    FILTER_WORDS,
    ID_FILTER,
    ID_VALUES,
    OWNED,
    SITE_OBJECTS,
    TEXT_BEGINS,
    place_of_number,
    place_of_text,
    places_of_numbers,
    places_of_texts,
)
from dtoss.queries.open_partitions import OpenPartitions


class Place(NamedTuple):
    """Where an object is: its partition, its number among the objects, and its site."""

    partition: Partition
    item: int
    site: int


class IdTable(NamedTuple):
    """Where the orders and filters of all partitions are, and what keeps them there."""

    rows: NDArray[np.int64]  # int64 (P, COLUMNS_OF_IDS). Addresses and counts: :mod:`dtoss.queries.kernels.id_search`
    partitions: tuple[Partition, ...]  # All of them, open
    held: tuple[Any, ...]  # What else the addresses lead into


class Lookup:
    """Owned objects by id, through the order and the filter in each partition's file; nothing is sorted or copied."""

    def __init__(self, parts: OpenPartitions, string_ids: bool) -> None:
        self._parts, self._string_ids = parts, string_ids

    def find(self, object_id: Any) -> Place | None:
        """Return the place of the object of an id, or None.

        The first call opens all partitions. Cost O(P + log n) of P partitions and n objects.
        """
        if self._string_ids != isinstance(object_id, str) or isinstance(object_id, (bool, float)):
            return None
        if self._string_ids:
            try:
                text = np.frombuffer(bytearray(str.encode(object_id)), np.uint8)
            except UnicodeEncodeError:
                return None  # half a pair of UTF-16: no id in a file is one
            table = self._table
            number, item, site = place_of_text(table.rows, text)
        else:
            key = object_id if type(object_id) is int else _as_number(object_id)
            if key is None or not -LARGEST - 1 <= key <= LARGEST:
                return None
            table = self._table
            number, item, site = place_of_number(table.rows, key)
        return None if number < 0 else Place(table.partitions[number], item, site)

    def find_all(self, ids: Ids | NDArray[Any]) -> NDArray[np.int64]:
        """Return the partition and the item of each of many ids, int64 (n, 2), -1 each where nobody has it.

        ``ids``: int64 or large strings, also as an Arrow array, or an object array of strings. Cost O(n (P + log n)).
        """
        found = np.empty((len(ids), 2), np.int64)
        if self._string_ids:
            begins, texts = text_buffers(ids if isinstance(ids, pa.Array) else pa.array(ids, pa.large_string()))
            places_of_texts(self._table.rows, np.array(begins), np.array(texts), found)
        else:
            sought = np.array(values_of(ids)) if isinstance(ids, pa.Array) else np.ascontiguousarray(ids)
            places_of_numbers(self._table.rows, sought, found)
        return found

    @once
    def _table(self) -> IdTable:
        partitions = self._parts.all()
        rows = np.zeros((len(partitions), COLUMNS_OF_IDS), np.int64)
        held: list[Any] = []
        for row, partition in zip(rows, partitions, strict=True):
            row[BY_ID], row[OWNED] = address(partition.id_order, "order by id"), partition.owned_objects
            if isinstance(partition.ids, pa.Array):
                offsets, texts = text_buffers(partition.ids)
                row[TEXT_BEGINS], row[ID_VALUES] = address(offsets, "offsets of ids"), address(texts, "ids")
                held += [offsets, texts]
            else:
                row[ID_VALUES] = address(partition.ids, "ids")
            row[ID_FILTER], row[FILTER_WORDS] = address(partition.id_filter, "filter of ids"), len(partition.id_filter)
            row[SITE_OBJECTS] = address(partition.first_object, "first objects")
            row[ALL_SITES] = len(partition.sites)
        return IdTable(rows, partitions, tuple(held))


def _as_number(object_id: Any) -> int | None:
    """Return an id of another type as the whole number that equals it, None where there is none."""
    if isinstance(object_id, (np.bool_, np.ndarray)):
        return None
    try:
        number = int(object_id)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == object_id else None
