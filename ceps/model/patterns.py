"""Access patterns: requests per second to each partition, by time slot of a day or a week."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number, whole
from ceps.model.number_text import how_many
from ceps.model.reads import Reads
from ceps.model.servers import MOST_BYTES, MOST_REQUESTS
from ceps.model.variation import Variation

DAY = 86_400
"""Seconds of a day."""
WEEK = 7 * DAY
"""Seconds of a week."""


def slot_length(slots: int) -> int:
    """Seconds of one slot when `slots` of them make a day or, failing that, a week.

    Examples
    --------
    >>> slot_length(288), slot_length(168), slot_length(2016)
    (300, 3600, 300)
    """
    for period in (DAY, WEEK):
        if slots > 0 and period % slots == 0:
            return period // slots
    raise ValueError(
        f"{how_many(slots, 'slot')} divide neither a day nor a week into whole seconds; use 288 slots of 5 minutes, "
        "or pass Patterns with slot_seconds"
    )


@dataclass(frozen=True, eq=False)
class Patterns:
    """What is asked of each partition, by slot; immutable.

    Parameters
    ----------
    loads
        float64 (P, T), requests/s to each partition in each slot, finite and 0 or more. The T slots make one
        day or one week and the period repeats.
    sizes
        float64 (P,), bytes of each partition, finite and 0 or more; 0 for all if not given.
    partitions
        int64 (P,), the partitions' numbers, all different; 0..P-1 if not given.
    slot_seconds
        Length of a slot; found from T if not given.
    positions
        float64 (P, 2), lon and lat of each partition (its pivot or its centre), or None. Only the grid
        competitors and the report's map need them.
    time_zone
        Name of the zone in which slot 0 begins at midnight.
    weekday
        0 (Monday) to 6 when the patterns are of that day only, None for all days or a whole week.
    days
        Days of accesses that were averaged, above 0.
    requests_per_event
        Requests that one observed event stands for: 1 unless the loads were scaled up from a sample. Sets how
        unsure of the patterns the overload risk is.
    pivots_hash
        Hash of the pivots that define the partitions; a plan repeats it so that it cannot be used with others.
    reads
        What single requests read together, a mean day of all days, also where the loads are of one weekday; None
        where that is not known.
    variation
        How much days differ from the patterns, `own` by partition; None where that was not observed.

    Raises
    ------
    ValueError
        A shape, a value or the slot length is wrong; the message names the value and its place.
    """

    loads: NDArray[np.float64]
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    partitions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    slot_seconds: int = 0
    positions: NDArray[np.float64] | None = None
    time_zone: str = "UTC"
    weekday: int | None = None
    days: float = 1.0
    requests_per_event: float = 1.0
    pivots_hash: str = ""
    reads: Reads | None = None
    variation: Variation | None = None

    def __post_init__(self) -> None:
        loads = _floats(self.loads, "loads", 2)
        count, slots = loads.shape
        if slots == 0:
            raise ValueError("loads has no slots; at least one is needed")
        sizes = _floats(self.sizes, "sizes", 1)
        if not len(sizes):
            sizes = np.zeros(count)
        partitions = np.array(self.partitions, dtype=np.int64)
        if not len(partitions):
            partitions = np.arange(count, dtype=np.int64)
        for name, array in (("sizes", sizes), ("partitions", partitions)):
            if array.shape != (count,):
                raise ValueError(f"{name} has shape {array.shape} but loads has {how_many(count, 'partition')}")
        _within(loads, "loads", "requests/s", MOST_REQUESTS)
        _within(sizes, "sizes", "bytes", MOST_BYTES)
        numbers, counts = np.unique(partitions, return_counts=True)
        if len(numbers) < count:
            raise ValueError(
                f"partition {numbers[counts > 1][0]} appears {counts.max()} times; each may appear once: "
                "add its rows together"
            )
        slot_seconds = int(self.slot_seconds) or slot_length(slots)
        if slots * slot_seconds not in (DAY, WEEK):
            raise ValueError(
                f"{how_many(slots, 'slot')} of {slot_seconds} s make {slots * slot_seconds} s; they must make a day "
                f"({DAY} s) or a week ({WEEK} s)"
            )
        positions = self.positions
        if positions is not None:
            positions = _floats(positions, "positions", 2)
            if positions.shape != (count, 2):
                raise ValueError(f"positions has shape {positions.shape}; it must be ({count}, 2): lon, lat")
            if not np.isfinite(positions).all():
                raise ValueError(
                    f"positions of partition {partitions[~np.isfinite(positions).all(1)][0]} are not finite"
                )
        if self.weekday is not None:
            whole("weekday", self.weekday, 0, 6, ": Monday to Sunday, or None")
        if self.variation is not None and len(self.variation.own) != count:
            raise ValueError(f"variation is of {how_many(len(self.variation.own), 'partition')} but loads has {count}")
        for name in ("days", "requests_per_event"):
            number(name, getattr(self, name), "above 0 and finite", above=0)
        if self.reads is not None and self.reads.row.max(initial=-1) >= count:
            raise ValueError(f"reads name row {self.reads.row.max()} but loads has {how_many(count, 'partition')}")
        for name, value in (
            ("loads", loads),
            ("sizes", sizes),
            ("partitions", partitions),
            ("positions", positions),
            ("slot_seconds", slot_seconds),
        ):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.loads)

    @property
    def slots(self) -> int:
        """Number of slots, T."""
        return self.loads.shape[1]

    @property
    def period(self) -> int:
        """Seconds after which the patterns repeat: a day or a week."""
        return self.slots * self.slot_seconds

    @cached_property
    def total(self) -> NDArray[np.float64]:
        """float64 (T,), requests/s to all partitions together."""
        return self.loads.sum(axis=0)

    @property
    def peak(self) -> float:
        """Largest total load of any slot, requests/s; 0 when there are no partitions."""
        return float(self.total.max())

    def scaled(self, factor: float, *, observed: bool = True) -> Patterns:
        """Patterns with every load, and the requests of `reads`, multiplied by `factor`, above 0.

        `observed` says that what was observed is a sample, and one event now stands for `factor` times as many
        requests (the patterns are as unsure as before); False says that more events came (growth).

        Raises
        ------
        ValueError
            `factor` is not above 0, or not finite.
        """
        if not 0 < factor < np.inf:
            raise ValueError(f"factor = {factor}; it must be above 0 and finite")
        per_event = self.requests_per_event * (factor if observed else 1.0)
        reads = None if self.reads is None else self.reads.scaled(factor)
        return replace(self, loads=self.loads * factor, requests_per_event=per_event, reads=reads)

    def smoothed(self, seconds: int) -> Patterns:
        """Patterns with each slot replaced by the mean over `seconds` around it; the period is a circle.

        The number of slots is rounded to the nearest odd number, so that no pattern shifts in time. Less than
        one and a half slots changes nothing. O(P T).

        Raises
        ------
        ValueError
            `seconds` is negative or longer than the period.
        """
        if not 0 <= seconds <= self.period:
            raise ValueError(f"smoothing over {seconds} s; it must be 0 to {self.period} s, the period")
        half = int(seconds / self.slot_seconds / 2)
        half = min(half, (self.slots - 1) // 2)
        if half == 0:
            return self
        window = 2 * half + 1
        ring = np.concatenate([self.loads[:, -half:], self.loads, self.loads[:, :half]], axis=1)
        sums = np.cumsum(np.pad(ring, ((0, 0), (1, 0))), axis=1)
        return replace(self, loads=np.maximum((sums[:, window:] - sums[:, :-window]) / window, 0.0))


def as_patterns(patterns: Patterns | ArrayLike, sizes: ArrayLike | None = None) -> Patterns:
    """`patterns` as Patterns: an object as it is, or a (P, T) matrix of requests/s.

    `sizes`, bytes (P,), replace those of a Patterns object when given.
    """
    if isinstance(patterns, Patterns):
        if sizes is None:
            return patterns
        return replace(patterns, sizes=np.array(sizes, dtype=np.float64))
    loads = np.asarray(patterns, dtype=np.float64)
    given = np.zeros(len(loads)) if sizes is None else np.array(sizes, dtype=np.float64)
    return Patterns(loads=loads, sizes=given)


def content_order(patterns: Patterns, *more: NDArray) -> NDArray[np.int64]:
    """int64 (P,), the partitions in an order that depends only on what they are, not on how they are numbered.

    By loads, then bytes, then position, then the columns of `more` (one row a partition); partitions equal in
    all of them keep their order and are interchangeable. Scaling all loads by a power of two changes nothing.
    O(P T + P log P).
    """
    columns = [patterns.loads, patterns.sizes[:, None]]
    if patterns.positions is not None:
        columns.append(patterns.positions)
    if not len(patterns):
        return np.empty(0, dtype=np.int64)
    columns += [np.asarray(column, dtype=np.float64).reshape(len(patterns), -1) for column in more]
    # As big-endian bytes, non-negative floats sort like the numbers they are.
    keys = np.ascontiguousarray(np.concatenate(columns, axis=1) + 0.0, dtype=">f8")
    return np.argsort(keys.view(f"V{keys.shape[1] * 8}").ravel(), kind="stable")


def hour_slices(slots: int, slot_seconds: int) -> list[slice]:
    """Slots that each clock hour of the period touches, in order; O(hours).

    Examples
    --------
    >>> hour_slices(48, 1800)[:2]
    [slice(0, 2, None), slice(2, 4, None)]
    """
    hours = slots * slot_seconds // 3600
    return [slice(hour * 3600 // slot_seconds, -(-(hour + 1) * 3600 // slot_seconds)) for hour in range(hours)]


def _floats(values: ArrayLike, name: str, dimensions: int) -> NDArray[np.float64]:
    array = np.array(values, dtype=np.float64, order="C")
    if array.ndim != dimensions:
        raise ValueError(f"{name} has {array.ndim} dimensions; it must have {dimensions}")
    return array


def _within(array: NDArray[np.float64], name: str, unit: str, most: float) -> None:
    bad = ~(np.isfinite(array) & (array >= 0) & (array <= most))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        index = ", ".join(map(str, place))
        raise ValueError(
            f"{name}[{index}] = {array[place]} {unit}; every value must be finite and 0 or more, {most:g} at the most"
        )
