"""How even loads are: thin slots, what noise explains, bounds that hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps.streams.evenness import THICK, explained_by_noise, fair_shares, imbalance, least_imbalance, loads_of


@given(st.lists(st.integers(0, 500), min_size=1, max_size=12), st.integers(2, 4))
def test_thin_slots_are_counted_with_others(rows, workers):
    """No row is lost, no slot is thin while there are others, and thick ones stay as they are."""
    loads = np.array([rows, rows], dtype=np.float64)
    shares, totals = fair_shares(loads, workers)
    assert shares.shape == (2, len(totals))
    assert totals.sum() == loads.sum()
    assert len(totals) == 1 or (totals >= THICK * workers).all()
    if loads.any():
        assert np.allclose(shares.sum(axis=0), workers)
    thick = 2 * np.array(rows) >= THICK * workers
    if thick.all():
        assert np.array_equal(totals, 2 * np.array(rows, dtype=np.float64))


def test_where_nothing_was_counted_groups_count_alike():
    """One slot, without rows."""
    shares, totals = fair_shares(np.zeros((4, 3)), 2)
    assert (shares.tolist(), totals.tolist()) == ([[0.5]] * 4, [0.0])


def test_loads_and_imbalance_are_sums():
    """A group that is nowhere counts nowhere; no groups are even."""
    shares = np.array([[1.0, 0.0], [0.5, 2.0], [0.25, 0.5]])
    assert loads_of(shares, np.array([0, 1, -1]), 3).tolist() == [[1.0, 0.0], [0.5, 2.0], [0.0, 0.0]]
    assert imbalance(shares, np.array([1, 1, 0]), 2) == 2.0
    assert imbalance(np.zeros((0, 1)), np.zeros(0, np.int64), 2) == 1.0


@pytest.mark.parametrize("significance", [0.5, 0.01, 1e-4, 1e-9])
@pytest.mark.parametrize(("rows", "workers"), [(1, 2), (7, 3), (80, 8), (999, 2), (5000, 8)])
def test_noise_explains_up_to_the_quantile(rows, workers, significance):
    """The least count that is exceeded with no more than the chance, by summing the binomial law."""
    from scipy.stats import binom

    found = explained_by_noise(np.array([rows, rows], dtype=np.float64), workers, significance)
    chance = 1 - (1 - significance) ** (1 / (2 * workers))
    counts = np.arange(rows + 1)
    least = counts[(binom.sf(counts, rows, 1 / workers) <= chance * (1 + 1e-9)).argmax()]
    assert found.tolist() == [pytest.approx(least * workers / rows)] * 2


def test_noise_explains_anything_where_nothing_was_counted_and_nothing_where_moves_are_free():
    """No rows: infinite. A chance of 1: none."""
    assert explained_by_noise(np.array([0.0]), 3, 0.01).tolist() == [np.inf]
    assert explained_by_noise(np.array([50.0, 1e9]), 3, 1.0).tolist() == [0.0, 0.0]


def test_noise_alone_is_explained():
    """Of 2,000 draws with a chance of 1 in 100, about 20 are above."""
    rng = np.random.default_rng(3)
    totals = np.full(4, 2_000.0)
    limit = explained_by_noise(totals, 5, 0.01)
    draws = rng.multinomial(2_000, np.full(5, 0.2), size=(2_000, 4)).max(axis=2) * 5 / 2_000
    assert (draws > limit * (1 + 1e-9)).any(axis=1).sum() <= 40


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 3), st.floats(0, 40))
def test_no_placement_within_the_budget_undercuts_the_bound(seed, count, workers, budget):
    """Of all placements, some groups without a home."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0, 1, (count, 2)) * (rng.random((count, 2)) > 0.2)
    shares *= workers / np.maximum(shares.sum(axis=0), 1e-9)
    bytes, home = rng.integers(0, 20, count).astype(np.float64), rng.integers(-1, workers, count)
    bound = least_imbalance(shares, bytes, home, workers, budget)
    for one in product(range(workers), repeat=count):
        placed = np.array(one)
        if bytes[(home >= 0) & (home != placed)].sum() <= budget and shares.any(axis=0).all():
            assert imbalance(shares, placed, workers) >= bound * (1 - 1e-9)


def test_a_bound_counts_what_bytes_allow():
    """Half of the load above must leave worker 0: with 5 bytes the one group of 5 goes, 0.5 stay too many."""
    shares = np.array([[0.5], [0.5], [0.5], [0.5]])
    bytes, home = np.full(4, 5.0), np.array([0, 0, 0, 1])
    assert least_imbalance(shares, bytes, home, 2, 5.0) == pytest.approx(1.0)
    assert least_imbalance(shares, bytes, home, 2, 2.5) == pytest.approx(1.25)
    assert least_imbalance(shares, bytes, home, 2, 0.0) == pytest.approx(1.5)
