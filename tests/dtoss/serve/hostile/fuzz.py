"""Requests that nobody should send: ``python -m tests.dtoss.serve.hostile.fuzz [COUNT] [SEED] [ROUNDS]``.

They go to a worker. A share is made by schemathesis from its own OpenAPI text, with parameters and bodies that it
allows and that it does not; the others by hand, as bytes on a socket. Each has an answer in time that is no 5xx; what
is no request may have its connection closed. Answers to the former are as the text says. At the end the worker still
answers as in process, and its memory is what it was after the first round.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
import warnings
from collections import Counter, deque
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from tests.dtoss.serve.bulk.streams import ARROW, broken, seeds
from tests.dtoss.serve.events.listening import Watch
from tests.dtoss.serve.served import NAME, WAIT, Asker, running, town

MADE = 0.3
"""Share that schemathesis makes."""
GROWTH = 1.05
"""Of memory, at the most."""
SPARE = 4_000_000
"""Bytes that do not count: of a small worker they are more than the share."""
SETTLING = 2_000, 24_000_000
"""Requests within which a worker's threads first fill their heaps, and the bytes that do not count till then: it is
115 MB at first and stays at 130 from then on, as 5,000 requests show."""
FOR_SERVERS = {"snapshots", "held"}
"""What servers of a plan are told where they ask for what is not there."""
SLOWEST = 10.0
"""Seconds until an answer has begun."""
PATHS = (
    "/knn", "/range", "/count", "/locate", "/reverse_nearest", "/box", "/within", "/objects/1", "/snapshot", "/no",
    "/map/nearest", "/map", "/map/load", "/map/object/1", "/map/within", "/map/subscriptions",
    "/map/subscription", "/static/map.js",
    "/subscriptions", "/subscriptions/a",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-1", "8", "1e308", "-1e308", "1e-320", "1e999", "nan", "inf", "-inf", "NaN", "Infinity", "0x10",
    "1_0", " 1", "1 ", "+1", "1e", "--1", "", "٣", "9" * 400, "0." + "0" * 300 + "1", "180", "180.00000000000003", "90",
    "-90", "90.0000000001", "1001", "2147483648", "9223372036854775808", "true", "null", "[]", "1,2", "%00", "%ff",
)  # fmt: skip
HEADERS = (
    b"", b"accept: " + ARROW.encode() + b"\r\n", b"if-none-match: *\r\n", b"x-request-id: " + b"a" * 200 + b"\r\n",
    b"expect: 100-continue\r\n", b"content-length: 5\r\n", b"range: bytes=0-5\r\n", b"cookie: \xff\xfe\r\n",
)  # fmt: skip
CONDITIONS = (
    "speed < 20", "speed", "speed <", "(" * 400 + "speed" + ")" * 400, "speed = 1 or " * 70 + "speed = 2",
    "name like '%'", "name like '" + "%_" * 200 + "'", "speed / 0 = 1", "share = 'NaN'",
    "id = 1; drop table x", "exists (select 1)",
    "cast(speed as date) is null", "not " * 200 + "free = true", "speed between 9 and 1", "name in ('a', null)",
    "''", "1", "speed = 99999999999999999999999999", "name = '\x00'", "ü = 1", "speed < 20 -- ", "/* speed",
    "-" * 500 + "1 = speed",
)  # fmt: skip


CURSORS = ("beginning", "1-end", "0", "1-4294967296", "2-0", "99-1", "-", "end", "1-99999999999999999999", "1-1-1")
FENCES = (
    {"id": "a", "circle": [10, 50, 900]}, {"id": 7, "box": [9.9, 49.9, 10.1, 50.1], "where": "speed < 20"},
    {"id": "w", "words": "flood or (fire and not drill)"}, {"id": "e", "events": ["enter"], "circle": [0, 0, 1]},
    {"id": "p", "polygon": {"type": "Polygon", "coordinates": [[[9, 50], [10, 50], [10, 51], [9, 50]]]}},
    {"type": "Feature", "id": "f", "geometry": {"type": "Point", "coordinates": [10, 50]}, "properties": {"radius": 9}},
    {"id": "o", "around": {"object": 1, "metres": 50}, "expires": "2031-01-01T00:00:00Z", "meta": {"x": [1, None]}},
)  # fmt: skip


@contextmanager
def worker(index, store):
    """A forked worker: its process id and its address."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with running(index, store=store, allow_subscribe=True) as server:
            for name in ("accesses", "answers", "hot_answers", "requests", "events", "turns"):
                setattr(server.heard, name, deque(maxlen=1_000))  # the scene keeps all, and its memory would grow
            os.write(tell, b"%d\n" % server.at[1])
            signal.pause()
    try:
        port = int(os.read(told, 20))
        yield SimpleNamespace(pid=pid, at=("127.0.0.1", port))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(told)
        os.close(tell)


