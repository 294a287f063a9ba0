"""``dtoss run --windows --every`` killed at random moments while files arrive: all is as after a run left alone.

``python -m tests.pipelines.windowing.run_kills --count 10`` (a part of make check-data). The command runs in a process
of its own, with a history and two windows of one store. Files come one after another meanwhile. It is killed with all
that it has started, at a time that a seed chooses, and begun again. At the end the answers of both windows, the rows of
the history and the objects of the store are those of a run that read the same files at once.
"""

from __future__ import annotations

import json
import os
import random
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
from dtoss.commits.offsets import Ledger
from dtoss.snapshots.snapshots_table import verify_store
from dtoss.snapshots.store import Store
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.storage.window_document import Home, head_of

FILES, ROWS, BEGIN = 200, 500, 1_700_000_000
NAMES = ("shops", "fleet")
KILLED_AFTER, STARTS = (0.0, 25.0), 25.0
"""Seconds from the first commit of a process to its end; and after which one without a commit ends, every third one."""
WAITS_SECONDS = 90.0
"""For a first commit: there is none where all files are read."""
ARRIVES_EVERY = 2.0
"""Seconds from file to file."""
LONGEST_SECONDS = 300.0
"""For the last process to read what is left."""


def made(folder: Path) -> list[pa.Table]:
    """Write what asks for windows, and return the files that are to arrive."""
    rng = np.random.default_rng(0)
    sites = "".join(f"{i},{x:.4f},{y:.4f}\n" for i, (x, y) in enumerate(rng.uniform((8.5, 50.0), (8.7, 50.2), (9, 2))))
    (folder / "shops.csv").write_text("id,lon,lat\n" + sites)
    # nothing is late: which rows are in a batch is chance, and no answer depends on it then
    text = 'name = "{}"\nlengths = "5min,1h"\nby = "{}"\nlate = "2d"\nmax-gap = "30min"\nmeasures = "{}"\n'
    (folder / "shops.toml").write_text(
        text.format("shops", f"sites:{folder}/shops.csv", "rows,objects,here,speed,flow")
    )
    (folder / "fleet.toml").write_text(text.format("fleet", "partition", "rows,objects,max_speed"))
    found = []
    for number in range(FILES):
        who, t = rng.integers(0, 200, ROWS), BEGIN + 120.0 * number + rng.uniform(-300, 300, ROWS).round(3)
        lon, lat = 8.6 + 0.1 * np.sin(who + t / 2000), 50.1 + 0.1 * np.cos(who * 1.7 + t / 3000)
        found.append(pa.table({"id": who, "t": t, "lon": lon, "lat": lat}))
    return found


def put(folder: Path, number: int, rows: pa.Table) -> None:
    """Let a file arrive."""
    target = folder / "updates" / f"part{number:02}.parquet"
    pq.write_table(rows, target.with_name(f".{target.name}"))
    target.with_name(f".{target.name}").rename(target)


def started(folder: Path, store: str, *more: str) -> subprocess.Popen[bytes]:
    """Start the command as the first of its own group of processes."""
    arguments = [
        "run", "--updates", str(folder / "updates"), "--store", f"{store}/s", "--history", f"{store}/h", "--time", "t",
        "--windows", str(folder / "shops.toml"), "--windows", str(folder / "fleet.toml"), "--partitions", "4",
        "--max-ahead", "off", "--clock", "data", "--master", "local[2]", "--every", "1s", "--quiet", *more,
    ]  # fmt: skip
    return subprocess.Popen([sys.executable, "-m", "dtoss", *arguments], start_new_session=True)


def commits(store: str) -> list[int]:
    """How many commits the windows and the store have."""
    places = (*(Home(f"{store}/s", name).path for name in NAMES), f"{store}/s", f"{store}/h")
    return [len(list((Path(place) / "commits").glob("*"))) for place in places]


def has_all(store: str) -> bool:
    """Whether the store and both windows have read all files."""
    try:
        heads = [head_of(Home(f"{store}/s", name)) for name in NAMES]
        ledgers = [Ledger.of(Store(f"{store}/s").manifest().get("ledger")), *(one.ledger for one in heads if one)]
    except dtoss.DtossError:
        return False
    return len(ledgers) == 1 + len(NAMES) and all(len(one.files) == FILES for one in ledgers)


def told(store: str) -> dict[str, Any]:
    """What stands: answers of windows without revisions, which depend on batches, the history and the objects."""
    assert verify_store(Store(f"{store}/s")).damaged == []
    found: dict[str, Any] = {}
    for name in NAMES:
        windows = dtoss.open_windows(f"{store}/s", name)
        assert verify_windows(windows.home).damaged == []
        assert windows.counts["rows"] == FILES * ROWS, (name, dict(windows.counts))
        found[name] = windows.watermark, windows.wide_between(BEGIN - 600).drop(["revision"]).to_pydict()
    found["pivots"] = Store(f"{store}/s").manifest()["pivots_hash"]
    out = subprocess.run(
        [sys.executable, "-m", "dtoss", "history", "info", "--history", f"{store}/h", "--json"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found["history"] = json.loads(out)["rows"]
    index = dtoss.open(f"{store}/s")
    found["objects"] = sorted(index.range([8.6, 50.1], 50_000.0).id.tolist())
    return found


def main(
    count: Annotated[int, typer.Option(help="Kills.", min=0)] = 10, seed: Annotated[int, typer.Option(help="When.")] = 0
) -> None:
    """Kill runs that feed windows, and hold what stands to a run that nobody has disturbed."""
    rng, came, arrived, next_file = random.Random(seed), 0, 1, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "updates").mkdir()
        files = made(folder)
        put(folder, 0, files[0])  # with which both begin: it chooses the pivots
        torn = str(folder / "torn")
        calm = str(folder / "calm")
        for store in (torn, calm):
            assert started(folder, store, "--cycles", "1").wait(600) == 0
        while True:
            process, begun = started(folder, torn), time.monotonic()
            before, waits = commits(torn), came < count and came % 3 < 2
            limit = LONGEST_SECONDS if came >= count else WAITS_SECONDS if waits else rng.uniform(1.0, STARTS)
            while process.poll() is None and time.monotonic() - begun < limit:
                if waits and commits(torn) != before:
                    waits, limit = False, time.monotonic() - begun + rng.uniform(*KILLED_AFTER)
                if arrived < FILES and (time.monotonic() >= next_file or came >= count):
                    put(folder, arrived, files[arrived])
                    arrived, next_file = arrived + 1, time.monotonic() + ARRIVES_EVERY
                if came >= count and time.monotonic() - begun > STARTS and arrived == FILES and has_all(torn):
                    break  # a signal before the command listens would kill it
                time.sleep(0.1)
            assert process.poll() is None, f"the run has ended with {process.returncode}"
            if came >= count:
                break
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            came += 1
            say(f"run kills: {came} of {count}, after {limit:.1f} s and {arrived} files; commits are {commits(torn)}")
        assert has_all(torn), "the last run has not read all files"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.returncode
        assert started(folder, calm, "--cycles", "1").wait(600) == 0
        assert has_all(calm)
        wanted, stands = told(calm), told(torn)
        for name, value in wanted.items():
            assert stands[name] == value, f"{name} are others after {came} kills"
        say(f"run kills: {came} kills; windows, history and objects are those of a run left alone")


if __name__ == "__main__":
    run(main)
