"""What a swap costs a server: the steps of making a snapshot ready, and how long answers wait meanwhile.

    python -m bench.serve.swaps [STORE] [--rounds N] [--partitions P]

Without a store one of 1 M objects is made. Each round commits the same files again, and a watcher takes them. Another
thread stands for the loop: it answers batches of 50 nearest-neighbour queries without a pause (busy), or wakes up each
millisecond (idle); its longest turn is the stall. All run on one processor, as a worker of a busy server does. ``open``
is also given as processor time of its thread, all of which may hold the interpreter's lock.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import dtoss
from bench.measuring.points import positions
from dtoss.index import Index
from dtoss.mapped_index import index_of_files, map_files
from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.core.pool import yield_processor
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.reload.prepare import adopt_snapshot, first_snapshot
from dtoss.serve.reload.snapshot_watcher import SWITCH_SECONDS, Watcher
from dtoss.snapshots.lineage import files_of
from dtoss.snapshots.store import Store
from tests.dtoss.serve.watched import Told, running_loop
from tests.dtoss.snapshots.damaged_stores import stored

OBJECTS = 1_000_000
CONDITIONS = ("speed < 40", "speed > 90", "id < 500000", "speed = 7")
"""Carried from snapshot to snapshot, in the last part."""


def made_store(path: str, partitions: int) -> str:
    """Write a store of a million objects with one attribute, and return its path."""
    rng = np.random.default_rng(0)
    columns = {"speed": rng.integers(0, 100, OBJECTS)}
    index = dtoss.build(
        rng.permutation(OBJECTS), positions("uniform", OBJECTS), partitions=partitions, columns=columns, threads=2
    )
    return str(stored(index, path, kinds={"speed": "bigint"}))


def commit_again(path: str) -> None:
    """Make the current snapshot's files a new snapshot."""
    store = Store(path)
    of = store.current()
    manifest, name = store.manifest(of), store.begin()
    for file in files_of(manifest):
        store.link(name, file, of)
    store.finish(name, manifest | {"snapshot": name})


class Loop(threading.Thread):
    """Turns of a loop, and how long each took; busy with queries, or idle."""

    def __init__(self, index: Callable[[], Index], busy: bool) -> None:
        super().__init__(daemon=True)
        self.index, self.busy = index, busy
        self.turns: list[float] = []
        self.stopped = False
        partition = index().parts[0]
        rows = np.random.default_rng(1).integers(0, partition.owned_objects, 50)
        self.places, self.radius = partition.positions[rows], np.full(50, np.inf)

    def run(self) -> None:
        """Turn until it is stopped."""
        began = time.perf_counter()
        while not self.stopped:
            if self.busy:
                self.index().search(self.places, self.radius, 8, places=False)
                time.sleep(0)  # a loop asks the system for what has come
            else:
                time.sleep(0.001)
            now = time.perf_counter()
            self.turns.append(now - began)
            began = now

    def taken(self) -> list[float]:
        """Return milliseconds: median, 99th of a hundred, and longest turn; then forget them."""
        turns, self.turns = np.array(self.turns) * 1e3, []
        return [float(np.median(turns)), float(np.quantile(turns, 0.99)), float(turns.max())]


def swaps(path: str, rounds: int, busy: bool, conditions: tuple[str, ...] = ()) -> None:
    """Print a row for turns of the loop without swaps, and one through some of them."""
    given, told = Settings(path), Told()
    serving = Serving(adopt_snapshot(first_snapshot(given), 2, lambda work: work()))
    for text in conditions:
        serving.now.conditions.get(text)
    state: Any = SimpleNamespace(settings=given, serving=serving, metrics=told, log=told, circle=None)
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(SWITCH_SECONDS)
    with running_loop() as (loop, _):
        loops = Loop(lambda: serving.now.index, busy)
        loops.start()
        watcher = Watcher(state, loop, np.zeros(1, np.int64))
        time.sleep(1.0)
        kind = ("busy" if busy else "idle") + (f", {len(conditions)} conditions" if conditions else "")
        print("| {} | {} | | | | {:.2f} | {:.2f} | {:.1f} |".format(kind, "none", *loops.taken()))
        turning: list[list[float]] = []

        def look() -> None:
            yield_processor()
            watcher.look()

        for _ in range(rounds):
            commit_again(path)
            time.sleep(0.05)
            loops.taken()
            looking = threading.Thread(target=look)
            looking.start()
            looking.join()
            turning.append(loops.taken())
        loops.stopped = True
        loops.join()
    steps = [[facts[f"{step}seconds"] * 1e3 for step in ("", "open_", "verify_", "warm_")] for _, facts in told.events]
    whole = np.median(np.array(steps), axis=0).tolist()
    turns = [*np.median(np.array(turning), axis=0).tolist()[:2], max(turn[2] for turn in turning)]
    print("| {} | {:.0f} | {:.1f} | {:.0f} | {:.0f} | {:.2f} | {:.2f} | {:.1f} |".format(kind, *whole, *turns))


def opening(path: str) -> tuple[float, float]:
    """Return seconds, and processor seconds of the thread, that opening takes: best of ten."""
    store = Store(path)
    taken = []
    for _ in range(10):
        began, worked = time.perf_counter(), time.thread_time()
        manifest = store.manifest(store.current())
        index_of_files(store, manifest, map_files(store, manifest))
        taken.append((time.perf_counter() - began, time.thread_time() - worked))
    return min(wall for wall, _ in taken), min(work for _, work in taken)


def lookups(path: str) -> None:
    """Print what questions about single objects take, microseconds each."""
    index = first_snapshot(Settings(path)).index
    ids = np.random.default_rng(2).permutation(np.concatenate([p.ids[: p.owned_objects] for p in index.parts.all()]))
    some = ids[:2000].tolist()
    for name, ask in {
        "id in index": index.__contains__, "index[id]": index.__getitem__, "neighbours": index.neighbours,
        "cell": index.cell,
    }.items():  # fmt: skip
        best = np.inf
        for _ in range(5):
            began = time.perf_counter()
            for one in some:
                ask(one)
            best = min(best, (time.perf_counter() - began) / len(some))
        print(f"| {name} | {best * 1e6:.1f} |")


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", nargs="?")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=128)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = given.store or made_store(str(Path(folder) / "store"), given.partitions)
        facts = first_snapshot(Settings(path)).facts
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        load = os.getloadavg()[0]
        print(f"{facts['objects']:,} objects, {facts['partitions']} partitions; {platform.machine()}, load {load:.1f}")
        print()
        wall, work = opening(path)
        print(f"open: {wall * 1e3:.1f} ms, {work * 1e3:.1f} of processor time\n")
        print("| loop | swap | open | verify | warm | median turn | p99 | longest, ms |\n|" + "---|" * 8)
        swaps(path, given.rounds, busy=False)
        swaps(path, given.rounds, busy=True)
        swaps(path, given.rounds, busy=True, conditions=CONDITIONS if "speed" in facts["columns"] else ("id < 9",))
        print("\n| one object | us |\n|---|---|")
        lookups(path)


if __name__ == "__main__":
    main()
