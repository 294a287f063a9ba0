"""What servers of a plan take from each other, and from whom: tokens, bounds, whoever reads nothing or is frozen."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from threading import Thread
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from dtoss.client.endpoint import Peers, address_of
from dtoss.kinds.kind import Search, Shapes
from dtoss.kinds.shapes import question_of_shapes
from dtoss.serve.answers.json_out import ObjectQuestion
from dtoss.serve.auth.admission import Doors
from dtoss.serve.cluster.cluster import ALIVE_PATH, Away, PeerGroup
from dtoss.serve.cluster.served_plans import Placement
from dtoss.serve.cluster.wire_messages import Reply, pack_question
from dtoss.serve.core.connection_limits import Guard
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.requests.bundles import QUICK_HITS, packed_bundle, packed_group, read_bodies
from dtoss.shards.merge_answers import AT_HOMES, BY_SHARES, COUNTED_BY_SHARES, PART_STEPS, ShareQuestion
from tests.dtoss.serve.cluster.several import dealt, several
from tests.dtoss.serve.cluster.test_failures import places_of, rng_places
from tests.dtoss.serve.cluster.test_together import world
from tests.dtoss.serve.served import WAIT, Asker, Heard, turn, until


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return world("sphere")


@pytest.fixture(scope="module")
def pair(index, tmp_path_factory):
    """Two servers of a plan with tokens of a reader and of servers."""
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text("fleet reads\neditor writes write\nplan says peer\n")
    placement = dealt(index, 2, "contiguous", np.random.default_rng(0))
    with several(index, placement, 2, token="says", doors=Doors(str(file))) as servers:
        yield placement, servers


def group_of(places, k=8):
    """Questions for the nearest of places."""
    return packed_group(True, k, None, places, np.full(len(places), 1e6), [k] * len(places))


def said_by(token):
    """The header of a token."""
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("route", ["/forward", "/partial"])
def test_only_servers_ask_as_servers(index, pair, route):
    """A token that reads or writes gets 403, which names the word; that of servers is answered, and may read."""
    _, servers = pair
    body = packed_bundle(servers[0].serving.now.name, [group_of(rng_places(index, 3))])
    with Asker(servers[0]) as asker:
        for token in ("reads", "writes"):
            status, _, said = asker.raw(route, "POST", body, **said_by(token))
            assert (status, "ends in the word peer" in json.loads(said)["detail"]) == (403, True)
        assert asker.raw(route, "POST", body, **said_by("says"))[0] == (200 if route == "/forward" else 400)
        assert asker.raw(route, "POST", body)[0] == 401
        assert asker.raw("/snapshot", **said_by("says"))[0] == 200


@pytest.mark.parametrize("hot", [True, False], ids=["short way", "long way"])
def test_messages_without_places_or_sense_are_refused(pair, hot):
    """Groups without a place cost time and ask nothing; nobody's bytes make a server fail."""
    _, servers = pair
    name, head = servers[0].serving.now.name, said_by("says") | ({} if hot else {"expect": ""})
    empty = packed_group(True, 8, None, np.zeros((0, 2)), np.zeros(0), [])
    some = group_of(np.zeros((3, 2)))
    rng = np.random.default_rng(1)
    good = packed_bundle(name, [some])
    mutated = [bytes(np.where(rng.random(len(good)) < 0.02, rng.integers(0, 256, len(good)), list(good)).astype("u1"))
               for _ in range(60)]  # fmt: skip
    with Asker(servers[0]) as asker:
        for groups in ([empty] * 100_000, [some, empty]):
            status, _, said = asker.raw("/forward", "POST", packed_bundle(name, groups), **head)
            assert (status, json.loads(said)["limit"]) == (400, "places")
        for body in (b"", b"\xc1", good[:-1], msgspec.msgpack.encode([name, [[1]]]), *mutated):
            assert asker.raw("/forward", "POST", body, **head)[0] in (200, 400, 409, 413)
    assert not any(status == 500 for _, status in servers[0].heard.answers)


