"""Names of this host, and what a request says of itself: pages of other sites, heads, old clients, wrong parameters."""

from __future__ import annotations

import asyncio
import json
import socket
import threading

import pytest

from dtoss.errors import InputError
from dtoss.serve.auth.admission import Hosts
from dtoss.serve.core.problems import LONGEST_DETAIL, Problem
from tests.dtoss.serve.served import WAIT, Asker, running, talk, town, until

GOOD = ["localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1:80", "10.1.2.3", "[::1]:9", "[::1]", "localhost."]
OTHERS = ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1x"]
NONE = ["", "a b", "evil.example/", "user@localhost", "localhost:port", "[::1", "localhost:80:80", "localhost\n"]


def status(hosts, *values, version="1.1"):
    """What a request is refused with, None where it is answered."""
    try:
        hosts.check([(b"accept", b"*/*"), *((b"host", value.encode()) for value in values)], version)
    except Problem as problem:
        return problem.status
    return None


def test_who_knows_nobody_answers_to_addresses_and_own_names():
    """A name that a name server may lead anywhere is refused, wherever it is written; another header is none."""
    hosts = Hosts([])
    for _ in range(2):  # the second time from memory
        assert [status(hosts, value) for value in GOOD] == [None] * len(GOOD)
        assert [status(hosts, value) for value in OTHERS] == [403] * len(OTHERS)
        assert [status(hosts, value) for value in NONE] == [400] * len(NONE)
    assert status(hosts) == status(hosts, "localhost", "localhost") == 400
    assert status(hosts, version="1.0") is None


def test_other_names_are_allowed_or_come_with_a_token():
    """An allowed name is one, and no part of others; where tokens are asked for any name will do."""
    hosts = Hosts(["Map.example.org"])
    assert [status(hosts, one) for one in ("map.example.org:8080", "map.example.org.", "www.map.example.org")] == [
        None, None, 403,
    ]  # fmt: skip
    assert [status(Hosts(), value) for value in (*GOOD, *OTHERS)] == [None] * (len(GOOD) + len(OTHERS))
    assert [status(Hosts(), value) for value in NONE] == [400] * len(NONE)
    with pytest.raises(InputError, match="--allow-host 'http://a' is no name of a host"):
        Hosts(["http://a"])


@pytest.fixture(scope="module")
def server():
    """A worker that anybody on this machine may ask."""
    with running(town(objects=50)) as made:
        made.state.doors.hosts = Hosts([])
        yield made


@pytest.mark.parametrize("path", ["/knn?lon=10&lat=50", "/healthz", "/", "/static/map.js", "/map", "/objects/1"])
def test_a_page_of_another_site_reads_nothing(server, path):
    """Neither by the short way nor by the long one, also after a good request on the same connection."""
    with Asker(server) as asker:
        assert asker.raw(path)[0] == 200
        code, _, body = asker.raw(path, Host="evil.example:8080")
        assert (code, json.loads(body)["limit"]) == (403, "host")
        assert "--allow-host evil.example or --token-file" in json.loads(body)["detail"]
        assert asker.raw(path)[0] == 200
    twice = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n"
    none = f"GET {path} HTTP/1.1\r\n\r\n"
    assert [talk(server, text.encode(), 1)[:12] for text in (twice, none)] == [b"HTTP/1.1 400"] * 2


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/knn?lon=10&lat=50&k=3", "/static/map.js", "/metrics"])
def test_a_head_is_what_a_get_begins_with(server, path):
    """Status and headers, and no body."""
    with Asker(server) as asker:
        (code, headers, body), (wanted, others, _) = asker.raw(path, "HEAD"), asker.raw(path)
        assert (code, body) == (wanted, b"")
        assert set(headers) == set(others)
        # numbers and ages grow between the two
        assert path in ("/metrics", "/readyz") or headers["content-length"] == others["content-length"]
        assert asker.raw("/nowhere", "HEAD")[0] == 404


