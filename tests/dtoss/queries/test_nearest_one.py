"""The one nearest object is the first of the two nearest: ties go to the lowest id whichever way it is asked for."""

from __future__ import annotations

import warnings

import pytest

import dtoss
from tests import oracles
from tests.nearest_worlds import KINDS, world, wrong

PARTITIONS = (1, 2, 7, 16, 64)
METRICS = ("plane", "sphere")


@pytest.fixture(autouse=True)
def _by_chance():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "lon and lat look swapped")
        yield


def found(seeds, partitions):
    return {
        (kind, metric, seed, partitions): lines
        for kind in KINDS
        for metric in METRICS
        for seed in seeds
        if (lines := wrong(world(kind, metric, seed), partitions))
    }


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_the_first_of_the_two_nearest(partitions):
    """Pairs an ulp apart, lattices, a crowd on the border; from within and from far outside."""
    assert found(range(3), partitions) == {}


@pytest.mark.parametrize("partitions", [1, 16])
def test_pairs_seen_from_far_outside_the_bounds(partitions):
    """Of a pair one site has no cell at the bounds, and is as far as the one that has."""
    assert {seed: lines for seed in range(40) if (lines := wrong(world("pairs", "plane", seed), partitions))} == {}


@pytest.mark.deep("thousands of worlds; the same with a few hundred in make test")
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_the_first_of_the_two_nearest_in_many_worlds(partitions):
    """4,000 worlds."""
    assert found(range(1000, 1100), partitions) == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", METRICS)
def test_the_two_nearest_are_those_of_brute_force(kind, metric):
    """And so are the objects whose nearest one a new object would be."""
    for seed in range(3):
        w = world(kind, metric, seed)
        index = dtoss.build(w.ids, w.positions, metric=metric, partitions=3, bounds=w.bounds)
        two, ids = index.knn(w.places, 2), w.ids.tolist()
        rows = list(zip(two.query.tolist(), two.id.tolist(), two.distance.tolist(), strict=True))
        assert rows == oracles.knn(index.space, ids, w.positions, w.places, 2)
        mine = index.reverse_nearest(w.places)
        rows = list(zip(mine.query.tolist(), mine.id.tolist(), mine.distance.tolist(), strict=True))
        assert rows == oracles.reverse_nearest(index.space, ids, w.positions, w.places)


def test_a_site_without_a_cell_at_the_bounds():
    """One of a pair an ulp apart hides the other from the bounds; from 41,701 to the east both are as far."""
    pair = [[97.21241130746424, -26.264286364924217], [97.21241130746425, -26.264286364924214]]
    others = [[54.29132429592399, -87.47631429420898], [-92.97488709895397, 86.42551564685185]]
    last = [[76.78786383748267, 80.01133708658176]]
    index = dtoss.build([0, 6, 9, 8, 2], pair + others + last, metric="plane")
    place = [41701.22877040765, 3286.7220681984927]
    assert index.knn(place, 2).id.tolist() == [0, 6]
    assert index.knn(place, 1).id.tolist() == index.locate(place).tolist() == [0]
