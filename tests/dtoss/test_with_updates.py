"""Rows that are merged with an index in memory: answers are those of brute force, files those of a cycle."""

from __future__ import annotations

from itertools import count

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.merge_rows import record_of
from dtoss.shards.share import held_index
from dtoss.snapshots.partition_file import encode, encode_border
from pipelines.cycle import cycle
from tests import worlds
from tests.examples import examples
from tests.update_worlds import INT_IDS, NOW, STRING_IDS, drawn, table

KINDS = worlds.KINDS
SOME = ("lattice", "flat lattice", "two parallels", "few places", "ulps")
ROWS = {"id": [1, 2, 3], "lon": [8.0, 9.0, 10.0], "lat": [50.0, 51.0, 52.0], "free": [True, False, True]}


def places_of(index):
    """{id: (x, y)} of all objects."""
    parts = [(part.ids[: part.owned_objects], part.positions) for part in index.parts.all()]
    return {
        id: tuple(place)
        for ids, positions in parts
        for id, place in zip(ids.tolist(), positions.tolist(), strict=False)
    }


def files_of(index):
    """The bytes of all partitions and of the borders."""
    return [encode(part).to_pybytes() for part in index.parts.all()] + [encode_border(index.border).to_pybytes()]


def frame_of(world, rows, places=None, value=None):
    names = ("lon", "lat") if world.metric == "sphere" else ("x", "y")
    places = world.positions[rows] if places is None else places
    ids = world.ids[rows]
    return {
        "id": ids.tolist() if ids.dtype == object else ids,
        **dict(zip(names, places.T, strict=True)),
        "v": world.value[rows] if value is None else value,
    }


def moved(world, partitions, rng):
    """A world's index that was built of an earlier state of it, and the rows, in two goes, that bring it there."""
    many = len(world.ids)
    late = rng.random(many) < 0.2
    away = rng.random(many) < 0.5
    places = np.where(away[:, None], world.positions[rng.permutation(many)], world.positions)
    stood = np.flatnonzero(~late)
    crs = None if world.metric == "sphere" else "none"
    bounds = None if many == 0 or world.metric == "sphere" or rng.random() < 0.5 else around(world.positions)
    index = dtoss.build(
        frame_of(world, stood, places[stood], np.zeros(len(stood), np.int64)),
        crs=crs, partitions=partitions, seed=world.seed, bounds=bounds,
    )  # fmt: skip
    order = rng.permutation(many)
    return index, np.array_split(order, 2)


def around(positions):
    low, high = positions.min(axis=0), positions.max(axis=0)
    return [*(low - 1.0), *(high + 1.0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "partitions", [*(pytest.param(n, marks=pytest.mark.deep("7 are in make test")) for n in (1, 2, 64)), 7]
)
def test_answers_are_those_of_brute_force(kind, partitions):
    """Objects swap places, change and are new: every kind of awkward world, in two goes."""
    seed = next(seed for seed in count(partitions) if 3 <= len(worlds.world(kind, seed).ids) <= 60)
    world = worlds.world(kind, seed)
    index, goes = moved(world, partitions, np.random.default_rng(seed))
    for rows in goes:
        index = index.with_updates(frame_of(world, rows))
    assert worlds.compare(world, index) + worlds.compare_cells(world, index) == []


def store_of(path, rows, **options):
    first = {"partitions": 4} | ({"crs": "none"} if options["plane"] else {})
    cycle(table(rows, **options), str(path), now=NOW, first=first, deleted="deleted", pivots="keep")


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1), plane=st.booleans(), string_ids=st.booleans(),
    time=st.sampled_from([None, pa.timestamp("us", "UTC"), pa.date32()]),
)  # fmt: skip
def test_the_partitions_are_those_of_a_cycle(tmp_path_factory, seed, plane, string_ids, time):
    """Byte for byte, with ties of time, rows that say nothing new, and deletions."""
    path = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(seed)
    ids = STRING_IDS if string_ids else INT_IDS
    kinds = {"plane": plane, "string_ids": string_ids, "time": time}
    first = drawn(rng, ids, 30, plane=plane, at=(0, 60), deleted=0.0)
    store_of(path, first, **kinds)
    index = dtoss.open(str(path))
    for at in ((40, 80), (60, 100)):
        came = table(drawn(rng, ids, int(rng.integers(0, 9)), plane=plane, at=at, deleted=0.0), **kinds)
        gone = table(drawn(rng, ids, 2, plane=plane, at=(100, 101), deleted=1.0), **kinds)
        both = pa.concat_tables([came, gone]) if at[0] == 60 else came
        index = index.with_updates(both, deleted="deleted")
        now = 1e9 if time is None else "2030-01-01"
        cycle(both, str(path), now=now, deleted="deleted", deleted_for=None, pivots="keep", in_place_until=1e9,
              allow_empty=True)  # fmt: skip
        assert files_of(index) == files_of(dtoss.open(str(path)))


