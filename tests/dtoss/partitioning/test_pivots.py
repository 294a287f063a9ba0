"""Balanced pivots on data that gathers and repeats."""

import numpy as np
import pyarrow as pa
import pytest

from datasets.hotspots import hotspots
from dtoss.building.reach import choose_reach
from dtoss.geometry.space import space_of
from dtoss.partitioning.assign import assign
from dtoss.partitioning.pivots import MOST_BY_FLOW, MOST_SAMPLED, SAMPLE_PER_PARTITION, choose_pivots, sampled_one_in
from tests.dtoss.scenes import along, random_sphere, taxis


def people(rows, seed):
    """People gathered in cities, as unit vectors."""
    made = pa.Table.from_batches(list(hotspots(rows, seed=seed, count=40)))
    return space_of().vectors(np.stack([made["lon"].to_numpy(), made["lat"].to_numpy()], axis=1))


@pytest.mark.parametrize("partitions", [7, 64])
def test_cities_are_balanced(partitions):
    """A sample of 4,000 a partition: largest at most 1.09 of the mean, standard deviation at most 4 %."""
    vectors = people(300_000, seed=1)
    rows = np.random.default_rng(2).choice(len(vectors), 4000 * partitions, replace=False)
    regions = choose_pivots(vectors[rows], partitions)
    sizes = np.bincount(regions.nearest(vectors), minlength=partitions)
    assert len(regions) == partitions
    assert sizes.max() <= 1.09 * sizes.mean()
    assert sizes.std() <= 0.04 * sizes.mean()


def test_many_partitions_of_which_two_fifths_are_in_one_city():
    """More than a flow balances: the largest has at most 1.2 times the mean, where the flow made one of 1.47."""
    rng, partitions = np.random.default_rng(5), 400
    assert partitions > MOST_BY_FLOW
    places = np.stack([rng.uniform(-180, 180, 40_000), np.degrees(np.arcsin(rng.uniform(-1, 1, 40_000)))], axis=1)
    city = rng.random(len(places)) < 0.4
    places[city] = [8.5, 47.4] + 0.3 * rng.standard_normal((city.sum(), 2))
    vectors = space_of().vectors(places)
    regions = choose_pivots(vectors, partitions)
    sizes = np.bincount(regions.nearest(vectors), minlength=partitions)
    assert sizes.max() <= 1.2 * sizes.mean()
    assert regions.weights.max() == 0.0


def test_one_place_of_many_partitions_that_is_heavier_than_ten():
    """The others share what is left, and none is without rows."""
    rng = np.random.default_rng(6)
    rows = np.concatenate([np.full((4000, 2), 50.0), rng.uniform(0, 100, (36_000, 2))])
    regions = choose_pivots(rows, 400)
    sizes = np.sort(np.bincount(regions.nearest(rows), minlength=400))
    assert 4000 <= sizes[-1] <= 4100
    assert 1 <= sizes[0] <= sizes[-2] <= 120


