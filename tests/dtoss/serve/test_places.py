"""Questions about one place over HTTP: as in process, on the short way and by way of the framework."""

import json
import socket
from urllib.parse import unquote_plus

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtoss.kinds.alone import Alone
from dtoss.plain_numbers import is_number
from dtoss.serve.core.server_settings import Limits
from tests.dtoss.serve.served import (
    NAME,
    OBJECTS,
    WAIT,
    Asker,
    Doors,
    object_path,
    pairs,
    running,
    talk,
    target,
    town,
    turn,
)
from tests.examples import examples

KINDS = {"sphere": ("sphere", False), "texts": ("sphere", True), "plane": ("plane", False)}
NAMES = {"sphere": ("lon", "lat"), "plane": ("x", "y")}
REQUESTS = examples(2_000, 250)


@pytest.fixture(scope="module", params=KINDS)
def both(request):
    """The same index behind both ways."""
    kind, strings = KINDS[request.param]
    index = town(kind, strings=strings)
    with running(index) as hot, running(index, hot=False) as cold, Asker(hot) as one, Asker(cold) as other:
        yield index, (hot, one), (cold, other)


@pytest.fixture(scope="module")
def sphere():
    with running(town()) as server:
        yield server


def at(index, x, y):
    first, second = NAMES[index.space.metric]
    return {first: repr(float(x)), second: repr(float(y))}


def places(index, count, seed=0):
    """Places of objects, near them, and far from all."""
    rng = np.random.default_rng(seed)
    held = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    chosen = held[rng.integers(0, len(held), count)]
    width = 0.01 if index.space.geographic else 5.0
    chosen[::3] += rng.normal(0, width, chosen[::3].shape)
    if index.space.geographic:
        chosen[::50] = rng.uniform([-180, -90], [180, 90], chosen[::50].shape)
    return chosen.tolist()


def test_the_k_nearest_of_many_places_are_those_of_the_index(both):
    """Bit for bit, on both ways, for k on and between the sizes that are asked together."""
    index, *ways = both
    rng = np.random.default_rng(1)
    for number, (x, y) in enumerate(places(index, REQUESTS)):
        k = int(rng.choice([1, 2, 8, 9, 32, 33, 64, 65, 500], p=[0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.06, 0.02, 0.02]))
        far = None if number % 3 else repr(float(rng.choice([0.0, 300.0, 5e3])))
        hits = index.knn((x, y), k, max_distance=None if far is None else float(far))
        wanted = list(zip(hits.id.tolist(), hits.distance.tolist(), strict=True))
        for _, asker in ways[number % 2 :: 2] if number > 200 else ways:
            answer = asker.get("/knn", **at(index, x, y), k=k, max_distance=far)
            assert answer["snapshot"] == NAME
            assert pairs(answer) == wanted


def test_all_within_a_radius_of_many_places_are_those_of_the_index(both):
    """Small answers and large ones."""
    index, *ways = both
    rng = np.random.default_rng(2)
    for number, (x, y) in enumerate(places(index, REQUESTS, 3)):
        radius = float(rng.choice([0.0, 1.0, 40.0, 200.0, 700.0, 20e6], p=[0.1, 0.2, 0.3, 0.3, 0.095, 0.005]))
        hits = index.range((x, y), radius)
        for _, asker in ways[number % 2 :: 2] if number > 200 else ways:
            assert pairs(asker.get("/range", **at(index, x, y), radius=repr(radius))) == list(
                zip(hits.id.tolist(), hits.distance.tolist(), strict=True)
            )


