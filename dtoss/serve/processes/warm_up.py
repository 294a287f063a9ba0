"""What is tried before anybody asks: the framework is loaded before the fork, and the short way asked once after it.

The short way rests on what is inside uvicorn, and that may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from dtoss.serve.answers.open_snapshots import ServedSnapshot, Serving
from dtoss.serve.app import application
from dtoss.serve.auth.admission import Hosts
from dtoss.serve.auth.tokens import EVERYBODY, Token
from dtoss.serve.core.connection_limits import Guard
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.map_files import PageFiles
from dtoss.serve.requests.front import RequestIds
from dtoss.serve.requests.hot_protocol import Desk, HotProtocol
from dtoss.serve.state.worker_state import WorkerState

THIS_HOST = b"localhost"
TURNS = 10
"""Of the loop, within which the answer has to be there."""


class _Silent:
    """Takes everything and tells nobody; lets everybody in, by any name."""

    def __init__(self) -> None:
        self.hosts = Hosts()

    def __getattr__(self, name: str) -> Callable[..., Token | None]:
        return lambda *values, **named: EVERYBODY if name == "admit" else None


class _Written(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.data = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def load_framework(settings: Settings, served: ServedSnapshot, files: PageFiles) -> None:
    """Make an application and forget it: what the framework loads for it is shared by all workers that are forked."""
    silent = cast(Any, _Silent())
    silent.files = files
    loop = asyncio.new_event_loop()
    try:
        state = WorkerState(0, settings, Serving(served), silent, silent, silent, silent, silent, silent)
        application(state, loop)
    finally:
        loop.close()


async def short_way_works(state: WorkerState, config: Config) -> str | None:
    """Return None if two questions of a connection are answered by the short way, else what went wrong."""
    silent = cast(Any, _Silent())
    alone = Serving(replace(state.serving.now, share=None))  # nobody else is asked, who may not be there yet
    unheard = replace(
        state, serving=alone, circle=None, metrics=silent, accesses=silent, doors=silent, log=silent, audit=None
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    space = state.serving.now.index.space
    names = b"lon=%.1f&lat=%.1f" if space.geographic else b"x=%.1f&y=%.1f"
    bounds = state.serving.now.index.bounds
    x, y = (0.0, 0.0) if bounds is None else ((bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2)
    request = b"GET /knn?" + names % (x, y) + b"&k=1 HTTP/1.1\r\nhost: %b\r\n\r\n" % THIS_HOST
    transport = _Written()
    guard = Guard(state.settings.limits, 1, lambda: "", lambda status, sent: None)
    try:
        desk = Desk(unheard, loop, RequestIds())
        hot = HotProtocol(config, ServerState(), {}, loop, guard=guard, desk=desk)
        hot.connection_made(transport)
        for number in (1, 2):
            hot.data_received(request)
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if transport.data.count(b"HTTP/1.1 200 OK\r\n") != number or hot.tasks:
                said = transport.data[-200:].decode(errors="replace")
                return f"question {number} was answered by {said!r}" if said else f"question {number} was not answered"
            if hot.timeout_keep_alive_task is None:
                return f"after answer {number} the connection is not idle"
        hot.connection_lost(None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
