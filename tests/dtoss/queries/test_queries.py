"""Who is near: every answer equals brute force, ids, distances and order, for any number of partitions."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import PARTITIONS, rows, spread_ids, taxis
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.examples import examples


def brute(space, ids, positions, queries, ks=(1, 2, 8), radii=(0.0,)):
    """({k: rows}, {radius: rows}) as they should be."""
    nearest = {k: oracles.knn(space, ids, positions, queries, k) for k in ks}
    return nearest, {radius: oracles.within(space, ids, positions, queries, radius) for radius in radii}


def check(index, queries, nearest, within):
    for k, expected in nearest.items():
        assert rows(index.knn(queries, k)) == expected
    for radius, expected in within.items():
        assert rows(index.range(queries, radius)) == expected
        counts = np.bincount([q for q, _, _ in expected], minlength=len(queries))
        assert index.count(queries, radius).tolist() == counts.tolist()


@settings(max_examples=examples(120), deadline=None)
@given(
    lonlat(),
    st.sampled_from(PARTITIONS),
    st.sampled_from([None, 0.0, 0.3]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_on_the_sphere(positions, partitions, reach, strings, seed):
    """Ties, duplicates, lines, poles, one object, none; lambda chosen, 0, or large; integer and string ids."""
    rng = np.random.default_rng(seed)
    ids = spread_ids(rng, len(positions), strings)
    index = dtoss.build(ids, positions, partitions=partitions, reach=reach)
    assert len(index) == len(positions)
    queries = lonlat_queries(rng, positions)
    check(index, queries, *brute(index.space, ids.tolist(), positions, queries, radii=(0.0, 1.5, 1112.0, 2e6, 2.1e7)))


@settings(max_examples=examples(120), deadline=None)
@given(planar(), st.sampled_from(PARTITIONS), st.sampled_from([None, 0.0, 50.0]), st.integers(0, 2**32 - 1))
def test_in_the_plane(positions, partitions, reach, seed):
    """The same, with queries far outside the bounds, where the graph alone would get stuck."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(len(positions))
    index = dtoss.build(ids, positions, crs="none", partitions=partitions, reach=reach)
    queries = planar_queries(rng, positions)
    check(index, queries, *brute(index.space, ids.tolist(), positions, queries, radii=(0.0, 1.0, 5.0, 700.0, 1e10)))


@cache
def fleet():
    """Taxis: ids, positions, queries, and what is near them."""
    rng = np.random.default_rng(31)
    positions = taxis(rng, 8000)
    ids = rng.permutation(8000)
    queries = lonlat_queries(rng, positions, 20)
    ks, radii = (1, 5, 40, 300), (3.0, 60.0, 5000.0)
    return ids, positions, queries, *brute(space_of(), ids.tolist(), positions, queries, ks, radii)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_taxis_on_the_sphere(partitions):
    """Crowded streets and far outliers, many objects a site; queries on, between and far away; larger k."""
    ids, positions, queries, *expected = fleet()
    check(dtoss.build(ids, positions, partitions=partitions), queries, *expected)


@cache
def grid():
    """A grid in the plane: ids, positions, queries, and what is near them."""
    rng = np.random.default_rng(32)
    x, y = np.meshgrid(np.arange(40.0), np.arange(40.0))
    positions = np.stack([x.ravel(), y.ravel()], axis=1)
    ids = rng.permutation(1600)
    queries = np.concatenate([rng.integers(0, 79, (150, 2)) * 0.5, rng.uniform(-30, 70, (50, 2))])
    ks, radii = (1, 4, 9, 25, 2000), (1.0, 5.0, np.hypot(3, 4))
    return ids, positions, queries, *brute(space_of("EPSG:32633"), ids.tolist(), positions, queries, ks, radii)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_grid_full_of_ties_in_the_plane(partitions):
    """Stopping at the k-th object is wrong on a grid; the frontier must be strictly further."""
    ids, positions, queries, *expected = grid()
    check(dtoss.build(ids, positions, crs="EPSG:32633", partitions=partitions), queries, *expected)


@pytest.mark.parametrize("partitions", [1, 7])
def test_many_objects_on_few_places(partitions):
    """Ids decide among hundreds at one distance; k smaller than what one place holds."""
    rng = np.random.default_rng(33)
    places = rng.uniform(-1, 1, (9, 2))
    positions = places[rng.integers(0, 9, 3000)]
    ids = rng.permutation(3000)
    index = dtoss.build(ids, positions, partitions=partitions)
    assert index.sites == 9
    queries, ks = lonlat_queries(rng, positions, 6), (1, 7, 500, 5000)
    check(index, queries, *brute(index.space, ids.tolist(), positions, queries, ks, (0.0, 1e5)))


def test_more_partitions_than_borders_are_listed():
    """400 partitions: only the 256 nearest borders of each are listed, and the rest still counts."""
    rng = np.random.default_rng(34)
    positions = np.stack([rng.uniform(-180, 180, 1200), np.degrees(np.arcsin(rng.uniform(-1, 1, 1200)))], axis=1)
    index = dtoss.build(np.arange(1200), positions, partitions=400)
    assert len(index.partitioning) == 400
    queries, ks = lonlat_queries(rng, positions, 20), (1, 30, 2000)
    check(index, queries, *brute(index.space, range(1200), positions, queries, ks, (3e6, 2.1e7)))