def main(count=10_000, seed=0, rounds=5):
    index = town(objects=400)
    # kernels are compiled and everything is loaded once before the fork
    asked(index)
    ends = Counter()
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as store, worker(index, watched(store)) as server:
        memory = []
        # what is loaded when it is first wanted comes in a round before those whose memory is compared
        for number in range(-1, rounds):
            by_hand(server, int(count * (1 - MADE)) // rounds, rng, ends)
            by_schema(server, int(count * MADE) // rounds, (seed + 1) * rounds + number, ends)
            memory += [held(server.pid)] if number >= 0 else []
        with Asker(server) as asker:
            read = asker.get("/knn", lon=10, lat=50, k=3)
            wanted = index.knn((10, 50), 3)
            assert [(hit["id"], hit["distance"]) for hit in read["hits"]] == [one[1:] for one in wanted]
    print(dict(sorted(ends.items(), key=str)))
    print("memory after each round, MB:", [round(size / 1e6, 1) for size in memory])
    assert not [end for end in ends if isinstance(end, int) and end >= 500 and end != 503], ends
    spare = SETTLING[1] if count < SETTLING[0] else SPARE
    assert memory[-1] <= memory[0] * GROWTH + spare, memory
    assert ends[200] > count // 20, "hardly any was answered"
    assert ends[400] > count // 20, "hardly any was refused"


def asked(index):
    """Ask an index each kind of question."""
    with running(index) as server, Asker(server) as asker:
        for path in ("/knn", "/range?radius=900", "/count?radius=900", "/locate", "/reverse_nearest"):
            assert asker.raw(path, "POST", b'{"positions":[[10,50],[10,50.1]]}', accept=ARROW)[0] == 200
        ring = b'{"type":"Polygon","coordinates":[[[9.9,49.9],[10.1,49.9],[10,50.1]]]}'
        assert asker.raw("/within?where=speed%3C20&columns=name", "POST", ring)[0] == 200
        assert asker.raw("/box", "POST", b'{"boxes":[[9.9,49.9,10.1,50.1]]}')[0] == 200


def watched(store):
    """A store with a watch that has had events."""
    watch = Watch(store).begin()
    watch.batch()
    watch.batch()
    return store


def held(pid):
    """Return the bytes that a process has for itself alone."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * sum(map(int, re.findall(r"^Private_Dirty: +(\d+) kB", text, re.M)))


# -- by hand ----------------------------------------------------------------------------------------------------------


def by_hand(server, count, rng, ends, makers=()):
    """Send requests that are put together from what is unusual, by all makers of this module if none is named."""
    makers = makers or (
        strange_target, strange_target, strange_json, strange_json, strange_arrow, strange_shape, strange_bytes,
        strange_tile, strange_events, strange_fences, strange_fences,
    )  # fmt: skip
    connection = None
    for number in range(count):
        request, whole = makers[number % len(makers)](rng)
        if connection is None:
            connection = socket.create_connection(server.at, timeout=WAIT)
        began = time.monotonic()
        try:
            connection.sendall(request)
            if not whole:
                connection.shutdown(socket.SHUT_WR)
            status, closed = answer_of(connection, request, ends)
        except (ConnectionError, BrokenPipeError):
            status, closed = "closed", True
        assert time.monotonic() - began < SLOWEST, request[:500]
        ends[status] += 1
        assert status != "closed" or not whole or request[:4] not in (b"GET ", b"POST"), request[:500]
        assert not isinstance(status, int) or status < 500 or status == 503, (status, request[:2_000])
        if closed or not whole or number % 50 == 0:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()


def answer_of(connection, request, ends):
    """Return the status of the answers to what was sent, and whether the connection is closed."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(1 << 16)
        if not more:
            return "closed", True
        got += more
    head, _, rest = got.partition(b"\r\n\r\n")
    status = int(head[9:12])
    if status == 100:
        return answer_of_rest(connection, rest, request, ends)
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        while not rest.endswith(b"0\r\n\r\n"):
            rest += more if (more := connection.recv(1 << 16)) else b"0\r\n\r\n"
    elif (length := re.search(rb"content-length: (\d+)", fields)) and not request.startswith(b"HEAD"):
        while len(rest) < int(length[1]):
            more = connection.recv(1 << 16)
            assert more, (head, request[:500])
            rest += more
        if b"json" in fields and status != 304:
            told = json.loads(rest[: int(length[1])])
            assert (
                status < 400 or told.keys() <= FOR_SERVERS or (told["status"] == status and "\n" not in told["detail"])
            ), told
            assert "Traceback" not in str(told.get("detail"))
        if status == 200 and b"arrow" in fields:
            pa.ipc.open_stream(rest).read_all().validate(full=True)
    return status, b"connection: close" in fields


def answer_of_rest(connection, rest, request, ends):
    ends["continued"] += 1
    held = rest or connection.recv(1 << 16)

    class Rest:
        def recv(self, size):
            nonlocal held
            some, held = held, b""
            return some or connection.recv(size)

    return answer_of(Rest(), request, ends)


def pick(rng, values):
    return values[int(rng.integers(0, len(values)))]


def strange_query(rng):
    """A query of parameters that are good, and some that are not."""
    names = ("lon", "lat", "k", "radius", "max_distance", "limit", "x", "columns", "ids", "count", "cursor", "snapshot")
    given = {"lon": "10", "lat": "50"}
    if rng.random() < 0.5:
        given |= {"radius": "500"}
    for _ in range(int(rng.integers(0, 3))):
        given[pick(rng, names)] = pick(rng, NUMBERS)
    if rng.random() < 0.3:
        given[pick(rng, ("where", "having"))] = quoted(pick(rng, CONDITIONS))
    if rng.random() < 0.1:
        given |= {"west": "9.9", "south": pick(rng, NUMBERS), "east": "10.1", "north": "50.1"}
    if rng.random() < 0.1:
        given["columns"] = pick(rng, ("speed,name,seen", ",,,", "speed,speed", "a" * 1_900, "%f0%28%8c%28"))
    return "&".join(f"{name}={value}" for name, value in given.items())


def quoted(text):
    return "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02x}" for b in c.encode()) for c in text)


