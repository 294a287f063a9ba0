"""What the page draws: hits, circles, polygons and objects in the coordinates of the map, as other routes say them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from shapely.geometry import Point, Polygon

import dtoss
from dtoss.geometry.distance import distance
from dtoss.serve.map.map_hits import object_drawn
from tests.dtoss.serve.served import Asker, Heard, running, served_of, target, town

KINDS = ["sphere", "plane", "strings", "projected", "compared on the sphere"]


def index_of(kind):
    """A town of each kind of space and ids."""
    if kind in ("sphere", "plane"):
        return town(kind)
    if kind == "strings":
        return town(strings=True)
    rng = np.random.default_rng(1)
    positions = rng.normal([500_000.0, 5_500_000.0], 3_000.0, (2_000, 2)).round(0)
    metric = "sphere" if kind == "compared on the sphere" else None
    return dtoss.build(np.arange(2_000), positions, crs="EPSG:32631", metric=metric, partitions=3)


@pytest.fixture(scope="module")
def servers():
    """A worker of each kind."""
    with (
        running(index_of(KINDS[0])) as a,
        running(index_of(KINDS[1])) as b,
        running(index_of(KINDS[2])) as c,
        running(index_of(KINDS[3])) as d,
        running(index_of(KINDS[4])) as e,
    ):
        yield dict(zip(KINDS, (a, b, c, d, e), strict=True))


@pytest.fixture(params=KINDS)
def server(request, servers):
    return servers[request.param]


def post(server, body, path="/map/within"):
    with Asker(server) as asker:
        status, _, answer = asker.raw(path, "POST", body if isinstance(body, bytes) else json.dumps(body))
    return status, json.loads(answer)


def get(server, path, **parameters):
    with Asker(server) as asker:
        status, _, answer = asker.raw(target(path, **parameters))
    return status, json.loads(answer)


def frame_of(server):
    return server.serving.now.tiles.frame


def middle(server):
    """A place amid the objects: its position, and where it is on the map."""
    position = server.index.parts[0].positions[7] + 0.001
    return position, frame_of(server).lonlat_of(position[None])[0]


def position_of(index, text):
    object_id = text if index.string_ids else int(text)
    place = index.place_of(object_id)
    return object_id, place.partition.positions[place.item]


def test_nearest_are_those_of_the_index_where_they_are_on_the_map(server):
    """Ids are text, cells hold their objects, and the place is told in the store's coordinates."""
    index, (position, at) = server.index, middle(server)
    status, told = get(server, "/map/nearest", lon=at[0], lat=at[1], k=6)
    assert status == 200
    wanted = index.knn(position, 6)
    assert [hit["id"] for hit in told["hits"]] == [str(one) for one in wanted.id.tolist()]
    assert [hit["distance"] for hit in told["hits"]] == pytest.approx(wanted.distance.tolist(), rel=1e-6, abs=1e-6)
    assert [told["place"]["x"], told["place"]["y"]] == pytest.approx(position.tolist(), rel=1e-9)
    assert told["place"]["at"] == pytest.approx(at.tolist())
    for hit in told["hits"]:
        _, there = position_of(index, hit["id"])
        assert hit["at"] == pytest.approx(frame_of(server).lonlat_of(there[None])[0].tolist())
        ring, *holes = hit["cell"]
        assert not holes
        assert ring[0] == ring[-1]
        assert Polygon(ring).buffer(1e-6).contains(Point(hit["at"]))
    assert "cell" not in get(server, "/map/nearest", lon=at[0], lat=at[1], cells="false")[1]["hits"][0]


def test_a_circle_counts_what_a_range_finds_and_lists_the_nearest(server):
    """By a place on its rim or by its radius; the rim belongs to it."""
    index, (position, at) = server.index, middle(server)
    _, rim = position_of(index, str(index.knn(position, 40).id.tolist()[-1]))
    lonlat = frame_of(server).lonlat_of(rim[None])[0]
    status, told = post(server, {"circle": [*at.tolist(), *lonlat.tolist()]})
    assert status == 200
    vectors = index.space.vectors(np.stack([position, rim]))
    radius = float(distance(vectors[:1], vectors[1:])[0])
    assert told["radius"] == pytest.approx(radius, rel=1e-6)
    assert abs(told["count"] - len(index.range(position, radius))) <= 5  # of those on the rim, by a last digit
    status, told = post(server, {"circle": at.tolist(), "radius": radius * 1.5})
    wanted = index.range(position, radius * 1.5)
    assert told["count"] == len(wanted)
    assert [one["id"] for one in told["objects"]] == [str(one) for one in wanted.id.tolist()[:100]]
    ring = Polygon(told["ring"])
    assert all(ring.buffer(1e-6).contains(Point(one["at"])) for one in told["objects"])
    outside = index.range(position, radius * 1.7).id.tolist()[-1]
    if outside not in wanted.id.tolist():
        there = frame_of(server).lonlat_of(position_of(index, str(outside))[1][None])[0]
        assert not ring.contains(Point(there)) or ring.exterior.distance(Point(there)) < 0.01 * np.ptp(ring.bounds[::2])


