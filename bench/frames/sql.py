"""A store in Spark SQL: rows a second of its data source, and its table functions beside the joins, in one run.

python -m bench.frames.sql [--objects 1000000] [--partitions 0 128] [--queries 1000000] [--rounds 15] [--times 1]

The data source is beside another Python data source of as many tasks, which only yields Arrow batches that are ready,
of the same columns: the ceiling. Spark's Parquet reader reads the same rows from as many files. All are read to the
end by a sink that drops them, with ``--times`` so many times in one job. In turns in one session of two cores; wall
time and processor time of all processes, median of the rounds and worst ratio. The first round is not counted, but
shown as "first".
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.measuring.joins import write_join
from bench.measuring.machine import processor_seconds
from pipelines.join import knn_join, range_join
from pipelines.rebuild import rebuild
from pipelines.spark.session import spark_session
from pipelines.sql.object_batches import ROWS
from pipelines.sql.register import register
from pipelines.sql.store_scan import OBJECTS_PER_TASK

K, RADIUS = 8, 20_000.0


class Ready(DataSource):
    """Yields Arrow batches that are ready: what Spark itself takes for rows from Python."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return str(self.options["columns"])

    def reader(self, schema: Any) -> DataSourceReader:
        return ReadyReader(schema, int(self.options["rows"]), int(self.options["tasks"]))


class ReadyReader(DataSourceReader):
    def __init__(self, schema: Any, rows: int, tasks: int) -> None:
        self.schema, self.rows, self.tasks = schema, rows, tasks

    def partitions(self) -> Sequence[InputPartition]:
        bounds = np.linspace(0, self.rows, self.tasks + 1).astype(int)
        return [InputPartition(int(count)) for count in np.diff(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self.schema, timezone="UTC")
        numbers = pa.array(np.arange(ROWS))
        batch = pa.record_batch([numbers.cast(kind.type, safe=False) for kind in schema], schema=schema)
        left = partition.value
        while left > 0:
            yield batch.slice(0, min(left, ROWS))
            left -= ROWS


def main() -> None:
    """Print a line for each way to read, and each way to ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="uniform")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[0, 128], help="of the store; 0 leaves it to us")
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--times", type=int, default=1, help="that each table is read in a job")
    options = parser.parse_args()
    session = spark_session("local[2]", driver_memory="4g")
    session.dataSource.register(Ready)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, queries = write_join(folder, options.world, options.objects, options.queries)
        for texts in (False, True):
            rows = with_attributes(files, folder / f"rows-{texts}", texts)
            for count in options.partitions:
                store = str(folder / f"store-{texts}-{count}")
                rebuild(session.read.parquet(rows), store, partitions=count or None)
                register(session, store, f"s{count}")
                print(f"\n{options.objects:,} objects, ids are {'texts' if texts else 'numbers'}, "
                      f"{count or 'our number of'} partitions")  # fmt: skip
                reading(session, store, rows, options.rounds, options.times)
                if not texts and options.times == 1:
                    asking(session, store, f"s{count}", queries, max(options.rounds // 3, 3))


def with_attributes(files: str, folder: Path, texts: bool) -> str:
    """Write the objects again with three attributes, and with ids that are texts; returns the folder."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, path in enumerate(sorted(Path(files).glob("*.parquet"))):
        table = pq.read_table(path)
        n = len(table)
        if texts:
            table = table.set_column(0, "id", pa.array([f"taxi-{one:09d}" for one in table["id"].to_pylist()]))
        seen = pa.array(rng.integers(1_700_000_000_000_000, 1_800_000_000_000_000, n), pa.timestamp("us", "UTC"))
        more = {"occupied": pa.array(rng.integers(0, 2, n), pa.int8()), "seen": seen, "uid": pa.array(np.arange(n))}
        for name, column in more.items():
            table = table.append_column(name, column)
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder)


def reading(session: Any, store: str, rows: str, rounds: int, times: int) -> None:
    """Print how fast a store's rows are read, beside the ceiling and Parquet."""
    frame = session.read.format("dtoss").load(store)
    count = frame.count()
    tasks = frame.rdd.getNumPartitions()
    columns = ", ".join(f"`{name}` {kind}" for name, kind in frame.dtypes)
    ready = session.read.format("ready").options(columns=columns, rows=count, tasks=tasks).load()
    chosen = session.read.format("dtoss").option("columns", "id,lon,lat").load(store)
    columns = ", ".join(f"`{name}` {kind}" for name, kind in chosen.dtypes)
    ready_chosen = session.read.format("ready").options(columns=columns, rows=count, tasks=tasks).load()
    parquet = session.read.parquet(rows)
    print(f"{tasks} tasks of about {OBJECTS_PER_TASK:,} objects")
    ways = {
        "ready batches": lambda: drop(ready, times),
        "dtoss": lambda: drop(frame, times),
        "Parquet": lambda: drop(parquet, times),
        "ready batches, 3 columns": lambda: drop(ready_chosen, times),
        "dtoss, 3 columns": lambda: drop(chosen, times),
        "Parquet, 3 columns": lambda: drop(parquet.select("id", "lon", "lat"), times),
    }
    spent = in_turns(ways, rounds)
    for more in ("", ", 3 columns"):
        for name in ("ready batches", "dtoss", "Parquet"):
            say(name + more, count * times, "rows", spent, "ready batches" + more)


def asking(session: Any, store: str, name: str, queries: str, rounds: int) -> None:
    """Print how fast table functions answer, beside joins."""
    places = session.read.parquet(queries)
    places.createOrReplaceTempView("places")
    count = places.count()
    ways = {
        "knn_join": lambda: drop(knn_join(places, store, K)),
        f"{name}_knn": lambda: drop(session.sql(f"SELECT * FROM {name}_knn(TABLE(places), k => {K})")),
        "range_join": lambda: drop(range_join(places, store, RADIUS)),
        f"{name}_range": lambda: drop(session.sql(f"SELECT * FROM {name}_range(TABLE(places), radius => {RADIUS})")),
    }
    spent = in_turns(ways, rounds)
    for one, beside in (("knn_join",) * 2, (f"{name}_knn", "knn_join"), ("range_join",) * 2,
                        (f"{name}_range", "range_join")):  # fmt: skip
        say(one, count, "queries", spent, beside)


def drop(frame: Any, times: int = 1) -> None:
    """Read a frame to the end, so many times in one job."""
    reduce(lambda one, other: one.union(other), [frame] * times).write.format("noop").mode("overwrite").save()


def in_turns(ways: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return wall and processor seconds of each way in each round, in another order each; the first is a warm-up."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            before, began = processor_seconds(), time.perf_counter()
            ways[name]()
            spent[name].append((time.perf_counter() - began, processor_seconds() - before))
    return spent


def say(name: str, count: int, what: str, spent: Mapping[str, Sequence[tuple[float, float]]], beside: str) -> None:
    """Print the rate of one way, and its ratio to another's by wall and by processor time: median and worst."""
    first, *counted = spent[name]
    other = spent[beside][1:]
    wall = [theirs[0] / ours[0] for ours, theirs in zip(counted, other, strict=True)]
    processor = [theirs[1] / max(ours[1], 1e-9) for ours, theirs in zip(counted, other, strict=True)]
    rate = count / median(seconds for seconds, _ in counted)
    print(
        f"{name:26} {rate:12,.0f} {what}/s; of {beside}: {median(wall):.2f}, worst {min(wall):.2f}; by processor time "
        f"{median(processor):.2f}, worst {min(processor):.2f}; first {first[0]:.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
