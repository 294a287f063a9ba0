"""One place by itself is answered as a batch answers it: the same bits, the same errors, by a kernel of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.queries import one_query
from dtoss.queries.one_query import OneQuery, one_position
from dtoss.queries.workspace import workspace
from tests.dtoss.scenes import PARTITIONS, room_for, spread_ids, taxis
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.ends import end_now
from tests.examples import examples


def same_as_a_batch(index, queries, ks, reaches):
    """Each place by itself and all of them together: the same bytes of the same types."""
    for k in ks:
        for reach in (None, *reaches):
            whole = index.knn(queries, k, max_distance=reach)
            for row, place in enumerate(queries):
                one, mine = index.knn(place, k, max_distance=reach), whole.query == row
                assert_equal(one, whole.id[mine], whole.distance[mine])
    for reach in reaches:
        whole, counts = index.range(queries, reach), index.count(queries, reach)
        for row, place in enumerate(queries):
            mine, count = whole.query == row, index.count(place, reach)
            assert_equal(index.range(place, reach), whole.id[mine], whole.distance[mine])
            assert (count.dtype, count.tolist()) == (np.int64, [counts[row]])


def assert_equal(one, ids, distance):
    assert (one.query.dtype, one.id.dtype, one.distance.dtype) == (np.int64, ids.dtype, np.float64)
    assert one.query.tolist() == [0] * len(ids)
    assert one.id.tolist() == ids.tolist()
    assert one.distance.tobytes() == distance.tobytes()
    assert one.columns == {}


@settings(max_examples=examples(60), deadline=None)
@given(
    lonlat(), st.sampled_from(PARTITIONS), st.sampled_from([None, 0.0, 0.3]), st.booleans(), st.integers(0, 2**32 - 1)
)
def test_on_the_sphere(positions, partitions, reach, strings, seed):
    """Ties, duplicates, lines, poles, the antimeridian, one object, none; integer and string ids."""
    rng = np.random.default_rng(seed)
    ids = spread_ids(rng, len(positions), strings)
    index = dtoss.build(ids, positions, partitions=partitions, reach=reach)
    edges = [[180.0, 0.5], [-180.0, 0.5], [77.0, 90.0], [-180.0, -90.0], [-0.0, -0.0]]
    queries = np.concatenate([lonlat_queries(rng, positions, 4), edges])
    same_as_a_batch(index, queries, (1, 3, len(positions) + 1), (0.0, 1112.0, 2.1e7))


@settings(max_examples=examples(60), deadline=None)
@given(planar(), st.sampled_from(PARTITIONS), st.sampled_from([None, 0.0, 50.0]), st.integers(0, 2**32 - 1))
def test_in_the_plane(positions, partitions, reach, seed):
    """The same, with places far outside the bounds."""
    rng = np.random.default_rng(seed)
    index = dtoss.build(rng.permutation(len(positions)), positions, crs="none", partitions=partitions, reach=reach)
    queries = np.concatenate([planar_queries(rng, positions, 4), [[-0.0, 0.0], [1e90, -1e90]]])
    same_as_a_batch(index, queries, (1, 3, len(positions) + 1), (0.0, 5.0, 1e10))


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_taxis(partitions):
    """Crowded streets, many objects a site, and more of them asked for than a workspace has room for, or keeps."""
    rng = np.random.default_rng(31)
    positions, ids = taxis(rng, 4000), rng.permutation(4000)
    if partitions == 7:
        ids = np.array([f"n{i}" for i in ids.tolist()], dtype=object)
    index = dtoss.build(ids, positions, partitions=partitions)
    with room_for(kept=1000):
        same_as_a_batch(index, lonlat_queries(rng, positions, 12), (1, 8, 1500), (60.0, 5000.0))


@pytest.fixture(scope="module")
def city():
    rng = np.random.default_rng(3)
    return dtoss.build(np.arange(500), rng.uniform(-1, 1, (500, 2)), partitions=7, columns={"kind": np.arange(500)})


USUAL = [
    np.array([0.25, -0.5]), np.array([[0.25, -0.5]]), [0.25, -0.5], (0.25, -0.5), [[0.25, -0.5]], [(0.25, -0.5)],
    ([0.25, -0.5],), [np.float64(0.25), -0.5], (1, 0), [[0, -1]], np.array([9.0, 0.25, 9.0, -0.5])[1::2],
    np.asfortranarray([[0.25, -0.5]]), np.frombuffer(np.array([0.25, -0.5]).tobytes()),
]  # fmt: skip
"""Positions that the kernel of one place is given."""
UNUSUAL = [
    [True, 0.5],
    np.array([0.25, -0.5], np.float32), np.array([1, 0]), np.array([0.25, -0.5], ">f8"), np.array([0.25, -0.5], object),
    np.array([[[0.25, -0.5]]]), np.array([[0.25], [-0.5]]), {"lon": [0.25], "lat": [-0.5]}, [], [[]], [0.25], [[0.25]],
    [0.25, -0.5, 1.0], [[0.25, -0.5], [1.0, 0.0]], np.zeros((0, 2)), [None, 1.0], ["0.25", "-0.5"], ["a", 1.0], "ab",
    [[[0.25, -0.5]]], [5, [1.0, 2.0]], [[1.0, 2.0], 5], 7, None, [10**400, 0], [1j, 0.0], [np.nan, 0.0], [0.0, np.inf],
    [180.00001, 0.0], [0.0, -90.00001], (-122.4, 37.7), (37.7, -122.4), (200.0, 10.0), [np.float32(0.25), 0.5],
    np.array((0.25, -0.5), [("lat", "f8"), ("lon", "f8")]), np.array([1, 2], "m8[s]"), {0.25, -0.5}, range(2), b"ab",
    np.ma.masked_array([0.25, -0.5], [True, False]),
]  # fmt: skip
"""Positions that are left to batches, some of them mistaken."""
MISTAKEN = [
    {"k": 0}, {"k": -3}, {"k": True}, {"k": 2.0}, {"k": "3"}, {"k": None}, {"k": 2**70}, {"k": np.int32(3)},
    {"threads": 0}, {"threads": True}, {"threads": "1"}, {"threads": 2}, {"columns": ""}, {"columns": "kind"},
    {"columns": ("no",)}, {"columns": ["kind"]}, {"columns": []}, {"crs": "EPSG:32633"}, {"crs": "EPSG:4326"},
    {"where": "kind < 100"}, {"where": "no = 1"}, {"having": "kind < 100"}, {"max_distance": -1.0},
    {"max_distance": np.nan}, {"max_distance": "far"}, {"max_distance": [5e4]}, {"max_distance": [5e4, 1.0]},
    {"max_distance": np.float32(5e4)}, {"max_distance": 10**400}, {"max_distance": np.inf}, {"max_distance": 0},
    {"max_distance": 50_000}, {"max_distance": True}, {"max_distance": np.array(5e4)},
]  # fmt: skip
"""Options, legal and not, one at a time."""


RADII = [0.0, -0.0, 5e4, 50_000, True, np.float64(5e4), np.inf, 10**9, -1.0, -1, np.nan, "far", None, 10**400, [5e4],
         np.array(5e4), np.array([5e4]), [5e4, 1.0], np.float32(5e4), 1j, b"1"]  # fmt: skip
"""Of a range, legal and not."""


def outcome(ask):
    """An answer's columns, or the type and text of an error."""
    try:
        hits = ask()
    except Exception as error:
        return type(error), str(error)
    if isinstance(hits, np.ndarray):
        return hits.dtype, hits.tolist()
    return [(a.dtype, a.tolist()) for a in (hits.query, hits.id, hits.distance)], hits.columns


