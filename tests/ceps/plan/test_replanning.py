"""Whether the plan in force changes: only where it has to, within the bytes that may move, and not too often."""

from __future__ import annotations

import numpy as np
import pytest

import ceps
from ceps.plan.planning import plan
from ceps.plan.plans import diff
from ceps.plan.replan import DAY_SECONDS, Forecast, Past, Replanning, decide, forecast, within_bytes

TYPES = ceps.load_servers("m3-2015")


def usual(partitions=60, peak=9_000.0, seed=1):
    """Patterns of a day in slots of a quarter of an hour."""
    rng = np.random.default_rng(seed)
    hour = np.arange(96) / 4
    shift = rng.uniform(0, 24, (partitions, 1))
    loads = rng.gamma(1.0, 1.0, (partitions, 1)) * (1 + np.cos((hour - shift) / 24 * 2 * np.pi))
    loads *= peak / loads.sum(axis=0).max()
    return ceps.Patterns(loads, sizes=rng.uniform(1e6, 2e6, partitions), days=7.0)


@pytest.fixture(scope="module")
def made():
    """Patterns, and the plan of the night."""
    one = usual()
    return one, plan(one, servers=TYPES, method="fleet", prove=0.0)


def test_on_a_day_like_the_pattern_nothing_changes(made):
    """At no quarter of the hour."""
    one, in_force = made
    rng, past = np.random.default_rng(2), Past()
    loads = rng.poisson(one.loads * 900) / 900
    for slot in range(4, 96, 4):
        found = decide(Replanning(TYPES), in_force, forecast(one, loads, slot, 4), slot * 900.0, past)
        assert found.made is None, found.why
        past = found.past


def test_twice_as_much_is_mended_within_the_bytes_that_may_move(made):
    """The line says why; what is moved is at most the share, and counts for the next decision."""
    one, in_force = made
    expected = forecast(one, one.loads * 2, 30, 4)
    rules = Replanning(TYPES, move_share=0.1)
    found = decide(rules, in_force, expected, 1e6)
    assert found.made is not None
    assert "is expected to be" in found.why
    assert found.moved <= 0.1 * in_force.bytes.sum() + 1e-6
    assert found.moved == diff(found.made, in_force).bytes_moved
    assert found.expected < found.fullest
    over = [np.maximum(p.loads - p.capacity_by_slot, 0).sum() for p in (in_force.under(expected.patterns), found.made)]
    assert over[1] < over[0]
    assert sorted(found.made.partitions.tolist()) == sorted(in_force.partitions.tolist())
    # the dwell time, and then the rest of the bytes
    again = decide(rules, found.made, expected, 1e6 + 60, found.past)
    assert again.made is None
    later = decide(rules, found.made, expected, 1e6 + 7200, found.past)
    assert found.moved + later.moved <= 0.1 * in_force.bytes.sum() + 1e-6


def test_without_a_limit_all_that_is_too_full_is_mended(made):
    """No server is expected to be fuller than the target."""
    one, in_force = made
    found = decide(Replanning(TYPES, move_share=1.0), in_force, forecast(one, one.loads * 1.6, 30, 4), 0.0)
    assert found.made is not None
    assert found.expected <= 0.9 + 1e-9
    kept = set(in_force.server_ids.tolist()) & set(found.made.server_ids.tolist())
    assert kept


def test_a_saving_is_taken_when_it_has_lasted_a_day(made):
    """Not before, and not where it came and went."""
    one, in_force = made
    half = Forecast(usual(peak=3_000.0), 1.0, np.ones(60), 0)
    rules = Replanning(TYPES, move_share=1.0)
    first = decide(rules, in_force, half, 1_000.0)
    assert first.made is None
    assert "it is waited for a day" in first.why
    assert first.past.saving_since == 1_000.0
    assert decide(rules, in_force, half, 1_000.0 + DAY_SECONDS / 2, first.past).made is None
    usually = decide(rules, in_force, Forecast(one, 1.0, np.ones(60), 0), 2_000.0, first.past)
    assert usually.past.saving_since is None
    at_last = decide(rules, in_force, half, 1_000.0 + DAY_SECONDS, first.past)
    assert at_last.made is not None
    assert at_last.after < at_last.before


def test_changes_of_more_than_a_day_ago_are_forgotten(made):
    """Their bytes may move again."""
    one, in_force = made
    full = Past(((0.0, float(in_force.bytes.sum())),))
    expected = forecast(one, one.loads * 2, 30, 4)
    rules = Replanning(TYPES, move_share=0.05)
    soon = decide(rules, in_force, expected, 7_200.0, full)
    assert soon.moved == 0.0
    assert decide(rules, in_force, expected, DAY_SECONDS + 1, full).moved > 0.0


def test_no_bytes_leave_each_partition_where_it_is(made):
    """And all bytes make the plan that is wanted."""
    _, in_force = made
    wanted = plan(usual(peak=18_000.0), servers=TYPES, method="fleet", previous=in_force, prove=0.0)
    patterns = usual(peak=18_000.0)
    none = within_bytes(wanted, in_force, 0.0, patterns, 0.9)
    assert diff(none, in_force).partitions_moved == ()
    some = within_bytes(wanted, in_force, 0.2 * in_force.bytes.sum(), patterns, 0.9)
    assert 0 < diff(some, in_force).bytes_moved <= 0.2 * in_force.bytes.sum()
    assert np.isclose(some.loads.sum(), patterns.loads.sum())


def test_rules_that_cannot_be_are_refused():
    """With the value."""
    for given in ({"utilisation": 0.0}, {"move_share": 1.5}, {"dwell": -1.0}):
        with pytest.raises(ValueError, match=next(iter(given))):
            Replanning(TYPES, **given)
