"""What a batch ends by the clock that it has moved: subscriptions whose time is over, objects that were silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.buckets import BUCKETS, bitmap
from dtoss.commits.rejected_rows import sum_counts
from dtoss.watch.processing.batch_rows import order_rows
from dtoss.watch.processing.event_table import RESETS, EventWriter, coded, kinds_of
from dtoss.watch.processing.last_rows import Run
from dtoss.watch.processing.object_rows import kept_state, known_of, tracks_of
from dtoss.watch.processing.pair_events import pairs_after
from dtoss.watch.processing.stays import with_stays
from dtoss.watch.processing.transitions import EXPIRED, write_events
from dtoss.watch.processing.watch_clock import Clock, clock_after, span_of
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, events_of_task


@dataclass(frozen=True)
class Endings:
    """What the clock ends that a batch has moved."""

    clock: Clock
    events: list[dict[str, Any]]  # What a commit says of the files in which it is told, pairs first
    state: list[dict[str, Any]]  # The runs after the batch, as a commit says them
    counts: Mapping[str, int]
    objects: int  # How many objects are over, or have stayed for long enough


def end_of(plan: Plan, done: Sequence[TaskResult]) -> Endings:
    """Return what ends with a batch: subscriptions, then objects that were silent for too long by the clock after it.

    Rows of the batch are judged by the clock before it, and may be earlier than what the last ones of it end. Cost
    O(objects) for a look at their times, where some may expire.
    """
    done = sorted(done, key=lambda one: one.task)
    options = plan.options
    span = span_of(options.expire)
    clock = clock_after(plan.by_rows, [one.heard for one in done], options.witnesses, span, plan.clock_us)
    state = state_after(plan, done)
    last = max((one.task for one in done), default=-1) + 1
    after = replace(plan, clock=clock.now, by_rows=clock, state=tuple(Run.of(one) for one in state))
    file, out = events_of_task(after, last + 1)
    over = np.zeros(0, np.int64) if clock.now is None else plan.standing.ended_between(plan.clock, clock.now)
    write_resets(plan.standing.table.take(pa.array(over)), pa.repeat(EXPIRED, len(over)), out)
    counts, objects, silent = {"reset": len(over)}, 0, None
    stays = plan.standing.stays is not None
    if plan.timed and (options.expire is not None or stays):
        placed = order_rows(plan.settings.no_rows)
        expiring, due = options.expire is not None, clock.now if stays else None
        known = known_of(after, np.arange(BUCKETS), placed.objects, expiring, due)
        objects = len(known.before)
        if objects:
            tracks = with_stays(after, tracks_of(after, placed, known), clock.now)
            # what a task has written a moment ago is not written again
            kept = kept_state(after, tracks, known, merges=not any(one.state is not None for one in done))
            told = TaskResult(last, None, kept.entry, None, kept.written, np.arange(BUCKETS), kept.stay)
            silent = known.before.take(np.flatnonzero(known.expired))
            state, clock = state_after(after, [told]), clock.without(silent.t)
            counts |= {"expired": len(silent), **write_events(after, tracks, out)}
    events = [file.close(plan.home.folder)]
    if plan.standing.pairs:
        file, out = events_of_task(after, last)
        pairs = pairs_after(plan, [one.moves for one in done if one.moves is not None], silent, clock.now, out)
        state += [] if pairs.run is None else [pairs.run]
        counts = sum_counts([counts, pairs.counts])
        events.insert(0, file.close(plan.home.folder))
    return Endings(clock, [one for one in events if one is not None], state, counts, objects)


def worth_a_commit(plan: Plan, done: Sequence[TaskResult]) -> Endings | None:
    """Return what ends with a batch; None where it has no rows, and nothing to commit."""
    ended = end_of(plan, done)
    if plan.files != plan.before or any(one.events is not None or one.state is not None for one in done):
        return ended
    return ended if plan.source.files or plan.source.query or ended.events or ended.objects else None


def state_after(plan: Plan, done: Sequence[TaskResult]) -> list[dict[str, Any]]:
    """Return the runs of the state after tasks, oldest first, with the buckets that each counts for."""
    runs = []
    for number, run in enumerate(plan.state):
        left = run.buckets
        for one in done:
            if one.stay <= number:
                left = np.setdiff1d(left, one.buckets)
        if len(left):
            runs.append(
                {"name": run.name, "rows": run.rows, "bytes": run.bytes, "sha256": run.sha256, "buckets": bitmap(left)}
            )
    runs += [one.state | {"buckets": bitmap(one.written)} for one in done if one.state is not None]
    return runs


def write_resets(gone: pa.Table, why: pa.Array, out: EventWriter) -> None:
    """Write that all memberships of subscriptions end, in the order of their ids."""
    if len(gone) == 0:
        return
    whole = gone.append_column("why", why)
    whole = whole.sort_by([("id", "ascending"), ("version", "ascending")]).combine_chunks()
    rows = np.arange(len(whole))
    out.add(
        {
            "kind": kinds_of(np.full(len(whole), RESETS)),
            "subscription": coded([whole.column("id").combine_chunks()], rows),
            "version": whole.column("version"),
            "reason": whole.column("why").combine_chunks().dictionary_encode(),
            "meta": coded([whole.column("meta").combine_chunks()], rows),
        }
    )
