"""Events handed to a command: one run for so many, again where it fails, set aside where it fails for good."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from dtoss.backoff import backoff
from dtoss.errors import InputError, Undelivered, reason
from dtoss.watch.events.line_parts import Lines
from pipelines.command.terminal.notes import warn
from pipelines.command.watch.dead_letters import DeadLetters
from pipelines.loop.stopping import Stopping

SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a command is tried again."""
GRACE_SECONDS = 8.0
"""That a command under way has to end after SIGTERM: less than service managers leave."""
ENDED_SECONDS = 2.0
"""That it has to end once it was sent SIGTERM itself."""
_HEARD_SECONDS = 0.2
"""Within which this process hears of a signal that has ended its command, too."""


@dataclass(frozen=True)
class Consumer:
    """A command that is handed events."""

    words: list[str]
    reader: str  # The name of the reader whose events they are
    retries: int  # How often the same events are tried again
    # Where events go for which it has failed so often; None where the reader stays before them
    dead: DeadLetters | None
    stopping: Stopping  # Whether somebody has asked to end
    # Seconds before the first retry, and before any at the most
    pauses: tuple[float, float] = (SHORTEST_PAUSE, LONGEST_PAUSE)

    def take(self, lines: Lines) -> bool:
        """Return whether the reader may move on behind some events; if not, somebody has asked to end."""
        which = f"{lines.events:,} events from {lines.first} to {lines.last}"
        pauses: Iterator[float] = backoff(*self.pauses)
        tries = self.retries + 1
        for attempt in range(1, tries + 1):
            why = self._run(lines, attempt)
            if why is None:
                return True
            pause = next(pauses) if attempt < tries else _HEARD_SECONDS
            if attempt < tries and not self.stopping.asked:
                warn(f"--exec {why}: {which}, attempt {attempt:,} of {tries:,}; again in {pause:g} s")
            if self.stopping.wait(pause):
                return False
        failed = f"--exec has failed {tries:,} times for {which}, the last time it {why}"
        if self.dead is None:
            raise Undelivered(
                f"{failed}: reader {self.reader!r} stays before them, and the next start tries them again; "
                "--dead-letter FILE sets such events aside"
            )
        self.dead.append(lines.pieces)
        warn(f"{failed}: they are set aside in {self.dead.path}")
        return True

    def _run(self, lines: Lines, attempt: int) -> str | None:
        """Run the command once and return how it has failed, None where it has not."""
        more = {
            "DTOSS_READER": self.reader,
            "DTOSS_FIRST": str(lines.first),
            "DTOSS_LAST": str(lines.last),
            "DTOSS_ATTEMPT": str(attempt),
        }
        # a file is whole when the command begins, also if this process is killed, and nobody waits for who reads it
        with tempfile.TemporaryFile() as file:
            file.writelines(lines.pieces)
            file.seek(0)
            with self.stopping.cycle():
                try:
                    process = subprocess.Popen(self.words, stdin=file, env=os.environ | more)
                except OSError as error:
                    return f"could not be started ({reason(error)})"
                try:
                    code = process.wait()
                finally:
                    _end(process)
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return None if code == 0 else f"ended with exit code {code}"


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
