"""The stages of a job: how far each is, on stderr, and the seconds that it took."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from pipelines.engines.progress import work_shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Stages:
    """The stages of a job: seconds of each, by name, and how far it is where that is ``shown``."""

    session: SparkSession | None = None
    shown: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    after: float | None = None  # Seconds after which a stage is shown, where not after the usual ones

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; the tasks that begin in it are counted."""
        began = time.perf_counter()
        try:
            with self._show(name) if self.shown else nullcontext():
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    @contextmanager
    def _show(self, name: str) -> Iterator[None]:
        count = None
        if self.session is not None:
            group = f"{name}-{uuid.uuid4().hex[:8]}"
            self.session.sparkContext.setJobGroup(group, name)
            count = partial(_tasks, self.session.sparkContext.statusTracker(), group)
        with work_shown(name, count, self.after):
            yield


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
