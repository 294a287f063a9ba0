"""The newest events of a watch: looked for once a second, and read once for all streams of a worker."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeVar

from dtoss.errors import DtossError
from dtoss.serve.core.open_streams import OpenStreams
from dtoss.serve.core.pool import ClientGone, Pool, Stop
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import PACES
from dtoss.serve.events.event_reader import Part, nothing, parts_of
from dtoss.watch.events.event_log import told_events
from dtoss.watch.events.readers import BEGINNING, END_OF_BATCH, Cursor
from dtoss.watch.events.watch_document import head_of
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Settings

T = TypeVar("T")
SHARED_BYTES = 8 << 20
"""Of the newest events that are held for all streams: who is farther behind reads files."""
MOST_READERS = 32


class Listener:
    """One stream: ``woken`` is set when there may be something to do, ``over`` says why it has to end."""

    __slots__ = ("over", "woken")

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.over: str | None = None

    def end(self) -> None:
        """Have the stream end, as its token may not do any more what it might."""
        self.over = "what the token may see has changed: connect again"
        self.woken.set()


class Tail:
    """The streams of one worker, and the newest events of its watch."""

    def __init__(
        self,
        home: Home,
        pool: Pool,
        most: int,
        failed: Callable[[str], Any],
        seconds: float = PACES.tail,
        most_readers: int = MOST_READERS,
    ) -> None:
        self.home = home
        self.seconds, self.most_readers = seconds, most_readers
        self.head: Cursor | None = None
        self.readers: set[object] = set()
        self._pool = pool
        self._failed = failed
        self._said: str | None = None
        self._parts: list[Part] = []
        self._bytes = 0
        self._listeners: OpenStreams[Listener] = OpenStreams("event_streams", most, "for pages by limit=")
        self.end = self._listeners.end

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def ending(self) -> bool:
        """Whether the worker ends."""
        return self._listeners.ending

    def open(self) -> Listener:
        """Return a new stream."""
        listener = self._listeners.add(Listener)
        self._listeners.pumped(self._run)
        return listener

    def close(self, listener: Listener) -> None:
        """Forget a stream; without one nothing is held."""
        self._listeners.forget(listener)
        if not len(self._listeners):
            self._parts, self._bytes, self.head = [], 0, None

    def part_behind(self, cursor: Cursor) -> Part | None:
        """Return the part that has what comes behind a cursor; None where it has to be read, or has yet to come."""
        place = bisect_right(self._parts, cursor, key=lambda part: part.after) - 1
        if place < 0 or self._parts[place].upto <= cursor:
            return None
        return self._parts[place]

    async def _run(self) -> None:
        """Look each second, and wake up the streams where there is something new."""
        loop = asyncio.get_running_loop()
        while self._listeners.heard:
            due = loop.time() + self.seconds
            if await self._look():
                await self._listeners.wake()
            await asyncio.sleep(max(due - loop.time(), 0.0))

    async def _look(self) -> bool:
        """Return whether there are new events, and hold them."""
        seen = self.head
        found = await self._asked(lambda stop: self._found(seen))
        if found is None or not len(self._listeners):
            return False
        head, parts = found
        if seen is not None and head < seen:
            for listener in self._listeners.held():
                listener.over = "the watch was begun anew"
            self._parts, self._bytes = [], 0
        elif seen is not None and head == seen:
            return False
        self.head = head
        self._hold(parts)
        return True

    async def _asked(self, work: Callable[[Stop], T]) -> T | None:
        """Return what a thread makes; None where it fails, which is told of."""
        try:
            return await self._pool.run(None, work, admitted=True)
        except Problem as error:
            self._tell(error.detail)
        except ClientGone:
            pass
        except Exception as error:
            # whatever it is: without looks all streams would be silent for ever
            self._tell(str(error) if isinstance(error, DtossError | OSError) else repr(error))
        return None

    def _tell(self, why: str) -> None:
        if why != self._said:
            self._said = why
            self._failed(why)

    def _found(self, seen: Cursor | None) -> tuple[Cursor, list[Part]]:
        """Return where the watch stands, and what has come since; in a thread."""
        head = head_of(self.home)
        now = BEGINNING if head is None else Cursor(head.number, END_OF_BATCH)
        if head is None or seen is None or now <= seen:
            self._said = None
            return now, []
        parts: list[Part] = []
        try:
            self._read(seen, now, head.settings, parts)
            self._said = None
        except (DtossError, OSError) as error:
            self._tell(str(error))  # each stream tries by itself, and tells its client
        return now, parts

    def _read(self, at: Cursor, now: Cursor, settings: Settings, parts: list[Part]) -> None:
        held = 0
        for told in told_events(self.home, at, until=now):
            if told.events is not None and told.events.num_rows:
                for part in parts_of(told.events, settings, at):
                    parts.append(part)
                    at = part.upto
                    held += part.frames.nbytes
                    if held > SHARED_BYTES:
                        return  # the rest is read by those who want it
            if told.upto > at:
                parts.append(nothing(at, told.upto))
                at = told.upto

    def _hold(self, parts: list[Part]) -> None:
        if not parts:
            self._parts, self._bytes = [], 0
            return
        kept = self._parts if self._parts and self._parts[-1].upto == parts[0].after else []
        kept = [*kept, *parts]
        self._bytes = sum(part.frames.nbytes for part in kept)
        first = 0
        while self._bytes > SHARED_BYTES and first < len(kept) - 1:
            self._bytes -= kept[first].frames.nbytes
            first += 1
        self._parts = kept[first:]
