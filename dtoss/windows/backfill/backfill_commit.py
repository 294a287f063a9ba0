"""A rebuild becomes visible: one commit names what has changed, with the reason, and the state where that is new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from dtoss.commits.chain import Commit
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.offsets import Source
from dtoss.commits.rejected_rows import check_bad, sum_counts
from dtoss.errors import InputError
from dtoss.windows.backfill.affected_ends import Rebuild
from dtoss.windows.backfill.raw_sources import ReadSources, check_reached
from dtoss.windows.backfill.recount import recount
from dtoss.windows.durations import time_text
from dtoss.windows.processing.panes_task import ReduceResult
from dtoss.windows.processing.window_commit import batch_of, ledger_after, said_of
from dtoss.windows.processing.window_task import MapResult
from dtoss.windows.state.hour_files import hours_of
from dtoss.windows.state.state_files import PARTS
from dtoss.windows.state.state_files_merge import listed_after
from dtoss.windows.storage.spec_file import FixedSpec
from dtoss.windows.storage.window_document import Document, Part, document_of, head_of
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, Place, Plan, plan_batch
from dtoss.windows.watermark import add_counts, horizon_of

REBUILT = "rebuild"
Second = Callable[[Sequence[FileEntry]], Sequence[ReduceResult]]
"""Runs the second step of all parts, of the files of patches."""


def plan_rebuild(
    home: Home,
    fixed: FixedSpec,
    types: tuple[str, str],
    rebuild: Rebuild,
    files: dict[str, int],
    options: Options,
    now_us: int,
    place: int | Place,
) -> Plan:
    """Return the plan of a rebuild: that of a batch, as if nothing had come before.

    ``files``: those that count as read from now on, with their bytes.
    """
    plan = plan_batch(home, fixed, types, Source(files=files), options, now_us, place)
    assert plan is not None
    assert plan.after is not None
    kept_from = hours_of(home, document_of(home, plan.after)).kept_from
    if rebuild.first < kept_from:
        raise InputError(
            f"results of ends before {time_text(kept_from)} are kept no longer (--retain): rebuild from then on"
        )
    fold_to = horizon_of(fixed.spec, plan.watermark) if rebuild.replaced else None
    return replace(plan, objects=(), panes=(), watermark=None, fold_to=fold_to)


def commit_rebuild(
    plan: Plan,
    rebuild: Rebuild,
    done: Sequence[MapResult],
    reads: Collection[ReadSources] = (),
    second: Second | None = None,
    forgotten: int = 0,
) -> Commit:
    """Run the second step of a rebuild whose tasks are done, commit it, and return its commit.

    ``done``: what the tasks have done; tasks without rows may be missing; ``second``: runs the second step; here, one
    part after another, when None.
    """
    done = sorted(done, key=lambda one: one.task)
    counts, reasons = sum_counts([one.counts for one in done]), sum_counts([one.reasons for one in done])
    counts = {"rows": 0, "counted": 0, "losers": 0, "jumps": 0, "quarantined": 0} | counts
    check_bad(counts.get("rows", 0), reasons, plan.options.max_bad)
    batch = batch_of(plan, done)
    raw = None if batch["first"] is None else (batch["first"], batch["last"])
    check_reached(reads, raw, (rebuild.rows_from, rebuild.rows_to))
    head = head_of(plan.home)
    assert head is not None
    patches = [one.patches for one in done if one.patches is not None]
    told = [recount(plan, rebuild, head, patches, range(PARTS))] if second is None else second(patches)
    counts |= {"results": sum(one.rows for one in told), "revised": sum(one.revised for one in told)}
    counts |= {"forgotten": forgotten} if forgotten else {}
    before = plan.document_before()
    document = {
        **before,
        "ledger": ledger_after(plan),
        "batch": batch,
        "watermark_before": head.watermark,
        "results": [one.results.as_json() for one in told if one.results is not None],
        "quarantine": [Part(one.rejected, ()).as_json() for one in done if one.rejected is not None],
        "counts": counts,
        "reasons": reasons,
        "totals": sum_counts([before["totals"], {name: counts[name] for name in ("results", "revised")}]),
        "rebuilds": [*before.get("rebuilds", ()), _said(plan, rebuild)],
    }
    if rebuild.replaced:
        document |= _state(plan, head, done, told)
    return plan.home.batches.append(document, plan.after)


def _said(plan: Plan, rebuild: Rebuild) -> dict[str, Any]:
    """Return what a commit says of a rebuild: why, what the user meant, which ends it has counted anew."""
    return {
        "commit": plan.number,
        "reason": REBUILT,
        "from": rebuild.since,
        "to": rebuild.until,
        "first": rebuild.first,
        "last": rebuild.last,
        "replaced": rebuild.replaced,
    }


def _state(plan: Plan, head: Document, done: Sequence[MapResult], told: Sequence[ReduceResult]) -> dict[str, Any]:
    """Return the parts of a document that say what the state is."""
    reached = add_counts([one.reached for one in done])
    return {
        "reached": said_of(plan.spec, reached, head.watermark),
        "objects": [one.as_json() for one in listed_after((), [one.objects for one in done])],
        "patches": [],
        "panes": [one.as_json() for one in listed_after((), [one.panes for one in told])],
    }
