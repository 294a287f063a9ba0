"""Tiles over HTTP: what the tiles of an index are, for good; snapshots that come and go, and the sample of each."""

from __future__ import annotations

import gc
import gzip
import json
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import mapbox_vector_tile
import numpy as np
import pytest

import dtoss
from dtoss.conditions import matching_objects
from dtoss.serve.core.server_settings import Paces, Settings
from dtoss.serve.reload.prepare import adopt_snapshot, first_snapshot
from dtoss.serve.tiles import tiling
from dtoss.serve.tiles.tiling import Tiles, Whole
from dtoss.snapshots.store import Store
from tests.dtoss.serve.served import NAME, OBJECTS, Asker, Doors, running, served_of, target, town
from tests.dtoss.serve.watched import commit, watched

LATER = "20260101T000001.000000Z"
EARLIER = "20250101T000000.000000Z"
ALL = (0, 0, 0)


def path_of(tile, *, name=NAME, layer="objects", **query):
    """The target of a tile."""
    z, x, y = tile
    return target(f"/tiles/{name}/{layer}/{z}/{x}/{y}.mvt", **query)


def features(body):
    """The features of a tile of objects."""
    decoded = mapbox_vector_tile.decode(body)
    return decoded["objects"]["features"] if decoded else []


@pytest.mark.parametrize(("kind", "strings"), [("sphere", True), ("plane", False)])
def test_a_tile_is_the_bytes_of_the_index_for_good(kind, strings):
    """Ids are text whatever they are; the bytes may be kept for a year, by their name."""
    index = town(kind, strings=strings)
    with running(index) as server, Asker(server) as asker:
        for query in ({}, {"by": "speed"}, {"where": "speed < 20", "by": "name"}):
            status, headers, body = asker.raw(path_of(ALL, **query))
            assert status == 200
            assert headers["content-type"] == "application/vnd.mapbox-vector-tile"
            assert headers["cache-control"] == "public, max-age=31536000, immutable"
            assert headers["vary"] == "accept-encoding"
            assert "content-encoding" not in headers
            where = index.filters.get(query["where"]) if "where" in query else None
            assert body == Tiles(index).objects(*ALL, query.get("by"), where)
            matching = OBJECTS if where is None else where.count
            assert len({one["properties"]["id"] for one in features(body)}) == matching
            packed = asker.raw(path_of(ALL, **query), accept_encoding="br, gzip")
            assert packed[1]["content-encoding"] == "gzip"
            assert gzip.decompress(packed[2]) == body
            assert len(packed[2]) < len(body)
        away = asker.raw(path_of((9, 1, 1)), accept_encoding="gzip")
        assert (away[0], away[2]) == (200, b"")
        assert "content-encoding" not in away[1]


def test_what_needs_a_token_is_kept_by_nobody_in_between(tmp_path):
    token = "one-secret-token"
    (tmp_path / "tokens").write_text(f"one {token}\n")
    given = {"token_file": str(tmp_path / "tokens"), "doors": Doors(token)}
    with running(town(), **given) as server, Asker(server) as asker:
        assert asker.raw(path_of(ALL))[0] == 401
        status, headers, _ = asker.raw(path_of(ALL), Authorization=f"Bearer {token}")
        assert status == 200
        assert headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        (path_of(ALL, layer="nothing"), 404, "there is no layer 'nothing': objects"),
        (path_of((3, 8, 0)), 404, "there is no tile 8, 0 at zoom 3: 0 to 7"),
        (path_of((3, 0, 8)), 404, "there is no tile 0, 8 at zoom 3: 0 to 7"),
        (path_of((17, 0, 0)), 400, "z is '17'"),
        (path_of((3, 0, -1)), 400, "row is '-1.mvt'"),
        (f"/tiles/{NAME}/objects/3/0/0.png", 400, "row is '0.png'"),
        (path_of(ALL, by="nothing"), 400, "by is 'nothing': there is "),
        (path_of(ALL, where="speed <"), 400, "where"),
    ],
)
def test_what_is_wrong_with_a_tile_is_said(asked, status, says):
    with running(town(objects=50)) as server, Asker(server) as asker:
        got, headers, body = asker.raw(asked)
        told = json.loads(body)
        assert (got, told["status"]) == (status, status)
        assert headers["content-type"] == "application/problem+json"
        assert "immutable" not in headers.get("cache-control", "")
        assert says in told["detail"]


def test_an_attribute_of_any_name_gives_classes():
    rng = np.random.default_rng(1)
    odd = "speed / ü & 'x'"
    index = dtoss.build(np.arange(200), rng.normal([10, 50], 0.1, (200, 2)), columns={odd: rng.integers(0, 9, 200)})
    with running(index) as server, Asker(server) as asker:
        _, _, body = asker.raw(f"{path_of(ALL)}?by={quote(odd)}")
        assert {one["properties"]["class"] for one in features(body)} == set(range(8))


