"""Tiles of objects: a decoder of others reads them, and each object of the sample stands in one tile of each zoom."""

from __future__ import annotations

from collections import Counter

import mapbox_vector_tile
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.serve.tiles.tiling import DEEPEST_TILE, Tiles, Whole
from dtoss.tiles import mvt
from dtoss.tiles.classes import MOST_CLASSES, classes_of
from dtoss.tiles.map_frame import MERCATOR_RIM, box_of, frame_of, mercator, unmercator
from dtoss.tiles.objects_by_row import box_in_store
from dtoss.tiles.point_tiles import ShownPoints, rows_of, sampled_tile
from dtoss.tiles.sample import picked, sample_of
from tests.examples import examples

UTM = "EPSG:32633"


def features(tile):
    """The features of a tile of objects; of each its points, a list, and properties."""
    if not tile:
        return []
    (name,) = (decoded := mapbox_vector_tile.decode(tile, default_options={"y_coord_down": True}))
    assert name == "objects"
    assert decoded[name]["extent"] == mvt.EXTENT
    found = []
    for one in decoded[name]["features"]:
        shape = one["geometry"]
        points = shape["coordinates"] if shape["type"] == "MultiPoint" else [shape["coordinates"]]
        found.append(([tuple(point) for point in points], one["properties"]))
    return found


def tiles_that_hold(world, z):
    """The tiles of places in the map's square, by arithmetic alone."""
    return Counter(tile_of(place, z) for place in world)


def tile_of(place, z):
    """The tile of a place in the map's square."""
    return tuple(np.minimum((place * 2**z).astype(int), 2**z - 1).tolist())


@st.composite
def worlds(draw):
    """Positions, ids, CRS and metric: poles, antimeridian, ties, one object, none; numbers and text; planes."""
    kind = draw(st.sampled_from(["sphere", "none", "utm", "utm on sphere"]))
    count = draw(st.integers(0, 40))
    if kind == "sphere":
        lon = st.sampled_from([-180.0, 180.0, 0.0, 179.9999999]) | st.floats(-180, 180)
        lat = st.sampled_from([-90.0, 90.0, MERCATOR_RIM, -MERCATOR_RIM, 0.0, 89.0]) | st.floats(-90, 90)
        places = draw(st.lists(st.tuples(lon, lat), min_size=count, max_size=count))
    else:
        near = (200_000, 800_000, 0, 9_000_000) if kind != "none" else (-1e6, 1e3, 5.0, 7e5)
        x, y = (st.floats(*ends).filter(lambda at: at == 0 or abs(at) > 1e-80) for ends in (near[:2], near[2:]))
        places = draw(st.lists(st.tuples(x, y), min_size=count, max_size=count))
    ids = [f"ü{i}" for i in range(count)] if draw(st.booleans()) else list(range(-3, count - 3))
    crs = {"sphere": None, "none": "none"}.get(kind, UTM)
    metric = "sphere" if kind == "utm on sphere" else None
    positions = np.array(places, float).reshape(-1, 2)
    return ids, positions, crs, metric, draw(st.sampled_from([1, 3]))


def index_of(world):
    ids, positions, crs, metric, partitions = world
    values = pa.array(ids, pa.large_string() if ids and isinstance(ids[0], str) else pa.int64())
    return dtoss.build(values, positions, crs=crs, metric=metric, partitions=partitions)


def frame_for(index):
    return frame_of(index.space, None if index.bounds is None else np.array(index.bounds))


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.integers(0, DEEPEST_TILE))
def test_each_object_of_a_sample_stands_in_one_tile_of_each_zoom(world, z):
    """Where arithmetic says; the points lie inside; sums of objects are those of the sample."""
    index = index_of(world)
    frame = frame_for(index)
    sample = sample_of(index, frame)
    places = frame.world_of(world[1]) if len(world[1]) else np.zeros((0, 2))
    assert len(sample.keys) + sample.nowhere == len(places)
    wanted = tiles_that_hold(places[~np.isnan(places[:, 0])], z)
    assert sum(wanted.values()) == len(sample.keys)
    for (x, y), count in wanted.items():
        found = features(sampled_tile(sample, ShownPoints(), z, x, y))
        assert sum(properties["objects"] for _, properties in found) == count
        for points, properties in found:
            assert set(properties) == {"level", "objects"}
            assert all(0 <= at < mvt.EXTENT for point in points for at in point)
    away = [(x, y) for x in range(min(2**z, 4)) for y in range(min(2**z, 4)) if (x, y) not in wanted]
    assert all(sampled_tile(sample, ShownPoints(), z, x, y) == b"" for x, y in away)


