"""Answers in pieces, also server-sent events: each is made when the last one has gone out.

So a client that reads slowly holds no thread, and no more of an answer than a piece.

Hits of one question as an answer: JSON or an Arrow stream, at once or in pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, TypeVar

from litestar.response.base import ASGIResponse

from dtoss.errors import DtossError, InputError
from dtoss.hits import Hits
from dtoss.serve.answers.json_out import HITS_A_PIECE, headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, tag_of, wants_arrow
from dtoss.serve.bulk.query_pieces import Form, encode_rows, rows_of_hits
from dtoss.serve.core.pool import Client, ClientGone, Stop, client_gone
from dtoss.serve.core.problems import Problem
from dtoss.serve.events.event_reader import EventFilter, Reading
from dtoss.serve.events.tail import Listener
from dtoss.serve.observability.log_lines import note
from dtoss.serve.requests.front import LASTS
from dtoss.serve.rights.sight import token_of
from dtoss.serve.state.worker_state import WorkerState
from dtoss.watch.events.readers import Cursor

T = TypeVar("T")


async def ask(state: WorkerState, request: Asker, work: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
    """Return what a thread of the pool makes."""
    try:
        return await state.pool.run_steps(request, work)
    except (ValueError, InputError) as error:
        raise Problem(400, str(error)) from None


async def answer_in_chunks(
    state: WorkerState,
    request: Asker,
    served: ServedSnapshot,
    kind: bytes,
    make: Callable[[Stop], Awaitable[Iterator[bytes]]],
) -> Pieces:
    """Return the answer of pieces that the pool makes.

    ``make``: returns the pieces; what is wrong with a question is said before the first of them.
    """

    async def begin(stop: Stop) -> tuple[list[bytes], Iterator[bytes] | None]:
        pieces = await make(stop)
        held, size = [], 0
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            stop.check()
            if size > state.sizes.held:
                return held, pieces
        return held, None

    held, rest = await ask(state, request, begin)
    length = None if rest else sum(map(len, held))
    return Pieces(state, request, held, rest, headers_of(served, length, tag_of(request, served), kind))


class Pieces(ASGIResponse):
    """An answer whose first pieces are there."""

    def __init__(
        self,
        state: WorkerState,
        request: Asker,
        held: list[bytes],
        rest: Iterator[bytes] | None,
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        self.status_code = 200
        self.sent = headers
        self._state = state
        self._request = request
        self._held = held
        self._rest = rest

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it, unless the client goes away, or reads nothing for longer than a connection may be idle."""
        await send({"type": "http.response.start", "status": 200, "headers": self.sent})
        gone = asyncio.ensure_future(client_gone(self._request)) if self._rest is not None else None
        try:
            held = self._held
            while held:
                with self._state.pool.unread.holds(sum(map(len, held))):
                    for i, piece in enumerate(held):
                        last = self._rest is None and i + 1 == len(held)
                        await self._sent(send, piece, not last)
                        await asyncio.sleep(0)  # a fast client would get all of them in one turn of the loop
                held.clear()
                if gone is not None and gone.done():
                    raise ClientGone
                if self._rest is not None:
                    held = await self._state.pool.run(None, self._more, admitted=True)
        except ClientGone:
            return  # the connection is closed, as the answer has no end
        finally:
            if gone is not None:
                gone.cancel()

    async def _sent(self, send: Any, piece: bytes, more: bool) -> None:
        try:
            async with asyncio.timeout(self._state.settings.limits.idle_seconds):
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        except TimeoutError:
            raise ClientGone from None

    def _more(self, stop: Stop) -> list[bytes]:
        """Return some more pieces; an empty one is the end."""
        assert self._rest is not None
        held, size = [], 0
        for piece in self._rest:
            held.append(piece)
            size += len(piece)
            if size > self._state.sizes.sent:
                return [b"".join(held)]
        self._rest = None
        return [*held, b""]


def answer_of_hits(
    request: Asker, state: WorkerState, served: ServedSnapshot, hits: Hits, text_ids: bool, following: str | None
) -> ASGIResponse:
    """Return hits as a request wants them; many are sent piece by piece, each made when the one before has gone out."""
    form = Form(wants_arrow(request), text_ids, query=False)
    note(request.scope, hits=len(hits))
    pieces = encode_rows(served, iter([rows_of_hits(hits)]), form, following=following)
    tag = tag_of(request, served)
    if len(hits) <= HITS_A_PIECE:
        body = b"".join(pieces)
        return Ready(body, headers_of(served, len(body), tag, form.kind))
    return Pieces(state, request, [next(pieces)], pieces, headers_of(served, None, tag, form.kind))


NOTHING_NEW = b": nothing new\n\n"
"""What a stream says that has had nothing to tell for a while."""
_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


@contextmanager
def listening(client: Client, woken: asyncio.Event) -> Iterator[asyncio.Future[None]]:
    """Give what is done once a client has gone away, which wakes its stream."""
    gone = asyncio.ensure_future(client_gone(client))
    gone.add_done_callback(lambda _: woken.set())
    try:
        yield gone
    finally:
        gone.cancel()


async def begin(scope: Any, send: Any) -> None:
    """Send the head of a stream: from here on it lasts, and is no slow request."""
    await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
    scope[LASTS] = perf_counter()


