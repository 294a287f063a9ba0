"""Servers of a plan that take rows, in processes of their own, and a client with one connection to each."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import numpy as np

import dtoss
from tests.dtoss.serve.cluster.several import dealt, free_ports, write_peers, write_plan
from tests.dtoss.serve.processes.fresh_server import FreshServer
from tests.dtoss.serve.processes.started import started


class FreshPlan:
    """The servers of a plan, some of which may have been killed."""

    def __init__(self, path, ports, held):
        self.path, self.ports, self._held = path, ports, held
        self.servers = {}

    def start(self, *numbers):
        """Start servers, all at the same time."""
        with ThreadPoolExecutor() as pool:
            for number, server in zip(numbers, pool.map(self._started, numbers), strict=True):
                self.servers[number] = FreshServer(self.path, server)

    def _started(self, number):
        words = ("--store", self.path / "store", "--updates", self.path / "in", "--allow-positions", "--server", number)
        words += ("--plan", self.path / "plan.json", "--peers", self.path / "peers.toml")
        words += ("--port", self.ports[number], "--access-log", "off", "--log", self.path / "log")
        ready = r"^serving .* on http://127.0.0.1:(\d+)$"
        return self._held.enter_context(started("-m", "dtoss", "serve", *words, ready=ready))

    def kill(self, number):
        """End all processes of a server by force."""
        gone = self.servers.pop(number)
        gone.close()
        os.killpg(gone.server.process.pid, signal.SIGKILL)
        gone.server.process.wait()

    @property
    def writer(self):
        """The server that writes, as far as any that is there knows."""
        some = next(iter(self.servers.values()))
        return some.until(lambda: some.ask("/snapshot"))["fresh"]["server"]


@contextmanager
def fresh_plan(path, rows, servers, *, kind="copies", partitions=4):
    """Servers of a plan of a store of some rows, and a log."""
    (path / "in").mkdir()
    index = dtoss.build(rows, partitions=partitions)
    index.save(path / "store")
    write_plan(path / "plan.json", dealt(index, servers, kind, np.random.default_rng(0)))
    ports = free_ports(servers)
    write_peers(path / "peers.toml", [f"http://127.0.0.1:{port}" for port in ports])
    with ExitStack() as held:
        plan = FreshPlan(path, ports, held)
        plan.start(*range(servers))
        try:
            yield plan
        finally:
            for server in plan.servers.values():
                server.close()


def in_memory(path):
    """The folder in memory of a log's generations; None where it is none."""
    shared = path / "in" / ".log" / "generations"
    return shared.readlink() if shared.is_symlink() else None
