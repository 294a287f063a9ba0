"""Boxes and polygons over HTTP: as in process, bit for bit; counted before they are listed; limits."""

import json

import numpy as np
import pytest

from dtoss.geometry.polygons import arcs_meant, as_polygons
from dtoss.serve.core.server_settings import Limits, Sizes
from tests.dtoss.serve.bulk.streams import ARROW, stream_of, table_in
from tests.dtoss.serve.bulk.test_bulk import COLUMNS, JSON, KINDS, hits_in, json_rows, post, rows, same
from tests.dtoss.serve.served import NAME, Asker, running, target, town

BOXES = 200


@pytest.fixture(scope="module", params=KINDS)
def scene(request):
    kind, strings = KINDS[request.param]
    index = town(kind, strings=strings)
    with running(index) as server, Asker(server) as asker:
        yield index, server, asker


@pytest.fixture(scope="module")
def index():
    return town()


def frame(index):
    """The middle of the town, and about how wide it is."""
    return (np.array([10.0, 50.0]), 0.05) if index.space.geographic else (np.array([500.0, -300.0]), 40.0)


def boxes_of(index, count, seed=0):
    rng = np.random.default_rng(seed)
    middle, width = frame(index)
    corner = (middle + rng.normal(0, width, (count, 2))).round(3)
    size = rng.uniform(0, width, (count, 2)).round(3)
    size[::9] = 0.0
    boxes = np.concatenate([corner, corner + size], axis=1)
    if index.space.geographic:
        boxes[5] = [170.0, -10.0, -170.0, 10.0]
        boxes[6] = [10.1, 40.0, 9.9, 60.0]  # all the way round
    return boxes


def ring_of(index, corners, seed=0, size=1.0):
    """A star round the middle of the town."""
    rng = np.random.default_rng(seed)
    middle, width = frame(index)
    angle = np.sort(rng.uniform(0, 2 * np.pi, corners))
    far = width * size * rng.uniform(0.3, 1.5, corners)
    return (middle + np.stack([np.cos(angle), np.sin(angle)], axis=1) * far[:, None]).tolist()


def polygons(index):
    """Shapes of each kind that GeoJSON has for areas, some with holes, some crossing themselves."""
    ring, hole = ring_of(index, 40), ring_of(index, 7, 1, 0.2)
    bow = ring_of(index, 4, 2)
    bow = [bow[0], bow[2], bow[1], bow[3]]
    one = {"type": "Polygon", "coordinates": [[*ring, ring[0]], [*hole, hole[0]]]}
    two = {"type": "MultiPolygon", "coordinates": [[ring_of(index, 5, 3)], [ring_of(index, 6, 4)]]}
    feature = {"type": "Feature", "properties": {"name": "ü,[{"}, "geometry": two}
    return {
        "with a hole": one,
        "crossing itself": {"type": "Polygon", "coordinates": [bow]},
        "several": two,
        "a feature": feature,
        "a collection": {"type": "FeatureCollection", "features": [feature, {"type": "Feature", "geometry": one}]},
    }


def asked_all_ways(index, asker, path, body, wanted, queries):
    same(hits_in(post(asker, path, body, JSON, ARROW)[1], queries), wanted)
    assert json_rows(post(asker, path, body)[1]) == rows(wanted)


def test_boxes_hold_what_they_hold_in_process(scene):
    index, _, asker = scene
    boxes = boxes_of(index, BOXES)
    body = json.dumps({"boxes": boxes.tolist()}).encode()
    asked_all_ways(index, asker, "/box", body, index.box(boxes), BOXES)
    given = {"where": "speed < 20", "having": "free = true"}
    hits = index.box(boxes, **given, columns=COLUMNS)
    asked_all_ways(index, asker, target("/box", **given, columns=",".join(COLUMNS)), body, hits, BOXES)
    for where in (None, "speed < 20"):
        wanted = index.count_box(boxes, where=where).tolist()
        path = target("/box", where=where, count=1)
        assert json.loads(post(asker, path, body)[1]) == {"snapshot": NAME, "counts": wanted}
        assert table_in(post(asker, path, body, JSON, ARROW)[1])["count"].to_pylist() == wanted


