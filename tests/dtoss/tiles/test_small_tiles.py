"""Tiles of some dozen objects, few enough for kernels that run as Python with their bounds looked after."""

from __future__ import annotations

from collections import Counter

import mapbox_vector_tile
import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.serve.tiles.tiling import Tiles, Whole
from dtoss.tiles import mvt
from dtoss.tiles.sample import hashes_of, picked

pytestmark = pytest.mark.checked

GRADES = 8


def spread(text):
    """Four dozen objects, some at the rims of the map, many in one place, a grade or none each."""
    rng = np.random.default_rng(4)
    places = np.concatenate([
        rng.uniform([-180, -90], [180, 90], (24, 2)), np.repeat([[20.0, 40.0]], 20, axis=0),
        [[180.0, 0.0], [-180.0, 0.0], [0.0, 90.0], [0.0, -90.0]],
    ])  # fmt: skip
    ids = [f"{'é' * i}{i}" for i in range(48)] if text else (np.arange(48) - 3) * 2**57
    grades = pa.array([None if i % 5 == 0 else i % GRADES for i in range(48)], pa.int64())
    return dtoss.build(ids, places, columns={"grade": grades}, partitions=2), places, grades


def points(body):
    """Each point of a tile with the properties of its feature."""
    layers = mapbox_vector_tile.decode(body, default_options={"y_coord_down": True}) if body else {}
    found = []
    for one in layers.get("objects", {"features": []})["features"]:
        at = one["geometry"]["coordinates"]
        found += [(tuple(p), one["properties"]) for p in (at if one["geometry"]["type"] == "MultiPoint" else [at])]
    return found


@pytest.mark.parametrize("text", [False, True])
def test_all_tiles_of_a_zoom_show_each_object_once(text):
    index, places, _ = spread(text)
    known = {str(one): grade for one, grade in zip(ids_of(index), grades_of(index), strict=True)}
    every = [(x, y) for x in range(8) for y in range(8)]
    tiles = Tiles(index)
    shown = [properties for x, y in every for _, properties in points(tiles.objects(3, x, y, "grade"))]
    assert {one["id"]: one.get("class") for one in shown} == known
    assert len(shown) == len(places) == 48
    tiles = Tiles(index, whole=Whole(below=0))
    found = [one for x, y in every for one in points(tiles.objects(3, x, y, "grade"))]
    assert {properties["level"] for _, properties in found} == {0, 3}
    # 20 are in one place, and lon -180 and 180 stand at either side
    assert len(found) == 48 - 19
    sums = {id(properties): properties["objects"] for _, properties in found}
    assert sum(sums.values()) == 48


def ids_of(index):
    """The ids that partitions own."""
    return [one for part in index.parts.all() for one in pa.array(part.ids)[: part.owned_objects].to_pylist()]


def grades_of(index):
    """Their grades."""
    return [one for part in index.parts.all() for one in part.attributes["grade"][: part.owned_objects].to_pylist()]


@pytest.mark.parametrize("text", [False, True])
def test_a_part_of_the_objects_is_picked_by_their_ids(text):
    index, _, _ = spread(text)
    held = [
        Counter(str(pa.array(part.ids)[i]) for part in index.parts.all() for i in picked(part, one_of).tolist())
        for one_of in (1, 2, 4)
    ]
    assert len(held[0]) == 48
    assert held[2] < held[1] < held[0]
    assert 12 < len(held[1]) < 36


def test_numbers_of_any_size_are_written():
    """Steps back and forth, varints of one byte to ten, features without properties."""
    where = np.array([[0, 0], [2**30, -(2**30)], [-1, 4096], [4095, 1]], np.int32)
    numbers = np.array([0, 127, 128, 2**62])
    one_each = np.arange(5)
    ids = np.array([0, 1, 2**32, 2**64 - 1], np.uint64)
    made = mvt.Features(mvt.POINTS, one_each, one_each, where, (("size", numbers),), ids)
    (layer,) = mapbox_vector_tile.decode(mvt.layer("some", made), default_options={"y_coord_down": True}).values()
    assert [one["geometry"]["coordinates"] for one in layer["features"]] == where.tolist()
    assert [one["properties"]["size"] for one in layer["features"]] == numbers.tolist()
    assert [one.get("id", 0) for one in layer["features"]] == ids.tolist()
    bare = mvt.layer("some", mvt.Features(mvt.POINTS, one_each, one_each, where))
    assert all(one["properties"] == {} for one in mapbox_vector_tile.decode(bare)["some"]["features"])


def test_hashes_of_texts_are_those_by_which_a_sample_picks_them():
    """The same of a slice; FNV-1a and the finalizer of splitmix64, as numbers of Python."""
    texts = ["", "a", "é/1 %", "fence 12", "\U0001f600" * 3]
    wanted = []
    for text in texts:
        found = 0xCBF29CE484222325
        for letter in text.encode():
            found = (found ^ letter) * 0x100000001B3 % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found = (found ^ found >> shift) * factor % 2**64
        wanted.append(found ^ found >> 31)
    column = pa.array(["before", *texts], pa.large_string()).slice(1)
    assert hashes_of(column).tolist() == wanted
    assert hashes_of(column.slice(0, 0)).tolist() == []
    index, _, _ = spread(text=True)
    for part in index.parts.all():
        ids = pa.array(part.ids).slice(0, part.owned_objects).cast(pa.large_string())
        low = np.flatnonzero(hashes_of(ids) <= np.uint64((2**64 - 1) // 3))
        assert picked(part, 3).tolist() == low.tolist()
