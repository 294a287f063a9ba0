"""Windows of a day of taxis beside Spark's own, in one session: a batch, and 24 micro-batches of a stream.

`python -m bench.windows.against_spark [--turns 1] [--only batch --only stream]`: Cabspotting's ninth day (470,309 rows,
526 taxis), 128 partitions, two cores. Told are processor seconds of all processes: this one, Java, and the Python that
Java starts. Ours reads lon and lat, finds the partition, keeps moves, visits and results of each minute over four
lengths, and commits files. Spark is given the partition as a column, counts the rows of one length, and its batches
keep nothing. Each stream runs in turns, after a warm-up on its first files. Goals are E4's; ends with code 1 where one
is missed, or where a count differs from Spark's.

transformWithStateInPandas needs protobuf, which is no dependency of ours: ``pip install --target DIR protobuf`` and
PYTHONPATH=DIR. It is left out where that is missing.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from pyspark.errors import StreamingQueryException

import dtoss
from bench.measuring.machine import seconds_by_process
from bench.measuring.verdicts import Goals
from bench.windows.ring import HourOfCounts
from bench.windows.sliding import ALL, DAY_US, FILE, FOUR, PARTITIONS
from datasets.tables.command import run, say
from dtoss.snapshots.manifest import regions_of_manifest
from dtoss.snapshots.store import Store
from pipelines.spark.session import spark_session
from pipelines.windows import run_windows, windows
from tests.dtoss.snapshots.damaged_stores import stored

NINTH = 1_211_673_600_000_000
"""2008-05-25 00:00 UTC, the ninth day of Cabspotting: 470,309 rows."""
FILES = 24
COUNTS = "rows,objects"
SCHEMA = "id bigint, t timestamp, lon double, lat double, region int"
SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.noDataMicroBatches.enabled": "false"}
"""Spark's default of 200 partitions would cost it much more. A batch without rows would be one more for Spark only."""
WARM = 3
"""Files of a warm-up."""
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only one that transformWithStateInPandas takes; Spark's default, which holds less, for the others."""
RIVAL = "transformWithStateInPandas, a count"
"""What may not run here: its workers want more than ours have."""
LOOK_SECONDS = 0.3
"""How often processor time is read: what a process uses after that, before it ends, is not seen."""


@dataclass(frozen=True)
class Day:
    """Where the day lies: as one file, and as 24 in order of time; and a store with partitions."""

    file: str
    files: str
    store: str
    warm: str


def day_of(folder: Path, hours: int = FILES) -> Day:
    """Write the rows of the day with the partition of each."""
    first = dt.datetime.fromtimestamp(NINTH / 1e6, dt.UTC)
    wanted = (pc.field("t") >= first) & (pc.field("t") < first + dt.timedelta(microseconds=DAY_US))
    table = pq.read_table(FILE, columns=["uid", "t", "lon", "lat"], filters=wanted).sort_by("t")
    positions = np.stack([table["lon"].to_numpy(), table["lat"].to_numpy()], axis=1)
    few = np.sort(np.random.default_rng(0).choice(len(table), 100_000, replace=False))
    stored(dtoss.build(few, positions[few], partitions=PARTITIONS), folder / "store")
    manifest = Store(str(folder / "store")).manifest()
    index = dtoss.open(str(folder / "store"))
    region = regions_of_manifest(manifest).nearest(index.space.vectors(positions)).astype(np.int32)
    table = pa.table(
        {
            "id": table["uid"].cast(pa.int64()),
            "t": table["t"],
            "lon": table["lon"],
            "lat": table["lat"],
            "region": region,
        }
    )
    for name in ("one", "many", "warm"):
        (folder / name).mkdir()
    pq.write_table(table, folder / "one" / "day.parquet")
    cuts = np.linspace(0, len(table), hours + 1).astype(int).tolist()
    for number, (a, b) in enumerate(itertools.pairwise(cuts)):
        for name in ("many", "warm") if number < WARM else ("many",):
            path = folder / name / f"{number:02d}.parquet"
            pq.write_table(table.slice(a, b - a), path)
            os.utime(path, (number + 1, number + 1))  # the order in which a stream takes them
    return Day(str(folder / "one"), str(folder / "many"), str(folder / "store"), str(folder / "warm"))


