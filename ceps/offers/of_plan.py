"""What a plan is as an offer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ceps.plan.offer import Offer, likely_costs
from ceps.plan.overload import overload_risk
from ceps.plan.plans import Plan


def offer_of_plan(made: Plan, name: str, **more: Any) -> Offer:
    """Return the offer that a plan is, of its own figures.

    ``made``: the plan; its risk is found where it does not hold it; ``more``: what the plan does not know: `meets`,
    `recommended`, `note` of `Offer`.
    """
    risk = made.risk or overload_risk(made)
    peak = float(made.loads.sum(axis=0).max(initial=0.0)) / made.growth
    events = peak * made.slot_seconds * made.days / made.requests_per_event
    common = 0.0 if made.variation is None else made.variation.common
    low, high = likely_costs(made.cost_per_day, events, made.days, common)
    return Offer(
        name=name,
        cost_per_day=made.cost_per_day,
        low_cost_per_day=low,
        high_cost_per_day=high,
        lower_bound=made.lower_bound,
        servers=len(made),
        overload=made.overload,
        risk=risk.worst,
        worst_day=risk.worst_name,
        bytes_moved_per_day=made.extras.get("bytes_loaded", 0.0),
        servers_a_request=made.servers_a_request,
        utilisation=made.utilisation,
        pools=pools_of(made),
        **more,
    )


def pools_of(made: Plan) -> tuple[tuple[str, str, int, float], ...]:
    """Servers that are alike, by what one costs: type, how they are paid, how many, and dollars a day of one."""
    words = made.rented or ("list",) * len(made)
    names = [kind.name for kind in made.types]
    counts = Counter(zip(names, words, made.dollars_by_server.tolist(), strict=True))
    return tuple((name, word, count, cost) for (name, word, cost), count in counts.items())
