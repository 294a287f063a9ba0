"""Answers that are made and sent in pieces: the next one is made when the last one has gone out.

So a client that reads slowly holds no thread, and no more of an answer than a piece.

Hits of one question as an answer: JSON or an Arrow stream, at once or in pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from litestar.response.base import ASGIResponse

from dtoss.errors import InputError
from dtoss.hits import Hits
from dtoss.serve.answers.json_out import HITS_A_PIECE, headers_of
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.answers.responses import Asker, Ready, tag_of, wants_arrow
from dtoss.serve.bulk.query_pieces import Form, encode_rows, rows_of_hits
from dtoss.serve.core.pool import ClientGone, Stop, client_gone
from dtoss.serve.core.problems import Problem
from dtoss.serve.observability.log_lines import note
from dtoss.serve.state.worker_state import WorkerState

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
