"""Boxes and polygons: against brute force in rational numbers, across the antimeridian and at the poles."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.geometry.disc_cover import cover_polygon
from dtoss.geometry.distance import distance
from dtoss.geometry.polygons import as_polygons
from dtoss.geometry.space import space_of
from tests import oracles
from tests.dtoss.scenes import PARTITIONS
from tests.dtoss.strategies import lonlat, planar
from tests.examples import examples

SPHERE, PLANE = space_of(), space_of("none")


def in_box(positions, box, plane):
    """Row by row, with both longitudes of the antimeridian and all of a pole."""
    west, south, east, north = box
    found = []
    for x, y in positions.tolist():
        xs = {x, -x} if abs(x) == 180 and not plane else {x}
        across = any(west <= lon <= east if west <= east else lon >= west or lon <= east for lon in xs)
        found.append(south <= y <= north and (across or (not plane and abs(y) == 90)))
    return found


def built(data, positions, plane):
    ids = np.random.default_rng(1).permutation(len(positions)).tolist()
    if data.draw(st.booleans()):
        ids = [f"é{i}" if i % 2 else f"z{i}" for i in ids]
    index = dtoss.build(
        np.array(ids, dtype=object if ids and isinstance(ids[0], str) else np.int64),
        positions,
        crs="none" if plane else None,
        partitions=data.draw(st.sampled_from(PARTITIONS)),
        columns={"even": pa.array(np.arange(len(ids)) % 2 == 0)},
    )
    return index, ids


def expected(ids, held):
    return sorted(i for i, h in zip(ids, held, strict=True) if h)


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_boxes(data):
    plane = data.draw(st.booleans())
    positions = data.draw(planar() if plane else lonlat())
    index, ids = built(data, positions, plane)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    boxes = []
    for _ in range(4):
        corners = rng.choice([-1000, 0.0, 3.0, 7.0, 65.0, 1e9, 4.0e6], (2, 2)) if plane else _corners(rng)
        if len(positions) and rng.uniform() < 0.6:
            corners = positions[rng.integers(0, len(positions), 2)]
        (x0, y0), (x1, y1) = corners.tolist()
        if plane:
            x0, x1 = sorted([x0, x1])
        boxes.append([x0, min(y0, y1), x1, max(y0, y1)])
    hits = index.box(boxes)
    for row, box in enumerate(boxes):
        held = in_box(positions, box, plane)
        assert hits.id[hits.query == row].tolist() == expected(ids, held)
        even = [h and i % 2 == 0 for i, h in enumerate(held)]
        assert index.box(box, where="even").id.tolist() == expected(ids, even)
        assert index.box(box, having="even").id.tolist() == expected(ids, even)
    assert index.count_box(boxes).tolist() == np.bincount(hits.query, minlength=4).tolist()
    assert not hits.distance.any()


def _corners(rng):
    return np.stack(
        [rng.choice([-180.0, -179.9, -30, 0, 30, 179.9, 180], 2), rng.choice([-90.0, -40, 0, 1, 40, 90], 2)], axis=1
    )


def _ring(rng, positions, plane):
    """A ring of three to seven corners, some of them on objects; it may cross itself."""
    v = int(rng.integers(3, 8))
    if plane:
        ring = rng.choice([-1000.0, -3, 0, 2, 5, 9, 65, 1e6], (v, 2))
    else:
        # round a place, and never more than 80 degrees away
        lon0, lat0 = rng.choice([-180.0, 0, 30, 179]), rng.choice([-90.0, -40, 0, 37.7, 90])
        size = rng.choice([1e-4, 1.0, 30.0, 60.0])
        ring = np.stack([lon0 + rng.integers(-3, 4, v) * size / 3, lat0 + rng.integers(-3, 4, v) * size / 3], axis=1)
        ring[:, 1] = np.where(
            ring[:, 1] > 90, 180 - ring[:, 1], np.where(ring[:, 1] < -90, -180 - ring[:, 1], ring[:, 1])
        )
        ring[:, 0] = (ring[:, 0] + 180) % 360 - 180
    if len(positions) and rng.uniform() < 0.7:
        some = rng.integers(0, len(positions), v)
        ring = np.where(rng.uniform(size=(v, 1)) < 0.6, positions[some], ring)
    return ring


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_polygons(data):
    """Corners and edges on objects, self-crossing rings, holes: the same as the oracle decides edge by edge."""
    plane = data.draw(st.booleans())
    positions = data.draw(planar() if plane else lonlat())
    index, ids = built(data, positions, plane)
    space = PLANE if plane else SPHERE
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rings = [_ring(rng, positions, plane) for _ in range(int(rng.integers(1, 3)))]
    edges = data.draw(st.sampled_from(["spherical", "planar"]))
    polygon = {"type": "Polygon", "coordinates": [[*ring.tolist(), ring[0].tolist()] for ring in rings]}
    try:
        as_polygons(polygon, space, edges)
    except ValueError:
        return
    corners = np.concatenate([space.vectors(ring) for ring in rings])
    if not plane and edges == "spherical" and (corners @ corners.mean(axis=0)).min() < 1e-9:
        return  # the oracle wants the mean corner as the middle
    held = oracles.in_zone(space, [rings], positions, edges)
    assert index.within(polygon, edges=edges).id.tolist() == expected(ids, held)
    assert index.count_within(polygon, edges=edges).tolist() == [sum(held)]
    even = [h and i % 2 == 0 for i, h in enumerate(held)]
    assert index.within([polygon, polygon], where="even", edges=edges).id.tolist() == 2 * expected(ids, even)


@pytest.mark.parametrize(
    "ring",
    [
        [[-90.0, -90.0], [0.0, -89.9999], [179.0, 89.9999], [0.0, -90.0]],
        [[0.0, -89.9999], [180.0, 89.9999], [-90.0, 90.0], [179.5, -39.0]],
        [[-180.0, -90.0], [180.0, -90.0], [0.0, 89.9999]],
        [[0.0, 90.0], [-135.0, -89.9999], [0.0, -89.9999], [135.0, -89.9999]],
    ],
)
def test_straight_edges_from_pole_to_pole(ring):
    """A polygon that is cut into cells of 90 degrees holds its corners beside a pole, where a cell has but one."""
    places = np.array([*ring, [45.0, 45.0], [-45.0, -89.9999], [0.0, 90.0], [10.0, 0.0], [180.0, -89.9999]])
    index = dtoss.build(np.arange(len(places)), places, partitions=2)
    polygon = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    held = oracles.in_zone(SPHERE, [[ring]], places, "planar")
    assert all(held[: len(ring)])
    assert index.within(polygon, edges="planar").id.tolist() == np.flatnonzero(held).tolist()
    assert index.count_within(polygon, edges="planar").tolist() == [sum(held)]


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_discs_cover_the_polygon(seed, plane):
    """Every place inside lies in a disc: places drawn along edges, at corners and between them."""
    rng = np.random.default_rng(seed)
    ring = _ring(rng, np.zeros((0, 2)), plane)
    space = PLANE if plane else SPHERE
    try:
        (polygon,) = as_polygons(ring, space)
    except ValueError:
        return
    discs = cover_polygon(polygon)
    begins, ends = polygon.edges()
    share = rng.uniform(size=(20, 1, 1))
    places = (begins + share * (ends - begins)).reshape(-1, begins.shape[1])
    if not plane:
        places /= np.linalg.norm(places, axis=1)[:, None]
    nearest = np.min([distance(places, c) - r for c, r in zip(discs.centres, discs.radii, strict=True)], axis=0)
    assert nearest.max() <= 0.0


def test_a_disc_is_no_larger_than_the_rectangle_in_it():
    """Of one that is far from where axes meet, too."""
    (polygon,) = as_polygons([[10.0, 0.0], [14.0, 0.0], [14.0, 4.0], [10.0, 4.0]], space_of(metric="plane"))
    discs = cover_polygon(polygon)
    assert (discs.centres.tolist(), discs.radii.tolist()) == ([[12.0, 2.0]], [pytest.approx(np.sqrt(8.0))])


@pytest.fixture(scope="module")
def globe():
    rng = np.random.default_rng(2)
    n = 30_000
    positions = np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)
    return dtoss.build(np.arange(n), positions, partitions=7), positions


CAP = {"type": "Polygon", "coordinates": [[[0, 70], [90, 70], [180, 70], [-90, 70], [0, 70]]]}
FIJI = np.array([[177.0, -20.0], [-178.0, -20.0], [-178.0, -15.0], [177.0, -15.0]])
ROAD = np.array([[0.0, 0.0], [40.0, 30.0], [80.0, 0.0], [80.0, 0.3], [40.0, 30.3], [0.0, 0.3]])


@pytest.mark.parametrize("shape", [CAP, FIJI, ROAD, FIJI[::-1]], ids=["pole", "antimeridian", "road", "clockwise"])
def test_places_on_the_globe(globe, shape):
    index, positions = globe
    ring = shape["coordinates"][0] if isinstance(shape, dict) else shape
    # a cap smaller than a hemisphere is convex: with the corners it holds all of the shape
    corners, vectors = SPHERE.vectors(np.asarray(ring, dtype=float)), SPHERE.vectors(positions)
    middle = corners.mean(axis=0) / np.linalg.norm(corners.mean(axis=0))
    near = np.flatnonzero(vectors @ middle > (corners @ middle).min() - 0.01)
    assert (corners @ middle).min() > 0.1
    held = np.zeros(len(positions), np.bool_)
    held[near] = oracles.in_polygon(SPHERE, [ring], positions[near])
    assert 0 < sum(held) < 3000
    assert index.within(shape, edges="spherical").id.tolist() == np.flatnonzero(held).tolist()


def test_a_polygon_whose_mean_corner_is_not_its_middle(globe):
    """A triangle 150 degrees wide, and the same with 200 corners more at one end, which only matter there."""
    index, positions = globe
    near = [[80 + 0.1 * np.cos(a), 0.1 * np.sin(a)] for a in np.linspace(-1.5, 1.5, 200)]
    triangle, lopsided = [[80, 0], [-70, 20], [-70, -10]], [[80, 0], *near, [80, 0], [-70, 20], [-70, -10]]
    far = np.abs(positions[:, 0] - 80) > 1
    found = [{i for i in index.within(shape).id.tolist() if far[i]} for shape in (triangle, lopsided)]
    assert len(found[0]) > 500
    assert found[0] == found[1]


def test_shapes_as_people_have_them(globe):
    """GeoJSON texts, features, objects with __geo_interface__, holes, parts."""
    index, _ = globe
    outer, hole = [[0, 0], [20, 0], [20, 20], [0, 20], [0, 0]], [[5, 5], [15, 5], [15, 15], [5, 15], [5, 5]]
    whole = index.count_within({"type": "Polygon", "coordinates": [outer]})[0]
    inner = index.count_within({"type": "Polygon", "coordinates": [hole]})[0]
    ring = {"type": "Polygon", "coordinates": [outer, hole]}
    assert 0 < inner < whole
    assert index.count_within(json.loads(json.dumps(ring)))[0] == whole - inner

    class Geometry:
        @property
        def __geo_interface__(self):
            return {"type": "Feature", "geometry": ring, "properties": {}}

    parts = {"type": "MultiPolygon", "coordinates": [[hole], [outer, hole]]}
    assert index.count_within([Geometry(), parts]).tolist() == [whole - inner, whole]
    assert len(np.unique(index.within(parts).id)) == whole


def test_a_box_is_bounded_by_parallels_and_a_polygon_by_great_circles(globe):
    index, positions = globe
    box = index.box([-60.0, 50.0, 60.0, 60.0])
    x, y = positions.T
    assert box.id.tolist() == np.flatnonzero((abs(x) <= 60) & (y >= 50) & (y <= 60)).tolist()
    polygon = index.within([[-60, 50], [60, 50], [60, 60], [-60, 60]])
    assert polygon.id.tolist() != box.id.tolist()


def test_whole_world_and_nothing(globe):
    index, positions = globe
    assert index.count_box([-180, -90, 180, 90]).tolist() == [len(positions)]
    assert index.box(np.zeros((0, 4))).id.tolist() == []
    assert index.within([]).id.tolist() == []
    assert index.count_box([10, 10, 10, 10]).tolist() == [0]


def nested(inner: list, depth: int) -> list:
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ([[0, 0], [1, 1]], "2 distinct corners"),
        ([[0, 0], [1, 1], [0, 0]], "2 distinct corners"),
        ([[0, 0], [170, 1], [1, 100]], "corners of a polygon row 2 is"),
        ([[0, 0], [120, 0], [180, 0], [-120, 0]], "fit in a hemisphere"),
        ({"type": "Point", "coordinates": [0, 0]}, "a shape of type 'Point'"),
        ({"type": "Polygon", "coordinates": []}, "no rings"),
        ("POLYGON", "not numbers"),
        ({"type": "Polygon", "coordinates": nested([], 5000)}, "not numbers"),
        (nested([], 5000), "not numbers"),
        ({"type": "Polygon", "coordinates": None}, "coordinates of a shape are of type NoneType: a list is wanted"),
        ({"type": "MultiPolygon", "coordinates": [5]}, "coordinates of a shape are of type int"),
        ({"type": "FeatureCollection", "features": 5}, "features of a shape are of type int"),
        ({"type": "FeatureCollection", "features": ["a"]}, "a shape within another is of type str"),
        ({"type": "Feature", "geometry": [1]}, "a shape within another is of type list"),
        ({"type": "Feature", "geometry": None}, "a shape of type None"),
    ],
    ids=range(15),
)
def test_bad_polygons(globe, shape, says):
    with pytest.raises(ValueError, match=says):
        globe[0].within(shape)


def test_collections_may_nest(globe):
    """5,000 deep; polygons stay in their order."""
    index = globe[0]
    rings = [[[0, 0], [40, 0], [40, 40]], [[-90, -40], [-20, -40], [-50, 30]]]
    parts: list = [{"type": "Polygon", "coordinates": [ring]} for ring in rings]
    shape = {"type": "FeatureCollection", "features": parts}
    for i in range(5000):
        shape = {"type": "Feature", "geometry": shape} if i % 2 else {"type": "FeatureCollection", "features": [shape]}
    together = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
    assert index.within(shape).id.tolist() == index.within(together).id.tolist() != []
    assert [len(one.corners) for one in as_polygons(shape, SPHERE, "spherical")] == [3, 3]


@pytest.mark.parametrize(
    "box",
    [[0, 10, 10, 0], [0, 0, 200, 1], [0, np.nan, 1, 1], [0, 0, 1], [[[0]]]],
    ids=["south", "lon", "nan", "3", "3d"],
)
def test_bad_boxes(globe, box):
    with pytest.raises(ValueError, match="box"):
        globe[0].box(box)


def test_boxes_of_a_projected_crs_on_the_sphere_are_refused():
    index = dtoss.build([1], [[500_000.0, 4_000_000.0]], crs="EPSG:32610", metric="sphere")
    with pytest.raises(ValueError, match="polygon instead"):
        index.box([0, 0, 1e6, 1e7])
    assert index.count_within([[4e5, 3e6], [6e5, 3e6], [5e5, 5e6]]).tolist() == [1]
