"""Ways to pay for a server, by the list, reserved or spot, and schedules: as which type it is rented in each hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ceps.model.argument_checks import number
from ceps.model.patterns import hour_slices
from ceps.model.problem import TOLERANCE, Floats, Ints, Problem
from ceps.model.servers import ServerType

HOUR = 3600
"""Seconds of an hour."""


@dataclass(frozen=True)
class Terms:
    """What renting otherwise than all day takes.

    Parameters
    ----------
    restart_seconds
        From renting a server until it loads its first byte.
    load_bytes_per_second
        How fast it loads the partitions that it is to serve. Until then the server that it replaces is rented on.
    spot
        Whether servers may be rented at spot prices, though the provider can take them away.
    years
        For how many years servers may be reserved at the most: 0, 1 or 3.

    Raises
    ------
    ValueError
        A number is out of range.
    """

    restart_seconds: float = 120.0
    load_bytes_per_second: float = 2e8
    spot: bool = False
    years: int = 3

    def __post_init__(self) -> None:
        number("restart_seconds", self.restart_seconds, "a number of seconds from 0 to 3,600", least=0, most=HOUR)
        if self.load_bytes_per_second != math.inf:
            number("load_bytes_per_second", self.load_bytes_per_second, "above 0", above=0)
        if self.years not in (0, 1, 3):
            raise ValueError(f"years = {self.years!r}; servers are reserved for 1 or 3 years, or for 0: not at all")

    def overlap_hours(self, size: Floats | float) -> Floats:
        """Hours for which both servers are paid when one that holds `size` bytes is replaced."""
        return (self.restart_seconds + np.asarray(size, dtype=np.float64) / self.load_bytes_per_second) / HOUR


AT_ONCE = Terms(restart_seconds=0.0, load_bytes_per_second=np.inf)
"""Changes that cost nothing: what bounds assume."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Types by hour for the clusters of an outcome."""

    labels: Ints  # int64 (M,), cluster of each item
    types: Ints  # int64 (N, hours), type of each cluster's server in each clock hour of the period
    # float64 (N,), dollars a day of each cluster, changes included; infinite where some hour fits no type
    costs_per_day: Floats

    @property
    def cost_per_day(self) -> float:
        """Dollars a day of all."""
        return float(self.costs_per_day.sum())

    @property
    def resizes(self) -> int:
        """Changes of type in one period, the step from its end to its beginning included."""
        return int((self.types != np.roll(self.types, 1, axis=1)).sum())


def schedule_of(problem: Problem, labels: Ints, terms: Terms = AT_ONCE) -> Schedule:
    """Cheapest schedule of given clusters, labels 0..N-1."""
    _, dense = np.unique(labels, return_inverse=True)
    types, costs = price_hours(problem, problem.cluster_columns(dense), terms)
    return Schedule(dense.astype(np.int64), types, costs)


def price_hours(problem: Problem, columns: Floats, terms: Terms = AT_ONCE) -> tuple[Ints, Floats]:
    """Types (N, hours) for loads (N, T + 1), and dollars a day (N,) with changes; infinite where nothing fits.

    A change costs the new server for `Terms.overlap_hours` more. The cheapest sequence that ends as it begins is found
    by dynamic programming from each first type. O(N T + N hours J^2).
    """
    peaks = hourly_peaks(columns, problem.slot_seconds)
    fits = (peaks[:, :, None] <= problem.rates * (1 + TOLERANCE)) & (
        columns[:, None, -1:] <= problem.room * (1 + TOLERANCE)
    )
    price = np.where(fits, problem.prices, np.inf)
    change = terms.overlap_hours(columns[:, -1])[:, None] * problem.prices
    if not change.any():
        types = np.where(fits.any(axis=2), price.argmin(axis=2), -1)
        costs = price.min(axis=2, initial=np.inf).sum(axis=1)
    else:
        types, costs = _cheapest_cycle(price, change)
    return types.astype(np.int64), 24 * costs / max(peaks.shape[1], 1)


