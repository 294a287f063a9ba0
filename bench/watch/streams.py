"""Standing questions in Spark: rows a second of a watch, beside the same pipeline with the identity in Python.

`python -m bench.watch.streams` prints, for subscriptions that want one kind of events and another, processor and wall
seconds of a batch of both pipelines, which take turns: the same files, checks of rows and shuffle, and in Python tasks
that count their rows. Then Spark's own way of keeping state, which calls Python once for each key, on fewer rows. Goals
are W5's: at least half of the identity's rows a second, matching and state at most twice the processor time of the
pipeline around them, 20 times the rows of applyInPandasWithState.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.machine import processor_kinds
from bench.watch.fleets import circles, moved, places, radius_of, written
from datasets.tables.command import run, say
from dtoss.buckets import BUCKETS
from dtoss.geometry.space import LONLAT, space_of
from dtoss.rows.input_columns import Columns
from dtoss.watch.subscription import ENTER, INSIDE, LEAVE
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from pipelines.rows.position_frame import from_frame
from pipelines.spark.session import spark_session
from pipelines.watch import watch_files
from pipelines.watching.typed_rows import first_settings, fit_rows

WANTED = {"enter, leave": ENTER | LEAVE, "inside": INSIDE, "all three": INSIDE | ENTER | LEAVE}
Spent = dict[str, float]


def identity(session: Any, file: Path, tasks: int) -> int:
    """Return how many rows the same pipeline counts: read, checked, shuffled by bucket, given to Python."""
    from pyspark.sql import functions as F

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])

    positions = from_frame(session.read.parquet(str(file)), Columns())
    frame = fit_rows(positions, first_settings(positions, space_of(LONLAT), None, False, True), False, None).spark_frame
    bucket = F.pmod(F.xxhash64("id"), F.lit(BUCKETS))
    told = frame.repartitionById(tasks, F.pmod(bucket, F.lit(tasks)).cast("int")).mapInArrow(count, "rows bigint")
    return int(sum(told.toArrow().column("rows").to_pylist()))


def counted_in_pandas(session: Any, folder: Path) -> int:
    """Return how many keys a stream with Spark's own state has counted: a call of Python for each."""
    import pandas as pd
    from pyspark.sql.streaming.state import GroupStateTimeout

    def count(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        before = state.get[0] if state.exists else 0
        state.update((before + sum(len(frame) for frame in frames),))
        yield pd.DataFrame({"id": [key[0]]})

    stream = session.readStream.schema("id bigint, lon double, lat double, t bigint").parquet(str(folder))
    told = stream.groupBy("id").applyInPandasWithState(
        count, "id bigint", "rows bigint", "append", GroupStateTimeout.NoTimeout
    )
    found: list[int] = []
    with tempfile.TemporaryDirectory() as checkpoint:
        query = told.writeStream.foreachBatch(lambda frame, _number: found.append(frame.count()))
        query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    return sum(found)


def spent(work: Callable[[], Any]) -> tuple[Spent, Any]:
    """Return processor seconds by kind of process, their sum and wall seconds of some work, and what it returns."""
    before, wall = processor_kinds(), perf_counter()
    found = work()
    after = processor_kinds()
    kinds = {kind: after[kind] - before[kind] for kind in after}
    return kinds | {"all": sum(kinds.values()), "wall": perf_counter() - wall}, found


def typical(runs: list[Spent]) -> Spent:
    """Return the median of each figure, the first two runs left out."""
    return {name: median(run[name] for run in runs[2:]) for name in runs[0]}


def main(
    rows: Annotated[int, typer.Option(help="Of a batch.")] = 1_000_000,
    objects: Annotated[int, typer.Option(help="In the fleet.")] = 1_000_000,
    subscriptions: Annotated[int, typer.Option(help="Circles.")] = 100_000,
    matches: Annotated[float, typer.Option(help="Of a row, about.")] = 9.0,
    batches: Annotated[int, typer.Option(help="Of each pipeline, the first two not counted.")] = 6,
    keys: Annotated[int, typer.Option(help="Rows of applyInPandasWithState, each of another object; 0 for none.")] = (
        10_000
    ),
    wanted: Annotated[str, typer.Option(help="One of the kinds of events; all if not given.")] = "",
    seed: Annotated[int, typer.Option(help="Of rows and circles.")] = 0,
) -> int:
    """Measure a watch beside the identity."""
    # the state of Spark's own has a part for each partition
    few = {"spark.sql.shuffle.partitions": "2"}
    session = spark_session("local[2]", driver_memory="2g", name="bench", settings=few)
    rng = np.random.default_rng(seed)
    radius = radius_of(matches, subscriptions)
    rate = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, events in WANTED.items():
            if wanted and name != wanted:
                continue
            store, incoming = Path(folder) / name / "store", Path(folder) / name / "in"
            incoming.mkdir(parents=True)
            home = Home(str(store))
            subscribe(home, circles(rng, range(subscriptions), events, radius))
            at = places(rng, objects)
            told: dict[str, list[Spent]] = {"identity": [], "watch": []}
            made = []
            for number in range(batches):
                file = written(incoming, f"part{number:05}", moved(rng, at, rows, number))
                told["identity"].append(spent(lambda file=file: identity(session, file, 2))[0])
                seconds, done = spent(
                    lambda incoming=incoming, store=store: watch_files(
                        str(incoming), str(store), lambda: session, once=True, max_ahead=None
                    )
                )
                told["watch"].append(seconds)
                made.append(done.events)
            bare, full = (typical(told[kind]) for kind in ("identity", "watch"))
            rate = rows / full["all"]
            own = full["all"] - bare["all"]
            state = sum(run["bytes"] for run in home.batches.head().document["state"]) / objects
            say(f"{name}: {rows:,} rows, {made[-1]:,} events; identity {bare['all']:.2f} s of processors, "
                f"{bare['wall']:.2f} s; watch {full['all']:.2f} s (Java {full['java']:.2f}, workers "
                f"{full['workers']:.2f}, driver {full['driver']:.2f}), {full['wall']:.2f} s")  # fmt: skip
            say(f"  rows of a processor second: {bare['all'] / full['all']:.2f} of the identity's, by the wall "
                f"{bare['wall'] / full['wall']:.2f} (W5: 0.5); matching and state {own / bare['all']:.2f} times the "
                f"pipeline's processor time (W5: 2); state {state:.0f} bytes an object (W9: 120)")  # fmt: skip
            print(json.dumps({"events": name, "rows": rows, "made": made[-1], "identity": bare, "watch": full}))
        if keys:
            arriving = Path(folder) / "keys"
            arriving.mkdir()
            written(arriving, "part0", moved(rng, places(rng, keys), keys, 0))
            counted_in_pandas(session, arriving)
            seconds, _ = spent(lambda: counted_in_pandas(session, arriving))
            own_rate = keys / seconds["all"]
            say(f"applyInPandasWithState: {own_rate:,.0f} keys a second of a processor, the watch {rate:,.0f} rows: "
                f"{rate / own_rate:.0f} times (W5: 20)")  # fmt: skip
            print(json.dumps({"keys": keys, "seconds": seconds, "times": rate / own_rate}))
    return 0


if __name__ == "__main__":
    run(main)
