"""Streams of events: what each hears, when, and what becomes of those that nobody reads."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits, Paces
from dtoss.serve.map.map_state import Kind, Live
from tests.dtoss.serve.processes.started import dialled, get
from tests.dtoss.serve.served import Asker, Doors, running, served_of, town, turn, until

WAIT = 60


@pytest.fixture(scope="module")
def index():
    return town()


class Kinds:
    """Two kinds that change when a test says so, and one that is told always."""

    def __init__(self):
        self.first, self.second, self.turn = {"a": 1}, None, 0
        self.kinds = (
            Kind("first", lambda: self.first, at_once=True),
            Kind("second", lambda: self.second, at_once=True),
            Kind("always", self.always, always=True),
        )

    def always(self):
        self.turn += 1
        return {"turn": 0}


def read(data):
    """The events of some bytes."""
    return [json.loads(part.removeprefix(b"data: ")) for part in data.split(b"\n\n") if part]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_one_event_a_second_the_more_urgent_first(order):
    """What changes twice before it is heard is told once; what is told always waits, wherever it is named."""

    async def run():
        kinds = Kinds()
        live = Live([kinds.kinds[i] for i in order], 2, second=0.02)
        stream = live.open()
        assert read(stream.beginning()) == [{"type": "first", "a": 1}]
        heard = []

        async def hear(count):
            while len(heard) < count:
                await asyncio.wait_for(stream.woken.wait(), WAIT)
                stream.woken.clear()
                heard.append(read(stream.following()))

        await hear(1)
        kinds.first, kinds.second = {"a": 2}, {"b": 1}
        kinds.first = {"a": 3}
        await hear(5)
        assert len(live) == 1
        live.close(stream)
        return heard

    heard = asyncio.run(run())
    assert [len(events) for events in heard] == [1] * 5
    always = {"type": "always", "turn": 0}
    first, second = {"type": "first", "a": 3}, {"type": "second", "b": 1}
    told = [event for (event,) in heard]
    assert told[0] == always
    assert [event for event in told if event != always] == [first, second]
    assert told[-1] == always


def test_some_are_told_beside_others():
    """In the same second as the one that is due, and by themselves where none is; no other waits for them."""

    async def run():
        kinds = Kinds()
        count = iter(range(1_000))
        beside = Kind("beside", lambda: {"n": next(count)}, at_once=True, beside=True)
        live = Live([beside, *kinds.kinds], 2, second=0.02)
        stream = live.open()
        assert [event["type"] for event in read(stream.beginning())] == ["first", "beside"]
        heard = []
        kinds.second = {"b": 1}
        for _ in range(4):
            await asyncio.wait_for(stream.woken.wait(), WAIT)
            stream.woken.clear()
            heard.append([event["type"] for event in read(stream.following())])
        live.close(stream)
        quiet = Live([beside], 2, second=0.02)
        stream = quiet.open()
        stream.beginning()
        await asyncio.wait_for(stream.woken.wait(), WAIT)
        heard.append([event["type"] for event in read(stream.following())])
        return heard

    heard = asyncio.run(run())
    assert heard[0] == ["second", "beside"]
    assert heard[1:4] == [["always", "beside"]] * 3
    assert heard[4] == ["beside"]


def test_a_stream_that_comes_later_begins_with_what_is_true_then():
    """Also where nobody has listened for a while; and a kind that fails is told of, and hides no other."""
    failed = []

    async def run():
        kinds = Kinds()

        def fails():
            raise ValueError("no")

        live = Live((Kind("bad", fails), *kinds.kinds), 2, fails, failed.append, second=0.01)
        live.close(live.open())
        kinds.first, kinds.second = {"a": 7}, {"b": 7}
        await asyncio.sleep(0.02)
        began = read(live.open().beginning())
        await asyncio.sleep(0.1)
        return began

    assert asyncio.run(run()) == [{"type": "first", "a": 7}, {"type": "second", "b": 7}]
    assert {str(error) for error in failed} == {"no"}
    assert len(failed) >= 3


def test_streams_are_bounded_and_nobody_is_heard_after_the_end():
    """A thousand, as is usual: the next one hears why."""

    async def run():
        live = Live(Kinds().kinds, Limits().live)
        streams = [live.open() for _ in range(1_000)]
        with pytest.raises(Problem, match="1,000 streams are open: at most 1,000 are allowed") as told:
            live.open()
        assert (told.value.status, told.value.limit, told.value.bound) == (503, "live", 1_000)
        live.close(streams[0])
        live.open()
        live.end()
        assert all(stream.woken.is_set() for stream in streams[1:])
        with pytest.raises(Problem, match="ending"):
            live.open()

    asyncio.run(run())


@contextmanager
def streaming(server, **headers):
    """A stream over a socket; yields a function that returns its next events, and the socket."""
    with socket.create_connection(server.at, timeout=WAIT) as sock, sock.makefile("rb") as held:
        sock.sendall(get("/live", *(f"{name}: {value}" for name, value in headers.items())))
        head = [held.readline()]
        while head[-1] != b"\r\n":
            head.append(held.readline())

        def chunk():
            size = int(held.readline(), 16)
            data = held.read(size)
            held.readline()
            return data

        yield b"".join(head), chunk, sock


def test_a_stream_over_http(index):
    """It begins with the snapshot, tells the load each second and the next snapshot; its end ends the answer."""
    asked = time.monotonic()
    with running(index, paces=Paces(live=0.1)) as server, streaming(server) as (head, chunk, _):
        began = time.monotonic()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"content-type: text/event-stream\r\n" in head
        assert b"cache-control: no-store\r\n" in head
        now = server.serving.now
        wanted = {
            "type": "snapshot", "snapshot": now.name, "commit": 1, "objects": len(index), "made": now.made,
            "refused": None,
        }  # fmt: skip
        assert read(chunk()) == [wanted]
        (load,) = read(chunk())
        assert load == {"type": "load", "requests": 0.0, "partitions": [0.0, 0.0, 0.0], "servers": None}
        heard = [wanted, load]

        def next_snapshot():
            # loads may come before it, of a tenth of a second each: those that were sent before it changed
            while len(heard) < 1_000:
                heard.extend(read(chunk()))
                if heard[-1]["type"] == "snapshot":
                    return heard[-1]
            raise AssertionError("nothing was told of it")

        server.serving.refused = "it is damaged"
        assert next_snapshot() == {**wanted, "refused": "it is damaged"}
        fresh = served_of(town(seed=1), "20260102T000000.000000Z")
        server.loop.call_soon_threadsafe(server.serving.replace, fresh)
        assert next_snapshot()["snapshot"] == "20260102T000000.000000Z"
        server.loop.call_soon_threadsafe(server.state.showing.live.end)
        turn(server)
        most = 2 + (time.monotonic() - began) / 0.1
        assert len(heard) + len(list(iter(chunk, b""))) <= most
    # a stream is no request that failed, and a slow one only where its beginning was, as where the machine paused
    assert ("/live", 200) in server.heard.answers
    told = [one for one in server.heard.requests if one["route"] == "/live"]
    assert all(one["status"] == 200 and one["seconds"] <= began - asked for one in told)


def test_a_quiet_stream_says_that_it_is_there(index):
    """What stands in between would close it."""
    with running(index, paces=Paces(live=60.0, quiet=0.05)) as server, streaming(server) as (_, chunk, _):
        assert read(chunk())[0]["type"] == "snapshot"
        assert chunk().startswith(b":")
        assert chunk().startswith(b":")


def test_a_client_that_goes_away_is_forgotten(index):
    """At once, and not when the next event is due."""
    with running(index, paces=Paces(live=600.0, quiet=600.0)) as server:
        live = server.state.showing.live
        with ExitStack() as held:
            for _ in range(5):
                _, chunk, _ = held.enter_context(streaming(server))
                chunk()
            assert len(live) == 5
        until(lambda: len(live) == 0)
    assert server.heard.events == []


def test_a_client_that_reads_nothing_is_left(index):
    """After as long as a connection may be idle; events are made large, so that no buffer holds them."""
    with running(index, limits=Limits(idle_seconds=0.3), paces=Paces(live=0.02)) as server:
        live = server.state.showing.live
        closed, close = [], live.close
        live.close = lambda stream: (close(stream), closed.append(stream))
        live._kinds[2].kind = Kind("load", lambda: {"much": "x" * 1_000_000}, always=True)
        with dialled(server.at[1]) as sock:
            sock.sendall(get("/live"))
            until(lambda: closed)
        assert (len(closed), len(live)) == (1, 0)
    assert server.heard.events == []


def test_more_streams_than_are_allowed(index):
    """Over HTTP: those that are open go on, and the next one is a problem with its bound."""
    with running(index, limits=Limits(live=30), paces=Paces(live=0.2)) as server, ExitStack() as held:
        chunks = [held.enter_context(streaming(server))[1] for _ in range(30)]
        assert {read(chunk())[0]["type"] for chunk in chunks} == {"snapshot"}
        with Asker(server) as asker:
            status, headers, body = asker.raw("/live")
        told = json.loads(body)
        assert (status, told["limit"], told["bound"]) == (503, "live", 30)
        assert headers["retry-after"] == "5"
        assert {read(chunk())[0]["type"] for chunk in chunks} == {"load"}


def test_a_stream_needs_the_token(index):
    with running(index, doors=Doors(token="secret")) as server:
        with Asker(server) as asker:
            assert [asker.raw(path)[0] for path in ("/live", "/map", "/map/load?slot=0")] == [401, 401, 401]
        with streaming(server, authorization="Bearer secret") as (head, chunk, _):
            assert b" 200 " in head
            assert read(chunk())[0]["type"] == "snapshot"
