"""How far work is that somebody waits for: who does it counts its tasks, and stderr shows them.

On a terminal it is a bar; elsewhere a line after two seconds, and others ever more seldom.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from dtoss.compiled.notice import quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLL_SECONDS = 0.2
SHOW_AFTER = 2.0
"""Seconds after which work is shown."""
AFTER = "DTOSS_PROGRESS_AFTER"
"""The variable that says others; 0 tells of all work as it begins."""
MOST_SECONDS = 60.0
"""From one line to the next, where stderr is no terminal."""
Count = Callable[[], tuple[int, int]]
"""Returns how many tasks are finished, and how many there are."""


@dataclass(eq=False)
class Work:
    """Something that is done, of so many tasks as are known by now."""

    name: str
    asked: Count | None = None  # Who knows the tasks, where they are not counted here
    tasks: int = 0
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    due: float = 0.0  # Seconds that it lasts before it is told of, once the usual ones are over
    step: str = ""  # What is done of it just now
    told: bool = False  # Whether a line has told of it
    bar: bool = False  # Whether a bar shows it
    stop: threading.Event = field(default_factory=threading.Event)
    watcher: threading.Thread | None = None

    @property
    def spent(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self.began

    def count(self) -> tuple[int, int]:
        """Return (finished, all) tasks."""
        return (self.done, self.tasks) if self.asked is None else self.asked()

    def end(self) -> None:
        """Show it no longer; say how long it took where a line has told of it."""
        if self.watcher is None:
            return
        self.stop.set()
        self.watcher.join()
        self.watcher = None
        if self.told:
            print(f"{self.name}: {self.spent:.1f} s", file=sys.stderr, flush=True)


_RUNNING: list[Work] = []
"""What is shown now: a command, a step of it, the innermost last. A command does one thing at a time."""
_LOCK = threading.Lock()


def count_tasks(tasks: int) -> Callable[[], None]:
    """Add tasks to the work that is shown, if any; return what says that one of them is finished."""
    with _LOCK:
        work = _RUNNING[-1] if _RUNNING else Work("")
        work.tasks += tasks

    def finish() -> None:
        with _LOCK:
            work.done += 1

    return finish


@contextmanager
def work_shown(name: str, count: Count | None = None, after: float | None = None, bar: bool = True) -> Iterator[None]:
    """Show on stderr what is done, and how far it is, where it takes longer than a moment and nobody wants quiet.

    Work inside of work is shown in its place. ``count``: (finished, all) tasks; those of :func:`count_tasks` when None.
    ``after``: seconds. ``bar``: whether a terminal shows a bar, beside which nothing else may be printed.
    """
    if quiet():
        yield
        return
    work = Work(name, count)
    wait = float(os.environ.get(AFTER, SHOW_AFTER)) if after is None else after
    with _LOCK:
        work.bar = bar and sys.stderr.isatty() and not any(other.bar for other in _RUNNING)
        _RUNNING.append(work)
    if not (work.bar or wait):
        _tell(work)
    work.watcher = threading.Thread(target=_show_bar if work.bar else _show_lines, args=(work, wait), daemon=True)
    work.watcher.start()
    try:
        yield
    finally:
        work.end()
        with _LOCK:
            _RUNNING.remove(work)
            if _RUNNING:
                _RUNNING[-1].due = max(_RUNNING[-1].due, _RUNNING[-1].spent + wait)


def show_step(step: str) -> str:
    """Show what is done just now of the work that is shown, if any; return what was shown before."""
    with _LOCK:
        if not _RUNNING:
            return ""
        before, _RUNNING[-1].step = _RUNNING[-1].step, step
        return before


def end_beginning() -> None:
    """Show no more of what runs: a command that goes on has begun, and tells of itself from now on."""
    for work in _RUNNING[::-1]:
        work.end()


def _show_lines(work: Work, after: float) -> None:
    """Tell of work once it has lasted long enough, and again whenever it has lasted twice as long; not of its parts."""
    while not work.stop.wait(min(POLL_SECONDS, after) or POLL_SECONDS):
        if _RUNNING[-1] is work and work.spent >= max(work.due, after):
            _tell(work)


def _tell(work: Work) -> None:
    work.due, work.told = work.spent + min(work.spent, MOST_SECONDS), True
    said = said_of_tasks(*work.count(), work.spent) + (f", {work.step}" if work.step else "")
    print(f"{work.name}: {work.spent:.1f} s so far{said}", file=sys.stderr, flush=True)


def said_of_tasks(done: int, tasks: int, spent: float) -> str:
    """Return how many of the tasks are done, and about how long the others will take where that can be told.

    Examples
    --------
    >>> said_of_tasks(12, 64, 10.0)
    ', 12 of 64 tasks, about 43 s left'
    >>> said_of_tasks(0, 1, 10.0)
    ''
    """
    if tasks < 2:
        return ""
    left = f", about {spent * (tasks - done) / done:.0f} s left" if done else ""
    return f", {done:,} of {tasks:,} tasks{left}"


def _show_bar(work: Work, after: float) -> None:
    if work.stop.wait(min(POLL_SECONDS, after) or POLL_SECONDS):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.fields[tasks]}"), TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
    )  # fmt: skip
    # results go where stdout goes, whoever watches
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        line = bar.add_task(work.name, total=None, tasks="")
        while not work.stop.wait(POLL_SECONDS):
            done, tasks = work.count()
            if work.step:
                bar.update(line, description=f"{work.name}: {work.step}")
            if tasks > 1:
                bar.update(line, completed=done, total=tasks, tasks=f"{done}/{tasks} tasks")
        tasks = max(work.count()[1], 1)
        bar.update(line, completed=tasks, total=tasks, tasks=f"{tasks}/{tasks} tasks" if tasks > 1 else "")


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


@contextmanager
def show_compiling() -> Iterator[None]:
    """Show the kernel that is compiled while inside, if any; one that another one calls is no kernel of its own."""
    from numba.core.event import Event, Listener, install_listener

    class Kernels(Listener):
        """Is told by numba when it compiles."""

        begun = depth = 0
        before = ""

        def on_start(self, event: Event) -> None:
            """Show the kernel."""
            if not self.depth:
                self.begun += 1
                self.before = show_step(f"compiling once for this processor, kernel {self.begun}")
            self.depth += 1

        def on_end(self, event: Event) -> None:
            """Show it no longer."""
            self.depth -= 1
            if not self.depth:
                show_step(self.before)

    with install_listener("numba:compile", Kernels()):
        yield
