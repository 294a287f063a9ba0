"""A batch becomes visible: one commit names its results, the state after, and what it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtoss.column_rows import take_rows
from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import check_bad, sum_counts
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.ledger_runs import read_ledger, write_ledger
from dtoss.windows.processing.window_task import MapResult, ReduceResult, tell
from dtoss.windows.spec import Spec
from dtoss.windows.state.state_files import PARTS, listed_after
from dtoss.windows.storage.group_placement import as_json
from dtoss.windows.storage.window_document import DOCUMENT_FORMAT, WINDOWS_KIND, Part
from dtoss.windows.storage.window_plan import Plan
from dtoss.windows.watermark import PaneCounts, add_counts, follow_clock, watermark_of

Second = Callable[[int | None, Sequence[FileEntry]], Sequence[ReduceResult]]
"""Runs the second step of all parts, of a watermark and the files of patches."""

_NOTHING = dict.fromkeys(("rows", "counted", "losers", "jumps", "quarantined"), 0)
"""What a beat without rows counts."""


def commit_batch(plan: Plan, done: Sequence[MapResult], second: Second | None = None, forgotten: int = 0) -> Commit:
    """Run the second step of a batch whose tasks are done, commit it, and return its commit.

    ``done``: what the tasks have done, in any order; tasks without rows may be missing; ``second``: runs the second
    step; here, one part after another, when None.
    """
    done = sorted(done, key=lambda one: one.task)
    counts = sum_counts([_NOTHING, *(one.counts for one in done)])
    reasons = sum_counts([one.reasons for one in done])
    check_bad(counts.get("rows", 0), reasons, plan.options.max_bad)
    before = plan.document_before()
    reached = reached_by(plan, done, before)
    watermark = watermark_of(plan.spec, reached, plan.watermark)
    if plan.clock_us is not None and watermark is not None:
        watermark = follow_clock(plan.spec, plan.clock_us, watermark)
    patches = [one.patches for one in done if one.patches is not None]
    if second is None:
        told: Sequence[ReduceResult] = [tell(plan, watermark, patches, range(PARTS))]
    else:
        told = second(watermark, patches)
    counts |= {"results": sum(one.rows for one in told), "revised": sum(one.revised for one in told)}
    counts |= {"forgotten": forgotten} if forgotten else {}
    document = {
        "kind": WINDOWS_KIND,
        "format": DOCUMENT_FORMAT,
        "id": plan.id_type,
        "time": plan.time,
        "ledger": ledger_after(plan),
        "batch": batch_of(plan, done),
        "placement": as_json(plan.placement, before, [one.load for one in done]),
        "watermark": watermark,
        "watermark_before": plan.watermark,
        "reached": said_of(plan.spec, reached, watermark),
        "objects": [one.as_json() for one in listed_after(plan.objects, [one.objects for one in done])],
        "patches": [Part(one, ()).as_json() for one in patches],
        "panes": [one.as_json() for one in listed_after(plan.panes, [one.panes for one in told])],
        "results": [one.results.as_json() for one in told if one.results is not None],
        "quarantine": [Part(one.rejected, ()).as_json() for one in done if one.rejected is not None],
        "hours": before.get("hours", []),
        "counts": counts,
        "reasons": reasons,
        "totals": sum_counts([before.get("totals", {}), counts]),
        "reasons_total": sum_counts([before.get("reasons_total", {}), reasons]),
        "rebuilds": before.get("rebuilds", []),
    }
    return plan.home.batches.append(document, plan.after)


def ledger_after(plan: Plan) -> dict[str, Any]:
    """Return what a commit says of what windows have read once a batch is."""
    folder, before = plan.home.folder, plan.document_before().get("ledger")
    return write_ledger(folder, plan.source.read(read_ledger(folder, before)), before)


def batch_of(plan: Plan, done: Sequence[MapResult]) -> dict[str, Any]:
    """Return what a commit says of where its rows came from, and of their first and last time (null of none)."""
    spans = [one.span for one in done if one.span is not None]
    return {
        "query": plan.source.query,
        "batch": plan.source.batch,
        "plan": plan.source.plan,
        "wall_us": plan.now_us,
        "files": sorted(set(plan.source.files) - set(plan.source.refused)),
        **plan.source.refusals(),
        "first": min((first for first, _ in spans), default=None),
        "last": max((last for _, last in spans), default=None),
    }


def reached_by(plan: Plan, done: Sequence[MapResult], before: Mapping[str, Any]) -> PaneCounts:
    """Return how far all objects have come, after tasks: those that they had leave the panes where they stood.

    What stands for no later watermark has been left out of a commit, and nothing leaves it.
    """
    come = [PaneCounts(*_numbers(before["reached"]))] if "reached" in before else []
    left = add_counts([one.left for one in done])
    if plan.watermark is not None:
        left = take_rows(left, left.panes >= plan.watermark // plan.spec.pane - plan.spec.longest)
    whole = add_counts([*come, *(one.reached for one in done), PaneCounts(left.panes, -left.objects)])
    return take_rows(whole, whole.objects != 0)


def said_of(spec: Spec, reached: PaneCounts, watermark: int | None) -> list[list[int]]:
    """Return what a commit says of how far objects have come, without what counts for no later watermark."""
    there = np.ones(len(reached.panes), np.bool_)
    if watermark is not None:
        there = reached.panes >= watermark // spec.pane - spec.longest
    return [reached.panes[there].tolist(), reached.objects[there].tolist()]


def _numbers(said: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    panes, objects = said
    return np.array(panes, np.int64), np.array(objects, np.int64)
