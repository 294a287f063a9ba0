"""Tiles of cells: a place is in the cell of the object that is nearest to it."""

from __future__ import annotations

import mapbox_vector_tile
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shapely.geometry import Point

import dtoss
from dtoss.geometry.space import space_of
from dtoss.serve.tiles.tiling import Tiles
from dtoss.tiles.cell_tiles import CELL_LIMITS, CellLimits, CellSource
from dtoss.tiles.map_frame import MERCATOR_RIM, frame_of
from dtoss.tiles.tile_clipping import tile_box
from tests.dtoss.strategies import lonlat, lonlat_queries, planar, planar_queries
from tests.dtoss.tiles.decoded import cut_to_tile, every_tile, layers, tile_of, unit_places
from tests.examples import examples


def source_of(positions, *, crs=None, partitions=3, ids=None, limits=CELL_LIMITS, **more):
    ids = np.arange(len(positions)) if ids is None else ids
    index = dtoss.build(ids, positions, crs=crs, partitions=partitions, **more)
    bounds = None if index.bounds is None else np.array(index.bounds)
    return index, CellSource(index, frame_of(index.space, bounds), limits)


def in_its_cell(index, source, places, zooms):
    """Hold that each place lies in the cell of the object that is nearest to it, and deep inside no other."""
    nearest = index.locate(places).tolist()
    world = source.frame.world_of(places)
    looked = 0
    for place, owner, position in zip(world, nearest, places, strict=True):
        for z in zooms:
            tile = tile_of(place, z)
            features = layers(source.tile(*tile))["cells"]
            here = Point(unit_places(place, *tile))
            holding = [told["id"] for _, told, shape in features if shape.buffer(0).distance(here) <= 1.5]
            inside = [told["id"] for _, told, shape in features if shape.buffer(0).buffer(-1.5).contains(here)]
            corners = source.frame.world_of(index.cell(owner)) * 2**z * 4096
            if np.ptp(corners, axis=0).min() < 3.0:  # hardly to be seen
                continue
            assert str(owner) in holding, (position, z)
            assert inside in ([], [str(owner)]), (position, z)
            looked += 1
    return looked


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep("another seed of the same kind"))])
def test_a_place_is_in_the_cell_of_the_object_nearest_to_it(seed):
    """At all zooms: with poles and the antimeridian, with places of several objects, over partitions."""
    rng = np.random.default_rng(seed)
    around = np.stack([rng.uniform(-180, 180, 300), np.degrees(np.arcsin(rng.uniform(-1, 1, 300)))], axis=1)
    town = rng.normal([179.99, 60.0], 0.01, (200, 2)).round(3)
    town[:, 0] = (town[:, 0] + 180) % 360 - 180
    index, source = source_of(np.concatenate([around, town]), partitions=7)
    places = lonlat_queries(rng, town, 6)
    places = places[np.abs(places[:, 1]) < MERCATOR_RIM]
    assert in_its_cell(index, source, places, [0, 3, 8, 14, 16]) > 100


@settings(max_examples=examples(60, 8), deadline=None)
@given(lonlat(20), st.integers(0, 2**32 - 1), st.sampled_from([0, 2, 9]))
def test_small_worlds_of_the_sphere(positions, seed, z):
    """Ties, lines, poles: cells hold what is nearest to them."""
    assume(len(positions))
    index, source = source_of(positions, partitions=2)
    places = lonlat_queries(np.random.default_rng(seed), positions, 2)
    places = places[np.abs(places[:, 1]) < MERCATOR_RIM]
    in_their_tile(index, source, places, z)


@settings(max_examples=examples(40), deadline=None)
@given(planar(20), st.integers(0, 2**32 - 1), st.sampled_from([0, 2, 5]))
def test_small_worlds_of_the_plane(positions, seed, z):
    """Cells end at the bounds there."""
    assume(len(positions))
    index, source = source_of(positions, crs="none", partitions=2)
    places = planar_queries(np.random.default_rng(seed), positions, 2)
    xmin, ymin, xmax, ymax = index.bounds
    inside = (places >= [xmin, ymin]).all(axis=1) & (places <= [xmax, ymax]).all(axis=1)
    in_their_tile(index, source, places[inside], z)


def in_their_tile(index, source, places, z):
    """Hold that one of the nearest objects' cells, as near as the tile shows it, holds each place."""
    for position, place in zip(places, source.frame.world_of(places), strict=True):
        tile = tile_of(place, z)
        found = layers(source.tile(*tile)).get("cells", [])
        here = Point(unit_places(place, *tile))
        holding = {told["id"] for _, told, shape in found if shape.buffer(0).distance(here) <= 1.5}
        inside = {told["id"] for _, told, shape in found if shape.buffer(0).buffer(-2.0).contains(here)}
        far = index.knn(position, 1).distance[0]
        tolerance = 1e-7 * max(far, 1.0)
        near = {str(one) for one in index.range(position, far + tolerance).id.tolist()}
        assert len(inside - near) == 0, (position, inside, near)
        if inside:
            assert inside <= holding


def test_cells_of_a_tile_tell_the_lowest_id_and_how_many_objects_there_are():
    """Each object is counted once in all cells; text ids stay text."""
    rng = np.random.default_rng(4)
    places = rng.uniform([-20, 30], [40, 60], (60, 2)).round(1)
    positions = places[rng.integers(0, 60, 150)]
    names = [f"<b>é{i:03}" for i in rng.permutation(150)]
    index, source = source_of(positions, ids=names)
    told = {}
    for tile in every_tile(1):
        for _, one, _ in layers(source.tile(*tile))["cells"]:
            told[one["id"]] = one["objects"]
    lowest = {}
    for name, position in zip(names, positions.tolist(), strict=True):
        lowest.setdefault(tuple(position), []).append(name)
    assert told == {min(group): len(group) for group in lowest.values()}
    assert len(index) == sum(told.values())


