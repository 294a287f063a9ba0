"""Hourly types, overload risk, comparison of methods, and cost against utilisation."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

import ceps
from ceps import Patterns
from ceps.model.packing import Effort
from ceps.model.problem import build_problem
from ceps.offers.comparison import PAPERS, autoscaling_note
from ceps.offers.hourly import best_schedule
from ceps.offers.payment import AT_ONCE, Terms, price_hours, schedule_of
from ceps.plan.plans import plan_from_dict
from tests.ceps.instances import M3, servers, waves


def test_each_hour_is_rented_as_it_needs():
    """Two partitions on one cluster, half the day at 1,800 requests/s, half at 100: large by day, medium by night."""
    day = np.r_[np.full(12, 900.0), np.full(12, 50.0)]
    plan = ceps.schedule(Patterns(loads=[day, day]), None, M3, utilisation=1.0, terms=AT_ONCE)
    assert plan.method == "hourly"
    assert plan.cost_per_day == pytest.approx(plan.lower_bound)
    assert plan.cost_per_day == pytest.approx(12 * 0.133 + 12 * 0.067)
    assert plan.types_by_hour.shape[1] == 24
    names = [[M3[kind].name for kind in row] for row in plan.types_by_hour]
    assert names == [["large"] * 12 + ["medium"] * 12]
    assert plan.extras["resizes"] == 2


def test_every_hour_holds_and_costs_what_it_says():
    """In each hour each server's type holds that hour's peak and all bytes; the cost is their sum."""
    patterns = waves(150, 12_300.0, slots=288, noise=0.2)
    types = servers(4e10)
    plan = ceps.schedule(patterns, None, types, terms=AT_ONCE)
    for hour in range(24):
        peaks = plan.loads[:, hour * 12 : hour * 12 + 12].max(axis=1)
        for k, kind in enumerate(plan.types_by_hour[:, hour]):
            assert peaks[k] <= 0.9 * types[kind].requests_per_second * (1 + 1e-9)
            assert plan.bytes[k] <= types[kind].bytes
    prices = np.array([kind.dollars_per_hour for kind in types])
    assert plan.cost_per_day == pytest.approx(prices[plan.types_by_hour].sum())
    assert plan.lower_bound <= plan.cost_per_day
    assert plan.lower_bound <= ceps.plan(patterns, None, types).lower_bound


def test_changes_cost_what_they_take_and_are_made_only_where_that_pays():
    """Each change pays the new server for restart and loading; brute force over all sequences of six hours."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        loads = rng.choice([100.0, 900.0, 1_800.0, 3_000.0], (2, 24))
        loads[:, 6:] = loads[:, :1]  # from the seventh hour on as the first: brute force stays small
        sizes = rng.choice([0.0, 5e10, 4e11], 2)
        terms = Terms(restart_seconds=float(rng.choice([0, 600, 1_800])), load_bytes_per_second=2e8)
        problem = build_problem(Patterns(loads=loads, sizes=sizes), M3[:3], 1.0)
        types, costs = price_hours(problem, problem.columns, terms)
        for k, column in enumerate(problem.columns):
            assert costs[k] == pytest.approx(cheapest_day(column, problem, terms), rel=1e-9)
            price, change = problem.prices, float(terms.overlap_hours(column[-1]))
            changed = types[k] != np.roll(types[k], 1)
            assert costs[k] == pytest.approx(price[types[k]].sum() + change * price[types[k]][changed].sum())
            assert (column[:-1] <= problem.rates[types[k]] * (1 + 1e-9)).all()


def cheapest_day(column, problem, terms):
    """Dollars of the cheapest sequence over the first six hours and one for the rest, which is as the first hour."""
    best = np.inf
    lead = float(terms.overlap_hours(column[-1]))
    for types in product(range(len(problem.servers)), repeat=7):
        need = [*column[:6], column[6]]
        if any(load > problem.rates[kind] for load, kind in zip(need, types, strict=True)):
            continue
        cost = sum(problem.prices[kind] for kind in types[:6]) + 18 * problem.prices[types[6]]
        cost += sum(lead * problem.prices[now] for was, now in pairwise(types) if was != now)
        cost += lead * problem.prices[types[0]] if types[6] != types[0] else 0.0
        best = min(best, cost)
    return best


