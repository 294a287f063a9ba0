"""Tiles of regions: each place of the map is in the polygon of the region that owns it, whatever the zoom."""

from __future__ import annotations

import numpy as np
import pytest
from shapely.geometry import Point

from dtoss.geometry.distance import EARTH_RADIUS
from dtoss.geometry.space import space_of
from dtoss.partitioning.region_polygons import region_shapes
from dtoss.partitioning.regions import Regions
from dtoss.tiles.cell_tiles import region_tile, regions_on_map
from dtoss.tiles.map_frame import MERCATOR_RIM, frame_of, mercator
from tests.dtoss.tiles.decoded import area_on_sphere, cut_to_tile, every_tile, layers, tile_of, unit_places

SPHERE = space_of()
UTM = space_of("EPSG:32631")
PLANE = space_of("none")


def on_sphere(lonlat, weights=None):
    vectors = SPHERE.vectors(np.array(lonlat, float).reshape(-1, 2))
    return Regions(vectors, np.zeros(len(vectors)) if weights is None else np.array(weights, float))


def anywhere(rng, n):
    return np.stack([rng.uniform(-180, 180, n), np.degrees(np.arcsin(rng.uniform(-1, 1, n)))], axis=1)


def scattered(n, seed, weight=0.0):
    rng = np.random.default_rng(seed)
    return on_sphere(anywhere(rng, n), rng.uniform(0, weight, n))


WORLDS = {
    "one": on_sphere([[10, 20]]),
    "halves by the equator": on_sphere([[0, 90], [0, -90]]),
    "halves by a meridian": on_sphere([[0, 0], [180, 0]]),
    "halves by another": on_sphere([[90, 0], [-90, 0]]),
    "a slanted circle": on_sphere([[30, 70], [-150, -70]]),
    "a belt": on_sphere([[0, 90], [7, 0.5], [0, -90]], [0.0, 0.9, 0.0]),
    "a cap round a pole": on_sphere([[0, 90], [11, -50]], [-1.4, 0.0]),
    "a cap round the other": on_sphere([[0, -90], [11, 50]], [-1.4, 0.0]),
    "a hole": on_sphere([[15, 47], [20, 40]], [0.1, 0.05]),
    "a hole on the antimeridian": on_sphere([[179, -20], [-160, -10]], [-0.005, 0.1]),
    "an empty one": on_sphere([[15, 47], [20, 40], [-100, 0]], [0.1, -0.9, 0.0]),
    "sides through a pole": on_sphere([[0, 60], [90, 60], [180, 60], [-90, 60], [0, -90]]),
    "seven": scattered(7, 1),
    "twelve of weights": scattered(12, 2, 0.3),
    "sixty-four": scattered(64, 3, 0.01),
}


def places_of(name, n=60):
    rng = np.random.default_rng(len(name))
    near = np.array([[180, 0], [-180, 30], [0, 85], [77, -85], [179.99, 60], [-179.99, -60], [0, 0]], float)
    around = anywhere(rng, n)
    return np.concatenate([near, around[np.abs(around[:, 1]) < MERCATOR_RIM]])


OTHER_ZOOMS = pytest.mark.deep("other zooms; some worlds are in all of them in make test")
ALL_ZOOMS = ("sides through a pole", "a hole on the antimeridian", "twelve of weights")


@pytest.mark.parametrize(
    ("name", "z"),
    [
        pytest.param(name, z, marks=() if z == 1 or name in ALL_ZOOMS else OTHER_ZOOMS)
        for name in WORLDS
        for z in (0, 1, 5, 14)
    ],
)
def test_a_place_lies_in_the_polygon_of_the_region_that_owns_it(name, z):
    """And in no other, but for the width of a unit of the tile."""
    regions = WORLDS[name]
    made = regions_on_map(frame_of(SPHERE, None), regions, None)
    places = places_of(name)
    owner = regions.nearest(SPHERE.vectors(places))
    kept = {}
    for place, number in zip(mercator(places), owner.tolist(), strict=True):
        tile = tile_of(place, z)
        if tile not in kept:
            kept[tile] = layers(region_tile(made, *tile))["regions"]
        holds(kept[tile], unit_places(place, *tile), number)


def holds(features, place, number):
    here = Point(place)
    for feature_id, told, polygons in features:
        assert feature_id == told["partition"]
        if feature_id == number:
            assert polygons.buffer(0).distance(here) <= 1.0, (number, place)
        else:
            inner = polygons.buffer(0).buffer(-1.5)
            assert not inner.contains(here), (number, feature_id, place)
    assert number in [feature_id for feature_id, _, _ in features]


@pytest.mark.parametrize("name", WORLDS)
def test_areas_in_all_tiles_of_a_zoom_sum_to_those_of_the_regions(name):
    """Of all that the map has: up to its rims."""
    regions, z = WORLDS[name], 2
    made = regions_on_map(frame_of(SPHERE, None), regions, None)
    found, wrong = np.zeros(len(regions)), 0.0
    for tile in every_tile(z):
        for number, _, polygons in layers(region_tile(made, *tile))["regions"]:
            found[number] += area_on_sphere(cut_to_tile(polygons), *tile)
            wrong += polygons.length * (2 * np.pi / 4096 / 2**z) ** 2
    map_of_all = 4 * np.pi * np.sin(np.radians(MERCATOR_RIM))
    assert found.sum() == pytest.approx(map_of_all, abs=wrong)
    cap = 2 * np.pi * (1 - np.sin(np.radians(MERCATOR_RIM)))
    for shape, area in zip(region_shapes(regions, None), found.tolist(), strict=True):
        true = shape.area / EARTH_RADIUS**2
        assert true - 2 * cap - wrong <= area <= true + wrong


