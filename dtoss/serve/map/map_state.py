"""What the page shows besides the snapshot, and streams of these to any number of pages, once a second each.

A kind is a function that returns what is true now. Its event is told when that changes; what a slow client has not
read when the next one comes, it never hears of.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from dtoss.geometry.space import NO_CRS, Space
from dtoss.index import Index
from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.core.open_streams import OpenStreams
from dtoss.serve.core.server_settings import PACES, Paces
from dtoss.serve.map.map_files import PageFiles
from dtoss.serve.map.subscriptions_in_view import FenceSource
from dtoss.serve.map.watch_activity import Happening
from dtoss.serve.observability.partition_counts import MOST_PARTITIONS, HomeCounts, Homes, PartitionCounts, mark_of
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.serve.windows.window_responses import WindowNews
from dtoss.tiles.map_frame import Frame

WINDOW_SECONDS = 6.0
"""That a rate is the mean of."""
SILENT_SECONDS = 4.0
"""A worker that has told nothing for so long answers nothing: it counts once a second."""
_NANO = 1e9


@dataclass(frozen=True, eq=False)
class Load:
    """What is asked now."""

    requests: float  # Requests/s of all workers: places that were asked about
    partitions: NDArray[np.float64]  # float64 (P,), requests/s by the partition that holds the place


def settle(homes: Homes, index: Index) -> None:
    """Look up whose partitions were asked for, and tell the other processes."""

    def home_of(places: NDArray[np.float64]) -> NDArray[np.int32]:
        try:
            return index.partitioning.nearest(index.space.vectors(places))
        except ValueError:  # a place that is none in the store's CRS was not answered either
            return np.full(len(places), MOST_PARTITIONS, np.int32)

    homes.settle(mark_of(index.partitioning.digest), len(index.parts), home_of)


class Loads:
    """Makes rates of counts; of one process, for one caller at a time."""

    def __init__(self, counts: HomeCounts) -> None:
        self._counts = counts
        self._history: list[deque[PartitionCounts]] = []

    def look(self, mark: int, partitions: int, now: float) -> Load:
        """Return what is asked now, as far as it is known: nothing at the first look."""
        counted = self._counts.read(partitions)
        if not self._history:
            self._history = [deque() for _ in counted]
        requests, of = 0.0, np.zeros(partitions)
        for history, latest in zip(self._history, counted, strict=True):
            if latest is not None and (not history or history[-1].moment != latest.moment):
                history.append(latest)
            # one that is older than the window stays: rates are of at least as long
            while len(history) > 2 and now - history[1].moment / _NANO > WINDOW_SECONDS:
                history.popleft()
            if len(history) < 2 or now - history[-1].moment / _NANO > SILENT_SECONDS:
                continue
            last = history[-1]
            known = [one for one in history if now - one.moment / _NANO <= WINDOW_SECONDS + SILENT_SECONDS]
            if len(known) < 2:
                continue
            requests += (last.requests - known[0].requests) * _NANO / (last.moment - known[0].moment)
            # at other pivots counting began anew
            alike = list(takewhile(lambda one: one.regions == mark, reversed(known)))
            if len(alike) > 1:
                first, share = alike[-1], min(len(last.of), len(alike[-1].of))
                of[:share] += np.maximum(last.of[:share] - first.of[:share], 0) * (_NANO / (last.moment - first.moment))
        return Load(requests, of)


RATE_DIGITS = 3
"""Behind the point of rates."""


class Showing:
    """What one worker shows."""

    def __init__(
        self,
        serving: Serving,
        files: PageFiles,
        counts: HomeCounts,
        streams: int,
        tell: Callable[..., None],
        paces: Paces = PACES,
    ) -> None:
        self.files = files
        self._news: WindowNews | None = None
        self._serving = serving
        self._loads = Loads(counts)
        self._tell = tell
        self._planned: tuple[object, dict[str, Any]] | None = None
        self.fences = None if files.home is None else FenceSource(files.home)
        self._happening = None if files.home is None else Happening(files.home, self.frame_of)
        self._problem: str | None = None
        kinds = (
            Kind("snapshot", self.snapshot, at_once=True),
            Kind("snapshot", self.snapshot_named, at_once=True, told_to=(TO_SUMS, TO_SOME)),
            Kind("plan", self.plan, at_once=True, told_to=(TO_ALL, TO_SUMS)),
            Kind("load", self._load, always=True, told_to=(TO_ALL, TO_SUMS)),
            Kind("watch", self.watch, at_once=True, beside=True),
            Kind("windows", self._windows, at_once=True, beside=True, told_to=(TO_ALL, TO_SUMS)),
        )
        self.live = Live(
            kinds,
            streams,
            self.look,
            lambda error: tell("live failed", error=repr(error)),
            self._look_at_windows,
            paces.live,
        )

    def tell_windows(self, opened: OpenWindows) -> None:
        """Tell of the windows of the store from now on."""
        self._news = WindowNews(opened)

    def look(self) -> None:
        """Read files again that have changed; in a thread."""
        self.files.look(lambda why: self._tell("file not read", detail=why))
        if self._happening is None:
            return
        self._happening.look()
        if self._happening.problem != self._problem:
            self._problem = self._happening.problem
            if self._problem is not None:
                self._tell("watch not read", detail=self._problem)

    def frame_of(self, space: Space) -> Frame | None:
        """Return what the map is for places of a space; None where they have no place on it."""
        frame = self._serving.now.tiles.frame
        if space.crs == NO_CRS:
            return None if frame.plane is None else frame
        return None if frame.plane is not None else Frame(space, None)

    def watch(self) -> dict[str, Any] | None:
        """Return what happens in the watch; None where there is none."""
        return None if self._happening is None else self._happening.told

    def _look_at_windows(self) -> bool:
        return self._news is not None and self._news.look()

    def _windows(self) -> dict[str, Any] | None:
        return None if self._news is None else self._news.told

    def snapshot(self) -> dict[str, Any]:
        """Return which snapshot is served."""
        now = self._serving.now
        return {
            "snapshot": now.name,
            "commit": now.commit,
            "objects": len(now.index),
            "made": now.made,
            "refused": self._serving.refused,
        }

    def snapshot_named(self) -> dict[str, Any]:
        """Return which snapshot is served, to who may not see all of it."""
        now = self._serving.now
        return {"snapshot": now.name, "commit": now.commit, "made": now.made}

    def plan(self) -> dict[str, Any] | None:
        """Return the plan in force beside the snapshot that is served; None where there is none."""
        index, held = self._serving.now.index, self.files.plan_file
        if held is None:
            return None
        plan, pivots, partitions = held.now, index.partitioning.digest, len(index.parts)
        of = (plan, pivots, partitions, held.problem)
        if self._planned is None or self._planned[0] != of:
            self._planned = (of, {**plan.told(pivots, partitions), "problem": held.problem})
        return self._planned[1]

    def patterns(self) -> dict[str, Any] | None:
        """Return the patterns beside the snapshot that is served; None where there are none."""
        patterns = self.files.patterns
        return None if patterns is None else patterns.told(self._serving.now.index.partitioning.digest)

    def _load(self) -> dict[str, Any]:
        index, plan = self._serving.now.index, self.files.plan
        load = self._loads.look(mark_of(index.partitioning.digest), len(index.parts), time.monotonic())
        servers = None
        if plan is not None and plan.stale(index.partitioning.digest) is None:
            servers = [round(rate, RATE_DIGITS) for rate in plan.load(load.partitions)]
        return {
            "requests": round(load.requests, RATE_DIGITS),
            "partitions": load.partitions.round(RATE_DIGITS).tolist(),
            "servers": servers,
        }


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
