"""Tiles of the cells that no partition could certify by itself."""

from __future__ import annotations

import numpy as np
import pytest
from shapely.geometry import Point

import dtoss
from dtoss.serve.page.shape_tiles import ShapeTiles
from dtoss.tiles import uncertified
from dtoss.tiles.frame import frame_of
from dtoss.tiles.uncertified import POINT_UNITS, uncertified_on_map, uncertified_tile
from tests.dtoss.tiles.decoded import cut_to_tile, every_tile, layers, tile_of, unit_places


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


@pytest.mark.parametrize("kind", ["sphere", "plane"])
def test_each_uncertified_cell_holds_its_site_and_names_its_partition(kind):
    """At zooms where it is large enough to be seen."""
    index, bounds, frame = world(kind)
    drawn = uncertified_on_map(frame, index.border, bounds)
    looked = 0
    for number, partition in enumerate(index.parts.all()):
        for site in partition.uncertified.tolist():
            position = partition.positions[partition.first_object[site]]
            place = frame.world_of(position[None])[0]
            if place.min() <= 0.0 or place.max() >= 1.0:
                continue
            tile = tile_of(place, 16 if kind == "sphere" else 8)
            here = Point(unit_places(place, *tile))
            features = layers(uncertified_tile(drawn, *tile))["uncertified"]
            holding = [told["partition"] for _, told, shape in features if shape.buffer(1.5).contains(here)]
            assert number in holding, position
            looked += 1
    assert looked > 50
    assert looked >= 0.9 * sum(len(partition.uncertified) for partition in index.parts.all())


@pytest.mark.parametrize("kind", ["sphere", "plane"])
def test_no_other_cell_is_drawn(kind):
    """Areas of all tiles are those of the uncertified cells, and a place in a certified cell is in none of them."""
    index, bounds, frame = world(kind)
    drawn = uncertified_on_map(frame, index.border, bounds)
    checked = 0
    for partition in index.parts.all():
        certified = np.setdiff1d(np.arange(partition.owned_sites), partition.uncertified)[:40]
        for site in certified.tolist():
            place = frame.world_of(partition.positions[partition.first_object[[site]]])[0]
            tile = tile_of(place, 16 if kind == "sphere" else 8)
            here = Point(unit_places(place, *tile))
            features = layers(uncertified_tile(drawn, *tile)).get("uncertified", [])
            assert not any(shape.buffer(0).buffer(-2.0).contains(here) for _, _, shape in features)
            checked += 1
    assert checked > 100
    if kind == "plane":
        found = sum(
            cut_to_tile(shape).area
            for tile in every_tile(2)
            for _, _, shape in layers(uncertified_tile(drawn, *tile)).get("uncertified", [])
        )
        side = frame.plane[2] / 4 / 4096
        assert found * side**2 == pytest.approx(index.border.area[index.border.open].sum(), rel=0.01)


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
    squares = []
    for _, _, shape in features:
        for part in getattr(shape, "geoms", [shape]):
            if part.area == POINT_UNITS**2 and part.length == 4 * POINT_UNITS:
                squares.append(tuple((np.array(part.bounds[:2]) / POINT_UNITS).astype(int).tolist()))
    assert len(squares) == len(set(squares))
    assert wanted
    assert all(any(max(abs(a - c), abs(b - d)) <= 1 for c, d in squares) for a, b in wanted)


def test_cells_in_view_are_the_same_where_not_all_are_kept(monkeypatch):
    """From near by nothing is left out."""
    index, _, frame = world("sphere", 9)
    all_of_them = ShapeTiles(index, frame)
    wanted = {}
    for partition in index.parts.all():
        for site in partition.uncertified[:20].tolist():
            place = frame.world_of(partition.positions[partition.first_object[[site]]])[0]
            if 0.0 < place.min() <= place.max() < 1.0:
                tile = tile_of(place, 14)
                wanted[tile] = layers(all_of_them.uncertified(*tile))["uncertified"]
    assert len(wanted) > 30
    monkeypatch.setattr(uncertified, "MOST_UNCERTIFIED", 5)
    few = ShapeTiles(index, frame)
    assert not few.uncertified_drawn.complete
    for tile, features in wanted.items():
        found = layers(few.uncertified(*tile))["uncertified"]
        area = {number: sum(s.area for _, told, s in features if told["partition"] == number) for number in range(9)}
        for number in range(9):
            near = sum(shape.area for _, told, shape in found if told["partition"] == number)
            # those drawn from afar are smooth to 10 m
            assert near == pytest.approx(area[number], rel=0.02, abs=50_000)


def test_only_the_largest_are_kept_and_a_store_of_one_partition_has_none(monkeypatch):
    """The others would not be seen from afar."""
    index, bounds, frame = world("plane")
    monkeypatch.setattr(uncertified, "MOST_UNCERTIFIED", 10)
    drawn = uncertified_on_map(frame, index.border, bounds)
    assert len(drawn.partition) == 10
    areas = np.sort(index.border.area[index.border.open])
    side = frame.plane[2] / 4096
    found = sum(shape.area for _, _, shape in layers(uncertified_tile(drawn, 0, 0, 0))["uncertified"])
    assert found * side**2 == pytest.approx(areas[-10:].sum(), rel=0.05)
    index, bounds, frame = world("plane", 1)
    assert uncertified_tile(uncertified_on_map(frame, index.border, bounds), 0, 0, 0) == b""
