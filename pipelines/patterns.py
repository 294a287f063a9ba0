"""Accesses in, patterns out: how many requests a second each partition gets, by time slot of the day.

Also a script for spark-submit: ``spark-submit pipelines/patterns.py ACCESSES... --store STORE --out FILE``, with the
options of ``dtoss patterns``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ceps.model.patterns import DAY
from ceps.model.reads import MOST_SETS, priorities
from dtoss.arrow_stream import stream_of
from dtoss.partition import numbers as arrow_of
from dtoss.partition import values_of
from dtoss.rows.input_columns import REASON
from dtoss.snapshots.manifest import regions_of_manifest, space_of_manifest
from dtoss.snapshots.store import Store
from pipelines.engines.progress import Stages
from pipelines.engines.rows import Batches, Rows, one_value
from pipelines.load_patterns.patterns_of_sums import (
    EPOCH,
    TOUCHED,
    CountedPatterns,
    Reader,
    RowCounts,
    check_seen,
    counted_of,
    sets_of,
    sum_cells,
    unpack_sets,
)
from pipelines.rows import access_rows
from pipelines.rows.access_rows import REQUESTS, Asks, access_columns, check_accesses, reasons_for, requests_of
from pipelines.rows.position_frame import Positions, screen_positions
from pipelines.rows.read_files import positions_in
from pipelines.spark.session import configure_session, cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dtoss.frames.arrow_tables import Frame

SUMS = "cell bigint, together binary, weight bigint"
"""Sums as tasks pass them on, as Spark writes their columns: of cells, and of sets of partitions (``together``)."""
SUMS_TYPES = pa.schema([("cell", pa.int64()), ("together", pa.binary()), ("weight", pa.int64())])
ROWS_ADDED = 1 << 20
"""Rows of sums that a task holds before it adds them up."""


def patterns(
    accesses: DataFrame | Frame | Positions,
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
        A DataFrame of Spark's, or a frame of this process as :func:`dtoss.build` takes them: two coordinates in the
        snapshot's CRS, a time, and what ``asks`` names; or positions that were read with :func:`access_columns`.
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
        accesses = positions_in(accesses, access_columns(asks, x=x, y=y, time=time, time_format=time_format))
    try:
        session = None if accesses.session is None else configure_session(accesses.session)
        stages = stages or Stages(session)
        check_accesses(accesses, asks, time_format)
        screened = screen_positions(accesses, space).frame.all_rows()
        requests = screened.map(partial(_each, partial(requests_of, asks, time_format)), REQUESTS)
        with stages.stage("look"):
            seen = _seen(requests, asks)
        first, last = check_seen(seen, asks, max_bad)
        with stages.stage("count"):
            cells = _count(requests, home, manifest, asks, 4 * cores(session))
    finally:
        accesses.release()
    return counted_of(cells, seen, manifest, asks, first, last)


def _each(work: Callable[[pa.RecordBatch], pa.RecordBatch], batches: Batches) -> Batches:
    return map(work, batches)


def _inside(asks: Asks, requests: pa.RecordBatch) -> NDArray[np.bool_]:
    """Return which requests count, bool (n,)."""
    day, inside = values_of(requests.column("day")), values_of(requests.column(REASON).is_null())
    if asks.since is not None:
        inside = inside & (day >= (asks.since - EPOCH).days)
    if asks.until is not None:
        inside = inside & (day < (asks.until - EPOCH).days)
    return inside


def _seen(requests: Rows, asks: Asks) -> RowCounts:
    """Return how many rows there are, how many of each kind, and the first and last day that counts."""
    found = [json.loads(text) for text in requests.map(partial(_look, asks), "seen string").values()]
    bad = sum((Counter(one["bad"]) for one in found), Counter())
    read, outside, weight = (sum(one[name] for one in found) for name in ("read", "outside", "weight"))
    days = [day for one in found for day in one["days"]]
    known = {reason: bad[reason] for reason in reasons_for(asks) if bad[reason]}
    return RowCounts(read, known, outside, weight, min(days, default=None), max(days, default=None))


def _look(asks: Asks, batches: Batches) -> Batches:
    """Yield what is seen of each batch, as JSON."""
    for batch in batches:
        inside = _inside(asks, batch)
        reasons, days = batch.column(REASON), values_of(batch.column("day"))[inside]
        seen = {
            "read": len(batch),
            "bad": Counter(reasons.drop_null().to_pylist()),
            "outside": int(np.count_nonzero(values_of(reasons.is_null()) & ~inside)),
            "weight": int(values_of(batch.column("weight"))[inside].sum()),
            "days": [int(days.min()), int(days.max())] if len(days) else [],
        }
        yield one_value("seen", json.dumps(seen))


def _count(requests: Rows, store: Store, manifest: dict[str, Any], asks: Asks, tasks: int) -> pa.Table:
    """Return the weight of each cell (weekday, slot, partition) that is not empty, and of sets that are read together.

    A row of a set has its partitions in ``together``; of very many sets there are those that a sample may need.
    """
    rows = requests.map(partial(_counting, asks), REQUESTS)
    if asks.k is not None:
        # neighbouring places go to one task, so that it opens few partitions; each batch of a place to the next one
        rows = rows.map(partial(_route, manifest, tasks), f"{REQUESTS}, task int").exchange(tasks)
    cells = rows.map(partial(_tally, store.path, manifest, asks), SUMS).map(add_sums, SUMS)
    sums = cells.map(partial(_each, partial(_with_task, tasks)), f"{SUMS}, task int").exchange(tasks)
    sums = sums.map(add_sums, SUMS).map(partial(_by_day, manifest, asks), SUMS)
    if asks.k is not None or asks.radius is not None:
        sums = sums.map(partial(urgent_sets, MOST_SETS + 1), SUMS)
    found = [pa.ipc.open_stream(data).read_all() for data in sums.map(_as_bytes, "sums binary").values()]
    return pa.concat_tables([SUMS_TYPES.empty_table(), *found])


def _counting(asks: Asks, batches: Batches) -> Batches:
    """Yield the requests that count."""
    for batch in batches:
        if len(inside := batch.filter(arrow_of(_inside(asks, batch)))):
            yield inside


def _route(manifest: dict[str, Any], tasks: int, batches: Batches) -> Batches:
    space, regions = space_of_manifest(manifest), regions_of_manifest(manifest)
    for turn, batch in enumerate(batches):
        task = (regions.nearest(space.vectors(_places(batch))) + turn) % tasks
        yield batch.append_column("task", arrow_of(task.astype(np.int32)))


def _places(batch: pa.RecordBatch) -> NDArray[np.float64]:
    return np.stack([batch.column(name).to_numpy(zero_copy_only=False) for name in ("x", "y")], axis=1)


def _tally(store: str, manifest: dict[str, Any], asks: Asks, batches: Batches) -> Batches:
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
        hourly = access_rows.hour_cells(day[request], slot[request], read.partition, asks.slot_seconds, partitions)
        for cells in (cell, hourly):
            found, sums = sum_cells(cells, read.counted[request])
            yield summed_rows(found, pa.nulls(len(found), pa.binary()), sums)
        _, sets = sets_of(read, weight, np.zeros(len(weight), np.int64))
        together = sets.column("together").combine_chunks()
        yield summed_rows(np.full(len(sets), -1), together, sets.column("weight").to_numpy())


def add_sums(batches: Batches) -> Batches:
    """Yield the sums of rows of :data:`SUMS`, each cell and each set once."""
    kept: list[pa.RecordBatch] = []
    rows, most = 0, ROWS_ADDED
    for batch in batches:
        kept.append(batch)
        rows += len(batch)
        if rows > most:
            kept = _add_batches(kept)
            rows = sum(map(len, kept))
            most = max(ROWS_ADDED, 2 * rows)
    if kept:
        yield from _add_batches(kept)


def _add_batches(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches).select(SUMS_TYPES.names)
    sums = rows.group_by(["cell", "together"], use_threads=False).aggregate([("weight", "sum")])
    return list(sums.rename_columns({"weight_sum": "weight"}).select(SUMS_TYPES.names).combine_chunks().to_batches())


def _with_task(tasks: int, sums: pa.RecordBatch) -> pa.RecordBatch:
    """Return sums with the task that adds those of a cell, or of a set."""
    task = values_of(sums.column("cell")) % tasks
    is_set = np.flatnonzero(values_of(sums.column("together").is_valid()))
    start, members = unpack_sets(sums.column("together").drop_null())
    task[is_set] = np.add.reduceat(members, start[:-1]) % tasks if len(is_set) else 0
    return sums.append_column("task", arrow_of(task.astype(np.int32)))


def _as_bytes(batches: Batches) -> Batches:
    for batch in batches:
        yield one_value("sums", stream_of(batch))


def _by_day(manifest: dict[str, Any], asks: Asks, batches: Batches) -> Batches:
    """Return summed rows, those of single hours as what varies from day to day."""
    for batch in batches:
        yield access_rows.spread(batch, asks.slot_seconds, len(manifest["partitions"]), asks.by_weekday)


def summed_rows(cell: NDArray[np.int64], together: pa.BinaryArray, weight: NDArray[np.int64]) -> pa.RecordBatch:
    """Return sums as tasks pass them on: of cells, where ``together`` is null, and of sets of partitions."""
    return pa.record_batch([pa.array(cell), together, pa.array(weight)], names=["cell", "together", "weight"])


def urgent_sets(most: int, batches: Batches) -> Batches:
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
