"""Rebuilds in Spark, from Parquet to a current snapshot with exact cells, hierarchy and files, beside the bare floor.

The floor is what bare Spark takes to read the rows, keep the latest of each id, shuffle them by a hash and write
Parquet. Both are warm, in turns in one session, the best of each. Peak memory is that of all processes: driver, JVM,
whose heap takes what it is given, and workers. First answer is `open` and one kNN, in a process that has answered
before. `full` is the dissertation's own size, 67 M objects.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import dtoss
from bench.experiments.results import Results, Row, grid, point
from bench.measuring.machine import processor_seconds, resident
from bench.measuring.points import DATA
from bench.measuring.race import in_turns, timed
from datasets.tables.command import say
from datasets.tables.seeded_batches import write_parquet
from datasets.uniform import PLANE_SCHEMA, uniform_plane
from dtoss.rows.input_columns import Columns
from pipelines.rebuild import rebuild
from pipelines.rows.read_files import read_positions
from pipelines.spark.session import spark_session

SIZES = {"smoke": (3_000, 1, False), "here": (5_000_000, 2, True), "full": (67_000_000, 1, False)}
"""Uniform objects in the plane, rounds, whether the rows of all taxis too."""
TAXIS = DATA / "cabspotting_sf.parquet"
SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class Input:
    """Positions to rebuild from."""

    name: str
    path: Path
    x: str
    y: str
    time: str | None
    crs: str
    place: tuple[float, float]


@dataclass
class Peak:
    """The largest sum of all processes' own and file-mapped bytes; what they share counts once."""

    bytes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Watch this process and all that it started: driver, JVM and Python workers."""
    peak = Peak()

    def watch() -> None:
        while not peak._stop.wait(SAMPLE_SECONDS):
            peak.bytes = max(peak.bytes, sum(resident(os.getpid())))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        peak._stop.set()
        watcher.join()


def floor(session: Any, given: Input, out: str) -> None:
    """Read, keep the latest row of each id, shuffle by a hash, write: all in Spark.

    Without a time the greatest x stands in for it, so that the work is the same.
    """
    from pyspark.sql import functions as F

    frame = session.read.parquet(str(given.path))
    latest = frame.groupBy("id").agg(F.max_by(F.struct(given.x, given.y), F.col(given.time or given.x)).alias("at"))
    latest = latest.select("id", f"at.{given.x}", f"at.{given.y}")
    latest.repartition(8, F.xxhash64("id")).write.mode("overwrite").parquet(out)


def of_input(session: Any, given: Input, folder: Path, rounds: int) -> Iterator[Row]:
    """Yield rows of one rebuild and its floor."""
    store = str(folder / "store")

    def ours() -> Any:
        read = read_positions(session, [str(given.path)], Columns(time=given.time, attributes="none"))
        return rebuild(read, store, crs=given.crs, keep=1)

    works = {"floor": partial(floor, session, given, str(folder / "floor")), "rebuild": ours}
    works["floor"]()
    with peak_memory() as peak:
        ours()  # workers are started and kernels loaded
    spent, last = in_turns(works, rounds, lambda: np.array([perf_counter(), processor_seconds()]))
    best = {name: np.min(times, axis=0) for name, times in spent.items()}
    manifest = last["rebuild"]
    at = partial(point, x=given.name, data=given.name)
    for name in ("rebuild", "floor"):
        yield at(name, y=best[name][0], unit="s")
    yield at("rebuild over the floor", y=best["rebuild"][0] / best["floor"][0], unit="times the time")
    for name in ("rebuild", "floor"):
        yield at(name, y=best[name][1], unit="processor s")
    yield at("rebuild", y=manifest["objects"] / best["rebuild"][0], unit="objects/s")
    for stage in ("sample", "pivots", "build", "borders"):
        yield at(stage, y=manifest["timings"][stage], unit="s")
    yield at("peak memory", y=peak.bytes / 1e9, unit="GB")
    yield at("on disk", y=manifest["bytes"] / manifest["objects"], unit="bytes an object")
    dtoss.open(store).knn([given.place], 8)
    yield at("first answer", y=1000 * timed(lambda: dtoss.open(store).knn([given.place], 8))[0], unit="ms")


def run(size: str) -> Iterator[Row]:
    """Yield rows of each input, which x names."""
    count, rounds, real = SIZES[size]
    session = spark_session(name="bench")
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / "uniform.parquet"
        write_parquet(uniform_plane(count), PLANE_SCHEMA, made)
        inputs = [Input(f"{count:,} uniform, plane, no time", made, "x", "y", None, "none", (5e8, 5e8))]
        if real and TAXIS.exists():
            taxis = Input(
                "8,339,836 taxi rows, sphere, a time", TAXIS, "lon", "lat", "t", "EPSG:4326", (-122.41, 37.77)
            )
            inputs.append(taxis)
        elif real:
            say(f"{TAXIS.name} is not in the folder that DTOSS_DATA names")
        for number, given in enumerate(inputs):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            yield from of_input(session, given, folder, rounds)


def draw(results: Results) -> str:
    """Return an input a column."""
    return grid(results, None, "", lambda y: f"{y:,.0f}" if y > 1000 else f"{y:.4g}", down="series")
