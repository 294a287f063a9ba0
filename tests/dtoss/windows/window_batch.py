"""Batches and rebuilds of windows without Spark: rows given to tasks by bucket, one task after another, committed."""

from __future__ import annotations

import numpy as np

from dtoss.windows.backfill.backfill_commit import commit_rebuild
from dtoss.windows.processing.window_task import commit_batch, run_task


def run_batch(plan, rows):
    """Run the tasks of a batch here, commit it, and return its commit; the rows have legal positions only."""
    return commit_batch(plan, _tasks_done(plan, rows))


def run_rebuild(plan, rebuild, rows, reads=()):
    """Run the tasks of a rebuild here, by all raw rows that are there, commit it, and return its commit."""
    wanted = rows.take(np.flatnonzero((rows.t >= rebuild.rows_from) & (rows.t < rebuild.rows_to)))
    return commit_rebuild(plan, rebuild, _tasks_done(plan, wanted), reads)


def _tasks_done(plan, rows):
    of = np.array(plan.placement.worker_of)[rows.bucket]
    mine = ((task, np.flatnonzero(of == task)) for task in range(plan.tasks))
    return [run_task(plan, task, rows.take(some)) for task, some in mine if len(some)]
