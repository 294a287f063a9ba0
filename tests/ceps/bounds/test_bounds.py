"""Fleet bound, hourly bound, configuration bound and exact optimum against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.ceps.exact import exact_plan
from ceps import InfeasibleError, Patterns, ServerType
from ceps.bounds.lower_bounds import configuration_bound, fleet_bound, hourly_bound, next_fleet_cost
from ceps.model.problem import build_problem
from ceps.planners.fleets import cheapest_fleet, fleet_cost, fleets_between
from tests.ceps import oracles
from tests.ceps.instances import M3, servers, small_patterns, small_servers, waves
from tests.examples import examples


def numbers(problem):
    return problem.rates, problem.room, problem.prices


def test_fleet_bound_of_the_m3_types_for_every_load_up_to_129_mediums():
    """The branch and bound equals an integer program for 129 loads."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    for units in range(1, 130):
        problem = build_problem(
            Patterns(loads=[[units * 1000.0 - 1]] * 1), (*M3, ServerType("x", 2e5, np.inf, 99)), 1.0
        )
        problem = replace(problem, servers=M3)
        found = milp(
            problem.prices,
            constraints=LinearConstraint(problem.rates[None, :] / 1000, problem.need[0] / 1000, np.inf),
            integrality=np.ones(4),
            bounds=Bounds(0, 400),
            options={"mip_rel_gap": 0.0},
        )
        assert fleet_cost(problem, cheapest_fleet(problem)) == pytest.approx(found.fun, rel=1e-9)


@settings(deadline=None)
@given(small_patterns(), small_servers(), st.integers(1, 3))
def test_fleet_bound_equals_trying_all_fleets(made, types, copies):
    """Rate, bytes and number of copies together, against every fleet of up to a few servers a type."""
    problem = build_problem(made, types, 1.0, copies=copies)
    rate, size, count = problem.need
    most = int(max(np.ceil(rate / problem.rates.min()), np.ceil(size / problem.room.min()), count))
    if (most + 1) ** len(types) > 30_000:
        return
    expected = oracles.cheapest_fleet(rate, size, count, *numbers(problem), most)
    assert fleet_cost(problem, cheapest_fleet(problem)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("requests", "each", "dollars"), [([400.0, 800.0], 4, 5.2), ([300.0], 3, 1.0)])
def test_what_a_better_type_would_replace_is_rented_where_there_are_too_few_of_it(requests, each, dollars):
    """small1 costs as much as small0 and does more; all of it and some of small0 are cheapest, or all that there is."""
    types = (
        ServerType("big", 800.0, 800.0, 1.0),
        ServerType("small0", 200.0, 200.0, 0.2),
        ServerType("small1", 300.0, 200.0, 0.2),
    )
    problem = build_problem(Patterns(loads=[[load] for load in requests]), types, 1.0)
    rate = 4.0 * sum(requests)
    found = cheapest_fleet(problem, rate, 0.0, each=each)
    assert fleet_cost(problem, found) == pytest.approx(dollars)
    assert dollars == pytest.approx(oracles.cheapest_fleet(rate, 0.0, 1, *numbers(problem), each))


@settings(deadline=None)
@given(small_patterns(), small_servers(), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1.0, 1.7, 4.0]))
def test_fleets_of_few_of_each_type_equal_trying_all(made, types, copies, each, factor):
    """And None where so few are too little."""
    problem = build_problem(made, types, 1.0, copies=copies)
    rate, size, count = problem.need
    found = cheapest_fleet(problem, rate * factor, size * factor, each=each)
    expected = oracles.cheapest_fleet(rate * factor, size * factor, count, *numbers(problem), each)
    assert (found is None) == (expected == np.inf)
    if found is not None:
        assert found.max() <= each
        assert fleet_cost(problem, found) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(small_patterns(most=6), small_servers())
def test_bounds_and_optimum(made, types):
    """Fleet bound and configuration bound never exceed the brute-force optimum; the exact plan equals it."""
    problem = build_problem(made, types, 1.0)
    best = oracles.optimum(problem.loads, problem.bytes, *numbers(problem))
    assert fleet_bound(problem) <= best * (1 + 1e-9)
    exact = exact_plan(problem)
    assert exact.proven
    assert exact.outcome.cost_per_day == pytest.approx(best, rel=1e-9)
    columns = problem.cluster_columns(exact.outcome.labels)
    assert problem.types_that_hold(columns)[np.arange(len(columns)), exact.outcome.type_of].all()


@settings(max_examples=15, deadline=None)
@given(small_patterns(most=5), small_servers())
def test_configuration_bound_is_between(made, types):
    """It is at least the fleet bound and at most the optimum."""
    problem = build_problem(made, types, 1.0)
    best = oracles.optimum(problem.loads, problem.bytes, *numbers(problem))
    found = configuration_bound(problem)
    assert found.finished
    assert fleet_bound(problem) * (1 - 1e-9) <= found.bound <= best * (1 + 1e-9)


