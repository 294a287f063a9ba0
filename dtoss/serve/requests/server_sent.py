"""Server-sent events to one client: how the answer begins, for how long it is quiet, whether the client is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any

from dtoss.serve.core.pool import Client, client_gone
from dtoss.serve.requests.front import LASTS

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
