"""What pages are told while they are open: events of some kinds, to any number of streams, once a second each.

A kind is a function that returns what is true now. Its event is told when that changes; what a slow client has not
read when the next one comes, it never hears of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from dtoss.serve.core.open_streams import OpenStreams
from dtoss.serve.core.server_settings import PACES

TO_ALL, TO_SUMS, TO_SOME = "all", "sums", "some"
"""Who is told of a kind: who may see all objects, sums over all of them, or some alone."""
QUICK = 0.2
"""Seconds between two looks at what is told at once."""


@dataclass(frozen=True)
class Kind:
    """A kind of event."""

    name: str  # The ``type`` that its events have
    # Returns what is true now, None where there is nothing to tell. It is called on the loop: it has to be quick
    look: Callable[[], Mapping[str, Any] | None]
    at_once: bool = False  # Whether a stream begins with it
    always: bool = False  # Whether it is told each second, changed or not
    # Whether it is told in the same second as another one, and waits for none; at once where ``quick`` says so
    beside: bool = False
    # Some of :data:`TO_ALL`, :data:`TO_SUMS` and :data:`TO_SOME`: which streams tell of it
    told_to: tuple[str, ...] = (TO_ALL,)


class Live:
    """The streams of one worker.

    ``kinds``: of events; where several are due in a second, the first of them is told, and the next one in the next
    second. Those that are told always come after the others, and those that are told beside come with each; ``before``:
    is called in a thread each second while there are streams: what kinds look at may be read from files there;
    ``quick``: is called in a thread several times a second while there are streams. Where it returns that something is
    new, kinds that are told beside are looked at and told at once; ``second``: how long a second is.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        most: int,
        before: Callable[[], None] = lambda: None,
        failed: Callable[[Exception], None] = lambda error: None,
        quick: Callable[[], bool] | None = None,
        second: float = PACES.live,
    ) -> None:
        # what is told each second would leave no second for kinds behind it
        self._kinds = [_Told(kind) for kind in sorted(kinds, key=lambda kind: (kind.beside, kind.always))]
        self._before = before
        self._failed = failed
        self._streams: OpenStreams[Stream] = OpenStreams("live", most)
        self.close, self.end = self._streams.forget, self._streams.end
        self._reading: asyncio.Future[None] | None = None
        self._quick = quick
        self._quick_look: asyncio.Task[None] | None = None
        self._second = second
        self._looked = -second

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def ending(self) -> bool:
        """Whether the worker ends."""
        return self._streams.ending

    def open(self, sees: str = TO_ALL) -> Stream:
        """Return a new stream."""
        kinds = [told for told in self._kinds if sees in told.kind.told_to]
        stream = self._streams.add(lambda: Stream(kinds))
        if asyncio.get_running_loop().time() - self._looked >= self._second:
            self._look()
        self._streams.pumped(self._run)
        return stream

    async def _run(self) -> None:
        """Look each second, and wake up the streams; between seconds where something new is told at once."""
        loop = asyncio.get_running_loop()
        due = max(self._looked + self._second, loop.time())
        while self._streams.heard:
            while self._quick is not None and self._streams.heard and due - loop.time() > QUICK:
                if self._quick_look is None or self._quick_look.done():
                    self._quick_look = loop.create_task(self._hurry(self._quick))
                await asyncio.sleep(QUICK)
            await asyncio.sleep(due - loop.time())
            due = max(due + self._second, loop.time())
            self._look()
            await self._streams.wake()

    async def _hurry(self, quick: Callable[[], bool]) -> None:
        """Tell what is new between two seconds, if anything is."""
        news = False
        try:
            news = await asyncio.get_running_loop().run_in_executor(None, quick)
        except RuntimeError:
            pass  # the loop ends
        except Exception as error:
            self._failed(error)
        if news:
            self._look_at(told for told in self._kinds if told.kind.beside)
            await self._streams.wake()

    def _look_at(self, kinds: Iterable[_Told]) -> None:
        for told in kinds:
            try:
                told.look()
            except Exception as error:
                self._failed(error)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looked = loop.time()
        self._look_at(self._kinds)
        # what it reads is told at the next look: nobody waits for a disk
        if self._reading is None or self._reading.done():
            with suppress(RuntimeError):  # the loop ends
                self._reading = loop.run_in_executor(None, self._read)

    def _read(self) -> None:
        try:
            self._before()
        except Exception as error:
            self._failed(error)


class _Told:
    """What was last told of a kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.version = 0
        self.event = b""
        self._data = b""

    def look(self) -> None:
        told = self.kind.look()
        data = b"" if told is None else orjson.dumps({"type": self.kind.name, **told})
        if data and (self.kind.always or data != self._data):
            self._data, self.event = data, b"data: %b\n\n" % data
            self.version += 1


class Stream:
    """What one client has heard. ``kinds``: of events, in their order."""

    __slots__ = ("_heard", "_kinds", "over", "woken")

    def __init__(self, kinds: Sequence[_Told]) -> None:
        self.woken = asyncio.Event()
        self.over = False
        self._kinds = kinds
        self._heard = [0] * len(kinds)

    def end(self) -> None:
        """Tell nothing more: who listens may hear something else now."""
        self.over = True
        self.woken.set()

    def beginning(self) -> bytes:
        """Return the events that a stream begins with."""
        return b"".join(self._take(i) for i, told in enumerate(self._kinds) if told.kind.at_once)

    def following(self) -> bytes:
        """Return the next event that is due, and those beside it; empty where none is."""
        due = [i for i, told in enumerate(self._kinds) if told.version != self._heard[i]]
        alone = [i for i in due if not self._kinds[i].kind.beside]
        return b"".join(self._take(i) for i in (*alone[:1], *(i for i in due if self._kinds[i].kind.beside)))

    def _take(self, i: int) -> bytes:
        told = self._kinds[i]
        self._heard[i] = told.version
        return told.event
