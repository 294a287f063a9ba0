"""Threads for all that takes longer than a turn of the loop, behind a queue that is counted.

Kernels run there without the interpreter's lock. Work in Python is cut in pieces, and asks between them whether anybody
still waits for it: a thread cannot be ended from outside.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from dtoss.locks import Lock
from dtoss.serve.problems import Problem

T = TypeVar("T")
NICE = 5
"""How far threads beside the loop stand back behind it where both want the processor."""
WATCHED_FROM = 0.02
"""Seconds from which on it is looked whether the client is still there: most work is done before."""


class Stopped(Exception):
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
        """Go on if somebody still waits.

        Raises
        ------
        Stopped
            If nobody does.
        """
        if self._stopped:
            raise Stopped


_TURN = threading.local()


@contextmanager
def waits() -> Iterator[None]:
    """Give the turn of this thread to another one of its pool, while it waits for somebody elsewhere."""
    turns: threading.Semaphore | None = getattr(_TURN, "of", None)
    if turns is None:
        yield
        return
    _TURN.of = None
    turns.release()
    try:
        yield
    finally:
        turns.acquire()
        _TURN.of = turns


class Waiting(Protocol):
    """What is told how many requests wait for a thread."""

    def waiting(self, requests: int) -> None:
        """Take their number."""


class Pool:
    """Threads of one worker.

    Parameters
    ----------
    threads
        How many work at a time.
    queue
        Requests that may wait for one of them; further ones are sent away.
    seconds
        That a request may wait and be worked on.
    metrics
        Is told how many wait.
    failed
        Is told of errors in work that was submitted; without it ``threading.excepthook`` is.
    waiting
        Whether work waits for other servers, by :func:`waits`: who waits is no thread that works.
    """

    def __init__(
        self,
        threads: int,
        queue: int,
        seconds: float,
        metrics: Waiting,
        failed: Callable[[BaseException], None] | None = None,
        *,
        waiting: bool = False,
    ) -> None:
        self._threads = threads
        self._most = threads + queue
        self._queue = queue
        self._seconds = seconds
        self._metrics = metrics
        self._failed = failed
        self._lock = Lock()
        self.inside = 0
        self._turns = threading.Semaphore(threads)
        most = self._most if waiting else threads
        self._executor = ThreadPoolExecutor(most, thread_name_prefix="pool", initializer=yield_processor)

    async def run(self, request: Client | None, work: Callable[[Stop], T], *, admitted: bool = False) -> T:
        """Return what work makes, done by a thread.

        Parameters
        ----------
        request
            Whose client is looked after, once its body was read: if it goes away, the work stops. None: nobody's.
        work
            Calls ``stop.check()`` now and then.
        admitted
            A piece of an answer that has begun: it waits, however many do.

        Raises
        ------
        Problem
            503 if too many wait already, or it took too long.
        ClientGone
            If the client went away.
        """
        if not admitted:
            self._admit()
        stop = Stop()
        future = self._begin(work, stop)
        ours = asyncio.wrap_future(future)
        try:
            done, _ = await asyncio.wait((ours,), timeout=min(WATCHED_FROM, self._seconds))
            if not done:
                await self._watched(request, ours)
            if ours.done():
                return ours.result()
        finally:
            # whoever left does not wait for what a thread does at the moment
            stop.set()
            ours.cancel()
        raise Problem(
            503,
            f"the answer took longer than {self._seconds:g} seconds: ask for less at a time",
            limit="pool_seconds",
            bound=self._seconds,
            retry_after=1,
        )

    def submit(self, work: Callable[[], None]) -> None:
        """Have work done when a thread is free; nobody waits for it.

        Raises
        ------
        Problem
            503 if too many wait already.
        """
        self._admit()
        self._begin(lambda stop: work(), Stop()).add_done_callback(self._ended)

    def close(self) -> None:
        """Begin nothing more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _admit(self) -> None:
        if self.inside >= self._most:
            raise Problem(
                503,
                f"{self._queue} requests wait for a thread already: ask again in a second",
                limit="pool_queue",
                value=self._queue,
                bound=self._queue,
                retry_after=1,
            )

    async def _watched(self, request: Client | None, ours: asyncio.Future[T]) -> None:
        """Return when work is done or took too long."""
        left = max(self._seconds - WATCHED_FROM, 0.0)
        if request is None:
            await asyncio.wait((ours,), timeout=left)
            return
        gone = asyncio.ensure_future(client_gone(request))
        try:
            await asyncio.wait((ours, gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not ours.done():
                raise ClientGone
        finally:
            gone.cancel()

    def _begin(self, work: Callable[[Stop], T], stop: Stop) -> Future[T]:
        def begun() -> T:
            with self._turns:
                _TURN.of = self._turns
                try:
                    stop.check()
                    return work(stop)
                finally:
                    _TURN.of = None

        with self._lock:
            self.inside += 1
        try:
            future = self._executor.submit(begun)
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


def yield_processor() -> None:
    """Let other threads have the processor before this one: on Linux each has a priority of its own."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


async def client_gone(request: Client) -> None:
    """Return when a client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