def test_the_rim_of_a_circle_belongs_to_it(servers):
    """At exactly the distance of an object, which has no other digits where the map's places are the store's."""
    server = servers["sphere"]
    position, _ = middle(server)
    position = np.round(position, 4)
    found = server.index.knn(position, 5)
    told = post(server, {"circle": position.tolist(), "radius": found.distance.tolist()[-1]})[1]
    assert told["count"] == int(server.index.count(position, found.distance[-1])[0]) >= 5
    less = post(server, {"circle": position.tolist(), "radius": found.distance.tolist()[-1] * (1 - 1e-12)})[1]
    assert less["count"] < told["count"]


def test_a_polygon_counts_what_the_index_finds_within(server):
    """Its corners belong to it; the lowest ids are listed; either way round."""
    index, (position, _) = server.index, middle(server)
    far = 0.08 if index.space.geographic else 60.0 if index.space.crs == "none" else 4_000.0
    corners = position + far * np.array([(-1, -1), (1.2, -0.8), (0.9, 1), (-0.7, 0.8)])
    on_map = frame_of(server).lonlat_of(corners)
    inside = index.within(frame_of(server).positions_of(on_map))
    for ring in (on_map, on_map[::-1]):
        status, told = post(server, {"polygon": ring.tolist()})
        assert status == 200
        assert told["count"] == len(inside) > 100
        assert [one["id"] for one in told["objects"]] == [str(one) for one in inside.id.tolist()[:100]]
        drawn = Polygon(told["ring"]).buffer(1e-5)
        assert all(drawn.contains(Point(one["at"])) for one in told["objects"])
        assert told["ring"][0] == told["ring"][-1]


def test_an_object_is_told_with_its_cell_and_neighbours(server):
    """As the index has them."""
    index = server.index
    object_id = index.locate(middle(server)[0]).tolist()[0]
    with Asker(server) as asker:
        from urllib.parse import quote

        told = asker.get("/map/object/" + quote(str(object_id), safe=""))
    assert told["id"] == str(object_id)
    _, position = position_of(index, told["id"])
    assert (told["x"], told["y"]) == tuple(position.tolist())
    assert told["at"] == pytest.approx(frame_of(server).lonlat_of(position[None])[0].tolist())
    assert told["neighbours"] == [str(one) for one in index.neighbours(object_id).tolist()]
    assert told["area"] == index.area(object_id)
    assert set(told["attributes"]) == set(index.column_names)
    assert told["partition"] == index.place_of(object_id).partition.number
    assert Polygon(told["cell"][0]).buffer(1e-6).contains(Point(told["at"]))


def test_attributes_have_all_their_digits_in_a_browser():
    """JavaScript has whole numbers up to 2^53: greater ones are sent as text, and so is what it would not write out."""
    held = {
        "big": pa.array([2**60 + 1], pa.int64()), "least": pa.array([-(2**63)], pa.int64()),
        "most": pa.array([2**64 - 1], pa.uint64()), "exact": [2**53], "real": [1e300], "none": pa.nulls(1, pa.int64()),
        "yes": [True], "several": [[2**60 + 1, None]], "struct": [{"a": 2**60 + 1}], "name": ["1"],
    }  # fmt: skip
    told, _ = object_drawn(served_of(dtoss.build([2**60 + 1], [[8.0, 50.0]], columns=held)), str(2**60 + 1))
    assert told["id"] == str(2**60 + 1)
    assert told["attributes"] == {
        "big": str(2**60 + 1), "least": str(-(2**63)), "most": str(2**64 - 1), "exact": 2**53, "real": 1e300,
        "none": None, "yes": True, "several": f"[{2**60 + 1},null]", "struct": f'{{"a":{2**60 + 1}}}', "name": "1",
    }  # fmt: skip