class Meter:
    """Processor seconds of this process and of all that it has started, those that have ended included."""

    def __init__(self) -> None:
        self._most: dict[int, float] = {}
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.seconds()
            time.sleep(LOOK_SECONDS)

    def seconds(self) -> float:
        """Up to now."""
        for process, seconds in seconds_by_process(os.getpid()).items():
            self._most[process] = max(seconds, self._most.get(process, 0.0))
        return sum(self._most.values())


class Works:
    """Each contender, by name, as a function of a folder of rows; each call has a name and a checkpoint of its own."""

    def __init__(self, session: Any, day: Day, scratch: Path) -> None:
        self.session, self.day, self.scratch, self.calls = session, day, scratch, 0
        self.answers: dict[str, pa.Table] = {}
        self.meter = Meter()

    def new(self) -> str:
        """Return a name that nothing has."""
        self.calls += 1
        return f"call{self.calls}"

    def wanted(self, measures: str, lengths: str) -> dict[str, Any]:
        """Return what ours is asked for."""
        return {"lengths": lengths, "slide": "1min", "measures": measures, "by": "partition", "late": "10min"}

    def stream(self, folder: str) -> Any:
        """Return the files as a stream, one a batch."""
        return self.session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(folder)

    def ours_stream(self, folder: str, measures: str = COUNTS, lengths: str = FOUR) -> None:
        """Count windows of a stream."""
        name = self.new()
        wanted = self.wanted(measures, lengths)
        query = windows(self.stream(folder), self.day.store, name, wanted, every=None, warn=lambda _: None)
        query.awaitTermination()
        if folder == self.day.files and "stream" not in self.answers:
            self.answers["stream"] = results_of(self.day.store, name)

    def ours_batch(self, folder: str, measures: str = COUNTS, lengths: str = FOUR) -> None:
        """Count windows of files."""
        name = self.new()
        run_windows(
            folder, self.day.store, name, lambda: self.session, self.wanted(measures, lengths), once=True,
            warn=lambda _: None,
        )  # fmt: skip
        if folder == self.day.file and "batch" not in self.answers:
            self.answers["batch"] = results_of(self.day.store, name)

    def ended(self, writer: Any) -> None:
        """Run a stream to its end."""
        writer = writer.option("checkpointLocation", str(self.scratch / self.new()))
        writer.trigger(availableNow=True).start().awaitTermination()

    def empty(self, folder: str) -> None:
        """A stream whose function does nothing."""
        self.ended(self.stream(folder).writeStream.foreachBatch(lambda frame, number: None))

    def counts(self, frame: Any, length: int, slide: int = 1) -> Any:
        """Return Spark's count of windows, lengths in minutes."""
        from pyspark.sql import functions as F

        window = F.window("t", f"{length} minutes", f"{slide} minutes").alias("w")
        return frame.groupBy(window, "region").agg(F.count("*").alias("n"))

    def spark_stream(self, folder: str, length: int = 60) -> None:
        """Spark's windows of a stream, changed ones only, thrown away."""
        frame = self.counts(self.stream(folder).withWatermark("t", "10 minutes"), length)
        self.ended(frame.writeStream.outputMode("update").format("noop"))

    def spark_stream_kept(self, folder: str) -> None:
        """The same written as Parquet, as ours is."""
        out = self.scratch / self.new()
        frame = self.counts(self.stream(folder).withWatermark("t", "10 minutes"), 60)

        def write(batch: Any, number: int) -> None:
            batch.write.parquet(f"{out}/batch={number}")

        self.ended(frame.writeStream.outputMode("update").foreachBatch(write))
        if folder == self.day.files:
            found = flat(pq.read_table(out))
            self.answers["spark stream"] = found.group_by(["end", "key"]).aggregate([("n", "max")])

    def with_state(self, folder: str) -> None:
        """One count of an hour by minute and region in transformWithStateInPandas."""
        frame = self.stream(folder).select("region", "t").withWatermark("t", "10 minutes").groupBy("region")
        found = frame.transformWithStateInPandas(
            HourOfCounts(), "region int, end bigint, n bigint", "Update", "EventTime"
        )
        self.session.conf.set(STATE_STORE, ROCKS)
        try:
            self.ended(found.writeStream.outputMode("update").format("noop"))
        finally:
            self.session.conf.unset(STATE_STORE)

    def spark_batch(self, folder: str, length: int = 60, slide: int = 1) -> None:
        """Spark's windows of files."""
        found = self.counts(self.session.read.schema(SCHEMA).parquet(folder), length, slide)
        if length == 60 and slide == 1 and folder == self.day.file and "spark batch" not in self.answers:
            self.answers["spark batch"] = flat(found.toArrow()).rename_columns(["end", "key", "n_max"])
        else:
            found.write.format("noop").mode("overwrite").save()

    def spark_distinct(self, folder: str) -> None:
        """The same with exact different objects."""
        from pyspark.sql import functions as F

        frame = self.session.read.schema(SCHEMA).parquet(folder)
        window = F.window("t", "60 minutes", "1 minutes").alias("w")
        found = frame.groupBy(window, "region").agg(F.count("*").alias("n"), F.countDistinct("id").alias("objects"))
        if folder == self.day.file and "spark distinct" not in self.answers:
            table = found.toArrow()
            told = flat(table.select(["w", "region", "n"])).append_column("objects", table["objects"])
            self.answers["spark distinct"] = told.rename_columns(["end", "key", "n_max", "objects"])
        else:
            found.write.format("noop").mode("overwrite").save()