def test_one_box_is_asked_in_the_url(scene):
    index, _, asker = scene
    names = ("west", "south", "east", "north") if index.space.geographic else ("xmin", "ymin", "xmax", "ymax")
    for box in boxes_of(index, 12, 1).tolist():
        given = dict(zip(names, map(repr, box), strict=True))
        hits = index.box(box, columns=["name"])
        path = target("/box", **given, columns="name")
        status, headers, answer = asker.raw(path)
        assert status == 200, answer
        wanted = zip(hits.id.tolist(), hits.columns["name"].to_pylist(), strict=True)
        assert json.loads(answer)["hits"] == [{"id": i, "distance": 0.0, "name": name} for i, name in wanted]
        assert asker.raw(path, if_none_match=headers["etag"])[::2] == (304, b"")
        same(hits_in(asker.raw(path, accept=ARROW)[2], 1), hits)
        assert asker.get("/box", **given, count=1)["count"] == len(hits)
    status, _, answer = asker.raw(target("/box", **dict(zip(names, (9, 51, 10, 50), strict=True))))
    assert status == 400
    assert "box 0 is [9.0, 51.0, 10.0, 50.0]" in json.loads(answer)["detail"]


def test_polygons_hold_what_they_hold_in_process(scene):
    index, _, asker = scene
    shapes = polygons(index)
    for shape in shapes.values():
        asked_all_ways(index, asker, "/within", json.dumps(shape).encode(), index.within(shape), 1)
    every, body = list(shapes.values()), json.dumps(list(shapes.values())).encode()
    hits = index.within(every, where="speed < 20", having="free = true", columns=["share", "seen"])
    path = target("/within", where="speed < 20", having="free = true", columns="share,seen")
    asked_all_ways(index, asker, path, body, hits, len(every))
    wanted = index.count_within(every).tolist()
    assert min(wanted) > 0
    assert json.loads(post(asker, "/within?count=1", body)[1])["counts"] == wanted
    assert table_in(post(asker, "/within?count=1", body, JSON, ARROW)[1])["count"].to_pylist() == wanted
    assert json.loads(post(asker, "/within", b"[]")[1])["hits"] == []


def test_a_polygon_that_is_looked_at_in_pieces_is_the_same(index):
    """A thread asks between them whether anybody waits."""
    shape = {"type": "Polygon", "coordinates": [ring_of(index, 200)]}
    with running(index, sizes=Sizes(tested=2_000)) as server, Asker(server) as asker:
        asked_all_ways(index, asker, "/within", json.dumps(shape).encode(), index.within(shape), 1)


def test_each_shape_is_in_the_access_log_as_a_disc_that_holds_it(index):
    with running(index) as server, Asker(server) as asker:
        boxes = boxes_of(index, 12, 3)
        post(asker, "/box", json.dumps({"boxes": boxes.tolist()}).encode())
        assert asker.raw("/box?west=9.9&south=49.9&east=10.1&north=50.1")[0] == 200
        shape = polygons(index)["with a hole"]
        post(asker, "/within", json.dumps(shape).encode())
        assert asker.raw("/box", "POST", b"{}")[0] == 400
        told = np.array(server.heard.accesses)
        assert told.shape == (14, 4)
        assert np.isnan(told[:, 2]).all()
        corners = [*boxes[:, :2], [9.9, 49.9]], [*boxes[:, 2:], [10.1, 50.1]]
        for row, *ends in zip(told, *corners, strict=False):
            assert index.space.legal(row[None, :2]).all()
            for end in ends:
                assert apart(index, row[:2], end) <= row[3] * (1 + 1e-9) + 1e-3
        assert max(apart(index, told[13, :2], corner) for corner in shape["coordinates"][0]) <= told[13, 3]


def apart(index, a, b):
    from dtoss.geometry.distance import distance

    return float(distance(*(index.space.vectors(np.array([at])) for at in (a, b)))[0])


