"""Groups on workers: brute force over all placements, noise, budgets, lost workers, bad input."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps.streams.evenness import fair_shares, least_imbalance
from ceps.streams.rebalance import Groups, rebalance, relieve, share_cut


def shares_of(loads, workers):
    """Loads over a worker's fair share, one slot a column, where no slot is thin."""
    loads = np.asarray(loads, dtype=np.float64).reshape(len(loads), -1)
    assert (loads.sum(axis=0) >= 100 * workers).all()
    return loads * workers / loads.sum(axis=0)


def uneven(shares, worker_of, workers):
    """The largest share of a worker, from the definition."""
    return max(
        sum(shares[g, t] for g in range(len(shares)) if worker_of[g] == k)
        for k in range(workers)
        for t in range(shares.shape[1])
    )


def best_by_force(loads, bytes, home, workers, budget):
    """The least imbalance of all placements within the budget."""
    shares, least = shares_of(loads, workers), np.inf
    sums = np.zeros((workers, shares.shape[1]))
    for one in product(range(workers), repeat=len(shares)):
        placed = np.array(one)
        if home is not None and sum(bytes[(home >= 0) & (home != placed)]) > budget:
            continue
        for k in range(workers):
            sums[k] = shares[placed == k].sum(axis=0)
        least = min(least, sums.max())
    return least


def case(seed, groups=8, workers=3):
    """Loads of one slot or some, bytes, a home or none, a budget."""
    rng = np.random.default_rng(seed)
    loads = rng.integers(1, 3000, (groups, 1 + seed % 4)) + 100
    bytes = rng.integers(1, 20, groups).astype(np.float64)
    home = None if seed % 3 == 0 else rng.integers(-1 if seed % 2 else 0, workers, groups)
    return loads, bytes, home, float(rng.choice([0.0, 6.0, 25.0, 1e6]))


@pytest.mark.parametrize("seed", range(12))
def test_eight_groups_on_three_workers_equal_brute_force(seed):
    """The least imbalance that the budget allows; the figures are those of the placement."""
    loads, bytes, home, budget = case(seed)
    found = rebalance(loads, bytes, home, 3, budget=budget, significance=1.0)
    shares = shares_of(loads, 3)
    assert found.after == pytest.approx(best_by_force(loads, bytes, home, 3, budget), rel=1e-9)
    assert found.after == pytest.approx(uneven(shares, found.worker_of, 3), rel=1e-12)
    moved = 0.0 if home is None else bytes[(home >= 0) & (home != found.worker_of)].sum()
    assert found.bytes_moved == moved <= budget
    assert found.bound <= found.after * (1 + 1e-12)
    assert found.after <= found.before * (1 + 1e-12)


@pytest.mark.parametrize("few", [20_000, 0])
@pytest.mark.parametrize("seed", range(1, 13))
def test_the_search_is_near_brute_force(seed, few, monkeypatch):
    """Also where not all placements are looked at: within 7 % on eight groups, and mostly the same."""
    monkeypatch.setattr("ceps.streams.rebalance._FEW", few)
    loads, bytes, home, budget = case(seed, workers=2)
    found = rebalance(loads, bytes, home, 2, budget=budget, significance=1.0)
    assert found.after <= best_by_force(loads, bytes, home, 2, budget) * (1.07 if few == 0 else 1 + 1e-9)
    assert found.bytes_moved <= budget


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    groups=st.integers(0, 40),
    workers=st.integers(1, 9),
    slots=st.integers(0, 5),
    budget=st.sampled_from([0.0, 3.0, 30.0, np.inf]),
    with_flow=st.booleans(),
)
def test_whatever_is_asked_the_figures_hold(seed, groups, workers, slots, budget, with_flow):
    """Every group has a worker, the budget and the bound hold, nothing is worse than before; twice alike."""
    rng = np.random.default_rng(seed)
    shape = (groups, slots) if slots else (groups,)
    loads = rng.integers(0, 2000, shape) * (rng.random(shape) > 0.3)
    bytes = rng.integers(0, 9, groups)
    home = None if seed % 2 else rng.integers(-1, workers, groups)
    flow = rng.integers(0, 9, (groups, groups)) if with_flow else None
    found = rebalance(loads, bytes, home, workers, budget=budget, flow=flow, seed=seed)
    again = rebalance(loads, bytes, home, workers, budget=budget, flow=flow, seed=seed)
    assert np.array_equal(found.worker_of, again.worker_of)
    assert found.worker_of.dtype == np.int64
    assert found.worker_of.shape == (groups,)
    assert ((found.worker_of >= 0) & (found.worker_of < workers)).all()
    assert found.bytes_moved <= budget
    most = found.before if flow is None else max(found.before, 1.2)
    assert found.bound * (1 - 1e-8) <= found.after <= most * (1 + 1e-8)
    if home is not None:
        moved = bytes[(home >= 0) & (home != found.worker_of)].sum()
        assert found.bytes_moved == moved
        assert not (found.explained and moved)


