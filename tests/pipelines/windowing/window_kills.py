"""Windows of which processes are killed in mid-batch with a real Spark: results are those of a run left alone.

``python -m tests.pipelines.windowing.window_kills --count 6 --workers 20`` (a part of make check-data). The command
runs in a process of its own. It is killed with all that it has started, at a time that a seed chooses, and begun again;
then Python workers of Spark's are killed one after another while it runs, and Spark does their tasks once more.
Processes that are killed between any two changes of files are in tests/dtoss/windows/storage/test_window_kills.py.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from bench.measuring.machine import family
from datasets.tables.command import run, say
from dtoss.windows.processing.windows_tables import verify_windows
from dtoss.windows.storage.window_document import Home, documents, head_of

FILES, ROWS = 8, 10_000
LONGEST_SECONDS = 40.0
"""After which a process is killed, at most."""
MASTER = "local[2,8]"
"""A task is tried so often."""
IN_TASKS = (
    "import sys; import pipelines.windowing.window_batches as batches; from pipelines.command.main import main; "
    "batches.FEW_ROWS_BYTES = -1; main(sys.argv[1:])"
)
"""The command, of which rows as few as these go to tasks of Spark's all the same: those are to be killed."""
PAUSE_SECONDS = (0.5, 4.0)
"""From one killed worker to the next."""


def made(folder: Path) -> None:
    """Write files of taxis that move about, and sites."""
    (folder / "in").mkdir()
    rng = np.random.default_rng(0)
    for number in range(FILES):
        who, t = rng.integers(0, 300, ROWS), 1_700_000_000.0 + number * 600 + rng.uniform(-300, 600, ROWS)
        lon, lat = 8.6 + 0.1 * np.sin(who + t / 2000), 50.1 + 0.05 * np.cos(who * 1.7 + t / 3000)
        pq.write_table(pa.table({"id": who, "t": t, "lon": lon, "lat": lat}), folder / "in" / f"part{number}.parquet")
        os.utime(folder / "in" / f"part{number}.parquet", (number + 1, number + 1))
    sites = {"id": np.arange(30), "lon": rng.uniform(8.5, 8.7, 30), "lat": rng.uniform(50.05, 50.15, 30)}
    pq.write_table(pa.table(sites), folder / "sites.parquet")


def started(
    folder: Path, store: str, master: str = MASTER, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the command, a file a batch, as the first of its own group of processes."""
    arguments = [
        "windows", "run", str(folder / "in"), "--store", store, "--name", "w", "--once", "--max-rows-per-batch", "1",
        "--lengths", "5min,1h", "--slide", "1min", "--by", f"sites:{folder / 'sites.parquet'}", "--late", "20min",
        "--measures", "rows,objects,here,arrivals,flow,speed,max_speed,p95_speed", "--master", master, "--quiet",
    ]  # fmt: skip
    return subprocess.Popen([sys.executable, "-c", IN_TASKS, *arguments], start_new_session=True, env=environment)


def workers_of(process: int) -> list[int]:
    """Return the Python workers of Spark's below a process, the one that starts them left out."""
    found = []
    for one in family(process):
        try:
            words = (Path("/proc") / str(one) / "cmdline").read_text().split("\0")
            parent = int((Path("/proc") / str(one) / "stat").read_text().rsplit(")", 1)[1].split()[1])
            above = (Path("/proc") / str(parent) / "cmdline").read_text()
        except OSError:
            continue
        if "pyspark.daemon" in words and "pyspark.daemon" in above:
            found.append(one)
    return found


def workers_killed(folder: Path, store: str, rng: random.Random, most: int) -> int:
    """Run the command, and kill its Python workers, at most so many; returns how many were."""
    process, came = started(folder, store), 0
    while process.poll() is None:
        pause = time.monotonic() + rng.uniform(*PAUSE_SECONDS)
        while process.poll() is None and time.monotonic() < pause:
            time.sleep(0.05)
        there = workers_of(process.pid)
        if there and came < most:
            os.kill(rng.choice(there), signal.SIGKILL)
            came += 1
    if process.returncode:
        say(f"window kills: a run ended with code {process.returncode} after {came} of its workers were killed")
        assert started(folder, store).wait(900) == 0
    return came


def results(store: str) -> list[object]:
    """What all commits say of their results and counts."""
    home = Home(store, "w")
    found = verify_windows(home)
    assert found.damaged == [], found.damaged
    said = documents(home, 1, head_of(home).number)  # type: ignore[union-attr]
    names = ("results", "counts", "reasons", "watermark", "panes", "objects")
    batches = [one.commit.document for one in said if one.commit.document["batch"]["files"]]  # hours merge by the clock
    return [{name: one[name] for name in names} for one in batches]


def main(
    count: Annotated[int, typer.Option(help="Kills of all.", min=0)] = 6,
    workers: Annotated[int, typer.Option(help="Kills of Python workers.", min=0)] = 20,
    seed: Annotated[int, typer.Option(help="When.")] = 0,
) -> None:
    """Kill runs of windows, and hold all that they have committed to a run that nobody has disturbed."""
    rng, came = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made(folder)
        assert started(folder, str(folder / "calm")).wait(900) == 0
        wanted, stores = results(str(folder / "calm")), 0
        while came < count:
            store, stores = str(folder / f"torn{stores}"), stores + 1
            while True:
                process = started(folder, store)
                begun, limit = time.monotonic(), rng.uniform(3.0, LONGEST_SECONDS)
                while process.poll() is None and (came >= count or time.monotonic() - begun < limit):
                    time.sleep(0.05)
                if process.poll() is not None:
                    assert process.returncode == 0, process.returncode
                    break
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                came += 1
            assert results(store) == wanted
            say(f"window kills: {came} of {count}, store {stores} as the one left alone")
        came = 0
        while came < workers:
            store, stores = str(folder / f"torn{stores}"), stores + 1
            came += workers_killed(folder, store, rng, workers - came)
            assert results(store) == wanted
            say(f"window kills: {came} of {workers} workers, store {stores} as the one left alone")


if __name__ == "__main__":
    run(main)
