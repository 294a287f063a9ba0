"""A batch of windows: its two steps, rows into patches and patches into results, and the commit that names these.

Rows that are set aside, as texts for the quarantine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.column_rows import take_rows
from dtoss.commits.chain import Commit
from dtoss.commits.columnar_files import REJECTED, check_bad, encode_rejected, sum_counts
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.commits.ledger_runs import read_ledger, write_ledger
from dtoss.errors import InputError
from dtoss.windows.aggregation.pane_cells import Incoming, incoming_of
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.durations import time_text
from dtoss.windows.spec import Spec
from dtoss.windows.state.object_state import step_objects
from dtoss.windows.state.state_files import (
    PARTS,
    Change,
    PanePatch,
    PartStep,
    listed_after,
    of_part,
    patch_state,
    read_pane_layers,
    read_patches,
    revised_in,
    to_write,
    write_pane_patches,
    write_panes,
    write_patches,
)
from dtoss.windows.storage.group_placement import Load, as_json
from dtoss.windows.storage.window_document import DOCUMENT_FORMAT, RESULTS, SET_ASIDE, WINDOWS_KIND, Part
from dtoss.windows.storage.window_plan import Plan
from dtoss.windows.trajectories.map_step import WindowRows
from dtoss.windows.watermark import IN_FUTURE, TOO_LATE, PaneCounts, add_counts, follow_clock, watermark_of


@dataclass(frozen=True)
class MapResult:
    """What a task has done; small, and pickled."""

    task: int
    objects: Change  # What changes in the files of the state of its objects
    # patches, rejected: what has changed in panes, and the rows that were set aside; None where there are none
    patches: FileEntry | None
    rejected: FileEntry | None
    # reached, left: the last panes of the objects that it has looked at, after the batch and before
    reached: PaneCounts
    left: PaneCounts
    load: Load  # Rows, bytes of state and seconds
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)  # Rows that were set aside, by reason
    # The first and the last time of its rows but those ahead of the clock; None of none
    span: tuple[int, int] | None = None

    @property
    def seconds(self) -> float:
        """That it took."""
        return self.load.seconds


def run_task(
    plan: Plan, task: int, rows: WindowRows, raw: pa.Array | None = None, bad: pa.Table | None = None
) -> MapResult:
    """Return what a task has done; its files are there, and count for nothing until a commit names them.

    ``task``: the number of the task, from 0 on; ``rows``: of its buckets, in any order; legal positions only; ``raw``:
    (n,). Rows as they were read, for the quarantine, null where that is not known.

    Costs O(n), and what :func:`dtoss.windows.state.object_state.step_objects` says of the state.
    """
    begun = time.perf_counter()
    spec, home = plan.spec, plan.home
    rejected = [] if bad is None or len(bad) == 0 else [bad.cast(REJECTED)]
    read = len(rows) + sum(map(len, rejected))
    came = np.bincount(rows.bucket, minlength=BUCKETS)
    span: tuple[int, int] | None = None
    for reason, wrong in ((IN_FUTURE, _ahead), (TOO_LATE, _late)):
        if reason == TOO_LATE and len(rows):
            span = int(rows.t.min()), int(rows.t.max())
        aside = wrong(plan, rows.t)
        if aside.any():
            at = np.flatnonzero(aside)
            rejected.append(set_aside(reason, rows.take(at), None if raw is None else raw.take(pa.array(at))))
            rows = rows.take(np.flatnonzero(~aside))
            raw = None if raw is None else raw.filter(pa.array(~aside))
    objects = step_objects(plan, task, rows)
    step = objects.step
    whole = pa.concat_tables(rejected) if rejected else None
    reasons: dict[str, int] = {}
    if whole is not None:
        reasons = {one["values"]: one["counts"] for one in whole.column("reason").value_counts().to_pylist()}
    counts = {
        "rows": read,
        "counted": len(rows) - step.duplicates,
        "losers": step.duplicates,
        "jumps": step.jumps,
        "quarantined": sum(reasons.values()),
    }
    patches = write_patches(home, spec, step.patches)
    away = None if whole is None else _quarantined(plan, whole)
    load = Load(task, came, objects.bytes, time.perf_counter() - begun)
    return MapResult(task, objects.change, patches, away, step.reached, step.left, load, counts, reasons, span)


def _ahead(plan: Plan, t: NDArray[np.int64]) -> NDArray[np.bool_]:
    return t > plan.now_us + plan.spec.max_ahead


def _late(plan: Plan, t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows are too late by the watermark of the commit before: none in the first batch."""
    if plan.watermark is None:
        return np.zeros(len(t), np.bool_)
    return t < plan.watermark - plan.spec.late


def _quarantined(plan: Plan, rows: pa.Table) -> FileEntry:
    """Write rows that are set aside: with the number of the batch, as another one may set aside equal rows."""
    data, begin = encode_rejected(rows), f"{plan.number:08}-"
    return FileEntry.of(write_entry(plan.home.folder, data, len(rows), "parquet", SET_ASIDE, begin=begin))


