"""What the page's facts and its streams cost a server, and how soon a stream tells of a swap.

    python -m bench.serve.live STORE [--streams 100 1000] [--swaps 5]

A server of two workers serves a copy of the store, whose files are committed again for each swap. ``/map`` is asked
first after the start, first after a swap and then again. A swap is told as late as a stream has it after its worker's
log has ``swapped``. With so many streams open: processor time of all workers in a second, and the times of a thousand
kNN answers on one connection meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import dtoss
from bench.serve.swaps import commit_again
from tests.dtoss.serve.processes.started import dialled, get, started

START = "from pipelines.command.main import main; main()"
READY = r"^serving \S+ \([\d,]+ objects\) of \S+ on http://127\.0\.0\.1:(\d+)$"
WAIT = 120
QUESTIONS = 1_000
_TICK = os.sysconf("SC_CLK_TCK")


def milliseconds(port: int, path: str, times: int = 1) -> list[float]:
    """Return how long answers took, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    connection.connect()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body
        taken.append((time.perf_counter() - began) * 1e3)
    connection.close()
    return taken


class Listener(threading.Thread):
    """When one stream heard of which snapshot."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.sock = dialled(port, WAIT)
        self.heard: dict[str, float] = {}
        self.start()

    def run(self) -> None:
        """Read until the stream ends."""
        self.sock.sendall(get("/live"))
        with self.sock.makefile("rb") as held:
            for line in held:
                if line.startswith(b'data: {"type":"snapshot"'):
                    self.heard.setdefault(json.loads(line[6:])["snapshot"], time.time())


def told_after(server: Any, store: str, swaps: int) -> list[float]:
    """Return milliseconds from a worker's swap to each stream that then heard of it first, for some swaps."""
    listeners = [Listener(server.port) for _ in range(16)]
    late = []
    for number in range(1, swaps + 1):
        time.sleep(0.37)
        commit_again(store)
        lines = server.until('"event":"swapped"', 2 * number, WAIT)
        time.sleep(1.5)
        said = [json.loads(line) for line in lines[-2:]]
        moments = [datetime.fromisoformat(one["time"]).timestamp() for one in said]
        name = said[0]["snapshot"]
        # a stream belongs to the worker that swapped last before it heard
        for listener in listeners:
            heard = listener.heard[name]
            late.append(min(heard - moment for moment in moments if moment <= heard) * 1e3)
    for listener in listeners:
        listener.sock.close()
    return late


def processor_seconds(parent: int) -> float:
    """Return what all workers of a server have taken."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    taken = 0
    for child in children:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        taken += int(fields[11]) + int(fields[12])
    return taken / _TICK


@contextmanager
def reading(port: int, streams: int) -> Iterator[None]:
    """Streams that are read by one thread."""
    ended = threading.Event()
    with ExitStack() as held:
        socks = [held.enter_context(dialled(port, WAIT)) for _ in range(streams)]
        for sock in socks:
            sock.sendall(get("/live"))
            sock.setblocking(False)

        def read() -> None:
            while not ended.wait(0.25):
                for sock in socks:
                    try:
                        while sock.recv(65_536):
                            pass
                    except BlockingIOError:
                        pass

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            ended.set()
            reader.join()


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--swaps", type=int, default=5)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        shutil.copytree(told.store, store)
        index = dtoss.open(store)
        lon, lat = index.parts[0].positions[0].tolist()
        knn = f"/knn?lon={lon}&lat={lat}&k=8"
        run = ("-c", START, "serve", "--store", store, "--port", 0, "--workers", 2, "--access-log", "off")
        with started(*run, ready=READY, DTOSS_QUIET="1") as server:
            parent = json.loads(server.until('"event":"started"')[0])["pid"]
            first, *again = milliseconds(server.port, "/map", 50)
            print(f"{len(index):,} objects, {len(index.parts)} partitions, columns {', '.join(index.column_names)}")
            print(f"/map: {first:.1f} ms at first, then {median(again):.1f} ms")
            late = told_after(server, store, told.swaps)
            print(f"a swap is told after {median(late):.0f} ms, at most {max(late):.0f} ms ({told.swaps} swaps)")
            fresh = [milliseconds(server.port, "/map")[0] for _ in range(8)]
            print(f"/map after a swap: {max(fresh):.0f} ms at first, then {min(fresh):.1f} ms")
            print("| streams | processor ms a second | kNN p50 ms | p99 ms | worst ms |\n|---|---|---|---|---|")
            for streams in (0, *told.streams):
                with reading(server.port, streams):
                    time.sleep(3)
                    began, used = time.perf_counter(), processor_seconds(parent)
                    time.sleep(5)
                    spent = (processor_seconds(parent) - used) / (time.perf_counter() - began)
                    taken = np.array([milliseconds(server.port, knn, QUESTIONS) for _ in range(5)]).ravel()
                half, most = np.quantile(taken, [0.5, 0.99]).tolist()
                print(f"| {streams:,} | {spent * 1e3:.0f} | {half:.2f} | {most:.2f} | {taken.max():.1f} |")


if __name__ == "__main__":
    main()
