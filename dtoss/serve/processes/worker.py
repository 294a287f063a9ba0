"""One worker: what it is made of after the fork, and the order in which that begins and ends.

One worker's loop: it listens on the worker's socket, and ends so that whoever has asked is answered.

uvicorn's own server closes idle connections at once, with what its clients have sent in the meantime, and counts only
requests that are tasks; so its configuration and its protocol are used, and its server is not.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import Any

import numpy as np
import uvloop
from numpy.typing import NDArray
from uvicorn.config import Config
from uvicorn.server import ServerState

from dtoss.client.endpoint import Peers, read_peers
from dtoss.errors import InputError
from dtoss.fresh.builder import Fresh
from dtoss.fresh.intake import Intake
from dtoss.serve.answers.open_snapshots import OPEN_GENERATIONS, ServedSnapshot, Serving
from dtoss.serve.app import application
from dtoss.serve.auth.admission import doors_of
from dtoss.serve.cluster.cluster import PeerGroup
from dtoss.serve.cluster.served_plans import Placement, read_placement
from dtoss.serve.core.connection_limits import Guard, GuardedProtocol
from dtoss.serve.core.pool import Pool, Unread
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.map_files import PageFiles
from dtoss.serve.map.map_state import Showing, settle
from dtoss.serve.observability.access_log import Accesses
from dtoss.serve.observability.log_lines import Audit, Log
from dtoss.serve.observability.metrics import Metrics, fresh_families
from dtoss.serve.observability.partition_counts import HomeCounts, Homes
from dtoss.serve.observability.shared_counts import SharedCounts
from dtoss.serve.processes.parent_snapshot import Following
from dtoss.serve.processes.processes import Post
from dtoss.serve.processes.warm_up import short_way_works
from dtoss.serve.reload.prepare import adopt_snapshot
from dtoss.serve.reload.snapshot_watcher import Watcher
from dtoss.serve.requests.hot_protocol import Desk, HotProtocol
from dtoss.serve.state.worker_state import WorkerState
from dtoss.serve.windows.window_responses import families


@dataclass(frozen=True, eq=False)
class Common:
    """What the parent has made for all workers, before the fork."""

    settings: Settings  # What the server was told
    first: Following  # Holds the snapshot that a worker begins with
    counts: SharedCounts  # Of the short way, in shared memory
    verified: NDArray[np.int64]  # int64 (1,) in shared memory: which commit's files were verified
    metrics_folder: str  # Where Prometheus' client keeps numbers
    name: str  # A random one, of this server: files of the access log carry it
    home_counts: HomeCounts  # Of requests by partition, in shared memory
    files: PageFiles
    # What the plan and the list of peers said at the beginning; None where a server holds all
    together: tuple[Placement, Peers] | None
    fresh: Fresh | None = None  # How generations are made; None where snapshots are served as they are


def run_worker(post: Post, common: Common) -> int:
    """Return the exit code of a worker that has answered requests until it was told to end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(post, common))


async def _run(post: Post, common: Common) -> int:
    loop = asyncio.get_running_loop()
    homes = Homes(common.home_counts.of(post.number))
    state = _state_of(post, common, homes)
    settings, metrics, log = state.settings, state.metrics, state.log
    watcher = Watcher(state, loop, common.verified, state.showing.live.__len__)
    if state.circle is not None:
        state.circle.start(loop)
    if post.again:
        watcher.look(loop_runs=False)
    front, desk = application(state, loop)
    # mapped files are open ones: of the snapshot that answers, the one before and the one to come
    opened = 3 if state.fresh is None else 3 + OPEN_GENERATIONS
    files = opened * (len(state.serving.now.index.parts) + 1)
    most = room_for(settings.limits.connections, files)
    if most < settings.limits.connections:
        log.event("few files", connections=most, wanted=settings.limits.connections, way_out="ulimit -n, LimitNOFILE=")

    def refused(status: int, sent: int) -> None:
        metrics.answered("other", status, 0.0, sent)

    guard = Guard(settings.limits, most, lambda: desk.ids.take(None), refused)
    config = config_of(front, settings)
    protocol = await _protocol(state, config, guard, desk)
    told: list[ServedSnapshot] = []

    def every_second() -> None:
        served = state.serving.now
        if not told or told[0] is not served:
            told[:] = [served]
            metrics.serves(served.name, served.commit, served.made, len(served.index))
        loop.run_in_executor(None, settle, homes, served.index)

    def ending() -> None:
        watcher.stop(0.0)
        if state.circle is not None:
            state.circle.stop()
        state.showing.live.end()
        if state.tail is not None:
            state.tail.end()

    every_second()
    watcher.start()
    gc.collect()
    gc.freeze()
    assert post.socket is not None
    left = await listen(
        config,
        protocol,
        post.socket,
        guard,
        parent=post.parent,
        ready=post.ready,
        hangup=state.doors.reload,
        every_second=every_second,
        ending=ending,
    )
    state.pool.close()
    state.for_others.close()
    state.accesses.close()
    log.event("worker ended", cut_off=left)
    log.close()
    if state.audit is not None:
        state.audit.close()
    return 0


