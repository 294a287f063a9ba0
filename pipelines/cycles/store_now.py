"""What time it is by the rows of a store: the time that enough of its objects have reached, with what has arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtoss.partition import Partition
from dtoss.rows.store_clock import Scale
from dtoss.witnesses import Lasts, Moment, move_clock, overrule, witnesses_of
from pipelines.cycles.arrivals import Arrivals
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
    """What a partition says of its objects."""

    latest: NDArray[np.float64]  # float64. The latest times of those that count and have no newer update
    count: int  # How many of them there are
    # older, newer: int32. Updates of its objects that are no newer than the object, and others
    older: NDArray[np.int32]
    newer: NDArray[np.int32]
    gone_on: float  # How long one of those with a newer update has gone on, the longest


def hear_times(plan: CyclePlan, asked: HeardQuery, numbers: Sequence[int]) -> list[HeardTimes]:
    """Return what partitions say of when their objects were heard of. Cost O(n log u)."""
    times = _times_of(plan.arrivals, plan.scale)
    return [
        _seen(partition, update, times, plan.scale, asked)
        for partitions in standing_together(plan, numbers, compared=False)
        for partition, update in zip(partitions, updates_of(partitions, plan.arrivals), strict=True)
    ]


def _seen(
    partition: Partition, update: NDArray[np.int32], times: NDArray[np.float64], scale: Scale, asked: HeardQuery
) -> HeardTimes:
    assert partition.times is not None  # the job has seen to it
    owned = partition.owned_objects
    stands = scale.numbers(partition.times.slice(0, owned))
    counts = stands >= asked.since
    rows = np.flatnonzero(update[:owned] >= 0)
    came = update[rows]
    newer = times[came] > stands[rows]
    counts[rows[newer]] = False
    gone_on = _gone_on(times[came[newer]], stands[rows[newer]], asked)
    latest = stands[counts]
    if len(latest) > asked.most:
        latest = np.partition(latest, len(latest) - asked.most)[len(latest) - asked.most :]
    return HeardTimes(latest, int(counts.sum()), came[~newer], came[newer], gone_on)


def _times_of(arrivals: Arrivals, scale: Scale) -> NDArray[np.float64]:
    """Return the time of each update by its number."""
    times = np.empty(len(arrivals))
    if len(arrivals):
        times[arrivals.ids.column("number").to_numpy()] = scale.numbers(arrivals.ids.column("t").combine_chunks())
    return times


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
) -> Moment | None:
    """Return what time it is once updates have arrived, in numbers of the scale; None where nothing was heard of.

    ``before``: what time it was; None where no witnesses were asked for before; ``witnesses``: how many objects have to
    reach a time: a share such as "1%", or a count such as "3"; ``expire``: seconds after which an object goes; None for
    never.
    """
    if len(arrivals) == 0 and before is not None:
        return before
    times = _times_of(arrivals, scale)
    span = scale.span(USUAL_SPAN if expire is None else expire)
    while True:
        since, held = (-np.inf, np.inf) if before is None else (before.now - span, before.held)
        asked = HeardQuery(since, held, span, witnesses_of(witnesses, objects + len(arrivals)))
        found = look(asked)
        newer = np.ones(len(times), np.bool_)
        for one in found:
            newer[one.older] = False
        counts = newer & (times >= since)
        latest = np.sort(np.concatenate([times[counts], *(one.latest for one in found)]))
        more = sum(one.count - len(one.latest) for one in found)
        lasts = Lasts(latest, np.ones(len(latest), np.int64), more)
        behind = np.sort(times[newer & ~counts])
        right = overrule(before, lasts, Lasts(behind, np.ones(len(behind), np.int64)), witnesses)
        if right is None:
            break
        before = right
    for one in found:
        counts[one.newer] = False
    # what is left has come for the first time
    ways = [_gone_on(times[counts], np.full(int(counts.sum()), held), asked), *(one.gone_on for one in found)]
    return move_clock(before, lasts, max(ways), witnesses, span)


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
