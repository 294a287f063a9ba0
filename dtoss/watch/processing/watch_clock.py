"""The clock of a watch: what time it is by its rows, from the last time of each object; a commit keeps it.

An object counts that was heard of within ``span`` before the clock: the time of ``--expire``, or an hour.

How the last times of objects are spread, in a form that adds up: what enough of them have reached is the clock.

Buckets are 2^k microseconds wide, for the least k from 20 on that needs at most 512 of them, and never narrower again.
So the sum of many tasks' histograms is the same however the rows were given to tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.column_rows import take_rows
from dtoss.errors import StoreError
from dtoss.witnesses import Lasts, Moment, move_clock, overrule

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
        return take_rows(self, self.buckets >= edge >> self.bits)


def histogram_of(t: NDArray[np.int64]) -> Histogram:
    """Return the histogram of times in microseconds. Cost O(n log n)."""
    buckets, counts = np.unique(t >> FINEST_BITS, return_counts=True)
    return _coarse_enough(Histogram(FINEST_BITS, buckets, counts.astype(np.int64)))


def add_histograms(histograms: Sequence[Histogram], without: Sequence[Histogram] = ()) -> Histogram:
    """Return the sum of histograms, without others that are parts of it."""
    signed = [*((one, 1) for one in histograms), *((one, -1) for one in without)]
    bits = max((one.bits for one, _ in signed), default=FINEST_BITS)
    buckets = [one.buckets >> (bits - one.bits) for one, _ in signed]
    counts = [one.counts * sign for one, sign in signed]
    none = np.zeros(0, np.int64)
    whole = _sum_counts(bits, np.concatenate([none, *buckets]), np.concatenate([none, *counts]))
    return _coarse_enough(take_rows(whole, whole.counts > 0))


def _coarse_enough(one: Histogram) -> Histogram:
    while len(one.buckets) > MOST_BUCKETS:
        one = _sum_counts(one.bits + 1, one.buckets >> 1, one.counts)
    return one


def _sum_counts(bits: int, buckets: NDArray[np.int64], counts: NDArray[np.int64]) -> Histogram:
    distinct, back = np.unique(buckets, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, back, counts)
    return Histogram(bits, distinct, total)


USUAL_SPAN = 3_600_000_000
"""For how long an object counts where none expires, in microseconds."""
NOTHING_HEARD = Histogram(FINEST_BITS, np.zeros(0, np.int64), np.zeros(0, np.int64))
ALWAYS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Clock:
    """What a commit keeps of the clock."""

    moment: Moment | None = None  # What time it is; None before the first batch with times
    heard: Histogram = NOTHING_HEARD  # Last times of the objects that count
    edge: int = ALWAYS  # Those before it count no more, and are not among them

    def without(self, lasts: NDArray[np.int64]) -> Clock:
        """Return it without objects, by their last times, int64 (n,)."""
        return replace(self, heard=add_histograms([self.heard], [self.histogram(lasts)]))

    def histogram(self, lasts: NDArray[np.int64]) -> Histogram:
        """Return the histogram of last times, int64 (n,), of objects that count."""
        return histogram_of(lasts[lasts >= self.edge])

    @property
    def now(self) -> int | None:
        """In microseconds since 1970."""
        return None if self.moment is None else int(self.moment.now)

    def expired_until(self, expire: int | None) -> int | None:
        """Return the last time of an object that is over; None where none can be."""
        return None if expire is None or self.moment is None else int(self.moment.now) - expire

    def as_json(self) -> dict[str, Any] | None:
        """Return what a commit's document holds of it beside the time itself."""
        if self.moment is None:
            return None
        one, heard = self.moment, self.heard
        return {
            "sure": one.sure,
            "held": one.held,
            "waits": one.waits,
            "edge": self.edge,
            "bits": heard.bits,
            "buckets": heard.buckets.tolist(),
            "objects": heard.counts.tolist(),
        }

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Clock | None:
        """Return the clock that a commit's document says; None where it is of a version that knew no witnesses."""
        if said.get("clock") is None:
            return cls()
        if "witnesses" not in said:
            return None
        try:
            kept = said["witnesses"]
            sure = None if kept["sure"] is None else int(kept["sure"])
            moment = Moment(int(said["clock"]), sure, int(kept["held"]), int(kept["waits"]))
            buckets, objects = (np.array(kept[name], np.int64) for name in ("buckets", "objects"))
            if len(buckets) != len(objects):
                raise ValueError("as many buckets as numbers of objects")
            return cls(moment, Histogram(int(kept["bits"]), buckets, objects), int(kept["edge"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StoreError(f"the clock of a commit is damaged: {error}; restore the commit from a copy") from None


@dataclass(frozen=True)
class Heard:
    """What a task has heard of its objects."""

    # reached, left: the last times of those that have rows that count, after the batch and before
    reached: Histogram = NOTHING_HEARD
    left: Histogram = NOTHING_HEARD
    # The last times of those that have rows and do not count: they are too early, or over already when they come
    behind: Histogram = NOTHING_HEARD
    gone_on: int = 0  # Microseconds for which one of them has gone on past the time that is held, the longest


def span_of(expire: int | None) -> int:
    """Return for how long an object counts, in microseconds."""
    return USUAL_SPAN if expire is None else expire


def clock_after(clock: Clock, heard: Sequence[Heard], witnesses: str, span: int, wall_us: int | None) -> Clock:
    """Return the clock after a batch.

    ``span``: for how long an object counts, in microseconds; ``wall_us``: the clock of this machine, which the watch's
    follows where there are no rows; None where it stands.
    """
    whole = add_histograms([clock.heard, *(one.reached for one in heard)], [one.left for one in heard])
    gone_on = max((one.gone_on for one in heard), default=0)
    moment = move_clock(clock.moment, whole.lasts, gone_on, witnesses, span)
    if moment is None:
        return clock
    if wall_us is not None and wall_us > moment.now:
        moment = replace(moment, now=wall_us, sure=wall_us)
    edge = max(clock.edge, (int(moment.now) - span + 1) >> whole.bits << whole.bits)
    return Clock(moment, whole.since(edge), edge)


def time_set_back(clock: Clock, heard: Sequence[Heard], witnesses: str) -> Moment | None:
    """Return what time it is where a batch's objects say that the clock was wrong; None where it stands."""
    behind = add_histograms([one.behind for one in heard])
    if len(behind.buckets) == 0:
        return None
    whole = add_histograms([clock.heard, *(one.reached for one in heard)], [one.left for one in heard])
    return overrule(clock.moment, whole.lasts, behind.lasts, witnesses)


def clock_at(moment: Moment | None, lasts: NDArray[np.int64], span: int) -> Clock:
    """Return the clock that a time and the last times of all objects, int64 (n,), make."""
    heard = histogram_of(lasts)
    if moment is None:
        return Clock(None, heard)
    edge = (int(moment.now) - span + 1) >> heard.bits << heard.bits
    return Clock(moment, heard.since(edge), edge)
