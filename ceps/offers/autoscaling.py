"""A grid that scales by itself as an offer, paid in each way. It decides as it goes, so there is no plan of it."""

from __future__ import annotations

import numpy as np

from ceps.bounds.lower_bounds import hourly_bound
from ceps.model.packing import Effort
from ceps.model.problem import Outcome, build_problem
from ceps.offers.market import Market
from ceps.offers.payment import at_hourly_prices, base_prices, is_allowed
from ceps.offers.schedules import HOUR
from ceps.plan.offer import Offer, likely_costs
from ceps.plan.planning import run


def autoscaling_offers(market: Market, ways: tuple[str, ...], asked: float) -> list[Offer]:
    """Return GP-AAS as an offer in each way to pay; nothing where its servers cannot hold what is asked.

    What its starts and moves take is paid at the mean price of the servers that run. Servers that always run, or
    nearly so, are reserved where that is cheaper.
    """
    problem = build_problem(
        market.patterns, market.servers, market.utilisation, growth=market.growth, copies=market.copies
    )
    found = run("gp-aas", problem, np.random.default_rng(market.seed), Effort())
    if not np.isfinite(found.cost_per_day):
        return []
    copies, extras = problem.copies, found.extras
    moved, servers = extras["bytes_moved"] * copies, int(extras["most_servers"]) * copies
    waits = extras["servers_started"] * copies * market.terms.restart_seconds / HOUR
    waits += moved / market.terms.load_bytes_per_second / HOUR
    bound = hourly_bound(problem) if extras["overload"] <= 0 else None
    offers = []
    for way in ways:
        cost = copies * paid(found, market, way)
        total = cost + waits * cost / 24 / max(servers, 1)
        low, high = _likely(market, total)
        least = bound if way == "list" else None
        offers.append(Offer(
            name="autoscaling", pay=way, cost_per_day=total, low_cost_per_day=low, high_cost_per_day=high,
            lower_bound=None if least is not None and least > total else least, servers=servers,
            overload=float(extras["overload"]), bytes_moved_per_day=moved, meets=float(extras["overload"]) <= asked,
            plannable=False, allowed=is_allowed(way, market.terms),
            note="billed by the started hour; it sees an overload only when it is over",
        ))  # fmt: skip
    return offers


def paid(found: Outcome, market: Market, way: str) -> float:
    """Dollars a day of the servers of one copy: by the started hour, or reserved for as many as that is cheaper for."""
    assert found.billed is not None
    assert found.running is not None
    hourly = np.array([server.dollars_per_hour for server in at_hourly_prices(market.servers, way)])
    base = base_prices(market.servers, way, market.terms.years)
    cost = float(found.billed @ hourly)
    for kind in range(len(market.servers)):
        count = found.running[:, kind]
        for number in range(1, int(count.max(initial=0)) + 1):
            # The server that runs for the k-th longest time: reserved, it is paid for when it does not run as well.
            saved = 24 * ((count >= number).mean() * hourly[kind] - base[kind])
            if saved <= 0:
                break
            cost -= saved
    return cost


def _likely(market: Market, cost: float) -> tuple[float, float]:
    """Dollars a day between which a cost would lie had other days been observed: two standard errors of the peak."""
    given = market.patterns
    events = given.peak * given.slot_seconds * given.days / given.requests_per_event
    common = given.variation.common if given.variation is not None else 0.0
    return likely_costs(cost, events, given.days, common)
