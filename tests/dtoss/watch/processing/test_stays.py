"""How long objects stay: margins in metres against places on edges, what the clock tells, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

import dtoss
from dtoss.errors import InputError
from dtoss.geometry.space import space_of
from dtoss.watch.index.build_index import build
from dtoss.watch.index.large_and_small import Standing
from dtoss.watch.matching.margins import near_places
from dtoss.watch.subscription import BOX, CIRCLE, DWELL, ENTER, LEAVE, POLYGON
from dtoss.watch.subscriptions.subscription_text import write_rows
from dtoss.watch.subscriptions.validation import check_subscriptions
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows
from tests.dtoss.watch.oracle import asked_holds, far_from_place
from tests.dtoss.watch.streams import BEGIN, SECOND, SPHERE, asked, change, circle, run, settings_of, table_of, told

PLANE = space_of("none")
STAY = json.dumps({"dwell": {"seconds": 30.0}})


def _square(west, south, wide, high, edges):
    ring = [[west, south], [west + wide, south], [west + wide, south + high], [west, south + high], [west, south]]
    if edges != "planar":
        ring = [[(x + 180.0) % 360.0 - 180.0, y] for x, y in ring]
    return json.dumps({"type": "Polygon", "coordinates": [ring], "edges": edges})


def _places(rng, sphere):
    stay = {"stay": json.dumps({"margin": {"metres": 1.0}}), "events": ENTER | LEAVE, "version": 1}
    if not sphere:
        yield circle("c", 3.0, 4.0, 2.0, **stay)
        yield asked("b", BOX, west=-1.0, south=0.0, east=4.0, north=2.0, **stay)
        yield asked("p", POLYGON, polygon=_square(0.0, 0.0, 3.0, 7.0, "planar"), **stay)
        return
    for number, (lon, lat) in enumerate([(0.0, 0.0), (179.5, 10.0), (20.0, 88.5), (-60.0, -89.0)]):
        yield circle(f"c{number}", lon, lat, 40_000.0, **stay)
        east = (lon + 1.0 + 180.0) % 360.0 - 180.0
        yield asked(f"b{number}", BOX, west=lon, south=lat, east=east, north=lat + 1.0, **stay)
        yield asked(f"s{number}", POLYGON, polygon=_square(lon, lat, 1.0, 0.9, "spherical"), **stay)
        if lon < 179.0:
            yield asked(f"p{number}", POLYGON, polygon=_square(lon, lat, 1.0, 0.9, "planar"), **stay)


@pytest.mark.parametrize("sphere", [False, True])
def test_margins_in_metres_are_to_the_nearest_place_of_an_edge(sphere):
    """At the antimeridian, near both poles, of every kind of edge; half a metre less is not near."""
    rng = np.random.default_rng(3)
    space = SPHERE if sphere else PLANE
    places = sorted(_places(rng, sphere), key=lambda one: one["id"])
    standing = Standing(build(table_of(places), space, {}, False), None)
    for number, one in enumerate(places):
        lon, lat = (one["x"], one["y"]) if one["kind"] == CIRCLE else (one["west"], one["south"])
        if one["kind"] == POLYGON:
            lon, lat = json.loads(one["polygon"])["coordinates"][0][0]
        around = np.array([[lon, lat]]) + rng.uniform(-3.0, 4.0, (12, 2)) * (1.0 if sphere else 3.0)
        if sphere:
            around[:, 0] = (around[:, 0] + 180.0) % 360.0 - 180.0
            around[:, 1] = np.clip(around[:, 1], -90.0, 90.0)
        around = [at for at in around if not _held(space, one, at)]
        far = np.array([far_from_place(space, one, at[None]) for at in around])
        rows = Rows(np.ascontiguousarray(around))
        each, of = np.arange(len(around)), np.full(len(around), number, np.int32)
        slack = 0.5 if sphere else 1e-9
        assert near_places(standing, rows, each, of, far + slack).all(), one["id"]
        assert not near_places(standing, rows, each, of, far - slack).any(), one["id"]


def _held(space, one, at):
    if one["kind"] == POLYGON and json.loads(one["polygon"])["edges"] == "planar" and space is SPHERE:
        (west, south), _, (east, north), *_ = json.loads(one["polygon"])["coordinates"][0]
        return west <= at[0] <= east and south <= at[1] <= north
    return asked_holds(space, {}, one, {"x": at[0], "y": at[1], "attributes": {}}) is not None


def _rows(*rows):
    return [
        {"id": id, "t": BEGIN + t * SECOND, "x": x, "y": 0.0, "attributes": {"occupied": 0, "kind": None}}
        for id, t, x in rows
    ]


def test_the_clock_tells_a_dwell_once(tmp_path):
    """By the rows of others, with the place where the object was seen last; a row that comes later tells none."""
    home = Home(str(tmp_path))
    change(home, [circle("a", 0.0, 0.0, 1.0, events=LEAVE | DWELL, stay=STAY)])
    for row in ((1, 0, 0.0), (2, 29, 9.0), (2, 60, 9.0), (1, 50, 9.0), (2, 99, 9.0)):
        run(home, settings_of(PLANE), _rows(row), witnesses="1")
    found = [event for number in range(1, 6) for event in told(home, number)]
    assert [(event[0], event[4] - BEGIN) for event in found] == [("dwell", 30 * SECOND), ("leave", 50 * SECOND)]
    counts = [home.batches.read(number).document["counts"] for number in range(1, 6)]
    assert [one["dwell"] for one in counts] == [0, 0, 1, 0, 0]
    assert counts[2]["expired"] == 0


def test_an_object_that_is_over_has_stayed_until_then(tmp_path):
    """A dwell that is full before the object is over is told, and one that would be full afterwards is not."""
    home = Home(str(tmp_path))
    longer = json.dumps({"dwell": {"seconds": 50.0}, "margin": {"seconds": 90.0}})
    stays = [("a", STAY), ("b", longer)]
    change(home, [circle(id, 0.0, 0.0, 1.0, events=LEAVE | DWELL, stay=stay) for id, stay in stays])
    run(home, settings_of(PLANE), _rows((1, 0, 0.0)), expire=40 * SECOND, witnesses="1")
    commit = run(home, settings_of(PLANE), _rows((2, 500, 9.0)), expire=40 * SECOND, witnesses="1")
    found = [(event[0], event[1], event[4] - BEGIN, event[5]) for event in told(home, commit.number)]
    over = 40 * SECOND
    assert found == [
        ("dwell", "a", 30 * SECOND, None),
        ("leave", "a", over, "expired"),
        ("leave", "b", over, "expired"),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"events": ["dwell"]}, "nothing says after how long"),
        ({"dwell": {"seconds": 5}}, "events do not want it"),
        ({"events": ["dwell"], "dwell": 5}, "dwell is 5"),
        ({"events": ["dwell"], "dwell": {"seconds": 0}}, "above 0"),
        ({"events": ["dwell"], "dwell": {"seconds": float("nan")}}, "above 0"),
        ({"events": ["dwell"], "dwell": {"minutes": 5}}, "dwell is"),
        ({"events": ["leave"], "margin": {"seconds": "5"}}, "margin is"),
        ({"margin": {}, "events": ["leave"]}, "margin is"),
        ({"margin": {"seconds": 5}}, "a margin is of enter, leave and dwell"),
        ({"events": ["leave"], "margin": {"metres": 5}, "outside": True}, "needs a place"),
        ({"events": ["dwell"], "dwell": {"seconds": 5}, "words": "fire"}, "words go with inside only"),
    ],
)
def test_stays_that_cannot_be_told_are_refused(said, why):
    with pytest.raises(InputError, match=why):
        dtoss.subscriptions([{"id": "a", "box": [0, 0, 1, 1], **said}], text="body")
    if "outside" in said:
        with pytest.raises(InputError, match=why):
            dtoss.subscriptions([{"id": "a", **said, "outside": False}])


def test_what_is_listed_may_be_subscribed_to_again():
    """As rows, as a table of what is kept, and as one whose structs have all members."""
    said = {"id": "a", "circle": [1, 2, 3], "events": ["leave", "dwell"], "dwell": {"seconds": 7.5}}
    margins = [{"seconds": 1.0}, {"metres": 2.0, "seconds": 1.0}, {"metres": 4.0}]
    table, bad = check_subscriptions([said | {"id": str(at), "margin": one} for at, one in enumerate(margins)])
    assert not bad
    rows = write_rows(table)
    assert [row["margin"] for row in rows] == margins
    assert check_subscriptions(rows)[0].equals(table)
    assert dtoss.subscriptions(table).table.equals(table)
    assert dtoss.subscriptions(pa.Table.from_pylist(rows)).table.equals(table)
    assert dtoss.subscriptions(table.drop_columns(["stay"]).set_column(
        table.column_names.index("events"), "events", pa.array([LEAVE] * 3, pa.uint8())
    )).table.column("stay").null_count == 3  # fmt: skip


def test_a_margin_in_seconds_is_since_the_first_row_outside():
    """Rows inside begin it anew; what is full between two rows is a leave then, where the object was seen last."""
    fence = {"id": "a", "box": [0, 0, 9, 9], "events": ["enter", "leave"], "margin": {"seconds": 25}}
    watch = dtoss.subscriptions([fence], crs="none", metric="plane")
    t, x = [0, 10, 20, 30, 40, 60, 90], [1.0, 99.0, 99.0, 1.0, 50.0, 60.0, 1.0]
    told = watch.events(None, {"id": [1] * 7, "t": t, "x": x, "y": [1.0] * 7}).select(["kind", "t", "x"]).to_pylist()
    assert [(one["kind"], one["t"], one["x"]) for one in told] == [
        ("enter", 0.0, 1.0),
        ("leave", 65.0, 60.0),
        ("enter", 90.0, 1.0),
    ]


@pytest.mark.parametrize("cut", range(1, 6))
def test_rows_before_say_where_an_object_stays(cut):
    """All of them: in Python, too, a stay goes on from one table of rows to the next."""
    fence = {"id": "a", "box": [0, 0, 9, 9], "events": ["enter", "leave", "dwell"], "where": "speed < 5 or free"}
    watch = dtoss.subscriptions(
        [fence | {"dwell": {"seconds": 25}, "margin": {"metres": 3, "seconds": 40}}], crs="none", metric="plane"
    )
    x, free = [1.0, 11.0, 2.0, 11.5, 30.0, 5.0], [True, True, False, True, True, True]
    rows = pa.table({"id": [1] * 6, "t": [0, 10, 20, 30, 40, 50], "x": x, "y": [1.0] * 6, "free": free})
    whole = watch.events(None, rows)
    assert whole["kind"].to_pylist() == ["enter", "dwell", "leave", "enter"]
    first, later = rows.slice(0, cut), rows.slice(cut)
    assert pa.concat_tables([watch.events(None, first), watch.events(first, later)]).equals(whole)
