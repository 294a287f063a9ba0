"""A batch without Spark: its rows given to tasks by bucket, one task after another, and committed."""

from __future__ import annotations

import numpy as np

from dtoss.commits.chain import Commit
from dtoss.windows.processing.window_commit import commit_batch
from dtoss.windows.processing.window_task import MapResult, run_task
from dtoss.windows.storage.window_plan import Plan
from dtoss.windows.trajectories.sorted_rows import WindowRows


def run_batch(plan: Plan, rows: WindowRows) -> Commit:
    """Run the tasks of a batch here, commit it, and return its commit.

    ``rows``: all of it; legal positions only.
    """
    return commit_batch(plan, tasks_done(plan, rows))


def tasks_done(plan: Plan, rows: WindowRows) -> list[MapResult]:
    """Return what the tasks of a batch have done that have rows, run here one after another.

    ``rows``: all of it; legal positions only.
    """
    of = np.array(plan.placement.worker_of)[rows.bucket]
    mine = ((task, np.flatnonzero(of == task)) for task in range(plan.tasks))
    return [run_task(plan, task, rows.take(some)) for task, some in mine if len(some)]