def test_what_no_row_touches_is_shared():
    rng = np.random.default_rng(0)
    frame = {"id": np.arange(4000), "lon": rng.uniform(-170, 170, 4000), "lat": rng.uniform(-60, 60, 4000)}
    index = dtoss.build(frame, partitions=16)
    place = index.parts[3].positions[0]
    after = index.with_updates({"id": [9999], "lon": [place[0]], "lat": [place[1]]})
    shared = [one is other for one, other in zip(index.parts.all(), after.parts.all(), strict=True)]
    assert 8 <= sum(shared) < 16
    assert not shared[3]
    assert (len(index), len(after)) == (4000, 4001)
    assert 9999 not in index.knn(place, 2).id


def test_rows_that_say_nothing_new_leave_the_index_itself():
    index = dtoss.build({**ROWS, "t": [10, 10, 10]})
    assert index.with_updates({**ROWS, "t": [10, 9, 10]}) is index
    assert index.with_updates({name: values[:0] for name, values in {**ROWS, "t": [1]}.items()}) is index
    nobody = {"id": [7], "lon": [0.0], "lat": [0.0], "free": [True], "t": [20], "gone": [True]}
    assert index.with_updates(nobody, deleted="gone") is index


def test_the_latest_row_counts_and_at_equal_times_the_deletion():
    index = dtoss.build({**ROWS, "seen": [10, 10, 10]})
    rows = pd.DataFrame(
        {"id": [1, 1, 2, 3, 3], "lon": [1.0, 2.0, 3.0, 4.0, None], "lat": [0.0, 0.0, 0.0, 0.0, None],
         "free": [True] * 5, "seen": [12, 11, 9, 13, 13], "gone": [False, False, False, False, True]}
    )  # fmt: skip
    after = index.with_updates(rows, time="seen", deleted="gone")
    assert places_of(after) == {1: (1.0, 0.0), 2: (9.0, 51.0)}
    assert after.knn([1.0, 0.0], columns=["seen"]).columns["seen"].to_pylist() == [12]


@pytest.mark.parametrize("threads", [1, 2])
def test_bounds_grow_with_what_arrives_unless_somebody_gave_them(threads):
    """Then every partition is built anew."""
    rng = np.random.default_rng(1)
    frame = {"id": np.arange(500), "x": rng.uniform(0, 10, 500), "y": rng.uniform(0, 10, 500)}
    far = {"id": [500], "x": [35.0], "y": [5.0]}
    after = dtoss.build(frame, crs="none", partitions=5).with_updates(far, threads=threads)
    xmin, _, xmax, _ = after.bounds
    assert xmin > -2
    assert xmax >= 35
    assert np.isclose(after.cells().area.sum(), np.prod(np.subtract(after.bounds[2:], after.bounds[:2])))
    given_ = dtoss.build(frame, crs="none", partitions=5, bounds=[0, 0, 10, 10])
    with pytest.raises(ValueError, match=r"bounds \[0.0, 0.0, 10.0, 10.0\] do not hold all objects"):
        given_.with_updates(far)


def test_it_is_saved_and_updated_as_what_was_built(tmp_path):
    """Of one that was built, and of one that was opened, whose times stay."""
    rows = {**ROWS, "t": [10, 10, 10]}
    more = {"id": [4], "lon": [11.0], "lat": [53.0], "free": [False], "t": [12]}
    dtoss.build(rows).with_updates(more).save(tmp_path / "a")
    dtoss.build(rows).save(tmp_path / "b")
    dtoss.open(tmp_path / "b").with_updates(more).save(tmp_path / "c")
    again = {**more, "lon": [12.0], "t": [13]}
    for name in "ac":
        dtoss.update(tmp_path / name, again, now=20)
        assert places_of(dtoss.open(tmp_path / name))[4] == (12.0, 53.0)
    with pytest.raises(ValueError, match="time is 'free': the objects have times already"):
        dtoss.open(tmp_path / "b").with_updates(more).save(tmp_path / "d", time="free")


def test_moments_are_cut_to_what_a_store_holds(tmp_path):
    at = pd.to_datetime(["2026-01-01T00:00:00.000000001"] * 3)
    dtoss.build(pd.DataFrame({**ROWS, "t": at})).save(tmp_path / "a")
    index = dtoss.open(tmp_path / "a")
    frame = pd.DataFrame({**ROWS, "lon": [0.0, 0.0, 0.0]})
    assert places_of(index.with_updates(frame.assign(t=at + pd.Timedelta(1001, "ns"))))[1] == (0.0, 50.0)
    assert places_of(index.with_updates(frame.assign(t=at - pd.Timedelta(1001, "ns"))))[1] == (8.0, 50.0)


