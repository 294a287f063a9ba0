"""Groups that move between two batches, beside Spark's own state split anew: goal E6.

`python -m bench.windows.moving [--workers 4] [--share 0.25] [--turns 3]`: Cabspotting's ninth day (470,309 rows, 526
taxis) in 24 batches, 128 partitions, four lengths, all measures, one session of two cores. In every fourth batch a
quarter of the groups has another worker than before; the others stay. Told are seconds of batches that move and of
those that do not, and bytes of state mapped anew. The results of both runs are compared, byte for byte, with those of
a run in which nothing moves. Rows and different objects only run once more.

Beside it Spark's count of one length by partition, a stream of the same files: stop, split its state anew offline
(`StreamingCheckpointManager.repartition`, from so many partitions to one more), start, up to the first batch after it.
Ends with code 1 where a goal is missed, or where a result differs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.measuring.verdicts import Goals
from bench.windows.against_spark import COUNTS, SCHEMA, SETTINGS, Day, day_of
from bench.windows.sliding import ALL, FOUR
from datasets.tables.command import run, say
from dtoss.buckets import BUCKETS
from dtoss.commits.offsets import Source
from dtoss.rows.input_columns import Columns
from dtoss.windows.processing.window_commit import commit_batch
from dtoss.windows.storage.group_placement import Placement, even, placement_of
from dtoss.windows.storage.window_document import Document
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, plan_batch
from pipelines.rows.position_frame import from_frame
from pipelines.spark.session import spark_session
from pipelines.watching.typed_rows import first_settings, fit_rows
from pipelines.windowing.begin_windows import fixed_for, spec_wanted
from pipelines.windowing.window_batches import run_tasks

WARM, OFTEN = 4, 4
"""Batches that do not count, and every which one moves."""
WANTED = {"lengths": FOUR, "slide": "1min", "by": "partition", "late": "10min"}
MOST_OF_MEDIAN, LEAST_OF_SPARK = 1.3, 10.0


@dataclass(frozen=True)
class Batch:
    """One that has committed.

    Parameters
    ----------
    seconds
        From its rows to its commit.
    moved
        What the commit says of groups that moved.
    results
        The names of its files of results, which are hashes of their bytes.
    """

    seconds: float
    moved: dict[str, int]
    results: list[str]


def shifted(placement: Placement, share: float, rng: np.random.Generator) -> Placement:
    """Return a placement in which a share of the groups is on the next worker."""
    worker_of = np.array(placement.worker_of)
    some = rng.choice(BUCKETS, round(share * BUCKETS), replace=False)
    worker_of[some] = (worker_of[some] + 1) % placement.workers
    return Placement(tuple(worker_of.tolist()), placement.workers, f"{share:.0%} moved")


def played(session: Any, day: Day, name: str, workers: int, share: float, measures: str = ALL) -> list[Batch]:
    """Run the day's files one by one; in every fourth batch a share of the groups moves."""
    home = Home(str(Path(day.store).absolute()), name)
    home.folder.make()
    fixed = fixed_for(home, *spec_wanted(home, WANTED | {"measures": measures}, None))
    rng = np.random.default_rng(0)
    found: list[Batch] = []
    columns = Columns(id="id", time="t", attributes="none")

    def place(head: Document | None) -> Placement:
        stood = None if head is None else placement_of(head.commit.document)
        moves = share > 0 and len(found) >= WARM and len(found) % OFTEN == 0
        stood = stood or even(workers)
        return shifted(stood, share, rng) if moves else stood

    for path in sorted(Path(day.files).iterdir()):
        began = time.perf_counter()
        positions = from_frame(session.read.schema(SCHEMA).parquet(str(path)), columns)
        settings = first_settings(positions, fixed.spec.space, None, False, True)
        types = str(settings.id_type), str(settings.time)
        plan = plan_batch(home, fixed, types, Source(), Options(), time.time_ns() // 1000, place)
        assert plan is not None
        commit = commit_batch(plan, run_tasks(fit_rows(positions, settings, False, None).with_raw(), plan, settings))
        spent, said = time.perf_counter() - began, commit.document
        found.append(Batch(spent, said["placement"]["moved"], [one["name"] for one in said["results"]]))
    return found


def split_anew(session: Any, day: Day, folder: Path, partitions: int) -> tuple[float, float, float, float]:
    """Return the seconds of stop, of repartition, of start up to the end of the first batch, and of a median batch."""
    from pyspark.sql import functions as F

    def started(files: int) -> Any:
        stream = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        window = F.window("t", "60 minutes", "1 minutes")
        frame = stream.withWatermark("t", "10 minutes").groupBy(window, "region").agg(F.count("*").alias("n"))
        writer = frame.writeStream.outputMode("update").format("noop")
        query = writer.option("checkpointLocation", str(folder / "state")).start()
        while query.lastProgress is None or len(done(query)) < files:
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.01)
        return query

    def done(query: Any) -> list[float]:
        told = [progress for progress in query.recentProgress if progress["numInputRows"]]
        return [progress["durationMs"]["triggerExecution"] / 1000 for progress in told]

    (folder / "in").mkdir(parents=True)
    files = sorted(Path(day.files).iterdir())
    for path in files[:-1]:
        shutil.copyfile(path, folder / "in" / path.name)
    query = started(len(files) - 1)
    median = statistics.median(done(query)[WARM:])
    clock = [time.perf_counter()]
    query.stop()
    clock.append(time.perf_counter())
    session._streamingCheckpointManager.repartition(str(folder / "state"), partitions)
    clock.append(time.perf_counter())
    shutil.copyfile(files[-1], folder / "in" / files[-1].name)
    query = started(1)
    clock.append(time.perf_counter())
    query.stop()
    stop, split, start = np.diff(clock).tolist()
    return stop, split, start, median


