"""Which ends a rebuild counts anew, from which raw rows, and some parts of the groups counted so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.commits.columnar_files import encode_parquet
from dtoss.commits.file_entry import FileEntry, write_entry
from dtoss.errors import InputError
from dtoss.windows.aggregation.pane_cells import Cells, incoming_of, sorted_cells
from dtoss.windows.aggregation.pane_state import Columns, PaneState
from dtoss.windows.aggregation.reduce_step import groups_step
from dtoss.windows.durations import duration_text, time_text
from dtoss.windows.patches import group_of
from dtoss.windows.processing.window_task import MOST_DUE, ReduceResult
from dtoss.windows.query.open_files import Reader, results_between
from dtoss.windows.spec import LAST_TIME, Spec
from dtoss.windows.state.state_files import PARTS, Change, of_part, read_patches, write_panes
from dtoss.windows.storage.window_document import RESULTS, Document, Part
from dtoss.windows.storage.window_plan import Plan
from dtoss.windows.watermark import horizon_of

Numbers = NDArray[np.int64]


def recount(
    plan: Plan, rebuild: Rebuild, head: Document, patches: Sequence[FileEntry], parts: Sequence[int]
) -> ReduceResult:
    """Return what came of a rebuild for some parts of the groups.

    ``plan``: of the rebuild: without any state before.

    O(ends times keys) rows are in memory, of what was told and of what is told now.
    """
    begun = time.perf_counter()
    spec = plan.spec
    _check_ends(plan, rebuild)
    read = read_patches(plan.home, spec, patches)
    columns = Columns(spec)
    names = [name for name in columns.results.names if name in columns.measured]
    before = results_between(Reader(plan.home, plan.fixed.keys), spec, head, rebuild.first + 1, rebuild.last, names)
    part_of = group_of(before["key"].to_numpy()) % PARTS
    watermark = head.watermark
    assert watermark is not None
    states, out = {}, []
    for part in parts:
        told: list[pa.Table] = [columns.results.empty_table()]
        step = groups_step(
            spec, PaneState.none(spec), incoming_of(spec, *(of_part(one, part) for one in read)), None, rebuild.last,
            into=told.append, told_after=rebuild.first,
        )  # fmt: skip
        now = pa.concat_tables(told).combine_chunks()
        changed, revisions = _changed(columns, before.filter(pa.array(part_of == part)), now, watermark - spec.late)
        out.append(changed)
        if rebuild.replaced:
            assert step.after.base is not None
            later = int(np.searchsorted(revisions.pane, step.after.base * spec.pane, "right"))
            states[part] = replace(step.after, revisions=revisions.take(slice(later, None)))
    results = pa.concat_tables(out)
    bases = (write_panes(plan.home, states),) if rebuild.replaced else ()
    return ReduceResult(
        Change(tuple(parts), bases), _written(plan, results), len(results), len(results), time.perf_counter() - begun
    )


def _check_ends(plan: Plan, rebuild: Rebuild) -> None:
    ends = (rebuild.last - rebuild.first) // plan.spec.slide
    if ends > MOST_DUE:
        raise InputError(
            f"{ends:,} ends would be counted anew, and at most {MOST_DUE:,} are: rebuild a shorter time, one after "
            "another"
        )


def _changed(columns: Columns, before: pa.Table, now: pa.Table, final_until: int) -> tuple[pa.Table, Cells]:
    """Return a new revision of each end and key that has other values, and the revisions of all that are above 0."""
    ends, keys, was, is_ = _met(before, now)
    old, new = _values(columns, before), _values(columns, now)
    other = (new[:, is_] != old[:, was]).any(axis=0)
    held = np.append(before["revision"].to_numpy(), 0)[was]
    revision = held + other
    at = np.flatnonzero(other)
    made = {
        "end": pa.array(ends[at]),
        "key": pa.array(keys[at]),
        "revision": pa.array(revision[at]),
        "final": pa.array(ends[at] <= final_until),
    }
    for name, values in zip(_measured(columns), new, strict=True):
        column = values[is_[at]]
        made[name] = pa.array(column, mask=column < 0) if columns.is_speed(name) else pa.array(column)
    table = pa.table([made[field.name] for field in columns.results], schema=columns.results)
    some = revision > 0
    return table, sorted_cells(ends[some], keys[some][:, None], revision[some][:, None])


def _met(before: pa.Table, now: pa.Table) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return all ends and keys, by both, and the row of each before and now; -1 where there is none."""
    ends, keys = (np.concatenate([one[name].to_numpy() for one in (before, now)]) for name in ("end", "key"))
    order = np.lexsort((keys, ends))
    ends, keys = ends[order], keys[order]
    new = np.ones(len(ends), np.bool_)
    new[1:] = (ends[1:] != ends[:-1]) | (keys[1:] != keys[:-1])
    group = np.cumsum(new) - 1
    rows = np.full((2, int(new.sum())), -1)
    late = order >= len(before)
    rows[0, group[~late]], rows[1, group[late]] = order[~late], order[late] - len(before)
    return ends[new], keys[new], rows[0], rows[1]


