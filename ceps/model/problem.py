"""The planning problem as arrays: items to place, server types to rent, and what a placement costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ceps.model.argument_checks import number, server_numbers, whole
from ceps.model.number_text import how_many
from ceps.model.patterns import Patterns, content_order
from ceps.model.servers import ServerType, checked_servers

TOLERANCE = 1e-9
"""Relative overload that rounding may cause; everything above it counts as overload."""

MOST_COPIES = 1_000
"""Copies of a partition at the most."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class InfeasibleError(ValueError):
    """No placement can work; `partitions` holds the numbers of those that are the reason."""

    def __init__(self, message: str, partitions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.partitions = tuple(int(number) for number in partitions)


@dataclass(frozen=True, eq=False)
class Problem:
    """Items to place on servers; built by `build_problem`, in content order."""

    columns: Floats  # float64 (M, T + 1): requests/s of each item in each slot, and its bytes in the last column
    servers: tuple[ServerType, ...]  # The J server types
    utilisation: float  # Target utilisation u: a server of type j may be loaded to u times its requests/s
    slot_seconds: int  # Length of a slot
    # int64 (P, copies), the item that holds each copy of each partition, by the partition's row in the patterns
    item_of: Ints
    # group_start, group_of: int64 (M + 1,) and (n,): the exclusion groups of item i are
    # `group_of[group_start[i]:group_start[i + 1]]`. Two items that share a group never share a server (copies of one
    # partition; different pins)
    group_start: Ints
    group_of: Ints
    pins: Ints  # int64 (M,), the server number that an item is pinned to, or -1
    positions: Floats | None = None  # float64 (M, 2), lon and lat, or None
    copies: int = 1  # Copies of each partition
    growth: float = 1.0  # Factor that the patterns' loads were multiplied by
    at_least: int = 0  # Servers that any plan must have, whatever they are asked
    # What a load r varies by from day to day: variance is the first number times r, and the second times r^2
    noise: tuple[float, float] = (1.0, 0.0)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def loads(self) -> Floats:
        """float64 (M, T), requests/s (a view)."""
        return self.columns[:, :-1]

    @property
    def bytes(self) -> Floats:
        """float64 (M,), bytes (a view)."""
        return self.columns[:, -1]

    @cached_property
    def rates(self) -> Floats:
        """float64 (J,), u times each type's requests/s: what a plan may load it to."""
        return self.utilisation * np.array([server.requests_per_second for server in self.servers])

    @cached_property
    def room(self) -> Floats:
        """float64 (J,), bytes each type can hold."""
        return np.array([server.bytes for server in self.servers])

    @cached_property
    def prices(self) -> Floats:
        """float64 (J,), dollars an hour."""
        return np.array([server.dollars_per_hour for server in self.servers])

    @cached_property
    def total(self) -> Floats:
        """float64 (T + 1,), requests/s of all items by slot, and their bytes."""
        return self.columns.sum(axis=0)

    @cached_property
    def peaks(self) -> Floats:
        """float64 (M,), largest load of each item, requests/s."""
        return self.loads.max(axis=1, initial=0.0)

    @cached_property
    def need(self) -> tuple[float, float, int]:
        """What any fleet must have: requests/s at the peak, bytes, and number of servers."""
        if not len(self):
            return 0.0, 0.0, 0
        pinned = len(np.unique(self.pins[self.pins >= 0]))
        return float(self.total[:-1].max()), float(self.total[-1]), max(self.copies, pinned, self.at_least, 1)

    def types_that_hold(self, columns: Floats) -> NDArray[np.bool_]:
        """Whether each of N loads (N, T + 1) fits each type, bool (N, J), up to `TOLERANCE`."""
        peaks = columns[:, :-1].max(axis=1, initial=0.0)
        return (peaks[:, None] <= self.rates * (1 + TOLERANCE)) & (columns[:, -1:] <= self.room * (1 + TOLERANCE))

    def cheapest_types(self, columns: Floats) -> Ints:
        """int64 (N,), the cheapest type that holds each of N loads; -1 where none does. Ties: the first listed."""
        fits = self.types_that_hold(columns)
        priced = np.where(fits, self.prices, np.inf)
        return np.where(fits.any(axis=1), priced.argmin(axis=1), -1)

    def cluster_columns(self, labels: Ints) -> Floats:
        """float64 (N, T + 1), summed columns of each cluster of `labels` (M,), by label 0..N-1. O(M T)."""
        return sum_by_label(self.columns, labels)

    def conflicts(self, labels: Ints) -> bool:
        """Whether two items of one exclusion group share a server."""
        item = np.repeat(np.arange(len(self)), np.diff(self.group_start))
        pairs = np.column_stack([labels[item], self.group_of])
        return len(np.unique(pairs, axis=0)) < len(pairs)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a planner returns: a placement of the items, priced by the cost model."""

    labels: Ints  # int64 (M,), server of each item, 0..N-1
    type_of: Ints  # int64 (N,), type of each server; -1 where no type holds what was put there
    cost_per_day: float  # Dollars a day; infinite where some `type_of` is -1
    extras: Mapping[str, float] = field(default_factory=dict)  # Figures that only this planner has, by name
    # billed, running: of autoscaling: float64 (J,), hours of each type that are billed a day, and int64 (T, J), servers
    # of each type that run in each slot. None for plans
    billed: Floats | None = None
    running: Ints | None = None


def sum_by_label(rows: Floats, labels: Ints) -> Floats:
    """float64 (N, C), summed rows (M, C) of each label 0..N-1; zeros for a label without rows. O(M C)."""
    count = int(labels.max(initial=-1)) + 1
    sums = np.zeros((count, rows.shape[1]))
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(count))
    used = np.append(starts[1:], len(order)) > starts
    if used.any():
        sums[used] = np.add.reduceat(rows[order], starts[used], axis=0)
    return sums


Progress = Callable[[str, float, float], None]
"""Called with the method's name, the best cost so far (dollars a day) and the lower bound."""


def price(problem: Problem, labels: Ints, **extras: float) -> Outcome:
    """`labels` with empty servers dropped, the cheapest type for each server, and the cost. O(M T)."""
    _, dense = np.unique(labels, return_inverse=True)
    columns = problem.cluster_columns(dense)
    types = problem.cheapest_types(columns)
    cost = 24 * float(problem.prices[types].sum()) if (types >= 0).all() else np.inf
    return Outcome(dense.astype(np.int64), types, cost, extras)


def build_problem(
    patterns: Patterns,
    servers: Sequence[ServerType],
    utilisation: float = 0.9,
    *,
    growth: float = 1.0,
    copies: int = 1,
    pinned: ArrayLike | None = None,
    previous: Ints | None = None,
    at_least: int = 0,
) -> Problem:
    """Problem of placing `patterns` on `servers`; items are in content order, so numbering has no effect.

    Each of `copies` copies holds all bytes of its partition and answers an equal share of its requests.
    Partitions pinned to one server become one item (their first copies).

    ``growth``: factor on every load, above 0; bytes stay; ``copies``: copies of each partition, 1 or more, never two on
    one server; ``pinned``: int (P,), number of the server that must hold the first copy, or -1; ``previous``: int64
    (P,), servers that hold the partitions now; only breaks ties between equal partitions.
    """
    utilisation = number(
        "utilisation", utilisation, "above 0 and at most 1 (0.9 leaves 10 % headroom)", above=0, most=1
    )
    growth = number("growth", growth, "from 1e-9 to 1e9 (1.2 plans for 20 % more requests)", least=1e-9, most=1e9)
    copies = whole("copies", copies, 1, MOST_COPIES, ": each stands on another server")
    types = checked_servers(servers)
    count = len(patterns)
    pins = np.full(count, -1) if pinned is None else server_numbers(pinned, count)
    ties = [pins] if previous is None else [pins, previous]
    if patterns.reads is not None:
        ties.append(np.bincount(patterns.reads.row, patterns.reads.weight[patterns.reads.set_of], minlength=count))
    order = content_order(patterns, *ties)
    rows = np.concatenate([patterns.loads * (growth / copies), patterns.sizes[:, None]], axis=1)[order]
    pins = pins[order]
    problem = _with_items(patterns, types, utilisation, copies, order, rows, pins)
    most = f": {len(problem)} parts can be put on servers, use more partitions"
    at_least = whole("at_least", at_least, 0, len(problem), most)
    problem = replace(problem, growth=growth, at_least=at_least, noise=_noise(patterns, growth / copies))
    _refuse_what_fits_nothing(problem, patterns)
    return problem


def _noise(patterns: Patterns, factor: float) -> tuple[float, float]:
    """Variance of a load r: counting and what is each partition's own grow with r, what all share with its square."""
    counting = patterns.requests_per_event / patterns.slot_seconds
    if patterns.variation is None:
        return counting, 0.0
    peaks = patterns.loads.max(axis=1, initial=0.0) * factor
    own = float(patterns.variation.own @ peaks**2) / max(float(peaks.sum()), 1e-300)
    return counting + own, patterns.variation.common


def _with_items(
    patterns: Patterns,
    servers: tuple[ServerType, ...],
    utilisation: float,
    copies: int,
    order: Ints,
    rows: Floats,
    pins: Ints,
) -> Problem:
    count = len(rows)
    free = pins < 0
    labels, pin_item = np.unique(pins[~free], return_inverse=True)
    first = np.empty(count, dtype=np.int64)
    first[~free] = pin_item
    first[free] = len(labels) + np.arange(int(free.sum()))
    primary = len(labels) + int(free.sum())
    columns = np.zeros((primary + (copies - 1) * count, rows.shape[1]))
    np.add.at(columns, first[~free], rows[~free])
    columns[first[free]] = rows[free]
    item = np.empty((count, copies), dtype=np.int64)
    item[:, 0] = first
    for copy in range(1, copies):
        item[:, copy] = primary + (copy - 1) * count + np.arange(count)
        columns[item[:, copy]] = rows
    positions = None
    if patterns.positions is not None:
        positions = np.empty((len(columns), 2))
        positions[item.ravel()] = np.repeat(patterns.positions[order], copies, axis=0)
    item_pins = np.full(len(columns), -1)
    item_pins[: len(labels)] = labels
    start, group = _groups(item, len(columns), len(labels), copies)
    item_of = np.empty_like(item)
    item_of[order] = item
    return Problem(
        columns, servers, utilisation, patterns.slot_seconds, item_of, start, group, item_pins, positions, copies
    )


def _groups(item: Ints, items: int, pinned: int, copies: int) -> tuple[Ints, Ints]:
    # One group a partition when there are copies, and one more that all pinned items share.
    members = [np.empty((0, 2), dtype=np.int64)]
    if copies > 1:
        members.append(np.column_stack([item.ravel(), np.repeat(np.arange(len(item)), copies)]))
    if pinned > 1:
        members.append(np.column_stack([np.arange(pinned), np.full(pinned, len(item))]))
    pairs = np.unique(np.concatenate(members), axis=0)
    return np.searchsorted(pairs[:, 0], np.arange(items + 1)), np.ascontiguousarray(pairs[:, 1])


def _refuse_what_fits_nothing(problem: Problem, patterns: Patterns) -> None:
    holds = np.asarray(problem.types_that_hold(problem.columns).any(axis=1))
    if holds.all():
        return
    bad = np.flatnonzero(~holds[problem.item_of].all(axis=1))
    numbers = np.sort(patterns.partitions[bad])
    item = next(int(i) for i in problem.item_of[bad[np.argmin(patterns.partitions[bad])]] if not holds[i])
    shown = ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
    raise InfeasibleError(
        f"{how_many(len(numbers), 'partition')} {'fits' if len(numbers) == 1 else 'fit'} no server type: {shown}. "
        f"The first needs {problem.peaks[item]:.6g} "
        f"requests/s and {problem.bytes[item]:.6g} bytes; the largest types take {problem.rates.max():.6g} requests/s "
        f"at utilisation {problem.utilisation:g} and {problem.room.max():.6g} bytes. Split them (more partitions), "
        "add a larger type, or use more copies",
        numbers.tolist(),
    )
