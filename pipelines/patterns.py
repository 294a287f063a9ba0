"""Accesses in, patterns out: how many requests a second each partition gets, by time slot of the day.

Also a script for spark-submit: ``spark-submit pipelines/patterns.py ACCESSES... --store STORE --out FILE``, with the
options of ``dtoss patterns``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps import Patterns, Reads
from ceps.costs import RequestCosts
from ceps.patterns import DAY
from ceps.reads import MOST_SETS, bounded, distinct_sets, priorities, reads_together
from dtoss.errors import InputError
from dtoss.geometry.lonlat import to_lonlat
from dtoss.geometry.space import Space
from dtoss.index import Index
from dtoss.opening import open_index
from dtoss.partitioning.regions import Regions
from dtoss.partitioning.routing import reads_of
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.rows import day_counts
from pipelines.rows.accesses import MILLIONTHS, Asks, access_columns, rows_of
from pipelines.rows.positions import REASON, Positions, from_frame, screened
from pipelines.spark.progress import Stages
from pipelines.spark.session import configured, cores

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EPOCH = date(1970, 1, 1)  # a Thursday
_TOUCHED = -2  # the cell that stands for all partitions that requests read, whatever they cost; -1 is that of sets
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Counted:
    """Patterns of all days and perhaps of each weekday, and what became of the rows.

    Parameters
    ----------
    patterns
        Of all days first; then Monday to Sunday, as far as they were observed, where that was asked for.
    read
        Rows read.
    bad
        How many were set aside, by reason.
    outside
        Good rows before ``since`` or from ``until`` on.
    requests
        Requests counted, of all rows' weights.
    reads
        Partitions that they read, each request once in each.
    first, last
        The days that count, both included.
    weighed
        Base requests that a read of a partition counts as on average; 1 where no costs are given.
    """

    patterns: tuple[Patterns, ...]
    read: int
    bad: dict[str, int]
    outside: int
    requests: float
    reads: float
    first: date
    last: date
    weighed: float = 1.0


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
) -> Counted:
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
        configured(accesses.frame.sparkSession)
        stages = stages or Stages(accesses.frame.sparkSession)
        frame, reasons = rows_of(screened(accesses, space), asks, time_format)
        inside = _inside(asks)
        with stages.stage("look"):
            seen = _seen(frame, inside, reasons)
        bad = {reason: seen[f"bad{i}"] for i, reason in enumerate(reasons) if seen[f"bad{i}"]}
        _judge(seen["read"], bad, max_bad)
        if seen["first"] is None and (asks.since is None or asks.until is None):
            raise InputError(
                f"none of {seen['read']:,} accesses can be used ({seen['outside']:,} outside the days asked for): "
                "patterns need at least one, or --since and --until"
            )
        with stages.stage("count"):
            cells = _count(frame.where(inside).drop(REASON), home, manifest, asks)
    finally:
        accesses.release()
    first = asks.since or _EPOCH + timedelta(days=seen["first"])
    last = asks.until - timedelta(days=1) if asks.until else _EPOCH + timedelta(days=seen["last"])
    requests = (seen["weight"] or 0) / MILLIONTHS
    together = cells.column("together").is_valid()
    sets, cells = cells.filter(together), cells.filter(pc.invert(together))
    reads = _reads(sets, requests, (last - first).days + 1)
    of_days = day_counts.is_of_days(cells.column("cell").to_numpy())
    days, cells = cells.filter(pa.array(of_days)), cells.filter(pa.array(~of_days))
    touched = pc.equal(cells.column("cell"), _TOUCHED)
    counted = cells if asks.costs is None else cells.filter(touched)  # which partition is read does not depend on costs
    read_in_all = int(counted.column("weight").to_numpy().sum()) / MILLIONTHS
    cells = cells.filter(pc.invert(touched))
    base = int(cells.column("weight").to_numpy().sum()) / MILLIONTHS
    made = _patterns(cells, days, reads, manifest, space, regions_of_manifest(manifest), asks, first, last)
    return Counted(
        patterns=made,
        read=seen["read"],
        bad=bad,
        outside=seen["outside"],
        requests=requests,
        reads=read_in_all,
        first=first,
        last=last,
        weighed=base / read_in_all if read_in_all else 1.0,
    )


def _inside(asks: Asks) -> Column:
    """Return which rows count."""
    from pyspark.sql import functions as F

    inside = F.col(REASON).isNull()
    if asks.since is not None:
        inside = inside & (F.col("day") >= (asks.since - _EPOCH).days)
    if asks.until is not None:
        inside = inside & (F.col("day") < (asks.until - _EPOCH).days)
    return inside


def _seen(frame: DataFrame, inside: Column, reasons: list[str]) -> dict[str, Any]:
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
    return found


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
        sums = sums.mapInArrow(partial(_urgent, MOST_SETS + 1), schema)
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
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    index = None if asks.k is None else open_index(store, manifest["snapshot"], verify="touch", lazy=True)
    for batch in batches:
        places = _places(batch)
        vectors = space.vectors(places)
        home = regions.nearest(vectors)
        limit = batch.column("radius").fill_null(np.inf).to_numpy(zero_copy_only=False)
        k = batch.column("k").fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        request, partition = np.arange(len(places)), home
        looks = np.flatnonzero((k > 0) | (limit < np.inf))
        if len(looks):
            far = limit[looks] if index is None else furthest_hits(index, places[looks], limit[looks], k[looks])
            pairs = reads_of(manifest, regions, vectors[looks], home[looks], far)
            stays = np.setdiff1d(request, looks)
            request = np.concatenate([looks[pairs[0]], stays])
            partition = np.concatenate([pairs[1], home[stays]])
        day, slot, weight = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("day", "slot", "weight"))
        weekday = (day + 3) % 7 if asks.by_weekday else np.zeros_like(day)
        cell = (weekday.astype(np.int64) * (DAY // asks.slot_seconds) + slot)[request] * len(regions) + partition
        found, place = np.unique(cell, return_inverse=True)
        counted = weight
        if asks.costs is not None:
            counted = _base_requests(asks.costs, weight, k, limit, np.bincount(request, minlength=len(places)))
            touched = np.array([weight[request].sum()])
            yield _rows(np.array([_TOUCHED]), pa.nulls(1, pa.binary()), touched)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, place, counted[request])
        yield _rows(found, pa.nulls(len(found), pa.binary()), sums)
        hourly = day_counts.hour_cells(
            day[request], slot[request], partition.astype(np.int64), asks.slot_seconds, len(regions)
        )
        found, place = np.unique(hourly, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, place, counted[request])
        yield _rows(found, pa.nulls(len(found), pa.binary()), sums)
        start, members, whose = distinct_sets(request, partition.astype(np.int64))
        weights = np.zeros(len(start) - 1, np.int64)
        several = np.flatnonzero(whose >= 0)
        np.add.at(weights, whose[several], weight[several])
        yield _rows(np.full(len(weights), -1), _packed(start, members), weights)


def _by_day(manifest: dict[str, Any], asks: Asks, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return summed rows, those of single hours as what varies from day to day."""
    for batch in batches:
        yield day_counts.spread(batch, asks.slot_seconds, len(manifest["partitions"]), asks.by_weekday)


