"""How the times of a batch are spread, in a form that adds up: its median moves the clock.

Buckets are 2^k microseconds wide, for the least k from 20 on that needs at most 65,536 of them. So the sum of many
tasks' histograms is the same however the rows were given to tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FINEST_BITS = 20
"""Of the narrowest bucket: about a second."""
MOST_BUCKETS = 1 << 16


@dataclass(frozen=True)
class Histogram:
    """Times by buckets.

    Parameters
    ----------
    bits
        A bucket is 2^bits microseconds wide.
    buckets
        int64 (n,), rising. t >> bits.
    counts
        int64 (n,). Times in each.
    """

    bits: int
    buckets: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def median(self) -> int | None:
        """The beginning of the bucket that holds the median, in microseconds; None of none."""
        total = int(self.counts.sum())
        if total == 0:
            return None
        at = int(np.searchsorted(np.cumsum(self.counts), (total - 1) // 2, "right"))
        return int(self.buckets[at]) << self.bits


def histogram_of(t: NDArray[np.int64]) -> Histogram:
    """Return the histogram of times in microseconds. Cost O(n log n)."""
    buckets, counts = np.unique(t >> FINEST_BITS, return_counts=True)
    return _coarse_enough(Histogram(FINEST_BITS, buckets, counts.astype(np.int64)))


def added(histograms: Sequence[Histogram]) -> Histogram:
    """Return the sum of histograms."""
    bits = max((one.bits for one in histograms), default=FINEST_BITS)
    buckets = [one.buckets >> (bits - one.bits) for one in histograms]
    counts = [one.counts for one in histograms]
    none = np.zeros(0, np.int64)
    return _coarse_enough(_summed(bits, np.concatenate([none, *buckets]), np.concatenate([none, *counts])))


def _coarse_enough(one: Histogram) -> Histogram:
    while len(one.buckets) > MOST_BUCKETS:
        one = _summed(one.bits + 1, one.buckets >> 1, one.counts)
    return one


def _summed(bits: int, buckets: NDArray[np.int64], counts: NDArray[np.int64]) -> Histogram:
    distinct, back = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, back, counts)
    return Histogram(bits, distinct, total)
