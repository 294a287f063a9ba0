"""Ways to pay for a server: by the list, reserved for one or three years, or spot; and what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ceps.model.problem import Floats
from ceps.model.servers import ServerType
from ceps.offers.schedules import Terms

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
