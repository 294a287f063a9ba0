"""The streams that a worker has open: so many at the most, woken some at a time, ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from dtoss.serve.core.problems import Problem

STREAMS_A_TURN = 50
"""Streams that are woken in one turn of the loop."""


class Woken(Protocol):
    """A stream that waits until there may be something to tell."""

    woken: asyncio.Event


S = TypeVar("S", bound=Woken)


class OpenStreams(Generic[S]):
    """Streams of one kind; all of it on the loop.

    ``instead``: what else may be asked for where there are too many; "" for nothing.
    """

    def __init__(self, limit: str, most: int, instead: str = "") -> None:
        self.ending = False
        self._limit = limit
        self._most = most
        self._instead = instead
        self._open: set[S] = set()
        self._pump: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def add(self, make: Callable[[], S]) -> S:
        """Return a new stream."""
        if self.ending:
            raise Problem(503, "the server is ending: ask again", retry_after=1)
        if len(self._open) >= self._most:
            instead = f", or {self._instead}" if self._instead else ""
            raise Problem(
                503,
                f"{len(self._open):,} streams are open: at most {self._most:,} are allowed; ask again later{instead}",
                limit=self._limit,
                value=len(self._open),
                bound=self._most,
                retry_after=5,
            )
        stream = make()
        self._open.add(stream)
        return stream

    def forget(self, stream: S) -> None:
        """Leave out a stream that is closed."""
        self._open.discard(stream)

    def held(self) -> list[S]:
        """Return those that are open."""
        return list(self._open)

    def end(self) -> None:
        """End all of them, and open no more."""
        self.ending = True
        for stream in self._open:
            stream.woken.set()

    def pumped(self, pump: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have a task run that looks for what is new; it ends once :attr:`heard` is false."""
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(pump())

    @property
    def heard(self) -> bool:
        """Whether somebody listens, and may go on to."""
        return bool(self._open) and not self.ending

    async def wake(self) -> None:
        """Wake all of them, some in each turn of the loop."""
        streams = list(self._open)
        for first in range(0, len(streams), STREAMS_A_TURN):
            for stream in streams[first : first + STREAMS_A_TURN]:
                stream.woken.set()
            await asyncio.sleep(0)
