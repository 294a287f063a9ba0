"""Which subscriptions hold which rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Matches:
    """Matches of consecutive rows, each once, by row and then by subscription.

    Parameters
    ----------
    first_row, last_row
        The rows that were asked about: from the first up to, but without, the last.
    row
        int64 (m,).
    subscription
        int32 (m,). The row of the table of subscriptions.
    distance
        float64 (m,). To the centre of a circle, in metres or units of the CRS; NaN where a place has no centre.
    """

    first_row: int
    last_row: int
    row: NDArray[np.int64]
    subscription: NDArray[np.int32]
    distance: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.row)

    def only(self, kept: NDArray[np.bool_]) -> Matches:
        """Return some of the matches."""
        return Matches(self.first_row, self.last_row, self.row[kept], self.subscription[kept], self.distance[kept])

    def between(self, first_row: int, last_row: int) -> Matches:
        """Return the matches of some of the rows; nothing is copied."""
        begin, end = np.searchsorted(self.row, [first_row, last_row])
        row, subscription, distance = self.row[begin:end], self.subscription[begin:end], self.distance[begin:end]
        return Matches(first_row, last_row, row, subscription, distance)


def joined(first_row: int, last_row: int, parts: list[Matches]) -> Matches:
    """Return matches of the same rows and other subscriptions as one, put in order; O(m log m) for several parts."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return Matches(first_row, last_row, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
    if len(parts) == 1 and (parts[0].first_row, parts[0].last_row) == (first_row, last_row):
        return parts[0]
    row = np.concatenate([part.row for part in parts])
    subscription = np.concatenate([part.subscription for part in parts])
    distance = np.concatenate([part.distance for part in parts])
    if len(parts) > 1:
        order = np.argsort((row - first_row) * (int(subscription.max()) + 1) + subscription, kind="stable")
        row, subscription, distance = row[order], subscription[order], distance[order]
    return Matches(first_row, last_row, row, subscription, distance)
