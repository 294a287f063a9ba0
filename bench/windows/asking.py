"""What asking of windows costs: a committed result and any undeclared length in process, and answers over HTTP.

    python -m bench.windows.asking [--objects 1000000] [--rows 3000000] [--keys 1000] [--measures NAMES] [--store S]

Objects that move about over a day, nearest of so many sites as keys; windows of 5 minutes, an hour and a day by the
minute; two batches in a store, without Spark; the second has the last ten minutes. In process each figure is of one
thread: the median and the worst of 200, each question another than before. HTTP: a server of one worker on one core,
and 32 connections of a plain client on the other. Then lengths that were not declared are asked of it one after another
while a batch is committed: how long each takes, and from when on answers are of that batch. Goals E10: 1 ms, 20 ms,
5,000 a second, 2 s.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.buckets import bucket_of
from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.windows.durations import duration_text
from dtoss.windows.query.window_query import Windows, open_windows
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix, read_spec
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.sorted_rows import WindowRows
from tests.dtoss.windows.window_batch import run_batch

NAME = "fleet"
DAY_US, MINUTE_US = 86_400_000_000, 60_000_000
BEGIN_US = 1_767_225_600_000_000
"""2026-01-01."""
MEASURES = "rows,objects,here,arrivals,departures,speed,max_speed"
ASKED = 200
MORE_IDS, MORE_ROWS = 1_000_000, 10_000
MOST_SECONDS = 60
CONNECTIONS = 32


def made(store: str, objects: int, rows: int, keys: int, measures: str) -> None:
    """Write windows of two batches to a store."""
    rng, space = np.random.default_rng(1), space_of(None, "plane")
    sites = rng.uniform(0, 100_000, (keys, 2))
    tables = of_sites(sites)
    wanted = spec_of(
        "5min,1h,24h", "1min", measures, "sites:made", space, keys_from(space, tables).digest, witnesses="1%"
    )
    home = Home(store, NAME)
    fixed = FixedSpec(wanted, write_keys(home, tables))
    fix(home, fixed)
    ids = rng.integers(0, objects, rows)
    t = rng.integers(BEGIN_US, BEGIN_US + DAY_US, rows)
    starts = rng.uniform(0, 100_000, (objects, 2))
    places = (starts[ids] + rng.normal(0, 2_000, (rows, 2))).clip(0, 100_000)
    last = BEGIN_US + DAY_US - 10 * MINUTE_US
    for mine in (t < last, t >= last):
        some = pa.array(ids[mine])
        came = WindowRows(some, t[mine], places[mine], bucket_of(some))
        plan = plan_batch(home, fixed, ("int64", "timestamp"), Source(), Options(), BEGIN_US + 2 * DAY_US, 1)
        assert plan is not None
        began = time.perf_counter()
        run_batch(plan, came)
        print(f"batch of {len(came):,} rows: {time.perf_counter() - began:.1f} s", flush=True)


def one_more(store: str) -> None:
    """Commit a batch of 10,000 rows of the minute after the last one, and print when that was."""
    home = Home(store, NAME)
    found, rng = open_windows(store, NAME), np.random.default_rng(2)
    begin = found.watermark or 0
    ids, places = pa.array(rng.integers(0, MORE_IDS, MORE_ROWS)), rng.uniform(0, 100_000, (MORE_ROWS, 2))
    came = WindowRows(ids, rng.integers(begin, begin + 5 * MINUTE_US, MORE_ROWS), places, bucket_of(ids))
    plan = plan_batch(home, read_spec(home), ("int64", "timestamp"), Source(), Options(), BEGIN_US + 9 * DAY_US, 1)
    assert plan is not None
    print(run_batch(plan, came).number, time.time(), flush=True)


def while_a_batch_comes(port: int, store: str) -> None:
    """Print how long undeclared lengths take while a batch is committed, and when answers are of it."""
    connection = HTTPConnection("127.0.0.1", port)
    minutes = iter(minute for minute in range(2, 1440) if minute not in (5, 60))

    def ask() -> tuple[float, int]:
        began = time.perf_counter()
        connection.request("GET", f"/windows/{NAME}?window={next(minutes)}min&key=17")
        batch: int = json.loads(connection.getresponse().read())["batch"]
        return 1e3 * (time.perf_counter() - began), batch

    first, stood = ask()
    other = subprocess.Popen(
        [sys.executable, "-m", "bench.windows.asking", "--store", store, "--one-more"],
        stdout=subprocess.PIPE,
        text=True,
    )
    taken, seen = [], 0.0
    ends = time.perf_counter() + MOST_SECONDS
    while not seen and time.perf_counter() < ends:
        took, batch = ask()
        taken.append(took)
        seen = time.time() if batch > stood else 0.0
        time.sleep(0.05)
    said, _ = other.communicate(timeout=60)
    assert seen, f"batch {stood + 1} was not seen within {MOST_SECONDS} s"
    taken += [ask()[0] for _ in range(20)]
    later = seen - float(said.split()[1])
    print(
        f"HTTP, undeclared lengths: the first of all {first:,.0f} ms; while a batch is committed {len(taken)} take "
        f"{median(taken):.1f} ms, worst {max(taken):.1f} ms; it is seen {later:.2f} s after its commit",
        flush=True,
    )


def timed(works: list[Callable[[], Any]]) -> str:
    """Return the median and the worst of some works, in milliseconds, and the median of processor time."""
    taken, spent = [], []
    for work in works:
        began, processor = time.perf_counter(), time.thread_time()
        work()
        spent.append(1e3 * (time.thread_time() - processor))
        taken.append(1e3 * (time.perf_counter() - began))
    return f"{median(taken):.2f} ms, worst {max(taken):.2f} ms; processor {median(spent):.2f} ms"


def in_process(store: str) -> None:
    """Print what asking takes in this process."""
    print("open:", timed([lambda: open_windows(store, NAME)] * 5))
    found = open_windows(store, NAME)
    print("the last end, the first time:", timed([lambda: open_windows(store, NAME).at(window="1h")] * 5))
    ends = found.watermark // MINUTE_US * MINUTE_US - MINUTE_US * np.arange(ASKED)  # type: ignore[operator]
    print("rows of an end:", len(found.at(window="1h")))
    one: list[Callable[[], Any]] = [partial(found.at, end / 1e6, "1h") for end in ends.tolist()]
    print("each end, the first time:", timed(one))
    print("each end, again:", timed(one))
    print("the last end, again:", timed([lambda: found.at(window="1h")] * ASKED))
    lengths = [duration_text(MINUTE_US * minutes) for minutes in range(2, 1440, 7) if minutes not in (5, 60)][:ASKED]
    print("an undeclared length, the first of a commit:", timed([lambda: _now(open_windows(store, NAME), "7min")] * 3))
    _now(found, "7min")
    print("other undeclared lengths:", timed([partial(_now, found, length) for length in lengths]))


def _now(found: Windows, length: str) -> Any:
    return found.at(window=length)


async def _client(port: int, targets: list[str], seconds: float) -> tuple[int, float]:
    """Return how many answers came in, and in how many seconds."""
    ends = time.perf_counter() + seconds
    counts = [0] * CONNECTIONS

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while time.perf_counter() < ends:
            target = targets[at % len(targets)]
            at += 1
            writer.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            counts[number] += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
    return sum(counts), time.perf_counter() - began


def over_http(store: str, index: str, seconds: float) -> None:
    """Print how many answers a second a server of one worker gives."""
    from bench.serve.requests import CORES, _ticks, serve_command

    command = serve_command(index, "--workers", "1")
    Path(index, "windows").symlink_to(Path(store) / "windows")
    server = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, CORES[:1])
    )
    try:
        assert server.stderr is not None
        said = next(line for line in server.stderr if " on http://" in line)
        port = int(said.partition(" on http://")[2].split()[0].rstrip("/").rpartition(":")[2])
        os.sched_setaffinity(0, CORES[-1:])
        for what, targets in (
            ("one answer of one key", ["/windows/fleet?window=1h&key=17"]),
            ("one key of a hundred", [f"/windows/fleet?window=1h&key={key}" for key in range(100)]),
            ("all keys", ["/windows/fleet?window=1h"]),
        ):
            asyncio.run(_client(port, targets, 2.0))
            before = _ticks(server.pid)
            count, taken = asyncio.run(_client(port, targets, seconds))
            spent = (_ticks(server.pid) - before) / os.sysconf("SC_CLK_TCK")
            print(
                f"HTTP, {what}: {count / taken:,.0f} a second; by the server's processor time {count / spent:,.0f}",
                flush=True,
            )
        while_a_batch_comes(port, store)
    finally:
        server.terminate()
        server.wait(20)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--measures", default=MEASURES)
    parser.add_argument("--store")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--one-more", action="store_true")
    given = parser.parse_args()
    if given.one_more:
        one_more(given.store)
        return
    folder = given.store or tempfile.mkdtemp()
    if not Path(folder, "windows").is_dir():
        made(folder, given.objects, given.rows, given.keys, given.measures)
    in_process(folder)
    index = tempfile.mkdtemp()
    program = [sys.executable, "-c", "from pipelines.command.main import main; main()"]
    places = Path(index, "places.csv")
    rng = np.random.default_rng(0)
    places.write_text("id,x,y\n" + "".join(f"{i},{x},{y}\n" for i, (x, y) in enumerate(rng.uniform(0, 9, (500, 2)))))
    subprocess.run(
        [*program, "rebuild", str(places), "--store", f"{index}/store", "--crs", "none", "--partitions", "2", "-q"],
        check=True,
    )
    over_http(folder, f"{index}/store", given.seconds)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
