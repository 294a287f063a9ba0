"""A set begins beside another one: with the rows that this one still knows of each object, in one commit of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dtoss.buckets import BUCKETS
from dtoss.column_rows import take_rows
from dtoss.commits.file_entry import FileEntry
from dtoss.commits.ledger_runs import write_ledger
from dtoss.commits.offsets import Source
from dtoss.windows.aggregation.pane_cells import incoming_of
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.migration.completeness import check_begins, same_watermark, whole_from
from dtoss.windows.processing.window_commit import said_of
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.state.object_state import StepResult, step_objects
from dtoss.windows.state.state_files import PARTS, of_part, read_objects, read_patches, write_panes, write_patches
from dtoss.windows.state.state_files_merge import Change, listed_after
from dtoss.windows.storage.group_placement import Load, as_json
from dtoss.windows.storage.keys_file import read_keys, write_keys
from dtoss.windows.storage.sets import Coming, Sets, commit_sets, later_numbers
from dtoss.windows.storage.spec_file import FixedSpec, fix, read_spec
from dtoss.windows.storage.window_document import DOCUMENT_FORMAT, WINDOWS_KIND, Document, begun_windows
from dtoss.windows.storage.window_folder import Home
from dtoss.windows.storage.window_plan import Options, Plan, as_it_stands
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.sorted_rows import WindowRows
from dtoss.windows.watermark import PaneCounts, add_counts, watermark_of

_NOTHING = dict.fromkeys(("rows", "counted", "losers", "jumps", "quarantined", "results", "revised"), 0)
"""What the first commit of such a set has counted: its rows were counted by the set before."""


@dataclass(frozen=True)
class _Begun:
    """What the tasks of a beginning have done together."""

    objects: list[Change]
    patches: list[FileEntry]
    reached: PaneCounts
    loads: list[Load]
    newest: int


def begin_next(home: Home, sets: Sets, spec: Spec, tables: Mapping[str, pa.Table], now_us: int) -> Sets:
    """Begin a set beside the current one, which is to take over once it is whole; return the sets after that.

    One that was coming before is given up. Nothing that answers changes.

    ``now_us``: the wall clock, in microseconds since 1970.

    Cost O(rows that the current set knows): all that may change still, and one for each object. A task of it at a time
    is in memory.
    """
    held, head = read_spec(home), begun_windows(home)
    check_begins(home.name, held.spec, spec)
    after = Home(home.store, home.name, 1 + max([sets.last, *later_numbers(home)]))
    after.folder.make()
    fixed = FixedSpec(spec, write_keys(after, dict(tables)))
    fix(after, fixed)
    said = head.commit.document
    placement = as_it_stands(head)
    plan = Plan(
        after, fixed, said["id"], said["time"], Options(), None, Source(), replace(placement, looked=None, since=()),
        (), (), None, now_us,
    )  # fmt: skip
    done = _tasks(plan, home, held, head)
    mark = None if head.watermark is None else _watermark(held.spec, head, spec, done.reached)
    document = {
        "kind": WINDOWS_KIND,
        "format": DOCUMENT_FORMAT,
        "id": plan.id_type,
        "time": plan.time,
        "ledger": write_ledger(after.folder, head.ledger, None),
        "batch": {"query": "", "batch": -1, "plan": "", "wall_us": now_us, "files": [],
                  "first": None, "last": None},
        "placement": as_json(plan.placement, {}, done.loads),
        "watermark": mark,
        "watermark_before": None,
        "reached": said_of(spec, done.reached, mark),
        "objects": [one.as_json() for one in listed_after((), done.objects)],
        "patches": [],
        "panes": [one.as_json() for one in listed_after((), _panes(plan, mark, done.patches))],
        "results": [],
        "quarantine": [],
        "hours": [],
        "counts": _NOTHING,
        "reasons": {},
        "totals": _NOTHING,
        "reasons_total": {},
        "rebuilds": [],
    }  # fmt: skip
    after.batches.append(document, None)
    if mark is None:  # nothing is due, and nothing is to be waited for
        coming = Coming(after.number, head.number, -LAST_TIME, -LAST_TIME, -LAST_TIME)
    else:
        whole = whole_from(held.spec, head, spec, mark, done.newest)
        coming = Coming(after.number, head.number, whole.known_from, whole.since, whole.full_at)
    return commit_sets(home, sets, replace(sets, coming=coming, last=after.number))


def _tasks(plan: Plan, home: Home, held: FixedSpec, head: Document) -> _Begun:
    """Give the rows that a set knows to the tasks of another one, one after another."""
    single = read_keys(home, held.keys, held.spec.space, held.spec.keys).single
    found = _Begun([], [], add_counts([]), [], -LAST_TIME)
    for task in range(plan.tasks):
        begun = time.perf_counter()
        of = plan.placement.groups(task)
        state = read_objects(home, head.files["objects"], of, plan.id_type, single)
        rows = _rows(state)
        stepped: StepResult = step_objects(plan, task, rows)
        patches = write_patches(plan.home, plan.spec, stepped.step.patches)
        none = np.zeros(BUCKETS, np.int64)
        found = _Begun(
            [*found.objects, stepped.change],
            found.patches if patches is None else [*found.patches, patches],
            add_counts([found.reached, stepped.step.reached]),
            [*found.loads, Load(task, none, stepped.bytes, time.perf_counter() - begun)],
            max(found.newest, int(rows.t.max(initial=-LAST_TIME))),
        )
    return found


def _rows(state: ObjectState) -> WindowRows:
    """Return the rows of objects as they came."""
    counts = np.diff(state.first)
    owner = np.repeat(np.arange(len(state)), counts)
    return WindowRows(state.ids.take(pa.array(owner)), state.t, state.positions, state.bucket[owner])


def _watermark(before: Spec, head: Document, spec: Spec, reached: PaneCounts) -> int | None:
    """Return the watermark with which a set begins: the other one's where both judge alike."""
    if same_watermark(before, spec):
        return head.watermark
    assert head.watermark is not None
    about = head.watermark + before.delay - spec.delay
    there = reached.panes >= about // spec.pane - spec.longest
    some = take_rows(reached, there)
    return watermark_of(spec, some if there.any() else reached, None)


def _panes(plan: Plan, watermark: int | None, patches: Sequence[FileEntry]) -> list[Change]:
    """Write the panes that the patches of all tasks make; no end has results: those that are due are another set's."""
    spec, states = plan.spec, {}
    read = read_patches(plan.home, spec, patches)
    for part in range(PARTS):
        incoming = incoming_of(spec, *(of_part(one, part) for one in read))
        step = groups_step(spec, PaneState.none(spec), incoming, None, watermark, into=_nowhere, told_after=watermark)
        states[part] = step.after
    return [Change(tuple(range(PARTS)), (write_panes(plan.home, states),))]


def _nowhere(table: Any) -> None:
    """Take results that nobody asks for."""
