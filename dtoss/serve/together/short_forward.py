"""``POST /forward`` on the short way: the questions of another server's turn, answered when their bytes are there."""

from __future__ import annotations

from typing import Any

from dtoss.serve.problems import Problem
from dtoss.serve.together.bundles import FORWARD_PATH, answer_bundle

FORWARD = FORWARD_PATH.encode()
FORWARD_BYTES = 4_000_000
"""Of a message on the short way."""
FORWARD_HEAD = b"HTTP/1.1 %d .\r\ncontent-type: application/octet-stream\r\ncontent-length: %d\r\n%b\r\n"


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
        "body", "disconnected", "keep_alive", "message_event", "more_body", "protocol", "response_complete",
        "response_started",
    )  # fmt: skip

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.body = bytearray()
        self.more_body = self.keep_alive = True
        self.disconnected = self.response_complete = self.response_started = False
        self.message_event = _Whole(self)

    def answer(self) -> None:
        """Write the answer."""
        if self.response_complete:
            return
        self.response_complete = True
        if self.disconnected:
            return
        protocol = self.protocol
        status, body = answer_bundle(protocol.desk.state, bytes(self.body))
        close = b"" if self.keep_alive else b"connection: close\r\n"
        protocol.transport.write(FORWARD_HEAD % (status, len(body), close) + body)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


def is_short(protocol: Any, headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a message takes the short way: who sends it may ask, and it is not long."""
    state = protocol.desk.state
    if state.circle is None or protocol.parser.get_method() != b"POST" or not protocol.parser.should_keep_alive():
        return False
    token, length = None, b""
    for name, value in headers:
        if name == b"authorization":
            token = value
        elif name == b"content-length":
            length = value
        elif name in (b"transfer-encoding", b"expect", b"upgrade"):
            return False
    return len(length) < 8 and length.isdigit() and int(length) <= FORWARD_BYTES and _may_ask(state, token)


def _may_ask(state: Any, token: bytes | None) -> bool:
    try:
        state.doors.admit(token)
    except Problem:
        return False  # the long way says why
    return True
