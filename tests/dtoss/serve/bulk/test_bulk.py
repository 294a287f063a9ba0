"""Questions about many places over HTTP: as in process, bit for bit; limits; clients that are slow, or go away."""

import json
import re
import socket
import struct
import threading
import time
from contextlib import ExitStack, nullcontext

import numpy as np
import pyarrow as pa
import pytest

from dtoss.hits import Hits
from dtoss.serve.core.server_settings import Limits, Sizes
from tests.dtoss.serve.bulk.streams import ARROW, places_of, stream_of, table_in
from tests.dtoss.serve.served import NAME, WAIT, Asker, running, target, town, turn, until
from tests.examples import examples

KINDS = {"sphere": ("sphere", False), "texts": ("sphere", True), "plane": ("plane", False)}
JSON = "application/json"
COLUMNS = ["speed", "share", "name", "seen", "free"]
QUERIES = examples(2_000, 800)


@pytest.fixture(scope="module", params=KINDS)
def scene(request):
    kind, strings = KINDS[request.param]
    index = town(kind, strings=strings)
    with running(index) as server, Asker(server) as asker:
        yield index, server, asker


@pytest.fixture(scope="module")
def index():
    return town()


def places(index, count, seed=0):
    """Places of objects, near them, and far from all; some twice."""
    rng = np.random.default_rng(seed)
    held = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    chosen = held[rng.integers(0, len(held), count)]
    width = 0.01 if index.space.geographic else 5.0
    chosen[::3] += rng.normal(0, width, chosen[::3].shape)
    if index.space.geographic:
        chosen[::50] = rng.uniform([-180, -90], [180, 90], chosen[::50].shape)
    return chosen


def body_of(index, positions, arrow, radius=None):
    if not arrow:
        more = {} if radius is None else {"radius": np.asarray(radius).tolist()}
        return json.dumps({"positions": positions.tolist()} | more).encode()
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    return stream_of(places_of(positions, names, **({} if radius is None else {"radius": radius})), 700)


def post(asker, path, body, kind=JSON, wanted=JSON):
    """Return the headers and bytes of a good answer."""
    status, headers, answer = asker.raw(path, "POST", body, content_type=kind, accept=wanted)
    assert status == 200, answer
    assert headers["content-type"] == wanted
    assert headers["x-dtoss-snapshot"] == NAME
    assert "etag" not in headers
    return headers, answer


def hits_in(answer, queries):
    """Return the hits in a stream."""
    table = table_in(answer)
    assert table.schema.metadata[b"snapshot"] == NAME.encode()
    every = int(table.schema.metadata.get(b"every", 0))
    query = np.repeat(np.arange(queries), every) if every else table["query"].to_numpy()
    assert every == 0 or "query" not in table.column_names
    ids = table["id"].combine_chunks()
    assert ids.type in (pa.int64(), pa.large_string())
    ids = ids.to_numpy(zero_copy_only=False)
    columns = {n: table[n].combine_chunks() for n in table.column_names if n not in ("query", "id", "distance")}
    return Hits(query, ids, table["distance"].to_numpy(), columns)


def same(found, hits):
    """Whether hits are the same bit for bit, with their attributes and the types of these."""
    assert found.query.tolist() == hits.query.tolist()
    assert found.id.tolist() == hits.id.tolist()
    assert found.distance.tobytes() == hits.distance.tobytes()
    assert list(found.columns) == list(hits.columns)
    for name, column in hits.columns.items():
        assert found.columns[name].type == column.type
        assert repr(found.columns[name].to_pylist()) == repr(column.to_pylist())  # NaN is like itself there


def rows(hits):
    return list(zip(hits.query.tolist(), hits.id.tolist(), hits.distance.tolist(), strict=True))


def json_rows(answer):
    read = json.loads(answer)
    assert read["snapshot"] == NAME
    return [(hit["query"], hit["id"], hit["distance"]) for hit in read["hits"]]


