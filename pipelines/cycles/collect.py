"""Updates as Spark reads them, once: judged, the latest of each id, and sent to partitions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import Space
from dtoss.partitioning.regions import Regions
from pipelines.cycles.arrivals import Arrivals, Parcels, Place, send
from pipelines.cycles.store_clock import Clock
from pipelines.cycles.update_counts import Tally, profile_of_tallies, tallied
from pipelines.rows.by_id import by_hash
from pipelines.rows.position_frame import AHEAD, DELETED, OUTSIDE, REASON, Positions
from pipelines.rows.survey import Profile
from pipelines.rows.text_types import exactly
from pipelines.spark.collect_small import collect_small
from pipelines.spark.freeze_imports import freeze_imports
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    from pyspark.sql import functions as F

    xmin, ymin, xmax, ymax = np.asarray(bounds, dtype=np.float64).tolist()
    inside = F.col("x").between(xmin, xmax) & F.col("y").between(ymin, ymax)
    reason = F.coalesce(F.col(REASON), F.when(~inside, F.lit(OUTSIDE)))
    return replace(positions, frame=positions.frame.withColumn(REASON, reason))


def timely(positions: Positions, clock: Clock) -> Positions:
    """Return updates with the reasons completed by that of a wrong clock."""
    if np.isinf(clock.ahead_after):
        return positions
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
    from pyspark.sql import functions as F

    frame = positions.frame
    marked = frame if DELETED in frame.columns else frame.withColumn(DELETED, F.lit(False))
    rows = marked.select("id", "t", DELETED, "x", "y", *map(exactly, carried), REASON)
    here = collect_small(rows, few)
    sent = _in_tasks(rows, target, carried, clock) if here is None else [judge_and_send(here, target, carried, clock)]
    arrivals = Arrivals.gathered(target.place, [one for one, _ in sent if one is not None])
    return arrivals, profile_of_tallies([tally for _, tally in sent], clock.scale)


Sent: TypeAlias = tuple[tuple[Parcels, pa.Table] | None, Tally]


def judge_and_send(rows: pa.Table, target: Target, carried: list[str], clock: Clock) -> Sent:
    """Return the latest row of each id among the good ones of a task, sent, and the tally of all."""
    good, tally = tallied(rows, clock.scale, clock.ahead_after)
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