async def was_woken(woken: asyncio.Event, seconds: float) -> bool:
    """Return whether a stream was woken within some seconds; the next time counts anew."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()
        woken.clear()
        return True
    return False


AGAIN_MS = 2_000
"""After which clients are told to connect again."""


class EventStream(ASGIResponse):
    """Events of a watch, those that are there and those that come, until its client, the watch or the worker ends it.

    ``reading``: where it begins. Its first piece has been read.
    """

    def __init__(
        self, state: WorkerState, request: Asker, reading: Reading, wanted: EventFilter, first: tuple[memoryview, int]
    ) -> None:
        assert state.tail is not None
        self.status_code = 200
        self._state = state
        self._tail = state.tail
        self._request = request
        self._wanted = wanted
        self._reading: Reading | None = None if reading.done else reading
        self._at = reading.at
        self._first = first
        self._said: Cursor | None = None
        self._send: Any = None
        self._due = 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        listener, token = self._tail.open(), token_of(self._request)
        self._send = send
        self._state.metrics.streams(1)
        try:
            if self._reading is not None:
                self._share(self._reading)
            with (
                listening(self._request, listener.woken) as gone,
                self._state.doors.listening(token, listener.end),
            ):
                await begin(scope, send)
                await self._piece(b"retry: %d\n%b" % (AGAIN_MS, b"" if self._first[1] else self._place()), 0)
                await self._piece(*self._first)
                self._first = (memoryview(b""), 0)
                while not gone.done() and not self._tail.ending and listener.over is None:
                    await self._next(listener)
                if not gone.done():
                    why = b"" if listener.over is None else b": %b\n\n" % listener.over.encode()
                    await send({"type": "http.response.body", "body": why})
        except _Over as over:
            with suppress(ClientGone):
                await self._piece(b": %b\n\n" % str(over).encode(), 0)
                await send({"type": "http.response.body", "body": b""})
        except ClientGone:
            pass  # the connection is closed, as the answer has no end
        finally:
            self._tail.readers.discard(self)
            self._tail.close(listener)
            self._state.metrics.streams(-1)

    async def _next(self, listener: Listener) -> None:
        """Send what comes next, or wait until there may be something."""
        loop = asyncio.get_running_loop()
        newest = self._tail
        shared = self._reading is None and self._wanted.own is None
        part = newest.part_behind(self._at) if shared else None
        if part is not None:
            data, count = part.behind(self._at, self._wanted)
            self._at = part.upto
            await self._piece(data, count)
            await asyncio.sleep(0)  # a fast client would get all of them in one turn of the loop
        elif self._reading is not None or (newest.head is not None and self._at < newest.head):
            await self._piece(*await self._read())
        elif not await was_woken(listener.woken, self._due - loop.time()):
            await self._piece(self._quiet(), 0)

    async def _read(self) -> tuple[memoryview, int]:
        """Return what comes next in files."""
        if self._reading is None:
            assert self._state.home is not None
            self._reading = Reading(self._state.home, self._at, self._wanted, self._state.sizes.event_part)
        reading = self._reading
        try:
            found = await self._state.pool.run(None, reading.more, admitted=True)
        except Problem as problem:
            raise _Over(problem.detail) from None
        except DtossError as error:
            self._state.log.event("events not read", detail=str(error))
            raise _Over("the events cannot be read: the server's log says why") from None
        except OSError:
            await asyncio.sleep(self._tail.seconds)  # a disk may have been away: it is tried again
            found = (memoryview(b""), 0)
        self._at = reading.at
        if reading.done:
            self._reading = None
        self._share(reading)
        return found

    def _share(self, reading: Reading) -> None:
        """Hold what is open of a file for the next piece, unless many others hold some: then it is read again."""
        readers = self._tail.readers
        if reading.done:
            readers.discard(self)
            return
        readers.add(self)
        if len(readers) > self._tail.most_readers:
            reading.let_go()

    async def _piece(self, data: bytes | memoryview, count: int) -> None:
        """Send some bytes; return once they are on their way."""
        loop = asyncio.get_running_loop()
        if not data and loop.time() < self._due:
            return
        if not data:
            data = self._quiet()
        if count:
            self._said = self._at
        message = {"type": "http.response.body", "body": bytes(data), "more_body": True}
        sending = asyncio.ensure_future(self._send(message))
        try:
            done, _ = await asyncio.wait((sending,), timeout=self._state.paces.slow)
            if not done and self._reading is not None:
                self._reading.let_go()
            await asyncio.wait((sending,), timeout=self._state.settings.limits.idle_seconds)
            if not sending.done():
                raise ClientGone
            sending.result()
        finally:
            sending.cancel()
        self._state.metrics.sent_events(count)
        self._due = loop.time() + self._state.paces.quiet

    def _quiet(self) -> bytes:
        """Return what is said where there is nothing to tell."""
        return self._place() if self._at != self._said else NOTHING_NEW

    def _place(self) -> bytes:
        """Return what tells a client where it stands, though there is no event."""
        self._said = self._at
        return b"id: %b\n\n" % str(self._at).encode()


class _Over(Exception):
    """A stream that has to end; why is told."""