def test_conditions_hold_for_all_three_and_wrong_ones_are_told(servers):
    """One line that names them."""
    server = servers["sphere"]
    index, (position, at) = server.index, middle(server)
    where = "speed > 30"
    hits = get(server, "/map/nearest", lon=at[0], lat=at[1], k=4, where=where)[1]["hits"]
    assert [hit["id"] for hit in hits] == [str(one) for one in index.knn(at, 4, where=where).id.tolist()]
    circle = {"circle": at.tolist(), "radius": 3_000, "where": where}
    count = post(server, circle)[1]["count"]
    assert count == int(index.count(at, 3_000, where=where)[0]) < int(index.count(at, 3_000)[0])
    ring = (at + 0.02 * np.array([(-1, -1), (1, -1), (0, 1)])).tolist()
    assert post(server, {"polygon": ring, "where": where})[1]["count"] == len(index.within(np.array(ring), where=where))
    for status, told in (
        post(server, circle | {"where": "nothing > 3"}),
        get(server, "/map/nearest", lon=1, lat=1, where="("),
    ):
        assert status == 400
        assert "\n" not in told["detail"]
    assert position is not None


WRONG = [
    b"{", b"[]", b'"x"', {}, {"circle": [1, 2]}, {"circle": [1, 2, 3]}, {"circle": [1, 2, 3, "4"]},
    {"circle": [1, 2, 3, True]}, {"circle": [1, 2], "radius": -1}, {"circle": [1, 2], "radius": "3"},
    {"circle": [1, 99, 3, 4]}, {"circle": [1, 2, 3, 4], "polygon": [[0, 0], [1, 0], [1, 1]]},
    {"polygon": [[0, 0], [1, 0]]}, {"polygon": [[0, 0], [1, 0], [1]]}, {"polygon": "all"},
    {"polygon": [[0, 0], [1, 0], None]},
    {"polygon": [[0, 0], [1, 0], [1, 95]]}, {"polygon": [[0, 0], [1, 0], [1, 1]], "radius": 3},
    {"circle": [1, 2], "radius": 3, "more": 1}, {"circle": [1, 2], "radius": 3, "where": 7},
    b'{"circle": [1, 2, 3, 1e999]}',
    {"polygon": [[0, 0], [120, 0], [-120, 0]]},
]  # fmt: skip


@pytest.mark.parametrize("body", WRONG, ids=range(len(WRONG)))
def test_bodies_that_are_something_else_are_refused(servers, body):
    """In one line, and nothing of them is logged as a failure."""
    status, told = post(servers["sphere"], body)
    assert status == 400, told
    assert "\n" not in told["detail"]
    assert len(told["detail"]) > 20
    assert not [one for one in servers["sphere"].heard.requests if one.get("status", 0) >= 500]


def test_limits_hold_for_the_page_as_well(servers):
    """Corners, k, ids that nobody has, snapshots that are gone."""
    server = servers["sphere"]
    corners = server.state.settings.limits.corners
    ring = [[10 + 1e-6 * i, 50 + 1e-6 * (i % 7)] for i in range(corners + 1)]
    assert post(server, {"polygon": ring})[0] == 413
    assert get(server, "/map/nearest", lon=1, lat=2, k=101)[0] == 400
    assert get(server, "/map/nearest", lon=1, lat=91)[0] == 400
    assert get(server, "/map/nearest", lon="nan", lat=1)[0] == 400
    assert get(server, "/map/object/987654321")[0] == 404
    assert get(server, "/map/object/x")[0] == 404
    for path in ("/map/nearest?lon=1&lat=2&snapshot=gone", "/map/object/3?snapshot=gone"):
        assert get(server, path)[0] == 410
    assert post(server, {"circle": [1, 2], "radius": 3}, "/map/within?snapshot=gone")[0] == 410


def test_places_that_a_projection_does_not_reach_are_told(servers):
    """As 400, not as a failure."""
    for kind in ("projected", "compared on the sphere"):
        status, told = get(servers[kind], "/map/nearest", lon=-90, lat=0)
        assert status in (200, 400), told
        if status == 400:
            assert "EPSG:32631" in told["detail"]


