"""The short way: frequent questions are answered from the parsed header, without an ASGI scope, task or framework.

uvicorn parses, keeps connections alive, queues what is pipelined and shuts down; only what happens at the end of a
header is replaced. A request that is unusual in any way takes uvicorn's own way, and gets byte for byte the same
answer.

``POST /forward`` on the short way: the questions of another server's turn, answered when their bytes are there.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter
from typing import Any
from urllib.parse import unquote

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from dtoss.serve.answers.json_out import ObjectQuestion, etag, object_answer
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.auth.admission import HEADER
from dtoss.serve.auth.tokens import ADMITTED
from dtoss.serve.cluster.wire_messages import WIRE_HEADER, WIRE_SAID
from dtoss.serve.core.connection_limits import Guard, GuardedProtocol
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import ASKER, hits_in
from dtoss.serve.observability.shared_counts import HOT_ROUTES
from dtoss.serve.requests.bundles import FORWARD_PATH, Bundle, answer_bundle, is_quick, read_bundle
from dtoss.serve.requests.front import REQUEST_ID, RequestIds
from dtoss.serve.requests.hot_requests import (
    HOT_RANGE,
    OBJECT,
    WINDOWS_ROUTE,
    Gathering,
    Reading,
    Target,
    read_target,
    reading_of,
)
from dtoss.serve.state.worker_state import WorkerState

ELSEWHERE = frozenset(
    (b"if-none-match", b"origin", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"range")
)
"""Headers that make a request unusual."""
NOTICED = ELSEWHERE | {b"authorization", b"accept", b"x-request-id", HEADER}
"""Headers that are looked at."""
HEAD = b"%b%d\r\netag: %b\r\n%bcache-control: no-cache\r\nvary: accept\r\nx-request-id: %b%b"
"""From the content's length to the end of the headers."""
OBJECT_PATHS, WINDOWS_PATHS = b"/objects/", b"/windows/"
PATH_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%")
"""What a hot path's last part is made of."""


class NoBody:
    """What uvicorn sets when a message goes on: nobody waits for it."""

    def set(self) -> None:
        """Do nothing."""


