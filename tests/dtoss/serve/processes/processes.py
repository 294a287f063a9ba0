"""Servers of a trivial application, each in processes of its own, for tests of processes and connections.

``python -m tests.dtoss.serve.processes.processes WORKERS [LIMIT=VALUE ...] [CERT KEY]``: the answer of ``/`` names the
worker's number and process, and whether it stands in for another; ``/nap`` takes a fifth of a second, ``/slow`` one,
``/long`` a thousand; ``/die`` ends the worker; ``/echo`` returns how long the body is; ``/early`` answers before it has
read one; ``/big`` with 50 MB.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

import uvloop
from uvicorn.config import Config

from dtoss.serve.core.connection_limits import Guard, GuardedProtocol
from dtoss.serve.core.server_settings import Limits
from dtoss.serve.processes.processes import hold, keep_running
from dtoss.serve.processes.worker import listen
from tests.ends import end_now


def say(*words):
    """A line at once and whole: several processes write to one pipe."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def app_of(post):
    async def app(scope, receive, send):
        path = scope["path"]
        body = f"{post.number} {os.getpid()} {int(post.again)}".encode()
        await asyncio.sleep({"/nap": 0.2, "/slow": 1, "/long": 1_000}.get(path, 0))
        if path == "/die":
            end_now(3)
        if path == "/early":
            body = b"early"
        if path == "/big":
            body = b"b" * 50_000_000
        if path == "/echo":
            size, more = 0, True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                size, more = size + len(message["body"]), message["more_body"]
            body = str(size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    return app


def work(post, *, limits, tls):
    cert, key = tls or (None, None)
    config = Config(
        app_of(post), http=GuardedProtocol, ws="none", lifespan="off", log_config=None, log_level="critical",
        access_log=False, proxy_headers=False, server_header=False, ssl_certfile=cert, ssl_keyfile=key,
        timeout_keep_alive=limits.idle_seconds, interface="asgi3",
    )  # fmt: skip
    config.load()

    def refused(status, size):
        say("refused", status)

    async def run():
        guard = Guard(limits, limits.connections, lambda: "an-id", refused)
        left = await listen(
            config, partial(GuardedProtocol, guard=guard), post.socket, guard, parent=post.parent, ready=post.ready,
            hangup=lambda: say("hangup", post.number),
            every_second=lambda: None, ending=lambda: say("ending", post.number),
        )  # fmt: skip
        say("left", left)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    return 0


def main(workers, *told):
    kinds = {"idle_seconds": float, "header_seconds": float}
    limits = Limits(**{(n := one.partition("="))[0]: kinds.get(n[0], int)(n[2]) for one in told if "=" in one})
    tls = [one for one in told if "=" not in one]
    port = hold("127.0.0.1", 0)
    sys.exit(
        keep_running(
            port,
            int(workers),
            partial(work, limits=limits, tls=tls),
            ready=lambda: say("ready", port.address[1]),
            died=lambda number, pid, fate: say("died", number, pid, fate),
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
