"""Events handed on as they are read: printed, given to a command, or acknowledged; the cursor of a reader moves so."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from dtoss.errors import InputError, reason
from dtoss.watch.events.consumer import Reading, Share, begin
from dtoss.watch.events.cursor import Cursor
from dtoss.watch.events.event_log import EventPart, told_events
from dtoss.watch.events.follow_events import FOLLOW_SECONDS, looks
from dtoss.watch.events.line_parts import Lines, line_parts
from dtoss.watch.events.readers import Filter
from dtoss.watch.events.watch_document import begun_watch, head_of
from dtoss.watch.watch_folder import Home, way_to
from dtoss.watch.watch_settings import Settings
from pipelines.command.terminal.notes import note, warn
from pipelines.command.watch.acknowledgements import Window
from pipelines.command.watch.dead_letters import DeadLetters
from pipelines.command.watch.exec_handler import GRACE_SECONDS, LONGEST_PAUSE, SHORTEST_PAUSE, Consumer, words_of
from pipelines.loop.stopping import Stopping

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
