"""Transitions that stay on a worker: what is cut, and that nothing else is given up for them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps.streams.rebalance import Groups, keep_transitions, share_cut


def test_the_share_that_is_cut():
    """What stays within a group is not counted."""
    flow = np.array([[100.0, 3.0], [1.0, 100.0]])
    assert share_cut(np.array([0, 1]), flow) == 1.0
    assert share_cut(np.array([0, 0]), flow) == 0.0
    assert share_cut(np.array([0, 1]), np.zeros((2, 2))) == 0.0
    assert share_cut(np.array([0, 0, 1]), np.array([[0, 3, 1], [0, 0, 0], [0, 0, 0]])) == 0.25


def test_rings_are_put_together():
    """Two rings of eight groups, each half on either worker: none is cut where balance may suffer on the way."""
    flow = np.zeros((16, 16))
    for ring in (range(0, 16, 2), range(1, 16, 2)):
        for a, b in zip(ring, [*ring[1:], ring[0]], strict=True):
            flow[a, b] = 1.0
    groups = Groups(np.full((16, 1), 1 / 8), np.ones(16), np.full(16, -1), 2, np.inf)
    start = np.repeat([0, 1], 8)
    found = keep_transitions(groups, start, flow, 1.26)
    assert share_cut(start, flow) == 0.25
    assert share_cut(found, flow) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(2, 4), st.floats(0, 1), st.floats(1, 2))
def test_balance_and_budget_hold(seed, count, workers, budget, accepted):
    """Whatever is kept, no more is cut, moved or uneven than allowed; and it is the same every time."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0, 1, (count, 3))
    shares *= workers / shares.sum(axis=0)
    home = rng.integers(-1, workers, count)
    start = np.where(home < 0, rng.integers(0, workers, count), home)
    bytes = rng.integers(1, 9, count).astype(np.float64)
    groups = Groups(shares, bytes, home, workers, budget * float(bytes.sum()))
    flow = rng.integers(0, 9, (count, count)).astype(np.float64)
    accepted = max(accepted, groups.imbalance(start))
    found = keep_transitions(groups, start, flow, accepted)
    assert share_cut(found, flow) <= share_cut(start, flow) + 1e-12
    assert groups.affordable(found)
    assert groups.imbalance(found) <= accepted * (1 + 1e-8)
    assert np.array_equal(found, keep_transitions(groups, start, flow, accepted))
