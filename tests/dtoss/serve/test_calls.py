"""The table of calls, cell by cell: who may make each, what bounds it, and what becomes of who does not play along."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from dtoss.serve.auth.admission import Doors, Hosts
from dtoss.serve.auth.route_table import (
    ADMINS,
    BESIDE,
    CALLS,
    EVENT_STREAM,
    GETS_SAME,
    GETS_SEEN,
    GETS_SUMS,
    LIVE_STREAM,
    ON_LOOP,
    OPEN,
    OPEN_PATHS,
    READER,
    SERVER,
    TELLER,
    WAYS,
    WRITER,
)
from dtoss.serve.cluster import wire_messages
from dtoss.serve.core.server_settings import Limits, Paces
from dtoss.serve.requests.bundles import QUICK_GROUPS, packed_bundle
from dtoss.shards.merge_answers import SHARE_STEPS
from tests.dtoss.serve.calling import (
    LIMITS,
    ROUTES,
    TOKENS,
    all_calls,
    ask,
    beyond,
    busy,
    group_of,
    long_way,
    pool_of,
    request_of,
    token_for,
)
from tests.dtoss.serve.events.listening import Watch
from tests.dtoss.serve.served import WAIT, running, town, until
from tests.dtoss.windows.storage.kept import SECOND, begin, commit

NAMES = [f"{call.method} {call.path}{' ' + call.message if call.message else ''}" for call in CALLS]
EACH_CALL = pytest.mark.parametrize("call", CALLS, ids=NAMES)
SOME, SUMS_TOO = "t-9f1c-n", "t-9f1c-u"
"""Tokens that may see some objects, the one sums over all of them too."""
EACH_ROUTE = pytest.mark.parametrize("call", ROUTES.values(), ids=lambda call: f"{call.method} {call.path}")


@pytest.fixture(scope="module")
def index():
    """An index on the sphere."""
    return town()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store with windows and a watch, a report, and tokens."""
    made = tmp_path_factory.mktemp("calls")
    home, fixed = begin(made / "store", name="fleet")
    rng = np.random.default_rng(0)
    for number in range(2):
        t = rng.integers(number * 60 * SECOND, (number + 1) * 60 * SECOND, 150).tolist()
        commit(home, fixed, [(int(rng.integers(9)), one, *rng.uniform(-2, 12, 2).tolist()) for one in t])
    Watch(made / "store").begin().batch()
    (made / "report").mkdir()
    (made / "report" / "report.html").write_text("<p>report</p>")
    (made / "report" / "large.html").write_bytes(b" " * 20_000_000)
    lines = (
        ("fleet", READER, ""),
        ("editor", WRITER, "write"),
        ("gate", TELLER, "positions"),
        ("plan", SERVER, "peer"),
        ("boss", ADMINS, "admin"),
    )
    some = f"some {SOME} where='id % 2 = 0' subscribe\nsums {SUMS_TOO} where='id % 2 = 0' aggregates\n"
    (made / "tokens").write_text("".join(f"{name} {TOKENS[who]} {word}\n" for name, who, word in lines) + some)
    return made


@pytest.fixture(scope="module")
def asked(index, folder):
    """Returns who answers a call, where there are tokens."""
    with all_calls(index, folder, Doors(str(folder / "tokens"))) as found:
        yield found


# -- the table is whole -----------------------------------------------------------------------------------------------


def test_each_route_and_message_has_a_row(index, folder, asked):
    """And each row is of one that is there."""
    found = set()
    for call in (ROUTES["GET", "/"], ROUTES["POST", "/partial"]):
        status, text = ask(asked(call), "GET", "/openapi.json", token=TOKENS[SERVER])
        assert status == 200
        found |= {(method.upper(), path) for path, of in json.loads(text)["paths"].items() for method in of}
    assert found == set(ROUTES)
    messages = [call.message for call in CALLS if call.message is not None]
    kinds = [*(name for name in vars(wire_messages) if re.fullmatch(r"OF_[A-Z]+", name)), *SHARE_STEPS]
    assert (len(messages), len(set(messages))) == (len(kinds), len(kinds))
    assert {call.way for call in CALLS} == set(WAYS)


def test_the_table_names_limits_that_there_are():
    known = set(asdict(LIMITS))
    for call in CALLS:
        assert known >= {*call.asks, *call.way.limits, *([call.body] if call.body else [])}, call


