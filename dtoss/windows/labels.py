"""The keys of rows: one of each, or several where polygons overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Labels:
    """The keys of rows."""

    key: Numbers  # int64. Of single keys (n,), -1 where a row is in none
    # int64 (n + 1,). Row r has the keys ``key[first[r]:first[r + 1]]``, ascending; None of single keys
    first: Numbers | None = None

    def __len__(self) -> int:
        return len(self.key) if self.first is None else len(self.first) - 1

    @property
    def most(self) -> int:
        """The most keys of a row."""
        return 1 if self.first is None else int(np.diff(self.first).max(initial=0))

    def take(self, rows: Numbers) -> Labels:
        """Return those of some rows, in the order of their numbers."""
        if self.first is None:
            return Labels(self.key[rows])
        count = np.diff(self.first)[rows]
        return Labels(self.key[ranges(self.first[rows], count)], offsets(count))

    @classmethod
    def none(cls, single: bool) -> Labels:
        """Return the keys of no rows."""
        return cls(NONE, None if single else np.zeros(1, np.int64))


def together(parts: Sequence[Labels]) -> Labels:
    """Return the keys of several lists of rows as those of one."""
    if len(parts) == 1 or parts[0].first is None:
        return Labels(parts[0].key if len(parts) == 1 else np.concatenate([part.key for part in parts]), parts[0].first)
    counts = [np.diff(part.first) for part in parts if part.first is not None]
    return Labels(np.concatenate([part.key for part in parts]), offsets(np.concatenate(counts)))


def offsets(counts: NDArray[np.int64]) -> Numbers:
    """Return where each of so many begins, and the end of all: int64 (n + 1,)."""
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def ranges(begin: Numbers, count: Numbers) -> Numbers:
    """Return the numbers from each begin on, so many of each, one range after another."""
    ends = np.cumsum(count)
    return np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begin - (ends - count), count)
