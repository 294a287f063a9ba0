"""What every request passes before and after the framework, and what several servers are asked together.

A failure inside is answered without a trace of it; the log has it, under the id that the answer carries.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from http import HTTPStatus
from itertools import count
from secrets import token_hex
from time import perf_counter
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from dtoss.serve.answers.open_snapshots import ANSWERING, GIVEN, ClusterOptions
from dtoss.serve.auth.admission import HEADER as HOST
from dtoss.serve.auth.route_table import OPEN_PATHS
from dtoss.serve.auth.tokens import ADMITTED, EVERYBODY, PEER, is_pass
from dtoss.serve.core.pool import Unread
from dtoss.serve.core.problems import PROBLEM_TYPE, Problem
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.observability.log_lines import ASKER, NOTED_HITS, NOTED_PLACES, Audit
from dtoss.serve.requests.hot_requests import with_plain_numbers
from dtoss.serve.state.worker_state import WorkerState

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID = "dtoss.request_id"
"""Of a scope: the id of the request."""
DETAIL = "dtoss.detail"
"""Of a scope: what is wrong with the request."""
LASTS = "dtoss.lasts"
"""Of a scope: when its answer began, of one that goes on for as long as somebody listens; it is timed until then."""
FILES = "/static/"
"""How paths of the pages' files begin, which need none either."""
REPORT_PATH = "/report"
"""How paths of the report begin, for which a pass does as well."""
WRITTEN_BYTES = 1 << 18
"""Of a body that are written before it is looked whether its client reads."""
FORGOTTEN = 8
"""Times the largest body: so much of a request that is refused is read, that its client may read why."""
MIN_SEQ = "min_seq"
"""The parameter: a sequence number of the log, up to which an answer holds all rows."""
_WHOLE = re.compile(r"[0-9]{1,18}").fullmatch
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Ids of requests: what a client gives if it is plain, or a fresh one."""

    def __init__(self) -> None:
        self._of_worker = token_hex(3)
        self._next = count(1).__next__

    def take(self, given: bytes | None) -> str:
        """Return the id of a request."""
        if given is not None and _GIVEN.fullmatch(given):
            return given.decode()
        return f"{self._of_worker}-{self._next():x}"


class Front:
    """The application that a server runs."""

    def __init__(self, state: WorkerState, app: App, ids: RequestIds) -> None:
        self._state = state
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        headers = dict(reversed(scope["headers"]))
        request_id = scope.get(REQUEST_ID) or self._ids.take(headers.get(b"x-request-id"))
        scope[REQUEST_ID] = request_id
        added = [(b"x-request-id", request_id.encode()), *self._state.doors.cors(headers.get(b"origin"))]
        sent = _Sent(send, added, scope["http_version"], self._state.pool.unread)
        if b"content-length" in headers or b"transfer-encoding" in headers:
            receive = sent.rest = _Rest(receive, self._state.settings.limits, b"expect" in headers)
        detail = None
        self._state.metrics.in_hand(1)
        if scope["method"] == "HEAD":
            # all routes that can be got have a head, which is all that is sent
            scope = {**scope, "method": "GET"}
            sent.head_only = True
        try:
            self._state.doors.hosts.check(scope["headers"], scope["http_version"])
            if b"origin" in headers and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await sent.whole(204, self._state.doors.preflight(headers[b"origin"]), b"")
            else:
                self._check(scope, headers)
                if MIN_SEQ.encode() in scope["query_string"]:
                    await wait_for_seq(self._state, scope["query_string"])
                scope["query_string"] = with_plain_numbers(scope["query_string"])
                await self._app(scope, receive, sent)
        except Problem as problem:
            detail = await self._refuse(problem, sent, request_id)
        except Exception as error:
            if isinstance(error.__cause__, Problem) and not sent.status:
                # what an answer may not begin with is wrapped by the framework
                detail = await self._refuse(error.__cause__, sent, request_id)
                return
            detail = traceback.format_exc()
            if sent.status:
                raise  # half an answer is no answer: uvicorn closes the connection
            hidden = Problem(500, f"the server failed; its log says more under {request_id}")
            await sent.whole(500, [(b"content-type", PROBLEM_TYPE)], hidden.body(request_id))
        finally:
            self._state.metrics.in_hand(-1)
            self._tell(scope, sent, (scope.get(LASTS) or sent.refused or perf_counter()) - began, detail)
            if self._state.audit is not None:
                self._write_down(self._state.audit, scope, sent, headers)

    async def _refuse(self, problem: Problem, sent: _Sent, request_id: str) -> str:
        """Send what is wrong with a request, and return it."""
        await sent.whole(
            problem.status, [(b"content-type", PROBLEM_TYPE), *problem.headers()], problem.body(request_id)
        )
        return problem.detail

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        limits = self._state.settings.limits
        length = len(scope["raw_path"]) + len(scope["query_string"]) + 1
        if length > limits.line_bytes:
            raise Problem(
                414,
                f"the target has {length:,} bytes: at most {limits.line_bytes:,} are allowed; use POST for many places",
                limit="line_bytes",
                value=length,
                bound=limits.line_bytes,
            )
        path = scope["path"]
        if ADMITTED not in scope and path not in OPEN_PATHS and not path.startswith(FILES):
            reads = path.startswith(REPORT_PATH) and scope["method"] == "GET"
            if reads and is_pass(headers.get(b"cookie"), headers.get(HOST, b""), self._state.doors.mark):
                scope[ADMITTED] = EVERYBODY
                return
            scope[ADMITTED] = self._state.doors.admit(headers.get(b"authorization"))

    def _tell(self, scope: Scope, sent: _Sent, seconds: float, detail: str | None) -> None:
        route = str(scope.get("path_template") or "other")
        self._state.metrics.answered(route, sent.status or 499, seconds, sent.bytes)
        if seconds >= self._state.settings.slow or not 0 < sent.status < 400:
            # who guesses tokens is told of
            client = scope.get("client") if sent.status == 401 else None
            self._state.log.request(
                id=scope[REQUEST_ID], route=route, status=sent.status, seconds=seconds,
                token=scope.get(ADMITTED, EVERYBODY).name, detail=detail or scope.get(DETAIL),
                client=None if client is None else client[0],
            )  # fmt: skip

    def _write_down(self, audit: Audit, scope: Scope, sent: _Sent, headers: dict[bytes, bytes]) -> None:
        query = scope["query_string"]
        token = scope.get(ADMITTED, EVERYBODY)
        audit.request(
            id=scope[REQUEST_ID], token=token.name, client=scope.get("client"),
            method="HEAD" if sent.head_only else scope["method"], route=str(scope.get("path_template") or "other"),
            target=scope["raw_path"] + (b"?" + query if query else b""), status=sent.status or 499,
            hits=scope.get(NOTED_HITS), places=scope.get(NOTED_PLACES),
            asker=headers.get(ASKER) if PEER in token.scopes else None,
        )  # fmt: skip


class _Sent:
    """What was sent of an answer, and headers that are added to it."""

    def __init__(self, send: Send, added: list[tuple[bytes, bytes]], version: str, unread: Unread) -> None:
        self._send = send
        self._unread = unread
        self._goes_on = version != "1.0"
        self._added = added
        self.status = 0
        self.bytes = 0
        self.head_only = False
        self.rest: _Rest | None = None
        self.refused: float | None = None  # when it had been answered though its body went on

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._goes_on and not self.head_only and not _has_end(message):
                raise Problem(
                    505,
                    "this answer has no end that is known before, which HTTP/1.0 cannot say: ask in HTTP/1.1 (nginx: "
                    "proxy_http_version 1.1)",
                )
            self.status = message["status"]
            answering = ANSWERING.get()
            seq = answering.headers[1:] if self.status >= 400 and answering is not None else ()
            message["headers"] = [*message["headers"], *seq, *self._added]
            await self._send(message)
            if self.head_only:
                await self._send({"type": "http.response.body", "body": b""})
        elif not self.head_only:
            size = len(message.get("body", b""))
            self.bytes += size
            if size > WRITTEN_BYTES:
                message = await self._piecewise(message, size)
            rest = self.rest
            if rest is None or self.status < 400 or message.get("more_body") or not rest.goes_on(self.status):
                await self._send(message)
                return
            await self._send({**message, "more_body": True})
            self.refused = perf_counter()
            if await rest.forgotten():
                await self._send({"type": "http.response.body", "body": b""})
            # else the answer has no end: the connection is closed

    async def _piecewise(self, message: Message, size: int) -> Message:
        """Send all of a large body but its last piece, which is returned: each when the one before has been read."""
        body = memoryview(message["body"])
        last = (size - 1) // WRITTEN_BYTES * WRITTEN_BYTES
        with self._unread.holds(size):
            for at in range(0, last, WRITTEN_BYTES):
                await self._send({**message, "body": body[at : at + WRITTEN_BYTES], "more_body": True})
        return {**message, "body": body[last:]}

    async def whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send an answer that stands in no stream."""
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        await self({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
        await self({"type": "http.response.body", "body": body})


class _Rest:
    """A request's body, of which what nobody has read is read and forgotten once the request is refused.

    A connection that is closed with bytes in it is reset, and a client that still sends never reads why.
    """

    def __init__(self, receive: Receive, limits: Limits, expects: bool) -> None:
        self._receive = receive
        self._limits = limits
        self._begun = not expects
        self._more = True

    async def __call__(self) -> Message:
        """Return the next piece."""
        self._begun = True
        message = await self._receive()
        self._more = message["type"] == "http.request" and message.get("more_body", False)
        return message

    def goes_on(self, status: int) -> bool:
        """Return whether there is a rest after a refusal; of a body that did not come in time nobody waits for one."""
        return self._more and self._begun and status != HTTPStatus.REQUEST_TIMEOUT

    async def forgotten(self) -> bool:
        """Return whether the rest was forgotten to its end."""
        left = FORGOTTEN * self._limits.body_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.idle_seconds):
                while self._more and left >= 0:
                    left -= len((await self()).get("body", b""))
        return not self._more


def _has_end(start: Message) -> bool:
    return start["status"] in (204, 304) or any(name == b"content-length" for name, _ in start["headers"])


async def wait_for_seq(state: WorkerState, query: bytes) -> None:
    """Wait for the row that a question names, for some seconds; then it is refused with the number that there is."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    if MIN_SEQ not in given:
        return
    text = given[MIN_SEQ][-1]
    if state.settings.updates is None:
        raise Problem(400, f"{MIN_SEQ} needs a server of --updates: this one reads no log", limit=MIN_SEQ)
    if len(given[MIN_SEQ]) > 1 or not _WHOLE(text):
        raise Problem(400, f"{MIN_SEQ} is {text!r}: one sequence number is wanted", limit=MIN_SEQ, value=text)
    if given.keys() & {"snapshot", "cursor"}:
        raise Problem(400, f"{MIN_SEQ} is for what answers now: leave it out beside a snapshot", limit=MIN_SEQ)
    if not await state.serving.reach(int(text), state.paces.fresh_wait):
        there = state.serving.now.seq
        raise Problem(
            503, f"the answer would hold rows up to {there}, and {MIN_SEQ} is {text}: ask again", limit=MIN_SEQ,
            value=int(text), bound=there, retry_after=1,
        )  # fmt: skip


PARTIAL = "partial"
"""The parameter that takes what the others have for an answer; routes of every server know it."""
OTHERS_HAVE = "dtoss.others_have"
"""Of a scope: the snapshots that a server has which has not the one that was asked for."""
MISSING_HEADER = b"x-dtoss-missing"
"""Numbers of the partitions that an answer lacks."""
GENERATION_SECONDS = 0.5
"""For which the next generation is waited for, where two servers have none in common."""
SNAPSHOTS_TRIED = 3
"""Snapshots that a request is answered from, one after another, until all servers have one."""


class AnsweredTogether:
    """Stands before the framework where a server holds a share only."""

    def __init__(self, state: WorkerState, app: App) -> None:
        self._state, self._app = state, app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = ClusterOptions(partial=query.get(PARTIAL) == ["ok"], asker=scope.get(ADMITTED, EVERYBODY).name)
        read, least = _Read(receive), self._state.serving.now.seq
        for left in reversed(range(SNAPSHOTS_TRIED)):
            scope.pop(OTHERS_HAVE, None)
            given.missing.clear()
            token = GIVEN.set(given)
            sent = _HeldAnswer(scope, send, given, last=left == 0 or "snapshot" in query or "cursor" in query)
            try:
                await self._app(scope, read, sent)
            finally:
                GIVEN.reset(token)
            if not sent.dropped:
                return
            given.snapshot = await self._another(scope[OTHERS_HAVE], least)
            read.again()

    async def _another(self, snapshots: tuple[str, ...], least: int | None) -> str | None:
        """Return the newest snapshot that both have; None for the one that answers by then.

        Of generations it has the rows up to ``least``, which who asks may have seen, and none beyond what answers here.
        """
        serving = self._state.serving
        mine = {name: served.seq for name in serving.names() if (served := serving.open_one(name)) is not None}
        both = [name for name in sorted(snapshots, reverse=True) if name in mine]
        if least is None:
            return next(iter(both), None)
        last = serving.now.seq or least
        found = next((name for name in both if least <= (mine[name] or 0) <= last), None)
        if found is None:
            # one of the two is about to open what the other has
            await serving.reach(last + 1, GENERATION_SECONDS)
        return found


class _Read:
    """A request's body, which can be read again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[Message] = []
        self._at = 0

    async def __call__(self) -> Message:
        if self._at < len(self._kept):
            self._at += 1
            return self._kept[self._at - 1]
        message = await self._receive()
        if message["type"] == "http.request":
            self._kept.append(message)
            self._at += 1
        return message

    def again(self) -> None:
        """Begin at the beginning."""
        self._at = 0


class _HeldAnswer:
    """An answer on its way: held back where it will be given again, marked where it lacks something."""

    def __init__(self, scope: Scope, send: Send, given: ClusterOptions, last: bool) -> None:
        self._scope, self._send, self._given, self._last = scope, send, given, last
        self._start: Any = None
        self.dropped = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if OTHERS_HAVE in self._scope and not self._last:
                self.dropped = True
            elif self._given.missing:
                self._start = message
            else:
                await self._send(message)
        elif not self.dropped:
            if self._start is not None:
                message = await self._marked(message)
            await self._send(message)

    async def _marked(self, message: Message) -> Message:
        """Send the beginning, and return the first piece of the body: both say what the answer lacks."""
        start, self._start = self._start, None
        missing = ",".join(map(str, sorted(self._given.missing))).encode()
        body = message.get("body", b"")
        headers = dict(start["headers"])
        if headers.get(b"content-type", b"").startswith(b"application/json") and body.startswith(b"{"):
            said = b'{"missing":[%b],' % missing
            message = {**message, "body": said + body[1:]}
            if b"content-length" in headers:
                headers[b"content-length"] = b"%d" % (int(headers[b"content-length"]) + len(said) - 1)
        headers.pop(b"etag", None)
        await self._send({**start, "headers": [*headers.items(), (MISSING_HEADER, missing)]})
        return message
