"""What a connection may cost before a request has arrived: how many there are, how long a header is and takes.

uvicorn bounds none of these. What is checked for each piece of a header costs a comparison; how long a header takes is
looked at once a second, for all connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from dtoss.serve.core.problems import PROBLEM_TYPE, Problem
from dtoss.serve.core.server_settings import Limits

HEAD_BYTES = 65_536
"""Of a request's line and headers."""
LINGER_SECONDS = 2.0
"""For how long what a refused client still sends is read: closing at once could take the answer from it."""


class Guard:
    """Bounds of the connections of a worker."""

    def __init__(
        self,
        limits: Limits,
        most: int,
        request_id: Callable[[], str],
        refused: Callable[[int, int], None],
    ) -> None:
        self.line_bytes = limits.line_bytes
        self.header_seconds = limits.header_seconds
        self.idle_seconds = limits.idle_seconds
        self.most = most
        self.request_id = request_id
        self.refused = refused
        self.draining = False

    def sweep(self, connections: Iterable[Any], now: float) -> None:
        """Close connections whose header or message takes too long, and those whose client does not read its answer.

        A connection waits for a header if no request is in hand and the timer of idle connections does not run, which
        uvicorn starts after an answer and stops when bytes arrive. Each header has a scope of its own.
        """
        for connection in connections:
            if connection.parser is None:
                continue  # it was lost since the first of them was looked at
            cycle, mark = connection.cycle, None
            if unread := connection.transport.get_write_buffer_size():
                mark = unread
            elif connection.timeout_keep_alive_task is None and (cycle is None or cycle.response_complete):
                mark = connection.scope
            elif cycle is not None and cycle.more_body and hasattr(cycle, "late"):
                mark = cycle  # a message of the short way, whose body nobody else waits for
            else:
                connection.waits = None
                continue
            before, since = connection.waits or (mark, now)
            if unread:
                # more that is unread is nothing that was read
                if not isinstance(before, int) or unread < before:
                    since = now
            elif before is not mark:
                since = now
            connection.waits = (mark, since)
            if unread:
                if now - since >= self.idle_seconds:
                    connection.transport.abort()
                continue
            # of one that has sent nothing yet no header is late: it is idle
            late = cycle if cycle is not None and mark is cycle else connection
            bound = self.idle_seconds if mark is None or late is cycle else self.header_seconds
            if now - since >= bound:
                late.late(bound)


class GuardedProtocol(HttpToolsProtocol):
    """A connection within its bounds; what is refused here is refused as ``application/problem+json`` too."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        guard: Guard,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.guard = guard
        self.waits: tuple[Any, float] | None = None  # what the last sweep saw, and since when
        self.in_hand: Any = None  # the request that is answered; others may have come behind it
        self._head_bytes = 0
        self._problem: Problem | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        most = self.guard.most
        if len(self.connections) > most:
            self._write(
                Problem(
                    503,
                    f"{most} connections are open: at most {most} are allowed; ask again later",
                    limit="connections",
                    bound=most,
                    retry_after=1,
                )
            )
            self.connections.discard(self)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request in hand that nobody waits for it: uvicorn tells only the last that has come."""
        super().connection_lost(exc)
        if self.in_hand is not None and not self.in_hand.response_complete:
            self.in_hand.disconnected = True
            self.in_hand.message_event.set()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.in_hand = cycle
        super()._start_asgi_task(cycle, partial(self._once_read, app) if self.flow.write_paused else app)

    async def _once_read(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Answer once the answers before are read: what nobody reads is not made, and takes no memory."""
        await self.flow.drain()
        if not self.in_hand.disconnected:
            await app(scope, receive, send)

    def data_received(self, data: bytes) -> None:
        """Read a piece of a request."""
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._count(len(data))
            return
        received, self._head_bytes = self._head_bytes + len(data), 0
        if self.guard.draining:
            cycle.keep_alive = False
        if received > HEAD_BYTES and sum(map(len, chain.from_iterable(self.headers))) > HEAD_BYTES:
            self._refuse(_too_long())

    def _count(self, received: int) -> None:
        """Count the bytes of a header that is not complete yet."""
        if self.parser is None or (self.cycle is not None and self.cycle.more_body):
            return  # it is refused already, or what comes is a body that nobody waits for any more
        self._head_bytes += received
        if self._head_bytes > HEAD_BYTES:
            self._refuse(_too_long())

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self.url += url
        if len(self.url) > self.guard.line_bytes:
            bound = self.guard.line_bytes
            self._problem = Problem(
                414,
                f"the target has more than {bound} bytes, which are allowed; use POST for many places",
                limit="line_bytes",
                bound=bound,
            )
            raise ValueError("the target is too long")  # ends the parser

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, after the answers to what came before it."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            if self.pipeline or cycle.response_started:
                self.transport.close()
                return
        self._refuse(self._problem or Problem(400, "what was sent is no HTTP request"))

    def late(self, seconds: float) -> None:
        """Refuse a header that has taken too long; a connection without one is closed."""
        if self.scope is None or (self.cycle is not None and self.cycle.more_body):
            self.transport.close()
            return
        said = f"the header took more than {seconds:g} s, which are allowed"
        self._refuse(Problem(408, said, limit="header_seconds", bound=seconds))

    def _refuse(self, problem: Problem) -> None:
        self._write(problem)
        transport = self.transport
        # what is in hand hears that nobody waits for it; the transport is not uvicorn's any more
        self.connection_lost(ConnectionAbortedError())
        self._unset_keepalive_if_required()
        transport.set_protocol(_Lingering(transport))
        if transport.can_write_eof():
            transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, transport.close)

    def _write(self, problem: Problem) -> None:
        request_id = self.guard.request_id()
        body = problem.body(request_id)
        headers = [
            *self.server_state.default_headers,
            (b"content-type", PROBLEM_TYPE),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request_id.encode()),
            *problem.headers(),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + body)
        self.guard.refused(problem.status, len(body))


def _too_long() -> Problem:
    said = f"the header has more than {HEAD_BYTES} bytes, which are allowed"
    return Problem(431, said, limit="header", bound=HEAD_BYTES)


class _Lingering(asyncio.Protocol):
    """What is left of a refused connection: all that it sends is forgotten."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def eof_received(self) -> None:
        """Close it once the client has."""
        self._transport.close()
