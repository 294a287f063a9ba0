"""What commands share when they run: a Spark, and tables.

The Spark of commands that go on: started when there are rows, and anew after it has gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dtoss.compiled.kept_places import has_shipped, kept_kernels
from dtoss.compiled.notice import COMPILING_SAID, QUIET
from dtoss.errors import InputError
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.signals import interrupt_once


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