def _base_requests(
    costs: RequestCosts,
    weight: NDArray[np.int64],
    k: NDArray[np.int64],
    limit: NDArray[np.float64],
    partitions: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the millionths of base requests that each request counts as in each of the partitions that it reads.

    Its cost was measured over all that it reads, so they share it, but none counts less than one request for it, or
    than all of a cheaper one.
    """
    whole = costs.weights(k.astype(np.float64), limit)
    return np.rint(weight * np.maximum(whole / partitions, np.minimum(whole, 1.0))).astype(np.int64)


def _rows(cell: NDArray[np.int64], together: pa.BinaryArray, weight: NDArray[np.int64]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(cell), together, pa.array(weight)], names=["cell", "together", "weight"])


def _packed(start: NDArray[np.int64], members: NDArray[np.int64]) -> pa.BinaryArray:
    """Return sets of partitions as bytes that are equal where the sets are."""
    offsets, values = (4 * start).astype(np.int32), members.astype("<i4")
    return pa.BinaryArray.from_buffers(pa.binary(), len(start) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _unpacked(together: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the partitions of sets, and where each set begins."""
    length = pc.binary_length(together).to_numpy(zero_copy_only=False).astype(np.int64) // 4
    members = np.frombuffer(b"".join(together.to_pylist()), "<i4").astype(np.int64)
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64), members


