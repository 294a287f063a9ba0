"""What frequent questions notice of others: their latency alone, and beside work that takes long.

    python -m bench.serve.isolation STORE [--seconds S] [--rounds N]

One worker on one core; wrk and all others on the other. Frequent questions (k = 8, 50 connections) run in each turn:
alone, beside one kind of other work, and beside all of them at once: ranges of a million hits, bulk questions by Arrow
streams of 50,000 places, conditions that were never asked before, and clients that send and read a byte at a time.
"""

from __future__ import annotations

import argparse
import http.client
import io
import itertools
import os
import shutil
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa

import dtoss
from bench.serve.requests import Measured, load, pinned, serve_command, targets_of

BULK = 50_000
FRESH = itertools.count()


def bulk_body(store: str) -> bytes:
    """Return an Arrow stream of places of objects."""
    index, rng = dtoss.open(store), np.random.default_rng(2)
    held = np.concatenate([part.positions[: part.owned_objects] for part in index.parts.all()])
    places = held[rng.integers(0, len(held), BULK)]
    batch = pa.record_batch({"lon": places[:, 0], "lat": places[:, 1]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def ask_again(url: str, method: str, make: Callable[[], str], body: bytes | None, stop: threading.Event) -> int:
    """Ask one question after the other on a connection; return how many were answered."""
    arrow = "application/vnd.apache.arrow.stream"
    headers = {} if body is None else {"Content-Type": arrow, "Accept": arrow}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    answered = 0
    while not stop.is_set():
        connection.request(method, make(), body, headers)
        response = connection.getresponse()
        while response.read(1 << 20):
            pass
        answered += response.status == 200
    connection.close()
    return answered


def crawl(url: str, target: str, stop: threading.Event) -> int:
    """Send a request and read its large answer a byte at a time."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for byte in f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode():
            connection.send(bytes([byte]))
            time.sleep(0.001)
        read = 0
        while not stop.is_set() and connection.recv(1):
            read += 1
            time.sleep(0.001)
        return read


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: install it (Debian: apt install wrk)")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    targets, body = targets_of(given.store)["knn"], bulk_body(given.store)
    place = targets[0].partition("?")[2].rpartition("&")[0]
    wide = f"/range?{place}&radius=20000000"

    def fresh() -> str:
        return f"/knn?{place}&k=8&where=" + quote(f"id % 1009 = {next(FRESH) % 1009} or id < {next(FRESH)}")

    others: dict[str, Callable[[str, threading.Event], int]] = {
        "ranges of a million hits": lambda url, stop: ask_again(url, "GET", lambda: wide, None, stop),
        "bulk, 50,000 a request": lambda url, stop: ask_again(url, "POST", lambda: "/knn?k=8", body, stop),
        "new conditions": lambda url, stop: ask_again(url, "GET", fresh, None, stop),
        "slow clients": lambda url, stop: crawl(url, wide, stop),
    }
    sets = [(), *((name,) for name in others), tuple(others)]
    runs: dict[tuple[str, ...], list[Measured]] = defaultdict(list)
    done: dict[str, int] = defaultdict(int)
    with pinned(serve_command(given.store), r"on (http://[0-9.:]+)") as server:
        load(*server, targets, 50, 1.0)
        for _ in range(given.rounds):
            for names in sets:
                stop = threading.Event()
                threads = []
                for name in names:

                    def work(name: str = name, stop: threading.Event = stop) -> None:
                        done[name] += others[name](server[1], stop)

                    threads.append(threading.Thread(target=work))
                for thread in threads:
                    thread.start()
                time.sleep(0.3 if threads else 0.0)
                runs[names].append(load(*server, targets, 50, given.seconds))
                stop.set()
                for thread in threads:
                    thread.join()
    alone = median(run.p99_us for run in runs[()])
    print(f"load {os.getloadavg()[0]:.1f}; others answered: {dict(done)}")
    print(f"{'beside':32}{'req/s':>9}{'p50 us':>9}{'p99 us':>9}{'times':>7}{'worst':>7}{'ms most':>9}{'wrong':>7}")
    for names, found in runs.items():
        p99 = [run.p99_us for run in found]
        print(
            f"{' and '.join(names) if len(names) < 2 else 'all at once':32}{median(r.per_second for r in found):9,.0f}"
            f"{median(r.p50_us for r in found):9.0f}{median(p99):9.0f}{median(p99) / alone:7.1f}{max(p99) / alone:7.1f}"
            f"{max(r.worst_us for r in found) / 1000:9.1f}{sum(r.wrong for r in found):7d}"
        )


if __name__ == "__main__":
    main()