def encoded(text):
    return text.encode("utf-8").replace(b" ", b"%20").replace(b"\r", b"").replace(b"\n", b"")


def strange_target(rng):
    method = pick(rng, (b"GET", b"GET", b"GET", b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH"))
    target = encoded(pick(rng, PATHS) + "?" + strange_query(rng))
    if rng.random() < 0.05:
        target += b"&where=" + b"a" * int(rng.integers(900, 20_000))
    if rng.random() < 0.05:
        target = pick(rng, (b"/%2e%2e/%2e%2e/etc/passwd", b"//", b"/objects/", b"/objects/%00", b"*", b"/knn/", b"/%f"))
    headers = b"host: localhost\r\n" + pick(rng, HEADERS)
    body = b"hello" if b"content-length: 5" in headers else b""
    return b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, target, headers, body), True


def strange_tile(rng):
    layer = pick(rng, ("objects", "objects", "regions", "cells", "uncertified", "no"))
    z, x, y = (str(int(rng.integers(0, 2**bits))) for bits in (4, 3, 3))
    if rng.random() < 0.5:
        z, x, y = (pick(rng, (one, one, one, quoted(pick(rng, NUMBERS)))) for one in (z, x, y))
    # one that is not open is waited for
    name = NAME if rng.random() < 0.98 else "20250101T000000.000000Z"
    query = pick(rng, ("", "", "by=speed", "by=no", "by=name&", "by=", "by=%ff", "where=&by=free"))
    if rng.random() < 0.3:
        query += "&where=" + quoted(pick(rng, CONDITIONS))
    zipped = pick(rng, (b"", b"accept-encoding: gzip\r\n"))
    target = f"/tiles/{name}/{layer}/{z}/{x}/{y}.mvt?{query}"
    return b"GET %b HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (target.encode(), zipped), True


def post(path, body, kind, rng):
    wanted = pick(rng, (b"", b"accept: " + ARROW.encode() + b"\r\n"))
    if rng.random() < 0.1:
        cut = body[: int(rng.integers(0, len(body) + 1))]
        head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n"
        return head % (path, kind, len(body), wanted) + cut, len(cut) == len(body)
    if rng.random() < 0.2:
        chunks = [body[at : at + 700] for at in range(0, len(body), 700)]
        sent = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n%b\r\n"
        return head % (path, kind, wanted) + sent, True
    expect = b"expect: 100-continue\r\n" if rng.random() < 0.05 else b""
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n"
    return head % (path, kind, len(body), wanted, expect) + body, True


def strange_path(rng, paths):
    """A path of many questions with what it needs, and perhaps with parameters that it has, or does not."""
    path = pick(rng, paths)
    query = {"/knn": "k=3", "/range": "radius=300", "/count": "radius=300"}.get(path, "")
    if rng.random() < 0.3:
        query = strange_query(rng).replace("lon=10&lat=50", query)
    elif rng.random() < 0.4:
        query += f"&where={quoted(pick(rng, CONDITIONS))}"
    return encoded(path + "?" + query)


BULK = ("/knn", "/range", "/count", "/locate", "/reverse_nearest")


def strange_json(rng):
    places = rng.normal([10, 50], 0.1, (int(rng.integers(0, 50)), 2)).tolist()
    text = json.dumps({pick(rng, ("positions", "positions", "positions", "boxes", "radius")): places})
    for _ in range(int(rng.integers(0, 3))):
        at = int(rng.integers(0, len(text)))
        new = pick(rng, (*NUMBERS, "[", "]", "{", "}", ",", '"', ":", "[[" * 900, '{"a":' * 900, "\\ud800", "\t"))
        text = text[:at] + new + text[at + int(rng.integers(0, 9)) :]
    return post(strange_path(rng, (*BULK, "/box")), text.encode("utf-8", "surrogatepass"), b"application/json", rng)


def strange_arrow(rng):
    body = pick(rng, seeds(rng))
    body = broken(body, rng) if rng.random() < 0.8 else body
    return post(strange_path(rng, BULK), body, ARROW.encode(), rng)


def strange_shape(rng):
    corners = int(pick(rng, (0, 1, 2, 3, 4, 9, 300, 5_000)))
    ring = (np.array([10, 50]) + rng.normal(0, float(pick(rng, (1e-9, 0.1, 5.0, 80.0))), (corners, 2))).tolist()
    shape = {"type": pick(rng, ("Polygon", "Polygon", "MultiPolygon", "Point", 5)), "coordinates": [ring]}
    for _ in range(int(pick(rng, (0, 0, 1, 3, 200)))):
        shape = pick(rng, ({"type": "Feature", "geometry": shape}, {"type": "FeatureCollection", "features": [shape]}))
    if rng.random() < 0.1:
        shape = [shape, pick(rng, (None, 5, "x", [], {}, shape))]
    text = json.dumps(shape)
    if rng.random() < 0.3:
        at = int(rng.integers(0, len(text)))
        text = text[:at] + pick(rng, NUMBERS) + text[at + 1 :]
    return post(strange_path(rng, ("/within",)), text.encode(), b"application/json", rng)


def strange_events(rng):
    """A page of events: a stream would not end."""
    names = ("after", "subscription", "kind", "limit", "x")
    given = [(pick(rng, names), quoted(pick(rng, (*CURSORS, *NUMBERS, "enter", "a")))) for _ in range(3)]
    query = "&".join(f"{name}={value}" for name, value in given)
    last = b"last-event-id: %b\r\n" % pick(rng, (*CURSORS, "\xff", " ", "1 " * 300)).encode("latin-1")
    headers = last if rng.random() < 0.3 else b""
    method, target = pick(rng, (b"GET", b"GET", b"GET", b"POST", b"HEAD")), f"/events?limit=5&{query}".encode()
    if rng.random() < 0.3:
        method, target = pick(rng, (b"GET", b"DELETE")), b"/subscriptions/" + quoted(pick(rng, NUMBERS)).encode()
    return b"%b %b HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (method, target, headers), True


def strange_fences(rng):
    """Subscriptions, of which something is wrong more often than not."""
    rows = [pick(rng, FENCES) for _ in range(int(rng.integers(0, 6)))]
    rows = [{**row, "id": f"{row['id']}{number}"} for number, row in enumerate(rows)]
    if rng.random() < 0.3 and rows:
        name = pick(
            rng, ("where", "circle", "box", "words", "events", "expires", "meta", "id", "polygon", "no", "type")
        )
        rows[0] |= {name: pick(rng, (None, 5, -1e308, "x", CONDITIONS[3], [], [1, 2], {"a": {}}, "a" * 9_000, True))}
    text = "\n".join(map(json.dumps, rows))
    if rng.random() < 0.5:
        text = json.dumps(pick(rng, (rows, {"type": "FeatureCollection", "features": rows}, {"features": rows})))
    for _ in range(int(rng.integers(0, 2))):
        at = int(rng.integers(0, len(text) + 1))
        new = pick(rng, (*NUMBERS, "[", "}", ",", '"', "[[" * 900, '{"a":' * 900, "\\ud800", "\n", "\ufeff", "PAR1"))
        text = text[:at] + new + text[at + int(rng.integers(0, 9)) :]
    return post(b"/subscriptions", text.encode("utf-8", "surrogatepass"), b"application/json", rng)


def strange_bytes(rng):
    good = b"GET /knn?lon=10&lat=50 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    some = (
        bytes(rng.integers(0, 256, 300, dtype=np.uint8)), good[: int(rng.integers(1, len(good)))],
        b"GET /knn?lon=10&lat=50 HTTP/9.9\r\n\r\n", b"GET /knn?lon=10&lat=50\r\n\r\n", b"\r\n" * 50, b"\0" * 100,
        good.replace(b"host", b"h\0st"), good.replace(b"host: x", b"host: localhost\r\n" + b"a: b\r\n" * 2_000),
        b"POST /knn HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /knn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /knn HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01" + b"\0" * 200,
        b"GET /knn?lon=10&lat=50 HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    )  # fmt: skip
    return pick(rng, some), False


# -- by schemathesis --------------------------------------------------------------------------------------------------

ENDLESS = {"/live", "/events"}
"""Routes whose answers do not end."""
ANY_TEXT = {"/static/{path}", "/report/{path}", "/subscriptions/{subscription_id}"}
"""Routes of which no text is a wrong parameter."""


def by_schema(server, count, seed, ends):
    """Send requests that schemathesis makes of what the worker says of itself."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis import strategies as st

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis
        from schemathesis import GenerationMode
        from schemathesis.checks import not_a_server_error
        from schemathesis.specs.openapi.checks import (
            content_type_conformance,
            response_schema_conformance,
            status_code_conformance,
        )

        schemathesis.openapi.media_type(ARROW, st.sampled_from(seeds(np.random.default_rng(seed))))
        with Asker(server) as asker:
            text = asker.get("/openapi.json")
        schema = schemathesis.openapi.from_dict(text)
        base = "http://{}:{}".format(*server.at)
        checks = [
            not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
        ]  # fmt: skip
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) >= 15
        for operation in (one for one in operations if one.path not in ENDLESS):
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                if mode == GenerationMode.NEGATIVE and (
                    operation.path in ANY_TEXT or not list(operation.iter_parameters())
                ):
                    continue

                @seeded(seed)
                @settings(
                    max_examples=max(count // len(operations) // 2, 1), deadline=None, database=None,
                    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
                )  # fmt: skip
                @given(case=operation.as_strategy(generation_mode=mode))
                def ask(case):
                    response = case.call(base_url=base, timeout=SLOWEST)
                    ends[response.status_code] += 1
                    ends["made"] += 1
                    case.validate_response(response, checks=checks)

                ask()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
