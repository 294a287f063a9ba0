"""Batches handed to a target, also a command on its stdin: again where it is away, set aside where it refuses."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

from dtoss.client.http_connections import Later, backoff
from dtoss.errors import InputError, Undelivered, reason
from dtoss.watch.events.event_lines import Lines
from dtoss.watch.events.readers import Cursor
from dtoss.watch.targets.file_target import AppendedLines
from dtoss.watch.targets.target import USUAL_BATCH, Batch, Refused, Target
from pipelines.command.terminal.notes import warn
from pipelines.loop.stopping import Ending, Stopping

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the same is tried again."""
LONGEST_ASKED = 3600.0
"""Seconds that a target may ask for, at the most."""
GRACE_SECONDS = 8.0
"""That a batch under way has to end after SIGTERM: less than service managers leave."""
TOLD_SECONDS = 10.0
"""Between two lines that say what has become of events."""
_HEARD_SECONDS = 0.2
"""Within which this process hears of a signal that has ended its command, too."""
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Trying:
    """How often the same is tried again, and what becomes of it then."""

    retries: int = 5  # How often what is refused
    patience: float | None = None  # Seconds for which a target may be away; for ever when None
    dead_letter: str | None = None  # The file for what is not taken; None where the reader stays before it
    # Seconds before the first retry, and before any at the most
    pauses: tuple[float, float] = (SHORTEST_PAUSE, LONGEST_PAUSE)
    clock: Callable[[], float] = time.monotonic


USUAL = Trying()
"""Where nothing else is said."""


@dataclass
class Counts:
    """What has become of events so far."""

    events: int = 0  # That were taken
    batches: int = 0  # Of these
    failed: int = 0  # Tries
    dead: int = 0  # Events that were set aside
    upto: str | None = None  # The id of the last event that was taken or set aside

    def facts(self) -> dict[str, Any]:
        """Return them by their names."""
        return asdict(self)


@dataclass
class Handing:
    """What hands batches of a reader to a target."""

    target: Target
    reader: str  # Its name
    trying: Trying
    stopping: Stopping  # Whether somebody has asked to end
    tell: Callable[[Counts], None] | None = None  # Is told what has become of events, now and then
    counts: Counts = field(default_factory=Counts)
    changed: Callable[[], None] = lambda: None  # Is called after each change of these

    def __post_init__(self) -> None:
        dead = self.trying.dead_letter
        self._dead = None if dead is None else AppendedLines(dead, "--dead-letter")
        self._away: float | None = None  # since when the target is away; None where it is there
        self._again = 0.0  # when one that is away for too long is tried again
        self._told, self._said = self.trying.clock(), self.counts.upto

    def begin(self, mark: str) -> Cursor | None:
        """Return up to where the target has all events; who waits for one that is away may be asked to end."""
        return self._try(lambda _: self.target.begin(mark), "what it has already")

    def take(self, lines: Lines) -> bool:
        """Return whether the reader may move on behind some events; if not, somebody has asked to end."""
        which = f"{lines.events:,} events from {lines.first} to {lines.last}"
        try:
            if self._dead is not None and self._away is not None and self.trying.clock() < self._again:
                raise Undelivered(f"{self.target} is away, and was not asked for {which}")
            self._try(lambda attempt: self.target.take(Batch(lines, attempt)), which)
        except Ending:
            return False
        except Undelivered as error:
            if self._dead is None:
                raise Undelivered(
                    f"{error}: reader {self.reader!r} stays before them, and the next start tries them again; "
                    "--dead-letter FILE sets such events aside"
                ) from None
            self._dead.append(lines.pieces)
            self.counts.dead += lines.events
            warn(f"{error}: they are set aside in {self._dead.path}")
        else:
            self.counts.events += lines.events
            self.counts.batches += 1
        self.counts.upto = str(lines.last)
        self.changed()
        if self.trying.clock() - self._told >= TOLD_SECONDS:
            self.finish()
        return True

    def finish(self) -> None:
        """Tell what has become of events, where that is news."""
        if self.tell is not None and self._said != self.counts.upto:
            self.tell(self.counts)
        self._said, self._told = self.counts.upto, self.trying.clock()

    def _try(self, ask: Callable[[int], _Found], which: str) -> _Found:
        """Ask until there is an answer; Undelivered says that none is waited for any more."""
        trying, tries = self.trying, self.trying.retries + 1
        pauses = backoff(*trying.pauses, random.Random().random)
        attempt = refused = 0
        while True:
            attempt += 1
            try:
                with self.stopping.cycle():
                    found = ask(attempt)
                self._away = None
                return found
            except Refused as error:
                refused, least, why = refused + 1, 0.0, str(error)
                self._away = None
                over, of = refused == tries, f" of {tries:,}"
            except Later as error:
                least, why, of = min(error.seconds, LONGEST_ASKED), str(error), ""
                now = trying.clock()
                self._away = now if self._away is None else self._away
                over = trying.patience is not None and now - self._away >= trying.patience
                self._again = now + trying.pauses[1] if over else now
            self.counts.failed += 1
            self.changed()
            pause = _HEARD_SECONDS if over else max(next(pauses), least)
            if not over and not self.stopping.asked:
                warn(f"{self.target} {why}: {which}, attempt {attempt:,}{of}; again in {pause:.3g} s")
            if self.stopping.wait(pause):
                raise Ending("asked to end")
            if over:
                times = "once" if attempt == 1 else f"{attempt:,} times"
                raise Undelivered(f"{self.target} has failed {times} for {which}, the last time it {why}")


ENDED_SECONDS = 2.0
"""That a command has to end once it was sent SIGTERM itself."""


@dataclass(frozen=True)
class CommandTarget:
    """A command that is run for each batch."""

    batch: ClassVar[int] = USUAL_BATCH
    words: list[str]
    reader: str  # The name of the reader whose events they are

    def __str__(self) -> str:
        return "--exec"

    def begin(self, _mark: str) -> None:
        """Say nothing of what it has."""

    def take(self, batch: Batch) -> None:
        """Run the command once."""
        more = {
            "DTOSS_READER": self.reader,
            "DTOSS_FIRST": str(batch.lines.first),
            "DTOSS_LAST": str(batch.lines.last),
            "DTOSS_ATTEMPT": str(batch.attempt),
        }
        # a file is whole when the command begins, also if this process is killed, and nobody waits for who reads it
        with tempfile.TemporaryFile() as file:
            file.writelines(batch.lines.pieces)
            file.seek(0)
            try:
                process = subprocess.Popen(self.words, stdin=file, env=os.environ | more)
            except OSError as error:
                raise Refused(f"could not be started ({reason(error)})") from None
            try:
                code = process.wait()
            finally:
                _end(process)
        if code < 0:
            raise Refused(f"was ended by {signal.Signals(-code).name}")
        if code:
            raise Refused(f"ended with exit code {code}")

    def close(self) -> None:
        """Nothing stays open."""


def words_of(command: str) -> list[str]:
    """Return the words of a command, cut as a shell does it."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"--exec {command!r} is no command: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(
            f"--exec {command!r} cannot be run: there is no program {words[0] if words else ''!r}; no shell runs it, "
            "say --exec \"sh -c '...'\" for one"
        )
    return words


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs."""
    if process.poll() is not None:
        return
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDED_SECONDS)
        return
    process.kill()
    process.wait()
