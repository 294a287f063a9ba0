"""What windows take by objects, keys and --late: `python -m bench.windows.sizing [--objects N ...] [--minutes 120]`.

A made fleet that drives about in a town, a row a minute of each object; windows of 5 minutes and an hour every minute,
the measures of the README; batches of 10 minutes, one task, without Spark. Each line is a process of its own: bytes of
the state after the last batch, rows and bytes of results for each end, from which a day follows, and the most memory of
a batch beyond that of a process that has done nothing yet. Bytes and memory do not depend on the load.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.buckets import bucket_of
from dtoss.commits.offsets import Source
from dtoss.geometry.space import space_of
from dtoss.windows.spec import spec_of
from dtoss.windows.storage.keys_file import keys_from, of_sites, write_keys
from dtoss.windows.storage.spec_file import FixedSpec, fix
from dtoss.windows.storage.window_document import Home, begun_windows
from dtoss.windows.storage.window_plan import Options, plan_batch
from dtoss.windows.trajectories.map_step import WindowRows
from tests.dtoss.windows.window_batch import run_batch

MEGABYTE, SECOND_US = 1e6, 1_000_000
FAR_FUTURE_US = 1 << 59

MEASURES, LENGTHS = "rows,objects,here,flow,speed", "5min,1h"
BATCH_MINUTES, MINUTE_US, DAY_MINUTES = 10, 60 * SECOND_US, 1440
BEGIN_US = 1_777_600_800 * SECOND_US
MIDDLE, TOWN, STEP = np.array([10.0, 50.0]), 0.15, 0.004
"""Degrees: where the town is, half of its width, and how far an object drives in a minute."""
USUAL = (10_000, 100, "10min")
OTHERS = ((1_000, 100, "10min"), (50_000, 100, "10min"), (10_000, 1_000, "10min"), (10_000, 100, "1h"))


def resident() -> float:
    """Return the megabytes of memory that the process holds."""
    return _status("VmRSS:")


def most_resident() -> float:
    """Return the most megabytes that the process held since this was asked last."""
    found = _status("VmHWM:")
    Path("/proc/self/clear_refs").write_text("5")
    return found


def _status(name: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024 / MEGABYTE


class Run:
    """Windows in a store of their own, run batch by batch."""

    def __init__(
        self, folder: str, places: NDArray[np.float64], lengths: str, measures: str, late: str = "10min"
    ) -> None:
        space = space_of()
        digest = keys_from(space, of_sites(places)).digest
        self.spec = spec_of(lengths, "1min", measures, "sites:places", space, digest, late=late)
        self.home = Home(folder, "fleet")
        self.fixed = FixedSpec(self.spec, write_keys(self.home, of_sites(places)))
        fix(self.home, self.fixed)

    def commit(self, ids: NDArray[np.int64], t: NDArray[np.int64], positions: NDArray[np.float64]) -> dict[str, Any]:
        """Commit a batch, and return what the commit says."""
        array = pa.array(ids)
        options = Options(max_bad=1.0)
        plan = plan_batch(self.home, self.fixed, ("int64", "double"), Source(), options, FAR_FUTURE_US, 1)
        assert plan is not None
        rows = WindowRows(array, t, np.ascontiguousarray(positions), bucket_of(array))
        return run_batch(plan, rows).document

    def state(self) -> dict[str, int]:
        """Return the bytes of files of state, by kind."""
        head = begun_windows(self.home)
        return {room: sum(part.file.bytes for part in head.files[room]) for room in ("objects", "panes")}


def line(objects: int, keys: int, late: str, minutes: int) -> str:
    """Return what windows of a fleet take, as a line."""
    rng = np.random.default_rng(0)
    places, at, ways = (rng.uniform(-TOWN, TOWN, (n, 2)) + MIDDLE for n in (keys, objects, objects))
    who = np.arange(objects)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(folder, places, LENGTHS, MEASURES, late)
        run.commit(who[:1], np.array([BEGIN_US]), at[:1])  # kernels are loaded
        before, most = resident(), 0.0
        for begin in range(0, minutes, BATCH_MINUTES):
            t, rows = [], []
            for minute in range(begin, begin + BATCH_MINUTES):
                gap = ways - at
                far = np.linalg.norm(gap, axis=1)
                there = far < STEP
                ways[there] = rng.uniform(-TOWN, TOWN, (int(there.sum()), 2)) + MIDDLE
                at = at + gap * np.minimum(STEP / np.maximum(far, STEP), 1)[:, None]
                t.append(BEGIN_US + minute * MINUTE_US + rng.integers(0, MINUTE_US, objects))
                rows.append(at)
            most_resident()
            run.commit(np.tile(who, BATCH_MINUTES), np.concatenate(t), np.concatenate(rows))
            most = max(most, most_resident())
        state = run.state()
        room = run.home.folder
        files = [room.path("results", name) for name in room.files("results")]
        count = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
        size = sum(room.sizes("results").values())
    held, panes, day = (n / MEGABYTE for n in (state["objects"], state["panes"], size / minutes * DAY_MINUTES))
    return (
        f"| {objects:,} | {keys:,} | {late} | {held:.1f} MB | {panes:.1f} MB "
        f"| {count / minutes * DAY_MINUTES:,.0f} rows, {day:.0f} MB | {most - before:.0f} MB |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="*", default=())
    parser.add_argument("--minutes", type=int, default=120)
    parser.add_argument("--one", nargs=3)
    given = parser.parse_args()
    if given.one:
        objects, keys, late = given.one
        print(line(int(objects), int(keys), late, given.minutes))
        return
    print("| objects | keys | `--late` | of objects | of panes | results a day | memory of a task |")
    print("|---|---|---|---|---|---|---|", flush=True)
    more = tuple((objects, USUAL[1], USUAL[2]) for objects in given.objects)
    for one in (USUAL, *OTHERS, *more):
        command = [
            sys.executable,
            "-m",
            "bench.windows.sizing",
            "--minutes",
            str(given.minutes),
            "--one",
            *map(str, one),
        ]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