def set_aside(reason: str, rows: WindowRows, raw: pa.Array | None) -> pa.Table:
    """Return rows that are set aside, of :data:`REJECTED`.

    ``raw``: (n,). Each as it was read, null where that is not known: it is written as JSON then. None where it is of no
    row.
    """
    texts = pa.nulls(len(rows), pa.large_string()) if raw is None else raw.cast(pa.large_string())
    if texts.null_count:
        texts = pc.coalesce(texts, _as_json(rows))
    return pa.table([pa.repeat(pa.scalar(reason, pa.large_string()), len(rows)), texts], schema=REJECTED)


def _as_json(rows: WindowRows) -> pa.Array:
    if pa.types.is_integer(rows.ids.type):
        ids = rows.ids.cast(pa.large_string())
    else:
        coded = rows.ids.dictionary_encode()
        ids = _values(coded.dictionary.to_pylist()).take(coded.indices)
    t = pa.array(rows.t).cast(pa.large_string())
    x, y = (_values(np.ascontiguousarray(column).tolist()) for column in rows.positions.T)
    parts: list[Any] = ['{"id": ', ids, ', "t_us": ', t, ', "x": ', x, ', "y": ', y, "}", ""]
    made = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*made)


def _values(values: Sequence[Any]) -> pa.Array:
    """Return each value as JSON; a line end is in none of them."""
    whole = json.dumps(list(values), separators=("\n", ":"))[1:-1]
    return pa.array(whole.split("\n") if values else [], pa.large_string())


MOST_DUE = 5_000_000
"""Ends that become due at once where objects are counted that stay: an end for each minute of nine years."""


@dataclass(frozen=True)
class ReduceResult:
    """What the second step of some parts has done; small, and pickled."""

    panes: Change  # What changes in the files of the state of their panes
    results: Part | None  # Results of ends; None where there are none
    rows: int  # rows, revised: how many results there are, and how many of them are new revisions
    revised: int
    seconds: float


def tell(plan: Plan, watermark: int | None, patches: Sequence[FileEntry], parts: Sequence[int]) -> ReduceResult:
    """Return what came of a batch for some parts of the groups; files count for nothing until a commit names them."""
    begun = time.perf_counter()
    spec = plan.spec
    read = read_patches(plan.home, spec, patches)
    steps = []
    out = _ResultFile(Columns(spec))
    rows = revised = 0
    for part in parts:
        incoming = incoming_of(spec, *(of_part(one, part) for one in read))
        _check_span(plan, watermark, incoming)
        base, patched_by = read_pane_layers(plan.home, spec, plan.panes, part)
        before = PaneState.none(spec) if base is None else patch_state(spec, base, patched_by, plan.watermark)
        told: list[pa.Table] = []

        def into(table: pa.Table, told: list[pa.Table] = told) -> None:
            out.add(table)
            told.append(table)

        step = groups_step(spec, before, incoming, plan.watermark, watermark, into=into)
        came = PanePatch(incoming, revised_in(told)) if base is not None and base.base is not None else None
        steps.append(PartStep(part, None if base is None else base.cells, patched_by, came, step.after))
        rows, revised = rows + step.rows, revised + step.revised
    return ReduceResult(_written(plan, steps), out.close(plan), rows, revised, time.perf_counter() - begun)


def _written(plan: Plan, steps: Sequence[PartStep]) -> Change:
    """Write what has changed in the panes of parts."""
    files = to_write(steps, plan.panes)
    bases = [write_panes(plan.home, {part: state}) for part, state in files.bases.items()]
    patch = write_pane_patches(plan.home, files.patches) if files.patches else None
    return files.change([step.part for step in steps], bases, patch)


def _check_span(plan: Plan, watermark: int | None, incoming: Incoming) -> None:
    """Check that no row of long ago makes objects that stay be counted at each end since then."""
    spec, first = plan.spec, plan.watermark
    if first is None and incoming.first is not None:
        first = incoming.first * spec.pane
    if first is None or watermark is None or "here" not in spec.measures:
        return
    ends = (watermark - first) // spec.slide
    if ends > MOST_DUE:
        raise InputError(
            f"{ends:,} ends of windows would be due at once, from {time_text(first)} to {time_text(watermark)}, and "
            f"objects that stay (here) be counted at each: at most {MOST_DUE:,} are; mend the times of the first rows, "
            "take a longer --slide, or leave here out of --measures"
        )


class _ResultFile:
    """A file of results that is being written, in memory, compressed."""

    def __init__(self, columns: Columns) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer: Any = None
        self._schema = columns.results
        self._rows = 0
        self._ends: list[int] = []

    def add(self, table: pa.Table) -> None:
        """Write some results."""
        if len(table) == 0:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._sink, self._schema, compression="zstd", compression_level=1, write_page_checksum=True
            )
        self._writer.write_table(table)
        self._rows += len(table)
        bounds = pc.min_max(table.column("end"))
        self._ends += [bounds["min"].as_py(), bounds["max"].as_py()]

    def close(self, plan: Plan) -> Part | None:
        """Write the file, and return it with its first and last end."""
        if self._writer is None:
            return None
        self._writer.close()
        listed = write_entry(plan.home.folder, self._sink.getvalue(), self._rows, "parquet", RESULTS)
        return Part(FileEntry.of(listed), (min(self._ends), max(self._ends)))


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