def test_configuration_bound_proves_what_the_fleet_bound_cannot():
    """Three halves and a bit do not pair up: the fleet bound says 2 servers, the configuration bound 3."""
    problem = build_problem(Patterns(loads=[[600.0] * 2] * 3), M3[:1], 1.0)
    unit = 24 * M3[0].dollars_per_hour
    assert fleet_bound(problem) == pytest.approx(2 * unit)
    found = configuration_bound(problem)
    assert found.bound == pytest.approx(3 * unit)
    assert exact_plan(problem).outcome.cost_per_day == pytest.approx(3 * unit)


@settings(max_examples=examples(100), deadline=None)
@given(small_patterns(most=6), small_servers(), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_another_type_never_raises_bound_nor_optimum(made, types, rate, size, price):
    """More choice is never dearer."""
    more = (*types, ServerType("more", rate * 100.0, size * 100.0, price / 10))
    before, after = build_problem(made, types, 1.0), build_problem(made, more, 1.0)
    assert fleet_bound(after) <= fleet_bound(before) * (1 + 1e-9)
    old = oracles.optimum(before.loads, before.bytes, *numbers(before))
    assert oracles.optimum(after.loads, after.bytes, *numbers(after)) <= old * (1 + 1e-9)
    assert exact_plan(after).outcome.cost_per_day <= exact_plan(before).outcome.cost_per_day * (1 + 1e-9)


def test_tiny_coefficients_do_not_fool_the_exact_plan():
    """Loads of very different size: the solver alone returned wrong optima on such (P = 8), brute force does not."""
    rng = np.random.default_rng(3)
    for _ in range(38):
        loads = rng.uniform(0, 1, (8, 12)) * 10.0 ** rng.uniform(-6, 3.0, (8, 1))
        problem = build_problem(Patterns(loads=loads), servers(), 1.0)
        best = oracles.optimum(problem.loads, problem.bytes, *numbers(problem))
        exact = exact_plan(problem)
        assert exact.outcome.cost_per_day == pytest.approx(best, rel=1e-9)
        assert exact.lower_bound <= best * (1 + 1e-9)


def test_the_exact_plan_looks_at_each_slot_that_its_servers_cannot_bear():
    """Three of 600 requests in a slot that is not looked at first, and one that fills a server in another slot."""
    loads = np.zeros((4, 24))
    loads[:, 0] = 300.0, 300.0, 300.0, 950.0
    loads[:3, 1] = 600.0
    exact = exact_plan(build_problem(Patterns(loads=loads), M3[:1], 1.0))
    assert exact.proven
    assert exact.lower_bound == pytest.approx(4 * 24 * M3[0].dollars_per_hour)


def test_hourly_bound_is_the_mean_of_the_hours():
    """Half a day at one medium, half at two: the mean of both fleets; and never above the static bound."""
    problem = build_problem(Patterns(loads=[[900.0] * 12 + [1900.0] * 12]), M3, 1.0)
    assert hourly_bound(problem) == pytest.approx(24 * (0.067 + 0.133) / 2)
    assert hourly_bound(problem) <= fleet_bound(problem)


def test_fleets_come_cheapest_first_and_cover():
    """Enumerated fleets are sorted by cost and all of them cover the need."""
    problem = build_problem(waves(30, 6300.0), M3, 1.0)
    least = fleet_cost(problem, cheapest_fleet(problem))
    found = fleets_between(problem, least, least * 1.2)
    prices = [fleet_cost(problem, counts) for counts in found]
    assert prices == sorted(prices)
    assert prices[0] == pytest.approx(least)
    assert len({tuple(counts) for counts in found}) == len(found)
    assert all(problem.rates @ counts >= problem.need[0] * (1 - 1e-9) for counts in found)
    assert next_fleet_cost(problem, 24 * (least + 1e-4)) == pytest.approx(
        24 * min(p for p in prices if p > least + 1e-4)
    )


def test_nothing_costs_nothing():
    """No partitions need no fleet."""
    problem = build_problem(Patterns(loads=np.empty((0, 24))), M3, 1.0)
    assert fleet_bound(problem) == hourly_bound(problem) == 0
    assert fleets_between(problem, 0, 1) == []


def test_partitions_that_fit_no_type_are_named():
    """The error lists their numbers, and says what they need and what there is."""
    loads = np.full((4, 24), 10.0)
    loads[[1, 3]] = 9000.0
    made = Patterns(loads=loads, partitions=[11, 22, 33, 44])
    with pytest.raises(InfeasibleError, match="2 partition") as error:
        build_problem(made, M3, 1.0)
    assert error.value.partitions == (22, 44)
    assert "9000" in str(error.value)
    assert "8000" in str(error.value)


def test_partitions_with_too_many_bytes_are_named():
    """Storage is a limit like any other."""
    with pytest.raises(InfeasibleError) as error:
        build_problem(Patterns(loads=np.ones((2, 24)), sizes=[1e9, 9e9]), servers(1e9), 1.0)
    assert error.value.partitions == (1,)
