"""Connections to one other server, which stay open: a request on each at a time."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import NamedTuple, TypeAlias, cast

import httptools

from dtoss.client.address import Address
from dtoss.serve.cluster.wire_messages import WIRE_HEADER, WIRE_SAID
from dtoss.serve.observability.audit import ASKER

Headers: TypeAlias = list[tuple[bytes, bytes]]
IDLE = 32
"""Connections that are kept while nobody uses them."""


class Reply(NamedTuple):
    """What another server answered, and the version of messages that it said with it."""

    status: int
    body: bytes
    wire: bytes | None = None


class _Connection(asyncio.Protocol):
    def __init__(self, link: Link) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.waiting: asyncio.Future[Reply] | None = None
        self.parser: httptools.HttpResponseParser | None = None
        self.body: list[bytes] = []
        self.wire: bytes | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own are no subclass of it

    def data_received(self, data: bytes) -> None:
        if self.parser is None:
            self.close()
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"what it sent is no answer: {error}"))
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == WIRE_HEADER:
            self.wire = value

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        waiting, parser = self.waiting, self.parser
        assert parser is not None
        self.waiting = self.parser = None
        if not parser.should_keep_alive():
            self.close()
        if waiting is not None and not waiting.done():
            waiting.set_result(Reply(parser.get_status_code(), b"".join(self.body), self.wire))

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        with suppress(ValueError):
            self.link.idle.remove(self)
        self._fail(ConnectionResetError("it closed the connection"))

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def send(self, data: bytes, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Reply]:
        assert self.transport is not None
        self.waiting, self.parser, self.body = loop.create_future(), httptools.HttpResponseParser(self), []
        self.wire = None
        self.transport.write(data)
        return self.waiting

    def _fail(self, error: Exception) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)


class Link:
    """The way to another server; to be used on one loop only."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address, self.token = address, token
        self.idle: list[_Connection] = []
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    async def ask(
        self, path: str, body: bytes | None, seconds: float, asker: bytes = b"", given: Headers | None = None
    ) -> Reply:
        """Return the answer to a request.

        A connection that was closed while it was idle is opened again, once: what a request changes is no other one
        the second time.

        ``body``: what is posted; None to get; ``asker``: for whom it is, as
        :func:`dtoss.serve.observability.audit.askers` has it; empty where that is not known;
        ``given``: headers that somebody sent, whose request is passed on, in place of those of this server.
        """
        data = self.request(path, body, asker, given)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(seconds):
            if self.idle:
                with suppress(ConnectionResetError):
                    return await self._exchange(self.idle.pop(), data, loop)
            made = await self._connect(loop)
            return await self._exchange(made, data, loop)

    def close(self) -> None:
        """Close what is open."""
        for one in [*self.idle]:
            one.close()

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        _, made = await loop.create_connection(
            lambda: _Connection(self), self.address.host, self.address.port, ssl=self._tls
        )
        return made

    async def _exchange(self, connection: _Connection, data: bytes, loop: asyncio.AbstractEventLoop) -> Reply:
        try:
            reply = await connection.send(data, loop)
        except BaseException:
            connection.close()  # the rest of an answer may still be on its way
            raise
        if not connection.closed and len(self.idle) < IDLE:
            self.idle.append(connection)
        else:
            connection.close()
        return reply

    def request(self, path: str, body: bytes | None, asker: bytes = b"", given: Headers | None = None) -> bytes:
        """Return the bytes of a request, without a body to get."""
        if given is None:
            given = [] if self.token is None else [(b"authorization", b"Bearer " + self.token.encode())]
        token = b"".join(b"%b: %b\r\n" % header for header in [*given, *([(ASKER, asker)] if asker else [])])
        length = b"" if body is None else b"content-length: %d\r\n%b: %b\r\n" % (len(body), WIRE_HEADER, WIRE_SAID)
        method = b"GET" if body is None else b"POST"
        at = self.address
        head = b"%b %b%b HTTP/1.1\r\nhost: %b\r\n%b%b\r\n" % (
            method, at.prefix.encode(), path.encode(), at.authority.encode(), token, length,
        )  # fmt: skip
        return head if body is None else head + body