def test_it_beats_the_fixed_fleet_on_a_daily_wave():
    """A load that falls at night is cheaper with hourly types (u = 1.0)."""
    patterns = waves(150, 12_300.0, slots=24)
    one_hour_zone = replace(patterns, loads=np.roll(patterns.loads, 0, axis=1) * (1.2 + np.cos(np.arange(24) / 3.82)))
    fixed = ceps.plan(one_hour_zone, None, M3, utilisation=1.0)
    assert ceps.schedule(one_hour_zone, None, M3, utilisation=1.0).cost_per_day < 0.95 * fixed.cost_per_day


def test_schedule_of_given_clusters_and_of_nothing():
    """Given clusters are only priced; nothing costs nothing; the plan survives its file."""
    problem = build_problem(waves(20, 3_000.0), M3, 1.0)
    one = schedule_of(problem, np.zeros(20, dtype=np.int64))
    assert one.types.shape == (1, 24)
    assert best_schedule(problem, np.random.default_rng(0), Effort()).cost_per_day <= one.cost_per_day
    assert ceps.schedule(np.empty((0, 24)), [], M3).cost_per_day == 0
    plan = ceps.schedule(waves(20, 3_000.0), None, M3)
    back = plan_from_dict(json.loads(json.dumps(plan.to_dict())))
    np.testing.assert_array_equal(back.types_by_hour, plan.types_by_hour)


@pytest.mark.parametrize("slots", [4, 32, 168])
def test_slots_that_are_no_hours(slots):
    """Six-hour slots, 45-minute slots, a week of hours: one type an hour of the period."""
    patterns = Patterns(loads=np.random.default_rng(0).uniform(0, 400, (10, slots)))
    plan = ceps.schedule(patterns, None, M3)
    assert plan.types_by_hour.shape[1] == (168 if slots == 168 else 24)


def test_a_week_of_equal_days_costs_what_one_of_them_costs():
    """Dollars a day, and not a week's."""
    day = np.random.default_rng(1).uniform(100, 900, (1, 24))
    plans = [ceps.schedule(Patterns(loads=np.tile(day, days)), None, M3) for days in (1, 7)]
    assert plans[1].types_by_hour.shape == (1, 168)
    assert plans[1].cost_per_day == pytest.approx(plans[0].cost_per_day, rel=1e-9)


def test_risk_grows_with_utilisation_noise_and_fewer_days():
    """Fuller servers, rarer events and shorter observation are riskier."""
    patterns = waves(100, 9_000.0, slots=288)
    noisy = replace(patterns, requests_per_event=300.0)
    shares = [ceps.overload_risk(ceps.plan(noisy, None, M3, utilisation=u)).overload for u in (0.7, 0.85, 1.0)]
    assert shares == sorted(shares)
    assert shares[-1] > 0
    tight = ceps.plan(noisy, None, M3, utilisation=1.0)
    longer = ceps.overload_risk(replace(tight, days=30.0))
    assert longer.overload < ceps.overload_risk(tight).overload
    assert ceps.overload_risk(replace(tight, requests_per_event=1.0)).grade == 0


