"""Keys as small numbers: the place of each among those that a sweep is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dtoss.windows.aggregation.slots_kernel import bounds, look_up, mark

_WIDE = 1 << 20
"""The widest span of keys that a table of all of them is made for."""


@dataclass(frozen=True)
class Slots:
    """Different keys, rising; the slot of a key is its place."""

    keys: NDArray[np.int64]  # int64 (n,)

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def _table(self) -> NDArray[np.int32] | None:
        if len(self.keys) == 0 or int(self.keys[-1]) - int(self.keys[0]) >= _WIDE:
            return None
        table = np.full(int(self.keys[-1] - self.keys[0]) + 1, -1, np.int32)
        table[self.keys - self.keys[0]] = np.arange(len(self.keys), dtype=np.int32)
        return table

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the slot of each key, int32, -1 of others. Cost O(n); O(n log k) where keys are far apart."""
        if len(self.keys) == 0:
            return np.full(len(keys), -1, np.int32)
        if self._table is not None:
            out = np.empty(len(keys), np.int32)
            look_up(keys, int(self.keys[0]), self._table, out)
            return out
        found = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[found] == keys, found, -1).astype(np.int32)


def different(columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the different numbers of some columns, rising."""
    some = [column for column in columns if len(column)]
    if not some:
        return np.zeros(0, np.int64)
    lows, highs = zip(*map(bounds, some), strict=True)
    low, high = min(lows), max(highs)
    if high - low >= _WIDE:
        return np.unique(np.concatenate([np.unique(column) for column in some]))
    there = np.zeros(high - low + 1, np.bool_)
    for column in some:
        mark(column, low, there)
    return np.flatnonzero(there) + low
