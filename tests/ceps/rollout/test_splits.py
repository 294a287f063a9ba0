"""Advice to split: true by a plan of the halves, made by hand; none where cutting cannot help."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import ceps
from ceps import Patterns, ServerType
from ceps.rollout.splits import TRIES, halved, split_advice
from tests.ceps.instances import M3, waves

SMALL = ServerType("small", 500.0, np.inf, 1.0)
LARGE = ServerType("large", 1000.0, np.inf, 3.0)


def flat(*peaks, sizes=None):
    loads = np.repeat(np.array(peaks, float)[:, None], 24, axis=1)
    numbers = 10 + np.arange(len(peaks))
    return Patterns(loads, np.ones(len(peaks)) if sizes is None else np.array(sizes, float), partitions=numbers)


def by_hand(patterns, number):
    """One partition cut in two, written out."""
    at = patterns.partitions.tolist().index(number)
    loads = [row / 2 if k == at else row for k, row in enumerate(patterns.loads)] + [patterns.loads[at] / 2]
    sizes = [size / 2 if k == at else size for k, size in enumerate(patterns.sizes)] + [patterns.sizes[at] / 2]
    return Patterns(np.array(loads), np.array(sizes))


def test_a_partition_that_needs_a_dear_type():
    """900 requests/s need the large type; two halves stand on small ones, and the advice is what that plan costs."""
    patterns, kinds = flat(50, 900, 60), (SMALL, LARGE)
    plan = ceps.plan(patterns, None, kinds, utilisation=1.0)
    advice = split_advice(patterns, plan)
    then = ceps.plan(by_hand(patterns, 11), None, kinds, utilisation=1.0)
    assert (plan.cost_per_day, then.cost_per_day) == (96.0, 72.0)
    assert advice.partitions == (11,)
    assert (advice.cost_per_day, advice.servers, advice.rebuild_with) == (then.cost_per_day, len(then), 6)
    assert advice.saved_per_day == plan.cost_per_day - then.cost_per_day > 0
    month = then.cost_per_day * 730 / 24
    assert str(advice).startswith(f"split 11: then ${month:,.2f} a month, ")
    assert str(advice).endswith("; rebuild with 6 partitions")
    assert json.loads(json.dumps(advice.to_dict()))["text"] == str(advice)


def test_several_that_decide_together():
    """Three that pair with nothing, and a small one: two servers only once all are halves."""
    patterns = flat(300, 300, 300, 100)
    plan = ceps.plan(patterns, None, (SMALL,), utilisation=1.0)
    assert plan.cost_per_day == 72.0
    advice = split_advice(patterns, plan)
    assert advice.cost_per_day == 48.0
    then = halved(patterns, np.array(advice.partitions) - 10)
    assert ceps.plan(then, None, (SMALL,), utilisation=1.0).cost_per_day == 48.0
    assert len(advice.partitions) == TRIES
    assert str(advice).startswith("split 10, 11, 12 and 13: then")


def test_own_machines_are_counted():
    """Where servers cost nothing, splitting saves a server."""
    own = (replace(SMALL, dollars_per_hour=0.0),)
    patterns = flat(300, 300, 300, 100)
    advice = split_advice(patterns, ceps.plan(patterns, None, own, utilisation=1.0))
    assert (advice.cost_per_day, advice.servers, advice.servers_saved) == (0.0, 2, 1)
    assert "then 2 servers, 1 fewer; rebuild with 8 partitions" in str(advice)


def test_storage_may_decide():
    """Bytes that fill a large type by themselves are split as load is."""
    kinds = (ServerType("small", 1e4, 500.0, 1.0), ServerType("large", 1e4, 1000.0, 3.0))
    patterns = flat(5, 5, 5, sizes=(900, 50, 50))
    advice = split_advice(patterns, ceps.plan(patterns, None, kinds))
    assert (advice.partitions, advice.cost_per_day) == ((10,), 48.0)


@pytest.mark.parametrize("what", ["at the bound", "hourly", "spare", "no time", "no use"])
def test_no_advice_where_none_helps(what):
    """A plan at the fleet bound, by the hour, with a spare; no time to try; halves that cost the same."""
    patterns, kinds = flat(50, 900, 60), (SMALL, LARGE)
    plan = ceps.plan(patterns, None, kinds, utilisation=1.0)
    if what == "at the bound":
        patterns, kinds = waves(200, 20_000.0), M3
        plan = ceps.plan(patterns, None, kinds)
        assert plan.gap == 1.0
    elif what == "hourly":
        plan = ceps.schedule(patterns, None, kinds, utilisation=1.0)
    elif what == "spare":
        plan = ceps.plan(patterns, None, kinds, utilisation=1.0, spare=True)
    elif what == "no use":
        patterns = flat(334, 334, 334, 334)
        plan = ceps.plan(patterns, None, (SMALL,), utilisation=1.0)
        assert plan.gap == 4 / 3
    assert split_advice(patterns, plan, 0.0 if what == "no time" else None) is None