def asked_all_ways(index, asker, path, positions, wanted, radius=None):
    """Ask in JSON and in Arrow, and hold the answers in both against the hits that are wanted."""
    for arrow in (False, True):
        body, kind = body_of(index, positions, arrow, radius), ARROW if arrow else JSON
        same(hits_in(post(asker, path, body, kind, ARROW)[1], len(positions)), wanted)
        bare = Hits(wanted.query, wanted.id, wanted.distance, {})
        assert json_rows(post(asker, path, body, kind, JSON)[1]) == rows(bare)


@pytest.mark.parametrize("k", [1, 8, 100])
def test_the_k_nearest_are_those_of_the_index(scene, k):
    index, _, asker = scene
    positions = places(index, QUERIES)
    asked_all_ways(index, asker, f"/knn?k={k}", positions, index.knn(positions, k))


@pytest.mark.parametrize(
    "question",
    [
        {"max_distance": 400.0},
        {"where": "speed < 20", "columns": ",".join(COLUMNS)},
        {"where": "free = true and name like '%7%'", "max_distance": 900.0},
        {"having": "speed < 20", "columns": "share,name"},
        {"having": "speed > 1000", "columns": "seen"},
        {"where": "speed > 1000"},
    ],
)
def test_conditions_and_attributes_mean_what_they_mean_to_the_index(scene, question):
    """``every`` is only told where every query has so many."""
    index, _, asker = scene
    positions = places(index, 300)
    given = question | {"columns": question.get("columns", "").split(",") if question.get("columns") else ()}
    hits = index.knn(positions, 5, **given)
    asked_all_ways(index, asker, target("/knn", k=5, **question), positions, hits)
    _, answer = post(asker, target("/knn", k=5, **question), body_of(index, positions, True), ARROW, ARROW)
    full = bool((np.bincount(hits.query, minlength=300) == 5).all()) and "having" not in question
    assert (table_in(answer).schema.metadata.get(b"every") == b"5") == full


def test_a_range_has_one_radius_or_one_for_each(scene):
    index, _, asker = scene
    positions = places(index, QUERIES)
    unit = 1.0 if index.space.geographic else 0.01
    asked_all_ways(index, asker, f"/range?radius={300 * unit!r}", positions, index.range(positions, 300 * unit))
    radii = np.random.default_rng(3).uniform(0, 500, QUERIES) * unit
    asked_all_ways(index, asker, "/range", positions, index.range(positions, radii), radii)
    hits = index.range(positions[:200], 900 * unit, where="speed < 9", columns=["name", "free"])
    path = target("/range", radius=900 * unit, where="speed < 9", columns="name,free")
    asked_all_ways(index, asker, path, positions[:200], hits)
    hits = index.range(positions[:200], 900 * unit, having="speed < 9")
    asked_all_ways(index, asker, target("/range", radius=900 * unit, having="speed < 9"), positions[:200], hits)


def test_counts_and_the_nearest_by_itself(scene):
    index, _, asker = scene
    positions = places(index, QUERIES)
    radii = np.random.default_rng(4).uniform(0, 3_000, QUERIES)
    for arrow in (False, True):
        kind = ARROW if arrow else JSON
        with_radii, without = body_of(index, positions, arrow, radii), body_of(index, positions, arrow)
        for where in (None, "speed < 20"):
            wanted = index.count(positions, radii, where=where).tolist()
            path = target("/count", where=where)
            assert json.loads(post(asker, path, with_radii, kind)[1]) == {"snapshot": NAME, "counts": wanted}
            assert table_in(post(asker, path, with_radii, kind, ARROW)[1])["count"].to_pylist() == wanted
        wanted = index.locate(positions).tolist()
        assert json.loads(post(asker, "/locate", without, kind)[1]) == {"snapshot": NAME, "ids": wanted}
        assert json.loads(post(asker, "/locate?ids=string", without, kind)[1])["ids"] == list(map(str, wanted))
        assert table_in(post(asker, "/locate", without, kind, ARROW)[1])["id"].to_pylist() == wanted


def test_who_is_nearest_to_a_new_place(scene):
    index, _, asker = scene
    positions = places(index, 150)
    asked_all_ways(index, asker, "/reverse_nearest", positions, index.reverse_nearest(positions))


