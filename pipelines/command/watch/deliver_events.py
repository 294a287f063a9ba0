"""Events handed on as they are read: printed, given to a command, or acknowledged; the cursor of a reader moves so.

Events handed to a command: one run for so many, again where it fails, set aside where it fails for good.

The file of events that nobody could handle: lines are appended, whole and on the disk.
"""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from dtoss.backoff import backoff
from dtoss.errors import InputError, Undelivered, reason
from dtoss.watch.events.consumer import Reading, Share, begin
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_lines import Lines, line_parts
from dtoss.watch.events.event_log import FOLLOW_SECONDS, EventPart, looks, told_events
from dtoss.watch.events.readers import Filter
from dtoss.watch.events.watch_document import begun_watch, head_of
from dtoss.watch.watch_folder import Home, way_to
from dtoss.watch.watch_settings import Settings
from pipelines.command.terminal.notes import note, warn
from pipelines.command.watch.acknowledgements import Window
from pipelines.engines.progress import end_beginning
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


_ROWS = 1 << 16


@dataclass(frozen=True)
class How:
    """What is done with events."""

    command: str | None = None  # Is handed them; None where they go to stdout
    acks: int | None = None  # The descriptor on which ids come back; None where none do
    ahead: bool = False  # Whether the cursor moves before they are printed
    batch: int = 1000  # How many go to a command at a time, or are on their way
    retries: int = 5  # How often a command is handed the same ones again
    dead_letter: str | None = None  # The file for those that it has failed for; None where the reader stays before them
    # Seconds before it is handed the same again first, and at the most
    pauses: tuple[float, float] = (SHORTEST_PAUSE, LONGEST_PAUSE)


def hand_on(
    home: Home,
    name: str | None,
    at: Cursor | None,
    wanted: Filter,
    share: Share,
    how: How,
    *,
    follow: bool = False,
    reset: bool = False,
    stopping: Stopping | None = None,
) -> None:
    """Hand the events of a watch on, and move the cursor of a reader behind them.

    ``name``: of the reader; nobody's cursor moves when None; ``at``: events behind this one; where the reader stands,
    or from the oldest, when None; ``stopping``: whether somebody has asked to end; signals when None.
    """
    words = None if how.command is None else words_of(how.command)
    dead = None if how.dead_letter is None else DeadLetters(how.dead_letter)
    out = -1 if how.acks is None else _ends_of(how.acks)
    stopping = stopping or (Stopping() if words is None else Stopping(GRACE_SECONDS))

    def goes_on() -> bool:
        return not stopping.asked and (words is not None or _is_read())

    with ExitStack() as held:
        if follow or words is not None or how.acks is not None:
            held.enter_context(stopping.listening())  # whoever is ended by a signal has not failed
        if not (_has_begun(home, goes_on) if follow else begun_watch(home)):
            return
        reading = None
        if name is not None:
            reading = held.enter_context(begin(home, name, wanted, share, at, note, reset=reset))
            at = reading.cursor
        finish: Callable[[], None] = _nothing
        if reading is not None and words is not None:
            consumer = Consumer(words, reading.reader.name, how.retries, dead, stopping, how.pauses)
            take = _to_command(consumer, reading)
        elif reading is not None and how.acks is not None:
            window = Window(out, how.acks, how.batch, reading, stopping)
            take, finish, goes_on = window.tell, window.finish, lambda: window.goes_on
        else:
            take = _to_stdout(reading, how.ahead, stopping)
        parts = _parts(home, at, wanted, share, how, goes_on if follow else None)
        try:
            for lines in parts:
                if not take(lines) or stopping.asked:
                    break
            finish()
        finally:
            if reading is not None:
                reading.keep()


def _parts(
    home: Home, at: Cursor | None, wanted: Filter, share: Share, how: How, goes_on: Callable[[], bool] | None
) -> Iterator[Lines]:
    """Yield what is to be handed on: so many at a time, or each part as it is read where they are only printed."""
    found: Iterator[Iterator[EventPart]]
    if goes_on is None:
        found = iter([told_events(home, at, wanted.subscription, wanted.kinds)])
    else:
        found = looks(home, at, wanted.subscription, wanted.kinds, goes_on=goes_on)
    settings: list[Settings] = []

    def known() -> Settings:
        if not settings:
            settings.append(begun_watch(home).settings)
        return settings[0]

    for look in found:
        if how.command is not None or how.acks is not None:
            yield from line_parts(look, known, how.batch, share)
        else:
            for part in look:
                yield from line_parts(iter([part]), known, _ROWS, share)