def flat(table: pa.Table) -> pa.Table:
    """Return Spark's windows with the end of each in microseconds."""
    end = pc.struct_field(table["w"].combine_chunks(), "end").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return pa.table({"end": end, "key": table["region"].cast(pa.int64()), "n": table["n"]})


def results_of(store: str, name: str) -> pa.Table:
    """Return the last word on each end and key of an hour's windows, and the watermark as a column's metadata."""
    found = dtoss.open_windows(store, name)
    parts = [pq.read_table(path) for path in sorted((Path(store) / "windows" / name / "results").glob("*.parquet"))]
    hour = [column for column in ("rows_1h", "objects_1h") if column in parts[0].column_names]
    table = pa.concat_tables([part.select(["end", "key", "revision", *hour]) for part in parts])
    end, key, revision = (table[column].to_numpy() for column in ("end", "key", "revision"))
    order = np.lexsort((revision, key, end))
    last = np.append((np.diff(end[order]) != 0) | (np.diff(key[order]) != 0), True)
    return table.take(order[last]).replace_schema_metadata({"due": str(found.watermark)})


def differing(ours: pa.Table, theirs: pa.Table, column: str = "rows_1h", other: str = "n_max") -> int:
    """Return how many ends and keys differ, of those that are due to ours and of which either says more than 0."""
    due = int(ours.schema.metadata[b"due"])

    def told(table: pa.Table, name: str) -> dict[tuple[int, int], int]:
        rows = zip(table["end"].to_pylist(), table["key"].to_pylist(), table[name].to_pylist(), strict=True)
        return {(end, key): count for end, key, count in rows if end <= due and count}

    mine, its = told(ours, column), told(theirs, other)
    say(f"compared: {len(its):,} windows that are due")
    return sum(mine.get(which) != its.get(which) for which in mine.keys() | its.keys())


def raced(meter: Meter, works: Mapping[str, Callable[[str], None]], folder: str, turns: int) -> dict[str, float]:
    """Return the least processor seconds of each, in turns."""
    best: dict[str, float] = {}
    for turn in range(turns):
        for name, work in works.items():
            began, clock = meter.seconds(), time.perf_counter()
            try:
                work(folder)
            except StreamingQueryException as error:
                if name != RIVAL:
                    raise
                say(f"  {name}: failed, {str(error).splitlines()[0]:.200}")
                continue
            spent, wall = meter.seconds() - began, time.perf_counter() - clock
            best[name] = min(best.get(name, np.inf), spent)
            load = os.getloadavg()[0]
            say(f"  {name}: {spent:.1f} s of processors, {wall:.1f} s, load {load:.0f}, turn {turn + 1}")
    return best


