"""A fresh server for a while, with cycles inside: whether memory, files and the lag of rows stay as they are.

    python -m bench.serve.steady [--objects N] [--partitions P] [--rate R] [--seconds S] [--every S] [--asked Q]

Rows are told at a rate, in a put each twentieth of a second; ``dtoss run`` makes a cycle of them each ``--every``
seconds where no other process wants to run, and deletes what it has read, so that snapshots take over meanwhile. A line
each 20 seconds: memory of the server's processes, own and mapped, files and bytes of store and log, bytes of
generations, and how long questions for the 8 nearest took that came at random times, ``--asked`` a second: the first
line is of a server at rest. The lag at the end is from the answer to a put until a question that waits for its last row
is answered, of each tenth put.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from bench.measuring.machine import resident
from bench.serve.fresh_peers import city
from bench.serve.requests import pinned, serve_command
from dtoss.fresh.shared_folder import FOLDER_PREFIX, MEMORY
from pipelines.calibration.sender import Senders, Where, Window

PUTS = 20
"""A second."""
LINE_SECONDS = 20.0
TESTED = 10
"""Each such put is waited for."""


def bytes_below(*folders: Path) -> tuple[int, int]:
    """Return how many files are in folders, and their bytes; those that go meanwhile are left out."""
    sizes = []
    for where, _, names in (one for folder in folders for one in os.walk(folder)):
        for name in names:
            with suppress(FileNotFoundError):
                sizes.append((Path(where) / name).stat().st_size)
    return len(sizes), sum(sizes)


@contextmanager
def ask_meanwhile(
    url: str, places: np.ndarray, asked: float, seconds: float
) -> Iterator[tuple[Callable[[], Window], list[Window]]]:
    """Ask at a rate, in a thread: gives what asks once, to be called first, and what was seen since then."""
    seen: list[Window] = []
    if not asked:
        yield lambda: Window(0.0, seconds, 0.0, 0.0, 0.0, 0.0, Counter()), seen
        return
    host, port = url.removeprefix("http://").split(":")
    targets = [f"GET /knn?lon={x:.6f}&lat={y:.6f}&k=8 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for x, y in places]
    rng, ended = np.random.default_rng(2), threading.Event()
    with Senders(Where(host, int(port), False, 16), 1) as senders:
        senders.load(targets)

        def ask() -> Window:
            return senders.at_rate(asked, seconds, 5.0, rng)

        def go_on() -> None:
            while not ended.is_set():
                seen.append(ask())

        thread = threading.Thread(target=go_on)

        def first() -> Window:
            found = ask()
            thread.start()
            return found

        yield first, seen
        ended.set()
        thread.join()


def main() -> None:
    """Run it, and print lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--every", type=float, default=10.0)
    parser.add_argument("--partitions", type=int, default=16)
    parser.add_argument("--asked", type=float, default=0.0)
    given = parser.parse_args()
    rng, begins = (
        np.random.default_rng(0),
        int(time.time()) - int(PUTS * given.seconds),
    )  # a second each put, none ahead
    places = city(rng, given.objects)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, updates = folder / "store", folder / "updates"
        updates.mkdir()
        times = np.full(given.objects, begins)
        rows = {"id": np.arange(given.objects), "lon": places[:, 0], "lat": places[:, 1], "t": times}
        dtoss.build(pa.table(rows), partitions=given.partitions).save(store, time="t")
        command = serve_command(str(store), "--updates", str(updates), "--allow-positions")
        with (
            pinned(command, r"on (http://[0-9.:]+)", cores=None) as (server, url),
            ask_meanwhile(url, places[:10_000], given.asked, LINE_SECONDS) as (ask, seen),
        ):
            words = ["--store", store, "--updates", updates, "--every", f"{given.every:g}s", "--done", "delete", "-q"]
            command = ["chrt", "--idle", "0", sys.executable, "-m", "dtoss", "run", *map(str, words)]
            run = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            index, lags = dtoss.connect(url), []

            def wait_for(seq: int | None) -> None:
                began = time.perf_counter()
                dtoss.connect(url).at_least(seq).knn(places[0], 1)
                lags.append(time.perf_counter() - began)

            rest = ask()
            waits, told, lines, begun = [], 0, 0, time.perf_counter()
            print(
                "| s | rows | own MB | mapped MB | generations MB | files | their MB | knn p50 ms | p99 ms |\n"
                + 9 * "|---"
                + "|",
                flush=True,
            )
            for number in range(int(given.seconds * PUTS)):
                due = begun + number / PUTS
                time.sleep(max(due - time.perf_counter(), 0.0))
                if time.perf_counter() - begun > given.seconds:
                    break
                ids = rng.choice(given.objects, given.rate // PUTS, replace=False)
                at = places[ids] + rng.normal(0, 0.002, (len(ids), 2))
                t = np.full(len(ids), begins + 1 + number)
                put = index.put({"id": ids, "lon": at[:, 0], "lat": at[:, 1], "t": t})
                told += put.taken
                if number % TESTED == 0:
                    waits.append(threading.Thread(target=wait_for, args=(put.seq,)))
                    waits[-1].start()
                if (passed := time.perf_counter() - begun) >= lines * LINE_SECONDS:
                    lines += 1
                    own, mapped = (count / 1e6 for count in resident(server.pid))
                    made = bytes_below(*Path(MEMORY).glob(f"{FOLDER_PREFIX}*"))[1] / 1e6
                    files, size = bytes_below(folder)
                    said = [f"{passed:.0f}", f"{told:,}", *(f"{one:.0f}" for one in (own, mapped, made))]
                    said += [str(files), f"{size / 1e6:.0f}"]
                    last = seen[-1] if seen else rest
                    said += [f"{1e3 * last.p50:.1f}", f"{1e3 * last.p99:.1f}"]
                    print("|", " | ".join(said), "|", flush=True)
            seconds = time.perf_counter() - begun
            for one in waits:
                one.join()
            run.terminate()
            run.wait(60)
            p50, p99 = np.percentile(lags, [50, 99])
            print(f"{told / seconds:,.0f} rows/s; lag p50 {p50:.2f} s, p99 {p99:.2f} s, worst {max(lags):.2f} s")
            if seen:
                p50s, p99s = (1e3 * np.array(some) for some in ([one.p50 for one in seen], [one.p99 for one in seen]))
                print(f"knn p50 {np.median(p50s):.1f} ms, p99 {np.median(p99s):.1f} ms, worst p99 {p99s.max():.1f} ms")
                print("answers", dict(sum((one.statuses for one in seen), Counter())))


if __name__ == "__main__":
    main()
