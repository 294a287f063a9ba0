"""How much memory a kNN join takes as the store grows, with a driver whose heap is smaller than the store.

python -m bench.join_memory [--objects 1000000 5000000 10000000] [--queries 1000000] [--heap 512m]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measuring.joins import write_join
from bench.measuring.machine import resident
from dtoss.snapshots.store import Store

K = 8
BUILD = (
    "import sys; from pipelines.spark.session import spark_session; from pipelines.rebuild import rebuild; "
    "s = spark_session('local[2]', driver_memory='4g'); rebuild(s.read.parquet(sys.argv[1]), sys.argv[2])"
)
JOIN = (
    "import sys; from pipelines.spark.session import spark_session; from pipelines.join import knn_join; "
    "s = spark_session('local[2]', driver_memory=sys.argv[3]); q = s.read.parquet(sys.argv[1]); "
    f"print(knn_join(q, sys.argv[2], {K}).count())"
)


def peak(command: list[str]) -> tuple[int, int, int]:
    """Run a command; returns the most bytes it and its children owned, and had mapped, and the number it printed."""
    own = mapped = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            now = resident(process.pid)
            own, mapped = max(own, now[0]), max(mapped, now[1])
            time.sleep(0.2)
        printed = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"the join ended with exit code {process.returncode}")
    return own, mapped, int(printed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000_000, 5_000_000, 10_000_000])
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--heap", default="512m")
    options = parser.parse_args()
    print("| objects | store MB | heap | memory of its own, MB | mapped from files, MB |")
    print("|---|---|---|---|---|")
    for count in options.objects:
        with TemporaryDirectory() as name:
            folder = Path(name)
            objects, queries = write_join(folder, "uniform", count, options.queries)
            store = str(folder / "store")
            subprocess.run([sys.executable, "-c", BUILD, objects, store], check=True)
            size = sum(one["bytes"] for one in Store(store).manifest()["partitions"])
            own, mapped, rows = peak([sys.executable, "-c", JOIN, queries, store, options.heap])
        if rows != K * options.queries:
            raise SystemExit(f"the join has {rows} rows for {options.queries} queries: {K} for each are wanted")
        cells = [f"{count:,}", f"{size / 1e6:.0f}", options.heap, f"{own / 1e6:.0f}", f"{mapped / 1e6:.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
