"""Threads for all that takes longer than a turn of the loop, behind a queue that is counted.

Kernels run there without the interpreter's lock. Work in Python is cut in pieces, and asks between them whether anybody
still waits for it: a thread cannot be ended from outside.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Protocol, TypeVar

from dtoss.locks import Lock
from dtoss.serve.core.problems import Problem

T = TypeVar("T")
NICE = 5
"""How far threads beside the loop stand back behind it where both want the processor."""
WATCHED_FROM = 0.02
"""Seconds from which on it is looked whether the client is still there: most work is done before."""


class WorkStopped(Exception):
    """Work that nobody waits for any more."""


class ClientGone(Exception):
    """A client that closed its connection, or reads nothing: there is nobody to answer."""


class Client(Protocol):
    """A request whose body was read: its next message says that the client went away."""

    @property
    def receive(self) -> Callable[[], Awaitable[Any]]:
        """Return what gives the next message."""


class Stop:
    """Whether work is to end before it is done."""

    def __init__(self) -> None:
        self._stopped = False

    def set(self) -> None:
        """Let the work end where it next asks."""
        self._stopped = True

    def check(self) -> None:
        """Go on if somebody still waits."""
        if self._stopped:
            raise WorkStopped


class Until:
    """What work waits for that is done elsewhere: it goes on, in a thread again, once all of it is done.

    ``begun``: each ends by itself, within a time of its own.
    """

    def __init__(self, begun: Collection[Future[Any]]) -> None:
        self.begun = begun

    def __await__(self) -> Generator[Until, None, None]:
        """Wait, unless all is done."""
        if not all(one.done() for one in self.begun):
            yield self


class _Ended:
    """What work has made in the end."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result


class Unread:
    """Bytes of answers that are made and wait for their clients to read."""

    def __init__(self, most: float = inf) -> None:
        self.most = most
        self.bytes = 0

    @contextmanager
    def holds(self, size: int) -> Iterator[None]:
        """Count so many bytes as long as the ``with`` lasts; on the loop."""
        self.bytes += size
        try:
            yield
        finally:
            self.bytes -= size

    def check(self) -> None:
        """Let another answer be made."""
        if self.bytes > self.most:
            raise Problem(
                503,
                f"answers of {self.bytes:,} bytes wait to be read: at most {self.most:,} are held; ask again in a "
                "second",
                limit="answer_bytes",
                value=self.bytes,
                bound=self.most,
                retry_after=1,
            )


class Waiting(Protocol):
    """What is told how many requests wait for a thread."""

    def waiting(self, requests: int, /) -> None:
        """Take their number."""