def test_frequent_questions_take_the_short_way_and_all_others_do_not(both):
    """The metrics say by which way an answer came, and the access log has each once."""
    index, (hot, one), (cold, other) = both
    (x, y), place = places(index, 1)[0], None
    place = at(index, x, y)
    for server, asker in ((hot, one), (cold, other)):
        turn(server)
        for held in (server.heard.hot_answers, server.heard.answers, server.heard.accesses):
            held.clear()
        asker.get("/knn", **place)
        asker.get("/range", **place, radius=1)
        asker.get(object_path(index.knn((x, y), 1).id[0]))
        asker.get("/knn", **place, k=65)
        asker.get("/knn", **place, columns="speed")
        turn(server)
        assert [row[2] for row in server.heard.accesses if row[2] == row[2]] == [8, 65, 8]
        assert len(server.heard.accesses) == 5
    assert sorted(hot.heard.hot_answers) == [0, 1, 2]
    assert [route for route, _ in hot.heard.answers] == ["/knn", "/knn"]
    for count in (2, 9, 63, 64):
        hot.heard.hot_answers.clear()
        radius = float(index.knn((x, y), 65).distance[count - 1])
        hits = one.get("/range", **place, radius=repr(radius))["hits"]
        turn(hot)
        assert hot.heard.hot_answers == [1] * (len(hits) < 64), f"{len(hits)} hits"
    assert cold.heard.hot_answers == []
    assert len(cold.heard.answers) == 5


