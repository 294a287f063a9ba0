"""Memory of a watch, without Spark: what a second worker needs, the state after many batches, one row of many matches.

`python -m bench.watch.memories` prints each figure beside its goal, W9's: 100 MB for a second process that maps a
million subscriptions, 120 bytes of state an object, the same after 1,000 batches, and a row that matches a million
subscriptions streams through.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.machine import resident
from bench.watch.fleets import BEGIN, TOWN, circles, moved, places, radius_of
from datasets.tables.command import run, say
from dtoss.commits.chain import Commit
from dtoss.commits.offsets import Source
from dtoss.geometry.space import LONLAT, space_of
from dtoss.watch.processing.watch_plan import Options, plan_batch
from dtoss.watch.subscription import ENTER, LEAVE
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from dtoss.watch.watch_settings import Rows, Settings
from tests.dtoss.watch.watch_batch import run_batch

SETTINGS = Settings(space_of(LONLAT), "int64", "double")
MB = 1e6


def batch(home: Home, table: pa.Table, number: int, tasks: int = 2) -> Commit:
    """Run a batch of rows, and return its commit."""
    places = np.stack([table.column("lon").to_numpy(), table.column("lat").to_numpy()], axis=1)
    rows = Rows(places, table.column("id").combine_chunks(), table.column("t").to_numpy() * 1_000_000)
    plan = plan_batch(home, SETTINGS, Source(query="q", batch=number), Options(max_ahead=None), time.time_ns() // 1000)
    assert plan is not None
    commit = run_batch(plan, rows, tasks)
    assert commit is not None
    return commit


def worker(home: Home, table: pa.Table, end: Connection) -> None:
    """Match rows against what stands as a task does, tell, and wait."""
    plan = plan_batch(home, SETTINGS, Source(), Options(max_ahead=None), time.time_ns() // 1000)
    assert plan is not None
    from dtoss.watch.matching.matcher import StandingMatcher

    at = np.stack([table.column("lon").to_numpy(), table.column("lat").to_numpy()], axis=1)
    standing = plan.standing
    end.send(len(StandingMatcher(standing, standing.alive(None)).match(Rows(at))))
    end.recv()


def second_worker(home: Home, table: pa.Table) -> tuple[float, float]:
    """Return bytes, of its own and of its share of mapped files, that a second process adds to a first."""
    context = get_context("spawn")
    found, ends, processes = [], [], []
    for _ in range(2):
        mine, other = context.Pipe()
        process = context.Process(target=worker, args=(home, table, other))
        process.start()
        mine.recv()
        ends.append(mine)
        processes.append(process)
        found.append([sum(values) for values in zip(*(resident(_id(one)) for one in processes), strict=True)])
    for mine, process in zip(ends, processes, strict=True):
        mine.send(None)
        process.join()
    return found[1][0] - found[0][0], found[1][1] - found[0][1]


def _id(process: Any) -> int:
    return int(process.pid)


def highest(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return by how many bytes this process grew at most while it did some work, and what that returned."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _of_status("VmRSS")
    found = work()
    return _of_status("VmHWM") - before, found


def _of_status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main(
    subscriptions: Annotated[int, typer.Option(help="Circles.")] = 1_000_000,
    objects: Annotated[int, typer.Option(help="In the fleet.")] = 1_000_000,
    batches: Annotated[int, typer.Option(help="Of a fiftieth of the objects.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of rows and circles.")] = 0,
) -> int:
    """Measure the memory of a watch."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(str(Path(folder) / "many"))
        subscribe(home, circles(rng, range(subscriptions), ENTER | LEAVE, radius_of(9.0, subscriptions)))
        at = places(rng, objects)
        batch(home, moved(rng, at, 10_000, 0), 0)
        own, mapped = second_worker(home, moved(rng, at, 10_000, 1))
        say(f"a second worker at {subscriptions:,} subscriptions: {(own + mapped) / MB:.0f} MB more, {own / MB:.0f} of "
            f"them its own (W9: 100)")  # fmt: skip
        home = Home(str(Path(folder) / "one place"))
        crowd = circles(rng, range(subscriptions), ENTER | LEAVE, 0.0)
        for name, value in (("x", TOWN[0]), ("y", TOWN[1]), ("radius", 1000.0)):
            crowd = crowd.set_column(
                crowd.schema.get_field_index(name), crowd.schema.field(name), pa.array(np.full(subscriptions, value))
            )
        subscribe(home, crowd)
        here = pa.table({"id": [1, 2, 3], "lon": [TOWN[0]] * 3, "lat": [TOWN[1]] * 3, "t": [BEGIN] * 3})
        batch(home, here.slice(0, 0), 0)
        for number, rows in enumerate((1, 3), 1):
            few = here.slice(0, rows).set_column(3, "t", pa.array(np.full(rows, BEGIN + number)))
            more, commit = highest(lambda few=few, number=number: batch(home, few, number, 1))
            events = sum(file["rows"] for file in commit.document["events"])
            say(f"{rows} rows that match {subscriptions:,} subscriptions: {events:,} events, {more / MB:.0f} MB more")
        home = Home(str(Path(folder) / "long"))
        subscribe(home, circles(rng, range(1000), ENTER | LEAVE, radius_of(1.0, 1000)))
        batch(home, moved(rng, at, objects, 0), 0)
        sizes, runs, own_bytes = [], [], []
        for number in range(1, batches + 1):
            document = batch(home, moved(rng, at, objects // 50, number), number).document
            sizes.append(sum(run["bytes"] for run in document["state"]) / objects)
            runs.append(len(document["state"]))
            own_bytes.append(resident(os.getpid())[0])
        early = slice(batches // 10, batches // 5)
        late = slice(-(batches // 10), None)
        say(f"state: {min(sizes):.0f} to {max(sizes):.0f} bytes an object over {batches:,} batches (W9: 120 when runs "
            f"are merged), {min(runs)} to {max(runs)} runs; {np.mean(sizes[early]):.1f} early, "
            f"{np.mean(sizes[late]):.1f} late")  # fmt: skip
        say(f"memory of the process: {np.mean(own_bytes[early]) / MB:.0f} MB early, "
            f"{np.mean(own_bytes[late]) / MB:.0f} MB late (W9: flat)")  # fmt: skip
    return 0


if __name__ == "__main__":
    run(main)
