"""Every method: what it returns fits, and costs what the cost model says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import Patterns
from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.packing import Effort
from ceps.model.problem import build_problem
from ceps.plan.planning import METHODS, run
from ceps.planners.ahr import literal_tabu
from ceps.planners.fleet_first import first_fit_plan, fleet_first
from ceps.planners.grid import autoscale, grid, kd_cells, random_grid
from tests.ceps import oracles
from tests.ceps.instances import M3, servers, small_patterns, small_servers, waves

FIXED = [name for name in METHODS if name != "gp-aas"]


def solve(method, problem, seed=0, **options):
    return run(method, problem, np.random.default_rng(seed), Effort(), **options)


@settings(max_examples=25, deadline=None)
@given(small_patterns(), small_servers(), st.sampled_from([name for name in FIXED if name != "gp"]))
def test_cost_is_that_of_the_model_and_nothing_is_overloaded(made, types, method):
    """Summed partition by partition, every plan fits and costs what it says; infinite where it does not fit."""
    problem = build_problem(made, types, 1.0)
    outcome = solve(method, problem)
    expected = oracles.cost(outcome.labels, problem.loads, problem.bytes, problem.rates, problem.room, problem.prices)
    assert outcome.cost_per_day == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(expected) == (outcome.type_of >= 0).all()
    assert outcome.cost_per_day >= fleet_bound(problem) * (1 - 1e-9)
    if method in ("fleet", "gain"):
        assert np.isfinite(expected)


@settings(max_examples=60, deadline=None)
@given(small_patterns(most=7), small_servers())
def test_ours_equal_the_optimum_on_small_instances(made, types):
    """Fleet first reaches the brute-force optimum on instances of up to 7 partitions with ties and duplicates."""
    problem = build_problem(made, types, 1.0)
    best = oracles.optimum(problem.loads, problem.bytes, problem.rates, problem.room, problem.prices)
    assert fleet_first(problem, np.random.default_rng(0), Effort()).cost_per_day <= best * (1 + 1e-9)


@pytest.mark.parametrize("method", ["fleet", "gain"])
def test_ours_equal_the_optimum_of_eight_waves(method):
    """A few loads of 8 partitions against all 4,140 placements, u = 1.0."""
    for seed, units in enumerate((3.3, 5.4, 7.7, 10.3)):
        problem = build_problem(waves(8, units * 1000, seed), M3, 1.0)
        best = oracles.optimum(problem.loads, problem.bytes, problem.rates, problem.room, problem.prices)
        assert solve(method, problem).cost_per_day == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("method", ["fleet", "gain"])
@pytest.mark.parametrize("units", [10.3, 12.4, 15.8, 20.6])
def test_lower_bound_is_reached(method, units):
    """300 waves on the m3 types at u = 1.0 cost no more than the fleet bound."""
    problem = build_problem(waves(300, units * 1000, seed=int(units), noise=0.2), M3, 1.0)
    assert solve(method, problem).cost_per_day == pytest.approx(fleet_bound(problem), rel=1e-9)


@pytest.mark.parametrize("method", ["fleet", "gain"])
def test_one_type_ceil_of_the_load(method):
    """20 partitions a server without noise: as many servers as the peak of the sum needs, u = 1.0."""
    problem = build_problem(waves(500, 24_400.0, seed=5, slots=48), M3[:1], 1.0)
    assert len(solve(method, problem).type_of) == 25


def test_storage_can_be_what_counts():
    """Bytes alone decide when there are hardly any requests."""
    made = Patterns(loads=np.full((10, 24), 0.1), sizes=np.full(10, 3e9))
    problem = build_problem(made, servers(4e9), 1.0)
    outcome = solve("fleet", problem)
    assert outcome.cost_per_day == pytest.approx(fleet_bound(problem))
    assert 30e9 <= problem.room[outcome.type_of].sum() <= 34e9


def test_a_plan_that_fits_is_evened_out():
    """Of one type, the largest relative peak comes near what the totals allow; of several, safety is equal."""
    problem = build_problem(waves(300, 12_400.0, seed=1), M3[:1], 1.0)
    outcome = solve("fleet", problem)
    floor = problem.need[0] / problem.rates[outcome.type_of].sum()
    assert floor * (1 - 1e-9) <= outcome.extras["worst"] <= floor * 1.01
    problem = build_problem(waves(300, 12_400.0, seed=1), M3, 0.95)
    outcome = solve("fleet", problem)
    full = problem.rates[outcome.type_of] / 0.95
    assert len(set(full.tolist())) > 1
    peaks = problem.cluster_columns(outcome.labels)[:, :-1].max(axis=1)
    deviations = (full - peaks) / np.sqrt(peaks)
    free = peaks < 0.95 * full * 0.998  # those that u does not bind
    assert deviations[free].min() >= 0.97 * deviations[free].max()


def test_first_fit_always_fits():
    """The fallback when time is short."""
    problem = build_problem(waves(100, 9_300.0, noise=0.5), servers(), 0.8, copies=2)
    outcome = first_fit_plan(problem)
    assert np.isfinite(outcome.cost_per_day)
    assert not problem.conflicts(outcome.labels)


def test_when_no_one_type_holds_all():
    """One partition needs a fast type, another a roomy one."""
    made = Patterns(loads=[[90.0] * 2, [1.0] * 2], sizes=[1.0, 90.0])
    types = [ceps.ServerType("fast", 100.0, 10.0, 1.0), ceps.ServerType("roomy", 10.0, 100.0, 1.0)]
    problem = build_problem(made, types, 1.0)
    for method in ("fleet", "gain"):
        outcome = solve(method, problem)
        assert outcome.cost_per_day == pytest.approx(48.0)
        assert sorted(outcome.type_of.tolist()) == [0, 1]


def test_literal_tabu_only_ever_improves_on_ahr():
    """CEPS+ as written never ends dearer than CEPS-, and says where it began."""
    problem = build_problem(waves(60, 9_300.0, noise=0.4), M3, 1.0)
    written = solve("tv", problem, cap="medium")
    searched = literal_tabu(problem, np.random.default_rng(0), Effort(), cap="medium")
    assert searched.cost_per_day <= written.cost_per_day
    assert searched.extras["started"] == written.cost_per_day
    with pytest.raises(ValueError, match="cap = 'huge'"):
        solve("tv", problem, cap="huge")


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 16])
def test_grid_cells_are_boxes_of_equal_bytes(cells):
    """As many cells as asked for, each with about its share, no two boxes overlapping in both axes."""
    problem = build_problem(waves(200, 9_300.0), M3, 1.0)
    labels = kd_cells(problem, cells)
    shares = np.bincount(labels, problem.bytes) / problem.bytes.sum()
    assert len(shares) == cells
    assert shares.max() < 1.5 / cells
    boxes = [np.r_[problem.positions[labels == k].min(0), problem.positions[labels == k].max(0)] for k in range(cells)]
    for i in range(cells):
        for j in range(i):
            a, b = boxes[i], boxes[j]
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_more_cells_than_partitions():
    """A partition is never cut."""
    problem = build_problem(waves(3, 100.0), M3, 1.0)
    assert sorted(kd_cells(problem, 10).tolist()) == [0, 1, 2]


def test_grid_needs_positions():
    """Without places there is no grid; the error says what to give."""
    problem = build_problem(Patterns(loads=np.ones((3, 24))), M3, 1.0)
    with pytest.raises(ValueError, match="give Patterns positions"):
        grid(problem, np.random.default_rng(0), Effort())


def test_grid_and_random_report_best_and_typical():
    """The best count is never dearer than the typical one; a given count is taken as it is."""
    problem = build_problem(waves(200, 9_300.0), M3, 1.0)
    for method in (grid, random_grid):
        best = method(problem, np.random.default_rng(0), Effort())
        assert best.cost_per_day <= best.extras["typical"]
        fixed = method(problem, np.random.default_rng(0), Effort(), cells=5)
        assert len(fixed.type_of) == 5


def steady(level, partitions=8):
    """A flat load, for which autoscaling has nothing to do."""
    hours = np.full((partitions, 288), level / partitions)
    places = np.column_stack([np.arange(partitions) * 10.0, np.zeros(partitions)])
    return Patterns(loads=hours, sizes=np.full(partitions, 1e9), positions=places)


def test_autoscaling_a_flat_load_costs_the_fleet():
    """Nothing changes all day: hour and slot billing agree, nothing moves, nothing is dropped."""
    problem = build_problem(steady(3600.0), M3, 1.0)
    outcome = autoscale(problem, np.random.default_rng(0), Effort(), cells=4)
    assert outcome.cost_per_day == pytest.approx(24 * 4 * 0.067)
    assert outcome.extras["billed_by_slot"] == pytest.approx(outcome.cost_per_day)
    assert outcome.extras["overload"] == outcome.extras["bytes_moved"] == 0


def test_autoscaling_follows_the_day():
    """Half a day of nothing: fewer servers at night, a split and its overload in the morning, started hours billed."""
    loads = np.zeros((8, 288))
    loads[:, 144:] = 450.0
    base = steady(1.0)
    problem = build_problem(Patterns(loads=loads, sizes=base.sizes, positions=base.positions), M3, 1.0)
    outcome = autoscale(problem, np.random.default_rng(0), Effort(), cells=4)
    assert outcome.cost_per_day < 24 * 4 * 0.067
    assert outcome.extras["billed_by_slot"] <= outcome.cost_per_day * (1 + 1e-9)
    assert 0 < outcome.extras["overload"] < 0.1
    assert outcome.extras["bytes_moved"] > 0
    assert outcome.extras["most_servers"] > 1


def test_autoscaling_merges_only_what_storage_allows():
    """Where a server can store no more, it stays, idle or not."""
    loads = np.zeros((8, 288))
    loads[:, 144:] = 450.0
    base = steady(1.0)
    made = Patterns(loads=loads, sizes=base.sizes, positions=base.positions)
    free = autoscale(build_problem(made, servers(), 1.0), np.random.default_rng(0), Effort(), cells=4)
    tight = autoscale(build_problem(made, servers(2e9), 1.0), np.random.default_rng(0), Effort(), cells=4)
    assert tight.cost_per_day > free.cost_per_day
    with pytest.raises(ValueError, match="known: fits, stores"):
        autoscale(build_problem(made, servers(), 1.0), np.random.default_rng(0), Effort(), new_server="x")


def test_autoscaling_conserves_items():
    """Splits and merges lose and double nothing."""
    problem = build_problem(waves(60, 9_300.0, slots=288), servers(), 1.0)
    outcome = autoscale(problem, np.random.default_rng(0), Effort())
    assert np.bincount(outcome.labels, problem.bytes).sum() == problem.bytes.sum()
    assert outcome.labels.max() + 1 == len(outcome.type_of)
    assert 0 <= outcome.extras["overload"] < 1
