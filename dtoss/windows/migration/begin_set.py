"""A set begins beside another one, with the rows that this one still knows, and is whole from some end on.

A set that begins beside another one is given the rows that the other one still knows of each object: all that may
change yet, and the last one before. So it does not begin with nothing.

- **known_from.** The other set has taken no row before its watermark less its ``late`` for some time, and it knows all
  that it has taken from there on. From the pane that begins then on the new set knows every row. A row that either of
  the two specs would have refused where the other took it moves that on: one between the two watermarks less ``late``,
  or one that was ahead of the clock where ``max_ahead`` differs.
- **since.** A window that ends at e holds rows from e less its length on. So from ``known_from`` and the longest length
  on all rows of all windows are there. A move needs the row before, up to ``max_gap`` earlier, and ``here`` one up to
  ``expire`` earlier. These are last rows of objects, which the other set knows for as long as its own windows need
  them. Where the new ones need them for longer, what is missing is added.
- **full_at.** Ends before ``since`` are the other set's. Rows may change them until they lie ``late`` behind its
  watermark; so long both sets count each batch.

With the same panes, longest length, ``witnesses``, ``delay``, ``late`` and ``max_ahead`` the watermark of the new set
is that of the other one from the beginning on: it judges each row as a set that had always run. Otherwise it is what
the new spec makes of the objects that are known. That is the one of a set that had always run as soon as both have the
same objects within the longest window, where as many as are wanted agree on the pane.
"""

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
from dtoss.errors import InputError
from dtoss.windows.aggregation.pane_cells import incoming_of
from dtoss.windows.aggregation.pane_state import PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.backfill.recount import reach_of
from dtoss.windows.durations import duration_text
from dtoss.windows.processing.window_task import said_of
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.state.object_state import StepResult, step_objects
from dtoss.windows.state.state_files import (
    PARTS,
    Change,
    listed_after,
    of_part,
    read_objects,
    read_patches,
    write_panes,
    write_patches,
)
from dtoss.windows.storage.group_placement import Load, as_json
from dtoss.windows.storage.keys_file import read_keys, write_keys
from dtoss.windows.storage.sets import Coming, Sets, commit_sets, later_numbers
from dtoss.windows.storage.spec_file import FixedSpec, fix, read_spec
from dtoss.windows.storage.window_document import DOCUMENT_FORMAT, WINDOWS_KIND, Document, Home, begun_windows
from dtoss.windows.storage.window_plan import Options, Plan, as_it_stands
from dtoss.windows.trajectories.fold_horizon import memory_of
from dtoss.windows.trajectories.known_rows import ObjectState
from dtoss.windows.trajectories.map_step import WindowRows
from dtoss.windows.watermark import IN_FUTURE, PaneCounts, add_counts, watermark_of

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


@dataclass(frozen=True)
class Whole:
    """When a set is whole, in microseconds since 1970; see the module."""

    known_from: int  # All rows from then on are counted in it
    since: int  # Its first end
    full_at: int  # The watermark of the set before at which no earlier end can change any more


def same_watermark(one: Spec, other: Spec) -> bool:
    """Return whether two specs judge the same rows alike, and have the same watermark after them."""
    return _judging(one) == _judging(other)


def _judging(spec: Spec) -> tuple[object, ...]:
    return spec.pane, spec.longest, spec.witnesses, spec.delay, spec.late, spec.max_ahead


def check_begins(name: str, before: Spec, spec: Spec) -> None:
    """Check that a set can begin from the state of another one."""
    if before.space != spec.space:
        raise InputError(
            f"windows {name} are of positions in {before.space.crs} ({before.space.metric}), and "
            f"{spec.space.crs} ({spec.space.metric}) is asked for: rows that were read mean other places; give another "
            "name (--name NAME)"
        )
    if reach_of(spec) == LAST_TIME > memory_of(before):
        raise InputError(
            f"here is asked for without --expire, and windows {name} have forgotten objects that were silent for "
            f"{duration_text(memory_of(before))}: give --expire, or another name (--name NAME) and all files"
        )


def whole_from(before: Spec, head: Document, spec: Spec, watermark: int, newest: int) -> Whole:
    """Return when a set is whole that begins from the state of another one.

    ``watermark``: with which it begins, in microseconds since 1970.

    Examples
    --------
    >>> from dtoss.commits.chain import Commit
    >>> from dtoss.windows.storage.window_document import Home
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> plane, second = space_of(None, "plane"), 1_000_000
    >>> old = spec_of("1min", "1min", "rows", "partition", plane, "a", late="5min")
    >>> new = spec_of("1min", "1min", "rows,speed", "partition", plane, "b", late="5min", max_gap="3min")
    >>> head = Document(Home("s", "w"), Commit(7, {}, None, "", ""), {}, 3600 * second, 3540 * second)
    >>> found = whole_from(old, head, new, 3600 * second, 3630 * second)
    >>> [time // second - 3600 for time in (found.known_from, found.since, found.full_at)]
    [-300, 60, 300]
    """
    assert head.watermark is not None
    known = head.watermark - before.late
    if not same_watermark(before, spec):
        known = max(known, watermark - spec.late)
    if before.max_ahead != spec.max_ahead:
        known = max(known, newest + 1)
        if head.commit.document["reasons_total"].get(IN_FUTURE):
            known = max(known, head.commit.document["batch"]["wall_us"] + max(before.max_ahead, spec.max_ahead))
    known = _up(known, spec.pane)
    missing = max(0, reach_of(spec) - memory_of(before))
    since = max(_up(known + missing + spec.lengths[-1], spec.slide), _up(watermark + 1, spec.slide))
    last = (since - 1) // before.slide * before.slide
    return Whole(known, since, max(since, last + before.late))


def _up(time: int, step: int) -> int:
    return -(-time // step) * step