def streams(works: Works, turns: int, goals: Goals) -> None:
    """Race 24 batches of a stream."""
    race: dict[str, Callable[[str], None]] = {
        "empty foreachBatch": works.empty,
        "ours, four windows, rows and objects": works.ours_stream,
        "Spark window(60 min, 1 min) count": works.spark_stream,
        "the same written as Parquet": works.spark_stream_kept,
        "ours, all measures": lambda folder: works.ours_stream(folder, ALL),
    }
    if importlib.util.find_spec("google.protobuf") if importlib.util.find_spec("google") else None:
        race[RIVAL] = works.with_state
    else:
        say("transformWithStateInPandas is left out: no protobuf here")
    raced(works.meter, race, works.day.warm, 1)
    say(f"{FILES} batches of a stream:")
    works.answers.clear()
    best = raced(works.meter, race, works.day.files, turns)
    floor = best["empty foreachBatch"]
    ours = best["ours, four windows, rows and objects"]
    said = goals.ask("stream / empty", ours / floor, most=2.5)
    print(f"stream: ours {ours:.1f} s, {ours / floor:.2f} times the empty foreachBatch's {floor:.1f} s {said}")
    for name, most in (("Spark window(60 min, 1 min) count", 1 / 2), (RIVAL, 1 / 3)):
        if name in best:
            share = (ours - floor) / (best[name] - floor)
            print(f"above that: {share:.2f} of {name}, {best[name]:.1f} s {goals.ask(name, share, most=most)}")
    wrong = differing(works.answers["stream"], works.answers["spark stream"])
    print(f"stream: {wrong} counts differ from Spark's {goals.ask('counts of the stream', wrong, most=0)}")


def batches(works: Works, turns: int, goals: Goals) -> None:
    """Race a day as one file."""
    race: dict[str, Callable[[str], None]] = {
        "ours, four windows, rows and objects": works.ours_batch,
        "ours, all measures": lambda folder: works.ours_batch(folder, ALL),
        "Spark window(60 min, 1 min) count": works.spark_batch,
        "Spark window(60 min, 1 min) count(distinct)": works.spark_distinct,
        "Spark window(24 h, 5 min) count": lambda folder: works.spark_batch(folder, 1440, 5),
    }
    for name in list(race)[:3]:  # what the others run is warm then, too
        raced(works.meter, {name: race[name]}, works.day.warm, 1)
    say("a batch of a day:")
    works.answers.clear()
    best = raced(works.meter, race, works.day.file, turns)
    ours = best["ours, four windows, rows and objects"]
    for name, seconds in best.items():
        if name.startswith("Spark"):
            goal = goals.ask(name, ours / seconds, most=1 / 5) if name.endswith("1 min) count") else ""
            print(f"batch: ours {ours:.1f} s, {seconds / ours:.1f} times as much is {name}, {seconds:.1f} s {goal}")
    wrong = differing(works.answers["batch"], works.answers["spark batch"])
    wrong += differing(works.answers["batch"], works.answers["spark distinct"], "objects_1h", "objects")
    print(f"batch: {wrong} values differ from Spark's {goals.ask('values of the batch', wrong, most=0)}")


def main(
    turns: Annotated[int, typer.Option(help="Of each contender; the best counts.", min=1)] = 1,
    only: Annotated[list[str] | None, typer.Option(help="stream or batch; both if not given. Repeat it.")] = None,
) -> int:
    """Race windows."""
    goals = Goals()
    with tempfile.TemporaryDirectory() as scratch:
        day = day_of(Path(scratch))
        session = spark_session("local[2]", driver_memory="3g", name="bench", settings=SETTINGS)
        works = Works(session, day, Path(scratch))
        if not only or "stream" in only:
            streams(works, turns, goals)
        if not only or "batch" in only:
            batches(works, turns, goals)
        session.stop()
    for missed in goals.missed:
        say(f"missed: {missed}")
    return 1 if goals.missed else 0


if __name__ == "__main__":
    run(main)
