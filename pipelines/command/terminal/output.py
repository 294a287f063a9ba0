"""What commands share when they run: the engine that is asked for or needed, tables, and what is told of commits.

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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dtoss.compiled.kept_places import has_shipped, kept_kernels
from dtoss.compiled.notice import COMPILING_SAID, QUIET
from dtoss.errors import InputError
from dtoss.option import Option
from pipelines.command.terminal.notes import note
from pipelines.command.terminal.signals import interrupt_once

if TYPE_CHECKING:
    from dtoss.commits.verify_report import VerifyReport
    from pipelines.rows.inputs import Inputs


IN_MEMORY = {"parquet": 4.0, "csv": 1.5, "tsv": 1.5, "json": 3.0}
"""Bytes of rows in memory for each byte of their files, about; 1 of other formats."""
PACKED_MORE = 6.0


@dataclass(frozen=True)
class Engine:
    """What does the work of a command."""

    title: ClassVar[str] = "Where the work is done"
    engine: Annotated[
        str,
        Option(
            "What does the work: this process, or Spark; auto takes it for --master or large files.",
            written=Literal["auto", "local", "spark"],
        ),
    ] = "auto"
    master: Annotated[str | None, Option("Spark master; local[*] if not given.")] = None
    driver_memory: Annotated[
        str | None, Option("Heap of a local Spark, such as 4g; a sixth of the machine's if not given.")
    ] = None

    @property
    def has_master(self) -> bool:
        """Whether a master of Spark's is named here, or by spark-submit."""
        return self.master is not None or "PYSPARK_GATEWAY_PORT" in os.environ

    def session(self, inputs: Inputs | None = None, needs: str | None = None) -> Any:
        """Return the Spark that does the work, or None where this process does.

        ``inputs``: what is read, where it is known; ``needs``: what of the command only Spark does; None for nothing.
        """
        return start_spark(self.master, self.driver_memory) if self._is_spark(inputs, needs) else None

    def sessions(self, begun: Callable[[], None] = lambda: None) -> Sessions:
        """Return what starts the Spark of a command that goes on, once there are rows; or says that it is not needed.

        ``begun``: is called whenever one has started.
        """
        return Sessions(self.master, self.driver_memory, self._is_spark(None, None), begun)

    def _is_spark(self, inputs: Inputs | None, needs: str | None) -> bool:
        """Return whether Spark does the work, and say why where nobody has asked for it."""
        from pipelines.spark.session import running_session

        why = self.why_spark(inputs, needs)
        if why and running_session() is None:
            print(f"Spark does this: {why}", file=sys.stderr)
        return why is not None

    def why_spark(self, inputs: Inputs | None, needs: str | None) -> str | None:
        """Return why Spark is taken, empty where the user has said so; None where this process does the work."""
        said = self.has_master or self.driver_memory
        if self.engine == "spark" or (self.engine == "auto" and said):
            return ""
        if self.engine == "local":
            return None
        if needs is not None:
            return needs
        if inputs is None:
            return None
        if not inputs.places:
            return f"{', '.join(inputs.paths)} is reached by it alone"
        return too_large(expected_bytes(inputs))


def too_large(expected: float) -> str | None:
    """Return why Spark is taken for rows of so many bytes; None where this process has room for them."""
    from pipelines.engines.spool import MEMORY, bytes_for_rows

    room = bytes_for_rows()
    if expected > room:
        return (
            f"the rows take some {expected / 2**30:.1f} GiB, and {room / 2**30:.1f} are for them here (--engine local "
            f"writes to disk what does not fit, {MEMORY} allows more)"
        )
    return None


def expected_bytes(inputs: Inputs) -> float:
    """Return about how much memory the rows of files take."""
    from pipelines.rows.table_formats import PACKED

    each = IN_MEMORY.get(inputs.kind, 1.0)
    files = zip(inputs.sizes, inputs.files, strict=True)
    return sum(each * size * (PACKED_MORE if file.endswith(PACKED) else 1.0) for size, file in files)


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
