"""How the last times of objects are spread, in a form that adds up: what enough of them have reached is the clock.

Buckets are 2^k microseconds wide, for the least k from 20 on that needs at most 512 of them, and never narrower again.
So the sum of many tasks' histograms is the same however the rows were given to tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtoss.witnesses import Lasts

FINEST_BITS = 20
"""Of the narrowest bucket: about a second."""
MOST_BUCKETS = 1 << 9
"""All of them stand in each commit."""


@dataclass(frozen=True)
class Histogram:
    """Times by buckets."""

    bits: int  # A bucket is 2^bits microseconds wide
    buckets: NDArray[np.int64]  # int64 (n,), rising. t >> bits
    counts: NDArray[np.int64]  # int64 (n,). Times in each

    @property
    def lasts(self) -> Lasts:
        """The same as times, each the beginning of its bucket."""
        return Lasts(self.buckets << self.bits, self.counts)

    def since(self, edge: int) -> Histogram:
        """Return what is not before the beginning of a bucket."""
        there = self.buckets >= edge >> self.bits
        return Histogram(self.bits, self.buckets[there], self.counts[there])


def histogram_of(t: NDArray[np.int64]) -> Histogram:
    """Return the histogram of times in microseconds. Cost O(n log n)."""
    buckets, counts = np.unique(t >> FINEST_BITS, return_counts=True)
    return _coarse_enough(Histogram(FINEST_BITS, buckets, counts.astype(np.int64)))


def added(histograms: Sequence[Histogram], without: Sequence[Histogram] = ()) -> Histogram:
    """Return the sum of histograms, without others that are parts of it."""
    signed = [*((one, 1) for one in histograms), *((one, -1) for one in without)]
    bits = max((one.bits for one, _ in signed), default=FINEST_BITS)
    buckets = [one.buckets >> (bits - one.bits) for one, _ in signed]
    counts = [one.counts * sign for one, sign in signed]
    none = np.zeros(0, np.int64)
    whole = _summed(bits, np.concatenate([none, *buckets]), np.concatenate([none, *counts]))
    there = whole.counts > 0
    return _coarse_enough(Histogram(bits, whole.buckets[there], whole.counts[there]))


def _coarse_enough(one: Histogram) -> Histogram:
    while len(one.buckets) > MOST_BUCKETS:
        one = _summed(one.bits + 1, one.buckets >> 1, one.counts)
    return one


def _summed(bits: int, buckets: NDArray[np.int64], counts: NDArray[np.int64]) -> Histogram:
    distinct, back = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, back, counts)
    return Histogram(bits, distinct, total)
