"""Showing how a job gets on: a bar a stage on a terminal's stderr, and the seconds each stage took."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.2
LONG_SECONDS = 10.0
"""Where stderr is no terminal, stages that took longer than this leave a line there."""


@dataclass
class Stages:
    """The stages of a job: seconds of each, by name, and a bar on stderr where it is ``shown`` and a terminal."""

    session: SparkSession | None = None
    shown: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; Spark's tasks that begin in it move the bar."""
        began = time.perf_counter()
        stop = threading.Event()
        watcher = None
        if self.shown and self.session is not None and sys.stderr.isatty():
            group = f"{name}-{uuid.uuid4().hex[:8]}"
            self.session.sparkContext.setJobGroup(group, name)
            watcher = threading.Thread(target=_watch, args=(self.session, group, name, stop), daemon=True)
            watcher.start()
        try:
            yield
        finally:
            spent = time.perf_counter() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            stop.set()
            if watcher is not None:
                watcher.join()
            elif self.shown and spent > LONG_SECONDS:
                print(f"{name}: {spent:.1f} s", file=sys.stderr)


def _watch(session: SparkSession, group: str, name: str, stop: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.fields[tasks]}"),
        TimeElapsedColumn(),
    )
    tracker = session.sparkContext.statusTracker()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        line = bar.add_task(name, total=None, tasks="")
        done = total = 0
        while not stop.wait(POLL_SECONDS):
            done, total = _tasks(tracker, group)
            if total:
                bar.update(line, completed=done, total=total, tasks=f"{done}/{total} tasks")
        total = max(total, 1)
        bar.update(line, completed=total, total=total, tasks=f"{total}/{total} tasks" if total > 1 else "")


def _tasks(tracker: object, group: str) -> tuple[int, int]:
    """Return (finished, all) tasks of the stages of a job group, as far as Spark still remembers them."""
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):  # type: ignore[attr-defined]
        info = tracker.getJobInfo(job)  # type: ignore[attr-defined]
        for stage in info.stageIds if info else ():
            about = tracker.getStageInfo(stage)  # type: ignore[attr-defined]
            if about:
                done += about.numCompletedTasks
                total += about.numTasks
    return done, total