def questions(index, place):
    """What may be asked about one place."""
    return (lambda: index.knn(place, 3), lambda: index.range(place, 5e4), lambda: index.count(place, 5e4))


def batchwise(monkeypatch, ask):
    """What a batch of one has to say."""
    with monkeypatch.context() as patch:
        for way in ("nearest", "within", "count"):
            patch.setattr(OneQuery, way, lambda *_: None)
        return outcome(ask)


@pytest.mark.parametrize("place", USUAL, ids=repr)
def test_forms_of_a_position(city, monkeypatch, place):
    """Arrays, lists and tuples, of either shape."""
    assert one_position(place) is not None
    for ask in questions(city, place):
        assert outcome(ask) == batchwise(monkeypatch, ask)


@pytest.mark.filterwarnings("ignore:.*:numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("place", UNUSUAL, ids=lambda place: repr(place)[:60])
def test_unusual_and_mistaken_positions(city, monkeypatch, place):
    """The answers and the errors of a batch, text for text."""
    for ask in questions(city, place):
        assert outcome(ask) == batchwise(monkeypatch, ask)


@pytest.mark.parametrize("radius", RADII, ids=repr)
@pytest.mark.filterwarnings("ignore:.*:numpy.exceptions.ComplexWarning")
def test_radii(city, monkeypatch, radius):
    """Likewise, beside a good and a bad position."""
    for place in ([0.25, -0.5], [0.0, 91.0]):
        for ask in (city.range, city.count):
            found = outcome(lambda ask=ask, place=place: ask(place, radius))
            assert found == batchwise(monkeypatch, lambda ask=ask, place=place: ask(place, radius))


@pytest.mark.parametrize("options", MISTAKEN, ids=repr)
def test_options(city, monkeypatch, options):
    """Likewise, each beside a good and a bad position: what is complained of first stays the same."""
    for place in ([0.25, -0.5], [0.0, 91.0]):
        for ask in (city.knn, lambda place, **how: city.range(place, 5e4, **how)):
            found = outcome(lambda ask=ask, place=place: ask(place, **options))
            assert found == batchwise(monkeypatch, lambda ask=ask, place=place: ask(place, **options))
        found = outcome(lambda place=place: city.count(place, 5e4, **options))
        assert found == batchwise(monkeypatch, lambda place=place: city.count(place, 5e4, **options))


def test_the_errors_of_a_batch_are_seen(city):
    """So the comparison above is one."""
    assert outcome(lambda: city.knn([0.0, 91.0]))[0] is ValueError
    assert "k is 0" in outcome(lambda: city.knn([0.0, 0.0], 0))[1]


def test_a_projected_crs_on_the_sphere(monkeypatch):
    """Positions are transformed, as a batch."""
    index = dtoss.build([1, 2, 3], [[5e5, 4e6], [5.1e5, 4e6], [5e5, 4.2e6]], crs="EPSG:32633", metric="sphere")
    ask = lambda: index.knn([5.06e5, 4e6], 2)  # noqa: E731
    assert outcome(ask) == batchwise(monkeypatch, ask)
    assert index.knn([5.06e5, 4e6], 2).id.tolist() == [2, 1]


def test_hits_belong_to_who_asked(city):
    """No later answer writes into them."""
    first = city.knn([0.25, -0.5], 4)
    ids, far = first.id.tolist(), first.distance.tolist()
    city.knn([-0.5, 0.7], 4)
    first.query[:] = 9
    wide = city.range([0.25, -0.5], 1e5)
    ids_within, far_within = wide.id.tolist(), wide.distance.tolist()
    city.range([-0.5, 0.7], 1e5)
    assert (wide.id.tolist(), wide.distance.tolist()) == (ids_within, far_within)
    assert city.knn([-0.5, 0.7], 4).query.tolist() == [0] * 4
    assert (first.id.tolist(), first.distance.tolist()) == (ids, far)


@pytest.mark.parametrize("strings", [False, True])
def test_partitions_open_one_after_another(tmp_path, strings):
    """Those that an answer needs, no others; and the next question is told of them."""
    rng = np.random.default_rng(8)
    positions = rng.uniform(-80.0, 80.0, (300, 2))
    ids = np.array([f"n{i}" for i in range(300)], dtype=object) if strings else np.arange(300)
    path = stored(dtoss.build(ids, positions, partitions=20), tmp_path)
    index, asked = dtoss.open(path), rng.uniform(-80.0, 80.0, (40, 2))
    whole = dtoss.open(path).knn(asked, 4)
    opened = []
    for row, place in enumerate(asked):
        one = index.knn(place, 4)
        assert_equal(one, whole.id[whole.query == row], whole.distance[whole.query == row])
        opened.append(sum(partition is not None for partition in index.parts.table.partitions))
        if row == 0:
            lazy = dtoss.open(path)
            lazy.knn(asked[:1], 4)
            assert opened[0] == sum(partition is not None for partition in lazy.parts.table.partitions) < 20
    assert opened == sorted(opened)
    for row, place in enumerate(asked[:8]):
        lazy = dtoss.open(path)
        ids = sorted(lazy.range(place, 2e6).id.tolist())
        assert 0 < sum(partition is not None for partition in lazy.parts.table.partitions) < 20
        assert ids == sorted(index.range(asked[row : row + 1], 2e6).id.tolist())
        assert dtoss.open(path).count(place, 2e6).tolist() == [len(ids)]


def test_a_partition_that_cannot_be_opened_leaves_the_thread_as_it_was(tmp_path, city):
    """The next question asks for its own partitions only."""
    rng = np.random.default_rng(8)
    stored(dtoss.build(np.arange(300), rng.uniform(-80, 80, (300, 2)), partitions=7), tmp_path)
    index = dtoss.open(tmp_path, lazy=True)
    (folder,) = tmp_path.glob("snapshots/*/partitions")
    away = folder.rename(tmp_path / "away")
    with pytest.raises(dtoss.StoreError, match="missing"):
        index.knn([0.0, 0.0], 3)
    assert not workspace.need.any()
    away.rename(folder)
    assert len(index.knn([0.0, 0.0], 3)) == 3


def test_indexes_take_turns():
    """Of other sizes, metrics and numbers of partitions, one after another in one thread."""
    rng = np.random.default_rng(4)
    indexes = [
        dtoss.build(np.arange(n), rng.uniform(-50, 50, (n, 2)), partitions=p, crs=crs)
        for n, p, crs in ((40, 1, None), (3000, 30, "none"), (900, 64, None), (2, 1, "none"))
    ]
    asked = rng.uniform(-60, 60, (25, 2))
    expected = [index.knn(asked, 2) for index in indexes]
    for row, place in enumerate(asked):
        for index, whole in zip(indexes, expected, strict=True):
            assert_equal(index.knn(place, 2), whole.id[2 * row : 2 * row + 2], whole.distance[2 * row : 2 * row + 2])


def test_many_threads_at_once(tmp_path):
    """On one index of which nothing is open at first, each thread with a memory of its own."""
    rng = np.random.default_rng(5)
    built = dtoss.build(np.arange(4000), rng.uniform(-80, 80, (4000, 2)), partitions=20)
    asked = rng.uniform(-80, 80, (200, 2))
    expected, near = built.knn(asked, 700).id.reshape(-1, 700), built.range(asked, 1e6)
    index = dtoss.open(stored(built, tmp_path))
    wrong, begin = [], threading.Barrier(6)

    def ask(turn):
        begin.wait()
        for row in np.roll(np.arange(len(asked)), 30 * turn).tolist():
            k = (1, 8, 700)[row % 3]
            if (index.knn(asked[row], k).id != expected[row, :k]).any():
                wrong.append(row)
            hits = index.range(asked[row], 1e6)
            if hits.id.tolist() != near.id[near.query == row].tolist() or index.count(asked[row], 1e6)[0] != len(hits):
                wrong.append(row)

    callers = [threading.Thread(target=ask, args=(turn,)) for turn in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
    assert wrong == []
    assert not any(caller.is_alive() for caller in callers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_goes_on(city):
    expected = city.knn([0.1, 0.2], 5).id.tolist()
    child = os.fork()
    if child == 0:
        end_now(0 if city.knn([0.1, 0.2], 5).id.tolist() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_first_question_compiles_what_answers_it():
    """Of one place the kernel of one place, and no other search; of a batch none of one place."""
    code = """
import numpy as np, dtoss
from dtoss.compiled.kernel import DECLARED
index = dtoss.build(np.arange(90), np.random.default_rng(1).uniform(-1, 1, (90, 2)), partitions=2)
def ready():
    return sorted(name.rpartition(".")[2] for name, kernel in DECLARED.items() if kernel.overloads)
before = ready()
index.knn([0.1, 0.2], 8), index.knn((0.1, 0.2)), index.knn([0.1, 0.2], max_distance=5)
print(*(name for name in ready() if name not in before))
index.range([0.1, 0.2], 8), index.count((0.1, 0.2), 5.0)
print(*(name for name in ready() if name not in before))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["nearest_to_one", "nearest_to_one within_of_one"]


def test_the_way_of_one_place_is_taken(city, monkeypatch):
    """The comparisons above would hold as well if nobody went it."""
    asked = []
    kernel = one_query.nearest_to_one
    monkeypatch.setattr(one_query, "nearest_to_one", lambda *given: asked.append(1) or kernel(*given))
    for place in USUAL:
        city.knn(place, 2)
    assert len(asked) == len(USUAL)
    for place in ([0.0, 91.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="row 0"):
            city.knn(place)
    assert len(asked) == len(USUAL) + 2