def _state_of(post: Post, common: Common, homes: Homes) -> WorkerState:
    settings = common.settings
    metrics = Metrics(common.counts, post.number, common.metrics_folder, common.fresh is not None)
    log = Log(settings.log, slow=settings.slow, worker=post.number, dropped=metrics.dropped)
    limits = settings.limits
    first = common.first.take()
    pool = Pool(
        settings.threads,
        limits.pool_queue,
        limits.pool_seconds,
        metrics,
        lambda error: log.event("work in the pool failed", error=error),
        Unread(limits.answer_bytes),
    )
    serving = Serving(adopt_snapshot(first, limits.evaluations, pool.submit, metrics.evaluated))
    state = WorkerState(
        number=post.number,
        settings=settings,
        serving=serving,
        pool=pool,
        accesses=Accesses(
            settings.access_log,
            first.index.space,
            sample=settings.access_sample,
            digits=settings.access_round,
            grid=settings.log_places,
            server=common.name,
            worker=post.number,
            metrics=metrics,
            log=log,
            homes=homes,
        ),
        metrics=metrics,
        doors=doors_of(settings, log.event),
        log=log,
        showing=Showing(serving, common.files, common.home_counts, limits.live, log.event),
        circle=circle_of(common, first, metrics, log.event),
        audit=None if settings.audit is None else Audit(settings.audit, post.number, metrics.unaudited),
        intake=Intake(common.fresh.address) if common.fresh is not None and common.fresh.takes else None,
        fresh=None if common.fresh is None else common.fresh.counts,
    )
    if state.fresh is not None:
        metrics.also(partial(fresh_families, state.fresh))
    metrics.also(partial(families, state.windows))
    return state


def together_of(settings: Settings, served: ServedSnapshot) -> tuple[Placement, Peers] | None:
    """Return what a plan and a list of peers say, None where a server holds all."""
    if settings.server is None or served.share is None:
        return None
    assert settings.plan is not None
    assert settings.peers is not None
    share = served.share
    placement = read_placement(settings.plan, share.index.partitioning.digest, len(share.furthest))
    return placement, read_peers(settings.peers)


def circle_of(common: Common, served: ServedSnapshot, teller: Metrics, event: Callable[..., None]) -> PeerGroup | None:
    """Return the other servers of the plan, None where this one holds all.

    A worker that stands in for another takes what the files said at the beginning if they are no good now.
    """
    server = common.settings.server
    if server is None or common.together is None:
        return None
    try:
        found = together_of(common.settings, served)
    except InputError as error:
        event("plan kept", detail=str(error))
        found = common.together
    placement, peers = found or common.together
    return PeerGroup(server, peers, placement, teller, event)


def config_of(app: Any, settings: Settings) -> Config:
    """Return uvicorn's configuration, loaded: what it does not do for us is switched off."""
    config = Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.limits.idle_seconds,  # type: ignore[arg-type]
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    config.load()
    return config


async def _protocol(state: WorkerState, config: Config, guard: Guard, desk: Desk) -> Callable[..., GuardedProtocol]:
    """Return what makes connections: with the short way, unless it is switched off or uvicorn has changed."""
    if not state.settings.hot:
        return partial(GuardedProtocol, guard=guard)
    if (wrong := await short_way_works(state, config)) is not None:
        state.log.event("no short way", detail=f"it does not work with this uvicorn: all go the long way; {wrong}")
        return partial(GuardedProtocol, guard=guard)
    return partial(HotProtocol, guard=guard, desk=desk)


