"""The process of a server that writes the log, where rows are taken, and objects go that were not heard of for long."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dtoss.commits.folder import LocalFolder
from dtoss.commits.lease import InUse, held_by
from dtoss.errors import DtossError, StoreError
from dtoss.fresh.fresh_counts import FreshCounts
from dtoss.fresh.generations import Generations, Maker, start_maker
from dtoss.fresh.intake import GroupCommit, Intake
from dtoss.fresh.shared_folder import shared_path
from dtoss.fresh.standing import Newest, Standing, follow_newest
from dtoss.locks import processors
from dtoss.log.log_reader import LogReader, fit, log_schema, roles_of
from dtoss.log.log_writer import LogWriter
from dtoss.log.segment_names import HIDDEN
from dtoss.merge_rows import ids_of
from dtoss.partition import numbers
from dtoss.rows.store_clock import Scale
from dtoss.snapshots.store import Store

GIL_SECONDS = 0.0005
"""How long a thread keeps the interpreter from the loop, which acknowledges rows."""
SOCKET = "intake"
"""Where rows are taken, in the folder in memory."""
BUILDING_THREADS = 4
"""Threads that build partitions side by side, at the most."""
STAND_BY_SECONDS = 0.25
"""Between two looks whether the server that writes is gone."""
ELSEWHERE_SECONDS = 5.0
"""And so long where that is on another machine."""
RIGHT_SECONDS = 1.0
"""Between two looks whether another one has taken the right to write."""
FIRST_GENERATION_SECONDS = 60.0
"""For which a server of a plan waits for the first generation that another one makes."""


@dataclass(frozen=True)
class Fresh:
    """What the processes of a server agree on."""

    store: str
    updates: str  # The folder of the log
    folder: str  # In memory: the socket, and the store of generations where the server is alone
    takes: bool  # Whether rows are taken
    counts: FreshCounts
    # The number of this server in its plan, whose servers share generations; None where it is alone
    server: int | None = None
    expire: float | None = None  # Seconds after which an object that is not heard of is deleted; None for never

    @property
    def address(self) -> str:
        """The socket where rows are taken."""
        return str(Path(self.folder) / SOCKET)

    @property
    def home(self) -> str:
        """Where the store of generations is."""
        return self.folder if self.server is None else shared_path(self.updates)


def generations_of(fresh: Fresh, event: Callable[..., None]) -> Generations:
    """Return what makes generations, before it has begun."""
    store = Store(fresh.store).absolute
    schema = log_schema(store.manifest())
    reader, other = (LogReader(fresh.updates, schema) for _ in range(2))
    threads = min(processors(), BUILDING_THREADS)
    return Generations(
        store, Store(fresh.home), reader, other, schema, fresh.counts, event, threads, server=fresh.server
    )


def first_generation(fresh: Fresh, seconds: float = FIRST_GENERATION_SECONDS) -> None:
    """Publish what stands before anybody asks; what keeps the log from being written is an error here.

    ``seconds``: for which a server of a plan waits for one of the server that writes.
    """

    def untold(what: str, **facts: object) -> None:
        """Tell nobody: what goes wrong here is raised."""

    ends, log = time.monotonic() + seconds, None
    while (fresh.server is not None or fresh.takes) and (log := _writer_of(fresh)) is None:
        if Store(fresh.home).head() is not None:
            return
        if time.monotonic() > ends:
            raise StoreError(
                f"the log of {fresh.updates} is being written by {held_by(_hidden_folder(fresh))}, which has made no "
                f"generation for servers of this plan in {seconds:.0f} s: end it if it is none of them"
            )
        time.sleep(STAND_BY_SECONDS)
    try:
        generations_of(fresh, untold).begin()
    finally:
        if log is not None:
            log.close()


def _hidden_folder(fresh: Fresh) -> LocalFolder:
    return LocalFolder(f"{fresh.updates}/{HIDDEN}")


def _writer_of(fresh: Fresh) -> LogWriter | None:
    """Return the right to write the log; None while another server of the plan has it."""
    try:
        return LogWriter.open(fresh.updates, log_schema(Store(fresh.store).manifest()))
    except InUse:
        if fresh.server is None:
            raise
        return None


def run_builder(fresh: Fresh, parent: int, ready: Callable[[], None], event: Callable[..., None]) -> int:
    """Return the exit code of a builder that has worked until it was told to end, or its parent was gone.

    ``parent``: a file descriptor that is at its end when the parent is gone.
    """
    sys.setswitchinterval(GIL_SECONDS)
    expires = None
    if fresh.expire is not None:
        expires = partial(expire_objects, seconds=fresh.expire, intake=Intake(fresh.address))
    with start_maker(partial(generations_of, fresh, event), fresh.counts, event, expires) as maker:
        return asyncio.run(_run(fresh, parent, ready, event, maker))


async def _run(fresh: Fresh, parent: int, ready: Callable[[], None], event: Callable[..., None], maker: Maker) -> int:
    loop, stop, ended = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    def end_at(source: int | socket.socket) -> None:
        loop.remove_reader(source)
        stop.set()

    loop.add_reader(parent, end_at, parent)
    ready, log = cache(ready), None  # said once
    if fresh.server is not None:
        if (log := await stand_by(fresh, stop, ready, event)) is None:
            return 0
    elif fresh.takes:
        log = _writer_of(fresh)
    try:
        maker.tell()
        if not await maker.has_begun():
            return 1
        loop.add_reader(maker.link, end_at, maker.link)
        if log is None:
            ready()
            await stop.wait()
        else:
            with suppress(FileNotFoundError):
                Path(fresh.address).unlink()
            event("log taken", pid=os.getpid(), seq=log.durable)
            newest = Newest(Store(fresh.home))
            threading.Thread(target=follow_newest, args=(newest, ended), daemon=True).start()
            taking = GroupCommit(log, log.schema, newest.judge, maker.tell, fresh.counts, event)
            keeping = loop.create_task(keep_right(log, stop, event))
            await taking.serve(fresh.address, stop, ready)
            await keeping
    finally:
        ended.set()
        if log is not None:
            with suppress(DtossError):  # cycles read what is sealed
                log.seal()
            log.close()
    return int(maker.has_ended())


async def stand_by(
    fresh: Fresh,
    stop: asyncio.Event,
    ready: Callable[[], None],
    event: Callable[..., None],
    seconds: float = STAND_BY_SECONDS,
) -> LogWriter | None:
    """Return the right to write once no other server of the plan has it; None where it is told to end before."""
    home, reader = Store(fresh.home), LogReader(fresh.updates, log_schema(Store(fresh.store).manifest()))
    told, again = None, 0.0
    while not stop.is_set():
        holder = held_by(_hidden_folder(fresh))
        # one of another machine may be gone, which only its lease can tell
        if holder is None or (not holder.here and time.monotonic() >= again):
            again = time.monotonic() + ELSEWHERE_SECONDS
            if (log := _writer_of(fresh)) is not None:
                return log
        ready()
        if told != (told := str(holder)):
            event("builder stands by", pid=os.getpid(), writer=told)
        with suppress(StoreError):  # it is replaced just now
            manifest = home.manifest()
            made = datetime.fromisoformat(manifest["created"]).timestamp()
            fresh.counts.follow(reader.last(), manifest["fresh"], made)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    return None


async def keep_right(
    log: LogWriter, stop: asyncio.Event, event: Callable[..., None], seconds: float = RIGHT_SECONDS
) -> None:
    """End the builder once another one has taken the right to write: it stands by then."""
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
        try:
            with suppress(OSError):  # a disk that is away just now
                await asyncio.to_thread(log.check)
        except StoreError as error:
            event("log not held", detail=str(error))
            stop.set()


EXPIRY_SECONDS = 1.0
"""Between two looks."""
EXPIRED_AT_ONCE = 100_000
"""Rows that are told at a time."""


def expired_rows(standing: Standing, schema: pa.Schema, scale: Scale, before: float) -> pa.Table:
    """Return rows that delete the objects of before a moment, at the time of each, in the columns of a log.

    None where that would be all there are: then the clock is wrong. Cost O(n).
    """
    roles = roles_of(schema)
    gone: list[pa.Table] = [schema.empty_table()]
    for partition in standing.index.parts.all():
        owned = partition.owned_objects
        assert partition.times is not None  # who opens a snapshot has seen to it
        times = partition.times.slice(0, owned)
        late = numbers(scale.numbers(times) < before)
        columns = {
            roles["id"]: ids_of(partition).slice(0, owned).filter(late).cast(schema.field(roles["id"]).type),
            roles["time"]: times.filter(late),
        }
        columns[roles["deleted"]] = pc.is_valid(columns[roles["time"]])
        gone.append(fit(pa.table(columns), schema, "what expires"))
    rows = pa.concat_tables(gone)
    return rows.slice(0, EXPIRED_AT_ONCE) if len(rows) < len(standing.index) else schema.empty_table()


def expire_objects(
    made: Generations, seconds: float, intake: Intake, stop: threading.Event, pace: float = EXPIRY_SECONDS
) -> None:
    """Tell the log what expires, as who tells rows does, until told to stop.

    ``seconds``: for which an object that is not heard of stays.
    """
    scale, seq = Scale.of(made.store.manifest()), 0
    while not stop.wait(pace):
        standing = made.standing
        if standing.seq < seq:
            continue  # what was told is not seen yet
        rows = expired_rows(standing, made.schema, scale, scale.before(scale.now(), seconds))
        if len(rows):
            try:
                seq = asyncio.run(intake.put(rows)).seq or seq
            except DtossError as error:
                made.event("nothing expires", detail=str(error))