def _urgent(most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return rows of cells as they are, and of the sets ``most`` of the highest priority (``ceps.reads.bounded``)."""
    kept: pa.RecordBatch | None = None
    for batch in batches:
        is_set = batch.column("together").is_valid()
        yield batch.filter(pc.invert(is_set))
        sets = batch.filter(is_set)
        kept = sets if kept is None else pa.concat_batches([kept, sets])
        if len(kept) > most:
            start, members = _unpacked(kept.column("together"))
            urgent = priorities(start, members, kept.column("weight").to_numpy().astype(np.float64))
            kept = kept.take(pa.array(np.argsort(-urgent, kind="stable")[:most]))
    if kept is not None:
        yield kept


def _reads(sets: pa.Table, requests: float, days: int) -> Reads:
    """Return what requests of a mean day read together."""
    start, members = _unpacked(sets.column("together"))
    request = np.repeat(np.arange(len(sets)), np.diff(start))
    found = reads_together(request, members, sets.column("weight").to_numpy() / MILLIONTHS, days)
    return bounded(replace(found, total=requests / days))


def _judge(read: int, bad: dict[str, int], max_bad: float) -> None:
    total = sum(bad.values())
    if total > max_bad * read:
        reasons = "; ".join(f"{n:,} {reason}" for reason, n in bad.items())
        raise InputError(
            f"{total:,} of {read:,} accesses are bad ({reasons}), more than --max-bad {max_bad:g} allows; "
            "no patterns are written"
        )


def _patterns(
    cells: pa.Table,
    of_days: pa.Table,
    reads: Reads,
    manifest: dict[str, Any],
    space: Space,
    regions: Regions,
    asks: Asks,
    first: date,
    last: date,
) -> tuple[Patterns, ...]:
    slots, count = DAY // asks.slot_seconds, len(regions)
    sums = np.zeros(7 * slots * count)
    sums[cells.column("cell").to_numpy()] = cells.column("weight").to_numpy() / MILLIONTHS
    by_day = sums.reshape(7, slots, count).transpose(0, 2, 1)
    days = (last - first).days + 1
    weekdays = np.bincount((np.arange(days) + first.weekday()) % 7, minlength=7)
    entries = manifest["partitions"]
    shared: dict[str, Any] = {
        "sizes": np.array([entry["bytes"] for entry in entries], np.float64),
        "partitions": np.array([entry["number"] for entry in entries], np.int64),
        "slot_seconds": asks.slot_seconds,
        "positions": to_lonlat(space, regions.pivots),
        "time_zone": asks.time_zone,
        "pivots_hash": manifest["pivots_hash"],
        "reads": reads,
        "variation": day_counts.variation(
            of_days.column("cell").to_numpy(), of_days.column("weight").to_numpy(), by_day, first, last,
            asks.slot_seconds,
        ),
    }  # fmt: skip

    def pattern(requests: NDArray[np.float64], observed: int, weekday: int | None) -> Patterns:
        loads = requests / (asks.slot_seconds * observed)
        made = Patterns(loads=loads, days=observed, weekday=weekday, **shared).smoothed(asks.smooth_seconds)
        return made if asks.requests_per_access == 1.0 else made.scaled(asks.requests_per_access)

    found = [pattern(by_day.sum(axis=0), days, None)]
    if asks.by_weekday:
        found += [pattern(by_day[d], int(weekdays[d]), d) for d in range(7) if weekdays[d]]
    return tuple(found)


def summary(counted: Counted) -> list[tuple[str, str]]:
    """Return what a user wants to know of patterns, as rows of two texts."""
    whole = counted.patterns[0]
    good = counted.read - sum(counted.bad.values())
    rows = [("accesses", f"{counted.read:,} read, {good - counted.outside:,} counted")]
    if counted.outside:
        rows.append(("outside", f"{counted.outside:,} on other days"))
    rows += [("bad", f"{n:,} {reason}") for reason, n in counted.bad.items()]
    rows.append(("days", f"{whole.days:,.0f}, {counted.first} to {counted.last}, {whole.time_zone}"))
    asked = counted.requests or 1.0
    idle = int((whole.loads.max(axis=1, initial=0.0) == 0).sum())
    rows.append(("partitions", f"{len(whole):,} of {whole.sizes.sum():,.0f} bytes, {idle:,} never asked"))
    sets = f"; {len(whole.reads):,} sets of partitions are read together" if whole.reads is not None else ""
    if whole.reads is not None and whole.reads.sampled:
        sets += f", a sample that stands for {whole.reads.sampled:.0%} of their requests"
    rows.append(("reads", f"{counted.reads / asked:.3f} partitions a request{sets}"))
    if counted.weighed != 1.0:
        rows.append(("weighed", f"{counted.weighed:.3g} base requests for each partition that a request reads"))
    mean = float(whole.total.mean())
    scale = f", {whole.requests_per_event:g} for each access" if whole.requests_per_event != 1.0 else ""
    peak = int(whole.total.argmax()) * whole.slot_seconds
    rows.append(
        (
            "requests/s",
            f"mean {mean:,.4g}, peak {whole.peak:,.4g} at {peak // 3600:02d}:{peak % 3600 // 60:02d}{scale}",
        )
    )
    if len(counted.patterns) > 1:
        rows.append(("weekdays", ", ".join(f"{_DAYS[p.weekday or 0]} {p.peak:,.4g}" for p in counted.patterns[1:])))
    return rows


if __name__ == "__main__":
    from pipelines.command.main import run_script

    run_script("patterns")


HITS = 2_000_000
"""Hits that are held at a time."""


def furthest_hits(
    index: Index, places: NDArray[np.float64], limit: NDArray[np.float64], k: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return how far each request must look, float64 (n,): its k-th hit, or its limit if there are fewer.

    Parameters
    ----------
    index
        An open one.
    places
        float64 (n, 2), positions.
    limit
        float64 (n,), metres or CRS units; infinity is none.
    k
        int64 (n,); 0 asks for all within the limit.
    """
    far = limit.copy()
    asking = np.flatnonzero(k > 0)
    step = max(HITS // int(k.max(initial=1)), 1)
    for begin in range(0, len(asking), step):
        some = asking[begin : begin + step]
        found = index.search(places[some], limit[some], int(k[some].max()))
        enough = found.count >= k[some]
        last = np.cumsum(found.count) - found.count + k[some] - 1
        far[some[enough]] = found.distance[last[enough]]
    return far
