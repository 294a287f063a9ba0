"""What an index says of single objects, and how it behaves as a Python object."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import space_of
from dtoss.snapshots.store import Store
from tests import oracles
from tests.dtoss.scenes import PARTITIONS, lowest_ids, rows, taxis, whole
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.examples import examples


@settings(max_examples=examples(60), deadline=None)
@given(
    st.one_of(st.tuples(st.just("sphere"), lonlat()), st.tuples(st.just("plane"), planar())),
    st.sampled_from(PARTITIONS),
    st.sampled_from([None, 0.0]),
    st.integers(0, 2**32 - 1),
)
def test_cells_are_exact_across_partitions(made, partitions, reach, seed):
    """Cells, neighbours and areas equal those of one partition; areas sum to the whole; neighbours are mutual."""
    metric, positions = made
    crs = "EPSG:4326" if metric == "sphere" else "none"
    ids = np.random.default_rng(seed).permutation(len(positions)).tolist()
    one = dtoss.build(ids, positions, crs=crs, partitions=1)
    many = dtoss.build(ids, positions, crs=crs, partitions=partitions, reach=reach)
    lowest = lowest_ids(one, ids, positions) if ids else []
    found = {i: many.neighbours(i).tolist() for i in lowest}
    for i in lowest:
        assert set(found[i]) == set(one.neighbours(i).tolist())
        assert all(i in found[j] for j in found[i])
        assert many.area(i) == pytest.approx(one.area(i), rel=1e-7, abs=1e-9 * whole(one) * 1e-9)
    if lowest:
        assert sum(many.area(i) for i in lowest) == pytest.approx(whole(many), rel=1e-9)


@cache
def fleet():
    """(ids, positions, [(id, ids of its neighbours, square metres)] in long double), for all numbers of partitions."""
    rng = np.random.default_rng(41)
    positions = np.unique(taxis(rng, 2500), axis=0)
    ids = rng.permutation(len(positions))
    sites, expected = space_of().vectors(positions), []
    for at in rng.choice(len(ids), 60, replace=False).tolist():
        edges, area, small = oracles.tangent_cell(sites, at)
        if small:
            near = {int(ids[j]) for j, length in edges.items() if length > 1e-9}
            expected.append((ids[at], near, area * EARTH_RADIUS**2))
    return ids, positions, expected


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("reach", [None, 0.0])
def test_cells_of_taxis_equal_long_double(partitions, reach):
    """Neighbours and areas of real-looking data against brute force, whatever was certified."""
    ids, positions, expected = fleet()
    index = dtoss.build(ids, positions, partitions=partitions, reach=reach)
    for one, near, metres in expected:
        assert set(index.neighbours(one).tolist()) == near
        assert index.area(one) == pytest.approx(metres, rel=1e-9 if metres > 10 else 1e-7)
        assert len(index.cell(one)) >= len(near)


def test_a_cell_is_counter_clockwise_round_its_object():
    """In the plane: a polygon with the object inside; on the sphere: positions round it."""
    index = dtoss.build([1, 2, 3, 4, 5], [[0, 0], [2, 0], [0, 2], [-2, 0], [0, -2]], crs="none")
    x, y = index.cell(1).T
    assert sorted(index.cell(1).tolist()) == [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    assert (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() > 0
    assert index.area(1) == 4.0
    assert set(index.neighbours(1).tolist()) == {2, 3, 4, 5}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.one_of(st.tuples(st.just("sphere"), lonlat(20)), st.tuples(st.just("plane"), planar(20))),
    st.sampled_from(PARTITIONS),
    st.integers(0, 2**32 - 1),
)
def test_reverse_nearest_equals_brute_force(made, partitions, seed):
    """The influence set of places on objects, between them and far outside."""
    metric, positions = made
    rng = np.random.default_rng(seed)
    ids = rng.permutation(len(positions)).tolist()
    index = dtoss.build(ids, positions, crs="EPSG:4326" if metric == "sphere" else "none", partitions=partitions)
    queries = (lonlat_queries if metric == "sphere" else planar_queries)(rng, positions, 4)
    assert rows(index.reverse_nearest(queries)) == oracles.reverse_nearest(index.space, ids, positions, queries)


def test_objects_by_id():
    """An object comes back as it was given; ids keep their kind; unknown ones are a KeyError."""
    index = dtoss.build([10, 20], [[-180.0, 5.0], [7.0, 90.0]], columns={"kind": ["a", "b"]}, partitions=2)
    assert index[10] == {"id": 10, "lon": -180.0, "lat": 5.0, "kind": "a"}
    assert 20 in index
    assert "20" not in index
    assert 20.0 not in index
    with pytest.raises(KeyError, match="no object has the id 30"):
        index[30]
    named = dtoss.build(["b", "a"], [[1.0, 2.0], [3.0, 4.0]], crs="EPSG:32633")
    assert named["b"] == {"id": "b", "x": 1.0, "y": 2.0}
    assert named.knn([[3.0, 4.0]]).id.tolist() == ["a"]
    assert 1 not in named


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.uint32, np.int64])
def test_integer_ids_of_any_size(kind):
    """All become 64-bit integers."""
    index = dtoss.build(np.array([3, 1, 2], dtype=kind), np.zeros((3, 2)))
    assert index.knn([[0.0, 0.0]], 3).id.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("ids", "positions", "words"),
    [
        ([1, 1, 2], np.zeros((3, 2)), "1 among them"),
        (["a", "b", "a"], np.zeros((3, 2)), "a among them"),
        ([1, 2], np.zeros((3, 2)), "2 ids and 3 positions"),
        ([1.5, 2.5], np.zeros((2, 2)), "integers or strings"),
        ([1, None], np.zeros((2, 2)), "missing"),
        ([1, "a"], np.zeros((2, 2)), "mixture"),
        (np.array([2**63], dtype=np.uint64), np.zeros((1, 2)), "64-bit"),
        (pa.array([1, None]), np.zeros((2, 2)), "1 ids are missing"),
    ],
)
def test_bad_ids_are_named(ids, positions, words):
    """Repeats, gaps, mixtures and numbers that do not fit."""
    with pytest.raises(ValueError, match=words):
        dtoss.build(ids, positions)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([0, 0, 1], "bounds"),
        ([0, 0, 1, 1], "do not hold"),
        ([5, 5, 1, 1], "xmin < xmax"),
        ([0, 0, np.inf, 9], "bounds"),
    ],
)
def test_bad_bounds_are_named(bounds, words):
    """Bounds must be a rectangle that holds all objects."""
    with pytest.raises(ValueError, match=words):
        dtoss.build([1, 2], [[0.0, 0.0], [5.0, 5.0]], crs="none", bounds=bounds)


def test_bounds_clip_cells():
    """Given ones are used as they are; otherwise the box grows by a tenth of its longer side, or by 1."""
    index = dtoss.build([1, 2], [[0.0, 0.0], [10.0, 5.0]], crs="none")
    assert index.bounds == (-1.0, -1.0, 11.0, 6.0)
    assert dtoss.build([1], [[3.0, 3.0]], crs="none").bounds == (2.0, 2.0, 4.0, 4.0)
    given = dtoss.build([1], [[3.0, 3.0]], crs="none", bounds=[0, 0, 10, 10])
    assert given.area(1) == 100.0
    assert dtoss.build([1], [[3.0, 3.0]]).bounds is None


def test_an_index_pickles_into_another_process(tmp_path):
    """In-process indexes travel whole; answers stay the same."""
    rng = np.random.default_rng(42)
    index = dtoss.build(rng.permutation(500), taxis(rng, 500), partitions=3)
    queries = rng.uniform(-122.5, -122.3, (20, 2)) * [1, 0] + [0, 37.77]
    file = tmp_path / "index.pickle"
    file.write_bytes(pickle.dumps(index))
    program = (
        "import pickle, sys, numpy as np; index = pickle.load(open(sys.argv[1], 'rb'));"
        "print(index.knn(np.array(eval(sys.argv[2])), 3).id.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), str(queries.tolist())], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(index.knn(queries, 3).id.tolist())


def test_many_threads_ask_one_index():
    """Workspaces belong to threads; answers do not mix."""
    rng = np.random.default_rng(43)
    positions = taxis(rng, 3000)
    index = dtoss.build(np.arange(3000), positions, partitions=5)
    batches = [positions[rng.integers(0, 3000, 40)] + 1e-5 for _ in range(40)]
    expected = [rows(index.knn(b, 7)) + rows(index.range(b, 50.0)) for b in batches]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda b: rows(index.knn(b, 7)) + rows(index.range(b, 50.0)), batches))
    assert found == expected


def test_repr_and_facts():
    """What a person sees."""
    index = dtoss.build([1, 2], [[0.0, 0.0], [1.0, 1.0]])
    assert repr(index) == "<dtoss.Index of 2 objects in 1 partitions, EPSG:4326>"
    assert (len(index), index.sites, index.crs, index.snapshot) == (2, 2, "EPSG:4326", None)
    assert "knn" in dir(index)
    assert {"build", "open", "Index"} <= set(dir(dtoss))
    with pytest.raises(AttributeError, match="nothing"):
        dtoss.nothing  # noqa: B018


def test_two_builds_of_more_objects_than_are_sampled_have_the_same_bytes(tmp_path):
    """Partitions are chosen from about half of these: which, the seed says. So it is of files, too."""
    positions = np.random.default_rng(44).uniform(0, 100, (24_500, 2))

    def digests(name, **options):
        path = stored(dtoss.build(np.arange(24_500), positions, crs="none", partitions=2, **options), tmp_path / name)
        manifest = Store(path).manifest()
        return manifest["pivots_hash"], [entry["sha256"] for entry in (*manifest["partitions"], manifest["borders"])]

    one = digests("one", seed=3)
    assert digests("two", seed=3) == one
    assert digests("three", seed=4)[0] != one[0]
