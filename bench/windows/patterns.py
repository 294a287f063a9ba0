"""Live patterns beside the Spark job: python -m bench.windows.patterns [--servers 2] [--minutes 1440].

Servers write a file of a thousand sampled requests each minute of a day, near objects in clusters: half for the 8
nearest, a quarter within a radius. Three commands, each a process of its own: ``dtoss patterns --live`` that adds the
day, once more with the next minute, and ``dtoss patterns`` on the whole log. Told are processor seconds of all their
processes, Java's included, and rows/s of these; and whether both files are the same.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dtoss
from bench.measuring.machine import seconds_by_process
from tests.dtoss.snapshots.damaged_stores import stored

LOOK_SECONDS = 0.2
OBJECTS, SAMPLE = 300_000, 1_000
FIRST = 1_774_483_200
"""2026-03-26 00:00 UTC."""


def world(folder: Path, partitions: int) -> np.ndarray:
    """Make a store and return the places of its objects, float64 (n, 2)."""
    rng = np.random.default_rng(1)
    centres = rng.uniform((-120, -50), (140, 65), (400, 2))
    places = centres[rng.integers(0, len(centres), OBJECTS)] + rng.normal(0, 0.5, (OBJECTS, 2))
    stored(dtoss.build(np.arange(OBJECTS), places, partitions=partitions), folder / "store")
    return places


def write_minute(log: Path, places: np.ndarray, minute: int, server: int) -> None:
    """Write what a server keeps of a minute."""
    rng = np.random.default_rng((minute, server))
    at = places[rng.integers(0, len(places), SAMPLE)] + rng.normal(0, 0.05, (SAMPLE, 2))
    t = (FIRST + 60 * minute) * 1_000_000 + np.sort(rng.integers(0, 60_000_000, SAMPLE))
    kind = rng.random(SAMPLE)
    table = pa.table(
        {
            "t": pa.array(t, pa.timestamp("us", "UTC")),
            "lon": at[:, 0],
            "lat": at[:, 1],
            "k": pa.array(np.full(SAMPLE, 8, np.int32), mask=kind >= 0.5),
            "radius": pa.array(np.full(SAMPLE, 20_000.0), mask=(kind < 0.5) | (kind >= 0.75)),
            "weight": rng.integers(1, 20, SAMPLE),
        }
    )
    day = np.datetime64(FIRST + 60 * minute, "s").astype("datetime64[D]")
    (log / str(day)).mkdir(parents=True, exist_ok=True)
    name = f"{minute % 1440 // 5:03d}-s{server}-0-{minute}.parquet"
    pq.write_table(table, log / str(day) / name, compression="zstd")


def seconds_of(*arguments: str) -> float:
    """Return the processor seconds of a command and all its processes, those of Java included."""
    command = [sys.executable, "-m", "dtoss", "patterns", *arguments]
    seen: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        while process.poll() is None:
            seen |= seconds_by_process(process.pid)
            time.sleep(LOOK_SECONDS)
        said.seek(0)
        if process.returncode:
            raise SystemExit(said.read())
    return sum(seen.values())


def main() -> None:
    """Measure, and print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--minutes", type=int, default=1440)
    parser.add_argument("--partitions", type=int, default=128)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        places = world(Path(folder), asked.partitions)
        store, log = str(Path(folder) / "store"), Path(folder) / "store" / "accesses"
        out = [str(Path(folder) / f"{name}.parquet") for name in ("live", "job")]
        live = ["--live", "--store", store, "--out", out[0]]
        for minute in range(asked.minutes):
            for server in range(asked.servers):
                write_minute(log, places, minute, server)
        rows = SAMPLE * asked.servers * asked.minutes
        day = seconds_of(*live)
        for server in range(asked.servers):
            write_minute(log, places, asked.minutes, server)
        beat, nothing = seconds_of(*live), seconds_of(*live)
        rows += SAMPLE * asked.servers
        columns = ["--weight", "weight", "-k", "k", "--radius", "radius"]
        job = seconds_of(str(log), "--store", store, "--out", out[1], *columns)
        same = Path(out[0]).read_bytes() == Path(out[1]).read_bytes()
        size = sum(file.stat().st_size for file in (Path(store) / "patterns").rglob("*.parquet"))
        raw = sum(file.stat().st_size for file in log.rglob("*.parquet"))
    print(f"{rows:,} rows of {asked.servers} servers, {asked.partitions} partitions, processor seconds")
    print(f"live, the day      {day:8.1f} s  {(rows - SAMPLE * asked.servers) / day:12,.0f} rows/s")
    print(f"live, a minute     {beat:8.1f} s  of which {nothing:.1f} s with nothing to add")
    times = f"{job / day:.1f} times the day, {job / beat:.1f} times the minute"
    print(f"the job, all       {job:8.1f} s  {rows / job:12,.0f} rows/s, {times}")
    print(f"bytes              {size:,} kept, {raw:,} in the log")
    print("the files are the same" if same else "the files DIFFER")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