def differing(one: Sequence[Batch], other: Sequence[Batch]) -> int:
    """Return how many batches have other results."""
    return sum(a.results != b.results for a, b in zip(one, other, strict=True))


def main(
    workers: Annotated[int, typer.Option(help="Tasks of a batch.", min=2)] = 4,
    share: Annotated[float, typer.Option(help="Of the groups, that moves.", min=0.0, max=1.0)] = 0.25,
    turns: Annotated[int, typer.Option(help="Runs of the day.", min=1)] = 3,
) -> None:
    """Print both figures beside their goals."""
    goals = Goals()
    with tempfile.TemporaryDirectory() as scratch:
        day = day_of(Path(scratch))
        more = {"spark.sql.shuffle.partitions": str(workers), "spark.sql.streaming.stateStore.providerClass": ROCKS}
        session = spark_session("local[2]", driver_memory="3g", name="bench", settings=SETTINGS | more)
        stays, moves = [], []
        still = played(session, day, "still", workers, 0.0)
        wrong, bytes_moved, groups = 0, [], []
        for turn in range(turns):
            found = played(session, day, f"moving{turn}", workers, share)
            wrong += differing(still, found)
            stays += [one.seconds for one in found[WARM:] if not one.moved["groups"]]
            moves += [one.seconds for one in found if one.moved["groups"]]
            bytes_moved += [one.moved["bytes"] for one in found if one.moved["groups"]]
            groups += [one.moved["groups"] for one in found if one.moved["groups"]]
            say(f"turn {turn + 1}: load {os.getloadavg()[0]:.0f}")
        median, moving = statistics.median(stays), statistics.median(moves)
        ratio = moving / median
        print(
            f"{statistics.mean(groups):.0f} of {BUCKETS} groups move in {len(moves)} of {len(moves) + len(stays)} "
            f"batches; {statistics.mean(bytes_moved):,.0f} bytes of state are mapped anew each time"
        )
        aim = goals.ask("a batch that moves groups, of the median", ratio, most=MOST_OF_MEDIAN)
        print(f"a batch that moves: {moving:.2f} s, median of others {median:.2f} s: {ratio:.2f} times {aim}")
        print(f"results: {wrong} batches differ from a run that moves none {goals.ask('results', wrong, most=0)}")
        stop, split, start, batch = split_anew(session, day, Path(scratch) / "spark", workers + 1)
        few = played(session, day, "counts", workers, share, COUNTS)
        fewer = statistics.median(one.seconds for one in few if one.moved["groups"])
        theirs = stop + split + start
        aim = goals.ask(
            "Spark's stop, repartition and start, of a batch that moves", theirs / fewer, least=LEAST_OF_SPARK
        )
        print(
            f"Spark, one count: stop {stop:.2f} s, repartition {split:.2f} s, start and a batch {start:.2f} s, and "
            f"{batch:.2f} s is its median batch: {theirs / fewer:.1f} times a batch of ours that moves, of rows and "
            f"objects, {fewer:.2f} s {aim}; {theirs / moving:.1f} times one of all measures"
        )
        pause, longer = theirs - batch, max(moving - median, 0.0)
        print(f"beyond a median batch: Spark's {pause:.2f} s, ours {longer:.2f} s; load {os.getloadavg()[0]:.0f}")
        session.stop()
    goals.end()


ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

if __name__ == "__main__":
    run(main)