def hourly_peaks(columns: Floats, slot_seconds: int) -> Floats:
    """float64 (N, hours), largest load in each clock hour of loads (N, T + 1)."""
    slots = columns.shape[1] - 1
    slices = hour_slices(slots, slot_seconds)
    if slot_seconds <= HOUR and HOUR % slot_seconds == 0 and slices:
        return columns[:, :-1].reshape(len(columns), len(slices), slots // len(slices)).max(axis=2)
    return np.array([columns[:, :-1][:, part].max(axis=1) for part in slices]).reshape(len(slices), -1).T


def _cheapest_cycle(price: Floats, change: Floats) -> tuple[Ints, Floats]:
    """Types (N, hours) and dollars (N,) of the cheapest sequences; `price` (N, hours, J), `change` (N, J)."""
    count, hours, kinds = price.shape
    best = np.full(count, np.inf)
    types = np.full((count, hours), -1)
    everyone = np.arange(count)
    for first in range(kinds):
        if not np.isfinite(price[:, 0, first]).any():
            continue
        cost = np.full((count, kinds), np.inf)
        cost[:, first] = price[:, 0, first]
        came: list[NDArray[np.int64]] = []
        for hour in range(1, hours):
            source = cost.argmin(axis=1)
            switched = cost[everyone, source][:, None] + change
            stays = cost <= switched
            came.append(np.where(stays, np.arange(kinds), source[:, None]))
            cost = np.where(stays, cost, switched) + price[:, hour]
        cost[:, :] += np.where(np.arange(kinds) == first, 0.0, change[:, first : first + 1])
        last = cost.argmin(axis=1)
        total = cost[everyone, last]
        better = total < best * (1 - TOLERANCE)
        if not better.any():
            continue
        best[better] = total[better]
        now = last[better]
        types[better, hours - 1] = now
        for hour in range(hours - 1, 0, -1):
            now = came[hour - 1][better, now]
            types[better, hour - 1] = now
    return types, best


LABELS = {
    "list": "list price",
    "reserved": "reserved for a year",
    "reserved-3y": "reserved for 3 years",
    "spot": "spot price",
}
"""What pages call the ways to pay, by key; each way takes those before it where they are cheaper for a type."""

_YEARS = {"list": 0, "reserved": 1, "reserved-3y": 3, "spot": 0}
HOURS_A_YEAR = 8760
"""Hours of the year for which a server is reserved."""


def own_price(server: ServerType, way: str) -> float | None:
    """Dollars an hour of a type in one way to pay, None where the catalogue has no such price."""
    return {
        "list": server.dollars_per_hour,
        "reserved": server.reserved_dollars_per_hour,
        "reserved-3y": server.reserved_3_years_dollars_per_hour,
        "spot": server.spot_dollars_per_hour,
    }[way]


def priced(server: ServerType, way: str, years: int = 3) -> tuple[float, str]:
    """Dollars an hour of a server that is paid for all hours, and in which way: the cheapest of `way` and before.

    Of those before it, only terms of so many `years` at the most count.
    """
    best, word = server.dollars_per_hour, "list"
    for name in list(LABELS)[1 : list(LABELS).index(way) + 1]:
        price = own_price(server, name)
        if price is not None and price < best and (name == way or _YEARS[name] <= years):
            best, word = price, name
    return best, word


def priced_by_hour(server: ServerType, way: str) -> tuple[float, str]:
    """Dollars an hour of a server that may be given back at any hour, and in which way: no term is reserved for it."""
    spot = server.spot_dollars_per_hour
    if way == "spot" and spot is not None and spot < server.dollars_per_hour:
        return spot, "spot"
    return server.dollars_per_hour, "list"


def ways_of(servers: Sequence[ServerType]) -> tuple[str, ...]:
    """Ways to pay of which a catalogue has some price, in the order of `LABELS`."""
    return tuple(way for way in LABELS if any(own_price(server, way) is not None for server in servers))


def is_allowed(way: str, terms: Terms) -> bool:
    """Whether the terms allow a way to pay: spot prices are asked for, and no longer term than is accepted."""
    return _YEARS[way] <= terms.years and (way != "spot" or terms.spot)


def cheapest_way(servers: Sequence[ServerType], terms: Terms) -> str:
    """Way to pay that no other undercuts for any type: the last that is allowed."""
    return [way for way in ways_of(servers) if is_allowed(way, terms)][-1]


def base_prices(servers: Sequence[ServerType], way: str, years: int = 3) -> Floats:
    """float64 (J,), dollars an hour of each type where a server is paid for all hours."""
    return np.array([priced(server, way, years)[0] for server in servers], dtype=np.float64)


def at_hourly_prices(servers: Sequence[ServerType], way: str) -> tuple[ServerType, ...]:
    """Types whose list price is what an hour costs in a way to pay."""
    return tuple(replace(server, dollars_per_hour=priced_by_hour(server, way)[0]) for server in servers)


def at_base_prices(servers: Sequence[ServerType], way: str, years: int = 3) -> tuple[ServerType, ...]:
    """Types whose list price is what an hour costs where a server is paid for all hours."""
    return tuple(replace(server, dollars_per_hour=priced(server, way, years)[0]) for server in servers)


def way_of(rented: Sequence[str]) -> str:
    """Way to pay of servers that are paid so: the last of `LABELS` that one has.

    Examples
    --------
    >>> way_of(("list", "reserved", "list")), way_of(())
    ('reserved', 'list')
    """
    return max(rented, key=list(LABELS).index, default="list")


def upfront(server: ServerType, way: str) -> float:
    """Dollars that are due at the start of the term of one server, paid in this way."""
    share = {"reserved": server.reserved_upfront_share, "reserved-3y": server.reserved_3_years_upfront_share}.get(way)
    return (share or 0.0) * (own_price(server, way) or 0.0) * HOURS_A_YEAR * _YEARS[way]
