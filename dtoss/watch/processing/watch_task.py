"""A task of a batch: rows of some buckets in; events, the rows before of these objects, and counts out.

The only state is the row before of each object. A row that a subscription holds, and the row before that it does not,
is an enter; the reverse is a leave. A subscription that is younger than the row before does not count it.

What a task has heard of its objects: how far they have come, which is what moves the clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.columnar_files import REJECTED, encode_rejected
from dtoss.commits.file_entry import write_entry
from dtoss.watch.processing.event_table import EventFile, EventWriter, event_schema
from dtoss.watch.processing.object_rows import (
    Kept,
    KnownRows,
    Tracks,
    as_before,
    kept_state,
    known_of,
    order_rows,
    tracks_of,
)
from dtoss.watch.processing.pair_events import moves_of
from dtoss.watch.processing.stays import with_stays
from dtoss.watch.processing.transitions import by_id, write_events, write_messages
from dtoss.watch.processing.watch_clock import NOTHING_HEARD, Clock, Heard, Histogram, histogram_of, span_of
from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.watch_folder import QUARANTINED
from dtoss.watch.watch_settings import Rows

AHEAD_OF_CLOCK = "time ahead of the clock"


class WordCounts(NamedTuple):
    """How many rows say a word in a routing cell, where rows are spread over workers by words."""

    # cell, word, rows: int64 (s,), rising by cell, then by word: the number of each, and how many rows
    cell: NDArray[np.int64]
    word: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class TaskResult:
    """What a task has done; small, and pickled."""

    task: int
    # events, state, rejected: what a commit says of the files; None where there is none
    events: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    rejected: dict[str, Any] | None = None
    # int64. Buckets that the new run has rows of
    written: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    buckets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # int64. Those of the task
    # Runs of the commit before, the oldest, of which the new run has no rows; of the others it has all rows in the
    # buckets of the task
    stay: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)  # Rows that were set aside, by reason
    heard: Heard = field(default_factory=Heard)  # How far its objects have come in time
    seconds: float = 0.0
    said: WordCounts | None = None  # What its rows say, where strategies want to know
    moves: pa.Table | None = None  # Where objects have moved, where somebody asks for pairs


@dataclass(frozen=True)
class JudgedRows:
    """What a task knows before any event is told."""

    done: TaskResult
    rows: Rows  # That events are told of, in their order; of objects that are followed those of ``tracks``
    tracks: Tracks | None  # None where rows are messages


def run_task(
    plan: Plan,
    task: int,
    buckets: NDArray[np.int64],
    rows: Rows,
    raw: pa.Array | None = None,
    bad: pa.Table | None = None,
) -> TaskResult:
    """Return what a task has done; its files are there, and count for nothing until a commit names them.

    ``task``: the number of the task, from 0 on; ``buckets``: int64. Those that the task has, rising, also where they
    have no row; ``rows``: of these buckets, in any order; legal positions only; ``raw``: (n,). Each row as it was read,
    for the quarantine; None leaves it out.

    Costs O(n log n + m) for n rows with m matches, and with ``expire`` a look at the time of each object. Memory
    grows with the rows, and not with the matches.
    """
    begun = time.perf_counter()
    judged = judge(plan, task, buckets, rows, raw, bad)
    file, out = events_of_task(plan, task)
    if judged.tracks is not None:
        told = write_events(plan, judged.tracks, out)
    else:
        told = write_messages(plan, judged.rows, out)
    return told_of(plan, judged.done, file, told, time.perf_counter() - begun)


def judge(
    plan: Plan,
    task: int,
    buckets: NDArray[np.int64],
    rows: Rows,
    raw: pa.Array | None = None,
    bad: pa.Table | None = None,
) -> JudgedRows:
    """Return which rows of a task count, with the rows before; what is kept and set aside is written."""
    counts = {"rows": len(rows), "ahead": 0}
    rejected = [] if bad is None or len(bad) == 0 else [bad.cast(REJECTED)]
    if rows.t is not None and plan.options.max_ahead is not None:
        ahead = rows.t > plan.now_us + plan.options.max_ahead
        if ahead.any():
            counts["ahead"] = int(ahead.sum())
            rejected.append(_set_aside(rows, raw, np.flatnonzero(ahead)))
            rows = rows.take(np.flatnonzero(~ahead))
    kept, tracks, moves = Kept(None, np.zeros(0, np.int64), len(plan.state)), None, None
    if plan.timed:
        placed = order_rows(rows)
        known: KnownRows = known_of(plan, buckets, placed.objects, expiring=plan.options.expire is not None)
        if plan.options.lacking:
            placed = as_before(placed, known.before, plan.options.lacking)
        tracks = with_stays(plan, tracks_of(plan, placed, known))
        counts |= {**tracks.counts, "tied": placed.tied}
        counts["repeated"] += placed.repeated
        kept = kept_state(plan, tracks, known)
        moves = moves_of(plan, tracks)
        rows = tracks.rows
        heard = heard_of(plan.by_rows, span_of(plan.options.expire), tracks)
    else:
        rows = rows.take(by_id(rows))
        heard = heard_messages(plan.by_rows, rows)
    whole = pa.concat_tables(rejected) if rejected else None
    reasons: dict[str, int] = {}
    if whole is not None:
        for one in whole.column("reason").value_counts().to_pylist():
            reasons[one["values"]] = one["counts"]
    set_aside = None if whole is None else _quarantined(plan, whole)
    done = TaskResult(task, None, kept.entry, set_aside, kept.written, buckets, kept.stay, counts, reasons, heard)
    done = replace(done, moves=moves)
    return JudgedRows(done, rows, tracks)


def events_of_task(plan: Plan, task: int) -> tuple[EventFile, EventWriter]:
    """Return the file of a task's events, and what numbers them."""
    schema = event_schema(plan.settings, plan.options.carry, plan.standing.crosses, bool(plan.standing.pairs))
    file = EventFile(schema, plan.home.limits.event_group_rows)
    return file, EventWriter(file.schema, plan.number, task + 1, file.keep)


