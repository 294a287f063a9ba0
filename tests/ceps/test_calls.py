"""Servers a request: counted right, never more than without, and traded for money as every placement would say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import InfeasibleError, Patterns, Reads, ServerType
from ceps.model.calls_per_request import calls_a_day, dollars_a_call, item_reads
from ceps.model.packing import Effort
from ceps.model.problem import build_problem
from ceps.model.reads import reads_together
from ceps.plan.plans import plan_from_dict
from ceps.planners.fewer_calls import _packed_cells, anneal_labels
from tests.ceps import oracles
from tests.ceps.instances import M3, assert_holds, servers, small_patterns, small_servers, waves
from tests.examples import examples

REQUESTS = st.lists(
    st.tuples(st.sets(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 8)), min_size=1, max_size=12
)


def reads_of(requests, partitions):
    """Reads of requests (partitions, how many), as far as those partitions are there; and these requests."""
    inside = [({p for p in rows if p < partitions}, number) for rows, number in requests]
    inside = [(rows, number) for rows, number in inside if rows]
    pairs = np.array([(r, p) for r, (rows, _) in enumerate(inside) for p in rows], np.int64).reshape(-1, 2)
    return reads_together(pairs[:, 0], pairs[:, 1], [number for _, number in inside]), inside


def neighbours(patterns, requests=400.0, nearest=4):
    """Reads of each partition together with those nearest to it."""
    place = patterns.positions
    gap = np.abs(place[:, None] - place).sum(axis=2)
    rows = np.argsort(gap, axis=1, kind="stable")[:, :nearest]
    request = np.repeat(np.arange(len(place)), nearest)
    return reads_together(request, rows.ravel(), np.full(len(place), requests))


@settings(deadline=None)
@given(REQUESTS, st.integers(1, 3), st.data())
def test_servers_a_request_as_counted_one_by_one(requests, copies, data):
    """For any placement of any copies."""
    reads, inside = reads_of(requests, 6)
    replicas = data.draw(
        st.lists(st.lists(st.integers(0, 4), min_size=copies, max_size=copies), min_size=6, max_size=6)
    )
    wanted = oracles.servers_a_request(replicas, inside, reads.total)
    assert ceps.servers_a_request(np.array(replicas), reads) == pytest.approx(wanted, rel=1e-12)
    far = np.array(replicas) * 30_000_000  # so many servers that no table of all is made
    assert ceps.servers_a_request(far, reads) == pytest.approx(wanted, rel=1e-12)


def test_where_nothing_is_asked_or_all_read_one_partition():
    """One server a request."""
    assert ceps.servers_a_request([0, 1], Reads([0], [], [], total=0.0)) == 1.0
    assert ceps.servers_a_request([0, 1], Reads([0], [], [], total=9.0)) == 1.0
    assert ceps.servers_a_request(np.empty((0, 1), int), Reads([0], [], [], total=0.0)) == 1.0


@settings(max_examples=examples(60), deadline=None)
@given(small_patterns(), small_servers(), REQUESTS, st.integers(1, 2), st.booleans(), st.booleans())
def test_never_dearer_and_never_more_calls_than_without_reads(patterns, types, requests, copies, spare, pins):
    """And every slot, every byte, copies and pins hold."""
    reads, inside = reads_of(requests, len(patterns))
    pinned = [0, 1, 0, 1, -1, -1][: len(patterns)] if pins and copies == 1 else None
    options = {"utilisation": 1.0, "copies": copies, "spare": spare, "pinned": pinned}
    try:
        without = ceps.plan(patterns, None, types, **options)
    except InfeasibleError:
        return
    made = ceps.plan(replace(patterns, reads=reads), None, types, **options)
    assert made.cost_per_day <= without.cost_per_day * (1 + 1e-9)
    wanted = oracles.servers_a_request(made.replicas.tolist(), inside, reads.total) if inside else 1.0
    assert made.servers_a_request == pytest.approx(wanted, rel=1e-12)
    assert made.servers_a_request <= ceps.servers_a_request(without.replicas, reads) + 1e-9
    if not spare:
        assert_holds(made, patterns)
    if pinned is not None:
        for row, server in enumerate(pinned):
            assert server < 0 or made.server_ids[made.server_of[row]] == server


@pytest.mark.parametrize("method", ["fleet", "gain"])
@pytest.mark.parametrize(("copies", "types"), [(1, M3), (1, M3[:1]), (2, M3)])
def test_neighbours_come_together_at_no_cost(method, copies, types):
    """Waves whose neighbours peak together: the plan at the same cost touches far fewer servers, and all holds."""
    patterns = waves(160, 9_300.0)
    reads = neighbours(patterns)
    without = ceps.plan(patterns, None, types, method=method, copies=copies)
    made = ceps.plan(replace(patterns, reads=reads), None, types, method=method, copies=copies)
    assert_holds(made, patterns)
    assert made.cost_per_day == without.cost_per_day
    before = ceps.servers_a_request(without.replicas, reads)
    assert made.servers_a_request - 1 < 0.7 * (before - 1)


def test_plans_without_reads_stay_as_they_are():
    """No figure, no key in the JSON, and the same random choices."""
    patterns = waves(90, 9_300.0, noise=0.4)
    plan = ceps.plan(patterns, None, M3, seed=3)
    assert plan.servers_a_request is None
    assert "servers_a_request" not in json.dumps(plan.to_dict())
    silent = replace(patterns, reads=Reads([0], [], [], total=5.0))
    known = ceps.plan(silent, None, M3, seed=3)
    np.testing.assert_array_equal(known.replicas, plan.replicas)
    assert known.servers_a_request == 1.0


def test_two_runs_and_other_numbers_give_the_same_plan():
    """Bytes for equal seeds; the same servers for partitions in another order."""
    patterns = replace(waves(90, 9_300.0, noise=0.4), reads=neighbours(waves(90, 9_300.0, noise=0.4)))
    first, second = (ceps.plan(patterns, None, M3, seed=5) for _ in range(2))
    assert json.dumps(first.to_dict()) == json.dumps(second.to_dict())
    assert plan_from_dict(first.to_dict()).servers_a_request == first.servers_a_request
    order = np.random.default_rng(1).permutation(90)
    request, row = patterns.reads.set_of, np.argsort(order)[patterns.reads.row]
    shuffled = Patterns(
        loads=patterns.loads[order], sizes=patterns.sizes[order], positions=patterns.positions[order],
        reads=reads_together(request, row, patterns.reads.weight),
    )  # fmt: skip
    other = ceps.plan(shuffled, None, M3, seed=5)
    np.testing.assert_array_equal(other.loads, first.loads)
    assert other.servers_a_request == pytest.approx(first.servers_a_request, rel=1e-12)


def test_the_time_limit_ends_the_search():
    """A search that is over before it begins leaves the placement as it was; one that is cut short holds."""
    patterns = waves(400, 9_300.0)
    reads = neighbours(patterns)
    problem = build_problem(patterns, M3)
    labels, types = np.arange(400) % 3, np.array([3, 3, 3])
    over = anneal_labels(
        problem, types, labels, item_reads(problem, reads), np.random.default_rng(0), Effort(deadline=0.0)
    )
    np.testing.assert_array_equal(over, labels)
    assert_holds(ceps.plan(replace(patterns, reads=reads), None, M3, time_limit=1e-3), patterns)


def test_servers_keep_their_share_of_headroom():
    """None, some of it, each another share, or all; a server above its limit already is filled no further."""
    patterns = waves(160, 9_300.0)
    problem = build_problem(patterns, servers(), 1.0)
    reads = item_reads(problem, neighbours(patterns))
    labels, types = np.arange(160) % 3, np.array([3, 3, 2])
    before = problem.cluster_columns(labels)[:, :-1].max(axis=1) / problem.rates[types]
    calls = []
    for keep in (0.0, 0.5, np.array([0.9, 0.2, 0.0]), 1.0):
        found = anneal_labels(problem, types, labels, reads, np.random.default_rng(0), Effort(), keep)
        peaks = problem.cluster_columns(found)[:, :-1].max(axis=1) / problem.rates[types]
        assert (peaks <= np.maximum(1 - keep * (1 - before), before) * (1 + 1e-9)).all()
        calls.append(calls_a_day(found, reads))
    assert calls[0] < calls_a_day(labels, reads)
    evened, made = (ceps.plan(replace(patterns, reads=known), None, M3) for known in (None, neighbours(patterns)))
    full = (made.peaks / made.capacity / 0.9).max()
    assert full <= 1 - 0.5 * (1 - (evened.peaks / evened.capacity / 0.9).max()) + 1e-9


LONGER = pytest.mark.deep("eight slots with both, and twenty-four by the hour, are in make test")


@pytest.mark.parametrize(
    ("slots", "offer"), [(8, "hourly"), (8, "mixed"), (24, "hourly"), pytest.param(24, "mixed", marks=LONGER)]
)
def test_servers_that_change_by_the_hour_stay_within_each_hour(offer, slots):
    """Never dearer and fewer calls than without reads, and no slot is above what is rented in its hours."""
    patterns = waves(160, 9_300.0, slots=slots, noise=0.2)
    reads, kinds = neighbours(patterns), servers(6e10)
    without = ceps.rent(patterns, None, kinds, offer=offer)
    made = ceps.rent(replace(patterns, reads=reads), None, kinds, offer=offer)
    assert made.cost_per_day <= without.cost_per_day * (1 + 1e-9)
    assert made.servers_a_request < ceps.servers_a_request(without.replicas, reads)
    assert made.servers_a_request == ceps.servers_a_request(made.replicas, reads)
    hours = made.types_by_hour.shape[1]
    for k in range(len(made)):
        rows = made.members(k)
        load = patterns.loads[rows].sum(axis=0)
        for hour in range(hours):
            kind = kinds[made.types_by_hour[k, hour]]
            touched = load[hour * slots // hours : -(-(hour + 1) * slots // hours)]
            assert touched.max() <= 0.9 * kind.requests_per_second * (1 + 1e-9)
            assert patterns.sizes[rows].sum() <= kind.bytes


def test_as_many_servers_as_are_asked_for_stay_rented():
    """Calls do not empty servers that must be there, and the least that holds is left where none must."""
    patterns = replace(waves(60, 900.0), reads=neighbours(waves(60, 900.0)))
    for least in (1, 3):
        problem = build_problem(patterns, M3, at_least=least)
        labels = anneal_labels(
            problem, np.array([1, 1, 1, 1]), np.arange(60) % 4, item_reads(problem, patterns.reads),
            np.random.default_rng(0), Effort(),
        )  # fmt: skip
        assert len(np.unique(labels)) == least


def test_whole_cells_are_a_start_where_they_fit():
    """Neighbours packed together hold, and are none where there are no places, copies, or too few items."""
    patterns = waves(300, 9_300.0)
    problem = build_problem(patterns, M3)
    types = ceps.plan(patterns, None, M3).type_of
    limit = np.array([1.0, 0.98, 0.99])[: len(types)]
    cells = _packed_cells(problem, types, np.random.default_rng(0), Effort(), limit)
    columns = problem.cluster_columns(cells)[:, :-1]
    assert (columns.max(axis=1) <= limit * problem.rates[types] * (1 + 1e-9)).all()
    reads = item_reads(problem, neighbours(patterns))
    assert calls_a_day(cells, reads) < 0.7 * calls_a_day(np.arange(300) % len(types), reads)
    for other in (
        replace(problem, positions=None),
        build_problem(patterns, M3, copies=2),
        build_problem(waves(9, 90.0), M3),
    ):
        assert _packed_cells(other, types, np.random.default_rng(0), Effort(), np.ones(3)) is None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("call_cost", [5.0, 50.0])
def test_call_cost_trades_as_every_placement_says(seed, call_cost):
    """Dollars of the fleet and of the calls together are the least of all placements, on tiny problems."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(0, 8, (6, 4)) * 100.0 + 50.0
    patterns = Patterns(loads=loads, sizes=rng.integers(1, 8, 6) * 100.0)
    types = (ServerType("big", 2_400.0, 6_000.0, 2.3), ServerType("small", 800.0, 2_000.0, 0.7))
    requests = [
        (set(rng.choice(6, rng.integers(2, 4), replace=False).tolist()), int(n)) for n in rng.integers(1, 9, 6) * 10**6
    ]
    reads, inside = reads_of(requests, 6)
    made = ceps.plan(replace(patterns, reads=reads), None, types, utilisation=1.0, call_cost=call_cost)
    assert_holds(made, patterns)
    total = loads.sum(axis=0)
    dollars = call_cost * 24 * min(2.3 / 2_400, 0.7 / 800) * total.max() / total.mean() / 86_400
    assert dollars_a_call(build_problem(patterns, types, 1.0), call_cost) == pytest.approx(dollars)
    least = oracles.cheapest_with_calls(
        loads, patterns.sizes, [2_400.0, 800.0], [6_000.0, 2_000.0], [2.3, 0.7], inside, dollars
    )
    further = (made.servers_a_request - 1) * reads.total
    assert made.cost_per_day + dollars * further == pytest.approx(least, rel=1e-9)
    assert made.options["call_cost"] == call_cost


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call_cost": -1.0}, "call_cost = -1.0"),
        ({"call_cost": np.inf}, "call_cost = inf"),
        ({"call_cost": 1.0, "method": "tv"}, "method 'tv' cannot trade calls"),
    ],
)
def test_call_costs_that_mean_nothing_are_refused(options, message):
    """By name, with what to do."""
    patterns = waves(8, 900.0)
    with pytest.raises(ValueError, match=message):
        ceps.plan(replace(patterns, reads=neighbours(patterns)), None, M3, **options)


def test_call_cost_needs_reads_and_a_fresh_plan():
    """Patterns that say nothing of what is read together, and repairs, cannot trade."""
    patterns = waves(8, 900.0)
    with pytest.raises(ValueError, match="call_cost needs patterns that say what requests read together"):
        ceps.plan(patterns, None, M3, call_cost=1.0)
    known = replace(patterns, reads=neighbours(patterns))
    before = ceps.plan(known, None, M3)
    with pytest.raises(ValueError, match="repair within a move budget cannot trade calls"):
        ceps.plan(known, None, M3, previous=before, move_budget=0.0, call_cost=1.0)
    assert ceps.plan(known, None, M3, previous=before, move_budget=0.0).servers_a_request == before.servers_a_request
