"""The paper's fusion beside ours: what its lines do on jobs small enough to follow."""

from __future__ import annotations

import numpy as np
import pytest

from bench.windows.fusion import (
    RandomJob,
    algorithm_1,
    by_attributes,
    greedy_baseline,
    of_fusion,
    random_job,
    told,
)
from ceps.streams.fusion import fuse, fusion_of, job_of, merge_by_rates


def as_sets(job, component):
    """Components as sets of names."""
    return {
        frozenset(name for name, one in zip(job.attributes, component, strict=True) if one == number)
        for number in component
    }


def made(attributes, rates):
    """A job of operators whose attributes are letters."""
    return RandomJob({name: frozenset(letters) for name, letters in attributes.items()}, rates)


def test_algorithm_1_fuses_the_busiest_pair_that_shares_an_attribute():
    """And goes on with what the component shares: b and c can not follow both."""
    job = made({"a": "xy", "b": "x", "c": "y"}, {("a", "b"): 2.0, ("a", "c"): 3.0})
    assert as_sets(job, algorithm_1(job)) == {frozenset("ac"), frozenset("b")}


def test_algorithm_1_does_not_add_up_rates():
    """The busiest pair wins, though two operators of a component send more together: error 9 of the reading."""
    attributes = {"b": "y", "c": "y", "a": "x", "d": "xy"}
    job = made(attributes, {("b", "c"): 9.0, ("a", "d"): 3.0, ("b", "d"): 2.0, ("c", "d"): 2.0})
    assert as_sets(job, algorithm_1(job)) == {frozenset("bc"), frozenset("ad")}
    ours = job_of(job.attributes, job.rates)
    assert fusion_of(ours, merge_by_rates(ours)).sent == 3.0


def test_to_the_letter_only_two_operators_are_pointed_anew():
    """A third one keeps a component whose other half has left."""
    job = made({"a": "x", "b": "x", "c": "x"}, {("a", "b"): 3.0, ("b", "c"): 2.0})
    assert as_sets(job, algorithm_1(job)) == {frozenset("abc")}
    assert as_sets(job, algorithm_1(job, to_the_letter=True)) == {frozenset("a"), frozenset("bc")}


def test_the_other_score_counts_shared_attributes():
    """Whatever the rates."""
    job = made({"a": "xyz", "b": "xy", "c": "z"}, {("a", "b"): 1.0, ("a", "c"): 9.0})
    assert as_sets(job, algorithm_1(job, by_attributes)) == {frozenset("ab"), frozenset("c")}
    assert as_sets(job, algorithm_1(job)) == {frozenset("ac"), frozenset("b")}


def test_operators_without_attributes_are_barred_by_algorithm_1_only():
    """They could share a place: the exact model lets them."""
    job = made({"a": "", "b": ""}, {("a", "b"): 1.0})
    assert len(as_sets(job, algorithm_1(job))) == 2
    assert fuse(job.attributes, job.rates).components == (("a", "b"),)


@pytest.mark.parametrize("seed", range(6))
def test_every_way_of_a_random_job_is_a_fusion(seed):
    """Operators of a component share an attribute, and nobody sends less than the exact model."""
    job = random_job(12, np.random.default_rng(seed))
    ours = job_of(job.attributes, job.rates)
    least, count = of_fusion(fuse(job.attributes, job.rates))
    assert 1 <= count <= 12
    for component in (
        algorithm_1(job),
        algorithm_1(job, by_attributes),
        greedy_baseline(job, np.random.default_rng(seed)),
        merge_by_rates(ours),
    ):
        for names in as_sets(job, component):
            assert frozenset.intersection(*(job.attributes[name] for name in names))
        assert told(ours, component)[0] >= least - 1e-9


def test_a_random_job_is_made_as_the_paper_says():
    """Levels of operators, each told by the one before; an operator sends at most what it has."""
    job = random_job(30, np.random.default_rng(1))
    assert len(job.attributes) == 30
    assert all(1 <= len(one) <= 30 for one in job.attributes.values())
    for name in job.attributes:
        assert sum(rate for (source, _), rate in job.rates.items() if source == name) <= 1.0
    assert job == random_job(30, np.random.default_rng(1))