def test_a_geodataframe_is_in_the_crs_of_the_index():
    points = gpd.GeoDataFrame(ROWS, geometry=gpd.points_from_xy(ROWS["lon"], ROWS["lat"]), crs=4326)[
        ["id", "free", "geometry"]
    ]
    index = dtoss.build(points)
    to = points.iloc[:1].set_geometry([shapely.Point(0, 0)], crs=4326)
    assert places_of(index.with_updates(to))[1] == (0.0, 0.0)
    with pytest.raises(ValueError, match="EPSG:3857"):
        index.with_updates(to.to_crs(3857))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"id": ["a", "b", "c"]}, {}, "ids are whole numbers in the index and text in the rows"),
        ({"id": [1, 1, 2]}, {}, "1 ids stand more than once, 1 among them: .* a column of times"),
        ({"free": None}, {}, "the rows have no column 'free', which the objects carry"),
        ({"free": ["x", "y", "z"]}, {}, "column 'free' is string in the rows and bool in the index"),
        ({"lon": [500.0, 0.0, 0.0]}, {}, r"positions of rows row 0 is \(500, 50\)"),
        ({}, {"time": "seen"}, "time: column 'seen' is not carried"),
        ({}, {"deleted": "gone"}, "the rows have no column 'gone'"),
        ({"gone": [1, 0, 1]}, {"deleted": "gone"}, "column 'gone' is int64 with 0 nulls: true or false is wanted"),
        ({}, {"threads": 0}, "threads is 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_told(change, options, said):
    rows = {name: values for name, values in {**ROWS, **change}.items() if values is not None}
    with pytest.raises(ValueError, match=said):
        dtoss.build(ROWS).with_updates(rows, **options)


def test_no_frame_and_no_whole_index():
    index = dtoss.build(ROWS, partitions=2)
    with pytest.raises(TypeError, match="int is no frame"):
        index.with_updates(7)
    with pytest.raises(ValueError, match="some of the partitions of another one"):
        held_index(index, [0]).with_updates(ROWS)


@pytest.mark.parametrize("plane", [True, False])
@pytest.mark.parametrize(
    ("partitions", "objects"),
    [(1, 1500), (2, 3000), (7, 11_000), pytest.param(64, 90_000, marks=pytest.mark.deep("7 are in make test"))],
)
def test_partitions_of_which_few_cells_are_cut_are_those_of_which_all_are(tmp_path, partitions, objects, plane):
    """Byte for byte, merge after merge: places that many share, others that change hands, objects that come and go.

    All cells are cut of an index that was opened, as no file says which of them are compact.
    """
    rng = np.random.default_rng(partitions)
    names = ("x", "y") if plane else ("lon", "lat")
    places = rng.normal([8.0, 47.0], 0.5, (objects, 2))
    places[objects // 2 : objects // 2 + 50] = places[:50]
    frame = {"id": np.arange(objects), **dict(zip(names, places.T, strict=True)), "v": np.zeros(objects, np.int64)}
    index = dtoss.build(frame, partitions=partitions, crs="none" if plane else None)
    index = index.with_updates({name: values[::100] for name, values in {**frame, "v": frame["v"] + 1}.items()})
    for turn in range(5):
        ids = rng.choice(objects + 50, 40, replace=False)
        at = rng.normal([8.0, 47.0], 0.5, (40, 2))
        at[:5] = places[rng.integers(0, objects, 5)]
        at[5:10] = places[ids[5:10] % objects]
        if turn == 3:
            at[0] = [12.0, 51.0]  # bounds are twice as wide: the curve has another order, and all cells are cut
        rows = {"id": ids, **dict(zip(names, at.T, strict=True)), "v": np.full(40, turn), "gone": np.arange(40) > 34}
        index.save(tmp_path / str(turn))
        whole = dtoss.open(tmp_path / str(turn)).with_updates(rows, deleted="gone")
        index = index.with_updates(rows, deleted="gone")
        assert files_of(index) == files_of(whole)
        assert record_of(index).areas == record_of(whole).areas


def test_cells_that_no_row_may_have_changed_are_not_cut_again():
    rng = np.random.default_rng(0)
    rows = {"id": np.arange(2000), "lon": rng.uniform(8.0, 9.0, 2000), "lat": rng.uniform(47.0, 48.0, 2000)}
    index = dtoss.build(rows, partitions=1).with_updates({"id": [1], "lon": [8.5], "lat": [47.5]})
    record_of(index).cells[0].area[:] = -1.0
    kept = record_of(index.with_updates({"id": [2], "lon": [8.2], "lat": [47.2]})).cells[0].area == -1.0
    assert 1800 < kept.sum() < 1990


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.deep("a few awkward ones are in make test")) for kind in KINDS
       if kind not in SOME), *SOME],
)  # fmt: skip
def test_answers_after_many_merges_are_those_of_brute_force(kind):
    """Of partitions that are large enough for some of their cells to stay; neighbours are those of what was built."""
    seed = next(seed for seed in count() if len(worlds.world(kind, seed).ids) in (2000, 5000))
    world = worlds.world(kind, seed)
    index, goes = moved(world, 1, np.random.default_rng(seed))
    for rows in goes:
        for some in np.array_split(rows, 10):
            index = index.with_updates(frame_of(world, some))
    assert worlds.compare(world, index) == []
    crs = None if world.metric == "sphere" else "none"
    built = dtoss.build(frame_of(world, np.arange(len(world.ids))), crs=crs, partitions=1, bounds=index.bounds)
    for id_ in world.ids[:20].tolist():
        assert set(index.neighbours(id_).tolist()) == set(built.neighbours(id_).tolist())
