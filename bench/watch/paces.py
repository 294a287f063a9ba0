"""The pace of a watch: how long batches of a stream take at half of what it can do, and while subscriptions change.

`python -m bench.watch.paces` reads a stream of made rows in Spark. A batch is given twice the time that it takes.
Blocks of batches of a query with the identity in Python and of a watch take turns, then some with subscriptions that
another process replaces each second. Goals are W6's (half of the batches within 1.5 times, 99 of 100 within 3 times
those of the identity) and W8's (half within 1.3 times those without churn, memory flat, no event outside of a
subscription's life).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import Process, get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from bench.measuring.machine import resident
from bench.watch.fleets import BEGIN, SPREAD, STEP, TOWN, circles, radius_of
from datasets.tables.command import run, say
from dtoss.buckets import BUCKETS
from dtoss.watch.events.event_log import events
from dtoss.watch.subscription import ENTER, LEAVE
from dtoss.watch.subscriptions.changes import subscribe
from dtoss.watch.watch_folder import Home
from pipelines.spark.session import spark_session
from pipelines.watch import watch

PROGRESS = {"spark.sql.streaming.numRecentProgressUpdates": "5000", "spark.sql.shuffle.partitions": "2"}


def stream_of(session: Any, rows: int, objects: int) -> Any:
    """Return a stream of so many rows a batch: objects in turn, each some steps from where it was."""
    from pyspark.sql import functions as F

    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2)
    source = source.option("startTimestamp", BEGIN * 1000).option("advanceMillisPerBatch", 10_000).load()
    id_, around = F.pmod(F.col("value"), F.lit(objects)), F.floor(F.col("value") / objects)
    first, second = ((F.pmod(F.xxhash64(id_, F.lit(k)), F.lit(1 << 20)) + 0.5) / (1 << 20) for k in (1, 2))
    far = F.sqrt(-2.0 * F.log(first)) * SPREAD
    turn, way = second * 2.0 * np.pi, F.cos(id_.cast("double"))
    return source.select(
        id_.alias("id"),
        (far * F.cos(turn) + TOWN[0] + around * STEP * way).alias("lon"),
        (far * F.sin(turn) + TOWN[1]).alias("lat"),
        F.unix_seconds("timestamp").alias("t"),
    )


def identity(frame: Any, _number: int) -> None:
    """Count the rows of a batch in Python, after the same shuffle."""
    from pyspark.sql import functions as F

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])

    bucket = F.pmod(F.pmod(F.xxhash64("id"), F.lit(BUCKETS)), F.lit(2)).cast("int")
    frame.repartitionById(2, bucket).mapInArrow(count, "rows bigint").toArrow()


def taken(query: Any, batches: int) -> list[float]:
    """Return the seconds of batches of a query once it has made so many, the first two left out, and end it."""
    try:
        found: list[float] = []
        while len(found) < batches + 2:
            time.sleep(0.2)
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
            progress = [one for one in query.recentProgress if one["numInputRows"] > 0]
            found = [one["durationMs"]["triggerExecution"] / 1e3 for one in progress]
    finally:
        query.stop()
    return found[2 : batches + 2]


def churning(store: str, subscriptions: int, count: int, radius: float, seed: int) -> None:
    """Replace so many subscriptions each second, until ended."""
    rng = np.random.default_rng(seed)
    home = Home(store)
    while True:
        begun = time.monotonic()
        first = int(rng.integers(subscriptions - count))
        subscribe(home, circles(rng, range(first, first + count), ENTER | LEAVE, radius))
        time.sleep(max(0.0, 1.0 - (time.monotonic() - begun)))


def outside_of_life(home: Home, subscriptions: int, since: int) -> tuple[int, int]:
    """Return how many events of later commits there are, and how many of a version that did not stand."""
    from dtoss.watch.subscriptions.current import changes_between

    versions = np.ones(subscriptions, np.int64)
    known, last = 1, 0
    checked = wrong = 0
    for table in events(home):
        for number in np.unique(table.column("batch").to_numpy()).tolist():
            if number != last:
                changes = home.batches.read(number).document["changes"]
                for change in range(known + 1, changes + 1):
                    ids = changes_between(home, change - 1, change).table.column("id").to_pylist()
                    versions[[int(one[1:]) for one in ids]] = change
                known, last = max(known, changes), number
            some = table.filter(pa.array(table.column("batch").to_numpy() == number))
            some = some.filter(pa.array(np.asarray(some.column("kind").cast(pa.string())) != "reset"))
            if number <= since or len(some) == 0:
                continue
            coded = some.column("subscription").cast(pa.string()).combine_chunks().dictionary_encode()
            numbers = np.array([int(one[1:]) for one in coded.dictionary.to_pylist()])[coded.indices.to_numpy()]
            checked += len(some)
            wrong += int((versions[numbers] != some.column("version").to_numpy()).sum())
    return checked, wrong


def main(
    rows: Annotated[int, typer.Option(help="Of a batch.")] = 100_000,
    objects: Annotated[int, typer.Option(help="In the fleet.")] = 1_000_000,
    subscriptions: Annotated[int, typer.Option(help="Circles.")] = 1_000_000,
    matches: Annotated[float, typer.Option(help="Of a row, about.")] = 9.0,
    blocks: Annotated[int, typer.Option(help="Of each query.")] = 3,
    batches: Annotated[int, typer.Option(help="Of a block.")] = 20,
    churn: Annotated[float, typer.Option(help="Share of the subscriptions replaced each second.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Of circles.")] = 0,
) -> int:
    """Measure how long batches take."""
    session = spark_session("local[2]", driver_memory="2g", name="bench", settings=PROGRESS)
    rng = np.random.default_rng(seed)
    radius = radius_of(matches, subscriptions)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        home = Home(store)
        subscribe(home, circles(rng, range(subscriptions), ENTER | LEAVE, radius))
        frame = stream_of(session, rows, objects)

        def bare(every: float, count: int) -> list[float]:
            with tempfile.TemporaryDirectory() as checkpoint:
                writer = frame.writeStream.foreachBatch(identity).option("checkpointLocation", checkpoint)
                return taken(writer.trigger(processingTime=f"{round(every * 1000)} milliseconds").start(), count)

        def full(every: float, count: int) -> list[float]:
            return taken(watch(frame, store, every=every, max_ahead=None), count)

        every = max(2.0 * float(np.median(full(0.001, 6))), 0.5)
        say(f"{rows:,} rows a batch every {every:.1f} s, twice what a batch takes: {rows / every:,.0f} rows a second")
        told: dict[str, list[float]] = {"identity": [], "watch": [], "churn": []}
        for _ in range(blocks):
            told["identity"] += bare(every, batches)
            told["watch"] += full(every, batches)
        _say(told, "identity", "watch", "W6: 1.5 and 3")
        before = home.batches.head().number
        own = []
        for block in range(blocks):
            context = get_context("spawn")
            count = round(churn * subscriptions)
            process: Process = context.Process(  # type: ignore[assignment]
                target=churning, args=(store, subscriptions, count, radius, seed + 1 + block)
            )
            process.start()
            try:
                told["churn"] += full(every, batches)
            finally:
                process.terminate()
                process.join()
            own.append(resident(os.getpid())[0] >> 20)
            if block < blocks - 1:
                told["watch"] += full(every, batches)
        _say(told, "watch", "churn", "W8: 1.3")
        head = home.batches.head()
        say(f"{head.document['changes']:,} changes adopted; own memory of all processes {own} MB after each block")
        checked, wrong = outside_of_life(home, subscriptions, before)
        say(f"{checked:,} events under churn, {wrong:,} of subscriptions that did not stand (W8: 0)")
    return 0


def _say(told: dict[str, list[float]], one: str, other: str, goal: str) -> None:
    (a, b), (c, d) = (np.percentile(told[kind], (50, 99)) for kind in (one, other))
    say(f"{one}: half within {a:.2f} s, 99 of 100 within {b:.2f} s ({len(told[one])} batches); {other}: {c:.2f} s and "
        f"{d:.2f} s ({len(told[other])} batches), {c / a:.2f} and {d / b:.2f} times ({goal})")  # fmt: skip


if __name__ == "__main__":
    run(main)
