"""SWARM's statistics (Daghistani et al., 4.2): counts by cell, of which the numbers of any rectangle are sums.

The paper keeps five numbers for each row and each column of a rectangle instead. ``bench/watch/swarm_lines.py`` has
these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ceps.balance.cell_layout import Ints
from ceps.balance.rectangles import FIRST_COLUMN, FIRST_ROW, LAST_COLUMN, LAST_ROW, sums_within
from ceps.balance.subscription_load import SubscriptionLoad

FADING = 2.0
"""By which points of earlier rounds are divided at the end of a round."""


@dataclass(frozen=True, eq=False)
class Overlaps:
    """How many subscriptions overlap any rectangle of cells: faces less edges plus corners of an Euler histogram."""

    asked: SubscriptionLoad

    @cached_property
    def _sums(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Prefix sums of faces, of edges between columns, of edges between rows, and of corners."""
        west, south, east, north = self.asked.rects.T
        return (
            self._table(south, north, west, east),
            self._table(south, north, west + 1, east),
            self._table(south + 1, north, west, east),
            self._table(south + 1, north, west + 1, east),
        )

    def _table(self, south: Ints, north: Ints, west: Ints, east: Ints) -> Ints:
        rows, columns = self.asked.shape
        edges = np.zeros((rows + 2) * (columns + 2), np.int64)
        some = (south <= north) & (west <= east)
        for row, below in ((south, 1), (north + 1, -1)):
            for column, left in ((west, 1), (east + 1, -1)):
                at = (row * (columns + 2) + column)[some]
                edges += below * left * np.bincount(at, minlength=edges.size)
        held = edges.reshape(rows + 2, columns + 2).cumsum(axis=0).cumsum(axis=1)[:rows, :columns]
        sums = np.zeros((rows + 1, columns + 1), np.int64)
        sums[1:, 1:] = held.cumsum(axis=0).cumsum(axis=1)
        return sums

    def of(self, rects: Ints) -> Ints:
        """Return how many rectangles of subscriptions overlap each of some rectangles of cells, int64 (n,). O(n).

        ``rects``: int64 (n, 4). First column, first row, last column, last row.
        """
        west, south = rects[:, FIRST_COLUMN], rects[:, FIRST_ROW]
        east, north = rects[:, LAST_COLUMN], rects[:, LAST_ROW]
        faces, between_columns, between_rows, corners = self._sums
        found: Ints = (
            sums_within(faces, south, north, west, east)
            - sums_within(between_columns, south, north, west + 1, east)
            - sums_within(between_rows, south + 1, north, west, east)
            + sums_within(corners, south + 1, north, west + 1, east)
        )
        return found
