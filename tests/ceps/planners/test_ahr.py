from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ceps import Patterns
from ceps.model.problem import build_problem
from ceps.planners.ahr import agglomerate
from datasets.workloads import make
from tests.ceps import oracles
from tests.ceps.instances import M3, servers, small_patterns, waves


def same_clusters(first, second):
    """Whether two labellings make the same groups."""
    return len(np.unique(np.column_stack([first, second]), axis=0)) == len(np.unique(first)) == len(np.unique(second))


@settings(max_examples=80, deadline=None)
@given(small_patterns(most=9, slots=6), st.integers(8, 30), st.integers(1, 4))
def test_merges_are_those_of_the_algorithm_as_written(made, rate, wanted):
    """Cached minima give what comparing all pairs after each merge gives, ties included."""
    from ceps import ServerType

    problem = build_problem(made, [ServerType("only", rate * 100.0, np.inf, 1.0)], 1.0)
    found = agglomerate(problem, 0, "tv", wanted)
    expected = oracles.flattest_merges(problem.loads, rate * 100.0, wanted)
    assert same_clusters(found, np.array(expected))


def test_merges_at_60_partitions():
    """The same on a day of waves, where no two values tie."""
    problem = build_problem(waves(60, 9_300.0, slots=48), M3, 1.0)
    expected = oracles.flattest_merges(problem.loads, 1000.0, 10)
    assert same_clusters(agglomerate(problem, 0, "tv", 10), np.array(expected))


@pytest.mark.parametrize("metric", ["tv", "gain"])
@pytest.mark.parametrize("copies", [1, 2])
def test_no_cluster_exceeds_a_server(metric, copies):
    """Load by slot, bytes and copies are kept in every merge."""
    problem = build_problem(waves(80, 9_300.0, noise=0.3), servers(8e9), 0.9, copies=copies)
    labels = agglomerate(problem, 1, metric)
    columns = problem.cluster_columns(labels)
    assert problem.types_that_hold(columns)[:, 1].all()
    assert not problem.conflicts(labels)
    assert np.unique(labels).tolist() == list(range(labels.max() + 1))


def test_gain_joins_opposites_first():
    """Two days and two nights: each cluster gets one of either, and the sums are flat."""
    day, night = [900.0] * 12 + [100.0] * 12, [100.0] * 12 + [900.0] * 12
    problem = build_problem(Patterns(loads=[day, day, night, night]), M3, 1.0)
    sums = problem.cluster_columns(agglomerate(problem, 0, "gain", 2))
    np.testing.assert_allclose(sums[:, :-1], 1000.0)


def test_gain_needs_fewer_servers_than_total_variation():
    """Smallest-first merging leaves the peaks for last; the drop in the norm does not (three made worlds)."""
    counts = dict.fromkeys(("tv", "gain"), 0)
    for seed in range(3):
        problem = build_problem(make("cosine", partitions=200, peak=12_300.0, seed=seed, objects=50_000), M3, 1.0)
        for metric in counts:
            counts[metric] += int(agglomerate(problem, 0, metric).max()) + 1
    assert counts["gain"] < counts["tv"]


def test_a_partition_above_the_cap_stays_alone():
    """Merging is for the cap; what exceeds it alone is left alone, and no one is dropped."""
    problem = build_problem(Patterns(loads=[[1500.0] * 2, [10.0] * 2, [10.0] * 2]), M3, 1.0)
    labels = agglomerate(problem, 0, "tv", 1)
    assert sorted(np.bincount(labels).tolist()) == [1, 2]


def test_limits_and_names():
    """Unknown metrics and matrices that are too large are refused with the way out."""
    problem = build_problem(waves(4, 100.0), M3, 1.0)
    with pytest.raises(ValueError, match="known: tv, gain"):
        agglomerate(problem, 0, "cosine")
    big = build_problem(Patterns(loads=np.ones((12_001, 1))), (*M3, M3[0].__class__("x", 2e4, np.inf, 5.0)), 1.0)
    with pytest.raises(ValueError, match="at most 12000 items"):
        agglomerate(big, 0, "tv")