def shown_calls():
    """Yield the rows of the table as docs/serve.md has it: calls of the same cells are one."""

    def cells(call):
        return call.who, call.narrowed, call.body or "", ", ".join(call.asks), call.way.name

    for (who, narrowed, body, asks, way), some in groupby(CALLS, cells):
        named = ", ".join(f"`{call.method} {call.path}`{_of(call.message)}" for call in some)
        bounds = ", ".join(map(_limit, asks.split(", ")))
        yield f"| {named} | {who} | {narrowed} | {_limit(body)} | {bounds} | {way} |"


def _of(message):
    return "" if message is None else f" of `{message}`"


def _limit(name):
    return f"`{name}`" if name else "-"


def shown_ways():
    """Yield the rows of the ways as docs/serve.md has them."""
    for way in WAYS:
        yield f"| {way.name} | {way.does} | {', '.join(map(_limit, way.limits)) or '-'} |"


def test_the_document_shows_the_table():
    text = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
    below = text.partition("\n## Who may call what\n")[2].partition("\n## ")[0]
    shown = [line for line in below.splitlines() if line.startswith("| ")]
    assert [line for line in shown if not line.startswith(("| call", "| way"))] == [*shown_calls(), *shown_ways()]


# -- who --------------------------------------------------------------------------------------------------------------


@EACH_ROUTE
def test_who_may_make_a_call(asked, call):
    """Each token and none, at each route; who is refused leaves a line in the log, and no token."""
    server = asked(call)
    path, body = request_of(server, call)
    for who in (None, READER, WRITER, TELLER, SERVER, ADMINS):
        before = len(server.heard.requests)
        status, said = ask(server, call.method, path, body, token=TOKENS.get(who))
        if call.who == OPEN or who == call.who or (call.who == READER and who is not None):
            assert status not in (401, 403, 500), (who, said)
            continue
        assert status == (401 if who is None else 403), (who, said)
        until(lambda at=before: len(server.heard.requests) > at)
        assert [one["status"] for one in server.heard.requests[before:]] == [status]
        assert not any(token in str(server.heard.requests[before:]) for token in TOKENS.values())
    assert (call.path in OPEN_PATHS) == (call.who == OPEN and "{" not in call.path)


@EACH_ROUTE
def test_what_a_token_may_call_that_sees_some_objects(asked, call):
    """As the table says: of what it sees, of all alike, sums where its line says so, or nothing."""
    server = asked(call)
    path, body = request_of(server, call)
    for token, sums in ((SOME, False), (SUMS_TOO, True)):
        status, said = ask(server, call.method, path, body, token=token)
        if call.path == "/metrics" or call.who in (SERVER, TELLER) or (call.who == WRITER and sums):
            assert status == 403
        elif call.narrowed in (GETS_SEEN, GETS_SAME) or (call.narrowed == GETS_SUMS and sums):
            assert status not in (401, 403, 500), said
        else:
            assert status == 403


def test_without_tokens_loopback_may_make_every_call_but_to_write(index, folder):
    """Under names of this machine: no call is answered to a page of another site."""
    doors = Doors()
    doors.hosts = Hosts([])
    with all_calls(index, folder, doors) as found:
        for call in ROUTES.values():
            path, body = request_of(found(call), call)
            status, said = ask(found(call), call.method, path, body, host="evil.example")
            assert (status, said["limit"]) == (403, "host"), call
            status, said = ask(found(call), call.method, path, body, host="localhost:80")
            assert (status == 403) == (call.who == WRITER), (call, said)


# -- bytes ------------------------------------------------------------------------------------------------------------


def bound_of(call):
    """Bytes that a body may have."""
    return {"corners": 400 * LIMITS.corners}.get(call.body) or getattr(LIMITS, call.body)


@EACH_ROUTE
def test_bodies_are_bounded_and_who_sends_too_much_reads_why(asked, call):
    """All of it is sent before a byte is read. Where none is read, one is forgotten, and changes nothing."""
    server, (path, body) = asked(call), request_of(asked(call), call)
    if call.body is None:
        wanted = ask(server, call.method, path, token=token_for(call))[0]
        assert ask(server, call.method, path, b" " * LIMITS.body_bytes, token=token_for(call))[0] == wanted
        return
    size = bound_of(call) + 1
    for kept in ("close", "keep-alive"):
        status, said = ask(
            server, call.method, path, body + b" " * (size - len(body)), token=token_for(call), connection=kept
        )
        assert (status, said["limit"], said["bound"]) == (413, call.body, getattr(LIMITS, call.body))


def sweep(server, links):
    """Look after the connections of a server at a time when all of them are late; their heads have come by then."""
    held, clients = server.server.server_state.connections, {link.getsockname() for link in links}
    until(lambda: clients <= {one.client for one in list(held) if one.cycle is not None})

    async def look():
        connections = list(held)
        for now in (0.0, LIMITS.idle_seconds):
            connections[0].guard.sweep([one for one in connections if one.cycle is not None], now)

    asyncio.run_coroutine_threadsafe(look(), server.loop).result(WAIT)