def test_attributes_in_json_are_as_they_are_for_one_place(scene):
    index, _, asker = scene
    positions = places(index, 20)
    names = ("lon", "lat") if index.space.geographic else ("x", "y")
    read = json.loads(post(asker, f"/knn?k=3&columns={','.join(COLUMNS)}", body_of(index, positions, True), ARROW)[1])
    single = []
    for number, (x, y) in enumerate(positions.tolist()):
        answer = asker.get("/knn", **{names[0]: repr(x), names[1]: repr(y)}, k=3, columns=",".join(COLUMNS))
        single += [{"query": number} | hit for hit in answer["hits"]]
    assert read["hits"] == single


def test_nobody_and_nothing(scene):
    """No places, and an index without objects."""
    index, _, asker = scene
    nothing = np.zeros((0, 2))
    for arrow in (False, True):
        body, kind = body_of(index, nothing, arrow), ARROW if arrow else JSON
        for path in ("/knn", "/knn?columns=name", "/range?radius=5", "/reverse_nearest"):
            assert json.loads(post(asker, path, body, kind)[1])["hits"] == []
            table = table_in(post(asker, path, body, kind, ARROW)[1])
            assert len(table) == 0
            assert {"id", "distance"} <= set(table.column_names)
        assert json.loads(post(asker, "/count?radius=5", body, kind)[1])["counts"] == []
        assert table_in(post(asker, "/locate", body, kind, ARROW)[1])["id"].to_pylist() == []


def test_each_place_is_in_the_access_log_and_only_if_it_was_answered(index):
    with running(index) as server, Asker(server) as asker:
        positions = places(index, 7)
        body = body_of(index, positions, False)
        post(asker, "/knn?k=3", body)
        post(asker, "/knn?k=3&max_distance=9", body)
        post(asker, "/range", body_of(index, positions, False, np.arange(7.0)))
        post(asker, "/count?radius=5", body)
        post(asker, "/locate", body)
        post(asker, "/reverse_nearest", body)
        nan = float("nan")
        told = [(3, nan), (3, 9)], [(None, 5)], [(1, nan), (1, nan)]
        wanted = [(*at, k, far) for k, far in told[0] for at in positions.tolist()]
        wanted += [(*at, nan, float(i)) for i, at in enumerate(positions.tolist())]
        wanted += [(*at, nan, far) for _, far in told[1] for at in positions.tolist()]
        wanted += [(*at, k, far) for k, far in told[2] for at in positions.tolist()]
        np.testing.assert_array_equal(np.array(server.heard.accesses), np.array(wanted))
        assert asker.raw("/knn?where=nothing", "POST", body)[0] == 400
        assert asker.raw("/range", "POST", body)[0] == 400
        assert len(server.heard.accesses) == len(wanted)
        turn(server)
        assert server.heard.answers[-2:] == [("/knn", 400), ("/range", 400)]


