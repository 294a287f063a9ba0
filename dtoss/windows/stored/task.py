"""A task of a batch: rows of some buckets in; what they change in panes, the state of their objects, and counts out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dtoss.buckets import BUCKETS
from dtoss.commits.listed import Listed, put
from dtoss.windows.stored.files import read_objects, write_objects, write_patches
from dtoss.windows.stored.home import SET_ASIDE
from dtoss.windows.stored.plan import Plan
from dtoss.windows.tracks.rows_in import WindowRows
from dtoss.windows.tracks.step import objects_step
from dtoss.windows.watermark import IN_FUTURE, TOO_LATE, Reached, horizon_of

REJECTED_ROWS = pa.schema([("reason", pa.large_string()), ("row", pa.large_string())])


@dataclass(frozen=True)
class Done:
    """What a task has done; small, and pickled.

    Parameters
    ----------
    task
        Its number.
    objects
        The state of its objects.
    patches, rejected
        What has changed in panes, and the rows that were set aside; None where there are none.
    reached
        The last panes of its objects.
    counts
        By name.
    reasons
        Rows that were set aside, by reason.
    seconds
        That it took.
    """

    task: int
    objects: Listed
    patches: Listed | None
    rejected: Listed | None
    reached: Reached
    counts: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def buckets_of(task: int, tasks: int) -> NDArray[np.int64]:
    """Return the buckets of a task, rising."""
    return np.arange(task, BUCKETS, tasks)


def run_task(plan: Plan, task: int, rows: WindowRows, raw: pa.Array | None = None, bad: pa.Table | None = None) -> Done:
    """Return what a task has done; its files are there, and count for nothing until a commit names them.

    Parameters
    ----------
    plan
        Of the batch.
    task
        The number of the task, from 0 on.
    rows
        Of its buckets, in any order; legal positions only.
    raw
        (n,). Rows as they were read, for the quarantine, null where that is not known.
    bad
        Rows that are set aside, of :data:`REJECTED_ROWS`.

    Raises
    ------
    StoreError
        If a file of the state is missing or damaged.
    OSError
        If one cannot be written.

    Notes
    -----
    Costs O(n + k) for n rows, and k rows of the state of the task's objects.
    """
    begun = time.perf_counter()
    spec, home = plan.spec, plan.home
    rejected = [] if bad is None or len(bad) == 0 else [bad.cast(REJECTED_ROWS)]
    read = len(rows) + sum(map(len, rejected))
    for reason, wrong in ((IN_FUTURE, _ahead), (TOO_LATE, _late)):
        aside = wrong(plan, rows.t)
        if aside.any():
            at = np.flatnonzero(aside)
            rejected.append(_set_aside(reason, rows.take(at), None if raw is None else raw.take(pa.array(at))))
            rows = rows.take(np.flatnonzero(~aside))
            raw = None if raw is None else raw.filter(pa.array(~aside))
    keys = plan.keys
    before = read_objects(home, plan.objects, buckets_of(task, plan.tasks), plan.id_type, keys.single)
    step = objects_step(spec, keys, before, rows, horizon_of(spec, plan.watermark))
    whole = pa.concat_tables(rejected) if rejected else None
    reasons: dict[str, int] = {}
    if whole is not None:
        reasons = {one["values"]: one["counts"] for one in whole.column("reason").value_counts().to_pylist()}
    counts = {
        "rows": read,
        "counted": len(rows) - step.losers,
        "losers": step.losers,
        "jumps": step.jumps,
        "quarantined": sum(reasons.values()),
    }
    return Done(
        task,
        write_objects(home, step.after),
        write_patches(home, spec, step.patches),
        None if whole is None else _quarantined(plan, whole),
        step.reached,
        counts,
        reasons,
        time.perf_counter() - begun,
    )


def _ahead(plan: Plan, t: NDArray[np.int64]) -> NDArray[np.bool_]:
    return t > plan.now_us + plan.spec.max_ahead


def _late(plan: Plan, t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows are too late by the watermark of the commit before: none in the first batch."""
    if plan.watermark is None:
        return np.zeros(len(t), np.bool_)
    return t < plan.watermark - plan.spec.late


def _set_aside(reason: str, rows: WindowRows, raw: pa.Array | None) -> pa.Table:
    known = [None] * len(rows) if raw is None else raw.to_pylist()
    texts = [_as_text(rows, i) if text is None else text for i, text in enumerate(known)]
    return pa.table({"reason": [reason] * len(texts), "row": texts}, schema=REJECTED_ROWS)


def _as_text(rows: WindowRows, i: int) -> str:
    x, y = rows.positions[i].tolist()
    return json.dumps({"id": rows.ids[i].as_py(), "t_us": int(rows.t[i]), "x": x, "y": y})


def _quarantined(plan: Plan, rows: pa.Table) -> Listed:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.sort_by([("reason", "ascending"), ("row", "ascending")]), sink, compression="zstd")
    return Listed.of(put(plan.home.folder, sink.getvalue(), len(rows), "parquet", SET_ASIDE))


def summed(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return counts of several tasks as one, by name."""
    total: dict[str, int] = {}
    for one in counts:
        for name, value in one.items():
            total[name] = total.get(name, 0) + value
    return dict(sorted(total.items()))
