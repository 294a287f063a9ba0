"""A batch becomes visible: one commit names its events, the state after, and what it has read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.buckets import bitmap
from dtoss.commits.chain import Commit
from dtoss.commits.ledger import Ledger
from dtoss.errors import InputError
from dtoss.watch.asked.live import changes_between
from dtoss.watch.built.standing import standing_of
from dtoss.watch.stream.event_table import RESETS, EventFile, EventWriter, coded, event_schema, kinds_of
from dtoss.watch.stream.histogram import added
from dtoss.watch.stream.plan import WATCH_KIND, Plan
from dtoss.watch.stream.task import Done, summed

WATCH_DOCUMENT_FORMAT = 1
TOLD_UNANSWERED = 1000
"""Subscriptions that a commit names with the reason why rows cannot be held against them."""


def commit_batch(
    plan: Plan,
    done: Sequence[Done],
    offsets: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> Commit:
    """Commit a batch of which all tasks are done, and return its commit.

    Parameters
    ----------
    plan
        Of the batch.
    done
        What the tasks have done, in any order; none of a beat without tasks is missing.
    offsets
        What the source says of its rows, for who looks.
    more
        What else the commit says, such as how rows were spread over workers.

    Raises
    ------
    Conflict
        If another one has committed meanwhile: the batch counts for nothing.
    InputError
        If more rows are bad than are borne.
    OSError
        If it cannot be written.
    """
    done = sorted(done, key=lambda one: one.task)
    counts = summed([one.counts for one in done])
    reasons = summed([one.reasons for one in done])
    _check_bad(plan, counts, reasons)
    reset = _resets(plan)
    counts["reset"] = 0 if reset is None else reset["rows"]
    before = plan.document_before()
    document = {
        "kind": WATCH_KIND,
        "format": WATCH_DOCUMENT_FORMAT,
        "settings": plan.settings.as_json(),
        "ledger": plan.source.read(Ledger.of(before.get("ledger"))).as_json(),
        "batch": {"query": plan.source.query, "batch": plan.source.batch, "wall_us": plan.now_us},
        "changes": plan.changes,
        "standing": {} if plan.files is None else plan.files.as_json(),
        "clock": _clock(plan, done),
        "clock_before": plan.clock,
        "events": [one for one in (reset, *(task.events for task in done)) if one is not None],
        "state": _state(plan, done),
        "quarantine": [task.rejected for task in done if task.rejected is not None],
        "counts": counts,
        "reasons": reasons,
        "totals": summed([before.get("totals", {}), counts]),
        "folded": before.get("folded"),
        "expire": plan.options.expire,
        "carry": list(plan.options.carry),
        "offsets": dict(offsets or {}),
        **_unanswered(plan),
        **(more or {}),
    }
    return plan.home.batches.append(document, plan.after)


def worth_a_beat(plan: Plan, done: Sequence[Done]) -> bool:
    """Return whether a batch without rows has something to commit."""
    if plan.files != plan.before or any(one.events is not None or one.state is not None for one in done):
        return True
    if plan.source.files or plan.source.query:
        return True
    return len(_expired(plan)) > 0


def _check_bad(plan: Plan, counts: Mapping[str, int], reasons: Mapping[str, int]) -> None:
    bad = sum(reasons.values())
    rows = counts.get("rows", 0) + bad - counts.get("ahead", 0)
    if bad > plan.options.max_bad * rows:
        worst = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda x: -x[1])[:3])
        raise InputError(
            f"{bad:,} of {rows:,} rows are bad ({worst}), and --max-bad bears {plan.options.max_bad:.0%}: nothing of "
            "this batch counts; mend the rows, or bear more"
        )


def _clock(plan: Plan, done: Sequence[Done]) -> int | None:
    median = added([one.histogram for one in done if one.histogram is not None]).median
    if median is None or plan.clock is None:
        return plan.clock if median is None else median
    return max(plan.clock, median)


def _state(plan: Plan, done: Sequence[Done]) -> list[dict[str, Any]]:
    """Return the runs of the state, oldest first, with the buckets that each counts for."""
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


def _expired(plan: Plan) -> NDArray[np.int64]:
    """Return the rows of what stands whose time ended since the commit before began."""
    if plan.clock is None or plan.after is None:
        return np.zeros(0, np.int64)
    standing = plan.standing
    since = np.iinfo(np.int64).min if plan.clock_before is None else plan.clock_before
    over = standing.stands & (standing.expires > since) & (standing.expires <= plan.clock)
    return np.flatnonzero(over & (standing.versions <= plan.changes_before))


def _resets(plan: Plan) -> dict[str, Any] | None:
    """Write that memberships end: of subscriptions that were changed or removed, and of those that expire."""
    if plan.after is None:
        return None
    parts: list[tuple[pa.Table, str]] = []
    if plan.changes != plan.changes_before and plan.before is not None:
        delta = changes_between(plan.home, plan.changes_before, plan.changes)
        old = standing_of(plan.home, plan.before)
        alive = old.alive(plan.clock_before)
        if delta.replaced:
            rows = np.flatnonzero(old.stands)
            still = plan.standing.table.take(pa.array(np.flatnonzero(plan.standing.stands)))
            rows = _not_the_same(old.table, rows, still)
        else:
            rows = _not_the_same(old.table, old.rows_of(delta.removed), delta.table)
        rows = rows[alive[rows]]
        gone = old.table.take(pa.array(rows))
        again = _stands_again(plan, gone)
        parts += [(gone.filter(pa.array(again)), "changed"), (gone.filter(pa.array(~again)), "removed")]
    over = _expired(plan)
    parts.append((plan.standing.table.take(pa.array(over)), "expired"))
    whole = pa.concat_tables(
        [table.append_column("why", pa.array([why] * len(table), pa.string())) for table, why in parts]
    )
    if len(whole) == 0:
        return None
    whole = whole.sort_by([("id", "ascending"), ("version", "ascending")]).combine_chunks()
    file = EventFile(event_schema(plan.settings, plan.options.carry), plan.home.limits.event_group_rows)
    out = EventWriter(file.schema, plan.number, 0, file.keep)
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