def test_conditions_and_attributes(both):
    """A condition answers by the pool first and is gathered afterwards; attributes come as JSON knows them."""
    index, *ways = both
    texts = ["speed < 3", "speed >= 10 and free", "name like '%9%'"] * 13
    for (x, y), where in zip(places(index, 39, 5), texts, strict=True):
        wanted = index.knn((x, y), 5, where=where)
        for _, asker in ways:
            assert pairs(asker.get("/knn", **at(index, x, y), k=5, where=where)) == list(
                zip(wanted.id.tolist(), wanted.distance.tolist(), strict=True)
            )
            ranged = index.range((x, y), 300.0, where=where, having="speed > 1")
            answer = asker.get("/range", **at(index, x, y), radius=300, where=where, having="speed > 1")
            assert [hit["id"] for hit in answer["hits"]] == ranged.id.tolist()
            assert (
                asker.get("/count", **at(index, x, y), radius=300, where=where)["count"]
                == index.count((x, y), 300.0, where=where).tolist()[0]
            )
    names = index.column_names
    for (x, y), (_, asker) in zip(places(index, 30, 6), ways * 15, strict=True):
        for hit in asker.get("/knn", **at(index, x, y), columns=",".join(names))["hits"]:
            known = index[hit["id"]]
            assert hit["speed"] == known["speed"]
            assert hit["share"] == (None if known["share"] != known["share"] else known["share"])
            assert hit["name"] == known["name"]
            assert hit["free"] is known["free"]
            assert hit["seen"] == known["seen"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_what_a_place_belongs_to(both):
    """The object whose cell holds it, and those that are nearer to it than to any other object."""
    index, *ways = both
    for number, (x, y) in enumerate(places(index, 100, 7)):
        _, asker = ways[number % 2]
        assert asker.get("/locate", **at(index, x, y))["id"] == index.locate((x, y)).tolist()[0]
        hits = index.reverse_nearest((x, y))
        assert pairs(asker.get("/reverse_nearest", **at(index, x, y))) == list(
            zip(hits.id.tolist(), hits.distance.tolist(), strict=True)
        )


def test_objects(both):
    """An object with its neighbours and its cell; one that is not there is 404."""
    index, *ways = both
    for number, object_id in enumerate(list(index)[:: len(index) // 60]):
        _, asker = ways[number % 2]
        answer = asker.get(object_path(object_id))
        known = index[object_id]
        first, second = NAMES[index.space.metric]
        assert (answer["id"], answer[first], answer[second]) == (object_id, known[first], known[second])
        assert answer["attributes"]["speed"] == known["speed"]
        assert answer["neighbours"] == index.neighbours(object_id).tolist()
        more = asker.get(object_path(object_id), cell="1", neighbours="0")
        assert "neighbours" not in more
        assert more["cell"]["coordinates"][0][:-1] == index.cell(object_id).tolist()
        assert more["cell"]["coordinates"][0][0] == more["cell"]["coordinates"][0][-1]
        assert more["area"] == index.area(object_id)
    for _, asker in ways:
        for missing in ("-77", "none", "9" * 30, "1.0", "a/b"):
            status, _, body = asker.raw(object_path(missing))
            assert (status, json.loads(body)["status"]) == (404, 404)


def test_ids_as_text(both):
    """For readers that lose digits of large numbers."""
    index, *ways = both
    (x, y) = places(index, 1, 8)[0]
    for _, asker in ways:
        plain = asker.get("/knn", **at(index, x, y))
        text = asker.get("/knn", **at(index, x, y), ids="string")
        assert [hit["id"] for hit in text["hits"]] == [str(hit["id"]) for hit in plain["hits"]]
        some = plain["hits"][0]["id"]
        assert asker.get(object_path(some), ids="string")["id"] == str(some)
        assert asker.get("/locate", **at(index, x, y), ids="string")["id"] == str(some)


def test_pages_are_the_whole_in_order(both):
    """Of one snapshot, without a hit twice or none; a cursor of another question or none of ours is refused."""
    index, *ways = both
    x, y = places(index, 2, 9)[1]
    radius = 2_000.0 if index.space.geographic else 60.0
    wanted = index.range((x, y), radius)
    assert len(wanted) > 40
    for _, asker in ways:
        found, cursor = [], None
        while True:
            answer = asker.get("/range", **at(index, x, y), radius=radius, limit=17, cursor=cursor)
            found += pairs(answer)
            cursor = answer.get("next")
            if cursor is None:
                break
            assert len(answer["hits"]) == 17
        assert found == list(zip(wanted.id.tolist(), wanted.distance.tolist(), strict=True))
        first = asker.get("/range", **at(index, x, y), radius=radius, limit=17)["next"]
        for wrong in (
            target("/range", **at(index, x, y), radius=radius + 1, limit=17, cursor=first),
            target("/range", **at(index, x, y), radius=radius, cursor=first),
            target("/range", **at(index, x, y), radius=radius, limit=17, cursor="WzFd"),
            target("/range", **at(index, x, y), radius=radius, limit=17, cursor="%00"),
        ):
            assert asker.raw(wrong)[0] == 400


def test_two_conditions_of_a_page_are_each_read_by_itself(sphere):
    """What is no condition is none in brackets either; a comment ends with its condition; an empty one is none."""
    index, question = sphere.index, {"lon": 10.0, "lat": 50.0, "radius": 9_000, "limit": OBJECTS}
    with Asker(sphere) as asker:
        for where, having in (
            ("speed < 20", "speed > 3 or free"),
            ("speed < 20 or free", "speed > 40"),
            ("speed < 20 -- slow", "speed > 3"),
            ("", "speed > 3"),
            ("speed < 20", ""),
        ):
            wanted = index.range((10.0, 50.0), 9_000.0, where=where or None, having=having or None)
            assert 0 < len(wanted) < OBJECTS
            answer = asker.get("/range", **question, where=where, having=having)
            assert [hit["id"] for hit in answer["hits"]] == wanted.id.tolist()
        for where, having in (("speed < 3) or (free", "speed > 3"), ("speed > 3", "free) or (speed < 3")):
            status, _, body = asker.raw(target("/range", **question, where=where, having=having))
            assert (status, json.loads(body)["status"]) == (400, 400)
        for path in ("/knn", "/count"):
            place = {"lon": 10.0, "lat": 50.0} | ({"radius": 900} if path == "/count" else {"columns": "speed"})
            assert asker.get(path, **place, where="") == asker.get(path, **place)


def test_a_cursor_goes_with_no_other_snapshot(sphere):
    """A page of another snapshot than the one before would be another answer."""
    question = {"lon": 10.0, "lat": 50.0, "radius": 9_000, "limit": 5}
    with Asker(sphere) as asker:
        cursor = asker.get("/range", **question)["next"]
        assert asker.get("/range", **question, cursor=cursor, snapshot=NAME)["hits"]
        assert asker.raw(target("/range", **question, cursor=cursor, snapshot="other"))[0] == 400


def test_a_page_of_a_snapshot_that_is_gone_is_gone():
    """The last two are open; a cursor and a pin of an earlier one are 410, never another answer."""
    from tests.dtoss.serve.served import served_of

    with running(town(seed=0)) as server, Asker(server) as asker:
        question = {"lon": 10.0, "lat": 50.0, "radius": 3_000, "limit": 5}
        page = asker.get("/range", **question)
        second = asker.get("/range", **question, cursor=page["next"])
        for seed in (1, 2):
            later = served_of(town(seed=seed), f"2026010{seed + 1}T000000.000000Z")
            server.loop.call_soon_threadsafe(server.serving.replace, later)
            turn(server)
            if seed == 1:
                assert asker.get("/range", **question, cursor=page["next"]) == second
                assert asker.get("/knn", lon=10, lat=50, snapshot=NAME)["snapshot"] == NAME
                assert asker.get("/knn", lon=10, lat=50)["snapshot"] == later.name
        for gone in ({"cursor": page["next"]}, {"snapshot": NAME}):
            status, _, body = asker.raw(target("/range", **question, **gone))
            assert status == 410
            assert json.loads(body)["value"] == NAME


# -- both ways alike -------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(-200, 200).map(repr),
    st.integers(-10, 100).map(str),
    st.text("0123456789.-", max_size=8),
    st.sampled_from(
        ["", "nan", "inf", "-inf", "1_0", "1e1", "+1", " 1", "1 ", "0x1", "1.", ".5", "-.5", "-0", "00", "007", "--1",
         "1e400", "9" * 400, "-0.0", "1.0000000000000000000000001", "%31", "1,0", "\u0661", "true"]
    ),
)  # fmt: skip
EXTRA = st.sampled_from(
    [(), ("where", "speed < 5"), ("where", ""), ("where", "speed <"), ("where", "x" * 1_001), ("where", "speed<5&k=3"),
     ("columns", ""), ("columns", "speed"), ("columns", "nothing"), ("ids", "string"), ("ids", "other"),
     ("limit", "2"), ("unknown", "1"), ("snapshot", NAME), ("snapshot", "other"), ("cursor", "a"), ("k", "3")]
)  # fmt: skip


@settings(max_examples=examples(1_500, 150))
@given(path=st.sampled_from(["/knn", "/range", "/count"]), x=NUMBERS, y=NUMBERS, k=st.none() | NUMBERS,
       radius=st.none() | NUMBERS, extra=EXTRA, encode=st.booleans())  # fmt: skip
def test_both_ways_answer_alike_byte_for_byte(both, path, x, y, k, radius, extra, encode):
    """Whatever is asked: status, headers (but the date) and body; never a 5xx."""
    index, (_, one), (_, other) = both
    first, second = NAMES[index.space.metric]
    given = [(first, x), (second, y)]
    given += [] if k is None else [("k", k)]
    given += [] if radius is None else [("radius" if path != "/knn" else "max_distance", radius)]
    given += [extra] if extra else []
    from urllib.parse import quote

    query = "&".join(f"{n}={quote(v)}" if encode else f"{n}={quote(v, safe='<>&=%+,')}" for n, v in given)
    asked = f"{path}?{query}".replace(" ", "+")
    hot, cold = one.raw(asked, X_Request_Id="same"), other.raw(asked, X_Request_Id="same")
    for _, headers, _ in (hot, cold):
        headers.pop("date")
    assert hot == cold
    assert list(hot[1]) == list(cold[1])
    assert hot[0] in (200, 400, 410)
    assert hot[1]["x-request-id"] == "same"
    if hot[0] != 200:
        problem = json.loads(hot[2])
        assert hot[1]["content-type"] == "application/problem+json"
        assert problem["status"] == hot[0]
        assert problem["request_id"] == "same"


def test_numbers_are_written_as_on_the_command_line(both):
    """By one rule, whichever way a question takes."""
    index, *ways = both
    first, second = NAMES[index.space.metric]
    for _, asker in ways:
        for said, plain in (
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("5.", "5.0"),
            ("1e1", "10.0"),
            ("%2B5", "5.0"),
            ("05", "5"),
        ):
            assert is_number(unquote_plus(said))
            found = [asker.raw(f"/knn?{first}={text}&{second}=1&k=3") for text in (said, plain)]
            assert (found[0][0], found[0][2]) == (200, found[1][2])
        for said in ("1_0", "+1", "%201", "%D9%A1", "0x1", "", "1e", "1,0", "."):
            assert not is_number(unquote_plus(said))
            assert asker.raw(f"/knn?{first}={said}&{second}=1")[0] == 400
            assert asker.raw(f"/knn?{first}=1&{second}=1&k={said}")[0] == 400


def test_an_answer_says_what_it_is(both):
    """Snapshot, tag, request id; a client that has it already gets none, on both ways."""
    index, *ways = both
    (x, y) = places(index, 1, 8)[0]
    asked = target("/knn", **at(index, x, y))
    tags = set()
    for _, asker in ways:
        status, headers, body = asker.raw(asked)
        assert (status, headers["x-dtoss-snapshot"], headers["cache-control"]) == (200, NAME, "no-cache")
        assert len(body) == int(headers["content-length"])
        tags.add(headers["etag"])
        for known in (headers["etag"], "*", f'"other", W/{headers["etag"]}'):
            status, again, body = asker.raw(asked, If_None_Match=known)
            assert (status, body, again["etag"]) == (304, b"", headers["etag"])
        assert asker.raw(asked, If_None_Match='"other"')[0] == 200
        assert asker.raw(asked + "0", If_None_Match=headers["etag"])[0] == 200
        ids = {asker.raw(asked)[1]["x-request-id"] for _ in range(5)}
        assert len(ids) == 5
        for bad in ("a b", "x" * 65, "<a>"):
            assert asker.raw(asked, X_Request_Id=bad)[1]["x-request-id"] != bad
    assert len(tags) == 1


def test_limits_name_limit_value_and_bound(sphere):
    """And say it of each parameter that is wrong."""
    with Asker(sphere) as asker:
        for asked, limit, value, bound in (
            (target("/knn", lon=0, lat=0, k=1_001), "k", "1001", 1000.0),
            (target("/knn", lon=181, lat=0), "lon", "181", 180.0),
            (target("/knn", lon=0, lat="nan"), "lat", "nan", -90.0),
            (target("/range", lon=0, lat=0, radius=-1), "radius", "-1", 0.0),
            (target("/range", lon=0, lat=0, radius=1, limit=0), "limit", "0", 1.0),
            (target("/knn", lon=0, lat=0, where="a" * 1_001), "where", 1_001, 1_000),
        ):
            status, _, body = asker.raw(asked)
            told = json.loads(body)
            assert (status, told["limit"], told["value"], told["bound"]) == (400, limit, value, bound), told
        _, _, body = asker.raw(target("/knn", lon=999, lat=99))
        assert "lon is '999'" in json.loads(body)["detail"]
        assert "lat is '99'" in json.loads(body)["detail"]
        status, _, body = asker.raw(target("/knn", lon=0, lat=0, where="a" * 9_000))
        assert (status, json.loads(body)["limit"]) == (414, "line_bytes")
        assert asker.raw("/nothing")[0] == 404
        status, headers, _ = asker.raw("/locate?lon=1&lat=1", method="PUT")
        assert (status, "GET" in headers["allow"]) == (405, True)


def test_more_hits_than_an_answer_may_have_are_counted_and_refused():
    """Pages of them can be had, up to the same bound."""
    with running(town(objects=500), limits=Limits(hits=100)) as server, Asker(server) as asker:
        status, _, body = asker.raw(target("/range", lon=10, lat=50, radius=1e7))
        told = json.loads(body)
        assert (status, told["limit"], told["value"], told["bound"]) == (413, "hits", 500, 100)
        page = asker.get("/range", lon=10, lat=50, radius=1e7, limit=90)
        assert len(page["hits"]) == 90
        assert asker.raw(target("/range", lon=10, lat=50, radius=1e7, limit=90, cursor=page["next"]))[0] == 413


def test_a_token_is_asked_for_on_both_ways():
    """But not for whether the server lives."""
    for hot in (True, False):
        with running(town(objects=50), hot=hot, doors=Doors("secret")) as server, Asker(server) as asker:
            for path in ("/knn?lon=0&lat=0", "/objects/1", "/count?lon=0&lat=0&radius=1", "/snapshot", "/metrics"):
                assert asker.raw(path)[0] == 401
                assert asker.raw(path, Authorization="Bearer wrong")[0] == 401
                assert asker.raw(path, Authorization="Bearer secret")[0] == 200
            assert asker.raw("/healthz")[0] == asker.raw("/readyz")[0] == 200


def test_pages_of_other_origins_are_told_what_they_may(sphere):
    """A request with an origin gets the same answer and the headers that its browser asks for."""
    with running(town(objects=50), doors=Doors(origins=("https://a.example",))) as server, Asker(server) as asker:
        asked = "/knn?lon=0&lat=0"
        assert asker.raw(asked, Origin="https://a.example")[1]["access-control-allow-origin"] == "https://a.example"
        assert "access-control-allow-origin" not in asker.raw(asked, Origin="https://b.example")[1]
        status, headers, _ = asker.raw(
            asked, "OPTIONS", Origin="https://a.example", Access_Control_Request_Method="GET"
        )
        assert (status, headers["access-control-allow-origin"]) == (204, "https://a.example")


def test_readiness(sphere):
    """Too old a snapshot is not ready, and says why; a refused one is told of, without a path to strangers."""
    with running(town(objects=50), max_age=3600.0) as server, Asker(server) as asker:
        assert asker.get("/readyz")["snapshot"] == NAME
        server.serving.refused = "/data/borders-1.arrow is damaged"
        assert "data" not in asker.get("/readyz")["refused"]
        assert asker.get("/snapshot")["refused"] == "/data/borders-1.arrow is damaged"
        object.__setattr__(server.serving.now, "made", 0.0)
        status, headers, body = asker.raw("/readyz")
        assert (status, headers["retry-after"]) == (503, "1")
        assert "a newer snapshot is not served: GET /snapshot says why" in json.loads(body)["detail"]
        assert asker.get("/healthz") == {"alive": True}
        assert asker.get("/snapshot")["objects"] == 50


# -- connections -----------------------------------------------------------------------------------------------------


def get(path, *headers):
    """Return the bytes of a request."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


def test_requests_that_come_at_once_on_one_connection_are_answered_in_their_order(sphere):
    """Frequent ones and others mixed, whatever takes longer."""
    paths = [f"/knn?lon=10&lat=50&k={k}" + ("&columns=speed" if k % 2 else "") for k in range(1, 30)]
    found = talk(sphere, b"".join(map(get, paths)), len(paths), close=False)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in found.split(b"HTTP/1.1 ")[1:]]
    assert [len(json.loads(body)["hits"]) for body in bodies] == list(range(1, 30))


def test_requests_of_a_moment_share_a_call_and_each_gets_its_own(sphere):
    """From many connections: the sizes of the calls add up to the number of requests."""
    from concurrent.futures import ThreadPoolExecutor

    sphere.heard.turns.clear()
    index = sphere.index

    def one(seed):
        rng = np.random.default_rng(seed)
        with Asker(sphere) as asker:
            for x, y in places(index, 40, seed):
                k = int(rng.integers(1, 65))
                hits = index.knn((x, y), k)
                assert pairs(asker.get("/knn", lon=repr(x), lat=repr(y), k=k)) == list(
                    zip(hits.id.tolist(), hits.distance.tolist(), strict=True)
                )

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, range(20)))
    assert sum(sphere.heard.turns) == 800
    assert max(sphere.heard.turns) > 1


def test_unusual_requests_get_the_usual_answer(sphere):
    """With a body, an Expect, another method's name, an old version, an absolute target, a closing connection."""
    asked = "/knn?lon=10&lat=50&k=3"
    usual = talk(sphere, get(asked, "X-Request-Id: a"), 1).partition(b"\r\n\r\n")[2]
    for data in (
        get(asked, "Content-Length: 5") + b"hello",
        get(asked, "Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n",
        get(asked, "Connection: close"),
        get(asked).replace(b"HTTP/1.1", b"HTTP/1.0"),
        get(asked, "Accept: */*", "Upgrade: h2c", "Connection: Upgrade"),
        get(asked, *(f"X-{n}: {n}" for n in range(40))),
    ):
        assert talk(sphere, data, 1, close=False).partition(b"\r\n\r\n")[2] == usual, data
    waited = talk(sphere, get(asked, "Content-Length: 5", "Expect: 100-continue") + b"hello", 1, close=False)
    assert waited.endswith(usual)
    for data in (b"nonsense\r\n\r\n", b"GET /knn\r\n\r\n", get("/knn?lon=10&lat=50 x")):
        assert talk(sphere, data, 1).startswith(b"HTTP/1.1 400")


def test_one_who_reads_nothing_holds_up_nobody(sphere):
    """Answers that he does not take stay few; others are answered."""
    with socket.create_connection(sphere.at, timeout=WAIT) as silent, Asker(sphere) as asker:
        silent.setblocking(False)
        sent = get("/knn?lon=10&lat=50&k=64") * 400
        for _ in range(40):
            try:
                silent.send(sent)
            except BlockingIOError:
                break
        for _ in range(50):
            assert len(asker.get("/knn", lon=10, lat=50)["hits"]) == 8


def test_a_question_on_the_short_way_that_fails_is_asked_on_the_long_one(sphere, monkeypatch):
    """Where a kernel's call breaks for a group, each is answered by itself."""
    from dtoss.serve.requests import hot_requests

    def broken(*_):
        raise RuntimeError("no")

    with Asker(sphere) as asker:
        usual = asker.raw("/knn?lon=10&lat=50", X_Request_Id="a")
        monkeypatch.setattr(hot_requests, "hot_bodies", broken)
        assert asker.raw("/knn?lon=10&lat=50", X_Request_Id="a")[2] == usual[2]
        assert sphere.heard.events[-1][0] == "gathering failed"


def test_what_fails_after_an_answer_makes_no_second_one(sphere, monkeypatch):
    """A log that cannot take a request, say: the connection goes on, answer by answer."""

    def broken(*_):
        raise RuntimeError("no")

    paths = [f"/knn?lon=10&lat=50&k={k}" for k in range(1, 6)]
    with Asker(sphere) as asker:
        monkeypatch.setattr(sphere.heard, "many", broken)
        for path in paths:
            assert len(json.loads(asker.raw(path)[2])["hits"]) == int(path[-1])
        turn(sphere)
        assert sphere.heard.events[-1][0] == "gathering failed"
        monkeypatch.undo()
        assert len(asker.get("/knn", lon=10, lat=50, k=7)["hits"]) == 7


def test_a_failure_inside_is_told_without_its_trace(sphere, monkeypatch):
    """The log has it, under the id that the answer carries."""
    monkeypatch.setattr(Alone, "answer", lambda *_: 1 / 0)
    with Asker(sphere) as asker:
        status, headers, body = asker.raw("/locate?lon=1&lat=1")
        assert status == 500
        assert b"ZeroDivisionError" not in body
        turn(sphere)
        logged = sphere.heard.requests[-1]
        assert logged["id"] == headers["x-request-id"]
        assert "ZeroDivisionError" in logged["detail"]


def test_the_text_of_what_can_be_asked(sphere):
    """OpenAPI 3.1, valid, with bounds of parameters, and all routes."""
    from openapi_spec_validator import OpenAPIV31SpecValidator

    with Asker(sphere) as asker:
        text = asker.get("/openapi.json")
    assert text["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(text).validate()
    knn = {one["name"]: one for one in text["paths"]["/knn"]["get"]["parameters"]}
    assert set(knn) == {"lon", "lat", "k", "max_distance", "where", "having", "columns", "ids", "snapshot"}
    assert (knn["lon"]["schema"]["minimum"], knn["lon"]["schema"]["maximum"]) == (-180, 180)
    assert (knn["k"]["schema"]["maximum"], knn["k"]["schema"]["default"]) == (1000, 8)
    assert {"/knn", "/range", "/count", "/locate", "/reverse_nearest", "/objects/{object_id}", "/snapshot", "/healthz",
            "/readyz", "/metrics", "/openapi.json"} <= set(text["paths"])  # fmt: skip
    said = {path: one for path, methods in text["paths"].items() for one in methods.values()}
    assert said["/count"]["summary"] == "How many objects lie within a radius of each place"
    assert all(10 < len(one["summary"]) < 140 and one["summary"][0].isupper() for one in said.values())
    groups = {path: one["tags"] for path, one in said.items()}
    assert (groups["/knn"], groups["/map"], groups["/metrics"]) == (["Questions"], ["The map"], ["Care"])
