"""A file of places joined from the shell: in process, in Spark on this machine, and by DuckDB that compares all pairs.

python -m bench.frames.joins [STORE] [--places 500 100000 1000000 10000000] [--k 8] [--rounds 5] [--spark-most 1000000]

Each figure is the wall time of a whole process, from the shell to the file. DuckDB has the objects as Parquet with unit
vectors made beforehand, and answers the smallest file only. The table says the median, the worst, the most memory that
the process had, and how many times as long Spark and DuckDB took.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ALL_PAIRS = 1_000
"""Places up to which DuckDB compares them with all objects."""
COMMAND = "from pipelines.command.main import main; main()"
BRUTE = """
import sys, duckdb
objects, places, out, k = sys.argv[1:]
flat = "cos(radians(lat))"
unit = f"cos(radians(lon)) * {flat} as qx, sin(radians(lon)) * {flat} as qy, sin(radians(lat)) as qz"
duckdb.sql("set enable_progress_bar = false")
duckdb.sql(f'''
copy (
    with q as (select id as query_id, {unit} from '{places}'),
    best as (
        select query_id, max_by({{'id': o.id, 'dot': x * qx + y * qy + z * qz}}, x * qx + y * qy + z * qz, {k}) as found
        from q, '{objects}' o group by query_id
    )
    select query_id, one.id, 2 * 6371008.8 * asin(sqrt(greatest(2 - 2 * one.dot, 0)) / 2) as distance
    from (select query_id, unnest(found) as one from best)
) to '{out}' (format parquet)
''')
"""


def run(arguments: Sequence[str]) -> tuple[float, float]:
    """Return the seconds and the most megabytes of a process."""
    begin = perf_counter()
    process = subprocess.Popen([sys.executable, "-c", *arguments], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{arguments[1]} ended with exit code {process.returncode}")
    return seconds, used.ru_maxrss / 1024


def write_inputs(store: str, folder: Path, counts: Sequence[int]) -> None:
    """Write the objects of a store for DuckDB, and places near them, in random order."""
    import dtoss
    from dtoss.geometry.space import space_of

    index = dtoss.open(store)
    hits = index.box([-180.0, -90.0, 180.0, 90.0], columns=["lon", "lat"])
    at = hits.positions
    vectors = space_of().vectors(at)
    columns = {"id": hits.id, "x": vectors[:, 0], "y": vectors[:, 1], "z": vectors[:, 2]}
    pq.write_table(pa.table(columns), folder / "objects.parquet")
    rng = np.random.default_rng(7)
    for count in counts:
        places = at[rng.integers(0, len(at), count)] + rng.normal(0.0, 0.01, (count, 2))
        places = np.clip(places, [-180.0, -90.0], [180.0, 90.0])
        table = pa.table({"id": np.arange(count), "lon": places[:, 0], "lat": places[:, 1]})
        pq.write_table(table, folder / f"{count}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", nargs="?", default="demo/store")
    parser.add_argument("--places", type=int, nargs="+", default=[500, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark-most", type=int, default=1_000_000, help="places of the largest join in Spark")
    options = parser.parse_args()
    print("| places | seconds | worst | places/s | MB | Spark | DuckDB |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as name:
        folder = Path(name)
        # in another process: a child begins with the memory of its parent, as far as anybody counts
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            other.submit(write_inputs, options.store, folder, options.places).result()
        out, k = str(folder / "out.parquet"), str(options.k)
        for count in options.places:
            places = str(folder / f"{count}.parquet")
            ours = [COMMAND, "knn", "--store", options.store, "--queries", places, "--out", out, "-k", k]
            ways = {"ours": ours}
            if count <= options.spark_most:
                ways["Spark"] = [*ours, "--master", "local[*]"]
            if count <= ALL_PAIRS:
                ways["DuckDB"] = [BRUTE, str(folder / "objects.parquet"), places, out, k]
            seen: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            for turn in range(options.rounds):
                for way, arguments in ways.items():
                    # what takes so much longer is known after two
                    if way == "ours" or turn < 2:
                        seen[way].append(run(arguments))
            seconds = {way: median(one for one, _ in times) for way, times in seen.items()}
            worst, most = (max(column) for column in zip(*seen["ours"], strict=True))
            others = [f"{seconds[way] / seconds['ours']:.1f}x" if way in seconds else "" for way in ("Spark", "DuckDB")]
            cells = [f"{count:,}", f"{seconds['ours']:.2f}", f"{worst:.2f}", f"{count / seconds['ours']:,.0f}"]
            print("| " + " | ".join([*cells, f"{most:.0f}", *others]) + " |", flush=True)


if __name__ == "__main__":
    main()
