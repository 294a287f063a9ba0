"""What time it is by the rows of a store: the time that enough of its objects have reached, with what has arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.partition import Partition, values_of
from dtoss.rows.store_clock import Scale
from dtoss.witnesses import Lasts, Moment, move_clock, overrule, witnesses_of
from pipelines.cycles.arrivals import Arrivals, Batches
from pipelines.cycles.merge_tasks import CyclePlan, standing_together
from pipelines.cycles.newer_updates import updates_of

USUAL_SPAN = 3600.0
"""Seconds for which an object counts where none expires."""


@dataclass(frozen=True)
class HeardQuery:
    """What partitions are asked for; moments are numbers of the store's scale."""

    since: float  # Objects count that were heard of then or later
    held: float  # The time that the witnesses have reached; infinity where that is not known
    span: float  # How long an object counts
    most: int  # The latest times that may be asked for


@dataclass(frozen=True)
class HeardTimes:
    """What some partitions say of their objects."""

    latest: str  # The file of the latest times of those that count and have no newer update, float64
    count: int  # How many of them there are
    # As ``Compared.verdicts``: which updates of their objects are newer than the object (1), and which are not (-1)
    verdicts: Batches | None
    gone_on: float  # How long one of those with a newer update has gone on, the longest


def hear_times(plan: CyclePlan, asked: HeardQuery, numbers: Sequence[int]) -> list[HeardTimes]:
    """Return what partitions say of when their objects were heard of, in one. Cost O(n log u)."""
    seen = [
        _seen(partition, update, plan, asked)
        for partitions in standing_together(plan, numbers, compared=False)
        for partition, update in zip(partitions, updates_of(partitions, plan.arrivals), strict=True)
    ]
    latest, came, order = (np.concatenate(some) for some in list(zip(*seen, strict=True))[:3])
    kept = _latest_of(latest, asked.most)
    file = plan.arrivals.place.write("latest", pa.py_buffer(kept))
    said = plan.arrivals.write_by_file("heard", came, order)
    return [HeardTimes(file, sum(one[3] for one in seen), said, max(one[4] for one in seen))]


def _seen(
    partition: Partition, update: NDArray[np.int64], plan: CyclePlan, asked: HeardQuery
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int8], int, float]:
    assert partition.times is not None  # the job has seen to it
    owned = partition.owned_objects
    stands = plan.scale.numbers(partition.times.slice(0, owned))
    counts = stands >= asked.since
    rows = np.flatnonzero(update[:owned] >= 0)
    came, times = update[rows], np.empty(0)
    if len(rows):
        times = plan.scale.numbers(plan.arrivals.known(came, ["t"]).column("t").combine_chunks())
    newer = times > stands[rows]
    counts[rows[newer]] = False
    gone_on = _gone_on(times[newer], stands[rows[newer]], asked)
    order = np.where(newer, 1, -1).astype(np.int8)
    return _latest_of(stands[counts], asked.most), came, order, int(counts.sum()), gone_on


def _latest_of(times: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    return times if len(times) <= most else np.partition(times, len(times) - most)[len(times) - most :]


def _gone_on(times: NDArray[np.float64], before: NDArray[np.float64], asked: HeardQuery) -> float:
    if not np.isfinite(asked.held):
        return 0.0
    steps = np.maximum(times, asked.held) - np.maximum(before, asked.held)
    return float(np.max(steps, where=steps <= asked.span, initial=0.0))


def moment_after(
    before: Moment | None,
    arrivals: Arrivals,
    objects: int,
    scale: Scale,
    witnesses: str,
    expire: float | None,
    look: Callable[[HeardQuery], Sequence[HeardTimes]],
    alone: Callable[[Callable[[], Moved]], Moved],
) -> Moment | None:
    """Return what time it is once updates have arrived, in numbers of the scale; None where nothing was heard of.

    ``before``: what time it was; None where no witnesses were asked for before; ``witnesses``: how many objects have to
    reach a time: a share such as "1%", or a count such as "3"; ``expire``: seconds after which an object goes; None for
    never; ``look``: asks all partitions; ``alone``: does something in one task, as it holds a time an update.
    """
    if len(arrivals) == 0 and before is not None:
        return before
    span = scale.span(USUAL_SPAN if expire is None else expire)
    while True:
        since, held = (-np.inf, np.inf) if before is None else (before.now - span, before.held)
        asked = HeardQuery(since, held, span, witnesses_of(witnesses, objects + len(arrivals)))
        right, moved = alone(partial(moved_by, before, arrivals, scale, witnesses, asked, look(asked)))
        if right is None:
            return moved
        before = right


Moved: TypeAlias = tuple[Moment | None, Moment | None]


def moved_by(
    before: Moment | None,
    arrivals: Arrivals,
    scale: Scale,
    witnesses: str,
    asked: HeardQuery,
    found: Sequence[HeardTimes],
) -> Moved:
    """Return what time it was if the moment before was wrong, and else what time it is. Cost O(u log u)."""
    times, first, newer = [np.empty(0)], [np.empty(0, np.bool_)], [np.empty(0, np.bool_)]
    for file in range(len(arrivals.parcels)):
        times.append(scale.numbers(arrivals.ids(file).column("t").combine_chunks()))
        order = np.zeros(len(times[-1]), np.int8)
        for batch in arrivals.said_of(file, [one.verdicts for one in found]):
            order[values_of(batch.column("row"))] = values_of(batch.column("order"))
        first.append(order == 0)
        newer.append(order >= 0)
    came, fresh = np.concatenate(times), np.concatenate(newer)
    counts = fresh & (came >= asked.since)
    stand = [np.frombuffer(arrivals.place.read(one.latest), np.float64) for one in found]
    latest = np.sort(np.concatenate([came[counts], *stand]))
    more = sum(one.count for one in found) - sum(map(len, stand))
    lasts = Lasts(latest, np.ones(len(latest), np.int64), more)
    behind = np.sort(came[fresh & ~counts])
    right = overrule(before, lasts, Lasts(behind, np.ones(len(behind), np.int64)), witnesses)
    if right is not None:
        return right, None
    begun = came[counts & np.concatenate(first)]
    ways = [_gone_on(begun, np.full(len(begun), asked.held), asked), *(one.gone_on for one in found)]
    return None, move_clock(before, lasts, max(ways), witnesses, asked.span)


def moment_of(manifest: Mapping[str, Any] | None, scale: Scale) -> Moment | None:
    """Return what time it was by the witnesses of a snapshot; None where none were asked for."""
    said = ((manifest or {}).get("clock") or {}).get("witnesses")
    if said is None:
        return None
    now, sure, held = (None if said[name] is None else scale.read(said[name]) for name in ("now", "sure", "held"))
    return None if now is None or held is None else Moment(now, sure, held, said["waits"])


def said_of(moment: Moment, scale: Scale) -> dict[str, Any]:
    """Return what a manifest says of the time by witnesses."""
    found: dict[str, Any] = {name: scale.said(getattr(moment, name)) for name in ("now", "sure", "held")}
    return found | {"waits": moment.waits}
