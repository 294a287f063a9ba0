"""Batches of a watch without Spark: rows given to tasks by bucket, one after another, with workers or without."""

from __future__ import annotations

import numpy as np

from dtoss.buckets import BUCKETS, bucket_of
from dtoss.watch.processing.watch_commit import commit_batch, worth_a_commit
from dtoss.watch.processing.watch_plan import set_back
from dtoss.watch.processing.watch_task import run_task
from dtoss.watch.sharding.sharded_batch import run_judged


def run_batch(plan, rows, tasks=1):
    """Run the tasks of a batch here, and commit it; None where it is a beat with nothing to say."""
    parts = _parts(rows, tasks)

    def run(plan):
        return [run_task(plan, *part) for part in parts]

    done = run(plan)
    if right := set_back(plan, [one.heard for one in done]):
        plan, done = right, run(right)
    ended = worth_a_commit(plan, done)
    return None if ended is None else commit_batch(plan, done, ended=ended)


def run_on_workers(plan, rows, tasks=1):
    """Return what the tasks and the workers of a batch have done, one after another, here; the plan has a layout."""
    return run_judged(plan, _parts(rows, tasks))


def _parts(rows, tasks):
    """Return of each task its number, its buckets, whose number is that modulo ``tasks``, and its rows."""
    of = np.zeros(len(rows), np.int64) if rows.ids is None else bucket_of(rows.ids) % tasks
    return [(task, np.arange(task, BUCKETS, tasks), rows.take(np.flatnonzero(of == task))) for task in range(tasks)]
