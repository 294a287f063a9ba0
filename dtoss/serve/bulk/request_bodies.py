"""Bodies of requests, read within limits: of one, of the time it takes, and of all that are in hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from dtoss.serve.answers.responses import Asker
from dtoss.serve.core.pool import ClientGone
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import Limits

LARGEST_TOGETHER = 8
"""Times the largest body: what all bodies in hand may take together."""


CORNER_BYTES = 400
"""Bytes of GeoJSON for each corner that is allowed, properties included: the interpreter is held while it is read."""


class Bound(NamedTuple):
    """How long bodies of a kind may be."""

    bytes: int
    limit: str  # From which that follows: the one to be told of, and its number
    number: int
    said: str  # What is read, and what to do


def of_bytes(limits: Limits, limit: str = "body_bytes") -> Bound:
    """Return the bound of bodies that a limit counts by bytes."""
    most = min(getattr(limits, limit), limits.body_bytes)
    name = limit if getattr(limits, limit) == most else "body_bytes"
    return Bound(most, name, most, f"at most {most:,} are read; send it in several requests")


def of_corners(limits: Limits) -> Bound:
    """Return the bound of bodies of GeoJSON, which may be as long as their corners want."""
    most = limits.corners * CORNER_BYTES
    if most > limits.body_bytes:
        return of_bytes(limits)
    return Bound(
        most,
        "corners",
        limits.corners,
        f"at most {limits.corners:,} corners are searched within, of {CORNER_BYTES} bytes each; simplify the polygons, "
        "or send fewer at a time",
    )


class Bodies:
    """The bodies that a worker reads and has read."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0

    @asynccontextmanager
    async def of(self, request: Asker, bound: Bound | None = None) -> AsyncIterator[bytearray]:
        """Give the body of a request, and count it as long as the ``with`` lasts."""
        bound = bound or of_bytes(self._limits)
        said = request.headers.get("content-length")
        if said is not None and said.isdigit() and int(said) > bound.bytes:
            raise _too_long(int(said), bound)
        body = bytearray()  # grows in place: to join pieces of 64 MB would hold up the loop
        try:
            try:
                async with asyncio.timeout(self._limits.idle_seconds):
                    more = True
                    while more:
                        message: Any = await request.receive()
                        if message["type"] == "http.disconnect":
                            raise ClientGone
                        chunk, more = message.get("body", b""), message.get("more_body", False)
                        self._held += len(chunk)
                        body += chunk
                        if len(body) > bound.bytes:
                            raise _too_long(len(body), bound)
                        self._check()
            except TimeoutError:
                raise Problem(
                    408,
                    f"the body did not come within {self._limits.idle_seconds:g} seconds: {len(body):,} bytes did",
                    limit="idle_seconds",
                    bound=self._limits.idle_seconds,
                ) from None
            yield body
        finally:
            self._held -= len(body)

    def _check(self) -> None:
        most = LARGEST_TOGETHER * self._limits.body_bytes
        if self._held > most:
            raise Problem(
                503,
                f"bodies of {self._held:,} bytes are in hand: at most {most:,} are held; ask again in a second",
                limit="body_bytes",
                value=self._held,
                bound=most,
                retry_after=1,
            )


def _too_long(size: int, bound: Bound) -> Problem:
    return Problem(
        413,
        f"the body has {size:,} bytes or more: {bound.said}",
        limit=bound.limit,
        value=None if bound.limit == "corners" else size,
        bound=bound.number,
    )
