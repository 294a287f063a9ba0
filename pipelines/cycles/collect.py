"""Updates as Spark reads them, once: judged, the latest of each id, and sent to partitions."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import Space
from dtoss.partitioning.regions import Regions
from pipelines.cycles.arrivals import Arrivals, Parcels, Place, send
from pipelines.cycles.clock import Clock
from pipelines.rows.latest import by_hash
from pipelines.rows.positions import AHEAD, DELETED, OUTSIDE, REASON, REASONS, Positions
from pipelines.rows.survey import Profile, measures, profile_of
from pipelines.rows.texts import exactly
from pipelines.spark.session import cores
from pipelines.spark.settled import settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BYTES_HERE = 64 << 20
"""Of updates, as far as Spark can estimate them, that come to this process: shuffling so few costs more."""

NO_SAMPLE = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.float64())})
"""Of updates, which are not sampled."""
NO_ROWS = Profile(0, dict.fromkeys(REASONS, 0), np.full(2, np.nan), np.full(2, np.nan), 0, 0, NO_SAMPLE, 1)
"""What is seen where there are no updates."""


@dataclass(frozen=True)
class Target:
    """Where updates go: who is to know each."""

    place: Place
    regions: Regions
    reach: NDArray[np.float64]
    space: Space


def timely(positions: Positions, clock: Clock, bounds: ArrayLike | None) -> Positions:
    """Return updates with the reasons completed by those of a wrong clock, and of given bounds."""
    from pyspark.sql import functions as F

    reason = F.col(REASON)
    if np.isfinite(clock.ahead_after):
        ahead = clock.scale.column(F.col("t")) > F.lit(clock.ahead_after)
        reason = F.coalesce(reason, F.when(ahead, F.lit(AHEAD)))
    if bounds is not None:
        xmin, ymin, xmax, ymax = np.asarray(bounds, dtype=np.float64).tolist()
        inside = F.col("x").between(xmin, xmax) & F.col("y").between(ymin, ymax)
        reason = F.coalesce(reason, F.when(~inside, F.lit(OUTSIDE)))
    return replace(positions, frame=positions.frame.withColumn(REASON, reason))


def collect(positions: Positions, target: Target, carried: list[str]) -> tuple[Arrivals, Profile]:
    """Return the latest row of each id among the good updates, sent, and what was seen of all rows. An action."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    frame = positions.frame
    observation = Observation("updates")
    marked = frame if DELETED in frame.columns else frame.withColumn(DELETED, F.lit(False))
    good = marked.observe(observation, *measures(positions)).where(F.col(REASON).isNull())
    rows = good.select("id", "t", DELETED, "x", "y", *map(exactly, carried))
    if _estimated_bytes(rows) <= BYTES_HERE:
        sent = [send(target.place, rows.toArrow().to_batches(), carried, target.regions, target.reach, target.space)]
    else:
        sent = _in_tasks(rows, target, carried)
    found = [one for one in sent if one is not None]
    return Arrivals.gathered(target.place, found), profile_of(observation.get, NO_SAMPLE, 1)


def _in_tasks(rows: DataFrame, target: Target, carried: list[str]) -> list[tuple[Parcels, pa.Table] | None]:
    from pyspark.sql import functions as F

    tasks = max(cores(rows.sparkSession), rows.rdd.getNumPartitions())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = send(target.place, batches, carried, target.regions, target.reach, target.space)
        if made is not None:
            parcels, ids = made
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, ids.schema) as writer:
                writer.write_table(ids)
            packed = pa.array([pickle.dumps(parcels)], pa.binary())
            yield pa.record_batch([packed, pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["p", "ids"])

    shuffled = rows.repartitionById(tasks, by_hash(F.col("id"), tasks))
    made = shuffled.mapInArrow(settled(run), "p binary, ids binary").toArrow()
    found: list[tuple[Parcels, pa.Table] | None] = []
    for one in made.to_pylist():
        found.append((pickle.loads(one["p"]), pa.ipc.open_stream(one["ids"]).read_all()))
    return found


def _estimated_bytes(frame: Any) -> int:
    """Return how large Spark expects rows to be; very large where it does not know."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
