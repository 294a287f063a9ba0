"""What a server was told of beside its snapshots: the optimiser's plan, patterns and report, and the watch.

Files that others replace while a server runs: read again when they change, and kept where that fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from dtoss.errors import InputError
from dtoss.locks import Lock
from dtoss.serve.cluster.served_plans import Patterns, Plan, read_patterns, read_plan
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.basemap import Basemap, basemap_of
from dtoss.watch.watch_folder import Home

REPORT = "report.html"
"""The page of a report's folder."""


@dataclass(frozen=True, eq=False)
class PageFiles:
    """What they say; each is None where the server was told of none."""

    plan_file: Reread[Plan] | None = None
    patterns_file: Reread[Patterns] | None = None
    report: Path | None = None
    home: Home | None = None
    basemap: Basemap | None = None

    @property
    def plan(self) -> Plan | None:
        """The plan in force."""
        return None if self.plan_file is None else self.plan_file.now

    @property
    def patterns(self) -> Patterns | None:
        """The patterns."""
        return None if self.patterns_file is None else self.patterns_file.now

    @property
    def problems(self) -> list[str]:
        """Which files could not be read when they had changed, and why."""
        held = [file.problem for file in (self.plan_file, self.patterns_file) if file is not None]
        return [problem for problem in held if problem is not None]

    def look(self, tell: Callable[[str], None]) -> None:
        """Read again what has changed, and tell what could not be read; in a thread that may wait for a disk."""
        for file in (self.plan_file, self.patterns_file):
            if file is not None:
                file.look(tell)


def files_of(settings: Settings) -> PageFiles:
    """Return the files that a server was told of, read."""
    plan = None if settings.plan is None else Reread(settings.plan, read_plan, "--plan")
    patterns = None if settings.patterns is None else Reread(settings.patterns, read_patterns, "--patterns")
    report = None if settings.report is None else Path(settings.report).absolute()
    if report is not None and not (report / REPORT).is_file():
        raise InputError(f"--report {settings.report}: there is no {REPORT}: name the folder that dtoss report wrote")
    if settings.basemap is None and settings.basemap_attribution is not None:
        raise InputError("--basemap-attribution needs --basemap: the tiles that it is about")
    basemap = None if settings.basemap is None else basemap_of(settings.basemap, settings.basemap_attribution)
    return PageFiles(plan, patterns, report, settings.home(), basemap)


T = TypeVar("T")


class Reread(Generic[T]):
    """What a file said when it could last be read."""

    def __init__(self, path: str, read: Callable[[str], T], option: str) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100
        self._read = read
        self._option = option
        self._lock = Lock()
        self._failing: object = None
        try:
            self._mark = _mark_of(self._path)
            self.now: T = read(self._path)
        except (OSError, ValueError) as error:
            raise InputError(f"{option} {path}: {_why(path, error)}") from None
        self.problem: str | None = None

    def look(self, tell: Callable[[str], None]) -> None:
        """Read the file if it has changed; in a thread that may wait for a disk.

        ``tell``: is told why it could not be read, once: ``problem`` says it until it can.
        """
        if not self._lock.acquire(blocking=False):
            return  # another thread looks
        try:
            self._look(tell)
        finally:
            self._lock.release()

    def _look(self, tell: Callable[[str], None]) -> None:
        mark: object = None
        try:
            mark = _mark_of(self._path)
            if mark == self._mark:
                self._failing = self.problem = None
                return
            fresh = self._read(self._path)
        except (OSError, ValueError) as error:
            # half of a file may have been written: only what fails twice has failed
            if self._failing != (mark,):
                self._failing = (mark,)
                return
            why = f"{self._option} is kept as it was: {_why(self._path, error)}"
            if self.problem != why:
                self.problem = why
                tell(why)
            return
        self.now, self._mark, self._failing, self.problem = fresh, mark, None, None


def _mark_of(path: str) -> tuple[int, int, int]:
    found = os.stat(path)  # noqa: PTH116
    return found.st_mtime_ns, found.st_size, found.st_ino


def _why(path: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return " ".join(str(error).removeprefix(f"{path}: ").split())
