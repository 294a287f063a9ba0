"""Offers: placements of the same partitions in each way to pay, each with its price, its bound and its risk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NAMES = {
    "fixed": "a fixed fleet",
    "hourly": "servers resized hourly",
    "mixed": "a reserved base, the rest resized hourly",
    "safer": "a fixed fleet with more room",
    "now": "what runs now",
    "autoscaling": "a grid that scales by itself",
    "grid": "a plain grid",
}
"""What pages call the placements, by key."""

LEAST_RISK = 1e-3
"""Share of the requests above capacity on the worst day that is good enough where nobody asks for less."""

NO_RISK = 1e-6
"""Share of the requests above capacity on the worst day from which on something safer is looked for."""

_SAME = 1e-12  # relative difference of costs below which they are the same: how they were summed


@dataclass(frozen=True)
class Offer:
    """One placement in one way to pay, priced on the plan's patterns. What is not known is None, never a guess.

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
        Whether this is the cheapest that meets the risk, is allowed and can be planned.
    note
        What comes with it, for people.
    pay
        How servers are paid: key of `ceps.offers.payment.LABELS`.
    allowed
        Whether the way to pay is one that was allowed: spot prices, and long terms, can be ruled out.
    upfront
        Dollars that are due at the start, for terms of which a share is paid then; they are part of the cost.
    utilisation
        How full its servers are planned to be at their peak; 0 where it is no plan.
    pools
        Servers that are alike: type, how they are paid, how many, and dollars a day of one. Empty where it is no plan.
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
    pay: str = "list"
    allowed: bool = True
    upfront: float = 0.0
    utilisation: float = 0.0
    pools: tuple[tuple[str, str, int, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pools", tuple((kind, way, count, cost) for kind, way, count, cost in self.pools))

    @property
    def eligible(self) -> bool:
        """Whether it may be recommended: it can be planned, its way to pay is allowed, and it is safe enough."""
        return self.plannable and self.allowed and self.meets

    @property
    def label(self) -> str:
        """Name for people; where all servers of "mixed" are reserved, nothing of it is resized."""
        if self.name == "mixed" and self.pools and "list" not in {way for _, way, _, _ in self.pools}:
            return "reserved servers"
        return NAMES.get(self.name, self.name)


def cheapest(offers: Sequence[Offer]) -> int:
    """Place of the cheapest offer that is eligible, the first of those that cost the same; -1 where none is.

    So no offer that is allowed and can be planned costs less at no more risk: it would be eligible as well.
    """
    costs = [offer.cost_per_day if offer.eligible else math.inf for offer in offers]
    least = min(costs, default=math.inf)
    return next((place for place, cost in enumerate(costs) if cost <= least * (1 + _SAME) < math.inf), -1)


def wanted_risk(risk: float) -> float | None:
    """Risk that something safer than a plan of this one has; None where nobody needs it safer."""
    if risk < NO_RISK:
        return None
    return LEAST_RISK if risk > LEAST_RISK else risk / 10


def safer_than(offers: Sequence[Offer], taken: Offer) -> Offer | None:
    """Cheapest of the offers that are as safe as `wanted_risk` says; else the safest with half of the risk at most."""
    wanted = None if taken.risk is None else wanted_risk(taken.risk)
    able = [one for one in offers if one.plannable and one.allowed and one.risk is not None]
    if wanted is None or taken.risk is None:
        return None
    within = [one for one in able if one.risk is not None and one.risk <= wanted]
    if within:
        return min(within, key=lambda one: (one.cost_per_day, one.risk))
    safest = min(able, key=lambda one: (one.risk, one.cost_per_day), default=None)
    return safest if safest is not None and safest.risk is not None and safest.risk <= taken.risk / 2 else None


def likely_costs(cost: float, events: float, days: float, common: float) -> tuple[float, float]:
    """Dollars a day between which a cost would lie had other days been observed: two standard errors of the peak.

    ``cost``: dollars a day on the patterns; ``events``: events that were observed in the slot of the peak, all days
    together; ``days``: days observed; ``common``: squared relative deviation of a day's total (`Variation.common`); 0
    where it is not known.

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
