"""A batch becomes visible: one commit names its results, the state after, and what it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtoss.commits.chain import Commit
from dtoss.commits.ledger import Ledger
from dtoss.commits.listed import Listed
from dtoss.errors import InputError
from dtoss.windows.spec import Spec
from dtoss.windows.stored.document import DOCUMENT_FORMAT, WINDOWS_KIND, Part
from dtoss.windows.stored.files import PARTS
from dtoss.windows.stored.panes_task import Told, tell
from dtoss.windows.stored.plan import Plan
from dtoss.windows.stored.task import Done, buckets_of, summed
from dtoss.windows.watermark import Reached, added, watermark_of

Second = Callable[[int | None, Sequence[Listed]], Sequence[Told]]
"""Runs the second step of all parts, of a watermark and the files of patches."""


def commit_batch(plan: Plan, done: Sequence[Done], second: Second | None = None) -> Commit:
    """Run the second step of a batch whose tasks are done, commit it, and return its commit.

    Parameters
    ----------
    plan
        Of the batch.
    done
        What the tasks have done, in any order; tasks without rows may be missing.
    second
        Runs the second step; here, one part after another, when None.

    Raises
    ------
    Conflict
        If another one has committed meanwhile: the batch counts for nothing.
    InputError
        If more rows are bad than are borne, or far too many ends would be due at once.
    StoreError
        If a file of the state is missing or damaged.
    OSError
        If it cannot be written.
    """
    done = sorted(done, key=lambda one: one.task)
    counts = summed([one.counts for one in done])
    reasons = summed([one.reasons for one in done])
    _check_bad(plan, counts, reasons)
    before = plan.document_before()
    objects = _objects(plan, done, before)
    reached = added([Reached(*_numbers(one["reached"])) for one in objects])
    watermark = watermark_of(plan.spec, reached, plan.watermark)
    patches = [one.patches for one in done if one.patches is not None]
    if second is None:
        told: Sequence[Told] = [tell(plan, watermark, patches, range(PARTS))]
    else:
        told = second(watermark, patches)
    counts |= {"results": sum(one.rows for one in told), "revised": sum(one.revised for one in told)}
    document = {
        "kind": WINDOWS_KIND,
        "format": DOCUMENT_FORMAT,
        "id": plan.id_type,
        "time": plan.time,
        "ledger": plan.source.read(Ledger.of(before.get("ledger"))).as_json(),
        "batch": {"query": plan.source.query, "batch": plan.source.batch, "wall_us": plan.now_us},
        "tasks": plan.tasks,
        "watermark": watermark,
        "watermark_before": plan.watermark,
        "objects": [one | {"reached": _trimmed(plan.spec, one["reached"], watermark)} for one in objects],
        "patches": [Part(one, ()).as_json() for one in patches],
        "panes": [one.panes.as_json() for one in told],
        "results": [one.results.as_json() for one in told if one.results is not None],
        "quarantine": [Part(one.rejected, ()).as_json() for one in done if one.rejected is not None],
        "counts": counts,
        "reasons": reasons,
        "totals": summed([before.get("totals", {}), counts]),
        "reasons_total": summed([before.get("reasons_total", {}), reasons]),
    }
    return plan.home.batches.append(document, plan.after)


def must_run(plan: Plan) -> bool:
    """Return whether all tasks have to run, also those without rows: their buckets are others than before."""
    return plan.document_before().get("tasks") != plan.tasks


def _check_bad(plan: Plan, counts: Mapping[str, int], reasons: Mapping[str, int]) -> None:
    bad, rows = sum(reasons.values()), counts.get("rows", 0)
    if bad > plan.options.max_bad * rows:
        worst = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items(), key=lambda x: -x[1])[:3])
        raise InputError(
            f"{bad:,} of {rows:,} rows are bad ({worst}), and --max-bad bears {plan.options.max_bad:.0%}: nothing of "
            "this batch counts; mend the rows, or bear more"
        )


def _objects(plan: Plan, done: Sequence[Done], before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the files of objects with what each has reached: those of the batch, and those of tasks without rows."""
    mine = [
        Part(one.objects, tuple(buckets_of(one.task, plan.tasks).tolist())).as_json()
        | {"reached": [one.reached.panes.tolist(), one.reached.objects.tolist()]}
        for one in done
    ]
    anew = {bucket for one in mine for bucket in one["of"]}
    return [one for one in before.get("objects", ()) if not anew & set(one["of"])] + mine


def _numbers(said: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    panes, objects = said
    return np.array(panes, np.int64), np.array(objects, np.int64)


def _trimmed(spec: Spec, said: Sequence[Sequence[int]], watermark: int | None) -> list[list[int]]:
    """Return what was reached without what counts for no later watermark."""
    if watermark is None:
        return [list(one) for one in said]
    panes, objects = _numbers(said)
    there = panes >= watermark // spec.pane - spec.longest
    return [panes[there].tolist(), objects[there].tolist()]