def test_bodies_that_do_not_come_are_not_waited_for_and_nothing_is_left_of_them(asked):
    """Whoever sends slowly hears 408; whoever goes away is counted, and no thread is left with it."""
    of_body = [call for call in ROUTES.values() if call.body is not None]
    with ExitStack() as stack:
        waiting = []
        for call in of_body:
            link = stack.enter_context(socket.create_connection(asked(call).at, timeout=WAIT))
            head = f"POST {call.path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token_for(call)}\r\n"
            link.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
            waiting.append(link)
            with socket.create_connection(asked(call).at, timeout=WAIT) as gone:
                gone.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
        short = asked(ROUTES["POST", "/forward"])
        sweep(short, [link for call, link in zip(of_body, waiting, strict=True) if asked(call) is short])
        for call, link in zip(of_body, waiting, strict=True):
            said = link.recv(1 << 16)
            assert said.startswith(b"HTTP/1.1 408"), (call, said)
            assert b'"limit":"idle_seconds"' in said
    for call in of_body:
        server = asked(call)
        until(lambda server=server: server.state.pool.inside == server.state.pool.unread.bytes == 0)
        assert not [one for one in server.heard.requests if one["status"] == 500]


# -- what is asked ----------------------------------------------------------------------------------------------------


@EACH_CALL
def test_what_a_call_asks_for_is_bounded(index, folder, asked, call):
    """Each limit of it is named where it is passed, with its bound; nothing fails."""
    server = asked(call)
    for limit in call.asks:
        if limit == "hits" and call.path.startswith("/windows"):
            continue  # of a worker with a limit of less: below
        status, said = ask(server, call.method, *beyond(server, call, limit), token=token_for(call))
        assert status in (400, 413, 422), (limit, said)
        number = getattr(LIMITS, limit)
        known = {number, 3 * number + 60, 6 * number, 4 * number, 12 * LIMITS.bulk_queries}
        told = said.get("bound") in known or f"{number:,}" in json.dumps(said)
        assert told, (limit, said)
    if "line_bytes" not in call.asks and call.method == "GET":
        path, _ = request_of(server, call)
        status, said = ask(server, "GET", f"{path}{'&' if '?' in path else '?'}where={'x' * LIMITS.line_bytes}")
        assert (status, said["limit"]) == (414, "line_bytes")


def test_windows_of_more_rows_than_an_answer_has_are_refused(index, folder):
    with running(index, store=str(folder / "store"), limits=Limits(hits=1)) as server:
        for call in (call for call in CALLS if call.path.startswith("/windows") and call.asks):
            path, _ = request_of(server, call)
            status, said = ask(server, "GET", path + ("&until=100" if "series" in path else ""))
            assert (status, said.get("limit"), said.get("bound")) == (413, "hits", 1), (call, said)


# -- time and memory --------------------------------------------------------------------------------------------------


@EACH_CALL
def test_a_call_whose_place_is_full_says_so_at_once(asked, call):
    """Where its threads are busy and as many wait as may; what needs none of them is answered."""
    server, pool = asked(call), pool_of(asked(call), call)
    (path, body), headers = long_way(server, call)
    if call.path == "/events":
        path += "?limit=1"
    with busy(server, pool, LIMITS.pool_queue * (16 if call.who == SERVER else 1)):
        status, said = ask(server, call.method, path, body, token=token_for(call), **headers)
    quick = call.way in (ON_LOOP, BESIDE, LIVE_STREAM) or call.path == "/forward"
    assert (status == 503) == (not quick), said
    if not quick:
        assert said["limit"] == "pool_queue"
    pool.unread.bytes += LIMITS.answer_bytes + 1
    try:
        status, said = ask(server, call.method, path, body, token=token_for(call), **headers)
    finally:
        pool.unread.bytes -= LIMITS.answer_bytes + 1
    assert (status == 503 and said["limit"] == "answer_bytes") == (not quick), said


def test_a_long_message_of_servers_needs_a_thread(asked):
    """A short one is answered on the loop, also where all threads are busy."""
    server = asked(ROUTES["POST", "/forward"])
    name, token = server.serving.now.name, TOKENS[SERVER]
    with busy(server, server.state.for_others, 16 * LIMITS.pool_queue):
        for groups, wanted in ((QUICK_GROUPS, 200), (QUICK_GROUPS + 1, 503)):
            body = packed_bundle(name, [group_of(np.array([[10.0, 50.0]]))] * groups)
            for headers in ({}, {"expect": ""}):  # by the short way, and by the long one
                assert ask(server, "POST", "/forward", body, token=token, **headers)[0] == wanted


