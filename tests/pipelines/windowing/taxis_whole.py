"""18 days of taxis as files through Spark: `python -m tests.pipelines.windowing.taxis_whole`.

All of Cabspotting (8,339,836 rows, 526 taxis), a file an hour, batches of about a day. Rows, objects, here and flows of
ends all over the days are held to numpy over all rows, counts and watermark too. Told are the seconds of each batch,
and the memory of all processes while it ran, of which goal E8 says: at most 1.05 times on the last day what it is on
the third. Ends with code 1 where a value differs. Part of `make check-data`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

import dtoss
from bench.measuring.machine import resident, seconds_by_process
from datasets.tables.command import run, say
from dtoss.geometry.distance import distance
from dtoss.geometry.space import space_of
from dtoss.snapshots.manifest import regions_of_manifest
from dtoss.snapshots.store import Store
from tests.data import DATA
from tests.dtoss.snapshots.damaged_stores import stored
from tests.dtoss.windows.plain import Plain

HOUR_US, SECOND = 3_600_000_000, 1_000_000
LENGTHS, MEASURES = "5min,15min,1h,24h", "rows,objects,here,flow"
LOOK_SECONDS = 0.5


def written(folder: Path, days: int, partitions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write a file an hour and a store with partitions; returns ids, times and places of all rows."""
    table = pq.read_table(DATA / "cabspotting_sf.parquet", columns=["uid", "t", "lon", "lat"]).sort_by("t")
    t = table["t"].cast(pa.int64()).to_numpy()
    last = int(np.searchsorted(t, (t[0] // (24 * HOUR_US) + days) * 24 * HOUR_US))
    table, t = table.slice(0, last).rename_columns(["id", "t", "lon", "lat"]), t[:last]
    (folder / "in").mkdir()
    cuts = np.flatnonzero(np.diff(t // HOUR_US)) + 1
    for number, (a, b) in enumerate(zip([0, *cuts.tolist()], [*cuts.tolist(), last], strict=True)):
        path = folder / "in" / f"{number:04d}.parquet"
        pq.write_table(table.slice(a, b - a), path)
        os.utime(path, (number + 1, number + 1))
    places = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    few = np.random.default_rng(0).choice(last, min(last, 50_000), replace=False)
    stored(dtoss.build(np.sort(few), places[np.sort(few)], partitions=partitions), folder / "store")
    return table["id"].to_numpy().astype(np.int64), t, places


def watched(command: list[str]) -> tuple[list[dict[str, object]], list[int], float]:
    """Run a command that tells of each batch; returns what it tells, the most bytes while each ran, and the seconds."""
    told: list[dict[str, object]] = []
    most: list[int] = [0]
    spent: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def look() -> None:
            while process.poll() is None:
                most[-1] = max(most[-1], resident(process.pid)[0])
                for one, seconds in seconds_by_process(process.pid).items():
                    spent[one] = seconds
                time.sleep(LOOK_SECONDS)

        looking = threading.Thread(target=look)
        looking.start()
        assert process.stdout is not None
        for line in process.stdout:
            told.append(json.loads(line))
            most.append(0)
            say(f"  batch {len(told)}: {told[-1]['seconds']} s, {most[-2] >> 20} MB, load {os.getloadavg()[0]:.0f}")
        looking.join()
    if process.returncode:
        raise SystemExit(process.returncode)
    return told, most[:-1], sum(spent.values())


def differing(store: str, rows: tuple[np.ndarray, np.ndarray, np.ndarray], ends: int) -> tuple[int, int]:
    """Return how many values were compared with numpy, and how many differ."""
    found = dtoss.open_windows(store, "fleet")
    space, regions = space_of(), regions_of_manifest(Store(store).manifest())

    def key_of(places: np.ndarray) -> np.ndarray:
        near = []
        for part in np.array_split(places, len(places) // 10_000 + 1):
            gaps = space.vectors(part)[:, None, :] - regions.pivots[None, :, :]
            near.append(((gaps * gaps).sum(axis=2) - regions.weights).argmin(axis=1))
        return np.concatenate(near).astype(np.int64)

    def far(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return distance(space.vectors(a), space.vectors(b))

    plain = Plain(found.spec, *rows, key_of, far)
    totals, mark = found.head.commit.document["totals"], found.watermark
    assert mark is not None
    compared, differ = 3, 0
    differ += int(totals["rows"] != len(rows[0])) + int(totals["losers"] != plain.duplicates) + totals["quarantined"]
    some = np.random.default_rng(1).integers(plain.t.min() // found.spec.slide + 1, mark // found.spec.slide, ends)
    for end in (np.append(some, mark // found.spec.slide) * found.spec.slide).tolist():
        for name, length in zip(found.spec.names, found.spec.lengths, strict=True):
            known, ours = plain.window(end, length), found.at(end / SECOND, name)
            mine = {row["key"]: row for row in ours.to_pylist()}
            for key in mine.keys() | known.keys():
                for measure in ("rows", "objects", "here"):
                    compared += 1
                    differ += mine.get(key, {}).get(measure, 0) != known.get(key, {}).get(measure, 0)
    for name, length in zip(found.spec.names, found.spec.lengths, strict=True):
        for end in (mark, mark - 12 * HOUR_US):
            if end != mark and length > 12 * HOUR_US:
                continue  # flows are kept as long as the longest window
            moves = {(one["from"], one["to"]): one["moves"] for one in found.flow(end / SECOND, name).to_pylist()}
            known_flow = plain.flow(end, length)
            for pair in moves.keys() | known_flow.keys():
                compared += 1
                differ += moves.get(pair, 0) != known_flow.get(pair, 0)
    return compared, differ


def main(
    days: Annotated[int, typer.Option(help="Of the 18.", min=1, max=18)] = 18,
    rows_a_batch: Annotated[int, typer.Option(help="About.", min=1)] = 470_000,
    partitions: Annotated[int, typer.Option(help="Keys.", min=1)] = 128,
    ends: Annotated[int, typer.Option(help="That are compared.", min=1)] = 60,
) -> int:
    """Replay the taxis, and compare."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = written(folder, days, partitions)
        store = str(folder / "store")
        command = [
            sys.executable, "-m", "dtoss", "windows", "run", str(folder / "in"), "--store", store, "--name", "fleet",
            "--once", "--json", "--quiet", "--lengths", LENGTHS, "--measures", MEASURES, "--expire", "15min",
            "--max-rows-per-batch", str(rows_a_batch), "--master", "local[2]", "--driver-memory", "2g",
        ]  # fmt: skip
        began = time.monotonic()
        told, most, spent = watched(command)
        wall = time.monotonic() - began
        size = sum(file.stat().st_size for file in (folder / "store" / "windows").rglob("*") if file.is_file())
        say(
            f"{len(rows[0]):,} rows in {len(told)} batches: {wall:.0f} s, {spent:.0f} s of processors, batches of "
            f"{np.median([float(str(one['seconds'])) for one in told]):.1f} s; {size >> 20} MB of files"
        )
        if len(most) > 3:
            say(
                f"memory of all processes: {most[2] >> 20} MB in the third batch, {most[-2] >> 20} MB in the last "
                f"whole one, {most[-2] / most[2]:.2f} times (goal 1.05)"
            )
        compared, differ = differing(store, rows, ends)
        say(f"{differ} of {compared:,} values differ")
    return 1 if differ else 0


if __name__ == "__main__":
    run(main)
