"""Crowds far from a few other objects, in many partitions: pivots so near each other that rounding moves their borders.

Every answer against brute force (``tests.long.crowds``), and the worlds that once differed.
"""

from dataclasses import replace

import numpy as np
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.partitioning.regions import Regions
from tests import oracles
from tests.dtoss.scenes import bounds_of
from tests.examples import examples
from tests.long import crowds


def nearest(index, ids, positions, queries, k):
    """Asserts that the k nearest are those of brute force."""
    hits = index.knn(queries, k)
    vectors = index.space.vectors(positions)
    for number, place in enumerate(index.space.vectors(queries)):
        far = distance(vectors, place)
        expected = np.lexsort((ids, far))[:k]
        assert hits.id[hits.query == number].tolist() == ids[expected].tolist()
        assert hits.distance[hits.query == number].tolist() == far[expected].tolist()


def test_a_crowd_and_one_object_at_its_antipode():
    """500 objects in a square of 2 m in 64 partitions: 58 of 400 queries near the antipode had no answer."""
    rng = np.random.default_rng(0)
    positions = np.array([10.0, 50.0]) + rng.uniform(-1, 1, (500, 2)) * 1e-5
    positions[0] = [-170.0, -50.0]
    index = dtoss.build(np.arange(500), positions, partitions=64)
    assert index.knn([-169.9999979641057, -49.99999299343592], 1).id.tolist() == [0]
    nearest(index, np.arange(500), positions, [-170.0, -50.0] + rng.uniform(-1, 1, (400, 2)) * 1e-5, 1)


def test_ten_objects_in_two_centimetres():
    """Three partitions, queries round the other side of the Earth."""
    rng = np.random.default_rng(1)
    positions = np.array([10.0, 50.0]) + rng.uniform(-1, 1, (10, 2)) * 1e-7
    positions[0] = [-170.0, -50.0]
    index = dtoss.build(np.arange(10), positions, partitions=3)
    nearest(index, np.arange(10), positions, [-170.0, -50.0] + rng.uniform(-1, 1, (300, 2)) * 1e-7, 2)


@pytest.mark.parametrize("pole", [-90.0, 90.0])
def test_range_and_count_near_the_poles(pole):
    """60 objects within a metre of a pole in 3 partitions, one at the other: discs that end on an object."""
    rng = np.random.default_rng(2)
    positions = np.stack([rng.uniform(-180, 180, 60), pole * (1 - 1e-7 * rng.uniform(0, 1, 60))], axis=1)
    positions[0] = [0.0, -pole]
    index = dtoss.build(np.arange(60), positions, partitions=3)
    queries = np.stack([rng.uniform(-180, 180, 100), -pole * (1 - 1e-7 * rng.uniform(0, 1, 100))], axis=1)
    vectors = index.space.vectors(positions)
    for query, place in zip(queries, index.space.vectors(queries), strict=True):
        far = distance(vectors, place)
        for radius in (np.sort(far)[[0, 1, 30, 59]]).tolist():
            assert sorted(index.range(query, radius).id.tolist()) == np.flatnonzero(far <= radius).tolist()
            assert index.count(query, radius).tolist() == [(far <= radius).sum()]


@pytest.mark.parametrize("seed", [1, 43, 50, 113, 169, 193, 329, 346, 438, 479, 515])
def test_worlds_that_differed(seed):
    """From a crowd that is equally far within rounding a walk to an object elsewhere ended at once."""
    made = crowds.world(seed)
    assert crowds.differences(made) == []
    assert crowds.differences(replace(made, partitions=1)) == []


MORE = pytest.mark.deep("more worlds of the same kind, the dearest ones")


@pytest.mark.parametrize("first", [*(pytest.param(first, marks=MORE) for first in (1000, 1010, 1020)), 1030])
def test_made_worlds(first):
    """Ten worlds each, in make test five: kNN, range, count, conditions, owners, and what cells say of one another."""
    for seed in range(first, first + examples(10, 5)):
        made = crowds.world(seed)
        assert (seed, crowds.differences(made)) == (seed, [])
        assert (seed, crowds.one_sided(crowds.build(made), made)) == (seed, [])


@pytest.mark.parametrize("seed", range(12))
def test_reverse_nearest_in_a_crowd_as_fine_as_rounding(seed):
    """Steps of 1e-12 degrees, a tenth of a micrometre: an object 2.4e-9 m away was missed."""
    rng = np.random.default_rng(seed)
    centre = np.array([[2.35, 48.86], [0.0, 89.9999], [-122.4, 37.7]])[seed % 3]
    positions = centre + rng.integers(-5, 6, (40, 2)) * 1e-12
    queries = centre + rng.integers(-5, 6, (20, 2)) * 1e-12 + rng.uniform(-1, 1, (20, 2)) * 1e-12
    index = dtoss.build(np.arange(40), positions, partitions=1 + seed % 4)
    hits = index.reverse_nearest(queries)
    found = list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))
    assert found == oracles.reverse_nearest(index.space, list(range(40)), positions, queries)


@pytest.mark.parametrize("seed", range(8))
def test_two_crowds_far_apart_see_the_same_edges(seed):
    """Spacing of 1e-6 and 3e6 between them, or sites an ulp apart: an edge of 723 km was seen by one side only."""
    rng = np.random.default_rng(seed)
    crowd = rng.integers(-9, 10, (120, 2)) * (1e-6 if seed % 2 else 2.0**-30)
    positions = crowd + np.where(np.arange(120) % 2, 3e6, 0.0)[:, None] * [1.0, 0.1]
    index = dtoss.build(np.arange(120), positions, metric="plane", partitions=1 + seed)
    near = {i: set(index.neighbours(i).tolist()) for i in range(120)}
    for i in range(120):
        lowest = min(crowds.near_ids(index, i))
        assert all(lowest in near[j] for j in near[i])
    counts = [len(near[i]) for i in range(120) if min(crowds.near_ids(index, i)) == i]
    assert sum(counts) > 20


@pytest.mark.parametrize("metric", [None, "plane"])
def test_k_objects_are_found_even_where_regions_lie(metric):
    """The net: with the pivots of other partitions nothing is where it should be, and still k objects are found."""
    rng = np.random.default_rng(5)
    index = dtoss.build(np.arange(400), rng.uniform(-1, 1, (400, 2)), partitions=16, metric=metric)
    pivots = index.partitioning.pivots
    lying = dtoss.Index(
        index.space,
        Regions(np.ascontiguousarray(pivots[::-1]), np.zeros(len(pivots))),
        np.full(len(pivots), 0.0),
        index.parts,
        bounds=bounds_of(index),
        string_ids=False,
        border=index.border,
    )
    queries = rng.uniform(-1, 1, (300, 2))
    for k in (1, 5, 40, 400):
        assert np.bincount(lying.knn(queries, k).query, minlength=300).tolist() == [k] * 300
    assert len(lying.knn(queries[0], 401)) == 400