def _to_command(consumer: Consumer, reading: Reading) -> Callable[[Lines], bool]:
    def take(lines: Lines) -> bool:
        if not lines.events:
            reading.move(lines.upto)
            return True
        if not consumer.take(lines):
            return False
        reading.cursor = lines.upto
        reading.keep()
        return True

    return take


def _to_stdout(reading: Reading | None, ahead: bool, stopping: Stopping) -> Callable[[Lines], bool]:
    if reading is not None and not ahead and not sys.stdout.isatty():
        warn(
            f"reader {reading.reader.name!r}: its cursor moves once events are written, not once they are handled: "
            "a consumer that dies loses what lies in the pipe; --exec CMD and --ack wait for it, --at-most-once says "
            "that this is meant"
        )
    file = _file_of_stdout()

    def take(lines: Lines) -> bool:
        if reading is not None and ahead and lines.events:
            reading.cursor = lines.upto
            reading.keep()
        for piece in lines.pieces:
            with stopping.cycle():  # who does not read must not keep it for ever
                _write(memoryview(piece))
        if reading is not None:
            if lines.events and file is not None:
                os.fsync(file)
            reading.move(lines.upto)
        return True

    return take


def _nothing() -> None:
    """Finish what needs no end."""


def _file_of_stdout() -> int | None:
    """Return the descriptor of stdout where that is a file on a disk."""
    try:
        number = sys.stdout.fileno()
        return number if stat.S_ISREG(os.fstat(number).st_mode) else None
    except (AttributeError, OSError, ValueError):
        return None


def _ends_of(acks: int) -> int:
    """Return the descriptor of stdout, once both ends are found open."""
    try:
        os.fstat(acks)
    except OSError as error:
        raise InputError(f"--ack-fd {acks} is no open descriptor: {reason(error)}") from None
    try:
        sys.stdout.flush()
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        raise InputError("--ack wants a stdout that is a descriptor: not that of a notebook") from None


def _write(rest: memoryview) -> None:
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # of a notebook, or of whoever has put something in its place
        sys.stdout.write(str(rest, "utf-8"))
        return
    while len(rest):  # without a buffer it may write less than it is given
        rest = rest[raw.write(rest) :]
    raw.flush()


def _has_begun(home: Home, goes_on: Callable[[], bool]) -> bool:
    """Wait for the first batch, and say so where there is none yet: the name may be another one's."""
    end_beginning()
    if head_of(home) is None:
        note(f"waiting for the first batch of watch {home.name}{way_to(home)}")
    while head_of(home) is None:
        if not goes_on():
            return False
        time.sleep(FOLLOW_SECONDS)
    return True


def _is_read() -> bool:
    """Return whether someone still reads what is printed; of anything but a pipe that is always so."""
    try:
        number = sys.stdout.fileno()
        asked = select.poll()
        asked.register(number, select.POLLERR)
        found = asked.poll(0)
    except (AttributeError, OSError, ValueError):
        return True
    return not any(event & (select.POLLERR | select.POLLNVAL) for _, event in found)


_BEGIN = b'{"id":"'
"""Of each line."""
_BLOCK = 1 << 16


@dataclass(frozen=True)
class DeadLetters:
    """A file of lines, which is made where there is none."""

    path: str

    def __post_init__(self) -> None:
        try:
            os.close(self._opened())
        except OSError as error:
            raise InputError(f"--dead-letter {self.path} cannot be written: {reason(error)}") from None

    def append(self, pieces: Iterable[bytes]) -> None:
        """Append whole lines, and bring them to the disk; nothing of them stays where that fails.

        What a process that was killed has left of a line goes first: its events are told again.
        """
        file = self._opened()
        try:
            with suppress(OSError):  # several may share the file; where a disk has no locks they may not
                fcntl.flock(file, fcntl.LOCK_EX)
            begin = os.fstat(file).st_size
            tail = _tail(file, begin)
            if tail.startswith(_BEGIN):
                begin -= len(tail)
                os.ftruncate(file, begin)
                tail = b""
            try:
                for piece in (b"\n" if tail else b"", *pieces):
                    rest = memoryview(piece)
                    while len(rest):
                        rest = rest[os.write(file, rest) :]
                os.fsync(file)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(file, begin)
                raise
        finally:
            os.close(file)
        folder = os.open(Path(self.path).absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _tail(file: int, size: int) -> bytes:
    """Return what stands behind the last end of a line."""
    tail, at = b"", size
    while at and b"\n" not in tail:
        begin = max(at - _BLOCK, 0)
        tail = os.pread(file, at - begin, begin) + tail
        at = begin
    return tail.rpartition(b"\n")[2]