RING = b"[[9.9,49.9],[10.1,49.9],[10,50.1]]"
WRONG = {
    "nothing": ("/within", b"", 400, "not JSON"),
    "half": ("/within", b'{"type":"Polygon","coordinates":[[[9', 400, "not JSON"),
    "text": ("/within", b'"Polygon"', 400, "no GeoJSON"),
    "a point": ("/within", b'{"type":"Point","coordinates":[1,2]}', 400, "'Point' is not searched within"),
    "no type": ("/within", b"{}", 400, "None is not searched within"),
    "a list of numbers": ("/within", RING, 400, "no GeoJSON"),
    "two corners": ("/within", b'{"type":"Polygon","coordinates":[[[1,2],[3,4]]]}', 400, "2 distinct corners"),
    "off the globe": ("/within", b'{"type":"Polygon","coordinates":[[[1,2],[3,95],[5,6]]]}', 400, "row 1 is"),
    "texts": ("/within", b'{"type":"Polygon","coordinates":[[["a",2],[3,4],[5,6]]]}', 400, "not numbers"),
    "nulls": ("/within", b'{"type":"Polygon","coordinates":[null]}', 400, ""),
    "a feature of nothing": ("/within", b'{"type":"Feature","geometry":null}', 400, "not searched within"),
    "half of the globe": (
        "/within", b'{"type":"Polygon","edges":"spherical","coordinates":[[[0,0],[90,0],[180,0],[-90,0]]]}', 400,
        "hemisphere",
    ),
    "deep": ("/within", b"[" * 2_000 + b"]" * 2_000, 400, ""),
    "deep features": ("/within", b'{"type":"Feature","geometry":' * 5_000 + b"null" + b"}" * 5_000, 400, "JSON"),
    "a box of three": ("/box", b'{"boxes":[[1,2,3]]}', 400, "boxes row 0"),
    "places": ("/box", b'{"positions":[[1,2]]}', 400, "boxes are missing"),
    "upside down": ("/box", b'{"boxes":[[1,2,3,4],[1,4,3,2]]}', 400, "box 1 is [1.0, 4.0, 3.0, 2.0]"),
    "Arrow": ("/box", stream_of(table=__import__("pyarrow").table({"lon": [1.0]})), 415, "as JSON"),
    "count and having": ("/box?count=1&having=speed%3C3", b'{"boxes":[]}', 400, "use where"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_one_sentence(index, scene_of_wrong, name):
    path, body, status, said = WRONG[name]
    kind = ARROW if name == "Arrow" else JSON
    found, headers, answer = scene_of_wrong.raw(path, "POST", body, content_type=kind)
    problem = json.loads(answer)
    assert (found, headers["content-type"]) == (status, "application/problem+json"), problem
    assert said in problem["detail"]
    assert "\n" not in problem["detail"]


@pytest.fixture(scope="module")
def scene_of_wrong(index):
    with running(index) as server, Asker(server) as asker:
        yield asker


def test_limits_name_what_was_asked_and_what_may_be(index):
    with running(index, limits=Limits(hits=500, corners=30, bulk_queries=3)) as server, Asker(server) as asker:

        def problem(path, shape):
            status, _, answer = asker.raw(path, "POST", json.dumps(shape).encode())
            told = json.loads(answer)
            return status, told.get("limit"), told.get("value"), told.get("bound")

        assert problem("/box", {"boxes": [[0, 0, 1, 1]] * 4}) == (413, "bulk_queries", 4, 3)
        box = [9.96, 49.96, 10.04, 50.04]
        held = int(index.count_box(box)[0])
        assert 500 < held < 2_000
        assert problem("/box", {"boxes": [box]}) == (413, "hits", held, 500)
        assert problem("/box?count=1", {"boxes": [box]})[0] == 200
        status, limit, value, bound = problem("/box", {"boxes": [[5, 45, 15, 55]]})
        assert (status, limit, bound) == (413, "hits", 500)
        assert value > 2_000
        assert problem("/within", {"type": "Polygon", "coordinates": [ring_of(index, 31)]}) == (413, "corners", 31, 30)
        assert problem("/within", {"type": "Polygon", "coordinates": [ring_of(index, 30, 0, 0.1)]})[0] == 200
        many = {"type": "MultiPolygon", "coordinates": [[ring_of(index, 3)]] * 11}
        assert problem("/within", many) == (413, "corners", 33, 30)
        long = {"type": "Feature", "properties": {"name": "x" * 12_000}, "geometry": None}
        assert problem("/within", long) == (413, "corners", None, 30)  # what can be done about it


def test_long_straight_edges_are_bounded_before_memory_is_taken_for_them(index):
    """Each of thousands of kilometres is thousands of arcs; the arcs themselves are as long as they like."""
    ring = np.random.default_rng(0).normal([10, 50], 12.0, (60, 2)).clip([-80, 0], [100, 89]).tolist()
    shape = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    with running(index, limits=Limits(corners=90)) as server, Asker(server) as asker:
        status, _, said = asker.raw("/within", "POST", json.dumps(shape))
        told = json.loads(said)
        assert (status, told["limit"], told["bound"]) == (413, "corners", 9_000)
        assert 9_000 < told["value"] < 90_000
        assert '"edges": "spherical"' in told["detail"]
        assert asker.raw("/within", "POST", json.dumps(shape | {"edges": "spherical"}))[0] == 200


def test_so_many_arcs_are_made_as_were_counted(index):
    """Of the rings of all parts of a shape."""
    rings = [ring_of(index, 9, seed, 200.0) for seed in range(2)]
    shape = {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}
    made = sum(len(part.corners) for part in as_polygons(shape, index.space))
    assert made > 1_000
    assert arcs_meant(shape, index.space) == made
    assert arcs_meant(shape | {"edges": "spherical"}, index.space) == 0