@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("metric", [None, "plane"])
def test_threads_and_order_of_the_queries_change_nothing(threads, metric):
    """The same bytes on any number of threads, sorted or shuffled, one by one or in a batch."""
    rng = np.random.default_rng(35)
    positions = taxis(rng, 5000)
    index = dtoss.build(np.arange(5000), positions, metric=metric, partitions=7)
    queries = np.concatenate([positions[::3], positions[::5] + 1e-4])
    one = index.knn(queries, 5)
    many = index.knn(queries, 5, threads=threads)
    assert one.id.tobytes() == many.id.tobytes()
    assert one.distance.tobytes() == many.distance.tobytes()
    wide = 30.0 if metric is None else 3e-4
    near, nearby = index.range(queries, wide), index.range(queries, wide, threads=threads)
    assert near.id.tobytes() == nearby.id.tobytes()
    assert near.query.tobytes() == nearby.query.tobytes()
    shuffle = rng.permutation(len(queries))
    mixed = index.knn(queries[shuffle], 5)
    assert (mixed.id.reshape(-1, 5) == one.id.reshape(-1, 5)[shuffle]).all()
    alone = np.concatenate([index.knn(q, 5).id for q in queries[:50]])
    assert (alone == one.id[:250]).all()


def test_max_distance_is_a_closed_limit():
    """k nearest within a distance; an object at exactly that distance counts."""
    index = dtoss.build([1, 2, 3, 4], [[0, 0], [3, 4], [6, 8], [60, 80]], crs="none")
    hits = index.knn([[0.0, 0.0]], 4, max_distance=10.0)
    assert rows(hits) == [(0, 1, 0.0), (0, 2, 5.0), (0, 3, 10.0)]
    assert len(index.knn([[0.0, 100.0]], 4, max_distance=0.0)) == 0


def test_a_radius_for_each_query():
    """One radius a position, 0 and more than the Earth among them."""
    positions = [[0.0, 0.0], [1.0, 0.0], [180.0, 0.0]]
    index = dtoss.build([1, 2, 3], positions)
    radius = np.array([0.0, 111_200.0, 1e9])
    assert rows(index.range(np.zeros((3, 2)), radius)) == oracles.within(
        space_of(), [1, 2, 3], positions, np.zeros((3, 2)), radius
    )


def test_answers_for_one_and_for_no_position():
    """(2,) is one query; an empty batch has no hits."""
    index = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]])
    assert index.knn([0.9, 0.9]).id.tolist() == [2]
    assert len(index.knn(np.zeros((0, 2)), 3)) == 0
    assert len(index.range(np.zeros((0, 2)), 3.0)) == 0
    assert index.locate([[0.1, 0.1], [0.9, 0.9]]).tolist() == [1, 2]


def test_hits_as_tables():
    """Columns query, id, distance, rank; attributes as they were given, nulls included."""
    import pyarrow as pa

    columns = {"kind": pa.array(["taxi", None, "bus"]), "seats": [4, 5, 60]}
    index = dtoss.build([7, 8, 9], [[0.0, 0.0], [0.0, 1.0], [0.0, 3.0]], columns=columns, partitions=2)
    hits = index.knn([[0.0, 0.9], [0.0, 2.5]], 2, columns=["kind", "seats"])
    table = hits.to_arrow()
    assert table.column_names == ["query", "id", "distance", "rank", "kind", "seats"]
    assert table.column("rank").to_pylist() == [1, 2, 1, 2]
    assert table.column("id").to_pylist() == [8, 7, 9, 8]
    assert table.column("kind").to_pylist() == [None, "taxi", "bus", None]
    assert table.column("seats").to_pylist() == [5, 4, 60, 5]
    assert hits.to_pandas()["id"].tolist() == [8, 7, 9, 8]
    assert next(iter(hits))[:2] == (0, 8)
    assert index.column_names == ["kind", "seats"]


@pytest.fixture(scope="module")
def small():
    return dtoss.build([1, 2, 3], [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])


@pytest.mark.parametrize("k", [0, -1, 0.5, True, np.nan, "3", None])
def test_a_bad_k_is_named(small, k):
    """ValueError with the argument and the value, in one line."""
    with pytest.raises(ValueError, match="k is") as error:
        small.knn([[0.0, 0.0]], k)
    assert repr(k) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("radius", [-1.0, np.nan, "far", 10**400, [1.0, 2.0]])
def test_a_bad_radius_is_named(small, radius):
    """Negative, not a number, beyond all numbers, or not one a query."""
    with pytest.raises(ValueError, match="radius"):
        small.range([[0.0, 0.0]], radius)
    if not isinstance(radius, list):
        with pytest.raises(ValueError, match="max_distance"):
            small.knn([[0.0, 0.0]], 1, max_distance=radius)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda i: i.knn([[37.0, -122.0]]), "swapped"),
        (lambda i: i.knn([[np.nan, 0.0]]), "nan"),
        (lambda i: i.knn([[0.0, 0.0]], crs="EPSG:32610"), "EPSG:32610.*EPSG:4326"),
        (lambda i: i.knn([[0.0, 0.0]], columns=["speed"]), "speed.*they carry lon, lat$"),
        (lambda i: i.knn([[0.0, 0.0]], columns="speed"), "list"),
        (lambda i: i.knn([[0.0, 0.0]], threads=0), "threads"),
    ],
)
def test_other_bad_arguments_are_named(small, call, words):
    """Each with its value and the way out."""
    with pytest.raises(ValueError, match=words):
        call(small)


def test_an_empty_index_answers():
    """No hits; but nobody owns a place."""
    index = dtoss.build([], np.zeros((0, 2)))
    assert len(index) == 0
    assert len(index.knn([[0.0, 0.0]], 5)) == 0
    assert index.count([[0.0, 0.0]], 1e9).tolist() == [0]
    assert len(index.reverse_nearest([[0.0, 0.0]])) == 0
    with pytest.raises(ValueError, match="empty"):
        index.locate([[0.0, 0.0]])