class Desk:
    """What the connections of a worker share."""

    def __init__(self, state: WorkerState, loop: asyncio.AbstractEventLoop, ids: RequestIds) -> None:
        limits = state.settings.limits
        self.state = state
        self.gathering = Gathering(state, loop)
        self.ids = ids
        self.reading: Reading | None = reading_of(
            state.serving.now.index.space, limits.k, limits.condition_length, limits.line_bytes
        )
        self.times: tuple[list[float], ...] = tuple([] for _ in HOT_ROUTES)
        self.bytes = [0 for _ in HOT_ROUTES]
        self._loop = loop
        self._date: tuple[list[tuple[bytes, bytes]] | None, bytes] = (None, b"")

    def beginning(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the first line and the headers that uvicorn puts before all others, which it makes each second."""
        if self._date[0] is not headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._date = (
                headers,
                b"HTTP/1.1 200 OK\r\n" + lines + b"content-type: application/json\r\ncontent-length: ",
            )
        return self._date[1]

    def count(self, kind: int, seconds: float, sent: int) -> None:
        """Count an answer; those of a turn are told together."""
        if not any(self.times):
            self._loop.call_soon(self._tell)
        self.times[kind].append(seconds)
        self.bytes[kind] += sent

    def _tell(self) -> None:
        for kind, times in enumerate(self.times):
            if times:
                self.state.metrics.hot(kind, times, self.bytes[kind])
        self.times, self.bytes = tuple([] for _ in HOT_ROUTES), [0 for _ in HOT_ROUTES]


class HotRequest:
    """A question on the short way, which stands where uvicorn expects the cycle of a request and its response."""

    __slots__ = (
        "began", "disconnected", "id", "k", "keep_alive", "kind", "more_body", "protocol", "radius",
        "response_complete", "scope", "target", "where", "x", "y",
    )  # fmt: skip
    message_event = NoBody()

    def __init__(self, protocol: HotProtocol, target: Target, began: float, request_id: str) -> None:
        self.protocol = protocol
        self.kind, self.x, self.y, self.k, self.radius, self.where = target
        self.began = began
        self.id = request_id
        self.target = protocol.url
        self.scope: Any = protocol.scope
        self.response_complete = self.disconnected = False
        self.more_body = False
        self.keep_alive = True

    @property
    def asker(self) -> str:
        """The name of its token."""
        name: str = self.scope[ADMITTED].name
        return name

    def answered(self, served: ServedSnapshot, body: bytes, tag: bytes | None = None) -> None:
        """Write the answer, with an ETag of its own, or that of the snapshot and the target."""
        protocol = self.protocol
        self.response_complete = True
        if self.disconnected:
            return
        desk = protocol.desk
        head = HEAD % (
            desk.beginning(protocol.server_state.default_headers),
            len(body),
            etag(served, self.target + self.scope[ADMITTED].mark) if tag is None else tag,
            served.header_lines,
            self.id.encode(),
            b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n",
        )
        protocol.transport.write(head + body)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()
        seconds = perf_counter() - self.began
        desk.count(self.kind, seconds, len(body))
        if (audit := desk.state.audit) is not None:
            audit.request(
                id=self.id, token=self.asker, client=self.scope.get("client"), method="GET",
                route=HOT_ROUTES[self.kind], target=self.target, status=200,
                hits=1 if self.kind == OBJECT else hits_in(body) if self.kind != WINDOWS_ROUTE else None,
            )  # fmt: skip
        if seconds >= desk.state.settings.slow:
            desk.state.log.request(
                id=self.id, route=HOT_ROUTES[self.kind], status=200, seconds=seconds,
                token=self.asker, detail=None,
            )  # fmt: skip

    def elsewhere(self) -> None:
        """Go on by way of the framework, unless there is an answer."""
        if self.response_complete:
            return
        self.response_complete = True
        if not self.disconnected:
            self.protocol.take_long_way(self)


class HotProtocol(GuardedProtocol):
    """A connection whose frequent questions take the short way."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        guard: Guard,
        desk: Desk,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop, guard=guard)
        self.desk = desk

    def on_headers_complete(self) -> None:
        """Answer what may take the short way; leave all else to uvicorn."""
        if not self._is_hot():
            super().on_headers_complete()

    def _is_hot(self) -> bool:
        desk, parser = self.desk, self.parser
        if desk.reading is None or (self.cycle is not None and not self.cycle.response_complete):
            return False
        url = self.url
        if url == FORWARD:
            if not is_short(self, self.headers):
                return False
            self.cycle = self.in_hand = ForwardRequest(self)  # type: ignore[assignment]
            return True
        ready = None
        if url.startswith(WINDOWS_PATHS):
            ready = desk.state.windows.ready(url, desk.state.serving.now.name)
            target = None if ready is None else _WINDOWS
        else:
            target = _object(url) if url.startswith(OBJECT_PATHS) else read_target(url, desk.reading)
        if (
            target is None
            or parser.get_method() != b"GET"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or self.flow.write_paused
            or (self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency)
        ):
            return False
        token, request_id, hosts = None, None, 0
        ours = desk.state.doors.hosts
        for name, value in self.headers:
            if name in NOTICED:
                if name in ELSEWHERE or (name == b"accept" and b"arrow" in value):
                    return False
                if name == b"authorization":
                    if token is not None:
                        return False
                    token = value
                elif name == b"x-request-id":
                    request_id = value
                elif name == HEADER:
                    hosts += 1 if ours.takes(value) else 2
        if hosts != 1:
            return False
        try:
            scope: Any = self.scope
            admitted = scope[ADMITTED] = desk.state.doors.admit(token)
        except Problem:
            return False
        if admitted.narrowed:
            if target.kind > HOT_RANGE or target.where is not None:
                return False  # what it may see of these is looked at there
            target = target._replace(where=admitted.where)
        request = HotRequest(self, target, perf_counter(), desk.ids.take(request_id))
        self.cycle = self.in_hand = request  # type: ignore[assignment]
        if ready is not None:
            tag, body = ready
            self.loop.call_soon(request.answered, desk.state.serving.now, body, tag)
        elif target.kind == OBJECT:
            self._object(request)
        else:
            desk.gathering.add(request)
        return True

    def _object(self, request: HotRequest) -> None:
        served = self.desk.state.serving.now
        if served.share is not None:  # another server may have it
            self.loop.call_soon(request.elsewhere)
            return
        text = unquote(request.target[len(OBJECT_PATHS) :].decode())
        try:
            body, (x, y) = object_answer(served, ObjectQuestion(text))
        except KeyError:
            self.loop.call_soon(request.elsewhere)
            return
        self.desk.state.accesses.many(x, y, None, None)
        self.loop.call_soon(request.answered, served, body)

    def take_long_way(self, request: HotRequest) -> None:
        """Give a request to the framework after all."""
        scope: Any = request.scope
        path, _, query = request.target.partition(b"?")
        text = path.decode("ascii")
        scope["method"] = "GET"
        scope["path"] = self.root_path + (unquote(text) if "%" in text else text)
        scope["raw_path"] = self.root_path.encode("ascii") + path
        scope["query_string"] = query
        scope[REQUEST_ID] = request.id
        cycle = RequestResponseCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=request.keep_alive,
            on_response=self.on_response_complete,
        )
        cycle.more_body = False
        cycle.message_event.set()
        current: Any = self.cycle
        if current is request:
            self.cycle = cycle
        self._start_asgi_task(cycle, self.app)


_WINDOWS = Target(WINDOWS_ROUTE, 0.0, 0.0, 0, 0.0, None)


def _object(url: bytes) -> Target | None:
    """Return the question for an object, None where its path is unusual."""
    if len(url) > 200 or not PATH_BYTES.issuperset(url[len(OBJECT_PATHS) :]) or len(url) == len(OBJECT_PATHS):
        return None
    return Target(OBJECT, 0.0, 0.0, 0, 0.0, None)


