"""Real check-ins, where they are: skipped without them. Made data tests the same in the other files."""

from __future__ import annotations

import numpy as np
import pytest

import ceps
from ceps import Patterns
from datasets.workloads import kd_leaves
from tests.ceps.instances import M3, assert_holds, waves
from tests.data import real_set


def events(name: str):
    """Places (n, 2) and seconds of the UTC day (n,) of check-ins."""
    import pyarrow.parquet as pq

    table = pq.read_table(real_set(name), columns=["t", "lon", "lat"])
    lonlat = np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()])
    return lonlat, table["t"].to_numpy().astype("datetime64[s]").astype(np.int64) % 86_400


def checkins(name: str, partitions: int, peak: float) -> Patterns:
    """Patterns of check-ins folded on one day, smoothed over half an hour."""
    lonlat, second = events(name)
    leaf = kd_leaves(lonlat, partitions)
    count = int(leaf.max()) + 1
    loads = np.zeros((count, 288))
    np.add.at(loads, (leaf, second // 300), 1 / 300)
    made = Patterns(loads=loads, sizes=np.bincount(leaf, minlength=count) * 8.0)
    made = made.smoothed(1800)
    return made.scaled(peak / made.peak)


@pytest.mark.parametrize("name", ["gowalla_checkins", "gowalla_weekpattern", "brightkite_checkins"])
@pytest.mark.parametrize("method", ["fleet", "gain"])
def test_lower_bound_on_checkins(name, method):
    """At u = 1.0 the plan for real check-ins costs the lower bound (500 partitions where places allow)."""
    patterns = checkins(name, 500, 12_400.0)
    plan = ceps.plan(patterns, None, M3, utilisation=1.0, method=method)
    assert_holds(plan, patterns)
    assert plan.gap == pytest.approx(1.0)


def test_the_other_half_fits():
    """Planned on a random half of Gowalla's check-ins at u = 0.9, the other half overloads nothing."""
    assert held_out(*events("gowalla_weekpattern")) < 1e-4


def test_the_other_half_of_made_checkins_fits():
    """The same on made events: what a plan at u = 0.9 has not seen stays within full capacity."""
    base = waves(60, 1.0, slots=288)
    rng = np.random.default_rng(0)
    chance = (base.loads / base.loads.sum()).ravel()
    event = rng.choice(len(chance), 300_000, p=chance)
    lonlat = base.positions[event // 288] + rng.normal(0, 0.01, (300_000, 2))
    assert held_out(lonlat, event % 288 * 300) < 1e-4


def held_out(lonlat, second):
    """Share of the other half's requests above full capacity, planned on one half at u = 0.9."""
    leaf = kd_leaves(lonlat, 200)
    half = np.random.default_rng(99).random(len(leaf)) < 0.5
    loads = []
    for rows in (half, ~half):
        counts = np.zeros((int(leaf.max()) + 1, 288))
        np.add.at(counts, (leaf[rows], second[rows] // 300), 1.0)
        made = Patterns(loads=counts).smoothed(1800)
        loads.append(made.loads * (12_400 / made.peak))
    plan = ceps.plan(loads[0], np.zeros(len(loads[0])), M3, utilisation=0.9)
    other = np.zeros_like(plan.loads)
    np.add.at(other, plan.server_of, loads[1] * loads[0].sum() / loads[1].sum())
    return np.maximum(other - plan.capacity[:, None], 0).sum() / other.sum()
