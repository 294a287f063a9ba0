"""The memory that kernels of queries work in, each thread its own."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.checked_memory import address
from dtoss.compiled.lanes16 import LANES
from dtoss.partition import BLOCK
from dtoss.queries.kernels import one_kernel as one
from dtoss.queries.kernels.address_table import AddressTable
from dtoss.queries.kernels.hit_writing import RINGS


class Sizes(NamedTuple):
    """Hits that a thread has memory for.

    ``first`` of a query at first, ``kept`` from batch to batch: 40 MB a thread, and 24 more once one place had so many.
    ``written`` are those that kernels of ranges write at a time, unless one query has more: 24 MB a thread, where all
    is asked for.
    """

    first: int = 512
    kept: int = 1 << 20
    written: int = 1 << 20


ADDRESSES = (
    (one.PLACES_AT, "places"),
    (one.VISITS_AT, "visits"),
    (one.GAPS_AT, "gaps"),
    (one.SEEN_AT, "seen"),
    (one.DISTANCE_AT, "distance"),
    (one.NEED_AT, "need"),
    (one.PART_AT, "part"),
    (one.ITEM_AT, "item"),
    (one.TOLD_AT, "told"),
    (one.READS_AT, "reads"),
    (one.ID_AT, "id"),
    (one.FAR_AT, "far"),
    (one.COUNTERS_AT, "counters"),
)
"""Columns of a thread's row, and the arrays of its workspace whose addresses they hold."""


class Workspace(threading.local):
    """Memory that the kernels work in, each thread its own, which grows to what its queries need.

    ``row`` is the address of its row for kernels of one place, which always names the arrays that there are.
    """

    sizes = Sizes()

    def __init__(self) -> None:
        self._row = np.zeros(one.COLUMNS_OF_ROW, np.int64)
        self.row = address(self._row, "a thread's row")
        self.told, self.reads = np.zeros(1, np.int64), np.zeros(1, np.int32)
        self.need = np.zeros(0, np.uint8)
        self.seen = np.zeros(0, np.uint8)
        self.visits = np.empty(0, np.int32)
        self.gaps = np.empty(0)
        self.counters = np.empty(RINGS + 1, np.int64)
        self._columns = _no_columns()
        self._make_room(self.sizes.first)

    def fit(self, table: AddressTable) -> None:
        """Make room for visits to all blocks of any partition."""
        blocks = table.most_blocks + 1
        if len(self.seen) < blocks or len(self.visits) < len(self.seen) + table.most_links + 1:
            self.seen = np.zeros(max(blocks, len(self.seen)), np.uint8)
            self.visits = np.empty(len(self.seen) + table.most_links + 1, np.int32)
            self.gaps = np.empty(BLOCK * len(self.seen))
            self._note()

    def fit_one(self, table: AddressTable) -> None:
        """Make room for what kernels of one place need besides: a flag for each partition."""
        if len(self.need) < len(table.partitions):
            self.need = np.zeros(len(table.partitions), np.uint8)
            self._note()
        self.fit(table)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What every kernel works in: places, visits, gaps, seen, distance."""
        return self.places, self.visits, self.gaps, self.seen, self.distance

    def columns(self, room: int, places: bool, ids: bool, kept: bool) -> tuple[NDArray[Any], ...]:
        """Return memory for the hits of ranges: distance, part, item and id; those that are not asked for are empty.

        What is kept is given out again: memory that was used a moment ago costs a fraction of what fresh memory does.
        """
        sizes = (room, room if places else 0, room if places else 0, room if ids else 0)
        if not kept:
            return tuple(np.empty(size, column.dtype) for size, column in zip(sizes, self._columns, strict=True))
        # memory that is not written costs nothing
        self._columns = tuple(
            column if len(column) >= size else np.empty(size, column.dtype)
            for size, column in zip(sizes, self._columns, strict=True)
        )
        return tuple(column[:size] for size, column in zip(sizes, self._columns, strict=True))

    def trim(self) -> None:
        """Let go of what a query with very many hits needed: threads live on."""
        if len(self.distance) > self.sizes.kept:
            self._make_room(self.sizes.first)

    def grow(self) -> None:
        """Double what a query may list and hit."""
        self._make_room(2 * len(self.distance))

    def _make_room(self, hits: int) -> None:
        self.distance = np.empty(hits)
        self.places = np.empty(4 * hits + LANES, np.int64)
        # the answer of one place, where nobody knows its length before it is there
        self.part, self.item = np.empty(hits, np.int32), np.empty(hits, np.int32)
        self.id, self.far = np.empty(hits, np.int64), np.empty(hits)
        self._note()

    def _note(self) -> None:
        row = self._row
        for column, name in ADDRESSES:
            row[column] = address(getattr(self, name), name)
        row[one.ROOM_OF_HITS] = len(self.distance)
        row[one.ROOM_OF_VISITS] = len(self.visits)
        row[one.ROOM_OF_SEEN] = len(self.seen)
        row[one.ROOM_OF_NEED] = len(self.need)


def _no_columns() -> tuple[NDArray[Any], ...]:
    return np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)


workspace = Workspace()
