"""Tiles of regions, cells and uncertified cells over HTTP, and what is made once for all of them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dtoss.serve.tiles import tiling
from dtoss.serve.tiles.tiling import Tiles
from dtoss.tiles.map_frame import mercator
from tests.dtoss.serve.served import NAME, Asker, running, town
from tests.dtoss.tiles.decoded import layers, tile_of

AT = (10.01, 50.01)


@pytest.fixture(scope="module")
def server():
    with running(town()) as worker:
        yield worker


@pytest.mark.parametrize(("layer", "z"), [("regions", 0), ("regions", 12), ("cells", 13), ("uncertified", 9)])
def test_a_tile_is_served_as_it_is_made(server, layer, z):
    """Compressed where that is wanted; each layer's own name stands in it."""
    tile = tile_of(mercator(np.array([AT]))[0], z)
    path = f"/tiles/{NAME}/{layer}/{'/'.join(map(str, tile))}.mvt"
    with Asker(server) as asker:
        status, headers, body = asker.raw(path)
        _, packed, small = asker.raw(path, accept_encoding="gzip")
    assert status == 200
    assert headers["content-type"] == "application/vnd.mapbox-vector-tile"
    assert "immutable" in headers["cache-control"]
    assert packed["content-encoding"] == "gzip"
    assert gzip.decompress(small) == body == getattr(server.serving.now.tiles.shapes, layer)(*tile)
    assert layer in layers(body)


def test_regions_of_a_tile_are_all_that_own_something_there(server):
    """Of the whole map all of them."""
    index = server.index
    found = {told["partition"] for _, told, _ in layers(server.serving.now.tiles.shapes.regions(0, 0, 0))["regions"]}
    assert found == set(range(len(index.parts)))


def test_snapshots_of_the_same_pivots_share_their_drawn_regions():
    """A swap draws nothing again; other pivots are other regions."""
    index = town()
    one, two, other = Tiles(index).shapes, Tiles(index).shapes, Tiles(town(seed=1, partitions=5)).shapes
    assert one.regions_drawn is two.regions_drawn
    assert other.regions_drawn is not one.regions_drawn
    assert len(other.regions_drawn) == 5


def test_regions_are_drawn_early_unless_they_are_many(monkeypatch):
    """A server with thousands of partitions starts at once."""
    made = []
    monkeypatch.setattr(tiling, "_regions_drawn", made.append)
    shapes = Tiles(town(partitions=4)).shapes
    shapes.make_early(3)
    assert made == []
    shapes.make_early(4)
    assert len(made) == 1