def test_who_asks_for_metrics_meanwhile_gets_the_same(index):
    """A text is made once for all who ask while it is made."""
    begun, go, made = threading.Event(), threading.Event(), []

    def text():
        made.append(1)
        begun.set()
        go.wait(WAIT)
        return b"dtoss_up 1\n"

    with running(index) as server, ThreadPoolExecutor(5) as threads:
        server.heard.text = text
        asking = [threads.submit(ask, server, "GET", "/metrics")]
        assert begun.wait(WAIT)
        asking += [threads.submit(ask, server, "GET", "/metrics") for _ in range(4)]
        until(lambda: len(server.server.server_state.tasks) == 5)
        assert ask(server, "GET", "/snapshot")[0] == 200  # after them on the loop, so all of them wait by now
        go.set()
        assert [one.result() for one in asking] == [(200, b"dtoss_up 1\n")] * 5
    assert len(made) == 1


def test_few_wait_for_a_snapshot_that_another_worker_may_have(index):
    """Others are told at once that it is not there."""
    tile = "/tiles/20990101T000000.000000Z/objects/3/4/2.mvt"
    with (
        running(index, limits=LIMITS, paces=Paces(elsewhere=2.0)) as server,
        ThreadPoolExecutor(LIMITS.pool_queue) as threads,
    ):
        waiting = [threads.submit(ask, server, "GET", tile) for _ in range(LIMITS.pool_queue)]
        until(lambda: len(server.server.server_state.tasks) == LIMITS.pool_queue)
        assert ask(server, "GET", tile)[0] == 410
        assert not any(one.done() for one in waiting)
        assert [one.result()[0] for one in waiting] == [410] * LIMITS.pool_queue


def test_a_call_that_takes_too_long_is_given_up(index, folder):
    """Whatever takes its time in a thread, waiting included."""
    limits = Limits(pool_seconds=0.05, pool_queue=400)
    with all_calls(index, folder, Doors(str(folder / "tokens")), limits=limits) as found:
        for call in CALLS:
            server, pool = found(call), pool_of(found(call), call)
            if "pool_seconds" not in call.way.limits or call.path == "/forward":
                continue
            (path, body), headers = long_way(server, call)
            with busy(server, pool, 0):
                status, said = ask(server, call.method, path, body, token=token_for(call), **headers)
            assert (status, said.get("limit")) == (503, "pool_seconds"), (call, said)


@pytest.mark.parametrize("path", ["/live", "/events"])
def test_streams_are_counted(asked, path):
    """One more than may be open is told so; whoever goes away makes room."""
    call = ROUTES["GET", path]
    assert [one.path for one in CALLS if one.way in (LIVE_STREAM, EVENT_STREAM)] == ["/live", "/events"]
    (limit, *_), server = call.way.limits, asked(call)
    with ExitStack() as stack:
        for _ in range(getattr(LIMITS, limit)):
            link = http.client.HTTPConnection(*server.at, timeout=WAIT)
            stack.callback(link.close)
            link.request("GET", call.path, headers={"Authorization": f"Bearer {TOKENS[READER]}"})
            assert link.getresponse().status == 200
        status, said = ask(server, "GET", call.path, token=TOKENS[READER])
        assert (status, said["limit"], said["bound"]) == (503, limit, getattr(LIMITS, limit))
    until(lambda: ask(server, "GET", call.path, token=TOKENS[READER])[0] == 200)


def test_a_large_answer_is_written_as_it_is_read(asked):
    """Of a client that reads nothing a piece or two wait in its connection, and all of it is counted until it goes."""
    server, unread = asked(ROUTES["GET", "/report"]), asked(ROUTES["GET", "/report"]).state.pool.unread
    with socket.create_connection(server.at, timeout=WAIT) as idle:
        idle.sendall(
            f"GET /report/large.html HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKENS[READER]}\r\n\r\n".encode()
        )
        until(lambda: unread.bytes == 20_000_000)
        me = idle.getsockname()
        (mine,) = (one for one in list(server.server.server_state.connections)
                   if one.transport.get_extra_info("peername") == me)  # fmt: skip
        assert mine.transport.get_write_buffer_size() < 1_000_000
    until(lambda: unread.bytes == 0)
    status, body = ask(server, "GET", "/report/large.html", token=TOKENS[READER])
    assert (status, body) == (200, b" " * 20_000_000)