def told_of(plan: Plan, done: TaskResult, file: EventFile, told: Mapping[str, int], seconds: float) -> TaskResult:
    """Return what a task has done once its events are told: the file is written, and they are counted."""
    return replace(done, events=file.close(plan.home.folder), counts={**done.counts, **told}, seconds=seconds)


def _set_aside(rows: Rows, raw: pa.Array | None, at: NDArray[np.int64]) -> pa.Table:
    taken = pa.array(at)
    texts = pa.nulls(len(at), pa.large_string()) if raw is None else raw.take(taken).cast(pa.large_string())
    return pa.table(
        {"reason": pa.repeat(pa.scalar(AHEAD_OF_CLOCK, pa.large_string()), len(at)), "row": texts}, schema=REJECTED
    )


def _quarantined(plan: Plan, rows: pa.Table) -> dict[str, Any]:
    return write_entry(plan.home.folder, encode_rejected(rows), len(rows), "parquet", QUARANTINED)


def heard_of(clock: Clock, span: int, tracks: Tracks) -> Heard:
    """Return what a task has heard of objects that are followed. Cost O(n log n).

    ``span``: for how long an object counts, in microseconds.
    """
    t = tracks.rows.t
    assert t is not None
    firsts, lasts = tracks.begin[:-1], tracks.begin[1:] - 1
    came, known = ~tracks.before[lasts], tracks.before[firsts]
    gone_on = 0
    if clock.moment is not None and len(t):
        held = int(clock.moment.held)
        past = np.maximum(t, held)
        earlier = np.append(held, past[:-1])
        earlier[firsts[~known]] = held
        steps = past - earlier
        steps[tracks.before | (steps > span)] = 0
        gone_on = int(np.add.reduceat(steps, firsts).max())
    left = clock.histogram(t[firsts[known]])
    return _sum_up(clock, t[lasts[came]], left, tracks.behind, gone_on)


def heard_messages(clock: Clock, rows: Rows) -> Heard:
    """Return what a task has heard in rows that follow no others: each id is an object, and each row without one."""
    if rows.t is None:
        return Heard()
    last = np.ones(len(rows), np.bool_)
    if rows.ids is not None and len(rows) > 1:
        last[:-1] = np.asarray(pc.fill_null(pc.not_equal(rows.ids[1:], rows.ids[:-1]), True))
    return _sum_up(clock, rows.t[last], NOTHING_HEARD, np.zeros(0, np.int64), 0)


def _sum_up(clock: Clock, t: NDArray[np.int64], left: Histogram, over: NDArray[np.int64], gone_on: int) -> Heard:
    """Return what was heard, of last times of objects that have rows, and of those whose rows were all over."""
    behind = histogram_of(np.concatenate([over, t[t < clock.edge]]))
    return Heard(clock.histogram(t), left, behind, gone_on)
