"""A worker that answers on a free loopback port, in a thread of the test's process, and a client without manners."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial
from types import SimpleNamespace
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow as pa
import uvloop
from uvicorn.config import Config
from uvicorn.server import Server

import dtoss
from dtoss.conditions import matching_objects
from dtoss.fresh.intake import Receipt
from dtoss.log.read_upto import together
from dtoss.serve.answers.open_snapshots import Conditions, ServedSnapshot, Serving
from dtoss.serve.app import application
from dtoss.serve.auth.admission import Hosts
from dtoss.serve.auth.tokens import EVERYBODY, Token
from dtoss.serve.core.connection_limits import Guard, GuardedProtocol
from dtoss.serve.core.pool import Pool, Unread
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import PACES, USUAL_SIZES, Settings
from dtoss.serve.map.map_files import files_of
from dtoss.serve.map.map_state import Showing
from dtoss.serve.observability.log_lines import Audit
from dtoss.serve.observability.partition_counts import HomeCounts
from dtoss.serve.requests.hot_protocol import HotProtocol
from dtoss.serve.state.worker_state import WorkerState
from dtoss.shards.share import Share
from dtoss.snapshots.column_types import stored_type, type_name
from dtoss.snapshots.manifest_fields import Wishes

OBJECTS = 3_000
WAIT = 60
NAME = "20260101T000000.000000Z"


def before_each_evaluation(monkeypatch, step):
    """Call a function of the condition before any is evaluated."""
    evaluate = matching_objects._matches
    monkeypatch.setattr(matching_objects, "_matches", lambda *given: (step(given[0]), evaluate(*given))[1])


def nothing_is_evaluated(monkeypatch):
    """Let whoever evaluates a condition fail."""
    monkeypatch.setattr(matching_objects, "Filter", lambda *_: 1 // 0)


def town(kind="sphere", *, strings=False, objects=OBJECTS, seed=0, partitions=3):
    """An index with ties, shared places and attributes of many types; each seed has other places and the same ids."""
    rng = np.random.default_rng(seed)
    centre = [10.0, 50.0] if kind == "sphere" else [500.0, -300.0]
    positions = rng.normal(centre, 0.05 if kind == "sphere" else 40.0, (objects, 2)).round(3)
    ids = (
        [f"é/{i} %" for i in range(objects)] if strings else rng.permutation(objects) - 5 + (2**60) * (kind == "plane")
    )
    moments = 1_767_225_600_000_000 + rng.integers(0, 10**9, objects)
    carried = {
        "speed": rng.integers(0, 50, objects),
        "share": np.where(rng.random(objects) < 0.1, np.nan, rng.random(objects)),
        "name": [None if i % 7 == 0 else f'"ü{i}"' for i in range(objects)],
        "seen": pa.array(moments, pa.timestamp("us", "UTC")),
        "free": rng.random(objects) < 0.5,
    }
    crs = None if kind == "sphere" else "none"
    return dtoss.build(ids, positions, crs=crs, partitions=partitions, columns=carried)


def until(holds):
    """Wait until something holds."""
    ends = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


class Heard:
    """Keeps what a worker tells its access log, its metrics and its log, and lets everybody in."""

    def __init__(self):
        self.accesses, self.hot_answers, self.answers, self.requests, self.events, self.turns = [], [], [], [], [], []
        self.open_streams = self.all_streams = self.events_sent = self.failures = 0
        self.not_read = self.lines_dropped = 0
        self.changes, self.refusals, self.forwards = Counter(), Counter(), Counter()

    def many(self, x, y, k, radius):
        x, y, k, radius = np.broadcast_arrays(x, y, np.nan if k is None else k, np.nan if radius is None else radius)
        self.accesses += [tuple(row) for row in np.stack([x, y, k, radius], -1).reshape(-1, 4).tolist()]

    def hot(self, route, seconds, sent):
        self.hot_answers += [route] * len(seconds)

    def answered(self, route, status, seconds, sent):
        self.answers.append((route, status))

    def gathered(self, requests):
        self.turns.append(requests)

    def read(self, partitions, queries):
        pass

    def forwarded(self, what, requests=1):
        self.forwards[what] += requests

    def unread_servers(self, count):
        self.not_read = count

    def forwarded_bytes(self, size):
        self.forwards["bytes"] += size

    def in_hand(self, change):
        pass

    def tell_windows(self, opened):
        pass

    def submit(self, work):
        raise AssertionError("nobody has asked for windows")

    def waiting(self, requests):
        pass

    def evaluated(self, seconds):
        pass

    def streams(self, change):
        self.open_streams += change
        self.all_streams += max(change, 0)  # then, so that whoever sees it has seen it open

    def sent_events(self, events):
        self.events_sent += events

    def subscribed(self, change, subscriptions):
        self.changes[change] += subscriptions

    def not_subscribed(self, why):
        self.refusals[why] += 1

    def watch_failed(self):
        self.failures += 1

    def request(self, **facts):
        self.requests.append(facts)

    def event(self, what, **facts):
        self.events.append((what, facts))

    def unaudited(self, lines):
        self.lines_dropped += lines

    def text(self):
        return b"dtoss_up 1\n"


class Intake:
    """Keeps the rows that it takes; the first errors of ``refuses`` are raised instead."""

    def __init__(self, *refuses):
        self.rows, self.refuses, self.upto = [], list(refuses), {}

    async def put(self, rows, upto=None):
        if self.refuses and len(rows):  # who only asks where to go on is told
            raise self.refuses.pop(0)
        self.rows += rows.to_pylist()
        self.upto = together([*self.upto.values(), *([] if upto is None else [upto])])
        return Receipt(len(rows), len(self.rows), 0, 0, upto and self.upto[upto.source].text())


class Doors:
    """Lets in whoever knows the token, if there is one; who writes has it, or another one."""

    mark = ""

    def __init__(self, token=None, origins=(), writes=True):
        self.token, self.origins, self.writes = token, origins, writes
        self.hosts, self.given_back = Hosts(), 0

    def is_admin(self, token):
        return True

    def listening(self, token, over):
        return nullcontext()

    def give_back(self, token):
        self.given_back += 1

    def may_write(self, authorization):
        return self.writes

    def may_tell(self, authorization):
        return self.writes

    def lets_page(self, origin, host):
        return True

    def is_peer(self, authorization):
        return self.token is None or authorization == b"Bearer " + self.token.encode()

    def admit(self, authorization):
        if self.token is None:
            return EVERYBODY
        if authorization != b"Bearer " + self.token.encode():
            raise Problem(401, "a token is wanted")
        return Token("one", b"")

    def cors(self, origin):
        return (
            [(b"access-control-allow-origin", origin)] if origin is not None and origin.decode() in self.origins else []
        )

    def preflight(self, origin):
        return self.cors(origin)


def served_of(index, name=NAME, later=lambda work: work(), held=None):
    """Return an index, or a share of it, as what is served."""
    share = None if held is None else Share(index, held)
    here = index if share is None else share.here
    conditions = Conditions(here, threading.Semaphore(2), later)
    facts = {
        "commit": 1, "objects": len(index), "sites": index.sites, "partitions": len(index.parts), "crs": index.crs,
        "metric": index.space.metric, "unit": "m", "bounds": index.bounds,
        "id_type": "string" if index.string_ids else "int64", "created": "2026-01-01T00:00:00Z",
        "columns": {name: str(column.type) for name, column in index.parts[0].attributes.items()},
        "version": dtoss.__version__, "pivots_hash": index.partitioning.digest,
    }  # fmt: skip
    kinds = {name: type_name(stored_type(column.type)) for name, column in index.parts[0].attributes.items()}
    manifest = {
        "snapshot": name, "source": None, "time": {"column": "t", "type": "timestamp", "unit": None}, "columns": kinds,
        "id_type": facts["id_type"], "crs": index.crs, "metric": index.space.metric, "to_lonlat": False,
        "parameters": Wishes().facts(),
    }  # fmt: skip
    return ServedSnapshot(here, name, 1, time.time(), conditions, facts, manifest=manifest, share=share)


class Quick(Server):
    """uvicorn's server, which looks every hundredth of a second whether it is to end, and whether it has."""

    async def main_loop(self):
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets=None):
        for server in self.servers:
            server.close()
        for listening in sockets or ():
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(0.01)


