"""Showing how a job gets on: a bar a stage on stderr, and the seconds each stage took."""

from __future__ import annotations

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


@dataclass
class Stages:
    """The stages of a job: seconds of each, by name, and a bar on stderr where it is ``shown``."""

    session: SparkSession | None = None
    shown: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; Spark's tasks that begin in it move the bar."""
        began = time.perf_counter()
        stop = threading.Event()
        watcher = None
        if self.shown and self.session is not None:
            group = f"{name}-{uuid.uuid4().hex[:8]}"
            self.session.sparkContext.setJobGroup(group, name)
            watcher = threading.Thread(target=_watch, args=(self.session, group, name, stop), daemon=True)
            watcher.start()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
            stop.set()
            if watcher is not None:
                watcher.join()


def _watch(session: SparkSession, group: str, name: str, stop: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.fields[tasks]}"),
        TimeElapsedColumn(),
    )
    tracker = session.sparkContext.statusTracker()
    with Progress(*columns, console=console, transient=not console.is_terminal) as bar:
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