FORWARD = FORWARD_PATH.encode()
FORWARD_BYTES = 4_000_000
"""Of a message on the short way."""
FORWARD_HEAD = (
    b"HTTP/1.1 %d .\r\ncontent-type: application/octet-stream\r\n" + WIRE_HEADER + b": " + WIRE_SAID
    + b"\r\ncontent-length: %d\r\n%b\r\n"
)  # fmt: skip


class _Whole:
    """What uvicorn sets when a piece of the body is there."""

    __slots__ = ("request",)

    def __init__(self, request: ForwardRequest) -> None:
        self.request = request

    def set(self) -> None:
        """Answer when it was the last, as soon as the parser is done: a header is bounded by what comes after it."""
        protocol = self.request.protocol
        if self.request.more_body:
            protocol.flow.resume_reading()  # uvicorn waits for somebody to take what is there of a long body
        else:
            protocol.loop.call_soon(self.request.answer)


class ForwardRequest:
    """A message of another server, which stands where uvicorn expects the cycle of a request and its response."""

    __slots__ = (
        "body", "disconnected", "headers", "keep_alive", "message_event", "more_body", "protocol", "response_complete",
        "response_started", "scope",
    )  # fmt: skip

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.scope, self.headers = protocol.scope, protocol.headers
        self.body = bytearray()
        self.more_body = self.keep_alive = True
        self.disconnected = self.response_complete = self.response_started = False
        self.message_event = _Whole(self)

    def late(self, seconds: float) -> None:
        """Refuse a body that has not come in time."""
        self.keep_alive = False
        self._refuse(
            Problem(408, f"the body did not come within {seconds:g} seconds", limit="idle_seconds", bound=seconds)
        )

    def _refuse(self, problem: Problem) -> None:
        self._write(problem.status, problem.body(self.protocol.desk.ids.take(None)))

    def answer(self) -> None:
        """Write the answer."""
        if self.response_complete or self.disconnected:
            return
        protocol, state = self.protocol, self.protocol.desk.state
        try:
            bundle = read_bundle(state, bytes(self.body))
        except Problem as problem:
            self._refuse(problem)
            return
        if is_quick(bundle):
            self._write(*answer_bundle(state, bundle))
        else:
            task = protocol.loop.create_task(self._answer_later(bundle))
            protocol.tasks.add(task)
            task.add_done_callback(protocol.tasks.discard)

    async def _answer_later(self, bundle: Bundle) -> None:
        """Write the answer of a message that would hold up the loop, once a thread has made it."""
        state = self.protocol.desk.state
        try:
            said = await state.for_others.run(None, partial(answer_bundle, state, bundle))
        except Problem as problem:
            said = problem.status, problem.body(self.protocol.desk.ids.take(None))
        except Exception as error:
            state.log.event("bundle failed", error=error)
            said = 500, b"{}"
        with state.for_others.unread.holds(len(said[1])):
            self._write(*said)
            await self.protocol.flow.drain()

    def _write(self, status: int, body: bytes) -> None:
        if self.disconnected:
            return
        protocol, self.response_complete = self.protocol, True
        if (audit := protocol.desk.state.audit) is not None:
            given = dict(self.headers)
            audit.request(
                id=protocol.desk.ids.take(given.get(b"x-request-id")), token=self.scope[ADMITTED].name,
                client=self.scope.get("client"), method="POST", route=FORWARD_PATH, target=FORWARD, status=status,
                asker=given.get(ASKER),
            )  # fmt: skip
        close = b"" if self.keep_alive else b"connection: close\r\n"
        protocol.transport.write(FORWARD_HEAD % (status, len(body), close) + body)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


def is_short(protocol: Any, headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a message takes the short way: who sends it may ask, and it is not long."""
    state = protocol.desk.state
    if protocol.flow.write_paused:
        return False  # the long way waits until somebody reads
    if state.circle is None or protocol.parser.get_method() != b"POST" or not protocol.parser.should_keep_alive():
        return False
    token, length, hosts = None, b"", 0
    most = min(FORWARD_BYTES, state.settings.limits.body_bytes)
    for name, value in headers:
        if name == b"host":
            hosts += 1 if state.doors.hosts.takes(value) else 2
        elif name == b"authorization":
            token = value
        elif name == b"content-length":
            length = value
        elif name in (b"transfer-encoding", b"expect", b"upgrade") or (name == WIRE_HEADER and value != WIRE_SAID):
            return False  # the long way looks at what is unusual
    if hosts != 1 or len(length) >= 8 or not length.isdigit() or int(length) > most:
        return False
    return _may_ask(state, token, protocol.scope)


def _may_ask(state: Any, token: bytes | None, scope: Any) -> bool:
    try:
        scope[ADMITTED] = state.doors.admit(token)
    except Problem:
        return False  # the long way says why
    return bool(state.doors.is_peer(token))