def test_a_sample_is_bounded_however_many_the_partitions():
    """Up to 1,000 partitions it is what each wants, to the row."""
    for rows in (0, 1, 5_999, 10**6, 6 * 10**6 + 1, 10**9, 10**12):
        for partitions in (1, 128, 1_000, 10_000, 10**6):
            one_in = sampled_one_in(rows, partitions)
            assert rows / one_in <= MOST_SAMPLED
            if rows <= MOST_SAMPLED or (partitions <= 128 and rows > 10**7):
                assert one_in == max(rows // (SAMPLE_PER_PARTITION * partitions), 1)


def test_rounded_places_are_balanced():
    """Two to five objects a site, as GPS gives them, and one stand that holds a twentieth of a partition."""
    rng = np.random.default_rng(3)
    sites = taxis(rng, 60_000)
    places = np.concatenate([sites[rng.integers(0, 30_000, 150_000)], np.repeat(sites[:1], 500, axis=0)])
    vectors = space_of().vectors(places)
    regions = choose_pivots(vectors, 16)
    sizes = np.bincount(regions.nearest(vectors), minlength=16)
    assert sizes.max() <= 1.05 * sizes.mean()
    assert sizes.std() <= 0.02 * sizes.mean()


def test_a_place_heavier_than_a_partition_is_alone():
    """Nothing splits objects on one place: its partition holds it, and the others share what is left."""
    rng = np.random.default_rng(4)
    crowd = np.concatenate([np.full((6000, 2), 50.0), rng.uniform(0, 100, (14_000, 2))])
    regions = choose_pivots(crowd, 8)
    sizes = np.sort(np.bincount(regions.nearest(crowd), minlength=8))
    assert sizes.sum() == 20_000
    assert sizes[-1] <= 6000 + 2500
    assert sizes[0] > 500


@pytest.mark.parametrize("method", ["balanced", "spread"])
def test_two_sites_and_many_objects(method):
    """As many regions as sites, each with its own."""
    sites = np.repeat(np.array([[0.0, 0.0], [3.0, 4.0]]), [900, 100], axis=0)
    regions = choose_pivots(sites, 5, method=method)
    assert len(regions) == 2
    assert sorted(np.bincount(regions.nearest(sites)).tolist()) == [100, 900]


def test_planar_metres_far_from_the_origin_balance():
    """Weights are differences of squares of large numbers: they keep their digits."""
    rng = np.random.default_rng(5)
    metres = along(rng.normal(0, 3000, (80_000, 2)) + np.array([5.0e5, 4.0e7]))
    regions = choose_pivots(metres, 32)
    sizes = np.bincount(regions.nearest(metres), minlength=32)
    assert sizes.max() <= 1.05 * sizes.mean()


def test_lambda_is_the_same_for_any_order_and_never_copies_too_much():
    """The sample's order does not count; crowded partitions stay near a tenth copied."""
    rng = np.random.default_rng(6)
    vectors = space_of().vectors(taxis(rng, 40_000))
    regions = choose_pivots(vectors, 48)
    one = choose_reach(vectors, len(vectors), regions)
    two = choose_reach(vectors[rng.permutation(len(vectors))], len(vectors), regions)
    assert one.tobytes() == two.tobytes()
    assert len(assign(vectors, regions, one).row) <= 0.12 * len(vectors)
    globe = random_sphere(rng, 100_000)
    few = choose_pivots(globe, 2)
    reach = choose_reach(globe[:20_000], len(globe), few)
    assert 0 < len(assign(globe, few, reach).row) <= 0.05 * len(globe)


@pytest.mark.parametrize("seed", range(12))
def test_no_border_passes_through_a_site(seed):
    """Objects that share a site cannot be shared out: the border stands between sites, not on one."""
    rng = np.random.default_rng(seed)
    sites = rng.integers(0, 12, (9, 2)).astype(float) * np.array([1.0, np.sqrt(2.0)])
    rows = sites[rng.integers(0, 9, 40)]
    regions = choose_pivots(rows, int(rng.integers(2, 6)))
    distinct = np.unique(rows, axis=0)
    home = regions.nearest(distinct)
    past = np.array([regions.past(site[None], int(i)).max() for site, i in zip(distinct, home, strict=True)])
    assert (past < -1e-6).all()


def test_weights_that_rounding_would_blur_are_not_used():
    """Sites one unit apart and others a thousand million away: powers have no digits left for the near borders."""
    rng = np.random.default_rng(7)
    rows = rng.choice([0.0, 1.0, 1e9], (60, 2))
    regions = choose_pivots(rows, 9)
    assert (regions.weights == 0).all()
    assert (regions.past(rows, 0).max() > 0) == (len(regions) > 1)
    for i, site in zip(regions.nearest(rows).tolist(), rows, strict=True):
        assert regions.past(site[None], i).max() <= 0
