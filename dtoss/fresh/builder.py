"""The process of a server that makes its generations, and writes the log where rows are taken."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.errors import DtossError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations, look_for_bases, make_generations
from dtoss.fresh.group_commit import GroupCommit
from dtoss.locks import processors
from dtoss.log.log_reader import LogReader
from dtoss.log.log_schema import log_schema
from dtoss.log.log_writer import LogWriter
from dtoss.snapshots.store import Store

GIL_SECONDS = 0.0005
"""How long a thread keeps the interpreter from the loop, which acknowledges rows."""
SOCKET = "intake"
"""Where rows are taken, in the folder in memory."""
BUILDING_THREADS = 4
"""Threads that build partitions side by side."""


@dataclass(frozen=True)
class Fresh:
    """What the processes of a server agree on."""

    store: str
    updates: str  # The folder of the log
    folder: str  # In memory: the store of generations, and the socket
    takes: bool  # Whether rows are taken
    counts: FreshCounts

    @property
    def address(self) -> str:
        """The socket where rows are taken."""
        return str(Path(self.folder) / SOCKET)


def generations_of(fresh: Fresh, event: Callable[..., None]) -> Generations:
    """Return what makes generations, before it has begun."""
    store = Store(fresh.store).absolute
    schema = log_schema(store.manifest())
    reader, other = (LogReader(fresh.updates, schema) for _ in range(2))
    threads = min(processors(), BUILDING_THREADS)
    return Generations(store, Store(fresh.folder), reader, other, schema, fresh.counts, event, threads)


def first_generation(fresh: Fresh) -> None:
    """Publish what stands before anybody asks; what keeps the log from being written is an error here."""
    if fresh.takes:
        LogWriter.open(fresh.updates, log_schema(Store(fresh.store).manifest())).close()

    def untold(what: str, **facts: object) -> None:
        """Tell nobody: what goes wrong here is raised."""

    generations_of(fresh, untold).begin()


def run_builder(fresh: Fresh, parent: int, ready: Callable[[], None], event: Callable[..., None]) -> int:
    """Return the exit code of a builder that has worked until it was told to end, or its parent was gone.

    ``parent``: a file descriptor that is at its end when the parent is gone.
    """
    sys.setswitchinterval(GIL_SECONDS)
    return asyncio.run(_run(fresh, parent, ready, event))


async def _run(fresh: Fresh, parent: int, ready: Callable[[], None], event: Callable[..., None]) -> int:
    loop, stop, ended = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    news = threading.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    def end_alone() -> None:
        loop.remove_reader(parent)
        stop.set()

    loop.add_reader(parent, end_alone)
    log = LogWriter.open(fresh.updates, log_schema(Store(fresh.store).manifest())) if fresh.takes else None
    made = generations_of(fresh, event)
    made.begin()
    fresh.counts.begin()
    event("builder started", pid=os.getpid(), seq=made.standing.seq, base=made.standing.base)
    works = [threading.Thread(target=work, args=(made, news, ended), daemon=True) for work in WORKS]
    for work in works:
        work.start()
    try:
        if log is None:
            ready()
            await stop.wait()
        else:
            with suppress(FileNotFoundError):
                Path(fresh.address).unlink()
            taking = GroupCommit(log, made.schema, made.judge, news.set, fresh.counts, event)
            await taking.serve(fresh.address, stop, ready)
    finally:
        ended.set()
        news.set()
        if log is not None:
            with suppress(DtossError):  # cycles read what is sealed
                log.seal()
            log.close()
    for work in works:
        work.join(1.0)
    return 0


WORKS = (make_generations, look_for_bases)
