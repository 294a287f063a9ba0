"""What a further worker costs: memory of its own, before and after every route was asked; how connections are shared.

    python -m bench.serve.workers [STORE] [--objects N] [--partitions P] [--workers W] [--rounds N] [--conditions C]

Without a store one is made, of a number of objects. Each worker is asked every route, in each round about other places.
Pages are counted by the kernel: those that only this worker has and has written to (Private_Dirty), those that only it
has mapped and not written to (files' pages that no other worker has touched yet), and its share of all (Pss).
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dtoss
from bench.measuring.points import positions
from tests.dtoss.snapshots.damaged_stores import stored

ARROW = "application/vnd.apache.arrow.stream"
START = "from pipelines.command.main import main; main()"
BULK = 10_000
EACH = 200
"""Questions of each route for one place, in a round."""


def made_store(path: str, objects: int, partitions: int) -> str:
    """Write a store of objects with one attribute, and return its path."""
    speed = np.random.default_rng(1).integers(0, 120, objects)
    places = positions("uniform", objects)
    index = dtoss.build(np.arange(objects), places, partitions=partitions, columns={"speed": speed}, threads=2)
    return str(stored(index, path, kinds={"speed": "bigint"}))


def memory_of(pid: int) -> dict[str, float]:
    """Return megabytes of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    names = ("Private_Dirty", "Private_Clean", "Pss", "Rss")
    return {name: int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1]) / 1024 for name in names}  # type: ignore[index]


def one_of_each(port: int, workers: int) -> tuple[list[http.client.HTTPConnection], Counter[str]]:
    """Return a connection to each worker, and how many of 200 connections each of them has got."""
    found: dict[str, http.client.HTTPConnection] = {}
    shares: Counter[str] = Counter()
    for _ in range(200):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", "/healthz")
        response = connection.getresponse()
        response.read()
        worker = (response.headers["x-request-id"] or "").partition("-")[0]
        shares[worker] += 1
        if worker in found:
            connection.close()
        found.setdefault(worker, connection)
    assert len(found) == workers, f"{len(found)} of {workers} workers have answered"
    return list(found.values()), shares


def ask_all(
    connection: http.client.HTTPConnection, rng: np.random.Generator, places: NDArray[np.float64], conditions: int
) -> None:
    """Ask every route of one worker."""
    some = places[rng.integers(0, len(places), EACH)].clip([-179, -85], [179, 85])
    for (x, y), number in zip(some.tolist(), rng.integers(0, len(places), EACH).tolist(), strict=True):
        at = f"lon={x}&lat={y}"
        above = 60 + int(rng.integers(conditions))
        for path in (
            f"/knn?{at}&k=8", f"/knn?{at}&k=20&columns=speed", f"/knn?{at}&k=8&where=speed%20%3E%20{above}",
            f"/range?{at}&radius=2000", f"/range?{at}&radius=20000&limit=50", f"/count?{at}&radius=5000",
            f"/box?west={x}&south={y}&east={x + 0.1}&north={y + 0.1}", f"/locate?{at}", f"/reverse_nearest?{at}",
            f"/objects/{number}", f"/objects/{number}?cell=1",
        ):  # fmt: skip
            asked(connection, "GET", path)
    for path in ("/snapshot", "/healthz", "/readyz", "/metrics", "/openapi.json"):
        asked(connection, "GET", path)
    x, y = some[0].tolist()
    ring = [[x, y], [x + 0.2, y], [x, y + 0.2], [x, y]]
    asked(connection, "POST", "/within", json.dumps({"type": "Polygon", "coordinates": [ring]}).encode())
    many = places[rng.integers(0, len(places), BULK)]
    sink = io.BytesIO()
    table = pa.table({"lon": many[:, 0], "lat": many[:, 1]})
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    for path in ("/knn?k=8", "/range?radius=1000", "/count?radius=1000", "/locate"):
        asked(connection, "POST", path, sink.getvalue(), ARROW)
        asked(connection, "POST", path, json.dumps({"positions": many[:1_000].tolist()}).encode())


def asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, kind: str = ""
) -> None:
    """Ask, and read the answer."""
    headers = {} if body is None else {"content-type": kind or "application/json", "accept": kind or "*/*"}
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = response.read()
    assert response.status == 200, (method, path, response.status, answer[:300])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conditions", type=int, default=1, help="different ones that are in use")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.store or made_store(str(Path(folder) / "store"), given.objects, given.partitions)
        run = [sys.executable, "-c", START, "serve", "--store", path, "--port", "0", "--json", "--no-verify"]
        run += ["--workers", str(given.workers), "--access-log", str(Path(folder) / "log"), "--threads", "1"]
        with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                told = json.loads(server.stdout.readline())
                measure(server.pid, path, told, given)
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(30)


def measure(parent: int, path: str, told: dict[str, object], given: argparse.Namespace) -> None:
    """Ask the workers of a server, and print what they cost."""
    text = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=True)
    workers = sorted(map(int, text.stdout.split()))
    index, rng = dtoss.open(path), np.random.default_rng(0)
    places = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    connections, shares = one_of_each(int(str(told["url"]).rpartition(":")[2]), given.workers)
    print(f"{platform.platform()}, {told['objects']:,} objects, {len(index.parts)} partitions")
    print(f"connections of 200 by worker: {', '.join(map(str, sorted(shares.values())))}")
    print("| megabytes | after | Private_Dirty | Private_Clean | Pss | Rss |\n|---|---|---|---|---|---|")
    row("parent", "0", parent)
    for number, pid in enumerate(workers):
        row(f"worker {number}", "0", pid)
    for turn in range(1, given.rounds + 1):
        for connection in connections:
            ask_all(connection, rng, places, given.conditions)
        for number, pid in enumerate(workers):
            row(f"worker {number}", f"{turn} x all routes", pid)


def row(name: str, after: str, pid: int) -> None:
    """Print what a process has."""
    print(f"| {name} | {after} | {' | '.join(f'{value:.1f}' for value in memory_of(pid).values())} |", flush=True)


if __name__ == "__main__":
    main()
