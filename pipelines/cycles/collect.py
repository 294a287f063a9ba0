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
from dtoss.partitioning.regions import Regions
from pipelines.cycles.arrivals import Arrivals, Parcels, Place, send
from pipelines.cycles.store_clock import Clock, Scale
from pipelines.rows.by_id import by_hash
from pipelines.rows.position_frame import AHEAD, DELETED, OUTSIDE, REASON, REASONS, Positions
from pipelines.rows.survey import Profile
from pipelines.rows.text_types import exactly
from pipelines.spark.by_bucket import collect_small, freeze_imports
from pipelines.spark.session import cores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NO_SAMPLE = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.float64())})
"""Of updates, which are not sampled."""


@dataclass(frozen=True)
class Tally:
    """What was seen of some rows."""

    read: int  # How many there are
    bad: dict[str, int]  # How many of them are bad, by reason
    low: NDArray[np.float64]  # low, high: float64 (2,). The box of the good ones, NaN where there is none
    high: NDArray[np.float64]
    # at_zero, from_360: how many good ones are at (0, 0), and how many longitudes of all are above 180 and up to 360
    at_zero: int
    from_360: int
    first: float | None  # first, last: times of good ones on the store's scale, None where there is none
    last: float | None


NOTHING = Tally(0, {}, np.full(2, np.nan), np.full(2, np.nan), 0, 0, None, None)
"""Of no rows."""


def tally_updates(rows: pa.Table, scale: Scale, ahead_after: float) -> tuple[pa.Table, Tally]:
    """Return the good rows, without the column of reasons, and what was seen of all. Cost O(n)."""
    reasons = rows.column(REASON)
    bad = {}
    good = rows.drop_columns([REASON])
    x = rows.column("x").combine_chunks()
    from_360 = pc.sum(pc.and_(pc.greater(x, 180.0), pc.less_equal(x, 360.0))).as_py() or 0
    if reasons.null_count < len(rows):
        for entry in pc.value_counts(reasons.drop_null()).to_pylist():
            bad[entry["values"]] = entry["counts"]
        good = good.filter(pc.is_null(reasons))
    times = scale.numbers(good.column("t").combine_chunks()) if len(good) else np.empty(0)
    late = times > ahead_after
    if late.any():
        bad[AHEAD] = bad.get(AHEAD, 0) + int(late.sum())
        good, times = good.filter(pa.array(~late)), times[~late]
    if len(good) == 0:
        return good, Tally(len(rows), bad, NOTHING.low, NOTHING.high, 0, from_360, None, None)
    places = [good.column(name).drop_null().to_numpy() for name in ("x", "y")]
    box = [(part.min(), part.max()) if len(part) else (np.nan, np.nan) for part in places]
    zero = int(np.count_nonzero((places[0] == 0.0) & (places[1] == 0.0)))
    low, high = (np.array(edge, dtype=np.float64) for edge in zip(*box, strict=True))
    return good, Tally(len(rows), bad, low, high, zero, from_360, float(times.min()), float(times.max()))


def profile_of_tallies(tallies: Sequence[Tally], scale: Scale) -> Profile:
    """Return the profile of all rows from what tasks have seen of them."""
    bad = {reason: sum(one.bad.get(reason, 0) for one in tallies) for reason in REASONS}
    lows, highs = (np.array([getattr(one, edge) for one in [*tallies, NOTHING]]) for edge in ("low", "high"))
    first = [one.first for one in tallies if one.first is not None]
    last = [one.last for one in tallies if one.last is not None]
    known = ~np.isnan(lows)
    return Profile(
        read=sum(one.read for one in tallies),
        bad=bad,
        low=np.where(known.any(axis=0), np.min(np.where(known, lows, np.inf), axis=0), np.nan),
        high=np.where(known.any(axis=0), np.max(np.where(known, highs, -np.inf), axis=0), np.nan),
        at_zero=sum(one.at_zero for one in tallies),
        from_360=sum(one.from_360 for one in tallies),
        sample=NO_SAMPLE,
        modulus=1,
        first=scale.said(min(first)) if first else None,
        last=scale.said(max(last)) if last else None,
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
