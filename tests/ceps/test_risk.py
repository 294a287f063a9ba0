"""Overload risk: the gamma mean against drawing, levels and what is a server's own, days of the week, and variation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import Patterns
from ceps.model.variation import Variation, condensed, variation_of
from tests.ceps.instances import M3, waves
from tests.ceps.oracles import variation_day_by_day


def test_risk_is_the_mean_over_days_as_they_are_drawn():
    """A hundred thousand days of a common level, an own factor and Poisson counts: the share above capacity."""
    rng = np.random.default_rng(0)
    loads = np.array([[0.2, 0.8, 0.9, 0.5]])  # requests/s of a type that answers 1; slots of six hours
    levels, own = np.array([[0.7], [0.9], [1.1], [1.3]]), 0.04
    kind = ceps.ServerType("one", 1.0, np.inf, 1.0)
    variation = Variation(levels, np.array([own]))
    patterns = Patterns(loads=loads / 200, days=50.0, variation=variation)
    plan = ceps.plan(patterns, None, [replace(kind, requests_per_second=1 / 200)], utilisation=1.0)
    requests = loads[0] / 200 * 21_600
    limit = 21_600 / 200
    level = levels[rng.integers(4, size=100_000), 0][:, None]
    mean = requests * level
    spread = mean + requests / 50 + own * mean**2
    drawn = rng.gamma(mean**2 / spread, spread / mean)
    seen = np.maximum(drawn - limit, 0).sum() / (len(drawn) * requests.sum())
    assert plan.risk.overload == pytest.approx(seen, rel=0.03)
    assert plan.risk.overload == ceps.overload_risk(plan).overload


def same_days(day):
    """Seven days alike."""
    return replace(day, loads=np.tile(day.loads, 7), slot_seconds=3600)


def test_the_worst_weekday_and_each_server_have_their_own_risk(tmp_path):
    """A week whose Fridays are fuller: Friday is named, its share is the largest, servers add up to it."""
    week = same_days(waves(40, 8_000.0))
    loads = week.loads.copy()
    loads[:, 96:120] *= 1.3
    busy = replace(week, loads=loads, days=4.0, requests_per_event=3_000.0)
    plan = ceps.plan(busy, None, M3, utilisation=0.95)
    assert plan.risk.worst_name == "Friday"
    assert len(plan.risk.by_day) == 7
    assert plan.risk.worst == max(plan.risk.by_day) > 2 * plan.risk.by_day[0] > 0
    asked = plan.loads.reshape(len(plan), 7, 24).sum(axis=2)
    again = (np.array(plan.risk.by_server) * asked).sum(axis=0) / asked.sum(axis=0)
    np.testing.assert_allclose(again, plan.risk.by_day)
    assert plan.risk.overload == pytest.approx((np.array(plan.risk.by_day) * asked.sum(axis=0)).sum() / asked.sum())
    plan.save(tmp_path / "plan.json")
    assert ceps.load_plan(tmp_path / "plan.json").risk == plan.risk


def test_the_mean_of_a_week_hides_its_worst_day():
    """Planned on the mean, asked as the week is: the share is what the loads themselves say; planned on the week, 0."""
    week = same_days(waves(40, 8_000.0))
    loads = week.loads.copy()
    loads[:, :24] *= 1.5
    week = replace(week, loads=loads)
    mean = replace(week, loads=week.loads.reshape(40, 7, 24).mean(axis=1), slot_seconds=3600)
    by_mean, by_week = ceps.plan(mean, None, M3), ceps.plan(week, None, M3)
    asked = by_mean.under(week)
    late = np.maximum(asked.loads - asked.capacity[:, None], 0)[:, :24].sum() / asked.loads[:, :24].sum()
    assert late > 0.01
    found = ceps.overload_risk(asked)
    assert found.worst_name == "Monday"
    assert found.worst == pytest.approx(late, rel=0.02)
    assert by_week.risk.worst < 1e-9
    assert by_week.cost_per_day > by_mean.cost_per_day


def test_hourly_types_are_graded_by_the_type_of_the_hour():
    """Resized servers are as full at night as by day, so they are riskier than the largest of their types."""
    day = np.r_[np.full(12, 1_790.0), np.full(12, 890.0)]
    patterns = Patterns(loads=[day], requests_per_event=2_000.0)
    hourly = ceps.schedule(patterns, None, M3, utilisation=0.9, terms=ceps.Terms(0.0))
    fixed = ceps.plan(patterns, None, M3, utilisation=0.9)
    assert hourly.risk.overload > 1.2 * fixed.risk.overload
    assert hourly.utilisation_by_slot.max() <= 0.9
    np.testing.assert_allclose(hourly.capacity_by_slot[0], np.where(day > 900, 2_000, 1_000))


def test_variation_finds_what_days_were_drawn_with():
    """Common level of deviation 0.2, own of 0.3, Poisson counts: both come out; without them, nothing does."""
    rng = np.random.default_rng(1)
    mean = rng.uniform(40, 160, (24, 30))
    for common, own in ((0.2, 0.3), (0.0, 0.0)):
        level = rng.gamma(25, 1 / 25, (200, 1, 1)) if common else np.ones((200, 1, 1))
        factor = rng.gamma(1 / own**2, own**2, (200, 24, 30)) if own else np.ones((200, 24, 30))
        counts = rng.poisson(mean * level * factor).astype(float)
        found = variation_day_by_day(counts, np.zeros(200, int))
        assert found.common == pytest.approx(common**2, rel=0.25, abs=1e-4)
        assert found.own.mean() == pytest.approx(own**2 * (1 + common**2), rel=0.1, abs=1e-3)
        np.testing.assert_allclose(found.levels.mean(axis=0), 1, atol=0.02)


def test_one_day_says_nothing_of_variation():
    """Neither does a day of which there was only one; condensed levels keep their mean."""
    nothing = variation_of(np.ones((1, 24)), np.ones((1, 24)), np.ones(1), np.zeros(3), np.zeros(3), np.zeros(3))
    assert nothing.levels.shape == (0, 24)
    assert nothing.common == 0.0
    levels = np.random.default_rng(2).gamma(4, 0.25, (300, 24))
    assert condensed(levels).shape == (32, 24)
    np.testing.assert_allclose(condensed(levels)[:, 0].mean(), levels[:, 0].mean(), rtol=0.02)
    with pytest.raises(ValueError, match="2-dimensional"):
        Variation(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="of 2 partitions"):
        Patterns(loads=np.ones((3, 24)), variation=Variation(np.ones((1, 24)), np.ones(2)))


def test_variation_survives_the_patterns_file(tmp_path):
    """Levels and own come back bit by bit, also in a week and in its mean."""
    variation = Variation(np.random.default_rng(0).gamma(4, 0.25, (5, 24)), np.arange(3.0))
    mean = replace(waves(3, 10.0), variation=variation)
    days = [replace(mean, weekday=day, days=2.0) for day in range(7)]
    ceps.write_patterns(tmp_path / "p.parquet", [mean, *days])
    for week in (True, False):
        found = ceps.read_patterns(tmp_path / "p.parquet", week=week).variation
        assert found.levels.tobytes() == variation.levels.tobytes()
        assert found.own.tobytes() == variation.own.tobytes()
