"""Tiles of the cells that no partition could certify by itself."""

from __future__ import annotations

import numpy as np
import pytest
from shapely.geometry import LineString, MultiLineString, Polygon, box
from shapely.ops import unary_union

import dtoss
from dtoss.serve.tiles.tiling import ShapeTiles
from dtoss.tiles.cell_tiles import POINT_UNITS, uncertified_on_map, uncertified_tile
from dtoss.tiles.map_frame import frame_of
from dtoss.tiles.rings import split_arcs
from tests.dtoss.tiles.decoded import layers, tile_of, unit_places


def world(kind, partitions=5):
    rng = np.random.default_rng(11)
    if kind == "sphere":
        around = np.stack([rng.uniform(-180, 180, 500), np.degrees(np.arcsin(rng.uniform(-1, 1, 500)))], axis=1)
        positions = np.concatenate([around, rng.normal([8.0, 47.0], 0.05, (500, 2))])
    else:
        positions = rng.uniform(0, 1000, (1000, 2))
    crs = None if kind == "sphere" else "none"
    index = dtoss.build(np.arange(1000), positions, crs=crs, partitions=partitions)
    bounds = None if index.bounds is None else np.array(index.bounds)
    return index, bounds, frame_of(index.space, bounds)


def borders_of(index, frame):
    """The borders of each partition's uncertified cells on the map, by the cells that the index tells."""
    found = []
    for partition in index.parts.all():
        rings = []
        for site in partition.uncertified.tolist():
            corners = index.cell(partition.ids[int(partition.first_object[site])])
            if index.space.dimension == 3 and len(corners):
                vectors = index.space.vectors(np.concatenate([corners, corners[:1]]))
                vectors, _ = split_arcs(vectors, np.array([0, len(vectors)]), np.full(len(vectors), 40))
                corners = index.space.positions(vectors)
            world = frame.world_of(np.concatenate([corners, corners[:1]]))
            turned = world[:, 0] + np.cumsum(np.append(0, -np.rint(np.diff(world[:, 0]))))
            rings.append(np.stack([turned, world[:, 1]], axis=1))
        found.append(rings)
    return found


def in_tile(rings, z, x, y):
    """The parts of rings in a tile, in units of it."""
    lines = [unit_places(ring + np.array([turn, 0.0]), z, x, y) for ring in rings for turn in (-1.0, 0.0, 1.0)]
    near = [line for line in lines if (line.min(axis=0) <= 4096).all() and (line.max(axis=0) >= 0).all()]
    return MultiLineString([LineString(line) for line in near]).intersection(box(0, 1, 4096, 4095))


@pytest.mark.parametrize(("kind", "zooms"), [("sphere", (4, 8)), ("plane", (2, 4))])
def test_lines_are_the_borders_of_the_uncertified_cells(kind, zooms):
    """All of them and no others, with the numbers of their partitions; none runs along a tile."""
    index, bounds, frame = world(kind)
    drawn, borders = uncertified_on_map(frame, index.border, bounds), borders_of(index, frame)
    seen = 0
    for z in zooms:
        places = [index.parts[0].positions[3], index.parts[2].positions[9], index.parts[4].positions[1]]
        for tile in {tile_of(place, z) for place in frame.world_of(np.array(places))}:
            features = layers(uncertified_tile(drawn, *tile)).get("uncertified", [])
            for number in range(5):
                own = [shape for _, told, shape in features if told["partition"] == number]
                lines = unary_union([shape for shape in own if not is_point(shape)])
                wanted = in_tile(borders[number], *tile)
                shown = lines.intersection(box(0, 1, 4096, 4095))
                assert shown.difference(wanted.buffer(4.0)).length < 4.0, (tile, number)
                around = unary_union([shape.buffer(POINT_UNITS) for _, _, shape in features])
                assert wanted.difference(around).length < 4.0, (tile, number)
                seen += len(own)
    assert seen > 15


def is_point(shape):
    """Whether a line is that round a point of the picture."""
    west, north, east, south = shape.bounds
    return east - west == south - north == POINT_UNITS and shape.length == 4 * POINT_UNITS


def test_cells_smaller_than_a_point_are_drawn_as_one_point_for_all_of_them():
    """A town seen from afar: no cell of it is lost, and no point stands there twice."""
    index, bounds, frame = world("sphere", 9)
    drawn = uncertified_on_map(frame, index.border, bounds)
    wanted = {}
    for partition in index.parts.all():
        for site in partition.uncertified.tolist():
            position = partition.positions[partition.first_object[site]]
            if np.abs(position - [8.0, 47.0]).max() < 0.2:
                place = frame.world_of(position[None])[0]
                wanted[tuple(np.floor(place * 512).astype(int).tolist())] = position
    features = layers(uncertified_tile(drawn, 0, 0, 0))["uncertified"]
    squares = [tuple(int(v // POINT_UNITS) for v in shape.bounds[:2]) for _, _, shape in features if is_point(shape)]
    assert len(squares) == len(set(squares))
    assert wanted
    assert all(any(max(abs(a - c), abs(b - d)) <= 1 for c, d in squares) for a, b in wanted)


def test_cells_in_view_are_the_same_where_not_all_are_kept():
    """From near by nothing is left out."""
    index, _, frame = world("sphere", 9)
    all_of_them = ShapeTiles(index, frame)
    wanted = {}
    for partition in index.parts.all():
        for site in partition.uncertified[:20].tolist():
            place = frame.world_of(partition.positions[partition.first_object[[site]]])[0]
            if 0.0 < place.min() <= place.max() < 1.0:
                tile = tile_of(place, 14)
                wanted[tile] = layers(all_of_them.uncertified(*tile)).get("uncertified", [])
    assert len(wanted) > 30
    few = ShapeTiles(index, frame, most_uncertified=5)
    assert not few.uncertified_drawn.complete
    for tile, features in wanted.items():
        found = layers(few.uncertified(*tile)).get("uncertified", [])
        for number in range(9):
            far, near = (
                unary_union([shape for _, told, shape in some if told["partition"] == number])
                for some in (features, found)
            )
            # those drawn from afar are smooth to 10 m
            assert near.length == pytest.approx(far.length, rel=0.02, abs=100)
            assert near.difference(far.buffer(40)).length < 100


def test_only_the_largest_are_kept_and_a_store_of_one_partition_has_none():
    """The others would not be seen from afar."""
    index, bounds, frame = world("plane")
    drawn = uncertified_on_map(frame, index.border, bounds, most=10)
    assert len(drawn.partition) == 10
    assert not drawn.complete
    largest = np.sort(index.border.area[index.border.open])[-10:]
    side = frame.plane[2] / 4096
    found = [Polygon(shape.coords).area for _, _, shape in layers(uncertified_tile(drawn, 0, 0, 0))["uncertified"]]
    assert np.sort(found) * side**2 == pytest.approx(largest, rel=0.1)
    index, bounds, frame = world("plane", 1)
    assert uncertified_tile(uncertified_on_map(frame, index.border, bounds), 0, 0, 0) == b""
