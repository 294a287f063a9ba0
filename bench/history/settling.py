"""How histories settle: `python -m bench.history.settling`.

Cabspotting (``--data`` or DTOSS_DATA says where) three times. Appended in 1,440 batches with a settling after each: how
many small files there are at most, and how often a row is written. As one period with all three orders: bytes a row.
And ``--copies`` of it, each later or mixed in time, each a period, which become one and get every order: rows a second
of processor time and memory, each step in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from bench.history.kept import cab_rows
from bench.measuring.points import DATA
from datasets.tables.command import run, say
from dtoss.history.data_file import write_file
from dtoss.history.history_commit import Change, Entry, NewPeriod, commit
from dtoss.history.layouts.compaction import make_order, settle
from dtoss.history.row_blocks import BY_TIME, ORDER_NAMES, sorted_rows
from dtoss.history.schema import Schema
from dtoss.history.versions import Home, Version

SMALL_FILE = 32 * 2**20
"""Bytes below which a file is small."""
LOOK_SECONDS = 0.02
"""Between two looks at the memory of a process."""
GIBI = 2.0**20
"""Kibibytes, which Linux tells."""


@dataclass(frozen=True)
class Cost:
    """What a step took: processor time and time by the clock, memory of its own and with mapped files at most."""

    rows: int
    cpu: float
    wall: float
    own: float
    all: float


def append(home: Home, rows: pa.Table, schema: Schema, key: str, after: Version | None) -> Version:
    """Append sorted rows as a batch and return the version."""
    file = write_file(home.folder, BY_TIME, [(rows, None)], schema)
    entry = Entry(key, "given", "", -1, file.rows, file.sum)
    change = Change("append", ((file, -1),), periods=(NewPeriod(0),), entries=(entry,), schema=schema)
    return commit(home, change, after)


def tiers(rows: pa.Table, schema: Schema, batches: int) -> None:
    """Append in batches by time and settle after each."""
    rows = sorted_rows(rows, "time")
    spent: dict[str, list[float]] = {"append": [], "settle": []}
    written = most = 0
    version: Version | None = None
    with tempfile.TemporaryDirectory() as folder:
        home = Home(f"{folder}/h")
        for number in range(batches):
            begin, end = (len(rows) * (number + i) // batches for i in (0, 1))
            clock = time.perf_counter()
            version = append(home, rows.slice(begin, end - begin), schema, str(number), version)
            spent["append"].append(time.perf_counter() - clock)
            clock = time.perf_counter()
            done = settle(home, orders=["time"])
            spent["settle"].append(time.perf_counter() - clock)
            version = done.version
            written += done.rows
            most = max(most, int((version.files.bytes < SMALL_FILE).sum()))
    assert version is not None
    say(
        f"{batches:,} appends: at most {most} files below {SMALL_FILE // 2**20} MiB, "
        f"{len(version.files.name)} files at the end; a row is written {1 + written / len(rows):.2f} times by time"
    )
    for name, seconds in spent.items():
        say(f"  {name}: median {np.median(seconds) * 1e3:.0f} ms, worst {max(seconds):.2f} s")


def sizes(rows: pa.Table, schema: Schema) -> None:
    """Say how many bytes a row takes in each order."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(f"{folder}/h")
        append(home, sorted_rows(rows, "time"), schema, "all", None)
        version = settle(home, orders=ORDER_NAMES).version
        for code, name in enumerate(ORDER_NAMES):
            mine = version.leaves.order == code
            files = version.files.order == code
            say(
                f"by {name}: {version.leaves.bytes[mine].sum() / len(rows):.1f} bytes a row in blocks, "
                f"{version.files.bytes[files].sum() / len(rows):.1f} in files, {mine.sum():,} leaves"
            )


def large(rows: pa.Table, schema: Schema, copies: int, mixed: bool) -> None:
    """Make copies of the rows periods of one history, merge them, and make each order."""
    rows = sorted_rows(rows, "time")
    t = rows.column("t").cast(pa.int64()).to_numpy()
    span = int(t[-1] - t[0])
    with tempfile.TemporaryDirectory() as folder:
        home = Home(f"{folder}/h")
        version: Version | None = None
        ids = rows.column("id").to_numpy()
        for copy in range(copies):
            later = copy if mixed else copy * (span + 1)
            moved = pa.array(t + later).cast(rows.schema.field("t").type)
            held = rows.set_column(1, "t", moved).set_column(0, "id", pa.array(ids + copy * 1_000))
            version = append(home, held, schema, str(copy), version)
        say(f"{copies} periods of {len(rows):,} rows, {'at the same times' if mixed else 'one after another'}")
        steps: list[tuple[str, Callable[[str], int]]] = [("time", merge)]
        steps += [("place", by_place), ("object", by_object)]
        for name, step in steps:
            cost = measured(step, home.path)
            say(
                f"  by {name}: {cost.rows:,} rows, {cost.rows / cost.cpu:,.0f} rows/s of processor time "
                f"({cost.cpu:.0f} s; {cost.wall:.0f} s by the clock), {cost.own:.2f} GiB of its own at most, "
                f"{cost.all:.2f} with mapped files"
            )


def merge(path: str) -> int:
    """Merge the periods of a history and return how many rows were written."""
    return settle(Home(path), orders=["time"]).rows


def by_place(path: str) -> int:
    """Make the order by place of the last period."""
    return _ordered(path, "place")


def by_object(path: str) -> int:
    """Make the order by object of the last period."""
    return _ordered(path, "object")


def _ordered(path: str, order: str) -> int:
    home = Home(path)
    period = int(home.version().periods.number[-1])
    version = make_order(home, period, order)
    return int(version.leaves.rows[version.leaves.order == ORDER_NAMES.index(order)].sum())


def measured(step: Callable[[str], int], path: str) -> Cost:
    """Run a step in a process of its own and return what it took."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_watched, (step, path))


def _watched(step: Callable[[str], int], path: str) -> Cost:
    own, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            own[0] = max(own[0], _status("RssAnon"))

    watch = threading.Thread(target=look)
    watch.start()
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        rows = step(path)
    finally:
        over.set()
        watch.join()
    return Cost(rows, time.process_time() - cpu, time.perf_counter() - wall, own[0], _status("VmHWM"))


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return float(line.split()[1]) / GIBI
    return 0.0


def main(
    data: Annotated[Path, typer.Option(help="Folder of the data sets.")] = DATA,
    parts: Annotated[
        str, typer.Option(help="What to measure: tiers, sizes, large, mixed.")
    ] = "tiers,sizes,large,mixed",
    batches: Annotated[int, typer.Option(help="Appends, each settled after.")] = 1440,
    copies: Annotated[int, typer.Option(help="Of the rows that become one period; a multiple of eight.")] = 8,
) -> None:
    """Measure settling."""
    rows, schema = cab_rows(data)
    wanted = parts.split(",")
    if "sizes" in wanted:
        sizes(rows, schema)
    if "tiers" in wanted:
        tiers(rows, schema, batches)
    for name in ("large", "mixed"):
        if name in wanted:
            large(rows, schema, copies, mixed=name == "mixed")


if __name__ == "__main__":
    run(main)
