"""A batch ends what is over by its clock and becomes visible: one commit names its events and the state after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS, bitmap
from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import check_bad, sum_counts
from dtoss.commits.ledger_runs import read_ledger, write_ledger
from dtoss.watch.index.large_and_small import standing_of
from dtoss.watch.processing.event_table import RESETS, EventWriter, coded, kinds_of
from dtoss.watch.processing.last_rows import Run
from dtoss.watch.processing.object_rows import kept_state, known_of, order_rows, tracks_of
from dtoss.watch.processing.pair_events import pairs_after
from dtoss.watch.processing.stays import with_stays
from dtoss.watch.processing.transitions import EXPIRED, write_events
from dtoss.watch.processing.watch_clock import Clock, clock_after, span_of
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, events_of_task
from dtoss.watch.subscriptions.current import changes_between
from dtoss.watch.watch_folder import WATCH_FORMAT, WATCH_KIND

TOLD_UNANSWERED = 1000
"""Subscriptions that a commit names with the reason why rows cannot be held against them."""


def commit_batch(
    plan: Plan,
    done: Sequence[TaskResult],
    offsets: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
    ended: Endings | None = None,
    forgotten: int = 0,
) -> Commit:
    """Commit a batch of which all tasks are done, and return its commit.

    What the rows of a batch end is told in it, behind its events: see :func:`end_of`.

    ``done``: what the tasks have done, in any order; none of a beat without tasks is missing.
    """
    done = sorted(done, key=lambda one: one.task)
    reasons = sum_counts([one.reasons for one in done])
    told = sum_counts([one.counts for one in done])
    rows = told.get("rows", 0) + sum(reasons.values()) - told.get("ahead", 0)
    check_bad(rows, reasons, plan.options.max_bad)
    reset = _resets(plan)
    ended = ended or end_of(plan, done)
    counts = sum_counts([*(one.counts for one in done), ended.counts])
    counts["reset"] += 0 if reset is None else reset["rows"]
    counts |= {"forgotten": forgotten} if forgotten else {}
    before = plan.document_before()
    folder, read = plan.home.folder, before.get("ledger")
    document = {
        "kind": WATCH_KIND,
        "format": WATCH_FORMAT,
        "settings": plan.settings.as_json(),
        "ledger": write_ledger(folder, plan.source.read(read_ledger(folder, read)), read),
        "batch": {
            "query": plan.source.query,
            "batch": plan.source.batch,
            "wall_us": plan.now_us,
            **plan.source.refusals(),
        },
        "changes": plan.changes,
        "standing": {} if plan.files is None else plan.files.as_json(),
        "clock": ended.clock.now,
        "clock_before": plan.clock,
        "witnesses": ended.clock.as_json(),
        "events": [one for one in (reset, *(task.events for task in done), *ended.events) if one is not None],
        "state": ended.state,
        "quarantine": [task.rejected for task in done if task.rejected is not None],
        "counts": counts,
        "reasons": reasons,
        "totals": sum_counts([before.get("totals", {}), counts]),
        "folded": before.get("folded"),
        "expire": plan.options.expire,
        "carry": list(plan.options.carry),
        "offsets": dict(offsets or {}),
        **_unanswered(plan),
        **(more or {}),
    }
    return plan.home.batches.append(document, plan.after)


def _resets(plan: Plan) -> dict[str, Any] | None:
    """Write that memberships end: of subscriptions that were changed or removed."""
    if plan.after is None or plan.changes == plan.changes_before or plan.before is None:
        return None
    delta = changes_between(plan.home, plan.changes_before, plan.changes)
    old = standing_of(plan.home, plan.before)
    if delta.replaced:
        rows = np.flatnonzero(old.stands)
        still = plan.standing.table.take(pa.array(np.flatnonzero(plan.standing.stands)))
        rows = _not_the_same(old.table, rows, still)
    else:
        rows = _not_the_same(old.table, old.rows_of(delta.removed), delta.table)
    rows = rows[old.alive(plan.clock)[rows]]
    gone = old.table.take(pa.array(rows))
    again = pa.array(_stands_again(plan, gone))
    file, out = events_of_task(plan, -1)
    write_resets(gone, pc.if_else(again, "changed", "removed"), out)
    return file.close(plan.home.folder)


def _stands_again(plan: Plan, gone: pa.Table) -> NDArray[np.bool_]:
    """Return which subscriptions stand with another version."""
    standing = plan.standing
    rows = standing.rows_of(pc.unique(gone.column("id").combine_chunks()))
    now = standing.table.column("id").combine_chunks().take(pa.array(rows))
    return np.asarray(pc.is_in(gone.column("id"), value_set=now)).astype(np.bool_)


def _not_the_same(table: pa.Table, rows: NDArray[np.int64], still: pa.Table) -> NDArray[np.int64]:
    """Return those of some rows whose id and version stand no more."""
    at = pc.index_in(
        table.column("id").combine_chunks().take(pa.array(rows)), value_set=still.column("id").combine_chunks()
    )
    at = np.asarray(pc.fill_null(at, -1)).astype(np.int64)
    versions = still.column("version").to_numpy()
    mine = table.column("version").to_numpy()[rows]
    same = at >= 0
    same[same] = versions[at[same]] == mine[same]
    return rows[~same]


def _unanswered(plan: Plan) -> dict[str, Any]:
    found = plan.standing.unanswered
    return {
        "unanswered_count": len(found),
        "unanswered": [{"id": one.id, "reason": one.reason} for one in found[:TOLD_UNANSWERED]],
    }


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
