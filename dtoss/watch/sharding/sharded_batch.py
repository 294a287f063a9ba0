"""A batch on workers without Spark: rows judged by tasks, sent to workers, answered, and gathered again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dtoss.watch.processing.watch_plan import Plan
from dtoss.watch.processing.watch_task import TaskResult, judge
from dtoss.watch.sharding.sent_rows import sent_to_workers
from dtoss.watch.sharding.words_by_cell import said_by
from dtoss.watch.sharding.worker_task import WorkerResult, answer_rows, merge_events, told_by_task
from dtoss.watch.watch_settings import Rows


def run_judged(
    plan: Plan, parts: Sequence[tuple[int, NDArray[np.int64], Rows]]
) -> tuple[list[TaskResult], list[WorkerResult]]:
    """Return what tasks, of their numbers, buckets and rows, and workers have done."""
    assert plan.routed is not None
    done: list[tuple[TaskResult, float]] = []
    sent = [list[tuple[int, pa.Table]]() for _ in range(plan.routed.workers)]
    told: dict[int, list[pa.Table]] = {}
    for task, buckets, rows in parts:
        begun = time.perf_counter()
        judged = judge(plan, task, buckets, rows)
        for worker, batch in sent_to_workers(plan, judged):
            sent[worker].append((task, pa.Table.from_batches([batch])))
        if (told_here := told_by_task(plan, judged)) is not None:
            told[task] = [told_here]
        done.append((replace(judged.done, said=said_by(plan, judged)), time.perf_counter() - begun))
    worked: list[WorkerResult] = []
    for worker, some in enumerate(sent):
        if not some:
            continue
        one, events = answer_rows(plan, worker, some)
        worked.append(one)
        for task, table in events.items():
            told.setdefault(task, []).append(table)
    return [merge_events(plan, one, told.get(one.task, []), seconds) for one, seconds in done], worked
