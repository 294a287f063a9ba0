"""Servers of a plan as processes of this machine, and connections that ask them without a pause."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dtoss
from dtoss.index import Index
from dtoss.serve.cluster.served_plans import Placement
from tests.dtoss.serve.cluster.several import free_ports, write_plan
from tests.dtoss.snapshots.damaged_stores import stored

START = "from pipelines.command.main import main; main()"
CORES = sorted(os.sched_getaffinity(0))


def towns_index(objects: int, partitions: int, ids: NDArray[np.int64] | None = None) -> Index:
    """Return an index of objects round a hundred towns with one attribute; ids are numbers from 0 if not given."""
    rng = np.random.default_rng(0)
    towns = np.stack([rng.uniform(-180, 180, 100), rng.uniform(-70, 70, 100)], axis=1)
    places = towns[rng.integers(0, 100, objects)] + rng.normal(0, 0.1, (objects, 2))
    places[:, 0] = (places[:, 0] + 180) % 360 - 180
    columns = {"size": rng.integers(0, 9, objects)}
    ids = np.arange(objects) if ids is None else ids
    return dtoss.build(ids, places, partitions=partitions, columns=columns, threads=2, seed=0)


def made_store(path: str, objects: int, partitions: int) -> tuple[str, Index]:
    """Write a store of objects round towns, and return its path and an index of it."""
    index = towns_index(objects, partitions)
    return str(stored(index, path, kinds={"size": "bigint"})), index


class Fleet:
    """Servers of a plan.

    Parameters
    ----------
    store
        Path.
    folder
        For the plan, the list of peers and logs.
    placement
        Who holds what.
    servers
        How many there are.
    options
        More of ``dtoss serve``.
    core
        That all of them run on; None for any.
    rates
        Requests/s that each answers at the most; empty for any.
    token
        That servers say to each other.
    """

    def __init__(
        self, store: str, folder: Path, placement: Placement, servers: int, options: Sequence[str] = (),
        core: int | None = None, rates: Sequence[float] = (), token: str | None = None,
    ) -> None:  # fmt: skip
        self.rates = [*rates]
        self.store, self.folder, self.options, self.core = store, folder, [*options], core
        self.plan, self.peers = folder / "plan.json", folder / "peers.toml"
        self.ports = free_ports(servers)
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.follow(placement)
        lines = [f'{number} = "http://127.0.0.1:{port}"' for number, port in enumerate(self.ports)]
        lines += [] if token is None else [f'token = "{token}"']
        self.peers.write_text("\n".join(lines) + "\n")

    def follow(self, placement: Placement) -> None:
        """Write another plan."""
        self.placement = placement
        write_plan(self.plan, placement)

    def start(self, numbers: Sequence[int]) -> None:
        """Start servers, and wait until they answer."""
        for number in numbers:
            run = [
                sys.executable, "-c", START, "serve", "--store", self.store, "--port", str(self.ports[number]),
                "--json", "--plan", str(self.plan), "--server", str(number), "--peers", str(self.peers),
                "--access-log", "off", "--log", str(self.folder / f"log-{number}"), *self.options,
            ]  # fmt: skip
            if self.rates:
                run += ["--rate", f"{self.rates[number]}/s"]
            core = self.core
            pin = None if core is None else partial(os.sched_setaffinity, 0, [core])
            self.running[number] = subprocess.Popen(run, stdout=subprocess.PIPE, text=True, preexec_fn=pin)
        for number in numbers:
            said = self.running[number].stdout
            assert said is not None
            json.loads(said.readline())

    def kill(self, number: int) -> None:
        """Kill a server and its worker."""
        process = self.running.pop(number)
        for pid in [*children_of(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()

    def end(self) -> None:
        """End all."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
        self.running.clear()

    def pids(self, number: int) -> list[int]:
        """Return the processes of a server."""
        pid = self.running[number].pid
        return [pid, *children_of(pid)]

    def ready(self, number: int) -> dict[str, Any]:
        """Return what a server says of itself."""
        link = http.client.HTTPConnection("127.0.0.1", self.ports[number], timeout=5)
        try:
            link.request("GET", "/readyz")
            found: dict[str, Any] = json.loads(link.getresponse().read())
            return found
        finally:
            link.close()


@contextmanager
def fleet(*given: Any, **named: Any) -> Iterator[Fleet]:
    """Give a fleet of which all servers run, and end them."""
    made = Fleet(*given, **named)
    try:
        made.start(range(len(made.ports)))
        yield made
    finally:
        made.end()


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has forked."""
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line) for line in text.split()]


class Load(threading.Thread):
    """A connection that asks one question after another; one that fails is asked again of another server.

    Parameters
    ----------
    ports
        Of the servers.
    targets
        What is asked, in turn.
    checked
        Is called with a target and an answer's status and body; what it returns is counted.
    headers
        Of each question.
    pause
        Seconds before the next question.
    """

    def __init__(
        self, ports: Sequence[int], targets: Sequence[str], checked: Callable[[str, int, bytes], str],
        headers: Mapping[str, str] | None = None, pause: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self.ports, self.targets, self.checked = ports, targets, checked
        self.headers, self.pause = headers or {}, pause
        self.counts: dict[str, int] = {}
        self.examples: dict[str, str] = {}
        self.stopped = False
        self.slowest = 0.0

    def run(self) -> None:
        """Ask until it is stopped."""
        at, link, port = 0, None, 0
        while not self.stopped:
            target = self.targets[at % len(self.targets)]
            at += 1
            try:
                if link is None:
                    port = self.ports[at % len(self.ports)]
                    link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                began = time.perf_counter()
                link.request("GET", target, headers=self.headers)
                response = link.getresponse()
                said = self.checked(target, response.status, response.read())
                self.slowest = max(self.slowest, time.perf_counter() - began)
                if self.pause:
                    time.sleep(self.pause)
            except OSError as error:
                said = "refused" if isinstance(error, ConnectionRefusedError) else "cut off"
            except http.client.HTTPException:
                said = "cut off"
            if said in ("refused", "cut off"):
                if link is not None:
                    link.close()
                link = None
                time.sleep(0.01)
            self.counts[said] = self.counts.get(said, 0) + 1
            if said not in self.examples:
                self.examples[said] = f"{port} {target}"
        if link is not None:
            link.close()


def counted(loads: Sequence[Load]) -> dict[str, int]:
    """Stop connections, and return what they have counted."""
    for load in loads:
        load.stopped = True
    for load in loads:
        load.join(60)
    whole: dict[str, int] = {}
    for load in loads:
        for said, count in load.counts.items():
            whole[said] = whole.get(said, 0) + count
    return whole
