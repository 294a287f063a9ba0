"""Weightings, the fluid bound, decisions about fleets, and settled plans, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ceps
from ceps import Patterns, ServerType
from ceps.bounds import placing
from ceps.bounds.fluid import Fluid, weightings
from ceps.bounds.improve_or_prove import merges_into, settle
from ceps.bounds.lower_bounds import fleet_bound
from ceps.model.packing import Effort
from ceps.model.problem import InfeasibleError, build_problem, price
from ceps.planners.annealing import anneal
from ceps.planners.fleet_first import fleet_first
from tests.ceps import oracles
from tests.ceps.instances import M3, small_patterns, small_servers, waves
from tests.examples import examples


@st.composite
def tiny(draw, most=6):
    """A problem of a few items, with several types, storage, and sometimes copies or pins; and what stands apart."""
    copies = draw(st.sampled_from([1, 1, 1, 2]))
    made = draw(small_patterns(most=most // copies))
    pinned = None
    if copies == 1 and draw(st.booleans()):
        pinned = np.full(len(made), -1)
        pinned[: min(2, len(made))] = np.arange(min(2, len(made)))
    try:
        problem = build_problem(made, draw(small_servers()), 1.0, copies=copies, pinned=pinned)
    except InfeasibleError:
        problem = build_problem(made, (ServerType("all", 1e5, 1e5, 1.0),), 1.0, copies=copies, pinned=pinned)
    return problem


def apart(problem):
    """Pairs of items that share an exclusion group."""
    groups = [
        set(problem.group_of[problem.group_start[i] : problem.group_start[i + 1]].tolist())
        for i in range(len(problem))
    ]  # fmt: skip
    return [(a, b) for a, b in combinations(range(len(problem)), 2) if groups[a] & groups[b]]


def best_of(problem):
    return oracles.optimum(
        problem.loads, problem.bytes, problem.rates, problem.room, problem.prices, apart=apart(problem)
    )


def large_items(seed, items=7):
    """Items of a quarter to nearly all of a server, which do not divide: several types, with and without storage."""
    rng = np.random.default_rng(seed)
    made = Patterns(
        loads=np.round(rng.uniform(0.25, 0.95, (items, 1)) * rng.uniform(0.6, 1.0, (items, 3)) * 1000),
        sizes=np.round(rng.uniform(0.1, 0.9, items) * 1000),
    )
    room = np.inf if seed % 3 == 0 else 1000.0
    kinds = [ServerType("one", 1000.0, room, 1.0)]
    if seed % 2:
        kinds.append(ServerType("two", 1500.0, 1.3 * room, round(float(rng.uniform(1.2, 1.8)), 2)))
    return build_problem(made, tuple(kinds), 1.0)


MORE = pytest.mark.deep("more seeds of the same six kinds, of which make test has two each")


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=() if seed < 12 else MORE) for seed in range(30)])
def test_no_bound_is_above_the_optimum_of_large_items(seed):
    """Where items do not divide, bounds are far above the fleet bound, and never above what brute force finds."""
    problem = large_items(seed)
    best = best_of(problem)
    assert fleet_bound(problem) * (1 - 1e-12) <= Fluid(problem).bound() <= best * (1 + 1e-9)
    settled = settle(problem, price(problem, np.arange(len(problem))), seconds=120.0)
    assert settled.proven
    assert settled.outcome.cost_per_day == pytest.approx(best, rel=1e-9)
    assert settled.bound <= best * (1 + 1e-9)


def test_weightings_raise_the_bound_of_large_items():
    """In a third of the thirty, the fluid bound is above the fleet bound."""
    problems = [large_items(seed) for seed in range(30)]
    raised = [Fluid(problem).bound() > fleet_bound(problem) * (1 + 1e-9) for problem in problems]
    assert sum(raised) >= 10


@settings(max_examples=examples(60), deadline=None)
@given(tiny())
def test_bounds_stay_below_the_optimum(problem):
    """With several types, storage, copies and pins: weightings, fluid bound and settled bound."""
    best = best_of(problem)
    assert Fluid(problem).bound() <= best * (1 + 1e-9)
    outcome = fleet_first(problem, np.random.default_rng(0), Effort())
    settled = settle(problem, outcome, seconds=120.0)
    assert settled.bound <= best * (1 + 1e-9)
    assert settled.outcome.cost_per_day <= outcome.cost_per_day
    assert not problem.conflicts(settled.outcome.labels)
    assert price(problem, settled.outcome.labels).cost_per_day == pytest.approx(settled.outcome.cost_per_day)


@settings(max_examples=60, deadline=None)
@given(tiny(most=7))
def test_a_server_never_holds_more_than_a_weighting_says(problem):
    """Every set that a type holds weighs at most what the weighting gives that type."""
    for weighting in weightings(problem):
        for group in range(1, 2 ** len(problem)):
            members = [i for i in range(len(problem)) if group >> i & 1]
            held = problem.types_that_hold(problem.columns[members].sum(axis=0)[None, :])[0]
            assert (weighting.of_item[members].sum() <= weighting.of_type[held] + 1e-9).all()


@settings(max_examples=examples(60), deadline=None)
@given(tiny(most=5), st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_what_is_said_of_a_fleet_is_what_trying_all_placements_says(problem, kinds):
    """Both deciders and the fluid peak, on fleets of one to three servers."""
    types = np.sort(np.array(kinds) % len(problem.servers))
    possible = any(
        placing.fits(problem, np.array(labels), types)
        for labels in np.ndindex(*[len(types)] * len(problem))
    )  # fmt: skip
    for verdict in (placing.pack_nearly_full(problem, types), placing.assign(problem, types, 120.0)):
        assert not (verdict.impossible and possible)
        if verdict.labels is not None:
            assert possible
            assert placing.fits(problem, verdict.labels, types)
    assert placing.assign(problem, types, 120.0) != placing.UNKNOWN
    if possible:
        assert not Fluid(problem).too_small(np.bincount(types, minlength=len(problem.servers)))


def test_large_items_and_dust_are_proved_at_once():
    """30 items of 0.51 of a server need 30 servers; the dust between them fits. The fleet bound says 19."""
    loads = np.repeat(np.append(np.full(30, 510.0), np.full(300, 10.0))[:, None], 24, axis=1)
    plain = ceps.plan(loads, np.zeros(330), M3[:1], utilisation=1.0)
    assert plain.gap == pytest.approx(30 / 19)
    proved = ceps.plan(loads, np.zeros(330), M3[:1], utilisation=1.0, prove=60.0)
    assert (len(proved), proved.gap) == (30, pytest.approx(1.0, abs=1e-12))
    np.testing.assert_array_equal(proved.server_of, plain.server_of)


def triplets(bins, seed, slots=1):
    """Three items fill a server to the last request, as in Falkenauer's instances; other slots are emptier."""
    rng = np.random.default_rng(seed)
    first = rng.integers(380, 490, bins)
    second = rng.integers(250, (1000 - first) // 2 + 1)
    items = rng.permutation(np.concatenate([first, second, 1000 - first - second]).astype(float))
    shape = rng.uniform(0.3, 1.0, (len(items), slots))
    shape[:, slots // 2] = 1.0
    return Patterns(loads=items[:, None] * shape, sizes=np.zeros(len(items)))


@pytest.mark.parametrize(("bins", "slots"), [(20, 1), (40, 1), (40, 8)])
def test_triplets_are_packed_to_the_last_request(bins, slots):
    """The default plan takes a server more."""
    made = triplets(bins, 1, slots)
    plain = ceps.plan(made, None, M3[:1], utilisation=1.0)
    proved = ceps.plan(made, None, M3[:1], utilisation=1.0, prove=60.0)
    assert len(plain) == bins + 1
    assert (len(proved), proved.gap) == (bins, pytest.approx(1.0, abs=1e-12))
    assert proved.loads.max() <= 1000 * (1 + 1e-9)


def hidden(servers, items, slots, seed):
    """Noisy days of which `items` each fill a server to 0.97 in every slot."""
    rng = np.random.default_rng(seed)
    loads = rng.dirichlet(np.full(items, 3.0), servers)[:, :, None]
    loads = loads * np.exp(0.3 * rng.standard_normal((servers, items, slots)))
    loads *= 970 / loads.sum(axis=1, keepdims=True)
    return Patterns(loads=rng.permutation(loads.reshape(-1, slots)), sizes=np.zeros(servers * items))


@pytest.mark.parametrize(
    ("count", "items", "slots"),
    [
        (6, 12, 48),
        pytest.param(10, 20, 288, marks=pytest.mark.deep("larger, with as many slots as five minutes a day")),
    ],
)
def test_noisy_days_that_hide_a_packing_are_packed_again(count, items, slots):
    """The default plan needs a server more than there are, annealing finds as many."""
    made = hidden(count, items, slots, 0)
    plain = ceps.plan(made, None, M3[:1], utilisation=1.0)
    proved = ceps.plan(made, None, M3[:1], utilisation=1.0, prove=60.0)
    again = ceps.plan(made, None, M3[:1], utilisation=1.0, prove=60.0)
    assert (len(plain), len(proved), proved.gap) == (count + 1, count, pytest.approx(1.0, abs=1e-12))
    np.testing.assert_array_equal(proved.server_of, again.server_of)


def test_types_of_unlike_storage_raise_the_bound():
    """A fleet that has the requests of one type and the bytes of another holds nothing: items need both at once."""
    kinds = (
        ServerType("fast", 1000.0, 10.0, 1.0),
        ServerType("roomy", 10.0, 1000.0, 1.0),
        ServerType("x", 1e3, 1e3, 5.0),
    )
    problem = build_problem(Patterns(loads=np.full((20, 2), 100.0), sizes=np.full(20, 100.0)), kinds, 1.0)
    assert fleet_bound(problem) == pytest.approx(24 * 4)
    assert Fluid(problem).bound() == pytest.approx(24 * 10)


def test_copies_and_pins_stand_apart_after_annealing():
    """Neither way of annealing puts two copies of a partition on one server."""
    problem = build_problem(waves(30, 14_500.0, noise=0.5), M3[1:2], 1.0, copies=2)
    packing = anneal(problem, np.zeros(8, dtype=np.int64), np.random.default_rng(0), Effort(), 200_000)
    assert not problem.conflicts(packing.label)
    np.testing.assert_allclose(packing.load[:, :-1].sum(axis=0).max(), problem.need[0])


def test_merging_needs_rate_and_room_at_once():
    """Two mediums go into a large one; two that have its requests but more bytes do not."""
    kinds = (ServerType("a", 100.0, 100.0, 1.0), ServerType("b", 200.0, 150.0, 1.9), ServerType("c", 200.0, 200.0, 2.5))
    problem = build_problem(Patterns(loads=np.ones((2, 2)), sizes=np.ones(2)), kinds, 1.0)
    assert merges_into(problem, np.array([2, 0, 0]), np.array([0, 0, 1]))
    assert not merges_into(problem, np.array([2, 0, 0]), np.array([0, 1, 0]))


def test_a_repair_and_a_written_method_keep_their_placement():
    """Only their bound is raised."""
    made = triplets(20, 1)
    options = {"servers": M3[:1], "utilisation": 1.0}
    for method in ("tv", "gp"):
        if method == "gp":
            made = Patterns(loads=made.loads, sizes=made.sizes, positions=np.zeros((60, 2)))
        plain = ceps.plan(made, method=method, **options)
        proved = ceps.plan(made, method=method, prove=0.2, **options)
        np.testing.assert_array_equal(plain.server_of, proved.server_of)
        assert plain.lower_bound <= proved.lower_bound <= proved.cost_per_day
