"""What is known of each object of a batch: its row before, if it counts, and the rows that came; and what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dtoss.watch.rows import Rows
from dtoss.watch.stream.buckets import bucket_of
from dtoss.watch.stream.plan import Plan
from dtoss.watch.stream.rows_in import Ordered
from dtoss.watch.stream.state import (
    Before,
    Run,
    concatenated,
    found_in,
    keys_of,
    read_bucket,
    size_in,
    standing_rows,
    times_in,
    worth_merging,
    write_run,
)


@dataclass(frozen=True)
class Known:
    """Rows before: of the objects of a batch, and of those whose time is over.

    Parameters
    ----------
    before
        By object's id; no object twice, none that is gone.
    expired
        bool (n,). Whose time is over by the clock.
    runs
        Of each bucket, oldest first.
    """

    before: Before
    expired: NDArray[np.bool_]
    runs: Mapping[int, tuple[Run, ...]]


def known_of(plan: Plan, buckets: NDArray[np.int64], ids: pa.Array | None, expiring: bool) -> Known:
    """Return the rows before that a task needs. Cost O(rows log objects), and O(objects) where any may expire."""
    runs = {int(b): tuple(run for run in plan.state if b in run.buckets) for b in buckets}
    kind = pa.int64() if plan.settings.id_type == "int64" else pa.string()
    ids = pa.array([], kind) if ids is None else pc.unique(ids)
    bucket = bucket_of(ids)
    order = np.argsort(bucket, kind="stable")
    first = np.searchsorted(bucket[order], buckets)
    last = np.searchsorted(bucket[order], buckets, "right")
    limit = None
    if expiring and plan.clock is not None and plan.options.expire is not None:
        limit = plan.clock - plan.options.expire
    parts: list[Before] = []
    for b, begin, end in zip(buckets.tolist(), first.tolist(), last.tolist(), strict=True):
        if not runs[b]:
            continue
        asked = ids.take(pa.array(order[begin:end]))
        over = limit is not None and any((times_in(plan.home, run, b) <= limit).any() for run in runs[b])
        parts += _in_bucket(plan, runs[b], b, asked, limit if over else None)
    kinds = {name: plan.settings.schema[name] for name in plan.kept if name != "id"}
    before = concatenated(parts, kinds, kind)
    before = before.take(np.flatnonzero(~before.gone))
    before = before.take(np.asarray(pc.sort_indices(before.ids)).astype(np.int64))
    expired = np.zeros(len(before), np.bool_) if limit is None else before.t <= limit
    return Known(before, expired, runs)


def _in_bucket(plan: Plan, runs: tuple[Run, ...], bucket: int, ids: pa.Array, limit: int | None) -> list[Before]:
    """Return the newest rows of some objects of a bucket, and of all whose time is over."""
    if limit is not None:
        found = []
        for part, rows in standing_rows(plan.home, runs, bucket):
            here = found_in(part, keys_of(ids), ids)
            wanted = np.zeros(len(part), np.bool_)
            wanted[here[here >= 0]] = True
            wanted |= part.t <= limit
            found.append(part.take(rows[wanted[rows]]))
        return found
    found = []
    keys = keys_of(ids)
    for run in reversed(runs):
        if len(ids) == 0:
            break
        part = read_bucket(plan.home, run, bucket)
        here = found_in(part, keys, ids)
        held = here >= 0
        found.append(part.take(here[held]))
        ids, keys = ids.filter(pa.array(~held)), keys[~held]
    return found


@dataclass(frozen=True)
class Tracks:
    """Objects with the rows that are judged: the row before where it counts, then those of the batch.

    Parameters
    ----------
    rows
        By object and time.
    begin
        int64 (objects + 1,). Object i has the rows ``begin[i]:begin[i + 1]``, at least one.
    before
        bool (n,). Which rows are rows before: the first of an object, or none.
    expired
        bool (n,). Rows before whose time is over.
    changes
        int64 (n,). The change that a row before was judged under; the batch's own of others.
    counts
        Rows that were left out, by reason, and how many objects were over.
    """

    rows: Rows
    begin: NDArray[np.int64]
    before: NDArray[np.bool_]
    expired: NDArray[np.bool_]
    changes: NDArray[np.int64]
    counts: Mapping[str, int]


def tracks_of(plan: Plan, placed: Ordered, known: Known) -> Tracks:
    """Return what is judged: late rows are left out, and rows that are over already when they come."""
    rows, before = placed.rows, known.before
    assert rows.ids is not None
    assert rows.t is not None
    firsts = rows.ids.take(pa.array(placed.begin[:-1]))
    at = np.asarray(pc.fill_null(pc.index_in(firsts, value_set=before.ids), -1)).astype(np.int64)
    row_before = np.repeat(at, np.diff(placed.begin))
    counts = {"late": 0, "repeated": 0, "outdated": 0, "expired": int(known.expired.sum())}
    kept = np.ones(len(rows), np.bool_)
    held = np.flatnonzero(row_before >= 0)
    if len(held):
        of = row_before[held]
        late = rows.t[held] <= before.t[of]
        same = (rows.t[held] == before.t[of]) & (rows.positions[held] == before.positions[of]).all(axis=1)
        counts["repeated"], counts["late"] = int(same.sum()), int((late & ~same).sum())
        kept[held[late]] = False
    if plan.options.expire is not None and plan.clock is not None:
        outdated = kept & (rows.t <= plan.clock - plan.options.expire)
        counts["outdated"] = int(outdated.sum())
        kept &= ~outdated
    rows = rows.take(np.flatnonzero(kept)) if not kept.all() else rows
    assert rows.ids is not None
    assert rows.t is not None
    # rows before of objects that have rows, or are over
    speaks = np.zeros(len(before), np.bool_)
    spoken = row_before[kept & (row_before >= 0)]
    speaks[spoken] = True
    taken = np.flatnonzero(speaks | known.expired)
    some = before.take(taken)
    ids = pa.concat_arrays([some.ids, rows.ids.cast(some.ids.type)])
    count = len(some)
    is_before = np.append(np.ones(count, np.bool_), np.zeros(len(rows), np.bool_))
    t = np.concatenate([some.t, rows.t])
    table = pa.table({"id": ids, "now": pa.array(~is_before), "t": t})
    keys = [("id", "ascending"), ("now", "ascending"), ("t", "ascending")]
    order = np.asarray(pc.sort_indices(table, sort_keys=keys)).astype(np.int64)
    attributes = {}
    for name, column in rows.attributes.items():
        held_column = some.attributes.get(name)
        old = pa.nulls(count, column.type) if held_column is None else held_column.cast(column.type)
        attributes[name] = pa.concat_arrays([old, column])
    whole = Rows(np.concatenate([some.positions, rows.positions]), ids, t, None, attributes)
    if rows.text is not None:
        text = pa.concat_arrays([pa.nulls(count, rows.text.type), rows.text])
        whole = Rows(whole.positions, ids, t, text, attributes)
    whole = whole.take(order)
    assert whole.ids is not None
    fresh = np.ones(len(whole), np.bool_)
    if len(whole) > 1:
        fresh[1:] = np.asarray(pc.not_equal(whole.ids[1:], whole.ids[:-1]))
    expired = np.append(known.expired[taken], np.zeros(len(rows), np.bool_))[order]
    changes = np.append(some.changes, np.full(len(rows), plan.changes))[order]
    begin = np.append(np.flatnonzero(fresh), len(whole)).astype(np.int64)
    counts["accepted"] = len(rows)
    return Tracks(whole, begin, is_before[order], expired, changes, counts)


def kept_state(
    plan: Plan, buckets: NDArray[np.int64], tracks: Tracks, known: Known
) -> tuple[dict[str, Any] | None, NDArray[np.int64], NDArray[np.int64]]:
    """Write the last row of each object, and all of the buckets that are worth it.

    Returns what a commit says of the run, the buckets that it has rows of, and those of which it has all.
    """
    rows = tracks.rows
    assert rows.ids is not None
    assert rows.t is not None
    last = tracks.begin[1:] - 1
    # a row before that is the last one is there only because its time is over
    gone = tracks.before[last]
    kinds = {name: plan.settings.schema[name] for name in plan.kept if name != "id"}
    ids = rows.ids.take(pa.array(last))
    fresh = Before(
        keys_of(ids),
        ids,
        rows.t[last],
        rows.positions[last],
        np.full(len(last), plan.changes),
        gone,
        {name: rows.attributes[name].take(pa.array(last)).cast(kind) for name, kind in kinds.items()},
    )
    bucket = bucket_of(ids)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.append(buckets, buckets[-1:] + 1))
    parts, of, merged = [], [], []
    for place, b in enumerate(buckets.tolist()):
        mine = fresh.take(order[ends[place] : ends[place + 1]]) if len(fresh) else fresh
        sizes = [size_in(plan.home, run, b) for run in known.runs[b]]
        if len(mine) and worth_merging(sizes, len(mine)):
            mine = _merged(plan, known.runs[b], b, mine, kinds)
            merged.append(b)
        if len(mine):
            parts.append(mine)
            of.append(np.full(len(mine), b))
    if not parts:
        return None, np.zeros(0, np.int64), np.array(merged, np.int64)
    id_kind = pa.int64() if plan.settings.id_type == "int64" else pa.string()
    written = np.array([int(b[0]) for b in of], np.int64)
    entry = write_run(plan.home.folder, np.concatenate(of), concatenated(parts, kinds, id_kind))
    return entry, written, np.array(merged, np.int64)


def _merged(plan: Plan, runs: tuple[Run, ...], bucket: int, fresh: Before, kinds: Mapping[str, pa.DataType]) -> Before:
    """Return all rows of a bucket that stand, the fresh ones before all others; what is gone needs no mark any more."""
    found = []
    for part, rows in standing_rows(plan.home, runs, bucket):
        stands = np.zeros(len(part), np.bool_)
        stands[rows] = True
        hidden = found_in(part, fresh.key, fresh.ids)
        stands[hidden[hidden >= 0]] = False
        stands &= ~part.gone
        found.append(part.take(np.flatnonzero(stands)))
    whole = concatenated([*found, fresh], kinds, fresh.ids.type)
    return whole.take(np.flatnonzero(~whole.gone))