@settings(max_examples=examples(60), deadline=None)
@given(worlds(), st.integers(0, DEEPEST_TILE))
def test_whole_tiles_hold_every_object_once_with_its_id(world, z):
    """Also where the objects of a tile come from the index, as they do where the sample is a part of it."""
    index = index_of(world)
    frame = frame_for(index)
    places = frame.world_of(world[1]) if len(world[1]) else np.zeros((0, 2))
    ids = dict(zip(map(str, world[0]), places, strict=True))
    for one_of in (1, 2):
        tiles = Tiles(index)
        if one_of > 1:
            # some of the objects are in it, so a tile cannot be made of it
            tiles = Tiles(index, most=max(len(index) // 2, 1))
        shown, beyond = Counter(), set()
        for x, y in tiles_that_hold(places[~np.isnan(places[:, 0])], z):
            if tiles.sample.one_of > 1 and box_in_store(frame, z, x, y) is None:
                beyond.add((x, y))
                continue
            for (point,), properties in features(tiles.objects(z, x, y)):
                shown[properties["id"]] += 1
                within = (np.array([x, y]) + np.array(point) / mvt.EXTENT) / 2**z
                assert np.abs(within - ids[properties["id"]]).max() <= 1.01 / mvt.EXTENT / 2**z
        held = {name: place for name, place in ids.items() if not np.isnan(place[0])}
        assert shown == Counter(name for name, place in held.items() if tile_of(place, z) not in beyond)


@pytest.fixture(scope="module")
def town():
    """Objects of two cities, with attributes of each kind."""
    rng = np.random.default_rng(3)
    centre = np.array([[13.4, 52.5], [-122.4, 37.8]])[rng.integers(0, 2, 6_000)]
    positions = rng.normal(centre, 0.05).round(4)
    seen = pa.array(1_767_225_600_000_000 + rng.integers(0, 10**9, 6_000), pa.timestamp("us", "UTC"))
    columns = {
        "speed": pa.array(
            np.where(rng.random(6_000) < 0.1, None, rng.integers(0, 90, 6_000).astype(object)), pa.int64()
        ),
        "state": rng.choice(["free", "busy", "off"], 6_000, p=[0.6, 0.3, 0.1]).tolist(),
        "free": rng.random(6_000) < 0.5,
        "seen": seen,
    }
    return dtoss.build(np.arange(6_000), positions, columns=columns, partitions=7), positions, columns


@pytest.mark.parametrize("zoom", [0, 4, 9, 12])
def test_a_pixel_is_one_point_and_says_how_many_share_it(town, zoom):
    """Levels and points by counting pixels in numpy."""
    index, positions, _ = town
    sample = sample_of(index, frame_for(index))
    pixels = np.floor(mercator(positions) * 2.0 ** (zoom + 9)).astype(np.int64)
    counted = Counter(map(tuple, pixels.tolist()))
    wanted = {pixel: sum(count >= low for low in (2, 4, 16)) for pixel, count in counted.items()}
    shown = {}
    for x, y in {(x >> 9, y >> 9) for x, y in counted}:
        for points, properties in features(sampled_tile(sample, ShownPoints(), zoom, x, y)):
            for px, py in points:
                assert (px % 8, py % 8) == (4, 4)
                pixel = (x << 9) + px // 8, (y << 9) + py // 8
                assert pixel not in shown
                shown[pixel] = properties["level"]
    assert shown == wanted


@pytest.mark.parametrize("by", ["speed", "state", "free", "seen"])
def test_a_pixel_has_the_class_of_most_objects_there(town, by):
    index, positions, columns = town
    tiles = Tiles(index)
    classes = classes_of(pa.array(columns[by]))
    assert tiles.classes(by).labels == classes.labels
    given_to = classes.of(pa.array(columns[by]))
    zoom, x, y = 8, 137, 83
    pixels = np.floor(mercator(positions) * 2.0 ** (zoom + 9)).astype(np.int64)
    votes = {}
    for pixel, found in zip(map(tuple, pixels.tolist()), given_to.tolist(), strict=True):
        if (pixel[0] >> 9, pixel[1] >> 9) == (x, y):
            votes.setdefault(pixel, Counter())[min(found, 8)] += 1
    wanted = {pixel: min(found, key=lambda one: (-found[one], one)) for pixel, found in votes.items()}
    assert len(wanted) > 100
    shown = {}
    for points, properties in features(
        sampled_tile(tiles.sample, ShownPoints(given_to[order(tiles, index)]), zoom, x, y)
    ):
        assert properties.get("class", 0) < MOST_CLASSES
        for px, py in points:
            shown[(x << 9) + px // 8, (y << 9) + py // 8] = properties.get("class", MOST_CLASSES)
    assert shown == wanted


def order(tiles, index):
    """Ids, which are rows here, in the sample's order."""
    sample = tiles.sample
    return np.array([index.parts[p].ids[i] for p, i in zip(sample.part.tolist(), sample.item.tolist(), strict=True)])


@pytest.mark.parametrize("whole", [True, False])
def test_objects_that_do_not_satisfy_a_condition_are_left_out(town, whole):
    index, _, columns = town
    tiles = Tiles(index, whole=Whole() if whole else Whole(below=0))
    matching = index.filters.get("speed > 40 and state = 'free'")
    speed = np.array([-1 if value is None else value for value in columns["speed"].to_pylist()])
    wanted = (speed > 40) & (np.array(columns["state"]) == "free")
    found = [
        one for x, y in {(0, 0), (0, 1), (1, 0), (1, 1)} for one in features(tiles.objects(1, x, y, None, matching))
    ]
    if whole:
        assert sorted(int(properties["id"]) for _, properties in found) == np.flatnonzero(wanted).tolist()
    else:
        assert sum(properties["objects"] for _, properties in found) == wanted.sum()


@pytest.mark.parametrize("zoom", [0, 7, 16])
def test_where_few_objects_match_all_of_them_are_shown_however_many_there_are(town, zoom):
    """With their ids and classes, each once, though the sample holds one of a hundred."""
    index, positions, columns = town
    speed = np.array([-1 if value is None else value for value in columns["speed"].to_pylist()])
    rows = np.flatnonzero(speed == 7)
    tiles = Tiles(index, most=60, whole=Whole(below=1_000))
    assert tiles.sample.one_of == 100
    classes = tiles.classes("state").of(pa.array(columns["state"]))
    matching, shown = index.filters.get("speed = 7"), []
    for x, y in tiles_that_hold(mercator(positions[rows]), zoom):
        found = features(tiles.objects(zoom, x, y, "state", matching))
        shown += [(int(properties["id"]), properties["class"]) for _, properties in found]
    assert sorted(shown) == list(zip(rows.tolist(), classes[rows].tolist(), strict=True))
    assert len(rows) > 20
    assert len(features(tiles.objects(0, 0, 0, None, index.filters.get("speed < 0")))) == 0


@pytest.mark.parametrize("more", [0, 1])
def test_a_tile_shows_all_objects_where_it_holds_fewer_than_are_too_many(town, more):
    index, _, _ = town
    tiles = Tiles(index, whole=Whole(below=len(index) + more))
    assert tiles.sample.one_of == 1
    assert all(("id" in properties) == bool(more) for _, properties in features(tiles.objects(0, 0, 0)))


def test_from_afar_only_few_objects_are_all_shown(town):
    """3,000 are a sample at zoom 8, and all there at zoom 12, where they are in several tiles."""
    index, positions, _ = town
    tiles = Tiles(index, most=3_000)
    assert tiles.sample.one_of == 2
    ((near, _),) = tiles_that_hold(mercator(positions[:1]), 8).items()
    held = tiles_that_hold(mercator(positions), 8)[near]
    assert 2_000 < held < 3_500
    far = features(tiles.objects(8, *near))
    assert {tuple(properties) for _, properties in far} == {("level", "objects")}
    assert abs(sum(properties["objects"] for _, properties in far) - held / 2) < 200
    for x, y in tiles_that_hold(mercator(positions[:50]), 12):
        assert all("id" in properties for _, properties in features(tiles.objects(12, x, y)))
    more = Tiles(index, most=3_000, whole=Whole(afar=4_000))
    assert len(features(more.objects(8, *near))) == held


def test_a_whole_tile_has_classes_too_and_none_where_there_is_no_value(town):
    index, _, columns = town
    tiles = Tiles(index)
    wanted = classes_of(columns["speed"]).of(columns["speed"])
    found = [one for x in (0, 1) for y in (0, 1) for one in features(tiles.objects(1, x, y, "speed"))]
    assert len(found) == 6_000
    for _, properties in found:
        expected = int(wanted[int(properties["id"])])
        assert properties.get("class", 255) == expected
    assert (wanted == 255).sum() > 100
    with pytest.raises(KeyError):
        tiles.objects(0, 0, 0, "nothing")


@pytest.mark.parametrize("text", [False, True])
def test_a_sample_depends_on_ids_alone_and_holds_that_of_fewer(text):
    """About 1 of n is in it, whatever the ids look like: in a row, with gaps, in another order, in other partitions."""
    numbers = np.concatenate([np.arange(20_000), 2**50 + 1_024 * np.arange(20_000)])
    ids = [f"car {number}" for number in numbers] if text else numbers
    rng = np.random.default_rng(0)
    positions = rng.uniform(-60, 60, (40_000, 2))
    index = dtoss.build(ids, positions, partitions=3)
    other = dtoss.build(ids[::-1], rng.uniform(-60, 60, (40_000, 2)), partitions=2)
    held = {}
    for one_of in (2, 3, 10, 100):
        held[one_of], again = (
            {str(part.ids[i]) for part in made.parts.all() for i in picked(part, one_of).tolist()}
            for made in (index, other)
        )
        assert held[one_of] == again
        assert abs(len(again) - 40_000 / one_of) < 6 * np.sqrt(40_000 / one_of)
    assert held[100] < held[10] < held[3] < held[2]


def test_a_sample_is_of_the_size_that_is_wanted():
    rng = np.random.default_rng(0)
    index = dtoss.build(np.arange(10_000), rng.uniform(-60, 60, (10_000, 2)))
    sample = sample_of(index, frame_for(index), 1_000)
    assert sample.one_of == 10
    assert 800 < len(sample.keys) < 1_200
    assert (np.diff(sample.keys.astype(float)) >= 0).all()
    rows = rows_of(sample, 0, 0, 0)
    assert (rows.start, rows.stop) == (0, len(sample.keys))


@given(st.floats(-180, 180), st.floats(-85, 85))
def test_the_map_goes_both_ways(lon, lat):
    assert np.abs(unmercator(mercator(np.array([[lon, lat]]))) - [lon, lat]).max() < 1e-9


def test_a_plane_without_crs_is_the_middle_of_the_square():
    frame = frame_of(dtoss.build([1, 2], [[0.0, 0.0], [10.0, 5.0]], crs="none").space, np.array([0.0, 0.0, 10.0, 5.0]))
    world = frame.world_of(np.array([[0.0, 0.0], [10.0, 5.0], [5.0, 2.5]]))
    assert np.abs(world - [[1 / 12, 0.5 + 2.5 / 12], [11 / 12, 0.5 - 2.5 / 12], [0.5, 0.5]]).max() < 1e-12
    places = np.array([[3.0, 4.0], [9.0, 0.5]])
    assert np.abs(frame.positions_of(frame.lonlat_of(places)) - places).max() < 1e-9


def test_boxes_of_tiles_cover_the_world():
    assert box_of(0, 0, 0) == (-180.0, -90.0, 180.0, 90.0)
    west, south, east, north = box_of(1, 1, 1)
    assert (west, east, south) == (0.0, 180.0, -90.0)
    assert abs(north) < 1e-12


def test_lines_and_polygons_are_read_as_they_were_meant():
    """Parts, ids, texts with any letters, numbers of any size; a property that a feature does not have is absent."""
    points = np.array(
        [[0, 0], [4096, 0], [4096, 4096], [10, 10], [10, 20], [20, 20], [-64, 5], [4160, 7], [5, 5]], np.int32
    )
    made = mvt.Features(
        mvt.POLYGONS, np.array([0, 2, 3]), np.array([0, 3, 6, 9]), points,
        (("name", ["ä\0", ""]), ("size", np.array([2**40, -1]))), np.array([0, 2**63], np.uint64),
    )  # fmt: skip
    (layer,) = mapbox_vector_tile.decode(mvt.layer("areas", made), default_options={"y_coord_down": True}).values()
    first, second = layer["features"]
    assert first["properties"] == {"name": "ä\0", "size": 2**40}
    assert second["properties"] == {"name": ""}
    assert (first.get("id", 0), second["id"]) == (0, 2**63)
    lines = mvt.Features(mvt.LINES, np.array([0, 2]), np.array([0, 3, 6]), points[:6])
    (layer,) = mapbox_vector_tile.decode(mvt.layer("ways", lines), default_options={"y_coord_down": True}).values()
    (only,) = layer["features"]
    assert only["geometry"] == {
        "type": "MultiLineString",
        "coordinates": [[[0, 0], [4096, 0], [4096, 4096]], [[10, 10], [10, 20], [20, 20]]],
    }
    assert mvt.layer("none", mvt.Features(mvt.POINTS, np.array([0]), np.array([0]), np.zeros((0, 2), np.int32))) == b""
