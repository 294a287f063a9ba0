"""What the benchmarks of rebuilds share: the bare Spark floor, peak memory, and time to the first answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measuring.machine import resident

SAMPLE_SECONDS = 0.5


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


def floor(session: Any, positions: str, out: str, x: str, y: str, time_column: str | None) -> float:
    """Return the seconds that bare Spark takes: read, keep the latest row of each id, shuffle by a hash, write.

    Without a time the greatest x stands in for it, so that the work is the same.
    """
    from pyspark.sql import functions as F

    began = time.perf_counter()
    frame = session.read.parquet(positions)
    latest = frame.groupBy("id").agg(F.max_by(F.struct(x, y), F.col(time_column or x)).alias("at"))
    latest = latest.select("id", f"at.{x}", f"at.{y}")
    latest.repartition(8, F.xxhash64("id")).write.mode("overwrite").parquet(out)
    return time.perf_counter() - began


def first_answer(store: str, place: tuple[float, float]) -> float:
    """Return the seconds to open a store and answer one question, in a process that has answered one before."""
    import dtoss

    dtoss.open(store).knn([place], 8)
    began = time.perf_counter()
    dtoss.open(store).knn([place], 8)
    return time.perf_counter() - began


def size_of(folder: str | Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
