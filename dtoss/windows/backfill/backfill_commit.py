"""A rebuild becomes visible, where the raw rows of its time are still there: one commit says what changed, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import check_bad, sum_counts
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.offsets import Source
from dtoss.errors import InputError
from dtoss.windows.backfill.recount import Rebuild, recount
from dtoss.windows.durations import time_text
from dtoss.windows.processing.window_task import MapResult, ReduceResult, batch_of, ledger_after, said_of
from dtoss.windows.state.hour_files import hours_of
from dtoss.windows.state.state_files import PARTS, listed_after
from dtoss.windows.storage.spec_file import FixedSpec
from dtoss.windows.storage.window_document import Document, Home, Part, document_of, documents, head_of
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


@dataclass(frozen=True)
class ReadSources:
    """What a commit has read."""

    number: int
    files: tuple[str, ...]
    query: str  # The stream of which its rows were; "" for none
    first: int  # Their first and last time, in microseconds
    last: int  # Their first and last time, in microseconds


def reads_of(home: Home, head: Document, rows_from: int, rows_to: int) -> list[ReadSources]:
    """Return what commits have read of a time. Cost O(commits).

    ``rows_from``, ``rows_to``: microseconds.
    """
    found: list[ReadSources] = []
    for document in documents(home, 1, head.number):
        said = document.commit.document["batch"]
        if said["first"] is not None and said["first"] < rows_to and said["last"] >= rows_from:
            found.append(ReadSources(document.number, tuple(said["files"]), said["query"], said["first"], said["last"]))
    return found


def check_there(reads: Collection[ReadSources], there: Collection[str], rows_from: int, rows_to: int) -> None:
    """Check that the files that were read of a time are there still.

    ``there``: the names of the files that are there, also empty ones and those that were never read; ``rows_from``,
    ``rows_to``: microseconds: the time that is needed.
    """
    names = set(there)
    for read in reads:
        gone = [name for name in read.files if name not in names]
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            raise InputError(
                f"rows {_span(max(read.first, rows_from), min(read.last, rows_to - 1))} are not there: "
                f"{gone[0]}{more}, read by commit {read.number:,}, is gone; restore it, or, if its rows are meant to "
                "be gone, put an empty file of that name in its place"
            )


def check_reached(reads: Collection[ReadSources], raw: tuple[int, int] | None, rebuild_rows: tuple[int, int]) -> None:
    """Check that raw rows begin and end where those of streams did, which no file names.

    ``raw``: the first and the last time of the raw rows that are there, in microseconds; None of none.
    """
    streams = [read for read in reads if read.query]
    if not streams:
        return
    rows_from, rows_to = rebuild_rows
    first = max(min(read.first for read in streams), rows_from)
    last = min(max(read.last for read in streams), rows_to - 1)
    missing = None
    if raw is None:
        missing = first, last
    elif raw[0] > first:
        missing = first, raw[0]
    elif raw[1] < last:
        missing = raw[1], last
    if missing is not None:
        raise InputError(
            f"rows {_span(*missing)} are not there: the stream that these windows have read had some; name files that "
            "hold them, too"
        )


def _span(first: int, last: int) -> str:
    return f"from {time_text(first)} to {time_text(last)}"