def test_risk_is_the_mean_of_the_excess():
    """Against a simulation for one server near its limit: one request in 100 was seen, on one Poisson day."""
    rate, slot = 92.0, 300
    plan = ceps.plan(Patterns(loads=np.full((1, 288), rate), requests_per_event=100.0), None,
                     [ceps.ServerType("s", 100.0, np.inf, 1.0)], utilisation=1.0)  # fmt: skip
    rng = np.random.default_rng(0)
    mean, limit = rate * slot, 100.0 * slot
    seen = 100 * rng.poisson(mean / 100, 2_000_000)  # sets what is believed
    came = rng.poisson(mean, 2_000_000) + (seen - mean)
    expected = np.maximum(came - limit, 0).mean() / mean
    assert ceps.overload_risk(plan).overload == pytest.approx(expected, rel=0.1)
    assert 1e-3 < expected < 1e-2
    assert ceps.overload_risk(plan).grade == 3
    assert ceps.overload_risk(plan).worst_server == 0


def test_nothing_has_no_risk():
    """Without servers or requests there is nothing to overload."""
    assert ceps.overload_risk(ceps.plan(np.empty((0, 24)), [], M3)).grade == 0
    assert ceps.overload_risk(ceps.plan(np.zeros((2, 24)), [1.0, 1.0], M3)).overload == 0


def test_all_methods_are_compared():
    """Every method has a row, ours cost least of the fixed fleets, the bounds hold."""
    patterns = waves(120, 9_300.0, slots=288, noise=0.2)
    found = ceps.compare(patterns, None, servers(3e10), utilisation=1.0)
    assert [row.method for row in found.rows] == list(PAPERS)
    static = [row for row in found.rows if row.method not in ("gp-aas", "gp-aas-slot", "hourly")]
    assert min(row.cost_per_day for row in static) == found.cost("fleet")
    assert found.lower_bound <= found.cost("fleet")
    assert all(row.cost_per_day >= found.hourly_bound * (1 - 1e-9) for row in found.rows if row.overload == 0)
    assert np.isnan(found.cost("nothing"))


def test_methods_that_cannot_run_are_left_out():
    """Without positions there is no grid; names must be known."""
    found = ceps.compare(np.full((5, 24), 10.0), [1.0] * 5, M3)
    assert "gp" not in [row.method for row in found.rows]
    with pytest.raises(ValueError, match="known: gp"):
        ceps.compare(np.full((5, 24), 10.0), [1.0] * 5, M3, methods=["best"])
    few = ceps.compare(np.full((5, 24), 10.0), [1.0] * 5, M3, methods=["fleet", "tv"], copies=2)
    assert [row.method for row in few.rows] == ["tv", "fleet"]


def test_cheaper_autoscaling_is_said_plainly():
    """A load that sleeps all night is cheaper to autoscale: the note names both prices; a flat one gets no note."""
    night = np.zeros((40, 288))
    night[:, :72] = 100.0
    places = np.column_stack([np.arange(40) * 4.0 - 80, np.zeros(40)])
    sleepy = Patterns(loads=night, sizes=np.full(40, 1.0), positions=places)
    found = ceps.compare(sleepy, None, M3, methods=["gp-aas", "fleet"])
    note = autoscaling_note(found, found.cost("fleet"))
    assert "Autoscaling would be cheaper" in note
    assert f"{found.cost('gp-aas'):.2f}" in note
    flat = replace(sleepy, loads=np.full((40, 288), 100.0))
    found = ceps.compare(flat, None, M3, methods=["gp-aas", "fleet"])
    assert autoscaling_note(found, found.cost("fleet")) == ""


def test_what_if_over_utilisation():
    """Cost falls as the target rises; a target at which a partition fits nowhere is left out."""
    patterns = waves(80, 9_300.0)
    points = ceps.what_if(patterns, None, M3, utilisations=(0.6, 0.8, 1.0))
    assert [point.utilisation for point in points] == [0.6, 0.8, 1.0]
    costs = [point.cost_per_day for point in points]
    assert costs == sorted(costs, reverse=True)
    assert all(point.lower_bound <= point.cost_per_day * (1 + 1e-9) for point in points)
    big = Patterns(loads=np.full((2, 24), 7000.0))
    assert [point.utilisation for point in ceps.what_if(big, None, M3, utilisations=(0.5, 0.9))] == [0.9]
