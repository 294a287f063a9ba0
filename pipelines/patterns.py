"""Accesses in, patterns out: how many requests a second each partition gets, by time slot of the day.

Also a script for spark-submit: ``spark-submit pipelines/patterns.py ACCESSES... --store STORE --out FILE``, with the
options of ``dtoss patterns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.model.patterns import DAY
from ceps.model.reads import MOST_SETS, priorities
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.load_patterns.patterns_of_sums import EPOCH, TOUCHED, CountedPatterns, RowCounts, check_seen, counted_of
from pipelines.load_patterns.reads_by_request import Reader, sets_of, sum_cells, unpack_sets
from pipelines.rows import day_counts
from pipelines.rows.access_rows import Asks, access_columns, rows_of
from pipelines.rows.input_columns import REASON
from pipelines.rows.position_frame import Positions, from_frame, screen_positions
from pipelines.spark.session import configure_session, cores
from pipelines.spark.stage_progress import Stages

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def patterns(
    accesses: DataFrame | Positions,
    store: str,
    asks: Asks | None = None,
    *,
    x: str | None = None,
    y: str | None = None,
    time: str | None = None,
    time_format: str | None = None,
    max_bad: float = 0.10,
    snapshot: str | None = None,
    stages: Stages | None = None,
) -> CountedPatterns:
    """Return how often each partition of a snapshot is asked, from raw accesses: a place and a time each.

    Parameters
    ----------
    accesses
        A DataFrame with two coordinates in the snapshot's CRS, a time, and what ``asks`` names; or positions that were
        read with :func:`access_columns`.
    store
        Path or URI; executors must reach it too.
    asks
        What a row stands for; one request to the partition of its place when None.
    x, y, time
        Names of the columns, as :func:`pipelines.rebuild.rebuild`.
    time_format
        "epoch_s" or "epoch_ms" for times in numbers; for times in text also a Spark pattern, ISO 8601 when None. Times
        without a zone are UTC.
    max_bad
        The share of bad rows from which on this fails.
    snapshot
        Its name; the current one when None.
    stages
        Times the stages and shows them.

    Returns
    -------
    Counted
        Requests/s of a slot are those counted in it over its length and the days from the first to the last access (or
        from ``since`` to ``until``). Patterns carry the snapshot's bytes by partition and the hash of its pivots.

    Raises
    ------
    InputError
        If a column is missing or of no use, no row is left, or too many rows are bad.
    ValueError
        If an argument is out of its bounds.
    StoreError
        If there is no such store or snapshot.
    """
    if not 0.0 <= max_bad <= 1.0:
        raise ValueError(f"max_bad is {max_bad!r}: a share from 0 to 1 is wanted")
    asks = asks or Asks()
    home = Store(store if "://" in store else str(Path(store).absolute()))
    manifest = home.manifest(snapshot)
    space = space_of_manifest(manifest)
    if not isinstance(accesses, Positions):
        accesses = from_frame(accesses, access_columns(asks, x=x, y=y, time=time, time_format=time_format))
    try:
        configure_session(accesses.spark_frame.sparkSession)
        stages = stages or Stages(accesses.spark_frame.sparkSession)
        frame, reasons = rows_of(screen_positions(accesses, space), asks, time_format)
        inside = _inside(asks)
        with stages.stage("look"):
            seen = _seen(frame, inside, reasons)
        first, last = check_seen(seen, asks, max_bad)
        with stages.stage("count"):
            cells = _count(frame.where(inside).drop(REASON), home, manifest, asks)
    finally:
        accesses.release()
    return counted_of(cells, seen, manifest, asks, first, last)


def _inside(asks: Asks) -> Column:
    """Return which rows count."""
    from pyspark.sql import functions as F

    inside = F.col(REASON).isNull()
    if asks.since is not None:
        inside = inside & (F.col("day") >= (asks.since - EPOCH).days)
    if asks.until is not None:
        inside = inside & (F.col("day") < (asks.until - EPOCH).days)
    return inside


def _seen(frame: DataFrame, inside: Column, reasons: list[str]) -> RowCounts:
    """Return how many rows there are, how many of each kind, and the first and last day that counts."""
    from pyspark.sql import functions as F

    measures = [
        F.count(F.lit(1)).alias("read"),
        F.count(F.when(F.col(REASON).isNull() & ~inside, 1)).alias("outside"),
        F.sum(F.when(inside, F.col("weight"))).alias("weight"),
        F.min(F.when(inside, F.col("day"))).alias("first"),
        F.max(F.when(inside, F.col("day"))).alias("last"),
    ]
    measures += [F.count(F.when(F.col(REASON) == reason, 1)).alias(f"bad{i}") for i, reason in enumerate(reasons)]
    found: dict[str, Any] = frame.agg(*measures).toArrow().to_pylist()[0]
    bad = {reason: found[f"bad{i}"] for i, reason in enumerate(reasons) if found[f"bad{i}"]}
    return RowCounts(found["read"], bad, found["outside"], found["weight"] or 0, found["first"], found["last"])


def _count(rows: DataFrame, store: Store, manifest: dict[str, Any], asks: Asks) -> pa.Table:
    """Return the weight of each cell (weekday, slot, partition) that is not empty, and of sets that are read together.

    A row of a set has its partitions in ``together``; of very many sets there are those that a sample may need.
    """
    from pyspark.sql import functions as F

    if asks.k is not None:
        # neighbouring places go to one task, so that it opens few partitions; each batch of a place to the next one
        tasks = 4 * cores(rows.sparkSession)
        schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
        rows = rows.mapInArrow(partial(_route, manifest), f"{schema}, task int")
        rows = rows.repartitionById(tasks, F.pmod(F.col("task"), F.lit(tasks)).cast("int"))
    schema = "cell bigint, together binary, weight bigint"
    cells = rows.mapInArrow(partial(_tally, store.path, manifest, asks), schema)
    sums = cells.groupBy("cell", "together").agg(F.sum("weight").alias("weight"))
    sums = sums.mapInArrow(partial(_by_day, manifest, asks), schema)
    if asks.k is not None or asks.radius is not None:
        sums = sums.mapInArrow(partial(urgent_sets, MOST_SETS + 1), schema)
    return sums.toArrow()


def _route(manifest: dict[str, Any], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    for turn, batch in enumerate(batches):
        task = regions.nearest(space.vectors(_places(batch))) + turn
        yield pa.record_batch([*batch.columns, pa.array(task.astype(np.int32))], names=[*batch.schema.names, "task"])


def _places(batch: pa.RecordBatch) -> NDArray[np.float64]:
    return np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in ("x", "y")], axis=1)


def _tally(
    store: str, manifest: dict[str, Any], asks: Asks, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Return the weights of the cells that the requests of a task fall into, and of the sets that they read."""
    reader = Reader.of(store, manifest, asks.k is not None, asks.costs)
    partitions = len(reader.regions)
    for batch in batches:
        limit = batch.column("radius").fill_null(np.inf).to_numpy(zero_copy_only=False)
        k = batch.column("k").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        day, slot, weight = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("day", "slot", "weight"))
        read = reader.read(_places(batch), k, limit, weight)
        request = read.request
        weekday = (day + 3) % 7 if asks.by_weekday else np.zeros_like(day)
        slots = weekday.astype(np.int64) * (DAY // asks.slot_seconds) + slot
        cell = slots[request] * partitions + read.partition
        if asks.costs is not None:
            yield summed_rows(np.array([TOUCHED]), pa.nulls(1, pa.binary()), np.array([weight[request].sum()]))
        hourly = day_counts.hour_cells(day[request], slot[request], read.partition, asks.slot_seconds, partitions)
        for cells in (cell, hourly):
            found, sums = sum_cells(cells, read.counted[request])
            yield summed_rows(found, pa.nulls(len(found), pa.binary()), sums)
        _, sets = sets_of(read, weight, np.zeros(len(weight), np.int64))
        together = sets.column("together").combine_chunks()
        yield summed_rows(np.full(len(sets), -1), together, sets.column("weight").to_numpy())


def _by_day(manifest: dict[str, Any], asks: Asks, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return summed rows, those of single hours as what varies from day to day."""
    for batch in batches:
        yield day_counts.spread(batch, asks.slot_seconds, len(manifest["partitions"]), asks.by_weekday)


def summed_rows(cell: NDArray[np.int64], together: pa.BinaryArray, weight: NDArray[np.int64]) -> pa.RecordBatch:
    """Return sums as tasks pass them on: of cells, where ``together`` is null, and of sets of partitions."""
    return pa.record_batch([pa.array(cell), together, pa.array(weight)], names=["cell", "together", "weight"])


def urgent_sets(most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows of cells as they are, and of sets ``most`` of the highest priority (:mod:`ceps.model.reads`)."""
    kept: pa.RecordBatch | None = None
    for batch in batches:
        is_set = batch.column("together").is_valid()
        yield batch.filter(pc.invert(is_set))
        sets = batch.filter(is_set)
        kept = sets if kept is None else pa.concat_batches([kept, sets])
        if len(kept) > most:
            start, members = unpack_sets(kept.column("together"))
            urgent = priorities(start, members, kept.column("weight").to_numpy().astype(np.float64))
            kept = kept.take(pa.array(np.argsort(-urgent, kind="stable")[:most]))
    if kept is not None:
        yield kept


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("patterns")
