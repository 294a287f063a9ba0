"""The memory that kernels of queries work in, each thread its own."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.lanes16 import LANES
from dtoss.partition import BLOCK
from dtoss.queries.kernels.address_table import AddressTable
from dtoss.queries.kernels.ring_sort import RINGS

FIRST_ROOM = 512
"""Hits of a query that a workspace has room for at first."""


KEPT_ROOM = 1 << 20
"""And those that it keeps room for from batch to batch: 40 MB a thread."""


class Workspace(threading.local):
    """Memory that the kernels work in, each thread its own, which grows to what its queries need."""

    def __init__(self) -> None:
        self.seen = np.zeros(0, np.uint8)
        self.visits = np.empty(0, np.int32)
        self.gaps = np.empty(0)
        self.counters = np.empty(RINGS + 1, np.int64)
        self._make_room(FIRST_ROOM)

    def fit(self, table: AddressTable) -> None:
        """Make room for visits to all blocks of any partition."""
        blocks = table.most_blocks + 1
        if len(self.seen) < blocks or len(self.visits) < len(self.seen) + table.most_links + 1:
            self.seen = np.zeros(max(blocks, len(self.seen)), np.uint8)
            self.visits = np.empty(len(self.seen) + table.most_links + 1, np.int32)
            self.gaps = np.empty(BLOCK * len(self.seen))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What every kernel works in: places, visits, gaps, seen, distance."""
        return self.places, self.visits, self.gaps, self.seen, self.distance

    def trim(self) -> None:
        """Let go of what a query with very many hits needed: threads live on."""
        if len(self.distance) > KEPT_ROOM:
            self._make_room(FIRST_ROOM)

    def grow(self) -> None:
        """Double what a query may list and hit."""
        self._make_room(2 * len(self.distance))

    def _make_room(self, hits: int) -> None:
        self.distance = np.empty(hits)
        self.places = np.empty(4 * hits + LANES, np.int64)


workspace = Workspace()
