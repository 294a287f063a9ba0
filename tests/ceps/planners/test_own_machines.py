"""Servers that cost nothing: the fewest of them, dollars only for what fits none, and an end in time."""

from __future__ import annotations

from importlib import import_module
from time import monotonic

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import Patterns, ServerType
from ceps.bounds.lower_bounds import fleet_bound, hourly_bound, least_servers
from ceps.model.packing import Effort
from ceps.model.problem import build_problem, price
from ceps.plan.planning import METHODS
from ceps.planners.fleet_first import fleet_ladder
from ceps.planners.fleets import cheapest_fleet, fleets_between
from tests.ceps.instances import assert_holds, small_patterns, waves
from tests.ceps.oracles import optimum
from tests.examples import examples


def own(rate, room=np.inf, price=0.0, name="own"):
    return ServerType(name, float(rate), float(room), price)


def rates_of(kinds):
    return [k.requests_per_second for k in kinds], [k.bytes for k in kinds]


@settings(max_examples=15, deadline=None)
@given(small_patterns(most=6), st.lists(st.tuples(st.integers(8, 24), st.integers(8, 24)), min_size=1, max_size=4))
def test_the_fewest_servers_where_none_costs_anything(patterns, sizes):
    """As many as the best of all placements needs, nothing to pay, and a bound that no placement undercuts."""
    kinds = tuple(own(100 * rate, 100 * room, name=f"own{i}") for i, (rate, room) in enumerate(sizes))
    if not build_or_none(patterns, kinds):
        return
    plan = ceps.plan(patterns, None, kinds, utilisation=1.0)
    assert_holds(plan, patterns)
    fewest = round(optimum(patterns.loads, patterns.sizes, *rates_of(kinds), [1.0] * len(kinds)) / 24)
    assert len(plan) == fewest
    assert plan.extras["least_servers"] <= fewest
    assert (plan.cost_per_day, plan.lower_bound, plan.gap) == (0.0, 0.0, 1.0)


