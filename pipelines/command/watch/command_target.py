"""A command that is handed events on stdin: it has taken them when it ends with exit code 0."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from dtoss.errors import InputError, reason
from dtoss.watch.targets.target import USUAL_BATCH, Batch, Refused

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
