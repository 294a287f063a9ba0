"""What one request reads together: sets of partitions, each with the requests a day that read just these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_SETS = 20_000
"""Sets that patterns keep at the most; of more a sample stands for all."""
MOST_MEMBERS = 500_000
"""Partitions that all kept sets have together at the most."""


@dataclass(frozen=True, eq=False)
class Reads:
    """Sets of two or more partitions that single requests read, and how many requests there are; immutable.

    Parameters
    ----------
    start
        int64 (S + 1,): set s has the rows `row[start[s]:start[s + 1]]`.
    row
        int64 (n,), rows of the patterns; ascending within a set, two or more of them.
    weight
        float64 (S,), requests a day that read just this set, above 0. No set stands twice.
    total
        Requests a day in all, those that read one partition alone included; 0 or more.
    sampled
        Share of the requests with two or more partitions for which a sample stands: 0 where every set is kept.

    Raises
    ------
    ValueError
        A shape, a row or a weight is wrong; the message names it.
    """

    start: Ints
    row: Ints
    weight: Floats
    total: float
    sampled: float = 0.0

    def __post_init__(self) -> None:
        start, row = np.array(self.start, dtype=np.int64), np.array(self.row, dtype=np.int64)
        weight = np.array(self.weight, dtype=np.float64)
        if start.shape != (len(weight) + 1,) or start[0] != 0 or start[-1] != len(row):
            raise ValueError(f"start has shape {start.shape} for {len(weight)} sets of {len(row)} rows in all")
        if len(weight) and np.diff(start).min() < 2:
            raise ValueError(f"set {int(np.diff(start).argmin())} has fewer than 2 partitions; leave it to the total")
        inside = np.ones(len(row), dtype=bool)
        inside[start[:-1]] = False
        wrong = (row < 0) | (inside & (np.diff(row, prepend=-1) <= 0))
        if wrong.any():
            raise ValueError(f"row[{int(wrong.argmax())}] is {row[wrong.argmax()]}: rows of a set ascend from 0 on")
        bad = ~(np.isfinite(weight) & (weight > 0))
        if bad.any():
            raise ValueError(f"weight[{int(bad.argmax())}] = {weight[bad.argmax()]}: above 0 and finite is wanted")
        number("total", self.total, "requests a day, 0 or more and finite", least=0)
        number("sampled", self.sampled, "a share from 0 to 1", least=0, most=1)
        for name, value in (("start", start), ("row", row), ("weight", weight)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.weight)

    @cached_property
    def set_of(self) -> Ints:
        """int64 (n,), the set that each entry of `row` belongs to."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def scaled(self, factor: float) -> Reads:
        """Return reads with `factor` times as many requests, above 0."""
        return replace(self, weight=self.weight * factor, total=self.total * factor)


def reads_together(request: ArrayLike, row: ArrayLike, weight: ArrayLike, days: float = 1.0) -> Reads:
    """Return the sets of partitions that requests read, all of them.

    ``request``, ``row``: int (n,) each, pairs: this request reads this row of the patterns; ``weight``: float64 (R,),
    how many requests the request 0..R-1 stands for; one with weight 0, or without a pair, counts in no set; ``days``:
    days in which they came.

    O(n log n).
    """
    weights = np.asarray(weight, dtype=np.float64) / days
    start, rows, whose = distinct_sets(np.asarray(request, dtype=np.int64), np.asarray(row, dtype=np.int64))
    sums = np.bincount(whose[whose >= 0], weights[: len(whose)][whose >= 0], minlength=len(start) - 1)
    counted = np.flatnonzero(sums > 0)
    return Reads(*_some(start, rows, counted), sums[counted].astype(np.float64), float(weights.sum()))


def distinct_sets(request: Ints, row: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the distinct sets of two or more rows, as `Reads` has them, and each request's: int64 (R,), -1 for none.

    `request` and `row` are pairs, int64 (n,), 0 or more; one that stands twice counts once. O(n log n).
    """
    width = int(row.max(initial=0)) + 1
    pairs = np.sort(request * width + row, kind="stable")
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    request, row = pairs // width, pairs % width
    requests = int(request.max(initial=-1)) + 1
    length = np.bincount(request, minlength=requests)
    begin = np.cumsum(length) - length
    whose = np.full(requests, -1)
    starts, rows, count = [np.zeros(1, dtype=np.int64)], [np.empty(0, dtype=np.int64)], 0
    for size in np.unique(length[length > 1]).tolist():
        asked = np.flatnonzero(length == size)
        members = row[begin[asked][:, None] + np.arange(size)]
        # As big-endian bytes, sets are compared and sorted whole.
        keys = np.ascontiguousarray(members, dtype=">i8").view(f"V{8 * size}").ravel()
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        whose[asked] = count + place
        starts.append(starts[-1][-1] + size * np.arange(1, len(first) + 1))
        rows.append(members[first].ravel())
        count += len(first)
    return np.concatenate(starts), np.concatenate(rows), whose


def bound_reads(reads: Reads, sets: int = MOST_SETS, members: int = MOST_MEMBERS, salt: int = 0) -> Reads:
    """Return reads of at most so many sets with so many members in all; these where that is kept to.

    A priority sample (Duffield, Lund and Thorup 2007): a set's priority is its weight over a number in (0, 1) that
    its members determine. Those of the highest priorities are kept, and none stands for fewer requests than the
    first that is not. So heavy sets are exact, and sums over any sets, as that of servers a request, are right in the
    mean. The same reads give the same sample; one of a sample needs another `salt` than that was made with.
    O(n + S log S).
    """
    urgent = priorities(reads.start, reads.row, reads.weight, salt)
    order = np.argsort(-urgent, kind="stable")
    most = min(sets, int(np.searchsorted(np.cumsum(np.diff(reads.start)[order]), members, side="right")))
    if most >= len(reads):
        return reads
    kept = np.sort(order[:most])
    least = float(urgent[order[most]])
    weight = np.maximum(reads.weight[kept], least)
    light = float(weight[reads.weight[kept] < least].sum())
    share = light / float(weight.sum()) if most else 1.0
    return Reads(*_some(reads.start, reads.row, kept), weight, reads.total, max(share, reads.sampled))


def priorities(start: Ints, row: Ints, weight: Floats, salt: int = 0) -> Floats:
    """float64 (S,), weight of each set over a number in (0, 1) that depends on its members and the salt alone."""
    if not len(weight):
        return np.empty(0)
    mixed = _mixed(np.add.reduceat(_mixed(row.astype(np.uint64) + np.uint64(1)), start[:-1]) + np.uint64(salt))
    found: Floats = weight / (((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53)
    return found


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # splitmix64: neighbouring numbers become unrelated ones
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _some(start: Ints, row: Ints, kept: Ints) -> tuple[Ints, Ints]:
    """Return `start` and `row` of some of the sets."""
    length = np.diff(start)[kept]
    begin = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    return begin, row[np.repeat(start[:-1][kept] - begin[:-1], length) + np.arange(begin[-1])]
