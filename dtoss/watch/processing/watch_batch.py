"""A batch without Spark: its rows given to tasks by bucket, one task after another, and committed."""

from __future__ import annotations

import numpy as np

from dtoss.buckets import BUCKETS, bucket_of
from dtoss.commits.chain import Commit
from dtoss.watch.arriving_rows import Rows
from dtoss.watch.processing.expiry_events import worth_a_commit
from dtoss.watch.processing.watch_commit import commit_batch
from dtoss.watch.processing.watch_plan import Plan, set_back
from dtoss.watch.processing.watch_task import TaskResult, run_task


def run_batch(plan: Plan, rows: Rows, tasks: int = 1) -> Commit | None:
    """Run the tasks of a batch here, and commit it; None where it is a beat with nothing to say.

    ``rows``: all of it; legal positions only.
    """
    of = np.zeros(len(rows), np.int64) if rows.ids is None else bucket_of(rows.ids) % tasks

    def run(plan: Plan) -> list[TaskResult]:
        buckets = [np.arange(task, BUCKETS, tasks) for task in range(tasks)]
        return [run_task(plan, task, buckets[task], rows.take(np.flatnonzero(of == task))) for task in range(tasks)]

    done = run(plan)
    if right := set_back(plan, [one.heard for one in done]):
        plan, done = right, run(right)
    ended = worth_a_commit(plan, done)
    return None if ended is None else commit_batch(plan, done, ended=ended)
