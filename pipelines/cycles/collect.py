"""Updates as Spark reads them, once: judged, the latest of each id, and sent to partitions.

What a task sees of updates before it lets bad ones go: how many, why, where and when the good ones are.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import Space
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.regions import Regions
from pipelines.cycles.arrivals import Arrivals, Parcels, Place, send
from pipelines.cycles.store_clock import Clock, Scale
from pipelines.engines.local_rows import rows_of_batches
from pipelines.rows.by_id import by_hash, task_count
from pipelines.rows.input_columns import AHEAD, DELETED, OUTSIDE, REASON, REASONS
from pipelines.rows.local_frame import LocalFrame, Tally, part_good
from pipelines.rows.position_frame import Positions
from pipelines.rows.row_plan import where, with_reasons
from pipelines.rows.survey import Profile
from pipelines.spark.by_bucket import collect_small, freeze_imports
from pipelines.spark.session import cores
from pipelines.text.text_types import exactly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_SAMPLE = pa.schema([("x", pa.float64()), ("y", pa.float64())]).empty_table()
"""Of updates, which are not sampled."""


def tally_updates(rows: pa.Table, scale: Scale, ahead_after: float) -> tuple[pa.Table, Tally]:
    """Return the good rows, without the column of reasons, and what was seen of all. Cost O(n)."""
    kept, seen = [], Tally()
    for batch in rows.to_batches():
        if np.isfinite(ahead_after):
            batch = with_reasons(batch, [(AHEAD, scale.numbers(batch.column("t")) > ahead_after)])
        good, tally = part_good(batch)
        kept.append(good)
        seen += tally
    return pa.Table.from_batches(kept, rows.drop_columns([REASON]).schema), seen


def profile_of_tallies(tallies: Sequence[Tally], scale: Scale) -> Profile:
    """Return the profile of all rows from what tasks have seen of them."""
    seen = sum(tallies, Tally())
    known = seen.low <= seen.high
    times = None
    if seen.times is not None:
        times = scale.numbers(pa.concat_arrays([pa.repeat(one, 1) for one in seen.times])).tolist()
    return Profile(
        read=seen.read,
        bad={reason: seen.bad[reason] for reason in REASONS},
        low=np.where(known, seen.low, np.nan),
        high=np.where(known, seen.high, np.nan),
        at_zero=seen.at_zero,
        from_360=seen.from_360,
        sample=NO_SAMPLE,
        modulus=1,
        first=None if times is None else scale.said(times[0]),
        last=None if times is None else scale.said(times[1]),
    )


@dataclass(frozen=True)
class Target:
    """Where updates go: who is to know each."""

    place: Place
    regions: Regions
    reach: NDArray[np.float64]
    space: Space


def within(positions: Positions, bounds: ArrayLike | None) -> Positions:
    """Return updates with the reasons completed by that of places outside given bounds."""
    if bounds is None:
        return positions
    xmin, ymin, xmax, ymax = np.asarray(bounds, dtype=np.float64).tolist()
    if isinstance(positions.frame, LocalFrame):

        def outside(rows: pa.RecordBatch) -> pa.RecordBatch:
            x, y = (rows.column(name) for name in ("x", "y"))
            beyond = [pc.less(x, xmin), pc.greater(x, xmax), pc.less(y, ymin), pc.greater(y, ymax)]
            return with_reasons(rows, [(OUTSIDE, where(one)) for one in beyond])

        return replace(positions, frame=positions.frame.then(outside))
    from pyspark.sql import functions as F

    inside = F.col("x").between(xmin, xmax) & F.col("y").between(ymin, ymax)
    reason = F.coalesce(F.col(REASON), F.when(~inside, F.lit(OUTSIDE)))
    return replace(positions, frame=positions.frame.withColumn(REASON, reason))


def timely(positions: Positions, clock: Clock) -> Positions:
    """Return updates with the reasons completed by that of a wrong clock."""
    if np.isinf(clock.ahead_after):
        return positions
    if isinstance(positions.frame, LocalFrame):

        def ahead(rows: pa.RecordBatch) -> pa.RecordBatch:
            late = clock.scale.numbers(rows.column("t")) > clock.ahead_after
            return with_reasons(rows, [(AHEAD, late)])

        return replace(positions, frame=positions.frame.then(ahead))
    from pyspark.sql import functions as F

    ahead = clock.scale.column(F.col("t")) > F.lit(clock.ahead_after)
    reason = F.coalesce(F.col(REASON), F.when(ahead, F.lit(AHEAD)))
    return replace(positions, frame=positions.frame.withColumn(REASON, reason))


def collect(
    positions: Positions, target: Target, carried: list[str], clock: Clock, few: int
) -> tuple[Arrivals, Profile]:
    """Return the latest row of each id among the good updates, sent, and what was seen of all rows. An action.

    Rows come to this process where they take ``few`` bytes at most.

    Rows with a wrong clock are found by those who send, not by Spark: now is another one in each cycle, and Spark would
    compile each anew.
    """
    if isinstance(positions.frame, LocalFrame):
        sent = [judge_and_send(table, target, carried, clock) for table in _tables(positions.frame, carried)]
        arrivals = Arrivals.gathered(target.place, [one for one, _ in sent if one is not None])
        return arrivals, profile_of_tallies([tally for _, tally in sent], clock.scale)
    from pyspark.sql import functions as F

    frame = positions.frame
    marked = frame if DELETED in frame.columns else frame.withColumn(DELETED, F.lit(False))
    rows = marked.select("id", "t", DELETED, "x", "y", *map(exactly, carried), REASON)
    here = collect_small(rows, few)
    sent = _in_tasks(rows, target, carried, clock) if here is None else [judge_and_send(here, target, carried, clock)]
    arrivals = Arrivals.gathered(target.place, [one for one, _ in sent if one is not None])
    return arrivals, profile_of_tallies([tally for _, tally in sent], clock.scale)


def _tables(frame: LocalFrame, carried: list[str]) -> list[pa.Table]:
    """Return all rows in the columns that are sent, those of an id in one table."""
    rows = frame.table()
    if DELETED not in rows.column_names:
        rows = rows.append_column(DELETED, arrow_of(np.zeros(len(rows), np.bool_)))
    rows = rows.select(["id", "t", DELETED, "x", "y", *carried, REASON])
    tasks = task_count(len(rows), 1)
    if tasks == 1:
        return [rows]
    shared = rows_of_batches([rows.to_batches()]).exchange_by_hash(tasks, "id")
    return [pa.Table.from_batches(batches, rows.schema) for batches in shared.collect()]


Sent: TypeAlias = tuple[tuple[Parcels, pa.Table] | None, Tally]


def judge_and_send(rows: pa.Table, target: Target, carried: list[str], clock: Clock) -> Sent:
    """Return the latest row of each id among the good ones of a task, sent, and the tally of all."""
    good, tally = tally_updates(rows, clock.scale, clock.ahead_after)
    return send(target.place, good.to_batches(), carried, target.regions, target.reach, target.space), tally


def _in_tasks(rows: DataFrame, target: Target, carried: list[str], clock: Clock) -> list[Sent]:
    from pyspark.sql import functions as F

    tasks = max(cores(rows.sparkSession), rows.rdd.getNumPartitions())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = list(batches)
        if kept:
            made = pickle.dumps(judge_and_send(pa.Table.from_batches(kept), target, carried, clock), protocol=5)
            yield pa.record_batch([pa.array([made], pa.large_binary())], names=["made"])

    shuffled = rows.repartitionById(tasks, by_hash(F.col("id"), tasks))
    made = shuffled.mapInArrow(freeze_imports(run), "made binary").toArrow()
    return [pickle.loads(packed) for packed in made.column(0).to_pylist()]
