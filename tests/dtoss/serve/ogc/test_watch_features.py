"""Zones and events of a watch as features: pages, boxes, times and rights against lines of events and loops."""

from __future__ import annotations

import json
from datetime import datetime
from urllib.parse import quote

import numpy as np
import pytest
import shapely

import dtoss
from dtoss.serve.core.server_settings import Paces, Sizes
from dtoss.watch.subscription import BOX, EVERYWHERE
from tests.dtoss.serve.ogc.test_features import ITEMS, follow, in_box
from tests.dtoss.serve.ogc.test_gdal import GDAL, read
from tests.dtoss.serve.rights.seen import bearer, doors_of
from tests.dtoss.serve.served import Asker, running, town
from tests.dtoss.watch.streams import PLACES, Home, asked, change, circle, random_rows, run, settings_of

ZONES, EVENTS = ITEMS.format("zones"), ITEMS.format("events")
WHOLE = (-180, -90, 180, 90)
BOXES = [
    WHOLE, (-0.001, -0.001, 0.001, 0.001), (0.035, -0.005, 0.05, 0.005), (179.97, -0.01, -179.99, 0.01),
    (100, 50, 101, 51), (-180, -80, 0, -70), (170, -1, 179.0, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def index():
    return town(objects=50)


def watched(folder):
    """A watch that has told some hundred events."""
    made, rng = Home(str(folder / "store")), np.random.default_rng(0)
    zones = [circle(f"c{at}", *place, 2_500.0) for at, place in enumerate(PLACES)]
    zones += [circle("far", 179.99, 0.0, 5_000.0, meta='{"a":[1]}'), circle("dot", 100.5, 50.5, 0.0)]
    zones.append(asked("box", BOX, west=179.5, south=-1.0, east=-179.95, north=0.5))
    zones.append(asked("all", EVERYWHERE, where="id > 3"))
    change(made, zones)
    for _ in range(3):
        run(made, settings_of(), random_rows(rng, 60), 2)
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return watched(tmp_path_factory.mktemp("watched"))


@pytest.fixture(scope="module")
def told(home):
    """All events, as they are read from the store."""
    return list(dtoss.events(home.store))


@pytest.fixture(scope="module")
def server(index, home):
    with running(index, store=home.store) as found:
        yield found


def test_zones_are_the_places_of_subscriptions(server):
    """By their ids, page by page; over the antimeridian in two parts; a place that is none has no geometry."""
    with Asker(server) as asker:
        found, first = follow(asker, ZONES, limit=3)
        ids = [one["id"] for one in found]
        assert ids == sorted([*(f"c{at}" for at in range(len(PLACES))), "far", "dot", "box", "all"])
        assert first["numberMatched"] == len(ids)
        shapes = {one["id"]: one["geometry"] and shapely.geometry.shape(one["geometry"]) for one in found}
        assert shapes.pop("all") is None
        assert shapes["dot"].equals(shapely.Point(100.5, 50.5))
        assert len(shapes["box"].geoms) == 2
        assert shapes["far"].bounds[0] == -180.0
        assert shapes["c1"].covers(shapely.Point(0.01, 0.0))
        for box in BOXES:
            west, south, east, north = box
            parts = [(west, east)] if west <= east else [(west, 180), (-180, east)]
            view = shapely.union_all([shapely.box(a, south, b, north) for a, b in parts])
            meet = sorted(id_ for id_, shape in shapes.items() if shape.intersects(view))
            assert [one["id"] for one in follow(asker, ZONES, limit=2, bbox=",".join(map(str, box)))[0]] == meet
        one = asker.get(f"{ZONES}/far")
        assert one["properties"] == {
            "where": None, "words": None, "radius": 5000.0, "object": None, "meta": '{"a":[1]}',
            "wants": "inside,enter,leave", "outside": False,
        }  # fmt: skip
        assert asker.raw(f"{ZONES}/nobody")[0] == 404


def test_events_are_features_in_their_order(server, told):
    """Of all, of a box and of a time, page by page; each is what its line is."""
    with Asker(server) as asker:
        found = follow(asker, EVENTS, limit=50)[0]
        assert [one["id"] for one in found] == [one["id"] for one in told]
        assert len(found) > 100
        for one, event in zip(found, told, strict=True):
            assert {**one["properties"], "t": None, "meta": None} == {**event, "t": None, "meta": None}
            assert one["geometry"]["coordinates"] == [event["lon"], event["lat"]]
        for box in BOXES:
            inside = [one["id"] for one in told if in_box((one["lon"], one["lat"]), box)]
            assert [one["id"] for one in follow(asker, EVENTS, limit=9, bbox=",".join(map(str, box)))[0]] == inside
        times = sorted(one["t"] for one in told)
        begin, end = (datetime.fromisoformat(str(times[at])) for at in (len(times) // 3, len(times) // 2))
        wanted = [one["id"] for one in told if begin <= datetime.fromisoformat(str(one["t"])) <= end]
        interval = "/".join(at.isoformat().replace("+00:00", "Z") for at in (begin, end))
        assert [one["id"] for one in follow(asker, EVENTS, datetime=interval, limit=7)[0]] == wanted != []
        assert asker.get(f"{EVENTS}/{told[7]['id']}")["properties"]["subscription"] == told[7]["subscription"]
        assert asker.raw(f"{EVENTS}/9999-1")[0] in (400, 404)
        for asked_for, status in (("where=id>1", 400), ("snapshot=x", 400), ("cursor=x", 400), ("bbox=1", 400)):
            assert asker.raw(f"{EVENTS}?{quote(asked_for, safe='=')}")[0] == status


def test_long_zones_and_events_are_on_shorter_pages(index, home, told):
    """A page has a bound in bytes, and an event at least."""
    with running(index, store=home.store, sizes=Sizes(event_part=1, events_page=1)) as server, Asker(server) as asker:
        assert [one["id"] for one in follow(asker, EVENTS)[0]] == [one["id"] for one in told]
        assert len(asker.get(EVENTS)["features"]) == 1
        assert len(follow(asker, ZONES, limit=2)[0]) == len(PLACES) + 4


def test_a_token_has_its_own_zones_and_events(index, tmp_path):
    home = watched(tmp_path)
    with running(index, store=home.store, doors=doors_of(tmp_path), allow_subscribe=True) as server:
        prefix = server.state.doors.admit(b"Bearer t-editor").prefix
        change(home, [circle(f"{prefix}mine", 0.0, 0.0, 10.0, where="speed < 20 and name is not null")])
        with Asker(server) as asker:

            def ask(path):
                status, _, said = asker.raw(path, **bearer("editor"))
                return status, json.loads(said)

            status, zones = ask(ZONES)
            assert (status, [one["id"] for one in zones["features"]]) == (200, [f"{prefix}mine"])
            assert zones["features"][0]["properties"]["where"] is None
            assert ask(EVENTS)[1]["features"] == []
            assert ask(f"{ZONES}/c1")[0] == 404
            assert ask(f"{EVENTS}/1-1")[0] == 404


@pytest.mark.parametrize("watch", [None, "default"])
def test_of_a_watch_that_nobody_has_begun_there_are_none(index, watch):
    """And no collections where a server tells of no watch."""
    with running(index, watch=watch) as server, Asker(server) as asker:
        names = [one["id"] for one in asker.get("/ogc/collections")["collections"]]
        assert names == ["objects", "cells", "partitions", *(["zones", "events"] if watch else [])]
        for items in (ZONES, EVENTS):
            assert asker.raw(items)[0] == (200 if watch else 404)
        assert not watch or asker.get(ZONES)["features"] == asker.get(EVENTS)["features"] == []
        assert asker.raw(f"{ZONES}/a")[0] == asker.raw(f"{EVENTS}/1-1")[0] == 404


@GDAL
def test_gdal_reads_zones_and_events(index, home, told):
    """However few of them are found at a time: it takes a page without features for the last one."""
    with running(index, store=home.store, paces=Paces(page=0.0)) as server:
        assert len(read(server, "zones")) == len(PLACES) + 4
        found = read(server, "events")
        assert len(found) == len(told)
        box = (-0.001, -0.001, 0.001, 0.001)
        inside = [one for one in told if in_box((one["lon"], one["lat"]), box)]
        assert len(read(server, "events", "-spat", *map(str, box))) == len(inside) > 0
