"""One worker's loop: it listens on the worker's socket, and ends so that whoever has asked is answered.

uvicorn's own server closes idle connections at once, with what its clients have sent in the meantime, and counts only
requests that are tasks; so its configuration and its protocol are used, and its server is not.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from dtoss.serve.core.connection_limits import Guard

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
    return await _drained(shared)


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


async def _drained(shared: ServerState) -> int:
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
