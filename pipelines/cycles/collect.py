"""Updates as they are read, once: judged, the latest of each id, and sent to partitions.

What a task sees of updates before it lets bad ones go: how many, why, where and when the good ones are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from dtoss.geometry.space import Space
from dtoss.partition import numbers as arrow_of
from dtoss.partitioning.regions import Regions
from dtoss.rows.incoming import screen_bounds, screen_clock
from dtoss.rows.input_columns import DELETED, REASON, REASONS
from dtoss.rows.store_clock import Clock, Scale
from pipelines.cycles.arrivals import Arrivals, Parcels, Place, send
from pipelines.engines.local_rows import rows_of_batches
from pipelines.engines.spark_rows import SparkRows, done_by_all
from pipelines.rows.position_frame import Positions
from pipelines.rows.screened_frame import Tally, part_good
from pipelines.rows.survey import Profile, task_count
from pipelines.spark.session import cores

NO_SAMPLE = pa.Table.from_batches([], pa.schema([("x", pa.float64()), ("y", pa.float64())]))
"""Of updates, which are not sampled."""


def tally_updates(rows: pa.Table, scale: Scale, ahead_after: float) -> tuple[pa.Table, Tally]:
    """Return the good rows, without the column of reasons, and what was seen of all. Cost O(n)."""
    kept, seen = [], Tally()
    screen = screen_clock(scale, ahead_after) if np.isfinite(ahead_after) else None
    for batch in rows.to_batches():
        if screen is not None:
            batch = screen(batch)
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
    return replace(positions, frame=positions.frame.then(screen_bounds(bounds)))


def timely(positions: Positions, clock: Clock) -> Positions:
    """Return updates with the reasons completed by that of a wrong clock."""
    if np.isinf(clock.ahead_after):
        return positions
    return replace(positions, frame=positions.frame.then(screen_clock(clock.scale, clock.ahead_after)))


def collect(
    positions: Positions, target: Target, carried: list[str], clock: Clock, few: int
) -> tuple[Arrivals, Profile]:
    """Return the latest row of each id among the good updates, sent, and what was seen of all rows. An action.

    Rows come to this process where they take ``few`` bytes at most. Who sends finds those with a wrong clock.
    """
    done, tasks = _send_latest(positions, target, carried, clock, few)
    arrivals = Arrivals(target.place, tuple(one for one, _ in done if one is not None), tasks)
    return arrivals, profile_of_tallies([tally for _, tally in done], clock.scale)


def _send_latest(
    positions: Positions, target: Target, carried: list[str], clock: Clock, few: int
) -> tuple[list[Sent], int]:
    """Return what becomes of rows, those of an id in one table, and among how many tasks ids are shared."""
    names = ["id", "t", DELETED, "x", "y", *carried, REASON]

    def choose(rows: pa.RecordBatch) -> pa.RecordBatch:
        if DELETED not in rows.schema.names:
            rows = rows.append_column(DELETED, arrow_of(np.zeros(len(rows), np.bool_)))
        return rows.select(names)

    def send_all(task: int, rows: pa.Table) -> Sent:
        return judge_and_send(task, rows, target, carried, clock) if len(rows) else (None, Tally())

    frame = positions.frame.then(choose)
    rows = frame.all_rows().brought_here(few)
    if isinstance(rows, SparkRows):
        tasks = task_count(0, max(cores(rows.session), rows.source.rdd.getNumPartitions()))
        return done_by_all(rows.exchange_by_hash(tasks, "id"), send_all), tasks
    table = rows.table(frame.schema)
    tasks = task_count(len(table), 1)
    if tasks == 1:
        return [send_all(0, table)], tasks
    shared = rows_of_batches([table.to_batches()]).exchange_by_hash(tasks, "id")
    shares = (pa.Table.from_batches(batches, table.schema) for batches in shared.collect())
    return [send_all(task, some) for task, some in enumerate(shares)], tasks


Sent: TypeAlias = tuple[Parcels | None, Tally]


def judge_and_send(task: int, rows: pa.Table, target: Target, carried: list[str], clock: Clock) -> Sent:
    """Return the latest row of each id among the good ones of a task, sent, and the tally of all."""
    good, tally = tally_updates(rows, clock.scale, clock.ahead_after)
    return send(target.place, task, good.to_batches(), carried, target.regions, target.reach, target.space), tally
