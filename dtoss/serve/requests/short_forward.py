"""``POST /forward`` on the short way: the questions of another server's turn, answered when their bytes are there."""

from __future__ import annotations

from functools import partial
from typing import Any

from dtoss.serve.auth.tokens import ADMITTED
from dtoss.serve.cluster.wire_messages import WIRE_HEADER, WIRE_SAID
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.audit import ASKER
from dtoss.serve.requests.bundles import FORWARD_PATH, Bundle, answer_bundle, is_quick, read_bundle

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
