"""A reader that is cut off, of a server that is restarted: ``python -m tests.dtoss.serve.events.restarts [50] [10]``.

Batches are committed all the while, folded now and then. A plain reader of server-sent events is disconnected so often,
in the middle of a block as well, and goes on after the last id that it has; ``dtoss.connect(...).events()`` listens
beside it and sees only the restarts. Half of those are SIGKILL. Both have to have each event once, in its order.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress

import numpy as np

import dtoss
from dtoss.watch.events.event_compaction import fold_events
from tests.dtoss.serve.events.listening import Stream, Watch, ids_of, order
from tests.dtoss.serve.processes.started import started
from tests.dtoss.serve.watched import commit
from tests.dtoss.watch.streams import NOW

RUN = "from pipelines.command.main import main; main()"
SECONDS = 180
HOUR = 3_600_000_000


class Writer(threading.Thread):
    """Commits batches until it is told to end."""

    def __init__(self, watch, pause):
        super().__init__(daemon=True)
        self.watch, self.pause, self.ended, self.failed = watch, pause, threading.Event(), None

    def run(self):
        try:
            while not self.ended.wait(self.pause):
                self.watch.batch(rows=8)
                if self.watch.turn % 40 == 0:
                    fold_events(self.watch.home, NOW + 2 * HOUR)
        except BaseException as error:
            self.failed = error
            raise


class Listening(threading.Thread):
    """Iterates over the events of the client."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.events, self.failed, self.last = [], None, None
        self.followed = dtoss.connect(url).events(after="beginning", patience=10 * SECONDS)

    def run(self):
        try:
            for event in self.followed:
                self.events.append(event["id"])
        except BaseException as error:
            self.failed = error
            raise


def own_port():
    """A free port below those that a system gives out: nobody else has it by chance while no server listens."""
    for port in np.random.default_rng(os.getpid()).permutation(np.arange(20_000, 32_000)).tolist():
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def serving(held, store, port):
    """A server of a store on a port."""
    arguments = ("-c", RUN, "serve", "--store", store, "--port", port, "--access-log", "off", "--workers", "2")
    ready = r"on http://127\.0\.0\.1:(\d+)"
    return held.enter_context(started(*arguments, ready=ready, seconds=SECONDS, DTOSS_QUIET="1"))


def disconnected(found, rng):
    """Read a few blocks, and perhaps a part of the next; then close the connection."""
    with suppress(OSError, http.client.HTTPException):
        for _ in range(int(rng.integers(1, 12))):
            block = found.block()
            if block is None:
                break
            yield block
        if rng.random() < 0.5:
            found.response.read1(int(rng.integers(1, 200)))
    with suppress(OSError, AttributeError):  # it may be closed already
        found.link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    found.close()


def connected(at, last):
    """A stream, as soon as there is a server."""
    ends = time.monotonic() + SECONDS
    while True:
        try:
            found = Stream(at, "/events?after=beginning", last)
            if found.response.status == 200:
                return found
            assert found.response.status == 503, found.response.read()
            found.close()
        except (OSError, http.client.HTTPException):
            pass
        assert time.monotonic() < ends
        time.sleep(0.05)


def main(disconnects=50, restarts=10, seed=0, pause=0.1, folder=None):
    rng = np.random.default_rng(seed)
    store = folder or tempfile.mkdtemp()
    commit(store)
    watch = Watch(store).begin()
    watch.batch()
    heard, last, done = [], None, 0
    with ExitStack() as held:
        server = serving(held, store, own_port())
        at = ("127.0.0.1", server.port)
        writer, listener = Writer(watch, pause), Listening(f"http://127.0.0.1:{server.port}")
        listener.start()
        writer.start()
        each = max(disconnects // (restarts + 1), 1)
        for turn in range(disconnects):
            found = connected(at, last)
            for block in disconnected(found, rng):
                last = block.get("id", last)
                heard += [block["id"]] if "data" in block else []
            if (turn + 1) % each == 0 and done < restarts:
                code, _ = server.stop(signal.SIGTERM if done % 2 else signal.SIGKILL)
                assert code == (0 if done % 2 else -signal.SIGKILL), server.lines
                server = serving(held, store, at[1])
                done += 1
        writer.ended.set()
        writer.join(SECONDS)
        wanted = ids_of(watch.told())
        found = connected(at, last)
        heard += [one for one, _ in found.events(len(wanted) - len(heard))]
        found.close()
        ends = time.monotonic() + SECONDS
        while len(listener.events) < len(wanted) and listener.failed is None and time.monotonic() < ends:
            time.sleep(0.05)
        listener.followed.close()
        listener.join(SECONDS)
        assert server.stop()[0] == 0
    assert (writer.failed, listener.failed, done) == (None, None, restarts)
    assert heard == wanted
    assert listener.events == wanted
    assert order(wanted) == sorted(order(wanted))
    assert len(set(wanted)) == len(wanted)
    batches = len({one.partition("-")[0] for one in wanted})
    print(f"{len(wanted):,} events of {batches:,} batches, {disconnects} disconnects, {restarts} restarts: each once")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
