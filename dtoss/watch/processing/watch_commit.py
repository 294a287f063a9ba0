"""A batch becomes visible: one commit names its events, the state after, and what it has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.commits.chain import Commit
from dtoss.commits.ledger_runs import read_ledger, write_ledger
from dtoss.commits.rejected_rows import check_bad, sum_counts
from dtoss.watch.index.large_and_small import standing_of
from dtoss.watch.processing.expiry_events import Endings, end_of, write_resets
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