@settings(max_examples=examples(40), deadline=None)
@given(small_patterns(most=6), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_only_what_fits_no_free_server_is_paid_for(patterns, rate, room, two):
    """Dollars equal those of the best of all placements, in a plan and in its bound; the bound by the hour is below."""
    kinds = (own(100 * rate, 100 * room), own(800, 1600, 1.0, "rented"))
    kinds += (own(1600, 800, 1.5, "larger"),) if two else ()
    prices = [k.dollars_per_hour for k in kinds]
    plan = ceps.plan(patterns, None, kinds, utilisation=1.0)
    assert_holds(plan, patterns)
    best = optimum(patterns.loads, patterns.sizes, *rates_of(kinds), prices)
    assert plan.cost_per_day == pytest.approx(best)
    assert plan.lower_bound <= best + 1e-9
    assert ("least_servers" in plan.extras) == (best == 0)
    problem = build_problem(patterns, kinds, 1.0)
    assert hourly_bound(problem) <= ceps.schedule(patterns, None, kinds, utilisation=1.0).cost_per_day + 1e-9
    assert hourly_bound(problem) <= fleet_bound(problem) + 1e-9


def build_or_none(patterns, kinds):
    try:
        return build_problem(patterns, kinds, 1.0)
    except ceps.InfeasibleError:
        return None


def test_rented_servers_are_filled_up_before_free_ones_are_used():
    """One partition needs a rented server; the rest goes there as far as it fits, then on the fewest free ones."""
    loads = np.array([[900.0], [50.0], [50.0], [300.0], [300.0], [300.0]]) * np.ones((1, 24))
    plan = ceps.plan(Patterns(loads), None, (own(600), own(1000, price=1.0, name="rented")), utilisation=1.0)
    assert sorted(kind.name for kind in plan.types) == ["own", "own", "rented"]
    rented = next(k for k, kind in enumerate(plan.types) if kind.name == "rented")
    assert plan.members(rented).tolist() == [0, 1, 2]
    assert (plan.cost_per_day, plan.lower_bound) == (24.0, 24.0)


def test_copies_pins_and_a_spare_on_own_machines():
    """Copies stand apart, pins are kept, the spare is one more server, and the bound counts it."""
    patterns = waves(12, 3_000.0)
    kinds = (own(1000), own(2000, name="large"), own(9000, price=2.0, name="rented"))
    pins = np.full(12, -1)
    pins[3] = 40
    plan = ceps.plan(patterns, None, kinds, copies=2, pinned=pins, spare=True)
    assert_holds(plan, patterns)
    assert plan.server_ids[plan.replicas[3, 0]] == 40
    assert (len(plan), plan.spare, plan.extras["least_servers"]) == (3, 1, 3)
    with pytest.raises(ceps.InfeasibleError):
        ceps.plan(patterns, None, (own(10),))


def test_own_machines_are_given_back_within_a_budget():
    """Where requests have halved, a repair of a plan on own machines uses fewer of them, though it saves no dollar."""
    patterns, kinds = waves(40, 8_000.0), (own(1000),)
    before = ceps.plan(patterns, None, kinds)
    after = ceps.plan(patterns, None, kinds, growth=0.5, previous=before, move_budget=float(patterns.sizes.sum()))
    assert len(before) == 9
    assert len(after) == 5
    assert after.cost_per_day == 0.0


def test_a_proof_counts_own_machines():
    """Three partitions that cannot share a server: two do by their sum, three are proved."""
    patterns = Patterns(np.full((3, 24), 600.0))
    plain = ceps.plan(patterns, None, (own(1000),), utilisation=1.0)
    proven = ceps.plan(patterns, None, (own(1000),), utilisation=1.0, prove=60.0)
    assert (len(plain), plain.extras["least_servers"], proven.extras["least_servers"]) == (3, 2, 3)


def test_a_plan_of_many_free_types_ends():
    """Twelve free types that trade bytes for requests, and a limit of half a second: it went on for minutes."""
    rng = np.random.default_rng(0)
    kinds = tuple(
        own(rate, room, name=f"own{i}")
        for i, (rate, room) in enumerate(zip(rng.uniform(500, 4000, 12), rng.uniform(1e9, 9e9, 12), strict=True))
    )
    patterns = waves(300, 87_000.0)
    plan = ceps.plan(patterns, None, kinds, time_limit=0.5, prove=60.0)
    assert_holds(plan, patterns)
    assert plan.extras["least_servers"] <= len(plan) <= 1.15 * plan.extras["least_servers"]


@pytest.mark.parametrize("method", ["gp", "gp-r", "tv"])
def test_methods_to_compare_with_keep_the_time_limit_too(method, monkeypatch):
    """Once time is over and one plan fits, no other is priced: the first that fits, of many."""
    patterns, kinds = waves(60, 20_000.0), (own(1000, price=1.0, name="a"), own(4000, price=5.0, name="b"))
    problem, rng = build_problem(patterns, kinds), np.random.default_rng(0)
    name, planner, options = METHODS[method]
    module = import_module(f"ceps.planners.{name}")
    priced = []

    def counting(*arguments, **more):
        priced.append(price(*arguments, **more))
        return priced[-1]

    monkeypatch.setattr(module, "price", counting)
    found = getattr(module, planner)(problem, rng, Effort(deadline=monotonic() - 1), **options)
    assert np.isfinite(found.cost_per_day)
    assert [np.isfinite(outcome.cost_per_day) for outcome in priced] == [False] * (len(priced) - 1) + [True]
    late = len(priced)
    getattr(module, planner)(problem, rng, Effort(), **options)
    assert len(priced) > 2 * late or method == "tv"


def test_no_search_for_fleets_looks_past_its_deadline():
    """A deadline that is over ends each of them where it has an answer: a fleet that covers, a bound that holds."""
    rng = np.random.default_rng(1)
    kinds = tuple(
        own(rate, room, rate * 1e-3 + room * 2e-10 + 0.01 * i, f"s{i}")
        for i, (rate, room) in enumerate(zip(rng.uniform(500, 900, 5), rng.uniform(1e9, 9e9, 5), strict=True))
    )
    problem = build_problem(waves(200, 30_000.0), kinds)
    over = monotonic() - 1
    counts = cheapest_fleet(problem, deadline=over)
    assert counts @ problem.rates >= problem.need[0]
    assert counts @ problem.room >= problem.need[1]
    exact = 24 * float(problem.prices @ cheapest_fleet(problem))
    assert 0.9 * exact <= fleet_bound(problem, over) <= exact
    assert fleets_between(problem, 0.0, exact, deadline=over) == []
    assert fleet_ladder(problem, exact, Effort(deadline=over)) == []
    assert 0 < hourly_bound(problem, over) <= exact
    assert least_servers(problem, over) is None
