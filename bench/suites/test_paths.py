"""How long the hot paths take, to compare a change with what was before it: `make paths`, before and after.

Each run is kept in `.benchmarks/` and shown beside the last one. Rivals are raced by `python -m bench.run` instead.
"""

from __future__ import annotations

from functools import lru_cache
from time import process_time

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from bench.measuring.places import indexed, places, world
from dtoss.cells.voronoi import voronoi
from dtoss.geometry.hilbert import curve_keys, radix_order, take_rows

pytestmark = [pytest.mark.benchmark(timer=process_time, min_rounds=5, warmup=True), pytest.mark.timeout(600)]
OBJECTS, QUERIES = 200_000, 10_000
KINDS = ("sphere", "plane")


@lru_cache(maxsize=1)
def made(kind):
    """Objects, an index of them with a column, places beside them, and a radius that holds a hundred."""
    objects = world(kind, OBJECTS)
    index, _ = indexed(objects)
    at = places(objects, "20 m beside", QUERIES)
    return objects, index, at, float(np.median(index.knn(at[:1_000], 100).distance.reshape(-1, 100)[:, -1]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 8, 32])
def test_knn(benchmark, kind, k):
    _, index, at, _ = made(kind)
    assert len(benchmark(index.knn, at, k).distance) == k * len(at)


@pytest.mark.parametrize("kind", KINDS)
def test_one_place(benchmark, kind):
    _, index, at, _ = made(kind)
    assert len(benchmark(lambda: [index.knn(one, 8) for one in at[:200]])) == 200


@pytest.mark.parametrize("kind", KINDS)
def test_range(benchmark, kind):
    _, index, at, radius = made(kind)
    assert len(benchmark(index.range, at, radius).distance) > 50 * len(at)


@pytest.mark.parametrize("kind", KINDS)
def test_count(benchmark, kind):
    _, index, at, radius = made(kind)
    assert benchmark(index.count, at, radius).sum() > 50 * len(at)


@pytest.mark.parametrize("kind", KINDS)
def test_cells(benchmark, kind):
    """From sites in no order to neighbours and areas."""
    objects, index, _, _ = made(kind)
    sites = np.unique(objects.objects, axis=0)
    sites = np.random.default_rng(0).permutation(sites if objects.planar else index.space.vectors(sites))
    bounds = np.array([*sites.min(axis=0) - 1, *sites.max(axis=0) + 1]) if objects.planar else None
    cells = benchmark(lambda: voronoi(take_rows(sites, radix_order(curve_keys(sites))), bounds))
    assert len(cells.area) == len(sites)


@pytest.mark.parametrize("kind", KINDS)
def test_build(benchmark, kind):
    objects, *_ = made(kind)
    crs = "none" if objects.planar else None
    index = benchmark(lambda: dtoss.build(np.arange(OBJECTS), objects.objects, crs=crs, partitions=4))
    assert len(index) == OBJECTS


def test_conditions(benchmark):
    """The eight nearest of those that a condition holds for, one in ten."""
    objects, _, at, _ = made("sphere")
    free = pa.array(np.random.default_rng(0).random(OBJECTS) < 0.1)
    index = dtoss.build(np.arange(OBJECTS), objects.objects, partitions=4, columns={"free": free})
    assert len(benchmark(lambda: index.knn(at, 8, where="free")).distance) == 8 * len(at)