@contextmanager
def running(index, *, hot=True, doors=None, port=0, circle=None, paces=PACES, sizes=USUAL_SIZES, intake=None, **given):
    """A worker of an index; ``at`` is its address. ``circle`` makes it one of several, from its metrics and log.

    It looks at the others once :func:`looking` is told so.
    """
    settings = Settings(**{"store": "nowhere", "hot": hot} | given)
    heard = Heard()
    limits = settings.limits
    pool = Pool(settings.threads, limits.pool_queue, limits.pool_seconds, heard, unread=Unread(limits.answer_bytes))
    circle = None if circle is None else circle(heard)
    mine = None if circle is None else circle.placement.held_by(circle.me)
    serving = Serving(served_of(index, later=pool.submit, held=mine))
    showing = Showing(serving, files_of(settings), HomeCounts(1), settings.limits.live, heard.event, paces)
    state = WorkerState(
        0, settings, serving, pool, heard, heard, doors or Doors(), heard, showing, circle, paces, sizes,
        None if settings.audit is None else Audit(settings.audit, 0, heard.unaudited), intake,
    )  # fmt: skip
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    ready, held = threading.Event(), SimpleNamespace()

    async def serve():
        loop = asyncio.get_running_loop()
        front, desk = application(state, loop)
        guard = Guard(settings.limits, settings.limits.connections, lambda: "refused", lambda status, sent: None)
        protocol = partial(HotProtocol, desk=desk, guard=guard) if hot else partial(GuardedProtocol, guard=guard)
        config = Config(
            front, http=protocol, access_log=False, log_level="error", lifespan="off",
            server_header=False, ws="none", proxy_headers=False, timeout_keep_alive=75,
        )  # fmt: skip
        server = Quick(config)
        held.loop, held.server, held.desk = loop, server, desk
        running = asyncio.create_task(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        await running

    thread = threading.Thread(target=lambda: uvloop.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(WAIT)
    try:
        yield SimpleNamespace(
            at=listening.getsockname()[:2] if listening.fileno() >= 0 else None, state=state, heard=heard,
            serving=serving, loop=held.loop, desk=held.desk, server=held.server, index=index,
        )  # fmt: skip
    finally:
        held.loop.call_soon_threadsafe(showing.live.end)
        if state.tail is not None:
            held.loop.call_soon_threadsafe(state.tail.end)
        if circle is not None:
            held.loop.call_soon_threadsafe(circle.stop)
            state.for_others.close()
        held.server.should_exit = True
        thread.join(WAIT)
        pool.close()
        if state.audit is not None:
            state.audit.close()


def looking(server):
    """Let a worker look what the others of its circle hold, from now on."""
    server.loop.call_soon_threadsafe(server.state.circle.start, server.loop)


class Asker:
    """One connection, which stays open."""

    def __init__(self, server, **headers):
        self.connection = http.client.HTTPConnection(*server.at, timeout=WAIT)
        self.headers = headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def raw(self, path, method="GET", body=None, **headers):
        """Return status, headers and bytes of an answer."""
        self.connection.request(method, path, body, self.headers | {n.replace("_", "-"): v for n, v in headers.items()})
        response = self.connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def get(self, path, **parameters):
        """Return the JSON of an answer, which has to be a good one."""
        status, _, body = self.raw(target(path, **parameters))
        assert status == 200, body
        return json.loads(body)


def talk(server, data, answers, *, close=True):
    """Return the bytes that come back until so many answers have, for bytes that are sent as they are."""
    with socket.create_connection(server.at, timeout=WAIT) as connection:
        connection.sendall(data)
        if close:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        while found.count(b"HTTP/1.1 ") < answers or not found.rstrip().endswith(b"}"):
            piece = connection.recv(1 << 16)
            if not piece:
                break
            found += piece
        return found


def target(path, **parameters):
    """Return the path and query of a question."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def object_path(object_id):
    """Return the path of an object."""
    return f"/objects/{quote(str(object_id), safe='')}"


def turn(server):
    """Wait until the loop of a worker has done what it was given."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), server.loop).result(WAIT)


def pairs(answer):
    """Return ids and distances of the hits of an answer."""
    return [(hit["id"], hit["distance"]) for hit in answer["hits"]]
