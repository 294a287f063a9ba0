"""Keys as small numbers: the place of each among those that a sweep is about.

Keys looked up in a table of all that lie between the least and the greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dtoss.compiled.kernel import kernel

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


_KEYS = "Array(int64, 1, 'A', readonly=True)"


@kernel(f"UniTuple(int64, 2)({_KEYS})")
def bounds(keys):
    """Return the least and the greatest of some numbers; there is one at least."""
    low = high = keys[0]
    for key in keys:
        low, high = min(low, key), max(high, key)
    return low, high


@kernel(f"void({_KEYS}, int64, boolean[::1])")
def mark(keys, low, there):
    """Mark the numbers that there are; ``there`` is about those from ``low`` on."""
    for key in keys:
        there[key - low] = True


@kernel(f"void({_KEYS}, int64, int32[::1], int32[::1])")
def look_up(keys, low, table, out):
    """Write what a table, which is about the numbers from ``low`` on, says of each key, -1 of those beyond."""
    for i in range(keys.size):
        at = keys[i] - low
        out[i] = table[at] if 0 <= at < table.size else -1