class Pool:
    """Threads of one worker.

    ``failed``: is told of errors in work that was submitted; without it ``threading.excepthook`` is.
    """

    def __init__(
        self,
        threads: int,
        queue: int,
        seconds: float,
        metrics: Waiting,
        failed: Callable[[BaseException], None] | None = None,
        unread: Unread | None = None,
    ) -> None:
        self._threads = threads
        self._most = threads + queue
        self._queue = queue
        self._seconds = seconds
        self._metrics = metrics
        self._failed = failed
        self._lock = Lock()
        self.unread = unread or Unread()
        self.inside = self.elsewhere = 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="pool", initializer=yield_processor)

    async def run(self, request: Client | None, work: Callable[[Stop], T], *, admitted: bool = False) -> T:
        """Return what work makes, done by a thread.

        ``request``: whose client is looked after, once its body was read: if it goes away, the work stops. None:
        nobody's.
        """
        if not admitted:
            self._admit()
        stop = Stop()
        try:
            found: T = await self._wait(request, self._begin_awaitable(work, stop), _Left(self._seconds))
            return found
        finally:
            # whoever left does not wait for what a thread does at the moment
            stop.set()

    async def run_steps(self, request: Client | None, work: Callable[[Stop], Coroutine[Any, Any, T]]) -> T:
        """Return what work makes that waits for others meanwhile, each step of it done by a thread.

        ``work``: what it awaits, :class:`Until` alone, is waited for on the loop: no thread is held by who waits.
        """
        self._admit()
        stop, left = Stop(), _Left(self._seconds)
        made: Coroutine[Until, None, T] | None = None

        def step(stop: Stop) -> Until | _Ended:
            nonlocal made
            if made is None:
                made = work(stop)
            try:
                return made.send(None)
            except StopIteration as ended:
                return _Ended(ended.value)

        try:
            while type(found := await self._wait(request, self._begin_awaitable(step, stop), left)) is not _Ended:
                await self._elsewhere(request, found, left)
            result: T = found.result
            return result
        finally:
            stop.set()
            if made is not None:
                # one that is left where it waits ends what it has begun elsewhere; one in a thread ends by itself
                with suppress(ValueError):
                    made.close()

    async def _elsewhere(self, request: Client | None, until: Until, left: _Left) -> None:
        """Wait for what work waits for; who waits is not inside."""
        if self.elsewhere >= self._queue:
            raise self._too_many("other servers")
        self.elsewhere += 1
        try:
            await self._wait(request, _all_done(until.begun), left)
        finally:
            self.elsewhere -= 1

    async def _wait(self, request: Client | None, ours: asyncio.Future[T], left: _Left) -> T:
        """Return a result that is there before the time is over."""
        try:
            done, _ = await asyncio.wait((ours,), timeout=min(WATCHED_FROM, left.seconds()))
            if not done:
                await self._watch(request, ours, left)
            if ours.done():
                return ours.result()
        finally:
            ours.cancel()
        raise Problem(
            503,
            f"the answer took longer than {self._seconds:g} seconds: ask for less at a time",
            limit="pool_seconds",
            bound=self._seconds,
            retry_after=1,
        )

    def submit(self, work: Callable[[], None]) -> None:
        """Have work done when a thread is free; nobody waits for it."""
        self._admit()
        self._begin(lambda stop: work(), Stop()).add_done_callback(self._ended)

    def close(self) -> None:
        """Begin nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _admit(self) -> None:
        self.unread.check()
        if self.inside >= self._most:
            raise self._too_many("a thread")

    def _too_many(self, awaited: str) -> Problem:
        text = f"{self._queue} requests wait for {awaited} already: ask again in a second"
        return Problem(503, text, limit="pool_queue", value=self._queue, bound=self._queue, retry_after=1)

    async def _watch(self, request: Client | None, ours: asyncio.Future[Any], left: _Left) -> None:
        """Return when work is done or took too long."""
        if request is None:
            await asyncio.wait((ours,), timeout=left.seconds())
            return
        gone = asyncio.ensure_future(client_gone(request))
        try:
            await asyncio.wait((ours, gone), timeout=left.seconds(), return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not ours.done():
                raise ClientGone
        finally:
            gone.cancel()

    def _begin_awaitable(self, work: Callable[[Stop], Any], stop: Stop) -> asyncio.Future[Any]:
        return asyncio.wrap_future(self._begin(work, stop))

    def _begin(self, work: Callable[[Stop], T], stop: Stop) -> Future[T]:
        def run() -> T:
            stop.check()
            return work(stop)

        with self._lock:
            self.inside += 1
        try:
            future = self._executor.submit(run)
        except RuntimeError:
            self._left()
            raise Problem(503, "the server is ending: ask again", retry_after=1) from None
        future.add_done_callback(lambda _: self._left())
        self._tell()
        return future

    def _left(self) -> None:
        with self._lock:
            self.inside -= 1
        self._tell()

    def _tell(self) -> None:
        self._metrics.waiting(max(self.inside - self._threads, 0))

    def _ended(self, future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and self._failed is not None:
            self._failed(error)
        elif error is not None:
            threading.excepthook(
                threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
            )


class _Left:
    """The time that a request has left; it runs while a thread works as while it waits."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends = self._loop.time() + seconds

    def seconds(self) -> float:
        """Return how much that is."""
        return max(self._ends - self._loop.time(), 0.0)


def _all_done(begun: Collection[Future[Any]]) -> asyncio.Future[None]:
    """Return what is done once all of these are, however each ends."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    missing = len(begun)

    def count() -> None:
        nonlocal missing
        missing -= 1
        if missing == 0 and not done.done():
            done.set_result(None)

    for one in begun:
        one.add_done_callback(lambda _: loop.call_soon_threadsafe(count))
    return done


def yield_processor() -> None:
    """Let other threads have the processor before this one: on Linux each has a priority of its own."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


async def client_gone(request: Client) -> None:
    """Return when a client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