def test_questions_of_the_page_count_as_questions(servers, monkeypatch):
    """In the log of places, in the store's coordinates; and answers that did not change are not sent again."""
    server = servers["plane"]
    heard = Heard()
    monkeypatch.setattr(server.heard, "accesses", heard.accesses)
    (x, y), at = middle(server)
    with Asker(server) as asker:
        path = target("/map/nearest", lon=at[0], lat=at[1], k=3)
        _, headers, _ = asker.raw(path)
        assert asker.raw(path, if_none_match=headers["etag"])[0] == 304
    post(server, {"circle": at.tolist(), "radius": 20})
    told = get(server, "/map/nearest", lon=at[0], lat=at[1], k=1)[1]["hits"][0]
    get(server, "/map/object/" + told["id"])
    post(server, {"polygon": (at + 0.5 * np.array([(-1, -1), (1, -1), (0, 1)])).tolist()})
    found = np.array(heard.accesses)
    assert len(found) == 5
    assert found[[0, 1], :2] == pytest.approx(np.array([[x, y]] * 2), rel=1e-6)
    assert found[0, 2] == 3
    assert np.isnan(found[0, 3])
    assert found[1, 3] == 20
    assert found[4, 3] > 0


def far_world():
    """A few objects round the whole sphere."""
    places = np.array([(0, 90), (0, -90), (180, 0), (-179, 5), (90, 0), (-90, 0), (0, 0), (45, 45), (-135, -45)], float)
    return dtoss.build(np.arange(9), places, partitions=2)


def test_cells_and_circles_over_poles_and_the_antimeridian_are_drawn_without_jumps():
    """Each holds its middle, goes on past 180 without a jump, and reaches the pole that it holds."""
    with running(far_world()) as server:
        for lon, lat in ((0.0, 89.0), (30.0, -89.0), (180.0, 0.0), (-540.0, 0.0), (0.0, 0.0)):
            status, told = get(server, "/map/nearest", lon=lon, lat=lat, k=9)
            assert status == 200
            assert len(told["hits"]) == 9
            for hit in told["hits"]:
                for ring in hit["cell"]:
                    steps = np.abs(np.diff(np.array(ring)[:, 0]))
                    inner = np.abs(np.array(ring)[:-1, 1]) < 85
                    assert steps[inner].max(initial=0) < 180
                x, y = hit["at"]
                where = [Point(x + turn, np.clip(y, -85, 85)) for turn in (-360, 0, 360)]
                cell = Polygon(hit["cell"][0], hit["cell"][1:]).buffer(1e-6)
                assert any(cell.contains(one) for one in where), hit["id"]
        for at, radius in (([10, 80], 2e6), ([179, 10], 1e6), ([0, 0], 1.5e7), ([0, -89], 1e6), ([5, 5], 3e7)):
            status, told = post(server, {"circle": at, "radius": radius})
            assert told["count"] == len(server.index.range(at, radius))
            shapes = [Polygon(outer, holes).buffer(1e-6) for outer, *holes in told["shape"]]
            for one in told["objects"]:
                x, y = one["at"]
                where = [Point(x + turn, np.clip(y, -85, 85)) for turn in (-360, 0, 360)]
                assert any(shape.contains(place) for shape in shapes for place in where), (at, radius, one)
        for at in ([10, 80], [-100, 85], [170, -80], [0, 90]):
            ((ring,),) = post(server, {"circle": at, "radius": 2e6})[1]["shape"]
            lons = [lon for lon, _ in ring]
            # the way to the pole and back is where maps end, not across them
            assert sorted({lons[0], lons[-2], lons[-3], lons[-4]}) == [-180, 180], at
            assert abs(ring[-2][1]) == abs(ring[-3][1]) == 89.9
            assert Polygon(ring).is_valid
        assert post(server, {"circle": [3, 4], "radius": 0})[1]["ring"] == []
        over = post(server, {"polygon": [[170, -10], [190, -10], [190, 10], [170, 10]]})[1]
        assert [one["id"] for one in over["objects"]] == ["2", "3"]
        lons = [lon for lon, _ in over["ring"]]
        assert max(lons) - min(lons) == pytest.approx(20)


def test_one_object_owns_all_and_none_answers_nothing():
    """A cell that is the whole map; an index without objects has no hits."""
    with running(dtoss.build(np.array([7]), np.array([[3.0, 4.0]]), partitions=1)) as server:
        (hit,) = get(server, "/map/nearest", lon=100, lat=-50, k=3)[1]["hits"]
        (ring,) = hit["cell"]
        assert tuple(ring[0]) == (-180, -89.9)
        assert get(server, "/map/object/7")[1]["neighbours"] == []
    with running(dtoss.build(np.zeros(0, np.int64), np.zeros((0, 2)), partitions=1)) as server:
        assert get(server, "/map/nearest", lon=1, lat=2)[1]["hits"] == []
        told = post(server, {"circle": [1, 2, 3, 4]})[1]
        assert (told["count"], told["objects"]) == (0, [])
