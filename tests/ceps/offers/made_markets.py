"""Made catalogues and loads, and what must hold of the table of offers that each gives."""

from __future__ import annotations

import numpy as np

import ceps
from ceps import Patterns, ServerType, Terms

YEARS = {"list": 0, "reserved": 1, "reserved-3y": 3, "spot": 0}
CHAIN = tuple(YEARS)


def catalogue(rng: np.random.Generator) -> tuple[ServerType, ...]:
    """One to four types, whose other prices are there or not, in proportion to the list's or not, lower or not."""
    rate, price, found = rng.uniform(50, 400), rng.uniform(0.02, 0.2), []
    alike = rng.random() < 0.3
    factor = rng.uniform(0.3, 1.05, 3)
    for number in range(rng.integers(1, 4)):
        size = 2.0**number * (1.0 if rng.random() < 0.6 else rng.uniform(0.7, 1.4))
        listed = price * size * (1.0 if rng.random() < 0.6 else rng.uniform(0.8, 1.25))
        other = [
            float(listed * (part if alike else part * rng.uniform(0.8, 1.2))) if alike or rng.random() < 0.7 else None
            for part in factor
        ]
        found.append(ServerType(
            f"s{number}", rate * size, np.inf if rng.random() < 0.5 else 1e9 * size, listed,
            reserved_dollars_per_hour=other[0], reserved_3_years_dollars_per_hour=other[1],
            spot_dollars_per_hour=other[2],
            reserved_upfront_share=None if other[0] is None else float(rng.choice([0.0, 0.5, 1.0])),
        ))  # fmt: skip
    return tuple(found)


def loads(rng: np.random.Generator, types: tuple[ServerType, ...]) -> Patterns:
    """Partitions that are busy at different hours, or at one; noisy or not; each fits the largest type."""
    count, slots = int(rng.integers(2, 12)), int(rng.choice([4, 4, 24]))
    most = max(kind.requests_per_second for kind in types)
    hour = np.arange(slots) * 24 / slots
    busy = rng.uniform(0, 24, count) if rng.random() < 0.7 else np.full(count, 14.0)
    wave = 1.02 + np.cos((hour - busy[:, None]) * np.pi / 12)
    made = wave * rng.uniform(0.02, 0.4, count)[:, None] * most * rng.choice([0.2, 1.0]) / 2.02
    return Patterns(
        loads=made, sizes=rng.uniform(0, 3e7, count), days=float(rng.choice([3.0, 30.0])),
        positions=rng.uniform(-50, 50, (count, 2)) if rng.random() < 0.8 else None,
        requests_per_event=float(rng.choice([1.0, 3e3, 1e5])),
    )  # fmt: skip


def market(seed: int) -> tuple[Patterns, tuple[ServerType, ...], dict]:
    """Patterns, catalogue and options of `ceps.rent`."""
    rng = np.random.default_rng([46, seed])
    types = catalogue(rng)
    terms = Terms(spot=bool(rng.random() < 0.4), years=int(rng.choice([0, 1, 3, 3])))
    asked = {"terms": terms, "utilisation": float(rng.choice([0.7, 0.9, 1.0])), "at_least": int(rng.choice([0, 0, 2]))}
    return loads(rng, types), types, asked


def price(kind: ServerType, way: str, years: int) -> float:
    """Dollars an hour of a type that is paid for all hours: the way's own price, or one before it that is lower."""
    own = dict(zip(CHAIN, (
        kind.dollars_per_hour, kind.reserved_dollars_per_hour, kind.reserved_3_years_dollars_per_hour,
        kind.spot_dollars_per_hour,
    ), strict=True))  # fmt: skip
    before = CHAIN[: CHAIN.index(way) + 1]
    return min(own[one] for one in before if own[one] is not None and (one == way or YEARS[one] <= years))


def check_table(plan: ceps.Plan, terms: Terms) -> None:
    """Hold the table of a plan's offers to what it promises, from its rows and the catalogue alone."""
    (taken,) = (row for row in plan.offers if row.recommended)
    assert taken is plan.offers[0]
    assert taken.cost_per_day == plan.cost_per_day
    assert np.isclose(plan.dollars_by_server.sum(), plan.cost_per_day, rtol=1e-9)
    rows = {(row.name, row.pay): row for row in plan.offers}
    assert len(rows) == len(plan.offers)
    known = {kind.name: kind for kind in plan.servers}
    for row in plan.offers:
        assert row.allowed == (YEARS[row.pay] <= terms.years and (row.pay != "spot" or terms.spot))
        assert row.lower_bound is None or row.lower_bound <= row.cost_per_day * (1 + 1e-9)
        if row.pools:
            assert sum(count for _, _, count, _ in row.pools) == row.servers
            assert np.isclose(sum(count * each for _, _, count, each in row.pools), row.cost_per_day, rtol=1e-9)
        if row.plannable and row.allowed and row.risk <= taken.risk:
            assert row.cost_per_day >= taken.cost_per_day * (1 - 1e-9), (row, taken)
        if row.name in ("fixed", "grid", "safer"):
            listed = rows[row.name, "list"]
            same = sum(count * 24 * price(known[kind], row.pay, terms.years) for kind, _, count, _ in listed.pools)
            assert np.isclose(row.cost_per_day, same, rtol=1e-9)
    placements, ways = {row.name for row in plan.offers}, {row.pay for row in plan.offers}
    assert len(rows) == len(placements) * len(ways)


def checked(seed: int) -> ceps.Plan:
    """Plan of a made market by the best offer, once its table holds."""
    patterns, types, asked = market(seed)
    plan = ceps.rent(patterns, None, types, **asked)
    check_table(plan, asked["terms"])
    return plan
