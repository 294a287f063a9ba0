"""What commands share when they run: a Spark, tables, and what is told of commits and what is wrong with them.

The Spark of commands that go on: started when there are rows, and anew after it has gone.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from dtoss.compiled.kept_places import has_shipped, kept_kernels
from dtoss.compiled.notice import COMPILING_SAID, QUIET
from dtoss.errors import InputError
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.signals import interrupt_once

if TYPE_CHECKING:
    from dtoss.commits.verify_report import VerifyReport


def start_spark(master: str | None, driver_memory: str | None, end_seconds: float | None = None) -> Any:
    """Return a Spark session. ``end_seconds``: that Java may take to end after a signal; ten when None."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("this needs Spark: pip install 'dtoss[spark]'") from None
    from pipelines.engines.progress import work_shown
    from pipelines.spark.java import JavaNotFound
    from pipelines.spark.session import SECONDS_TO_END, spark_session, stop_java

    if not (kept_kernels() or has_shipped()):
        note("what works for Spark compiles first, once for this processor; `dtoss warm` does it beforehand")
    try:
        with work_shown("Spark starts"), _quiet_workers():
            session = spark_session(master, driver_memory=driver_memory)
    except JavaNotFound as error:
        raise InputError(str(error)) from None
    seconds = SECONDS_TO_END if end_seconds is None else end_seconds
    interrupt_once(partial(stop_java, seconds))  # Spark has set a handler of its own
    return session


@contextmanager
def _quiet_workers() -> Iterator[None]:
    """Have the processes that are started meanwhile not tell each what it compiles."""
    if os.environ.get(QUIET):
        yield
        return
    os.environ[QUIET] = COMPILING_SAID
    try:
        yield
    finally:
        del os.environ[QUIET]


def print_columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts under the names of their columns, each on one line, with blanks between."""
    widths = [max(len(name), *(len(row[place]) for row in rows), 0) for place, name in enumerate(names)]
    for row in [names, *rows]:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print rows of a name and a text, wide where nobody looks."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, text)
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(table)


END_SECONDS = 1.5
"""That Java may take to end after a signal: with the grace of a cycle, SIGTERM takes less than 5 s."""


@dataclass
class Sessions:
    """A session that is started once it is asked for."""

    master: str | None
    driver_memory: str | None
    by_spark: bool = True  # Whether there is one; else this process does the work
    begun: Callable[[], None] = lambda: None  # Is called whenever one has started
    _started: list[Any] = field(default_factory=list)

    def __call__(self) -> Any:
        """Return the session; None where this process does the work."""
        if self.by_spark and not self._started:
            self._started.append(start_spark(self.master, self.driver_memory, END_SECONDS))
            self.begun()
        return self._started[0] if self.by_spark else None

    @property
    def renew(self) -> Callable[[], None] | None:
        """Lets go of a session that has ended; None where none of ours is: spark-submit's, or that of no Spark."""
        return self._renew if self.by_spark and "PYSPARK_GATEWAY_PORT" not in os.environ else None

    def _renew(self) -> None:
        from pipelines.spark.session import forget_spark

        self._started.clear()
        forget_spark()


_COLUMNS = ("table", "number", "time", "what", "writer")


def print_log(commits: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print commits, each with its table, number, time, writer, what it did, and facts of that."""
    if as_json:
        print(json.dumps(commits))
        return
    rows = []
    for one in commits:
        facts = _facts_text({name: value for name, value in one.items() if name not in _COLUMNS})
        said = {**one, "what": f"{one['what']}: {facts}" if facts else one["what"]}
        rows.append([str(said[name]) for name in _COLUMNS])
    print_columns(_COLUMNS, rows)


def _facts_text(facts: Mapping[str, Any]) -> str:
    parts = []
    for name, value in facts.items():
        if isinstance(value, Mapping):
            parts.append(_facts_text(value))
        elif isinstance(value, int | float):
            parts.append(f"{value:,} {name}")
        elif value is not None:
            parts.append(str(value))
    return ", ".join(filter(None, parts))


def print_reports(reports: Mapping[str, VerifyReport], as_json: bool, **more: Any) -> int:
    """Print what was looked at and what is wrong, and return the exit code: 2 of damage, 1 of what could not be read.

    ``reports``: of each table by its name; ``more``: facts that the JSON has besides.
    """
    from dtoss.commits.verify_report import added_reports

    found = added_reports(list(reports.values()))
    if as_json:
        tables = {name: one.as_json() for name, one in reports.items()}
        print(json.dumps(found.as_json() | ({"tables": tables} if len(reports) > 1 else {}) | more))
    else:
        for line in [*found.damaged, *found.unread]:
            print(line, file=sys.stderr)
        nothing = "nothing of what could be read" if found.unread else "nothing"
        rows = _rows(found)
        if len(reports) > 1:
            rows = [(name, ", ".join(f"{many} {what}" for what, many in _rows(one))) for name, one in reports.items()]
        rows.append(("damaged", _count_text(found.damaged) or nothing))
        print_table([*rows, ("could not be read", _count_text(found.unread))] if found.unread else rows)
    return 2 if found.damaged else 1 if found.unread else 0


def _rows(found: VerifyReport) -> list[tuple[str, str]]:
    held = {name: ", ".join(held) if isinstance(held, list) else f"{held:,}" for name, held in found.held.items()}
    return [("commits", f"{found.commits:,}"), ("files", f"{found.files:,} of {found.bytes:,} bytes"), *held.items()]


def _count_text(lines: Sequence[str]) -> str:
    return f"{len(lines):,} things, named on stderr" if lines else ""