@pytest.mark.parametrize("name", ["seven", "a belt", "sixty-four", "halves by a meridian"])
def test_borders_are_lines_between_two_regions_and_run_along_no_tile(name):
    """Every point of a line is as far past one border as past another, and the line of a whole tile is none."""
    regions = WORLDS[name]
    made = regions_on_map(frame_of(SPHERE, None), regions, None)
    seen = 0
    for z, x, y in every_tile(2):
        for _, told, lines in layers(region_tile(made, z, x, y)).get("borders", []):
            for line in getattr(lines, "geoms", [lines]):
                world = (np.array(line.coords) / 4096 + [x, y]) / 2**z
                lon, lat = world[:, 0] * 360 - 180, np.degrees(np.arctan(np.sinh(np.pi - 2 * np.pi * world[:, 1])))
                vectors = SPHERE.vectors(np.stack([(lon + 180) % 360 - 180, lat], axis=1))
                past = regions.past(vectors, told["partition"]).max(axis=1)
                assert np.abs(past).max() < 1.0 / (4096 * 2**z) * 2 * np.pi
                seen += len(world)
    assert seen > 10
    # a place well inside of a region: a small tile there has no border, and one polygon that is all of it
    (far,) = [place for place in places_of(name) if abs(place[1]) < 80 and alone(regions, place)][:1]
    tile = tile_of(mercator(far[None])[0], 14)
    found = layers(region_tile(made, *tile))
    assert list(found) == ["regions"]
    assert len(found["regions"]) == 1
    assert cut_to_tile(found["regions"][0][2]).area == 4096 * 4096


def alone(regions, place):
    vector = SPHERE.vectors(place[None])
    return regions.past(vector, int(regions.nearest(vector)[0])).max() < -0.01


def test_edges_follow_great_circles_at_every_zoom():
    """The middle of a long border lies where the sphere has it, not where the map would draw a straight line."""
    regions = on_sphere([[0, 50], [20, 55]])
    made = regions_on_map(frame_of(SPHERE, None), regions, None)
    middle = regions.pivots.sum(axis=0)
    for lonlat in (SPHERE.positions(middle[None] / np.linalg.norm(middle)), np.array([[10.0, 80.0]])):
        vector = SPHERE.vectors(lonlat)
        normal = regions.pivots[1] - regions.pivots[0]
        on_border = vector - (vector @ normal)[:, None] * normal / (normal @ normal)
        on_border /= np.linalg.norm(on_border)
        place = mercator(SPHERE.positions(on_border))[0]
        tile = tile_of(place, 14)
        (_, _, line), *_ = layers(region_tile(made, *tile))["borders"]
        assert line.distance(Point(unit_places(place, *tile))) < 2.0


PLANES = [
    (PLANE, [-500.0, 20.0, 1500.0, 900.0]),
    (UTM, [3e5, 5.2e6, 7e5, 5.6e6]),
    (space_of("EPSG:32660"), [1e5, 1e6, 1.2e6, 5.6e6]),  # over the antimeridian
    (space_of("EPSG:3031"), [-2e6, -2e6, 2e6, 2e6]),  # round a pole
    (space_of("EPSG:3995"), [-2e6, -2e6, 2e6, 2e6]),
]


@pytest.mark.parametrize(("space", "bounds"), PLANES)
@pytest.mark.parametrize("z", [0, 3, 9])
def test_regions_of_a_plane(space, bounds, z):
    """With a CRS, where lon, lat bend their sides, and without one."""
    rng = np.random.default_rng(5)
    bounds = np.array(bounds)
    pivots = rng.uniform(bounds[:2], bounds[2:], (11, 2))
    regions = Regions(pivots, rng.uniform(0, 0.01, 11) * np.ptp(bounds[::2]) ** 2)
    frame = frame_of(space, bounds)
    made = regions_on_map(frame, regions, bounds)
    places = rng.uniform(bounds[:2], bounds[2:], (60, 2))
    world = frame.world_of(places)
    places, world = (some[(world[:, 1] > 0.0) & (world[:, 1] < 1.0)] for some in (places, world))
    assert len(world) > 20
    for place, number in zip(world, regions.nearest(places).tolist(), strict=True):
        tile = tile_of(place, z)
        holds(layers(region_tile(made, *tile))["regions"], unit_places(place, *tile), number)


def test_areas_of_a_plane_sum_to_those_of_the_regions():
    """To a unit of the tile along their borders."""
    bounds, rng = np.array([0.0, 0.0, 40.0, 30.0]), np.random.default_rng(8)
    regions = Regions(rng.uniform(bounds[:2], bounds[2:], (9, 2)), np.zeros(9))
    frame = frame_of(PLANE, bounds)
    made, side = regions_on_map(frame, regions, bounds), frame.plane[2]
    found = np.zeros(9)
    for tile in every_tile(1):
        for number, _, polygons in layers(region_tile(made, *tile))["regions"]:
            found[number] += cut_to_tile(polygons).area * (side / 2 / 4096) ** 2
    areas = [shape.area for shape in region_shapes(regions, bounds)]
    assert found == pytest.approx(areas, abs=0.2)
    assert sum(areas) == pytest.approx(1200.0)
