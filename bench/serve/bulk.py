"""What a server takes for questions in bulk: queries/s of one worker, and its processor time a query.

    python -m bench.serve.bulk [STORE] [--objects 1000000] [--queries 50000] [--k 8] [--seconds 5] [--profile]

The worker is a forked process on one processor, the client is on another; one connection, a request after the other.
Places are near objects, in no order. Arrow in and out, then JSON in and out, and counts and ranges whose radius is the
distance of the k-th object. The same search in process, on the worker's processor, is what the ratio is to. Each is
asked for some seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dtoss
from bench.measuring.points import positions
from dtoss.index import Index
from dtoss.serve.observability.access_log import Accesses
from tests.dtoss.serve.served import running

ARROW = "application/vnd.apache.arrow.stream"
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?", help="without it, objects all over the globe")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--profile", action="store_true", help="of the worker's threads, where they are each 5 ms")
    options = parser.parse_args()
    if options.store:
        index = dtoss.open(options.store)
        places = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    else:
        places = positions("uniform", options.objects)
        index = dtoss.build(np.arange(options.objects), places, partitions=8, threads=2)
    rng = np.random.default_rng(1)
    asked = places[rng.integers(0, len(places), options.queries)] + rng.normal(0, 1e-3, (options.queries, 2))
    asked[:, 1] = np.clip(asked[:, 1], -90, 90)
    asked[:, 0] = np.clip(asked[:, 0], -180, 180)
    radius = index.knn(asked, options.k).distance.reshape(-1, options.k)[:, -1]
    alone = in_process(index, asked, options)
    print(f"{platform.platform()}, {os.cpu_count()} processors, {len(index):,} objects, k = {options.k}")
    print(f"in process, one thread: {alone * 1e6:.2f} us a query")
    print(
        "| question | queries/s | server us a query | times in process | bytes in, out a query |\n|---|---|---|---|---|"
    )
    pid, port = fork(index, options.profile)
    try:
        os.sched_setaffinity(0, {1 % (os.cpu_count() or 1)})
        body, discs, text = stream(asked), stream(asked, radius), json.dumps({"positions": asked.tolist()}).encode()
        knn = f"/knn?k={options.k}"
        for name, path, sent, kind, wanted in (
            ("kNN, Arrow", knn, body, ARROW, ARROW),
            ("kNN, JSON in, Arrow out", knn, text, "application/json", ARROW),
            ("kNN, JSON", knn, text, "application/json", "application/json"),
            ("count, Arrow", "/count", discs, ARROW, ARROW),
            ("range, Arrow", "/range", discs, ARROW, ARROW),
            ("locate, Arrow", "/locate", body, ARROW, ARROW),
        ):
            print(row(name, pid, asker(port, path, sent, kind, wanted), len(sent), alone, options), flush=True)
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def in_process(index: Index, asked: np.ndarray, options: argparse.Namespace) -> float:
    """Return the seconds a query of the search by itself, the best of some."""
    radius = np.full(len(asked), np.inf)
    best = np.inf
    for _ in range(5):
        began = time.process_time()
        index.search(asked, radius, options.k, places=False)
        best = min(best, (time.process_time() - began) / len(asked))
    return best


def fork(index: Index, profile: bool) -> tuple[int, int]:
    """Return the process id and the port of a worker."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {0})
        import sys

        sys.setswitchinterval(0.001)
        with tempfile.TemporaryDirectory() as folder, running(index) as server:
            # the scene keeps all that it hears; a server keeps a sample
            server.heard.many = Accesses(folder, index.space).many
            os.write(tell, str(server.at[1]).encode())
            if profile:
                sample()
            signal.pause()
    return pid, int(os.read(told, 10))


def sample() -> None:
    """Print at the end where the threads of this process were."""
    import sys
    import threading
    import traceback
    from collections import Counter

    seen: Counter[str] = Counter()

    def look() -> None:
        while True:
            time.sleep(0.005)
            for frame in sys._current_frames().values():
                stack = traceback.extract_stack(frame)
                seen[" < ".join(f"{one.name}:{one.lineno}" for one in reversed(stack[-5:]))] += 1

    def end(*_: Any) -> None:
        print("\n".join(f"{count:6d} {where}" for where, count in seen.most_common(40)))
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()
    signal.signal(signal.SIGTERM, end)


def asker(port: int, path: str, body: bytes, kind: str, wanted: str) -> Callable[[], int]:
    """Return what asks once, and returns the bytes of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    room = memoryview(bytearray(1 << 26))

    def ask() -> int:
        connection.request("POST", path, body, {"content-type": kind, "accept": wanted})
        response = connection.getresponse()
        size = 0
        while got := response.readinto(room[size:]):
            size += got
        assert response.status == 200, bytes(room[:size])
        return size

    return ask


def row(name: str, pid: int, ask: Callable[[], int], sent: int, alone: float, options: argparse.Namespace) -> str:
    """Return a line of the table."""
    ask()
    begin, used, times = time.perf_counter(), processor(pid), 0
    while time.perf_counter() - begin < options.seconds:
        got = ask()
        times += 1
    wall, used = time.perf_counter() - begin, processor(pid) - used
    asked = times * options.queries
    return (
        f"| {name} | {asked / wall:,.0f} | {used / asked * 1e6:.2f} | {used / asked / alone:.2f} "
        f"| {sent / options.queries:.0f}, {got / options.queries:.0f} |"
    )


def processor(pid: int) -> float:
    """Return the processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def stream(asked: np.ndarray, radius: np.ndarray | None = None) -> bytes:
    """Return places, and perhaps a radius of each, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    columns = {"lon": asked[:, 0], "lat": asked[:, 1]} | ({} if radius is None else {"radius": radius})
    batch = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


if __name__ == "__main__":
    main()
