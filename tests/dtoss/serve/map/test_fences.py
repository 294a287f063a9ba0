"""Subscriptions as the page draws them: those that stand and meet a view, and the same few where they are many."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dtoss
from dtoss.geometry.distance import distance
from dtoss.geometry.point_in_polygon import inside
from dtoss.geometry.space import space_of
from dtoss.queries.covered import boxes_of
from dtoss.serve.map.subscriptions_in_view import FenceSource, Marks
from dtoss.serve.map.watch_activity import fence_told
from dtoss.tiles.map_frame import Frame, frame_of
from dtoss.watch.subscription import AROUND, BOX, CIRCLE, EVERYWHERE, POLYGON
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.subscriptions.current import change_number, table_at
from dtoss.watch.subscriptions.subscription_text import polygons_kept
from tests.dtoss.serve.served import Asker, Doors, running, target, town
from tests.dtoss.watch.streams import (
    BEGIN,
    SECOND,
    SPHERE,
    Home,
    asked,
    change,
    circle,
    random_asked,
    random_rows,
    run,
    settings_of,
    table_of,
)

FRAME = Frame(SPHERE, None)
HOSTILE = '<img src=x onerror="document.title=1"> & é/%2e%2e'


def holds(said, places):
    """Which places a subscription's place holds, by the functions that questions are answered with."""
    vectors = SPHERE.vectors(places)
    if said["kind"] in (CIRCLE, AROUND):
        centre = SPHERE.vectors(np.array([[said["x"], said["y"]]]))
        return distance(vectors, np.repeat(centre, len(vectors), axis=0)) <= said["radius"]
    if said["kind"] == BOX:
        ((shape,),) = boxes_of([said[name] for name in ("west", "south", "east", "north")], SPHERE)
        return shape.holds(places, vectors)
    parts = polygons_kept([said["polygon"]], SPHERE)[0]
    return np.any([inside(vectors, polygon, places) for polygon in parts], axis=0)


def seen(fences, box, clock=None, most=2_000, zoom=10.0):
    """The answer of a view, and its ids."""
    told = fences.in_view(FRAME, box, zoom, clock, most)
    return told, [shape["id"] for shape in told["shapes"]]