@pytest.mark.parametrize("name", [LATER, EARLIER])
def test_a_snapshot_that_another_worker_serves_already_is_waited_for(name):
    """A newer one, or one from further back after a rollback."""
    with running(town()) as server, Asker(server) as asker:
        fresh = served_of(town(seed=1), name)

        def swap():
            time.sleep(0.3)
            server.loop.call_soon_threadsafe(server.serving.replace, fresh)

        thread = threading.Thread(target=swap)
        thread.start()
        status, _, body = asker.raw(path_of(ALL, name=name))
        thread.join()
        assert status == 200
        assert body == Tiles(fresh.index).objects(*ALL)
        # the one before stays open
        assert asker.raw(path_of(ALL))[2] == Tiles(server.index).objects(*ALL)


def test_a_snapshot_that_is_gone_is_said_to_be():
    with running(town(objects=50), paces=Paces(elsewhere=0.1)) as server, Asker(server) as asker:
        status, _, body = asker.raw(path_of(ALL, name=EARLIER))
        assert status == 410
        assert json.loads(body)["limit"] == "snapshot"


# -- the sample -------------------------------------------------------------------------------------------------------


def samples_made(monkeypatch, step=lambda: None):
    """Return a list that grows by what each sample breathes with, before which a function is called."""
    made, make = [], tiling.sample_of
    monkeypatch.setattr(tiling, "sample_of", lambda *given: (step(), made.append(given[-1]), make(*given))[2])
    return made


def test_those_who_want_the_sample_at_the_same_time_wait_for_one(monkeypatch):
    made = samples_made(monkeypatch, lambda: time.sleep(0.1))
    tiles = Tiles(town())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: tiles.objects(2, x, 1), range(4)))
    assert len(made) == 1
    assert any(found)


def test_workers_begin_with_the_sample_that_the_parent_made(tmp_path, monkeypatch):
    """It breathes after each partition, as a parent that follows a store looks after its workers meanwhile."""
    given, breaths = samples_made(monkeypatch), []

    def breathe():
        breaths.append(1)

    served = first_snapshot(Settings(commit(tmp_path / "store")), breathe=breathe)
    assert given == [breathe]
    after = len(breaths)
    Tiles(served.index).sampled(breathe)
    assert len(breaths) == after + 3
    given.clear()
    worker = adopt_snapshot(served, 2, lambda work: work())
    assert worker.tiles is served.tiles
    assert len(worker.tiles.sample.keys) == 400
    assert given == []


def test_a_rollback_finds_the_sample_that_was_made(tmp_path):
    store = commit(tmp_path / "store")
    with watched(store) as worker:
        sample, name = worker.serving.now.tiles.sample, worker.serving.now.name
        commit(store, 1)
        assert worker.watcher.look()
        assert worker.serving.now.tiles.sample is not sample
        Store(store).rollback()
        assert worker.watcher.look()
        assert worker.serving.now.name == name
        assert worker.serving.now.tiles.sample is sample


def test_a_sample_takes_little_and_so_does_what_is_kept_for_it():
    """14 bytes for each of 500,000 objects, and 8 choices of a byte each: 11 MB."""
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.integers(0, 99, 2_000) for i in range(12)}
    tiles = Tiles(dtoss.build(np.arange(2_000), rng.uniform(-60, 60, (2_000, 2)), columns=columns, partitions=2))
    sample = tiles.sample
    assert sample.keys.nbytes + sample.part.nbytes + sample.item.nbytes == 14 * 2_000
    for name in columns:
        tiles.objects(*ALL, name)
    assert len(tiles._kept) == tiling.KEPT_CHOICES
    assert sum(classes.nbytes for _, classes in tiles._kept.all()) == tiling.KEPT_CHOICES * 2_000


def test_a_condition_that_is_no_longer_kept_is_not_held_by_tiles():
    """Its masks have a byte for each object of the index."""
    index = town(objects=300)
    tiles = Tiles(index, whole=Whole(below=0))
    found = index.filters.get("speed < 10")
    held, body = weakref.ref(found), tiles.objects(*ALL, None, found)
    del found
    for other in range(matching_objects.KEPT_CONDITIONS):
        index.filters.get(f"speed < {20 + other}")
    gc.collect()
    assert held() is None
    assert tiles.objects(*ALL, None, index.filters.get("speed < 10")) == body
    assert tiles.objects(*ALL, None, index.filters.get("speed < 20")) != body