def test_a_long_message_is_answered_beside_the_loop_with_the_same_bytes(index, pair):
    """As its pieces are; many groups as one."""
    _, servers = pair
    name, places = servers[0].serving.now.name, rng_places(index, QUICK_HITS // 64 + 200)
    with Asker(servers[0], **said_by("says")) as asker:

        def bodies(groups):
            status, _, said = asker.raw("/forward", "POST", packed_bundle(name, groups))
            assert status == 200
            return read_bodies(said)

        whole = bodies([group_of(places, 64)])
        assert whole == [
            one for at in range(0, len(places), 50) for one in bodies([group_of(places[at : at + 50], 64)])
        ]
        assert whole == bodies([group_of(places[at : at + 1], 64) for at in range(len(places))])
        assert sum(body is not None for body in whole) > 100


def test_who_reads_no_answers_is_not_answered_for_ever(index, pair):
    """Each message is sent when the one before is answered, and of them all one or two answers wait."""
    _, servers = pair
    places = rng_places(index, QUICK_HITS // 64)
    body = packed_bundle(servers[0].serving.now.name, [group_of(places, 64)])
    head = b"POST /forward HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer says\r\ncontent-length: %d\r\n\r\n"
    with socket.create_connection(servers[0].at) as idle:
        me, kept = idle.getsockname(), servers[0].server.server_state.connections
        until(lambda: any(one.transport.get_extra_info("peername") == me for one in list(kept)))
        (mine,) = (one for one in list(kept) if one.transport.get_extra_info("peername") == me)
        most = 0
        for _ in range(40):
            idle.sendall(head % len(body) + body)
            for _ in range(3):
                turn(servers[0])
            most = max(most, mine.transport.get_write_buffer_size())
        assert 0 < most < 5_000_000


def test_more_that_is_unread_is_nothing_that_was_read():
    """A connection whose answers only pile up is closed when its time is over; one that is read from is not."""
    guard = Guard(Limits(idle_seconds=75.0), 9, lambda: "", lambda status, sent: None)
    told = []

    def connection(sizes):
        buffer = iter(sizes)
        transport = SimpleNamespace(
            get_write_buffer_size=lambda: next(buffer), abort=lambda: told.append(tuple(sizes))
        )  # fmt: skip
        return SimpleNamespace(parser=1, cycle=None, waits=None, scope={}, transport=transport)

    piling, read, slowly = [10, 20, 20, 50], [50, 40, 90, 30], [50, 60, 55, 90]
    connections = [connection(sizes) for sizes in (piling, read, slowly)]
    for now in (0.0, 40.0, 70.0, 80.0):
        guard.sweep(connections, now)
    assert told == [tuple(piling)]


def messages(index, name, rng):
    """A message of each kind, as servers send it."""
    places = rng_places(index, 3)
    asked = Search(places, np.full(3, 1e5), 4, "size > 1", ("size",), None)
    questions = [
        ShareQuestion(BY_SHARES, asked, (0, 1)), ShareQuestion(AT_HOMES, asked, (0,)),
        ShareQuestion(COUNTED_BY_SHARES, asked, (0, 1)),
        ShareQuestion(PART_STEPS["reverse_nearest"], Search(places, np.zeros(0), 0), (0,)),
        ObjectQuestion("7", False, True, True, False),
        within(b"{}"),
    ]  # fmt: skip
    return [packed_bundle(name, [group_of(places)]), *(pack_question(one, name, 5.0) for one in questions)]


def three(k=4):
    """A question about three places."""
    return Search(np.full((3, 2), 1.0), np.full(3, 1e5), k)


def within(text, kind="within", most=10):
    """A question about a shape."""
    asked = question_of_shapes(Shapes(kind, text), most, True, None, None, ())
    return ShareQuestion(PART_STEPS["shapes"], asked, (0,))


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        (
            ShareQuestion(BY_SHARES, Search(np.zeros((1, 2)), np.zeros(1), 4, None, ("a",) * 1_001), ()),
            400,
            "length <= 1000",
        ),
        (ShareQuestion(BY_SHARES, three(), (0,) * ((1 << 17) + 1)), 400, "length <= 524288"),
        (ShareQuestion(BY_SHARES, three(2**63 - 1), (0,)), 413, "hits is "),
        (within(b"{}", ["within"] * 9), 400, "no question of a server"),
        (within(b"[0,0,1,1]", "box", "a"), 400, "hits is 'a': a whole number is wanted"),
        (within(b'{"type":"Feature","properties":{"x":"' + b"x" * 4_000_000 + b'"}}'), 413, "corners is "),
        (ObjectQuestion("7" * 9_000, False, True, True, False), 413, "line_bytes is 9,000"),
    ],
    ids=["columns", "partitions", "k", "flags", "kinds", "shapes", "ids"],
)
def test_messages_are_looked_at_before_memory_is_taken(pair, question, status, said):
    """What they count is bounded where it is read; each of these was a failure, or took as much as it said."""
    _, servers = pair
    with Asker(servers[0], **said_by("says")) as asker:
        found, _, told = asker.raw("/partial", "POST", pack_question(question, servers[0].serving.now.name, 9.0))
        assert (found, said in json.loads(told)["detail"]) == (status, True), told