def test_nothing_moves_while_noise_explains_the_imbalance():
    """Poisson counts of equal groups, a hundred times; the same loads with one group doubled move."""
    rng = np.random.default_rng(1)
    home, bytes = np.arange(64) % 8, np.full(64, 10.0)
    for _ in range(100):
        found = rebalance(rng.poisson(60.0, (64, 3)), bytes, home, 8, budget=np.inf)
        assert found.explained
        assert found.bytes_moved == 0.0
        assert np.array_equal(found.worker_of, home)
        assert found.before > 1.02
    hot = np.full(64, 180.0)
    hot[:3] += (300.0, 0.0, 400.0)
    found = rebalance(hot, bytes, np.arange(64) // 8, 8, budget=np.inf)
    assert not found.explained
    assert found.after < 1.07 < 1.3 < found.before


def test_what_is_accepted_may_stand():
    """Whether noise explains it or not."""
    loads, bytes, home = [7000, 6000, 5000, 4000], np.ones(4), [0, 0, 1, 1]
    assert rebalance(loads, bytes, home, 2, budget=9, accepted=1.2).explained
    assert rebalance(loads, bytes, home, 2, budget=9, accepted=1.1).after == 1.0


def test_a_step_spends_no_more_than_its_budget_and_is_near_the_bound():
    """A hundred groups on eight workers, 5 % of the bytes: within 2 % of the bound."""
    rng = np.random.default_rng(5)
    loads = rng.gamma(3.0, 300.0, 100).round()
    bytes = rng.integers(50, 100, 100).astype(np.float64)
    home = np.arange(100) % 8
    budget = 0.05 * bytes.sum()
    found = rebalance(loads, bytes, home, 8, budget=budget)
    assert found.before > 1.15
    assert 0 < found.bytes_moved <= budget
    shares, _ = fair_shares(loads[:, None], 8)
    assert found.bound == least_imbalance(shares, bytes, home, 8, budget)
    assert found.after <= 1.02 * found.bound


def test_placement_by_pattern_sees_every_slot():
    """Half of the groups are busy by day, half by night: sums of the day are even, slots are not."""
    day, night = np.array([4000.0, 10.0]), np.array([10.0, 4000.0])
    loads = np.array([day] * 8 + [night] * 8)
    found = rebalance(loads, np.ones(16), None, 4, budget=0)
    assert found.after == pytest.approx(1.0)
    for k in range(4):
        assert (found.worker_of[:8] == k).sum() == (found.worker_of[8:] == k).sum() == 2


def test_groups_of_a_lost_worker_are_spread_and_others_stay():
    """They cost nothing; a further worker takes some."""
    home = np.arange(40) % 4
    lost = np.where(home == 3, -1, home)
    loads, bytes = np.full(40, 500.0), np.ones(40)
    found = rebalance(loads, bytes, lost, 3, budget=0.0)
    assert found.bytes_moved == 0.0
    assert np.array_equal(found.worker_of[home < 3], home[home < 3])
    assert found.after == pytest.approx(14 / (40 / 3))
    more = rebalance(loads, bytes, home, 5, budget=np.inf)
    assert (np.bincount(more.worker_of, minlength=5) == 8).all()
    assert more.bytes_moved == 8.0


def test_groups_without_rows_are_spread_by_number():
    """Before anything was counted, and beside groups that were."""
    assert np.bincount(rebalance(np.zeros(12), np.ones(12), None, 4, budget=0).worker_of).tolist() == [3, 3, 3, 3]
    loads = np.append(np.full(20, 1000.0), np.zeros(20))
    found = rebalance(loads, np.ones(40), None, 4, budget=0)
    assert np.bincount(found.worker_of[20:]).max() <= 6


def test_flow_trades_balance_for_transitions_that_stay():
    """Along a chain of equal groups; what is accepted bounds the trade, one worker would cut nothing."""
    count = 60
    flow = np.zeros((count, count))
    flow[np.arange(count - 1), np.arange(1, count)] = 10.0
    rng = np.random.default_rng(2)
    loads = rng.integers(800, 1200, (count, 3))
    plain = rebalance(loads, np.ones(count), None, 4, budget=0)
    tied = rebalance(loads, np.ones(count), None, 4, budget=0, flow=flow)
    tight = rebalance(loads, np.ones(count), None, 4, budget=0, flow=flow, accepted=1.05)
    cuts = [share_cut(found.worker_of, flow) for found in (plain, tied, tight)]
    assert cuts[1] <= cuts[2] < 0.5 * cuts[0]
    assert tied.after <= 1.2 + 1e-9
    assert tight.after <= 1.05 + 1e-9


def test_flow_of_few_groups_is_exact():
    """Fewest transitions are cut of all placements that are even enough."""
    rng = np.random.default_rng(4)
    loads, flow = rng.integers(800, 1200, (7, 2)), rng.integers(0, 9, (7, 7))
    found = rebalance(loads, np.ones(7), None, 2, budget=0, flow=flow, accepted=1.25)
    shares = shares_of(loads, 2)
    least = min(share_cut(np.array(one), flow) for one in product(range(2), repeat=7) if uneven(shares, one, 2) <= 1.25)
    assert share_cut(found.worker_of, flow) == pytest.approx(least)


def test_one_worker_and_no_groups():
    """Are even."""
    found = rebalance([5, 6], [1, 1], None, 1, budget=0)
    assert (found.worker_of.tolist(), found.before, found.after, found.bound) == ([0, 0], 1.0, 1.0, 1.0)
    assert rebalance([], [], None, 3, budget=0).worker_of.tolist() == []


def test_a_group_too_large_for_any_worker_moves_nothing_again_and_again():
    """After it stands alone, the bound is reached."""
    loads, bytes = np.append(np.full(30, 100.0), 5000.0), np.ones(31)
    found = rebalance(loads, bytes, np.arange(31) % 4, 4, budget=np.inf)
    assert found.after == pytest.approx(found.bound)
    again = rebalance(loads, bytes, found.worker_of, 4, budget=np.inf)
    assert again.bytes_moved == 0.0


GOOD = {"loads": [1.0, 2.0], "bytes": [1.0, 1.0], "home": [0, 1], "workers": 2, "budget": 1.0}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"loads": 3.0}, r"loads have shape \(\); it must be \(groups,\), or \(groups, slots\)"),
        ({"loads": [1.0, -2.0]}, r"loads\[1\] = -2; it must be from 0 to 1e\+15"),
        ({"loads": [[1.0, np.nan], [1.0, 2.0]]}, r"loads\[0, 1\] = nan; it must be"),
        ({"loads": ["a", "b"]}, "they must be numbers"),
        ({"bytes": [1.0]}, r"bytes have shape \(1,\); for 2 groups it must be \(2,\)"),
        ({"bytes": [1.0, np.inf]}, r"bytes\[1\] = inf; it must be from 0"),
        ({"home": [0]}, r"home has shape \(1,\); for 2 groups it must be \(2,\)"),
        ({"home": [0, 2]}, r"home\[1\] = 2; it must be a worker, a whole number from 0 to 1, or -1"),
        ({"home": [0, 0.5]}, r"home\[1\] = 0.5"),
        ({"home": [-2, 0]}, r"home\[0\] = -2"),
        ({"workers": 0}, "workers = 0; it must be a whole number from 1 to 100000"),
        ({"budget": -1.0}, "budget = -1.0; it must be bytes, 0 or more, or infinite"),
        ({"budget": np.nan}, "budget = nan; it must be bytes"),
        ({"flow": [[1.0]]}, r"flow have shape \(1, 1\); for 2 groups it must be \(2, 2\)"),
        ({"accepted": 0.9}, "accepted = 0.9; it must be an imbalance, 1 or more"),
        ({"significance": 0.0}, "significance = 0.0; it must be a chance above 0, at most 1"),
        ({"seed": -1}, "seed = -1; it must be a whole number from 0"),
    ],
)
def test_bad_input_is_named(changed, message):
    """The value, what it must be, and where it stands."""
    with pytest.raises(ValueError, match=message):
        rebalance(**{**GOOD, **changed})


def test_relief_is_a_function_of_its_arguments():
    """Whatever is asked before."""
    rng = np.random.default_rng(6)
    loads, bytes, home = rng.integers(100, 3000, 50), np.ones(50), np.arange(50) // 10
    groups = Groups(fair_shares(loads[:, None] * 1.0, 5)[0], bytes, home, 5, 12.0)
    first = relieve(groups, home, 1.0, np.random.default_rng(0))
    rebalance(loads, bytes, None, 5, budget=0)
    assert np.array_equal(first, relieve(groups, home, 1.0, np.random.default_rng(0)))