def test_cells_fill_a_tile_without_gaps():
    """Their areas in a tile sum to the tile's."""
    rng = np.random.default_rng(6)
    index, source = source_of(rng.normal([7.0, 51.0], 0.02, (900, 2)), partitions=5)
    for z in (11, 13, 14):
        tile = tile_of(source.frame.world_of(np.array([[7.0, 51.0]]))[0], z)
        found = layers(source.tile(*tile))["cells"]
        area = sum(cut_to_tile(shape).area for _, _, shape in found)
        around = sum(cut_to_tile(shape).length for _, _, shape in found)
        assert abs(area - 4096**2) < around, z
        assert len(found) > 20
    assert len(index) == 900


def test_too_many_cells_to_be_seen_are_none():
    """From zoom 14 on more are drawn; never more than the limit."""
    limits = CellLimits(far=50, near=200)
    rng = np.random.default_rng(6)
    town = rng.uniform([7.001, 51.001], [7.008, 51.005], (150, 2))
    _, source = source_of(town, limits=limits)
    middle = source.frame.world_of(np.array([[7.005, 51.003]]))[0]
    assert source.tile(*tile_of(middle, 10)) == b""
    assert len(layers(source.tile(*tile_of(middle, 14)))["cells"]) > 100
    _, source = source_of(np.concatenate([town, town + 0.0001]), limits=limits)
    assert source.tile(*tile_of(middle, 14)) == b""


def test_cells_are_asked_for_from_where_they_are_few():
    """At once where all are, from some zoom on in a plane, from 14 on among towns."""
    rng = np.random.default_rng(2)
    for count, crs, first in ((3_000, None, 0), (3_001, None, 14), (3_000, "none", 0), (13_000, "none", 3)):
        index, _ = source_of(rng.uniform(0, 50, (count, 2)), crs=crs)
        assert Tiles(index).shapes.cells_from == first
    _, source = source_of(rng.uniform(0, 50, (13_000, 2)), crs="none")
    assert all(source.tile(3, x, 3) for x in range(1, 7))


def test_one_object_owns_the_whole_map_and_none_owns_nothing():
    """Also in a tile far from it."""
    _, source = source_of(np.array([[12.0, 34.0]]), partitions=1)
    for tile in ((0, 0, 0), (3, 7, 7), (12, 5, 6)):
        ((_, told, shape),) = layers(source.tile(*tile))["cells"]
        assert told == {"id": "0", "objects": 1}
        assert cut_to_tile(shape).area == 4096**2
    _, source = source_of(np.zeros((0, 2)), partitions=1)
    assert source.tile(0, 0, 0) == b""


def test_tiles_that_a_projection_does_not_reach():
    """They have no place in the CRS: cells are cut by them all the same, and nothing fails."""
    rng = np.random.default_rng(5)
    for crs, metric in (("EPSG:27700", None), ("EPSG:3031", None), ("EPSG:32631", "sphere")):
        positions = rng.uniform(2e5, 5e5, (40, 2))
        index = dtoss.build(np.arange(40), positions, crs=crs, metric=metric, partitions=2)
        source = CellSource(index, frame_of(index.space, None if index.bounds is None else np.array(index.bounds)))
        for z in (0, 3, 9):
            for world in [*source.frame.world_of(positions[:5]), (0.0, 0.5), (0.99, 0.99), (0.5, 0.0)]:
                tile = tile_of(world, z)
                found = layers(source.tile(*tile)).get("cells", [])
                assert len({told["id"] for _, told, _ in found}) == len(found)
        owner = index.locate(positions[0]).tolist()[0]
        tile = tile_of(source.frame.world_of(positions[:1])[0], 9)
        here = Point(unit_places(source.frame.world_of(positions[:1]), *tile)[0])
        shapes = {told["id"]: shape for _, told, shape in layers(source.tile(*tile))["cells"]}
        assert shapes[str(owner)].buffer(1.5).contains(here)


def test_all_cells_that_reach_into_a_tile_are_found():
    """Among them those of far sites: as many as when all cells are cut by the tile."""
    rng = np.random.default_rng(9)
    positions = np.stack([rng.uniform(-180, 180, 400), np.degrees(np.arcsin(rng.uniform(-1, 1, 400)))], axis=1)
    index, source = source_of(positions, partitions=4)
    assert space_of() == index.space
    whole = {told["id"]: shape for _, told, shape in layers(source.tile(0, 0, 0))["cells"]}
    assert len(whole) == 400
    for z, x, y in every_tile(3):
        found = {told["id"] for _, told, _ in layers(source.tile(z, x, y))["cells"]}
        corner = np.array([x, y]) * 512.0
        inner = Point(corner + 256.0).buffer(230.0, cap_style="square")
        wanted = {name for name, shape in whole.items() if shape.buffer(0).intersects(inner)}
        assert wanted <= found


def test_a_tile_is_the_same_each_time():
    """A name means one tile for ever."""
    rng = np.random.default_rng(3)
    _, source = source_of(rng.normal([7.0, 51.0], 0.02, (300, 2)))
    _, again = source_of(rng.normal([7.0, 51.0], 0.02, (0, 2)), partitions=1)
    tile = tile_of(source.frame.world_of(np.array([[7.0, 51.0]]))[0], 12)
    assert source.tile(*tile) == source.tile(*tile)
    assert mapbox_vector_tile.decode(source.tile(*tile))
    assert again.in_view(tile_box(*tile), 10) is None
