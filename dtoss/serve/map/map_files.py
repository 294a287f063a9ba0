"""What a server was told of beside its snapshots: the optimiser's plan, patterns and report, and the watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dtoss.errors import InputError
from dtoss.serve.cluster.served_plans import Patterns, Plan, read_patterns, read_plan
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.map.reloaded_files import Reread
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
    return PageFiles(plan, patterns, report, settings.home())
