"""The forecast of the coming day: the usual one at today's level, as far as that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ceps
from ceps.plan.replan import forecast


def usual(partitions=6, slots=96, rate=20.0, seed=0):
    """Patterns that differ by partition and slot."""
    rng = np.random.default_rng(seed)
    loads = rate * rng.uniform(0.2, 2, (partitions, 1)) * (1 + 0.5 * np.sin(np.arange(slots) / slots * 2 * np.pi))
    return ceps.Patterns(loads, sizes=np.ones(partitions), days=7.0)


def test_before_the_day_has_begun_the_usual_one_is_expected():
    """Whatever today's numbers are."""
    one = usual()
    found = forecast(one, np.full(one.loads.shape, 1e6), 0)
    assert np.array_equal(found.patterns.loads, one.loads)
    assert (found.level, found.slots) == (1.0, 0)


@pytest.mark.parametrize("times", [0.5, 1.0, 2.0])
def test_a_level_that_is_certain_is_taken_for_the_rest_of_today_and_not_for_tomorrow(times):
    """The slots that have ended are tomorrow's: as usual."""
    one = usual(rate=1e6)
    found = forecast(one, one.loads * times, 40)
    assert found.level == pytest.approx(times, rel=1e-3)
    assert np.allclose(found.patterns.loads[:, 40:], one.loads[:, 40:] * times, rtol=1e-2)
    assert np.array_equal(found.patterns.loads[:, :40], one.loads[:, :40])


def test_one_partition_that_is_twice_as_busy_is_told_apart_from_the_others():
    """Where its requests are many."""
    one = usual(rate=1e4)
    today = one.loads.copy()
    today[2] *= 2
    found = forecast(one, today, 50)
    assert found.levels[2] == pytest.approx(2.0, abs=0.05)
    others = np.delete(found.levels, 2)
    assert np.abs(others - 1).max() < 0.1


def test_few_requests_say_little():
    """A handful more than usual moves the level hardly."""
    rng = np.random.default_rng(3)
    one = usual(rate=5e-4)
    drawn = [forecast(one, rng.poisson(one.loads * 900) / 900, 20).level for _ in range(200)]
    raw = []
    for _ in range(200):
        today = rng.poisson(one.loads * 900) / 900
        raw.append(today[:, :20].sum() / one.loads[:, :20].sum())
    assert np.std(drawn) < 0.8 * np.std(raw)
    assert abs(np.mean(drawn) - 1) < 0.05


@given(st.integers(0, 1_000), st.integers(0, 24), st.integers(0, 24))
def test_levels_lie_between_what_was_seen_and_what_is_usual(seed, seen, window):
    """And nothing is negative, not finite or of another shape."""
    rng = np.random.default_rng(seed)
    loads = rng.gamma(0.5, 1.0, (4, 24)) * (rng.random((4, 1)) < 0.8)
    one = ceps.Patterns(loads)
    today = rng.gamma(0.5, 2.0, (4, 24))
    found = forecast(one, today, seen, window)
    assert found.patterns.loads.shape == loads.shape
    assert np.isfinite(found.patterns.loads).all()
    assert (found.patterns.loads >= 0).all()
    if seen and loads.sum() > 0:
        part = slice(max(seen - window, 0) if window else 0, seen)
        expected = loads[:, part].sum()
        if expected > 0:
            ratio = today[:, part].sum() / expected
            assert min(ratio, 1) - 1e-9 <= found.level <= max(ratio, 1) + 1e-9


def test_what_is_never_asked_is_expected_to_be_asked_on():
    """At the rate of today."""
    one = usual()
    loads = one.loads.copy()
    loads[0] = 0
    today = loads.copy()
    today[0] = 7.0
    found = forecast(replace(one, loads=loads), today, 10)
    assert found.patterns.loads[0, 10:].tolist() == [7.0] * 86


def test_what_does_not_fit_is_refused():
    """Shapes, weeks, and numbers that are none."""
    one = usual()
    with pytest.raises(ValueError, match="shape"):
        forecast(one, np.zeros((2, 3)), 1)
    with pytest.raises(ValueError, match="not finite"):
        forecast(one, np.full(one.loads.shape, np.nan), 1)
    with pytest.raises(ValueError, match="seen"):
        forecast(one, one.loads, 97)
    week = ceps.Patterns(np.ones((2, 7 * 24)))
    with pytest.raises(ValueError, match="week"):
        forecast(week, week.loads, 1)
