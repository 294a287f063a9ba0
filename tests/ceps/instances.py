"""Instances that several test files share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from ceps import Patterns, ServerType

M3 = (
    ServerType("medium", 1000.0, np.inf, 0.067),
    ServerType("large", 2000.0, np.inf, 0.133),
    ServerType("xlarge", 4000.0, np.inf, 0.266),
    ServerType("2xlarge", 8000.0, np.inf, 0.532),
)


def servers(bytes_of_smallest: float = np.inf) -> tuple[ServerType, ...]:
    """The m3 types, storage unlimited or in proportion."""
    return tuple(
        ServerType(kind.name, kind.requests_per_second, bytes_of_smallest * 2**power, kind.dollars_per_hour)
        for power, kind in enumerate(M3)
    )


def waves(partitions: int, peak: float, seed: int = 0, slots: int = 24, noise: float = 0.0) -> Patterns:
    """Daily waves with different busy hours, sizes and places; `peak` is the total's."""
    rng = np.random.default_rng(seed)
    hour = np.arange(slots) * 24 / slots
    busy = rng.uniform(0, 24, partitions)
    height = rng.uniform(0.2, 1.0, partitions)
    loads = height[:, None] * (1.05 + np.cos(2 * np.pi * (hour - busy[:, None]) / 24))
    if noise:
        loads *= rng.uniform(1 - noise, 1 + noise, loads.shape)
    loads *= peak / loads.sum(axis=0).max()
    places = np.column_stack([busy * 15 - 180, rng.uniform(-50, 60, partitions)])
    return Patterns(loads=loads, sizes=np.round(height * 1e9), positions=places)


@st.composite
def small_patterns(draw, most: int = 6, slots: int = 4):
    """Up to `most` partitions over a day of a few slots; whole requests, with ties, zeros and duplicates."""
    count = draw(st.integers(1, most))
    row = st.lists(st.integers(0, 8), min_size=slots, max_size=slots)
    loads = draw(st.lists(row, min_size=count, max_size=count))
    sizes = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    return Patterns(loads=np.array(loads, float) * 100, sizes=np.array(sizes, float) * 100)


@st.composite
def small_servers(draw):
    """One to three types whose largest holds any partition of `small_patterns`."""
    types = [ServerType("big", 800.0 * draw(st.integers(1, 3)), 800.0 * draw(st.integers(1, 3)), 1.0)]
    for number in range(draw(st.integers(0, 2))):
        types.append(
            ServerType(
                f"small{number}",
                float(draw(st.integers(2, 10)) * 100),
                float(draw(st.integers(2, 10)) * 100),
                draw(st.integers(2, 12)) / 10,
            )
        )
    return tuple(types)


def assert_holds(plan, patterns, growth=1.0):
    """Every slot and every byte of the original matrix is within u times capacity; copies stand apart."""
    assert plan.replicas.shape == (len(patterns), plan.copies)
    for k, kind in enumerate(plan.types):
        rows = np.flatnonzero((plan.replicas == k).any(axis=1))
        load = sum((patterns.loads[row] * growth / plan.copies for row in rows), np.zeros(patterns.slots))
        assert load.max(initial=0) <= plan.utilisation * kind.requests_per_second * (1 + 1e-9)
        assert patterns.sizes[rows].sum() <= kind.bytes * (1 + 1e-9)
        np.testing.assert_allclose(plan.loads[k], load, rtol=1e-12, atol=1e-12)
        assert plan.bytes[k] == patterns.sizes[rows].sum()
    for row in plan.replicas:
        assert len(set(row.tolist())) == plan.copies
    assert plan.cost_per_day == pytest.approx(24 * sum(kind.dollars_per_hour for kind in plan.types))
    assert plan.lower_bound <= plan.cost_per_day * (1 + 1e-9)