VIEWS = [
    (-0.02, -0.02, 0.03, 0.03), (179.9, -0.1, 180.2, 0.1), (-180.1, -1, -179.9, 1), (-180, -85, 180, 85),
    (5, 80, 20, 89.9),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_view_has_each_subscription_whose_place_meets_it(tmp_path, seed):
    """Of any kind, over the antimeridian, at poles; what is told beside lies near, and batches change nothing."""
    rng = np.random.default_rng(seed)
    home = Home(str(tmp_path))
    some = [random_asked(rng, f"s{i}") for i in range(60)]
    change(home, some)
    source = FenceSource(home)
    before, _ = source.now()
    placed = [one for one in some if one["kind"] != EVERYWHERE]
    for west, south, east, north in VIEWS:
        lon, lat = np.meshgrid(np.linspace(west, east, 41), np.linspace(south, north, 41))
        places = np.stack([(lon.ravel() + 180) % 360 - 180, lat.ravel()], axis=1)
        told, ids = seen(before, (west, south, east, north))
        must = {one["id"] for one in placed if holds(one, places).any()}
        assert must <= set(ids)
        assert told["found"] == told["shown"] == len(ids) == len(set(ids))
        assert told["standing"] == len(some)
    whole = seen(before, (-180, -90, 180, 90))[1]
    assert set(whole) == {one["id"] for one in placed}
    run(home, settings_of(), random_rows(rng, 10))
    after, _ = source.now()
    assert after.marks != before.marks
    for box in VIEWS:
        assert sorted(seen(after, box)[1]) == sorted(seen(before, box)[1])


@pytest.mark.parametrize("seed", range(2))
def test_what_stands_is_shown_however_it_came(tmp_path, seed):
    """Adopted or not, changed, removed, replaced: as the table of the last change has it."""
    rng = np.random.default_rng(seed)
    home = Home(str(tmp_path))
    source = FenceSource(home)
    assert source.now()[0].standing(None) == 0
    ids = [f"s{i}" for i in range(12)]
    for step in range(12):
        add = [random_asked(rng, id) | {"expires": None} for id in rng.choice(ids, 3, replace=False)]
        if step == 6:
            subscribe(home, table_of(add), replace=True)
        else:
            change(home, add, list(rng.choice(ids, 2, replace=False)))
        if rng.random() < 0.5:
            run(home, settings_of(), random_rows(rng, 5))
        fences, clock = source.now()
        there = {one["id"]: one for one in table_at(home, change_number(home)).to_pylist()}
        assert fences.standing(None) == len(there)
        shown = set(seen(fences, (-180, -90, 180, 90))[1])
        assert shown == {id for id, one in there.items() if one["kind"] != EVERYWHERE}
        for id in ids:
            found = fences.row_of(id, clock)
            assert (found is not None) == (id in there)
            if found is not None:
                told = fence_told(home, *found, FRAME, 8.0)
                assert told["version"] == there[id]["version"]
                assert told["where"] == there[id]["where"]
                assert told["meta"] == there[id]["meta"]


def test_too_many_are_a_sample_that_stays_where_the_view_moves(tmp_path):
    """The lowest hashes of all in view: what two views share, and both show, is the same."""
    rng = np.random.default_rng(3)
    home = Home(str(tmp_path))
    at = rng.uniform(0, 1, (3_000, 2))
    subscribe(home, table_of([circle(f"c{i}", x, y, 100.0) for i, (x, y) in enumerate(at.tolist())]))
    fences, _ = FenceSource(home).now()
    all_, ids = seen(fences, (-1, -1, 2, 2), most=5_000)
    assert all_["found"] == all_["shown"] == 3_000
    few, some = seen(fences, (-1, -1, 2, 2), most=200)
    assert (few["found"], few["shown"]) == (3_000, 200)
    assert some == ids[:200]
    half, left = seen(fences, (-1, -1, 0.5, 2), most=200)
    place = dict(zip([f"c{i}" for i in range(3_000)], at.tolist(), strict=True))
    assert half["found"] == pytest.approx(1_500, abs=150)
    assert [id for id in some if place[id][0] < 0.49] == [id for id in left if id in some and place[id][0] < 0.49]


def test_what_is_too_small_to_be_seen_is_a_point(tmp_path):
    home = Home(str(tmp_path))
    change(
        home, [circle("small", 10.0, 50.0, 50.0), circle("place", 10.1, 50.0, 0.0), circle("large", 10.0, 50.0, 9e5)]
    )
    fences, _ = FenceSource(home).now()
    for zoom, points in ((5.0, {"small", "place"}), (14.0, {"place"})):
        shapes = {shape["id"]: shape for shape in seen(fences, (9, 49, 11, 51), zoom=zoom)[0]["shapes"]}
        assert {id for id, shape in shapes.items() if "at" in shape} == points
        assert shapes["place"]["at"] == pytest.approx([10.1, 50.0], abs=1e-6)
        assert all(("at" in shape) != ("fill" in shape) for shape in shapes.values())
    told = fence_told(home, *fences.row_of("place", None), FRAME, 20.0)
    assert told["drawn"]["at"] == pytest.approx([10.1, 50.0], abs=1e-6)


def test_polygons_with_too_much_text_are_left_out(tmp_path):
    turn = np.linspace(0, 2 * np.pi, 50)
    ring = np.stack([np.cos(turn), np.sin(turn)], axis=1).tolist()
    shape = json.dumps({"type": "Polygon", "coordinates": [ring]})
    home = Home(str(tmp_path))
    change(home, [asked(f"p{i}", POLYGON, polygon=shape) for i in range(10)])
    fences, _ = FenceSource(home).now()
    told = fences.in_view(FRAME, (-5, -5, 5, 5), 10.0, None, text=4 * len(shape) + 100)
    assert (told["found"], told["shown"], len(told["shapes"])) == (10, 4, 4)


def test_what_has_expired_is_shown_no_more(tmp_path):
    """By the clock of the watch."""
    home = Home(str(tmp_path))
    change(home, [circle("soon", 0, 0, 500.0, expires=BEGIN + 10 * SECOND), circle("never", 0, 0, 500.0)])
    rows = [{"id": i, "t": BEGIN + 20 * SECOND, "x": 5.0, "y": 5.0, "attributes": {}} for i in range(3)]
    source = FenceSource(home)
    fences, clock = source.now()
    assert (clock, len(seen(fences, VIEWS[0], clock)[1])) == (None, 2)
    run(home, settings_of(), rows)
    fences, clock = source.now()
    assert seen(fences, VIEWS[0], clock)[1] == ["never"]
    assert fences.standing(clock) == 1
    assert fences.row_of("soon", clock) is None


def test_around_an_object_is_drawn_where_the_index_of_subscriptions_has_it(tmp_path):
    """Not at all before that is known."""
    from dtoss.watch.index.index_changes import prepare

    home = Home(str(tmp_path))
    change(home, [asked("near", AROUND, object="7", radius=700.0, events=1)])
    fences, _ = FenceSource(home).now()
    assert seen(fences, VIEWS[3])[1] == []
    told = fence_told(home, *fences.row_of("near", None), FRAME, 9.0)
    assert told["place"] == {"around": {"object": "7", "distance": 700.0, "centre": None}}
    assert told["drawn"] is told["view"] is None
    files = prepare(home, 1, settings_of(), None, lambda ids: np.array([[10.0, 50.0]] * len(ids)), "one")
    source = FenceSource(home)
    made = source._parts(Marks(files, 1, SPHERE))
    assert made[0][0].table.column("x").to_pylist() == [10.0]
    assert len(made[0][0].meeting(FRAME, (9.9, 49.9, 10.1, 50.1))) == 1


def test_a_projected_crs_is_drawn_in_degrees_and_a_plane_as_the_map_has_it(tmp_path):
    """Views are those of the map; what is beyond the CRS hides nothing."""
    for name, crs, at, far, box in (
        ("utm", "EPSG:32633", (5e5, 5.5e6, 2e4), 1.5e6, (14.0, 49.0, 16.0, 50.0)),
        ("none", "none", (50.0, 50.0, 10.0), 100.0, (-60.0, -50.0, 60.0, 50.0)),
    ):
        space = space_of(crs)
        frame = frame_of(space, np.array([0.0, 0.0, 100.0, 100.0]) if crs == "none" else None)
        home = Home(str(tmp_path), name)
        x, y, radius = at
        subscribe(home, table_of([circle("here", x, y, radius), circle("far", far, y, radius / 10)]), space=space)
        fences, _ = FenceSource(home).now()
        told = fences.in_view(frame, box, 9.0, None)
        assert [shape["id"] for shape in told["shapes"]] == ["here"]
        ring = np.array(next(shape for shape in told["shapes"] if shape["id"] == "here")["fill"][0][0])
        back = frame.positions_of(ring)
        assert np.abs(np.linalg.norm(back - [x, y], axis=1) / radius - 1).max() < 0.02
        beyond = fences.in_view(frame, (-180, -90, 180, 90), 1.0, None)
        assert beyond["found"] == 2
        one = fence_told(home, *fences.row_of("here", None), frame, 9.0)
        assert one["unit"] == ("m" if crs != "none" else "units")
        assert one["view"][0] < ring[:, 0].mean() < one["view"][2]


@pytest.fixture
def watched(tmp_path):
    """A worker of a store with a watch."""
    home = Home(str(tmp_path))
    hostile = circle(HOSTILE, 10.0, 50.0, 900.0, meta='{"<b>": "</script>"}', where="occupied = 0")
    zone = asked("zone", BOX, west=9.9, south=49.9, east=10.2, north=50.1)
    change(home, [hostile, zone, asked("all", EVERYWHERE)])
    with running(town(objects=50), store=str(tmp_path)) as server, Asker(server) as asker:
        yield home, server, asker


def test_the_page_is_told_over_http(watched):
    """What stands in view, and one by its id, whatever letters it has."""
    home, server, asker = watched
    told = asker.get("/map/subscriptions", west=9, south=49, east=11, north=51, zoom=9)
    assert (told["watch"], told["standing"], told["found"], told["shown"]) == ("default", 3, 2, 2)
    assert {shape["id"] for shape in told["shapes"]} == {HOSTILE, "zone"}
    assert told["snapshot"] == server.serving.now.name
    one = asker.get("/map/subscription", id=HOSTILE)
    assert one["place"] == {"circle": [10.0, 50.0, 900.0]}
    assert (one["where"], one["meta"], one["counts"]) == ("occupied = 0", '{"<b>": "</script>"}', {})
    assert asker.get("/map/subscription", id="all")["drawn"] is None
    rows = [
        {"id": 1, "t": BEGIN + i * SECOND, "x": 10.0, "y": 50.0, "attributes": {"occupied": i % 2}} for i in range(4)
    ]
    for i, row in enumerate(rows):
        run(home, settings_of(), [row], source=None if i == 0 else _source(i))
    one = asker.get("/map/subscription", id=HOSTILE)
    assert one["counts"] == {"enter": 2, "inside": 2, "leave": 2}


def _source(number):
    from dtoss.commits.offsets import Source

    return Source(files={f"f{number}": 1})


@pytest.mark.parametrize(
    ("path", "given", "status"),
    [
        ("/map/subscriptions", {"west": 2, "south": 0, "east": 1, "north": 1, "zoom": 3}, 400),
        ("/map/subscriptions", {"west": 0, "south": 0, "east": 1, "north": 91, "zoom": 3}, 400),
        ("/map/subscriptions", {"west": "nan", "south": 0, "east": 1, "north": 1, "zoom": 3}, 400),
        ("/map/subscriptions", {"west": 0, "south": 0, "east": 1, "north": 1, "zoom": 99}, 400),
        ("/map/subscriptions", {"west": 0, "south": 0, "east": 1, "north": 1, "zoom": 3, "snapshot": "gone"}, 410),
        ("/map/subscription", {"id": "nobody"}, 404),
        ("/map/subscription", {}, 400),
        ("/map/subscription", {"id": "x" * 5_000}, 400),
    ],
)
def test_what_is_wrong_is_a_problem(watched, path, given, status):
    _, _, asker = watched
    found, _, body = asker.raw(target(path, **given))
    assert (found, json.loads(body)["status"]) == (status, status), body


def test_where_there_is_no_watch_or_no_token(tmp_path):
    with running(town(objects=50), store=str(tmp_path)) as server, Asker(server) as asker:
        view = {"west": 0, "south": 0, "east": 1, "north": 1, "zoom": 3}
        assert asker.get("/map/subscriptions", **view)["standing"] == 0
    with running(town(objects=50), store=str(tmp_path), watch=None) as server, Asker(server) as asker:
        assert asker.raw(target("/map/subscriptions", **view))[0] == 404
    with running(town(objects=50), store=str(tmp_path), doors=Doors("secret")) as server, Asker(server) as asker:
        assert asker.raw(target("/map/subscriptions", **view))[0] == 401
        assert asker.raw("/map/subscription?id=a")[0] == 401


def test_a_watch_that_cannot_be_read_is_a_problem_that_names_the_file(watched):
    home, server, asker = watched
    file = Path(home.asked.path("changes"))
    for one in file.iterdir():
        one.write_bytes(b"?")
    for path in ("/map/subscriptions?west=0&south=0&east=1&north=1&zoom=3", "/map/subscription?id=zone"):
        status, headers, body = asker.raw(path)
        assert (status, headers["retry-after"]) == (503, "5")
        assert str(file) in json.loads(body)["detail"]
    assert server.heard.failures == 2
    assert [str(file) in told["detail"] for what, told in server.heard.events if what == "watch not read"] == [True] * 2


def test_a_watch_in_another_plane_than_the_map_is_told_and_not_drawn(tmp_path):
    home = Home(str(tmp_path))
    change(home, [circle("a", 10.0, 50.0, 500.0)])
    index = dtoss.build(np.arange(20), np.random.default_rng(0).normal(0, 9, (20, 2)), crs="none")
    with running(index, store=str(tmp_path)) as server, Asker(server) as asker:
        told = asker.get("/map/subscriptions", west=-180, south=-80, east=180, north=80, zoom=1)
        assert (told["drawable"], told["standing"], told["shapes"]) == (False, 1, [])
        one = asker.get("/map/subscription", id="a")
        assert (one["drawn"], one["place"]) == (None, {"circle": [10.0, 50.0, 500.0]})