def _measured(columns: Columns) -> list[str]:
    return [name for name in columns.results.names if name in columns.measured]


def _values(columns: Columns, table: pa.Table) -> Numbers:
    """Return the values of rows, int64 (columns, rows + 1), -1 for a speed that there is not; the last is of no row."""
    names = _measured(columns)
    found = np.zeros((len(names), len(table) + 1), np.int64)
    for i, name in enumerate(names):
        nothing = -1 if columns.is_speed(name) else 0
        found[i, :-1] = table[name].fill_null(nothing).to_numpy()
        found[i, -1] = nothing
    return found


def _written(plan: Plan, results: pa.Table) -> Part | None:
    if len(results) == 0:
        return None
    ordered = results.sort_by([("end", "ascending"), ("key", "ascending")])
    data = encode_parquet(ordered, compression_level=1, write_page_checksum=True)
    listed = write_entry(plan.home.folder, data, len(ordered), "parquet", RESULTS)
    ends = ordered["end"].to_numpy()
    return Part(FileEntry.of(listed), (int(ends[0]), int(ends[-1])))


@dataclass(frozen=True)
class Rebuild:
    """What a rebuild counts anew; all in microseconds since 1970."""

    since: int  # since, until: rows from ``since`` on and before ``until`` are those that the user means
    until: int
    first: int  # first, last: ends after ``first`` and up to ``last`` are counted anew: those that such rows can change
    last: int
    rows_from: int  # rows_from, rows_to: these need the raw rows from ``rows_from`` on and before ``rows_to``
    rows_to: int
    # Whether the state that later ends rest on is made of the raw rows, too. Else it stays: no row that is meant
    # reaches into it
    replaced: bool


def reach_of(spec: Spec) -> int:
    """Return how long after a row another one of its object, or its silence, still changes a place; microseconds.

    Examples
    --------
    >>> from dtoss.geometry.space import space_of
    >>> from dtoss.windows.spec import spec_of
    >>> plane = space_of(None, "plane")
    >>> reach_of(spec_of("5min", "1min", "rows", "partition", plane, "", max_gap="10min"))
    0
    >>> reach_of(spec_of("5min", "1min", "speed", "partition", plane, "", max_gap="10min")) // 1_000_000
    600
    """
    found = [0]
    if spec.moves:
        found.append(spec.max_gap)
    if "here" in spec.measures:
        found.append(LAST_TIME if spec.expire is None else spec.expire)
    return max(found)


def rebuild_of(spec: Spec, watermark: int | None, since: int, until: int) -> Rebuild:
    """Return what a rebuild counts anew.

    ``watermark``: of their last commit, in microseconds; None before the first row; ``since``, ``until``: microseconds.
    Raw rows from the one on and before the other are meant.

    A row at t changes windows that end after t and up to t + the longest length; by the moves and stays that follow it,
    later ones, too (:func:`reach_of`). Where such an end is not final yet, the state of objects and panes rests on the
    rows: all ends from there on, or from the first that is not final, are counted anew, and the state with them.
    """
    if until <= since:
        raise InputError(
            f"--rebuild {time_text(since)} {time_text(until)} is no time: give the beginning first, then the end"
        )
    if watermark is None or since >= watermark:
        mark = "no row was read yet" if watermark is None else f"the watermark is {time_text(watermark)}"
        raise InputError(
            f"--rebuild {time_text(since)} {time_text(until)}: {mark}, and no end after {time_text(since)} is due; "
            "rows from there on are counted by the next batch"
        )
    longest, reach = spec.lengths[-1], reach_of(spec)
    horizon = horizon_of(spec, watermark)
    assert horizon is not None
    last = -(-(until + longest + reach) // spec.slide) * spec.slide
    replaced = last > horizon
    first = min(since, horizon) if replaced else since
    rows_from = max(first - longest - reach, -LAST_TIME) // spec.pane * spec.pane
    if replaced:
        return Rebuild(since, until, first, watermark, rows_from, LAST_TIME, replaced)
    return Rebuild(since, until, first, last, rows_from, last, replaced)


def backfill_text(rebuild: Rebuild) -> str:
    """Return what a rebuild counts anew, for whoever looks on.

    Examples
    --------
    >>> backfill_text(Rebuild(60_000_000, 120_000_000, 60_000_000, 420_000_000, 0, 420_000_000, False))
    'ends after 1970-01-01T00:01:00Z, up to 1970-01-01T00:07:00Z (6min)'
    """
    return (
        f"ends after {time_text(rebuild.first)}, up to {time_text(rebuild.last)} "
        f"({duration_text(rebuild.last - rebuild.first)})"
    )