BACKLOG = 2_048
"""Connections that wait to be accepted."""
SECONDS_TO_TURN = 0.5
"""After SIGTERM: for how long an idle connection may still ask, and hear with its answer that it is closed."""
SECONDS_TO_ANSWER = 2.6
"""After SIGTERM: when requests that are still in hand are abandoned."""
SWEPT = 500
"""Connections that are looked at in one turn of the loop."""
SPARE_FILES = 256
"""Files that a worker opens beside its connections."""


def room_for(connections: int, files: int = 0) -> int:
    """Return how many connections this process may have open, of so many wanted; its limit of files is raised first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = SPARE_FILES + files + (len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0)  # noqa: PTH112, PTH208
    wanted = connections + used
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if soft == resource.RLIM_INFINITY else max(min(connections, soft - used), 1)


async def listen(
    config: Config,
    protocol: Callable[..., Any],
    place: socket.socket,
    guard: Guard,
    *,
    parent: int,
    ready: Callable[[], None],
    hangup: Callable[[], None],
    every_second: Callable[[], None],
    ending: Callable[[], None],
) -> int:
    """Answer requests until SIGTERM comes or the parent is gone; return how many connections were cut off then.

    ``ready``: is called once connections are accepted; ``hangup``: is called at SIGHUP; ``every_second``: is called
    once a second; ``ending``: is called when the worker begins to end.
    """
    loop = asyncio.get_running_loop()
    shared = ServerState()
    stop = asyncio.Event()

    def make() -> asyncio.Protocol:
        return protocol(config=config, server_state=shared, app_state={}, _loop=loop)

    def gone() -> None:
        loop.remove_reader(parent)
        stop.set()

    def again() -> None:
        if config.ssl is not None:
            with suppress(OSError):  # a certificate that is no good does not replace one that is
                config.ssl.load_cert_chain(str(config.ssl_certfile), config.ssl_keyfile)
        hangup()

    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGHUP, again)
    loop.add_reader(parent, gone)
    patience: dict[str, Any] = {"ssl": config.ssl}
    if config.ssl is not None:
        patience["ssl_handshake_timeout"] = guard.header_seconds
    _date(shared, config)
    server = await loop.create_server(make, sock=place, backlog=BACKLOG, **patience)
    ready()
    while not stop.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 1.0)
        _date(shared, config)
        connections, now = list(shared.connections), loop.time()
        for first in range(0, len(connections), SWEPT):
            guard.sweep(connections[first : first + SWEPT], now)
            await asyncio.sleep(0)
        every_second()
    ending()
    guard.draining = True
    await _take_the_rest(loop, place, make, patience)
    server.close()
    return await _drain(shared)


def _date(shared: ServerState, config: Config) -> None:
    shared.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode()), *config.encoded_headers]


async def _take_the_rest(
    loop: asyncio.AbstractEventLoop,
    place: socket.socket,
    make: Callable[[], asyncio.Protocol],
    patience: dict[str, Any],
) -> None:
    """Accept the connections that the kernel has accepted: they would be reset."""
    waiting: list[socket.socket] = []
    with suppress(OSError):
        while len(waiting) < BACKLOG:
            waiting.append(place.accept()[0])
    for accepted in waiting:
        accepted.setblocking(False)
        with suppress(OSError):
            await loop.connect_accepted_socket(make, accepted, **patience)


async def _drain(shared: ServerState) -> int:
    """Wait until all connections are closed; return how many were not in time."""
    began = time.monotonic()
    closed_idle = False
    while shared.connections or shared.tasks:
        connection: Any
        for connection in list(shared.connections):
            cycle = connection.cycle
            if cycle is not None and not cycle.response_complete:
                cycle.keep_alive = False
            elif closed_idle:
                connection.shutdown()
        passed = time.monotonic() - began
        if passed >= SECONDS_TO_ANSWER:
            break
        closed_idle = passed >= SECONDS_TO_TURN
        await asyncio.sleep(0.02)
    left = len(shared.connections)
    for task in list(shared.tasks):
        task.cancel()
    for connection in list(shared.connections):
        connection.transport.abort()
    if left:
        await asyncio.sleep(0.05)  # so that tasks end
    return left