WRONG = {
    "no JSON": ("/knn", b"[[", JSON, 400, "body"),
    "nothing": ("/knn", b"", JSON, 400, "body"),
    "another member": ("/knn", b'{"positions":[[1,2]],"k":3}', JSON, 400, "field `k`"),
    "boxes": ("/knn", b'{"boxes":[[1,2,3,4]]}', JSON, 400, "positions are missing"),
    "three numbers": ("/knn", b'{"positions":[[1,2],[1,2,3]]}', JSON, 400, "positions row 1"),
    "text": ("/knn", b'{"positions":[[1,2],[3,4],["5",6]]}', JSON, 400, "positions row 2"),
    "no number": ("/knn", b'{"positions":[[1,NaN]]}', JSON, 400, "malformed"),
    "too large a number": ("/knn", b'{"positions":[[1,1e999]]}', JSON, 400, "out of range"),
    "too many digits": ("/knn", b'{"positions":[[1,' + b"9" * 5_000 + b"]]}", JSON, 400, "out of range"),
    "not on the globe": ("/knn", b'{"positions":[[1,2],[1,91]]}', JSON, 400, "positions row 1 is"),
    "deep": ("/knn", b'{"positions":' + b"[" * 5_000 + b"]" * 5_000 + b"}", JSON, 400, "recursion"),
    "deep objects": ("/knn", b'{"positions":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, JSON, 400, "recursion"),
    "no text": ("/knn", b'{"positions":[[1,2]],"\xff":1}', JSON, 400, "body"),
    "a table": ("/knn", b"lon,lat\n1,2", "text/csv", 415, "content-type"),
    "infinite": ("/knn", stream_of(places_of(np.array([[1.0, 2.0], [np.inf, 1.0]]))), ARROW, 400, "positions row 1"),
    "not a number": ("/knn", stream_of(places_of(np.array([[np.nan, 2.0]]))), ARROW, 400, "positions row 0"),
    "a radius too many": ("/knn", b'{"positions":[[1,2]],"radius":3}', JSON, 400, "radius"),
    "no radius": ("/range", b'{"positions":[[1,2]]}', JSON, 400, "no radius"),
    "two radii": ("/range?radius=1", b'{"positions":[[1,2]],"radius":3}', JSON, 400, "one of them"),
    "radii of others": ("/range", b'{"positions":[[1,2]],"radius":[3,4]}', JSON, 400, "2 radii and 1 places"),
    "below 0": ("/range", b'{"positions":[[1,2]],"radius":[-3]}', JSON, 400, "radius is -3"),
    "an endless radius": ("/range", stream_of(places_of(np.zeros((2, 2)), radius=[1, np.inf])), ARROW, 400, "row 1"),
    "k": ("/knn?k=1001", b'{"positions":[]}', JSON, 400, "k is '1001'"),
    "no k": ("/knn?k=0", b'{"positions":[]}', JSON, 400, "k is '0'"),
    "a column": ("/knn?columns=speed,fast", b'{"positions":[]}', JSON, 400, "'fast' is not carried"),
    "a condition": ("/knn?where=speed%20is", b'{"positions":[]}', JSON, 400, "speed is"),
    "a condition on hits": ("/knn?having=fast%3D1", b'{"positions":[]}', JSON, 400, "fast"),
    "a snapshot": ("/knn?snapshot=20000101T000000Z", b'{"positions":[]}', JSON, 410, "not open any more"),
}


@pytest.fixture(scope="module")
def small(index):
    limits = Limits(
        bulk_queries=50, body_bytes=20_000, hits=400, pool_seconds=WAIT, idle_seconds=1.0, condition_length=100, k=1_000
    )
    with running(index, limits=limits) as server:
        yield server


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_is_one_sentence(small, name):
    path, body, kind, status, said = WRONG[name]
    with running(small.index) if len(body) > 5_000 else nullcontext(small) as server, Asker(server) as asker:
        found, headers, answer = asker.raw(path, "POST", body, content_type=kind)
        problem = json.loads(answer)
        assert (found, problem["status"]) == (status, status), problem
        assert headers["content-type"] == "application/problem+json"
        assert said in json.dumps(problem, ensure_ascii=False)
        assert "\n" not in problem["detail"]
        assert json.loads(asker.raw("/knn", "POST", b'{"positions":[[10,50]]}')[2])["hits"], "it still answers"


@pytest.mark.parametrize("arrow", [False, True])
def test_limits_name_what_was_asked_and_what_may_be(small, arrow):
    index, kind = small.index, ARROW if arrow else JSON
    with Asker(small) as asker:

        def problem(path, positions, radius=None):
            status, _, answer = asker.raw(path, "POST", body_of(index, positions, arrow, radius), content_type=kind)
            told = json.loads(answer)
            return status, told.get("limit"), told.get("value"), told.get("bound")

        many = places(index, 51)
        assert problem("/knn?k=1", many) == (413, "bulk_queries", 51, 50)
        assert problem("/knn?k=9", many[:50]) == (413, "hits", 450, 400)
        assert problem("/knn?k=8", many[:50])[0] == 200
        counts = index.count(many[:50], 2_000.0)
        assert counts.sum() > 400
        assert problem("/range?radius=2000", many[:50]) == (413, "hits", int(counts.sum()), 400)
        assert problem("/count?radius=2000", many[:50])[0] == 200
        assert problem("/knn?where=" + "speed%3D1%20or%20" * 10 + "speed%3D1", many[:1])[:2] == (400, "where")
        long = json.dumps({"positions": [[1.0, 2.0]]}).encode() + b" " * 20_000
        status, _, answer = asker.raw("/knn", "POST", long)
        assert (status, json.loads(answer)["limit"], json.loads(answer)["bound"]) == (413, "body_bytes", 20_000)


def connected(server):
    made = socket.create_connection(server.at, timeout=WAIT)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def read_all(connection):
    """Return all that comes until the other side closes, which it does in time."""
    got, ends = [], time.monotonic() + WAIT
    while more := connection.recv(1 << 20):
        got.append(more)
        assert time.monotonic() < ends
    return b"".join(got)


def test_a_body_without_a_length_is_read_up_to_the_limit(small):
    """Sent in chunks, it is refused as soon as it is too long, and not held."""
    with connected(small) as client:
        client.sendall(b"POST /knn HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(30):
            client.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        client.sendall(b"0\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"limit":"body_bytes"' in answer


def test_a_client_that_expects_is_told_before_it_sends_what_is_too_long(small):
    with connected(small) as client:
        client.sendall(b"POST /knn HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 20001\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413")
    body = b'{"positions":[[10,50]]}'
    with connected(small) as client:
        client.sendall(
            b"POST /knn HTTP/1.1\r\nhost: x\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: %d\r\n\r\n"
            % len(body)
        )
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 100")
        client.sendall(body)
        assert read_all(client).startswith(b"HTTP/1.1 200")


def test_a_body_that_does_not_come_is_not_waited_for(small):
    with connected(small) as client:
        client.sendall(b"POST /knn HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        answer = client.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"limit":"idle_seconds"' in answer


def test_bodies_in_hand_are_bounded_together(small):
    """Eight of the largest; what is given up or answered makes room."""
    half = b"POST /knn HTTP/1.1\r\nhost: x\r\ncontent-length: 20000\r\n\r\n" + b" " * 19_990
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connected(small)).sendall(half)
        last = stack.enter_context(connected(small))
        last.sendall(half)
        answer = last.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"limit":"body_bytes"' in answer
        assert b"retry-after: 1" in answer

    def there_is_room():
        with Asker(small) as asker:
            return asker.raw("/knn", "POST", b'{"positions":[[10,50]]}' + b" " * 19_900)[0] == 200

    until(there_is_room)


def test_a_client_that_goes_away_in_its_body_leaves_nothing(small):
    with connected(small) as client:
        client.sendall(b"POST /knn HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
    until(lambda: ("/knn", 499) in small.heard.answers)
    assert not [entry for entry in small.heard.requests if entry["status"] == 500]


def test_a_client_that_goes_away_frees_its_place_and_stops_the_work(index):
    """A question that would take long is given up between two pieces."""
    limits = Limits(pool_queue=1, pool_seconds=WAIT)
    with running(index, limits=limits, threads=1) as server, connected(server) as client:
        go = threading.Event()
        server.state.pool.submit(lambda: go.wait(WAIT))
        body = body_of(index, places(index, 10), True)
        head = b"POST /knn HTTP/1.1\r\nhost: x\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
        client.sendall(head % (ARROW.encode(), len(body)) + body)
        until(lambda: server.state.pool.inside == 2)
        with Asker(server) as other:
            status, headers, answer = other.raw("/knn", "POST", body, content_type=ARROW)
            assert (status, headers["retry-after"], json.loads(answer)["limit"]) == (503, "1", "pool_queue")
            client.close()
            until(lambda: server.state.pool.inside == 1)
            go.set()
            until(lambda: server.state.pool.inside == 0)
            assert other.raw("/knn", "POST", body, content_type=ARROW)[0] == 200
        assert len(server.heard.accesses) == 10, "one was answered, and one went away"


@pytest.mark.parametrize("wanted", [JSON, ARROW])
def test_a_long_answer_goes_out_in_pieces_and_a_slow_client_holds_no_thread(index, wanted):
    """One thread: while a client does not read, others are answered; then it gets the whole answer."""
    positions, sizes = places(index, 300), Sizes(held=1 << 16, sent=1 << 14)
    hits = index.range(positions, 40_000.0)
    with running(index, threads=1, sizes=sizes) as server, connected(server) as client, Asker(server) as other:
        body = body_of(index, positions, False)
        head = b"POST /range?radius=40000 HTTP/1.1\r\nhost: x\r\nconnection: close\r\naccept: %b\r\n"
        client.sendall(head % wanted.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        first = client.recv(4096)
        assert b"transfer-encoding: chunked" in first
        until(lambda: server.state.pool.inside == 0)
        for _ in range(20):
            post(other, "/knn", body_of(index, positions[:5], False))
        answer = dechunked(first + read_all(client))
    if wanted == JSON:
        assert json_rows(answer) == rows(hits)
    else:
        same(hits_in(answer, 300), hits)


def dechunked(answer):
    """Return the body of an answer in chunks, which has its end."""
    at, body = answer.index(b"\r\n\r\n") + 4, []
    while True:
        end = answer.index(b"\r\n", at)
        size = int(answer[at:end], 16)
        if size == 0:
            return b"".join(body)
        body.append(answer[end + 2 : end + 2 + size])
        at = end + 4 + size


def test_what_is_sent_at_once_is_answered_in_its_order(index):
    """Frequent questions, long ones and wrong ones on one connection, all sent before the first answer."""
    one = b"GET /knn?lon=10&lat=50&k=3 HTTP/1.1\r\nhost: x\r\n"
    many = json.dumps({"positions": places(index, 300).tolist()}).encode()
    head = b"POST /knn?k=%b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    sent = [
        one + b"\r\n", head % (b"5", len(many)) + many, one + b"\r\n", head % (b"0", len(many)) + many,
        b"GET /objects/1 HTTP/1.1\r\nhost: x\r\n\r\n", head % (b"9", len(many)) + many,
        one + b"connection: close\r\n\r\n",
    ]  # fmt: skip
    with running(index) as server, connected(server) as client:
        client.sendall(b"".join(sent))
        got, answers = read_all(client), []
    while got:
        fields, _, rest = got.partition(b"\r\n\r\n")
        size = int(re.search(rb"content-length: (\d+)", fields)[1])
        answers.append((int(fields[9:12]), json.loads(rest[:size])))
        got = rest[size:]
    assert [status for status, _ in answers] == [200, 200, 200, 400, 200, 200, 200]
    assert [len(told.get("hits", ())) for _, told in answers] == [3, 1_500, 3, 0, 0, 2_700, 3]


def test_a_client_that_never_reads_is_left(index):
    """Its answer is not held longer than a connection may be idle; the answer has no end then."""
    positions, sizes = places(index, 300), Sizes(held=1 << 16)
    with running(index, limits=Limits(idle_seconds=0.5), sizes=sizes) as server, connected(server) as client:
        body = body_of(index, positions, False)
        client.sendall(b"POST /range?radius=90000 HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        until(lambda: ("/range", 200) in server.heard.answers)
        assert not read_all(client).endswith(b"0\r\n\r\n")
        assert server.state.pool.inside == 0


def test_a_stream_of_many_hits_has_batches_of_sixty_four_thousand(index):
    positions = places(index, 60)
    with running(index) as server, Asker(server) as asker:
        _, answer = post(asker, "/range?radius=40000", body_of(index, positions, True), ARROW, ARROW)
        sizes = [len(batch) for batch in pa.ipc.open_stream(answer)]
        hits = index.range(positions, 40_000.0)
        assert sum(sizes) == len(hits) > 2 * 64_000
        assert max(sizes) <= 64_000
        assert len(sizes) <= -(-len(hits) // 60_000)
        same(hits_in(answer, 60), hits)


def test_numbers_are_struck_by_no_rounding_on_their_way(index):
    """Places whose last bits differ are different questions."""
    x = np.nextafter(10.0, 11.0) + np.arange(4) * np.spacing(10.0)
    positions = np.stack([x, np.full(4, 50.0)], axis=1)
    with running(index) as server, Asker(server) as asker:
        for arrow in (False, True):
            body, kind = body_of(index, positions, arrow), ARROW if arrow else JSON
            table = table_in(post(asker, "/knn?k=1", body, kind, ARROW)[1])
            wanted = index.knn(positions, 1).distance
            assert struct.pack("4d", *table["distance"].to_pylist()) == wanted.tobytes()
