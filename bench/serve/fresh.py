"""How long it takes until rows that are told are found, and what clients notice of it meanwhile.

    python -m bench.serve.fresh [--objects N] [--partitions P] [--rates R ...] [--seconds S] [--asked Q] [--servers N]

A server of one worker, rows of objects anywhere at a rate, each in a POST with those of 50 ms, and questions for the 8
nearest at random times. The lag is from the answer to a POST until an answer of the worker holds its last row, to 4 ms.
Everything is on this machine: the server, its builder, who tells and who asks share its cores.

Of several servers of a plan, each of which holds as many partitions, the first one is told, and the last one is asked
and looked at; the columns of generations and cores are of that one.
"""

from __future__ import annotations

import argparse
import http.client
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

import dtoss
from bench.measuring.machine import seconds_by_process
from bench.serve.fleet.servers import fleet
from bench.serve.requests import pinned, serve_command
from dtoss.index import Index
from dtoss.serve.cluster.served_plans import Placement
from pipelines.calibration.sender import Senders, Where

EVERY = 0.05
"""Seconds between two POSTs."""
LOOK = 0.004
"""Seconds between two looks at the sequence number of the worker."""
ARROW = "application/vnd.apache.arrow.stream"


def rows_of(rng: np.random.Generator, ids: np.ndarray, t: int) -> pa.Table:
    """Return rows of objects somewhere in a square of a degree."""
    places = rng.uniform([139.0, 35.0], [140.0, 36.0], (len(ids), 2))
    return pa.table({"id": ids, "lon": places[:, 0], "lat": places[:, 1], "t": np.full(len(ids), t)})


@contextmanager
def serve_store(folder: Path, index: Index, servers: int) -> Iterator[list[tuple[int, int]]]:
    """Run a server, or several of a plan with as many partitions each; gives the process and the port of each."""
    store, options = str(folder / "store"), ("--updates", str(folder / "updates"), "--allow-positions")
    if servers == 1:
        with pinned(serve_command(store, *options), r"on http://127.0.0.1:(\d+)", cores=None) as (server, port):
            yield [(server.pid, int(port))]
        return
    count = len(index.parts)
    placement = Placement(index.partitioning.digest, tuple((at * servers // count,) for at in range(count)))
    with fleet(store, folder, placement, servers, options) as found:
        yield [(found.running[number].pid, port) for number, port in enumerate(found.ports)]


def tell(port: int, rate: float, objects: int, until: float, acknowledged: list[tuple[float, int]]) -> None:
    """Tell rows at a rate until a moment; note when each POST was answered, and the number of its last row."""
    rng, connection, due = np.random.default_rng(1), http.client.HTTPConnection("127.0.0.1", port), time.monotonic()
    each, t = max(round(rate * EVERY), 1), int(time.time()) - 1_000_000
    while due < until:
        t += 1
        sink = pa.BufferOutputStream()
        rows = rows_of(rng, rng.choice(objects, each, replace=False), t)
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        time.sleep(max(due - time.monotonic(), 0.0))
        connection.request("POST", "/positions", sink.getvalue().to_pybytes(), {"content-type": ARROW})
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            print(answer.status, said.decode(), flush=True)
        else:
            acknowledged.append((time.monotonic(), int(re.search(rb'"seq":(\d+)', said)[1])))  # type: ignore[index]
        due += each / rate


def look(port: int, ended: threading.Event, seen: list[tuple[float, int]]) -> None:
    """Note from when on the worker answers at each sequence number."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    while not ended.wait(LOOK):
        connection.request("GET", "/objects/0")
        answer = connection.getresponse()
        answer.read()
        seq = int(answer.headers["dtoss-seq"])
        if not seen or seq > seen[-1][1]:
            seen.append((time.monotonic(), seq))


def number(port: int, name: str) -> float:
    """Return one of a server's numbers."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    found = re.search(rf"^{name} (\S+)$", connection.getresponse().read().decode(), re.MULTILINE)
    connection.close()
    return float(found[1]) if found else 0.0


def measure(server: int, port: int, told: int, senders: Senders, rate: float, given: argparse.Namespace) -> str:
    """Return a row of the table."""
    acknowledged: list[tuple[float, int]] = []
    seen: list[tuple[float, int]] = []
    ended = threading.Event()
    until = time.monotonic() + given.seconds
    works = [threading.Thread(target=look, args=(port, ended, seen))]
    if rate:
        works.append(threading.Thread(target=tell, args=(told, rate, given.objects, until, acknowledged)))
    made = [number(port, f"dtoss_fresh_generation_seconds_{part}") for part in ("count", "sum")]
    before = seconds_by_process(server)
    for work in works:
        work.start()
    window = senders.at_rate(given.asked, given.seconds, 5.0, np.random.default_rng(2))
    spent = {
        pid: seconds - before.get(pid, 0.0) for pid, seconds in seconds_by_process(server).items() if pid != server
    }
    time.sleep(2.0)
    ended.set()
    for work in works:
        work.join()
    after = [number(port, f"dtoss_fresh_generation_seconds_{part}") for part in ("count", "sum")]
    count, spent_on = after[0] - made[0], after[1] - made[1]
    numbers, moments = np.array([seq for _, seq in seen]), np.array([moment for moment, _ in seen])
    lags = [
        moments[at] - moment
        for moment, seq in acknowledged
        if (at := int(np.searchsorted(numbers, seq))) < len(numbers)
    ]
    p50, p99 = np.quantile(np.maximum(lags, 0.0), (0.5, 0.99)).tolist() if lags else (0.0, 0.0)
    busy = " / ".join(f"{seconds / given.seconds:.0%}" for _, seconds in sorted(spent.items()))
    return (
        f"| {given.objects:,} in {given.partitions} | {rate:,.0f} | {p50:.2f} | {p99:.2f} | {count:.0f} | "
        f"{1e3 * spent_on / max(count, 1):.0f} | {given.asked:,} | {1e3 * window.p50:.2f} | {1e3 * window.p99:.2f} | "
        f"{busy} | {len(acknowledged) - len(lags)} |"
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=200_000)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--rates", type=float, nargs="+", default=[0, 200, 2_000, 20_000])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--asked", type=int, default=500)
    parser.add_argument("--servers", type=int, default=1)
    given = parser.parse_args()
    print(
        "| objects in partitions | rows/s | lag p50 s | p99 s | generations | ms each | knn/s | p50 ms | p99 ms | "
        "cores of worker / log / builder | unseen |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "updates").mkdir()
        rows = rows_of(rng, np.arange(given.objects), int(time.time()) - 2_000_000)
        index = dtoss.build(rows, partitions=given.partitions)
        index.save(Path(folder) / "store")
        with serve_store(Path(folder), index, given.servers) as found:
            (_, told), (server, port) = found[0], found[-1]
            targets = [
                f"GET /knn?lon={x:.6f}&lat={y:.6f}&k=8 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
                for x, y in rng.uniform([139.0, 35.0], [140.0, 36.0], (10_000, 2))
            ]
            with Senders(Where("127.0.0.1", port, False, 16), 1) as senders:
                senders.load(targets)
                for rate in given.rates:
                    print(measure(server, port, told, senders, rate, given), flush=True)


if __name__ == "__main__":
    main()