@pytest.mark.parametrize("path", ["/live", "/knn?lon=10&lat=50"])
def test_http_1_0_hears_no_chunks(server, path):
    """What ends is answered, and what goes on is refused with the way out; its head is there."""
    said = talk(server, f"GET {path} HTTP/1.0\r\n\r\n".encode(), 1, close=False)
    assert b"transfer-encoding" not in said.lower()
    assert said.startswith(b"HTTP/1.1 505" if path == "/live" else b"HTTP/1.1 200")
    assert (b"proxy_http_version 1.1" in said) == (path == "/live")
    with Asker(server) as asker:
        assert asker.raw("/live", "HEAD")[0] == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/knn?lon=10&lat=50&wher=speed>1", "/knn has no parameter 'wher'; did you mean where?; it has columns, "),
        ("/knn?lon=10&lat=50&max_distanc=0", "did you mean max_distance?"),
        ("/count?lon=10&lat=50&radius=5&havin=1", "/count has no parameter 'havin'"),
        ("/box?west=9&south=49&east=10&north=51&cout=1", "did you mean count?"),
        ("/objects/1?cel=1", "/objects/1 has no parameter 'cel'; did you mean cell?"),
        ("/knn?lon=10&lat=50&partial=yes", "partial is 'yes': ok is, or leave it out"),
    ],
)
def test_a_parameter_that_is_not_known_is_refused(server, path, said):
    """It would hold nobody back, and nobody would know."""
    with Asker(server) as asker:
        code, _, body = asker.raw(path)
        assert (code, said in json.loads(body)["detail"]) == (400, True), body


def test_what_is_refused_is_told_in_a_sentence(server):
    """What was sent is not sent back: of a long text only its ends are told."""
    with Asker(server) as asker:
        for body in (
            '{"type": "' + "a" * 100_000 + '"}',
            '{"type": "Polygon", "coordinates": "' + "b" * 100_000 + '"}',
        ):
            code, _, told = asker.raw("/within", "POST", body, Content_Type="application/json")
            assert (code, len(json.loads(told)["detail"]) <= LONGEST_DETAIL) == (400, True)
            assert len(told) < 1_000


def test_who_is_refused_stands_in_the_log(server):
    """With its status, and the address of who has guessed a token."""
    with Asker(server) as asker:
        asker.raw("/knn?lon=500&lat=0")
        server.state.doors.token = "secret"
        try:
            assert asker.raw("/snapshot", Authorization="Bearer guess")[0] == 401
        finally:
            server.state.doors.token = None
    told = [(one["status"], one["client"]) for one in server.heard.requests if 400 <= one["status"] < 500]
    assert (400, None) in told
    assert (401, "127.0.0.1") in told


def test_a_line_feed_behind_a_tile_is_no_tile(server):
    """Nor are digits of other scripts."""
    with Asker(server) as asker:
        for row in ("1.mvt%0A", "%D9%A1.mvt"):
            assert asker.raw(f"/tiles/current/objects/3/1/{row}")[0] == 400


def test_who_goes_away_before_an_answer_leaves_no_trace():
    """uvicorn tells only the last of several requests of a connection that nobody waits for them any more."""
    begun, left = threading.Event(), asyncio.Event()
    with running(town(objects=50), slow=0.0) as server:
        run = server.state.pool.run_steps

        async def late(request, work):
            begun.set()
            await left.wait()
            return await run(request, work)

        server.state.pool.run_steps = late
        with socket.create_connection(server.at, timeout=WAIT) as connection:
            body = b'{"positions":[[10,50]]}'
            head = (
                b"POST /knn HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            connection.sendall(2 * (head % len(body) + body))
            assert begun.wait(WAIT)
        until(lambda: not server.server.server_state.connections)
        server.loop.call_soon_threadsafe(left.set)
        until(lambda: server.heard.requests)
    assert [(one["status"], one["detail"]) for one in server.heard.requests] == [(200, None)]
