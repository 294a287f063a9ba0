"""`ceps.plan`: what it promises, for every option."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import InfeasibleError, Patterns, ServerType
from ceps.plan.plans import plan_from_dict
from tests.ceps.instances import M3, assert_holds, servers, small_patterns, small_servers, waves

OURS = ("fleet", "gain")
STATIC = ("fleet", "gain", "tv", "tabu", "gp", "gp-r")


@pytest.mark.parametrize("method", STATIC)
def test_no_slot_is_overloaded(method):
    """load <= u x capacity x (1 + 1e-9) in every slot of the original matrix, whatever the method."""
    patterns = waves(120, 9_300.0, noise=0.3)
    plan = ceps.plan(patterns, None, servers(3e10), method=method)
    assert plan.method == method
    assert_holds(plan, patterns)


@settings(max_examples=40, deadline=None)
@given(small_patterns(), small_servers(), st.sampled_from(OURS), st.sampled_from((0.5, 0.9, 1.0)), st.integers(1, 2))
def test_plans_hold_or_name_the_partitions(patterns, types, method, utilisation, copies):
    """Either a plan that holds, or an error with the partitions that fit nothing."""

    def fits(row, kind):
        share = patterns.loads[row].max() / copies
        return share <= utilisation * kind.requests_per_second and patterns.sizes[row] <= kind.bytes

    options = {"method": method, "utilisation": utilisation, "copies": copies}
    alone = [row for row in range(len(patterns)) if not any(fits(row, kind) for kind in types)]
    if alone:
        with pytest.raises(InfeasibleError) as error:
            ceps.plan(patterns, None, types, **options)
        assert error.value.partitions == tuple(alone)
    else:
        assert_holds(ceps.plan(patterns, None, types, **options), patterns)


def test_matrix_and_sizes_as_in_the_contract():
    """A plain matrix and sizes do; the answer has cost, server of each partition and lower bound."""
    plan = ceps.plan(np.full((4, 288), 100.0), [1e9] * 4, ceps.load_servers("m3-2015"))
    assert plan.cost_per_day == plan.lower_bound == pytest.approx(24 * 0.067)
    assert plan.server_of.dtype == np.int64
    assert plan.server_of.tolist() == [0, 0, 0, 0]
    assert plan.gap == 1.0
    assert plan.cost_per_month == pytest.approx(730 * 0.067)


def test_nothing_to_place():
    """No partitions: no servers, no cost, and a plan that can be saved."""
    plan = ceps.plan(np.empty((0, 24)), [], M3)
    assert (len(plan), plan.cost_per_day, plan.lower_bound, plan.gap) == (0, 0.0, 0.0, 1.0)
    assert plan_from_dict(json.loads(json.dumps(plan.to_dict()))).to_dict() == plan.to_dict()


@pytest.mark.parametrize("method", OURS)
def test_one_partition_and_idle_partitions(method):
    """One partition needs one server, even one that is never asked for."""
    assert len(ceps.plan([[5.0] * 24], [1.0], M3, method=method)) == 1
    idle = ceps.plan(np.zeros((3, 24)), [0.0] * 3, M3, method=method)
    assert len(idle) == 1
    assert idle.cost_per_day == pytest.approx(24 * 0.067)


@pytest.mark.parametrize("method", STATIC)
def test_two_runs_give_the_same_plan(method):
    """Same arguments, same bytes of plan.json; a Generator with the same state does as well as a seed."""
    patterns = waves(90, 9_300.0, noise=0.4)
    first, second = (ceps.plan(patterns, None, M3, seed=7, method=method).to_dict() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    third = ceps.plan(patterns, None, M3, seed=np.random.default_rng(7), method=method).to_dict()
    assert third["servers"] == first["servers"]


@settings(max_examples=25, deadline=None)
@given(small_patterns(most=8), small_servers(), st.sampled_from(OURS), st.integers(-30, 30))
def test_power_of_two_units_change_nothing(patterns, types, method, power):
    """Requests of another unit, loads and capacities alike: the same plan."""
    unit = 2.0**power
    scaled = [replace(kind, requests_per_second=kind.requests_per_second * unit) for kind in types]
    first = ceps.plan(patterns, None, types, method=method, utilisation=1.0)
    second = ceps.plan(Patterns(loads=patterns.loads * unit, sizes=patterns.sizes), None, scaled, method=method,
                       utilisation=1.0)  # fmt: skip
    np.testing.assert_array_equal(first.replicas, second.replicas)
    np.testing.assert_array_equal(first.type_of, second.type_of)
    assert first.cost_per_day == second.cost_per_day
    assert first.lower_bound == second.lower_bound


@pytest.mark.parametrize("method", OURS)
def test_power_of_two_units_change_nothing_with_noise(method):
    """The same where the long search runs."""
    patterns = waves(60, 9_700.0, noise=0.6)
    scaled = [replace(kind, requests_per_second=kind.requests_per_second / 1024) for kind in M3[:1]]
    first = ceps.plan(patterns, None, M3[:1], method=method, utilisation=1.0)
    second = ceps.plan(replace(patterns, loads=patterns.loads / 1024), None, scaled, method=method, utilisation=1.0)
    np.testing.assert_array_equal(first.replicas, second.replicas)


@settings(max_examples=25, deadline=None)
@given(small_patterns(most=8), small_servers(), st.sampled_from((*OURS, "tv")), st.randoms(use_true_random=False))
def test_numbering_changes_nothing_but_names(patterns, types, method, random):
    """Shuffled partitions: the same servers with the same loads and bytes, at the same cost."""
    order = list(range(len(patterns)))
    random.shuffle(order)
    shuffled = Patterns(loads=patterns.loads[order], sizes=patterns.sizes[order], partitions=np.array(order))
    options = {"method": method, "utilisation": 1.0}
    try:
        first = ceps.plan(patterns, None, types, **options)
    except InfeasibleError:
        return
    second = ceps.plan(shuffled, None, types, **options)
    np.testing.assert_array_equal(first.loads, second.loads)
    np.testing.assert_array_equal(first.bytes, second.bytes)
    np.testing.assert_array_equal(first.type_of, second.type_of)
    assert first.cost_per_day == second.cost_per_day


def test_utilisation_and_growth_cost_money():
    """Headroom and growth are rented; growth 1.25 is the same as 80 % of the utilisation."""
    patterns = waves(200, 9_300.0)
    costs = [ceps.plan(patterns, None, M3, utilisation=u).cost_per_day for u in (1.0, 0.8, 0.6)]
    assert costs == sorted(costs)
    grown = ceps.plan(patterns, None, M3, utilisation=1.0, growth=1.25)
    assert grown.cost_per_day == pytest.approx(costs[1])
    assert grown.growth == 1.25
    assert_holds(grown, patterns, growth=1.25)


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("method", STATIC)
def test_copies_stand_on_different_servers(copies, method):
    """r copies of each partition, never two on one server, bytes r times, requests shared."""
    patterns = waves(60, 5_000.0)
    plan = ceps.plan(patterns, None, servers(3e10), method=method, copies=copies)
    assert_holds(plan, patterns)
    assert plan.bytes.sum() == copies * patterns.sizes.sum()
    assert plan.loads.sum() == pytest.approx(patterns.loads.sum())
    assert len(plan) >= copies


def test_a_spare_can_take_over_any_server():
    """With a spare, the loss of any one server is covered, and smaller servers may be the cheaper choice."""
    patterns = waves(200, 10_300.0)
    plan = ceps.plan(patterns, None, servers(3e10), spare=True)
    assert plan.spare == 1
    assert plan.loads[-1].max() == 0
    assert plan.bytes[-1] == 0
    spare = plan.types[-1]
    assert (plan.peaks <= plan.utilisation * spare.requests_per_second * (1 + 1e-9)).all()
    assert (plan.bytes <= spare.bytes).all()
    plain = ceps.plan(patterns, None, servers(3e10))
    naive = plain.cost_per_day + 24 * max(kind.dollars_per_hour for kind in plain.types)
    assert plan.lower_bound <= plan.cost_per_day < naive


@pytest.mark.parametrize("method", OURS)
def test_pins_are_kept(method):
    """Equal pins share their server, different pins never do, and the numbers are those asked for."""
    patterns = waves(100, 9_300.0)
    pinned = np.full(100, -1)
    pinned[:3], pinned[3:5], pinned[5] = 4, 1, 9
    plan = ceps.plan(patterns, None, M3, method=method, pinned=pinned)
    numbers = plan.server_ids[plan.server_of]
    assert numbers[:6].tolist() == [4, 4, 4, 1, 1, 9]
    assert_holds(plan, patterns)
    with pytest.raises(ValueError, match="cannot keep pinned"):
        ceps.plan(patterns, None, M3, method="tv", pinned=pinned)


def test_pins_with_copies():
    """A pin holds the first copy; the second still stands elsewhere."""
    patterns = waves(40, 4_000.0)
    pinned = np.where(np.arange(40) < 5, 0, -1)
    plan = ceps.plan(patterns, None, M3, copies=2, pinned=pinned)
    assert (plan.server_ids[plan.server_of[:5]] == 0).all()
    assert_holds(plan, patterns)


def test_pinned_to_one_server_beyond_any_type():
    """The error names all that is pinned there."""
    with pytest.raises(InfeasibleError) as error:
        ceps.plan(np.full((3, 24), 3000.0), [1.0] * 3, M3, pinned=[5, 5, 5])
    assert error.value.partitions == (0, 1, 2)


def test_time_limit_still_gives_a_plan_that_holds():
    """However short, the best plan so far is returned."""
    patterns = waves(400, 49_000.0, noise=0.6)
    plan = ceps.plan(patterns, None, M3[:1], utilisation=1.0, time_limit=1e-6)
    assert_holds(plan, patterns)


def test_progress_is_told():
    """The callback hears the method, the best cost, never rising, and the bound."""
    told = []
    plan = ceps.plan(waves(60, 9_300.0), None, M3, progress=lambda *words: told.append(words))
    assert told
    assert {name for name, _, _ in told} == {"fleet"}
    assert [cost for _, cost, _ in told] == sorted((cost for _, cost, _ in told), reverse=True)
    assert told[-1][1:] == (plan.cost_per_day, plan.lower_bound)


def test_steps_of_renting_are_told():
    """Each offer before it is planned, by the share of the capacity that it is planned to."""
    told = []
    ceps.rent(waves(60, 9_300.0), None, M3, progress=lambda step, *_: told.append(step))
    steps = list(dict.fromkeys(told))
    assert steps[:3] == ["fixed, planned to 90% of capacity", "fleet", "hourly, planned to 90% of capacity"]
    assert {"grid", "autoscaling"} <= set(steps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"utilisation": 0.0}, "utilisation = 0.0"),
        ({"utilisation": 1.1}, "utilisation = 1.1"),
        ({"growth": 0.0}, "growth = 0.0"),
        ({"copies": 0}, "copies = 0"),
        ({"method": "best"}, "known: fleet, gain"),
        ({"method": "gp-aas"}, "has no fixed plan"),
        ({"time_limit": 0.0}, "time_limit = 0.0"),
        ({"move_budget": 1.0}, "needs a previous plan"),
        ({"pinned": [1, 2]}, "pinned has shape"),
        ({"method": "gp"}, "needs positions"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    """An error names the value, the bound and the way out."""
    with pytest.raises(ValueError, match=message):
        ceps.plan(np.full((4, 24), 10.0), [1.0] * 4, M3, **options)


def test_a_method_that_overfills_says_so():
    """A grid cell that no type holds is an error with the partitions in it, never a clipped plan."""
    loads = np.full((4, 24), 5000.0)
    patterns = Patterns(loads=loads, positions=np.column_stack([np.arange(4), np.zeros(4)]))
    with pytest.raises(InfeasibleError, match="puts more on 1 server") as error:
        ceps.plan(patterns, None, M3, method="gp", cells=1)
    assert error.value.partitions == (0, 1, 2, 3)


def test_a_plan_is_read_back_bit_by_bit(tmp_path):
    """plan.json holds all of the plan, infinite storage included."""
    patterns = replace(waves(50, 9_300.0), pivots_hash="abc", partitions=np.arange(50) * 3, time_zone="Asia/Tokyo")
    for options in ({}, {"copies": 2}, {"spare": True}, {"method": "tv", "cap": "large"}):
        plan = ceps.plan(patterns, None, M3, **options)
        plan.save(tmp_path / "plan.json")
        back = ceps.load_plan(tmp_path / "plan.json")
        for name, value in vars(plan).items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(getattr(back, name), value)
            else:
                assert getattr(back, name) == value, name
    content = json.loads((tmp_path / "plan.json").read_text())
    assert content["pivots_hash"] == "abc"
    assert content["format"] == 1
    assert {"server", "type", "partitions", "peak_requests_per_second", "mean_requests_per_second", "utilisation",
            "bytes", "dollars_per_hour"} <= set(content["servers"][0])  # fmt: skip
    held = sorted(number for server in content["servers"] for number in server["partitions"])
    assert held == (np.arange(50) * 3).tolist()


def test_files_that_are_no_plans(tmp_path):
    """Each error says what is wrong with the file."""
    path = tmp_path / "plan.json"
    with pytest.raises(FileNotFoundError):
        ceps.load_plan(path)
    for text, message in (("{", "not JSON"), ("[]", "not a plan"), ('{"kind": "ceps plan", "format": 9}', "format 9")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            ceps.load_plan(path)
    plan = ceps.plan([[1.0] * 24], [1.0], M3)
    content = plan.to_dict()
    del content["servers"]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="'servers' is missing"):
        ceps.load_plan(path)


def test_a_plan_for_other_pivots_is_refused():
    """Partition numbers mean nothing across pivots: the error says what to do."""
    old = ceps.plan(replace(waves(20, 900.0), pivots_hash="old"), None, M3)
    new = replace(waves(20, 900.0), pivots_hash="new")
    with pytest.raises(ValueError, match="--pivots keep"):
        ceps.plan(new, None, M3, previous=old)
    with pytest.raises(ValueError, match="pivots"):
        ceps.diff(ceps.plan(new, None, M3), old)


def test_types_with_more_storage_for_the_same_rate():
    """Two families: the planner takes the roomy ones only where bytes ask for it."""
    types = (ServerType("plain", 1000, 1e9, 1.0), ServerType("roomy", 1000, 8e9, 1.3))
    loads = np.full((10, 24), 100.0)
    plan = ceps.plan(Patterns(loads=loads, sizes=np.full(10, 8e8)), None, types, utilisation=1.0)
    assert_holds(plan, Patterns(loads=loads, sizes=np.full(10, 8e8)))
    assert plan.cost_per_day == pytest.approx(plan.lower_bound)
    assert [kind.name for kind in plan.types] == ["roomy"]