def mutate(rng, message):
    """Bytes that are changed, removed, doubled or cut."""
    data = bytearray(message)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1))
        data[at : at + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 4)))
        if rng.random() < 0.1:
            del data[int(rng.integers(len(data) + 1)) :]
    return bytes(data)


@pytest.mark.parametrize("count", [250, pytest.param(20_000, marks=pytest.mark.deep("the same at length: 250 above"))])
def test_no_message_makes_a_server_fail(index, pair, count):
    """Of messages that nobody sends each is answered or refused, and the next good one is answered."""
    _, servers = pair
    rng = np.random.default_rng(count)
    name = servers[0].serving.now.name
    good, *others = messages(index, name, rng)
    with Asker(servers[0], **said_by("says")) as asker:
        for number in range(count):
            route, message = [("/forward", good), ("/partial", others[number % len(others)])][number % 2]
            status, _, said = asker.raw(route, "POST", mutate(rng, message))
            assert status in (200, 400, 404, 409, 410, 413, 421, 503), (status, said)
            assert len(said) < 2_000 or status == 200
        assert asker.raw("/forward", "POST", good)[0] == 200


WAITING = 12
"""Requests that may wait, for a thread and for other servers."""


@pytest.fixture
def frozen(index, pair):
    """The first of two servers, with one thread, whose other one takes connections and says nothing; and its socket.

    It is waited for as long as the test wants.
    """
    placement, _ = pair
    with (
        socket.create_server(("127.0.0.1", 0)) as dumb,
        several(index, placement, 2, threads=1, limits=Limits(pool_seconds=9 * WAIT, pool_queue=WAITING)) as (here, _),
    ):
        circle = here.state.circle
        circle.hop_seconds = 3 * WAIT
        address = replace(circle.links[1].address, port=dumb.getsockname()[1])
        here.loop.call_soon_threadsafe(setattr, circle.links[1], "address", address)

        def is_frozen():
            # a look at the real one may be under way, and would leave its connection
            here.loop.call_soon_threadsafe(circle.links[1].close)
            return here.heard.forwards["failed"]

        until(is_frozen)
        yield here, placement, dumb


def test_a_frozen_server_holds_up_nobody_who_does_not_need_it(index, frozen):
    """Its own answers come while others wait; these hear who is away, or what the rest has, once that is known."""
    here, placement, dumb = frozen
    (fx, fy), (x, y) = places_of(index, placement.held_by(1), 1)[0], places_of(index, placement.held_by(0), 1)[0]
    found = {}

    def ask(name, **more):
        with Asker(here) as asker:
            status, _, body = asker.raw(f"/count?lon={fx}&lat={fy}&radius=300{more.get('and_', '')}")
            found[name] = status, json.loads(body)

    waiting = [
        Thread(target=ask, args=("plain",)),
        Thread(target=ask, args=("partial",), kwargs={"and_": "&partial=ok"}),
    ]
    for one in waiting:
        one.start()
    until(lambda: here.heard.forwards["asked"] >= 2)
    with Asker(here) as asker:
        for _ in range(3):
            assert "count" in asker.get("/count", lon=x, lat=y, radius=1)
            assert asker.get("/knn", lon=x, lat=y, k=1, columns="size")["hits"]
        assert not found
    dumb.close()
    for one in waiting:
        one.join()
    status, said = found["plain"]
    assert (status, said["servers"]) == (503, [1])
    assert set(said["partitions"]) <= placement.held_by(1)
    status, said = found["partial"]
    assert (status, set(said["missing"]) <= placement.held_by(1)) == (200, True)


