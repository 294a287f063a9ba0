"""Stores under stress: writers at once, readers that poll, faults at every step, rebuilds that are killed.

`python -m tests.long.stores`, or `make check-data`. The first parts commit snapshots of a few bytes without Spark
(`tests/dtoss/snapshots/small_stores.py`); others break, race and kill cycles (`tests/pipelines/cycles/`); the last
kills real rebuilds at random moments, two of them at it at once.
Ends with code 1 where a store is not whole, an open fails, or anything is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

import dtoss
from datasets.tables.command import run, say
from dtoss.commits.folder import LocalFolder
from dtoss.errors import StoreError
from dtoss.snapshots.store import Store
from tests.dtoss.commits.races import USERS, race
from tests.dtoss.snapshots.small_stores import assert_clean, assert_sound
from tests.object_store import object_store

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("updates", "compare", "build", "borders")
"""Of cycles."""
COMMAND = [sys.executable, "-c", "import sys; from pipelines.command.main import main; main(sys.argv[1:])"]


def loops(kinds: list[list[Any]]) -> list[dict[str, int]]:
    """Run loops of ``small_stores`` at once, each in a process, and return what they tell; [] if one fails."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.dtoss.snapshots.small_stores", *map(str, kind)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )
        for kind in kinds
    ]  # fmt: skip
    told = []
    # those that read go on until they are told to end
    for kind, process in zip(kinds, started, strict=True):
        if kind[0] == "reader":
            Path(f"{kind[1]}.done").touch()
        told.append(json.loads(process.communicate()[0] or "{}"))
    return told if all(process.returncode == 0 for process in started) else []


def rebuilds(folder: Path, count: int, seed: int) -> tuple[int, int, int]:
    """Start two rebuilds at once, kill both at a random moment, and look; return (rounds, finished, refused)."""
    rng = np.random.default_rng(seed)
    # a store of its own: the snapshots of a few bytes cannot be opened
    store, finished, refused = Store(str(folder / "rebuilt")), 0, 0
    files = []
    for number in range(2):
        table = {"id": np.arange(20_000 + number)}
        table |= {name: rng.uniform(-80, 80, 20_000 + number) for name in ("lon", "lat")}
        files.append(folder / f"{number}.parquet")
        pq.write_table(pa.table(table), files[-1])
    for _ in range(count):
        running = [
            subprocess.Popen(
                [*COMMAND, "rebuild", str(file), "--store", store.path, "--master", "local[1]", "--keep", "1"],
                cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
            )
            for file in files
        ]  # fmt: skip
        ends = time.monotonic() + rng.uniform(2.0, 25.0)
        while time.monotonic() < ends and any(process.poll() is None for process in running):
            time.sleep(0.05)
            if store.folder.is_file("CURRENT"):
                assert len(dtoss.open(store.path)) in (20_000, 20_001)
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[1]
            finished += process.returncode == 0
            refused += process.returncode == 2 and "is being written by process" in said
            assert process.returncode in (0, 2, -signal.SIGKILL), said
        if store.folder.is_file("CURRENT"):
            assert len(dtoss.open(store.path, verify=True)) in (20_000, 20_001)
            store.clear(None)
            assert_clean(store)
    return count, finished, refused


def syncing(folder: LocalFolder, files: int, size: int) -> float:
    """Return the seconds that syncing files takes which were just written."""
    folder.make("snapshots", "one", "partitions")
    paths = [("snapshots", "one", "partitions", str(number)) for number in range(files)]
    data = np.random.default_rng(0).bytes(size)
    for path in paths:
        folder.write(data, *path)
    began = time.perf_counter()
    folder.sync(paths)
    spent = time.perf_counter() - began
    folder.remove_folder("snapshots")
    return spent


def races(folder: Path, commits: int) -> int:
    """Let two and eight writers commit without leases, on a disk and an object store; return how many races failed."""
    wrong = 0
    with object_store() as bucket:
        for user in USERS:
            for writers in (2, 8):
                for place in (str(folder / f"{user}-{writers}"), bucket.uri()):
                    where = "an object store" if "://" in place else "a disk"
                    try:
                        # a snapshot there takes a hundred requests
                        many = commits // 4 if "://" in place and user == "snapshots" else commits
                        found: Any = race(user, place, writers, many, readers=2)
                    except AssertionError as error:
                        wrong += 1
                        found = f"failed: {error}"
                    say(f"{writers} writers of {many} {user} on {where}: {found}")
    return wrong


def cycles(folder: Path, commits: int, kills: int, seed: int) -> int:
    """Break cycles before every change of a file, let them race, kill their processes; return how many parts failed."""
    rng = np.random.default_rng(seed)
    rounds = [f"{rng.choice(['worker', 'java'])}:{rng.choice(STAGES)}" for _ in range(kills)]
    parts = [["without_spark", "broken", f"{folder}/cycles-{how}", how, 1, 1] for how in ("kill", "error", "full")]
    parts += [["without_spark", "races", f"{folder}/cycles-{n}", n, -(-commits // n)] for n in (2, 8)]
    parts.append(["with_spark", "kills", f"{folder}/cycles-killed", seed, *rounds])
    wrong = 0
    with object_store() as bucket:
        parts.append(["without_spark", "races", bucket.uri(), 8, -(-commits // 8)])
        for module, *arguments in parts:
            command = [sys.executable, "-m", f"tests.pipelines.cycles.{module}", *map(str, arguments)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            failed = done.returncode != 0 or ('failed": 1' in done.stdout and module == "without_spark")
            wrong += failed
            found = done.stderr[-2000:] if failed else done.stdout.strip()
            say(f"cycles, {arguments[0]} {' '.join(map(str, arguments[2:]))[:40]}: {found}")
    return wrong


def main(
    commits: Annotated[int, typer.Option(help="Of each of three writers that are at it at once.")] = 200,
    rounds: Annotated[int, typer.Option(help="Of taking over a dead one's lock.")] = 300,
    kills: Annotated[int, typer.Option(help="Rounds of two real rebuilds that are killed.")] = 20,
    cycle_kills: Annotated[int, typer.Option(help="Kills of Python workers and Java in mid-cycle.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the moments at which they are.")] = 0,
) -> None:
    """Commit, read, break and kill, and look whether stores stay whole."""
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for files, size in ((8, 10_750_000), (128, 5_600_000)):
            spent = min(syncing(LocalFolder(scratch), files, size) for _ in range(3))
            say(f"syncing {files} files of {size:,} bytes: {spent:.2f} s, the least of three")
        parts: dict[str, list[list[Any]]] = {
            kind: [[kind, f"{scratch}/{kind}", 1, 1]] for kind in ("kill", "error", "interrupt")
        }
        parts["takers"] = [["takers", f"{scratch}/takers", rounds, 8]]
        for name, kinds in parts.items():
            told = loops(kinds)
            wrong += not told
            say(f"{name}: {told[0] if told else 'failed'}")
        wrong += races(Path(scratch), commits)
        wrong += cycles(Path(scratch), commits, cycle_kills, seed)
        store = Store(f"{scratch}/store")
        loops([["writer", store.path, 1, 9]])
        writers = [["writer", store.path, commits, number] for number in range(3)]
        told = loops([*writers, *[["reader", store.path] for _ in range(3)]])
        wrong += not told
        say(f"writers and readers: {told or 'failed'}")
        try:
            assert_sound(store)
            assert_clean(store)
            say("rebuilds: {} rounds, {} finished, {} refused".format(*rebuilds(Path(scratch), kills, seed)))
        except (AssertionError, StoreError) as error:
            wrong += 1
            say(f"failed: {error}")
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    run(main)
