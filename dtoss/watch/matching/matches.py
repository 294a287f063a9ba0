"""Which subscriptions hold which rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.watch.matching.row_order import merge_hits


@dataclass(frozen=True)
class Matches:
    """Matches of consecutive rows, each once, by row and then by subscription."""

    first_row: int  # first_row, last_row: the rows that were asked about: from the first up to, but without, the last
    last_row: int
    row: NDArray[np.int64]  # int64 (m,)
    subscription: NDArray[np.int32]  # int32 (m,). The row of the table of subscriptions
    # float64 (m,). To the centre of a circle, in metres or units of the CRS; NaN where a place has no centre
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
    """Return matches of the same rows and other subscriptions as one, in order. Cost O(m log p) for p parts."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return Matches(first_row, last_row, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0))
    while len(parts) > 1:
        parts = [_merged(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return Matches(first_row, last_row, parts[0].row, parts[0].subscription, parts[0].distance)


def _merged(parts: list[Matches]) -> Matches:
    """Return one or two parts as one."""
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    total = len(one) + len(other)
    row, subscription, distance = np.empty(total, np.int64), np.empty(total, np.int32), np.empty(total)
    merge_hits(
        one.row, one.subscription, one.distance, other.row, other.subscription, other.distance,
        row, subscription, distance,
    )  # fmt: skip
    return Matches(one.first_row, one.last_row, row, subscription, distance)
