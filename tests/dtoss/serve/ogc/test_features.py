"""OGC API Features: pages against brute force, under swaps, by tokens, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

import dtoss
from dtoss.rows.store_clock import Scale
from dtoss.serve.core.pool import Stop
from dtoss.serve.ogc.collections import Times, box_of, interval_of
from dtoss.serve.ogc.pages_by_id import Choice, page_of
from dtoss.serve.routes.parameters import Cursor, question_sum, write_cursor
from dtoss.tiles.map_frame import frame_of
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.rights.seen import bearer, doors_of
from tests.dtoss.serve.served import Asker, running, served_of, town
from tests.examples import examples

ITEMS = "/ogc/collections/{}/items"
WORLD = st.tuples(st.integers(-180, 180), st.integers(-90, 90))


def timed(index, column="seen", kind="timestamp", unit=None):
    """A served index whose objects have a time."""
    served = served_of(index)
    return dict(served.manifest) | {"time": {"column": column, "type": kind, "unit": unit}}


@pytest.fixture(scope="module")
def index():
    return town(objects=700)


@pytest.fixture(scope="module")
def rows(index):
    """Each object by its id, as its index has it."""
    return {id_: index[id_] for id_ in index}


@pytest.fixture(scope="module")
def server(index):
    with running(index) as found:
        object.__setattr__(found.serving.now, "manifest", timed(index))
        yield found


def follow(asker, path, **parameters):
    """All features of a question, page by page, and what the first page says."""
    told = first = asker.get(path, **parameters)
    features = told["features"]
    while following := [link["href"] for link in told["links"] if link["rel"] == "next"]:
        parts = urlsplit(following[0])
        told = asker.get(parts.path, **{name: values[0] for name, values in parse_qs(parts.query).items()})
        assert told["numberReturned"] == len(told["features"]) > 0
        features = features + told["features"]
    return features, first


def in_box(place, box):
    """Whether a place lies in a box, by its numbers: a pole has all longitudes, the antimeridian two."""
    (lon, lat), (west, south, east, north) = place, box
    lons = [lon, -lon] if abs(lon) == 180 else [lon]
    across = any(west <= x <= east if west <= east else x >= west or x <= east for x in lons)
    return south <= lat <= north and (across or abs(lat) == 90)


def test_all_objects_page_by_page_by_id(server, rows):
    with Asker(server) as asker:
        for limit in (1_000, 100, 7):
            features, first = follow(asker, ITEMS.format("objects"), limit=limit)
            assert [one["id"] for one in features] == sorted(rows)
            assert (first["numberMatched"], first["numberReturned"]) == (len(rows), min(limit, len(rows)))
        one = rows[features[3]["id"]]
        said = asker.get(f"{ITEMS.format('objects')}/{one['id']}")
        assert {name: said[name] for name in features[3]} == features[3]
        assert said["geometry"] == {"type": "Point", "coordinates": [one["lon"], one["lat"]]}
        attributes = asker.get(f"/objects/{one['id']}")["attributes"]
        assert said["properties"] == attributes


def test_ids_that_stand_together_in_a_partition():
    """A page has more of one partition than a step, and those of the next ones stay behind it."""
    corners = np.repeat([[-90.0, 0.0], [0.0, 0.0], [90.0, 0.0], [180.0, 0.0]], 50, axis=0)
    places = corners + np.random.default_rng(0).uniform(-1, 1, corners.shape) * [0, 1]
    index = dtoss.build(np.arange(200), places, partitions=4)
    for box in (None, (-180.0, -90.0, 180.0, 90.0)):
        choice = Choice(index, frame_of(index.space, None), box)
        for most in (1, 20, 45, 120, 300):
            assert page_of(choice, 7, most, Stop())[0].ids.tolist() == list(range(8, 200))[:most]


def test_by_box_condition_and_time_as_brute_force(server, rows):
    """Wide boxes and narrow ones, so that both ways are taken; counts are exact where they are told."""
    rng, matched = np.random.default_rng(2), []
    with Asker(server) as asker:
        for case in range(40):
            west, east = np.sort(rng.normal(10, 0.06, 2)).tolist()
            south, north = np.sort(rng.normal(50, 0.06, 2)).tolist()
            box = (-180, -90, 180, 90) if case == 7 else (west, south, east, north)
            asked = {"bbox": ",".join(map(repr, box)), "limit": int(rng.choice([10, 90, 1_000]))}
            wanted = {id_ for id_, row in rows.items() if in_box((row["lon"], row["lat"]), box)}
            if case % 2:
                asked["where"] = "speed < 25 or free"
                wanted &= {id_ for id_, row in rows.items() if row["speed"] < 25 or row["free"]}
            if case % 3 == 0:
                begin, end = sorted(rows[int(i)]["seen"] for i in rng.choice(sorted(rows), 2))
                asked["datetime"] = f"{begin:%Y-%m-%dT%H:%M:%S.%fZ}/{end:%Y-%m-%dT%H:%M:%S.%fZ}"
                wanted &= {id_ for id_, row in rows.items() if begin <= row["seen"] <= end}
            features, first = follow(asker, ITEMS.format("objects"), **asked)
            assert [one["id"] for one in features] == sorted(wanted), asked
            assert first.get("numberMatched", len(wanted)) == len(wanted)
            matched.append("numberMatched" in first)
    assert {True, False} == set(matched)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(WORLD, min_size=1, max_size=60), WORLD, WORLD, st.integers(1, 9), st.booleans(), st.integers(1, 7))
def test_boxes_anywhere_on_the_sphere(places, a, b, most, strings, partitions):
    """At poles, on and across the antimeridian, empty ones; ids that are numbers and texts."""
    ids = [f"i{n}" for n in range(len(places))] if strings else np.arange(len(places))[::-1] * 3 - 50
    index = dtoss.build(ids, np.array(places, float), partitions=partitions)
    box = (a[0], min(a[1], b[1]), b[0], max(a[1], b[1]))
    choice = Choice(index, frame_of(index.space, None), box)
    found, after = [], None
    while True:
        items, matched = page_of(choice, after, most, Stop())
        found += items.ids.tolist()
        if len(items) < most:
            break
        assert len(found) <= len(places)
        after = found[-1]
    wanted = sorted(id_ for id_, place in zip(list(ids), places, strict=True) if in_box(place, box))
    assert found == wanted
    assert matched in (None, len(wanted))


@pytest.mark.parametrize("strings", [False, True])
def test_cells_that_reach_into_a_box(strings):
    """As all cells are drawn first and then compared."""
    index = town(objects=400, strings=strings, partitions=5)
    drawn = index.cells()
    rng = np.random.default_rng(4)
    with running(index) as server, Asker(server) as asker:
        features, first = follow(asker, ITEMS.format("cells"), limit=50)
        assert [one["id"] for one in features] == sorted(drawn.id)
        assert first["numberMatched"] == len(drawn) == index.sites < len(index)
        for case in range(12):
            # narrow ones, few cells are near which, and wide ones
            west, east = np.sort(rng.normal(10, 0.05, 1) + rng.uniform(0, 0.03 if case % 2 else 0.002, 2)).tolist()
            south, north = np.sort(rng.normal(50, 0.05, 1) + rng.uniform(0, 0.03, 2)).tolist()
            box = {7: (170, -10, -170, 10), 8: (-180, -90, 180, 90)}.get(case, (west, south, east, north))
            sides = [box] if box[0] <= box[2] else [(box[0], box[1], 180, box[3]), (-180, box[1], box[2], box[3])]
            area = shapely.union_all([shapely.box(*side) for side in sides])
            wanted = drawn[shapely.intersects(area, drawn.geometry.values)]
            features, _ = follow(asker, ITEMS.format("cells"), bbox=",".join(map(repr, box)), limit=40)
            assert [one["id"] for one in features] == sorted(wanted.id), box
        one = features[0]
        shape = drawn[drawn.id == one["id"]]
        assert shapely.equals_exact(shapely.from_geojson(json.dumps(one["geometry"])), shape.geometry.values[0], 1e-9)
        # a second object on a place has no cell of its own
        second = next(id_ for id_ in index if id_ not in set(drawn.id))
        for id_, wanted in ((drawn.id[0], 200), (second, 404)):
            assert asker.raw(f"{ITEMS.format('cells')}/{quote(str(id_), safe='')}")[0] == wanted


def test_partitions_are_the_regions(index, server):
    drawn = index.regions()
    with Asker(server) as asker:
        features, first = follow(asker, ITEMS.format("partitions"), limit=2)
        assert [one["id"] for one in features] == list(range(len(drawn)))
        assert first["numberMatched"] == len(drawn)
        assert [one["properties"]["objects"] for one in features] == drawn.objects.tolist()
        box = (9.9, 49.9, 9.95, 49.95)
        wanted = np.flatnonzero(shapely.intersects(shapely.box(*box), drawn.geometry.values)).tolist()
        assert [one["id"] for one in follow(asker, ITEMS.format("partitions"), bbox="9.9,49.9,9.95,49.95")[0]] == wanted
        one = asker.get("/ogc/collections/partitions/items/1")
        assert one["properties"] == features[1]["properties"]
        assert asker.raw("/ogc/collections/partitions/items/99")[0] == 404


def test_pages_are_of_one_snapshot_whatever_takes_its_place(index):
    """The next pages are of the snapshot of the first; once it is closed that is said, and never another answer."""
    later = [served_of(town(objects=500, seed=seed), f"2026010{seed}T000000.000000Z") for seed in (2, 3)]
    with running(index) as server, Asker(server) as asker:
        told = asker.get(ITEMS.format("objects"), limit=100)
        features = told["features"]
        server.loop.call_soon_threadsafe(server.serving.replace, later[0])
        while following := [link["href"] for link in told["links"] if link["rel"] == "next"]:
            parts = urlsplit(following[0])
            status, headers, body = asker.raw(f"{parts.path}?{parts.query}")
            assert (status, headers["x-dtoss-snapshot"]) == (200, server.serving.before.name)
            told = json.loads(body)
            features = features + told["features"]
            kept = f"{parts.path}?{parts.query}"
        assert [one["id"] for one in features] == sorted(index)
        places = {one["id"]: one["geometry"]["coordinates"] for one in features}
        assert all(places[id_] == [index[id_]["lon"], index[id_]["lat"]] for id_ in places)
        server.loop.call_soon_threadsafe(server.serving.replace, later[1])
        assert asker.get(ITEMS.format("objects"), limit=1)["numberMatched"] == 500
        assert asker.raw(kept)[0] == 410


def test_tokens_see_what_is_theirs_in_pages_counts_and_extents(tmp_path):
    index = town(objects=400)
    seen = {id_ for id_ in index if index[id_]["speed"] < 20 and index[id_]["name"] is not None}
    with running(index, doors=doors_of(tmp_path)) as server, Asker(server) as asker:
        object.__setattr__(server.serving.now, "manifest", timed(index))

        def get(path, token, **parameters):
            status, _, body = asker.raw(path + "".join(f"&{n}={v}" for n, v in parameters.items()), **bearer(token))
            return status, json.loads(body)

        for token, wanted in (("all", set(index)), ("some", seen), ("columns", set(index)), ("nothing", set())):
            status, told = get(f"{ITEMS.format('objects')}?limit=1000", token)
            assert (status, {one["id"] for one in told["features"]}) == (200, wanted), token
            assert told["numberMatched"] == len(wanted)
            status, told = get("/ogc/collections", token)
            names = [one["id"] for one in told["collections"]]
            all_ = [] if token in ("some", "nothing") else ["cells", "partitions"]
            assert names == ["objects", *all_, "zones", "events"]
            places = [(index[id_]["lon"], index[id_]["lat"]) for id_ in wanted]
            box = told["collections"][0]["extent"].get("spatial", {}).get("bbox")
            assert box == ([[*np.min(places, 0), *np.max(places, 0)]] if wanted else None)
        hidden = next(id_ for id_ in index if id_ not in seen)
        assert get(f"{ITEMS.format('objects')}/{hidden}?ids=number", "some")[0] == 404
        assert get(f"{ITEMS.format('cells')}?limit=1", "some")[0] == 403
        told = get(f"{ITEMS.format('objects')}?limit=1", "columns")[1]
        assert set(told["features"][0]["properties"]) == {"speed", "free"}
        # the time is none of its columns: it keeps nothing back, and nothing is told by it
        told = get(f"{ITEMS.format('objects')}?limit=1&datetime=1999-01-01", "columns")[1]
        assert told["numberMatched"] == len(index)
        assert get(f"{ITEMS.format('objects')}?limit=1&datetime=1999-01-01", "all")[1]["numberMatched"] == 0
        assert get(f"{ITEMS.format('objects')}?where=name+is+null", "columns")[0] == 400
        # a cursor of another token is of another question
        told = get(f"{ITEMS.format('objects')}?limit=5", "all")[1]
        (href,) = [link["href"] for link in told["links"] if link["rel"] == "next"]
        assert get(urlsplit(href).path + "?" + urlsplit(href).query, "some")[0] == 400


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("bbox=1,2,3", "west,south,east,north"), ("bbox=1,2,3,x", "west,south"), ("bbox=1,2,3,nan", "west,south"),
        ("bbox=1,2,3,inf", "west,south"), ("bbox=190,0,10,1", "within 180"), ("bbox=1,5,2,4", "south <= north"),
        ("bbox=1,2,9,3,4,5", "lower height"), ("bbox=", "west,south"), ("bbox=1,2,3,4,5", "west,south"),
        ("datetime=yesterday", "times such as"), ("datetime=../..", "one of which"),
        ("datetime=a/b/c", "one of which"),
        ("datetime=2026-02-01/2026-01-01", "after the last"), ("datetime=", "two"),
        ("datetime=2026-13-01", "times such as"),
        ("limit=0", ">= 1"), ("limit=10001", "10000"), ("bboxx=1,2,3,4", "did you mean bbox"), ("where=spid>1", "spid"),
        ("cursor=abc", "begin again"), ("where=speed<", "not a condition"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line_and_400(server, asked, why):
    with Asker(server) as asker:
        status, _, body = asker.raw(f"{ITEMS.format('objects')}?{asked}")
        said = json.loads(body)
        assert (status, "\n" in said["detail"]) == (400, False)
        assert why in said["detail"]


def test_what_is_not_there_is_404_and_what_does_not_fit_is_400(server):
    with Asker(server) as asker:
        for path in ("/ogc/collections/object", "/ogc/collections/object/items", f"{ITEMS.format('objects')}/none"):
            assert asker.raw(path)[0] == 404
        assert "did you mean objects" in json.loads(asker.raw("/ogc/collections/object")[2])["detail"]
        assert asker.raw(f"{ITEMS.format('cells')}?where=speed>1")[0] == 400
        told = asker.get(ITEMS.format("objects"), limit=5)
        (href,) = [link["href"] for link in told["links"] if link["rel"] == "next"]
        query = urlsplit(href).query
        assert asker.raw(f"{ITEMS.format('cells')}?{query}")[0] == 400
        assert asker.raw(f"{ITEMS.format('objects')}?{query}&bbox=1,2,3,4")[0] == 400
        for name, last in (("partitions", "x"), ("objects", "x")):
            question = question_sum(name, None, None, None, b"")
            forged = write_cursor(Cursor(server.serving.now.name, question, 1, 0.0, last))
            assert asker.raw(f"{ITEMS.format(name)}?cursor={forged}")[0] == 400


def test_what_is_described_and_links_lead_on(server):
    """All links of a page are answered; they begin with the host that was asked for."""
    with Asker(server) as asker:
        told = json.loads(asker.raw("/ogc", host="map.example:81")[2])
        assert all(link["href"].startswith("http://map.example:81/") for link in told["links"])
        assert {link["rel"] for link in told["links"]} >= {"self", "service-desc", "service-doc", "conformance", "data"}
        paths = [urlsplit(link["href"]).path for link in told["links"]]
        collections = asker.get("/ogc/collections")["collections"]
        paths += [urlsplit(link["href"]).path for one in collections for link in one["links"]]
        assert {asker.raw(path)[0] for path in paths} == {200}
        assert asker.get("/ogc/api")["paths"] == asker.get("/openapi.json")["paths"]
        objects = collections[0]
        assert objects == asker.get("/ogc/collections/objects")
        assert asker.raw(ITEMS.format("objects"))[1]["content-type"] == "application/geo+json"


def test_links_begin_with_the_public_url(index):
    with running(index, public_url="https://map.example.org/fleet") as server, Asker(server) as asker:
        told = [asker.get("/ogc"), asker.get("/ogc/collections"), asker.get(ITEMS.format("objects"), limit=1)]
        assert all(link["href"].startswith("https://map.example.org/fleet/") for one in told for link in one["links"])


def test_objects_of_a_projected_crs_are_in_degrees():
    """By the box of degrees, through all ids; a plane without a CRS has no degrees, and says so."""
    import pyproj

    rng = np.random.default_rng(0)
    positions = rng.uniform([550_000, 4_170_000], [560_000, 4_190_000], (200, 2))
    index = dtoss.build(np.arange(200), positions, crs="EPSG:32610", partitions=3)
    lonlat = np.stack(pyproj.Transformer.from_crs("EPSG:32610", "EPSG:4326", always_xy=True).transform(*positions.T), 1)
    box = [*np.quantile(lonlat, 0.3, 0), *np.quantile(lonlat, 0.8, 0)]
    wanted = np.flatnonzero((lonlat >= box[:2]).all(1) & (lonlat <= box[2:]).all(1)).tolist()
    with running(index) as server, Asker(server) as asker:
        features, _ = follow(asker, ITEMS.format("objects"), bbox=",".join(map(repr, map(float, box))), limit=9)
        assert [one["id"] for one in features] == wanted != []
        np.testing.assert_allclose([one["geometry"]["coordinates"] for one in features], lonlat[wanted], atol=1e-9)
        cells = follow(asker, ITEMS.format("cells"), limit=90)[0]
        assert len(cells) == 200
        at = shapely.from_geojson([json.dumps(one["geometry"]) for one in cells])
        assert shapely.contains_xy(at, *lonlat.T).all()
        assert asker.raw(f"{ITEMS.format('cells')}?bbox=-123,37,-122,38")[0] == 400
    with running(town("plane", objects=30)) as server, Asker(server) as asker:
        assert asker.raw("/ogc/collections")[0] == 501
        assert asker.raw(ITEMS.format("objects"))[0] == 501


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00/..", datetime(2026, 1, 31, 10, tzinfo=UTC), None),
        ("/2026-01-31", None, datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_times_that_are_asked_for(text, begin, end):
    assert interval_of(text) == (begin, end)


@pytest.mark.parametrize(
    ("column", "kind", "unit"),
    [
        (pa.array([0, 86_400_000_000, None], pa.timestamp("us", "UTC")), "timestamp", None),
        (pa.array([0, 86_400_000_000, None], pa.timestamp("us")), "timestamp_ntz", None),
        (pa.array([0, 86_400_000, None], pa.int64()), "bigint", "ms"),
        (pa.array([0, 86_400, None], pa.float64()), "double", "s"),
        (pa.array([0, 1, None], pa.date32()), "date", None),
    ],
)
def test_times_of_each_type_are_compared(column, kind, unit):
    """An object without a time is at none."""
    index = dtoss.build([1, 2, 3], np.zeros((3, 2)), columns={'t "x"': column})
    times = Times('t "x"', Scale(kind, unit))
    for text, wanted in (
        ("1970-01-02T00:00:00Z", [2]),
        ("1970-01-01/1970-01-02", [1, 2]),
        ("../1970-01-01", [1]),
        ("1971-01-01/..", []),
    ):
        condition = times.condition(*interval_of(text))
        assert index.knn([0, 0], 3, where=condition).id.tolist() == wanted, condition


def test_boxes_of_six_numbers_leave_heights_out():
    assert box_of("170, -10, 5, -170, 10, 9") == (170.0, -10.0, -170.0, 10.0)


def test_a_server_of_a_plan_has_the_features_of_all(index):
    """From files of the others, of a condition and a time too."""
    dealt_out = dealt(index, 2, "contiguous", np.random.default_rng(0))
    with (
        running(index) as alone, several(index, dealt_out, 2) as others, Asker(alone) as one, Asker(others[0]) as other,
    ):  # fmt: skip
        for name in ("objects", "cells"):
            for asked in ({"limit": 200}, {"limit": 200, "bbox": "9.97,49.96,10.05,50.02"}):
                wanted = follow(one, ITEMS.format(name), **asked)[0]
                assert follow(other, ITEMS.format(name), **asked)[0] == wanted != []
        for server in (alone, *others):
            object.__setattr__(server.serving.now, "manifest", timed(index))
        box = {"limit": 9, "bbox": "9.97,49.96,10.05,50.02"}
        for asked in ({"where": "speed > 3"}, {"datetime": "2026-01-01T00:05:00Z/2026-01-01T02:00:00Z"}):
            wanted = follow(one, ITEMS.format("objects"), **asked, **box)[0]
            assert follow(other, ITEMS.format("objects"), **asked, **box)[0] == wanted != []