def test_who_waits_for_a_frozen_server_holds_no_thread(index, frozen):
    """As many as may wait do, of every kind; whoever needs nobody else is answered meanwhile, and all of them then."""
    here, placement, dumb = frozen
    (fx, fy), (x, y) = places_of(index, placement.held_by(1), 1)[0], places_of(index, placement.held_by(0), 1)[0]
    body, ring = json.dumps({"positions": [[fx, fy]]}), [[fx, fy], [fx + 0.01, fy], [fx, fy + 0.01], [fx, fy]]
    kinds = [
        (f"/count?lon={fx}&lat={fy}&radius=300", "GET", None),
        (f"/range?lon={fx}&lat={fy}&radius=300&columns=size", "GET", None),
        (f"/range?lon={fx}&lat={fy}&radius=300&limit=2", "GET", None),
        ("/count?radius=300", "POST", body),
        ("/range?radius=300", "POST", body),
        ("/within", "POST", json.dumps({"type": "Polygon", "coordinates": [ring]})),
    ]
    statuses = []

    def ask(number):
        with Asker(here) as asker:
            statuses.append(asker.raw(*kinds[number % len(kinds)])[0])

    waiting = [Thread(target=ask, args=(number,)) for number in range(WAITING)]
    for one in waiting:
        one.start()
    until(lambda: here.state.pool.elsewhere == WAITING)
    assert here.state.pool.inside == 0
    with Asker(here) as asker:
        assert "count" in asker.get("/count", lon=x, lat=y, radius=1)
        assert asker.get("/knn", lon=x, lat=y, k=1, columns="size")["hits"]
        assert json.loads(asker.raw("/count?radius=1", "POST", json.dumps({"positions": [[x, y]]}))[2])["counts"]
        status, _, said = asker.raw(*kinds[0])
        assert (status, json.loads(said)["limit"]) == (503, "pool_queue")
    assert not statuses
    dumb.close()
    for one in waiting:
        one.join()
    assert statuses == [503] * WAITING
    assert here.state.pool.elsewhere == 0


class Slow:
    """A way to a server that takes its time, and lives or not."""

    def __init__(self, seconds, alive):
        self.seconds, self.alive, self.looks = seconds, alive, 0

    async def ask(self, path, body, limit, asker=b""):
        """As a link: an answer in time, or TimeoutError."""
        if path == ALIVE_PATH:
            self.looks += 1
        takes = (0.0 if self.alive else 60.0) if path == ALIVE_PATH else self.seconds
        async with limit if isinstance(limit, asyncio.Timeout) else asyncio.timeout(limit):
            await asyncio.sleep(takes)
        return Reply(200, b"")


@pytest.mark.parametrize(
    ("seconds", "alive", "answers"), [(0.7, True, True), (60.0, False, False), (0.02, False, True)]
)
def test_who_shows_that_it_lives_is_waited_for(index, seconds, alive, answers):
    """An answer that takes long is no frozen server; one that is frozen is looked at once."""
    heard = Heard()
    peers = Peers({0: address_of("http://127.0.0.1:1"), 1: address_of("http://127.0.0.1:1")}, None)
    circle = PeerGroup(0, peers, Placement("x", ((1,),)), heard, heard.event)
    circle.links[1] = link = Slow(seconds, alive)

    async def ask():
        return await circle.post(1, b"", 3.0, True)

    if answers:
        assert asyncio.run(ask()).status == 200
        assert link.looks == (1 if seconds > 0.5 else 0)
    else:
        with pytest.raises(Away):
            asyncio.run(ask())
        assert (heard.forwards["failed"], link.looks) == (1, 1)
