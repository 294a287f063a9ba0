"""Offers: the ways to rent servers for the same partitions, each with its price, its bound and its risk."""

from __future__ import annotations

import math
from dataclasses import dataclass

NAMES = {
    "fixed": "a fixed fleet",
    "hourly": "servers resized hourly",
    "mixed": "a reserved base, the rest resized hourly",
    "autoscaling": "a grid that scales by itself",
    "grid": "a plain grid",
}
"""What pages call the offers, by key."""


@dataclass(frozen=True)
class Offer:
    """One way to rent, priced on the plan's patterns. What is not known is None, never a guess.

    Parameters
    ----------
    name
        Key of `NAMES`.
    cost_per_day
        Dollars.
    low_cost_per_day, high_cost_per_day
        Where the cost would lie had the days observed been others (two standard errors of the peak); equal to
        `cost_per_day` where the patterns are sure.
    lower_bound
        Dollars a day that no plan of this kind undercuts; None where no bound is known to hold.
    servers
        The most at one time.
    overload
        Share of the requests above full capacity when days are as their patterns.
    risk
        Expected share of them on the worst day; None where it cannot be said.
    worst_day
        Name of that weekday; empty where the patterns know no weekdays.
    bytes_moved_per_day
        Bytes loaded a day because servers change.
    servers_a_request
        Servers that a request touches, on average; None where patterns do not say what is read together.
    meets
        Whether the risk (or, where it cannot be said, the overload) is within what was asked for.
    plannable
        Whether `ceps.plan` makes a plan of it; autoscaling decides as it goes.
    recommended
        Whether this is the cheapest that meets the risk and can be planned.
    note
        What comes with it, for people.
    """

    name: str
    cost_per_day: float
    low_cost_per_day: float
    high_cost_per_day: float
    lower_bound: float | None
    servers: int
    overload: float = 0.0
    risk: float | None = None
    worst_day: str = ""
    bytes_moved_per_day: float = 0.0
    servers_a_request: float | None = None
    meets: bool = True
    plannable: bool = True
    recommended: bool = False
    note: str = ""

    @property
    def label(self) -> str:
        """Name for people."""
        return NAMES.get(self.name, self.name)


def likely_costs(cost: float, events: float, days: float, common: float) -> tuple[float, float]:
    """Dollars a day between which a cost would lie had other days been observed: two standard errors of the peak.

    Parameters
    ----------
    cost
        Dollars a day on the patterns.
    events
        Events that were observed in the slot of the peak, all days together.
    days
        Days observed.
    common
        Squared relative deviation of a day's total (`Variation.common`); 0 where it is not known.

    Examples
    --------
    >>> likely_costs(100.0, 64.0, 10.0, 0.0), likely_costs(100.0, 1e6, 10.0, 0.0)
    ((75.0, 125.0), (100.0, 100.0))
    """
    if events <= 0:
        return cost, cost
    error = 2 * math.sqrt(common / days + 1 / events)
    if error < _SURE:
        return cost, cost
    return cost * max(0.0, 1 - error), cost * (1 + error)


_SURE = 0.005  # relative error of a cost below which it is stated as one number
