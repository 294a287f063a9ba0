"""Events handed on as they are read: printed, given to a target, or acknowledged; the cursor moves so far."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from dtoss.errors import InputError, Undelivered, reason
from dtoss.watch.events.consumer import Reading, Share, begin
from dtoss.watch.events.event_lines import Lines, line_parts
from dtoss.watch.events.event_log import FOLLOW_SECONDS, EventPart, looks, told_events
from dtoss.watch.events.readers import Cursor, Filter
from dtoss.watch.events.watch_document import begun_watch, head_of
from dtoss.watch.targets.target import USUAL_BATCH, Target
from dtoss.watch.watch_folder import Home, way_to
from dtoss.watch.watch_settings import Settings
from pipelines.command.terminal.notes import note, warn
from pipelines.command.watch.hand_batches import GRACE_SECONDS, USUAL, Counts, Handing, Trying
from pipelines.engines.progress import end_beginning
from pipelines.loop.stopping import GRACE_SECONDS as STOPPING_SECONDS
from pipelines.loop.stopping import Ending, Stopping

_ROWS = 1 << 16


@dataclass(frozen=True)
class How:
    """What is done with events."""

    target: Target | None = None  # Is handed them; None where they go to stdout
    acks: int | None = None  # The descriptor on which ids come back; None where none do
    ahead: bool = False  # Whether the cursor moves before they are printed
    batch: int = USUAL_BATCH  # How many go to a target at a time, or are on their way
    trying: Trying = USUAL  # How often a target is handed the same ones again
    tell: Callable[[Counts], None] | None = None  # Is told now and then what has become of them; nobody when None
    counts: Counts = field(default_factory=Counts)  # What has become of them, and who is called after each change
    changed: Callable[[], None] = lambda: None


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
    target = how.target
    out = -1 if how.acks is None else _ends_of(how.acks)
    stopping = stopping or (Stopping() if target is None else Stopping(GRACE_SECONDS))

    def goes_on() -> bool:
        return not stopping.asked and (target is not None or _is_read())

    with ExitStack() as held:
        if follow or target is not None or how.acks is not None:
            held.enter_context(stopping.listening())  # whoever is ended by a signal has not failed
        if not (_has_begun(home, goes_on) if follow else begun_watch(home)):
            return
        reading, last = None, None
        if name is not None:
            reading = held.enter_context(begin(home, name, wanted, share, at, note, reset=reset))
            at = reading.cursor
        finish: Callable[[], None] = _nothing
        if reading is not None and target is not None:
            handing = Handing(target, reading.reader.name, how.trying, stopping, how.tell, how.counts, how.changed)
            held.callback(target.close)
            if not _agree(reading, handing):
                return
            at, last = reading.cursor, reading.under_way
            take, finish, goes_on = _to_target(handing, reading), handing.finish, lambda: _waits(reading, stopping)
        elif reading is not None and how.acks is not None:
            window = Window(out, how.acks, how.batch, reading, stopping)
            take, finish, goes_on = window.tell, window.finish, lambda: window.goes_on
        else:
            take = _to_stdout(reading, how.ahead, stopping)
        parts = _parts(home, at, last, wanted, share, how, goes_on if follow else None)
        try:
            for lines in parts:
                if not take(lines) or stopping.asked:
                    break
            finish()
        finally:
            if reading is not None:
                reading.keep()


def _agree(reading: Reading, handing: Handing) -> bool:
    """Let a reader stand where its target does, where that is further; return whether nobody has asked to end."""
    try:
        reached = handing.begin(reading.mark())
    except Ending:
        return False
    if reached is not None and reached > reading.cursor:
        reading.cursor = reached
        if reading.under_way is not None and reading.under_way <= reached:
            reading.under_way = None
    return True


def _parts(
    home: Home,
    at: Cursor | None,
    last: Cursor | None,
    wanted: Filter,
    share: Share,
    how: How,
    goes_on: Callable[[], bool] | None,
) -> Iterator[Lines]:
    """Yield what is to be handed on: so many at a time, or each part as it is read where they are only printed."""
    settings: list[Settings] = []

    def known() -> Settings:
        if not settings:
            settings.append(begun_watch(home).settings)
        return settings[0]

    for look in _looks(home, at, last, wanted, goes_on):
        if how.target is not None or how.acks is not None:
            yield from line_parts(look, known, how.batch, share, wanted.target)
        else:
            for part in look:
                yield from line_parts(iter([part]), known, _ROWS, share, wanted.target)


def _looks(
    home: Home, at: Cursor | None, last: Cursor | None, wanted: Filter, goes_on: Callable[[], bool] | None
) -> Iterator[Iterator[EventPart]]:
    """Yield what each look finds; the first ends where those that were under way end, if any were."""
    asked = wanted.subscription, wanted.kinds
    if last is not None:
        # a stretch of events ends where it ends, beyond what was asked for
        first = told_events(home, at, *asked, until=last)
        yield (EventPart(part.events, min(part.upto, last)) for part in first)
        at = last
    if goes_on is None:
        yield told_events(home, at, *asked)
    else:
        yield from looks(home, at, *asked, goes_on=goes_on)


def _waits(reading: Reading, stopping: Stopping) -> bool:
    """Return whether more is to be looked for; the cursor is brought to the disk, as nothing is on its way."""
    reading.keep()
    return not stopping.asked


def _to_target(handing: Handing, reading: Reading) -> Callable[[Lines], bool]:
    def take(lines: Lines) -> bool:
        if not lines.events:
            reading.move(lines.upto)
            return True
        reading.hand_on(lines.last)
        if not handing.take(lines):
            return False
        reading.move_past(lines.upto)
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


_SLICE_SECONDS = 0.1
"""In which waiting looks for a signal."""
_READ_BYTES = 1 << 16
_LONGEST_BYTES = 100
"""Of a line that acknowledges something, at most."""


class Window:
    """Events on their way: told, and not acknowledged. ``out``: the descriptor to which events are written."""

    def __init__(self, out: int, acks: int, most: int, reading: Reading, stopping: Stopping) -> None:
        self._out, self._acks, self._most = out, acks, most
        self._reading, self._stopping = reading, stopping
        self._sent: deque[Cursor] = deque()
        self._told = self._passed = reading.cursor
        self._line = b""
        self._open = True
        """Whether somebody still acknowledges, and reads."""
        self._heard = False
        self._ends: float | None = None

    @property
    def goes_on(self) -> bool:
        """Whether more may be told; what was acknowledged meanwhile is taken."""
        while self._open and self._hear(0.0):
            pass
        return self._open and not self._stopping.asked

    def tell(self, lines: Lines) -> bool:
        """Write events as there is room for more on their way; return whether all were written."""
        for cursor, line in lines.each:
            while self._going and len(self._sent) >= self._most:
                self._hear(_SLICE_SECONDS)
            if not self._write(line, cursor):
                return False
        self._passed = lines.upto
        self._move()
        return self._going

    def finish(self) -> None:
        """Wait until all that was told is acknowledged: for ever, or some seconds once somebody has asked to end."""
        while self._sent and self._open and not self._late():
            self._hear(_SLICE_SECONDS)
        self._reading.keep()
        if self._stopping.asked:
            return
        if not (self._open or self._heard or self._sent):
            raise Undelivered("nothing can be acknowledged: the descriptor on which ids come back is at its end")
        if self._sent:
            raise Undelivered(
                f"{len(self._sent):,} events from {self._sent[0]} to {self._sent[-1]} were printed and not "
                "acknowledged, and nobody is left to do so: they are printed again next time"
            )

    @property
    def _going(self) -> bool:
        return self._open and not self._stopping.asked

    def _write(self, line: bytes, cursor: Cursor) -> bool:
        rest = memoryview(line)
        while len(rest):
            # a line that was begun is ended, where whoever reads is not too slow for that
            if not self._open or (self._late() if len(rest) < len(line) else self._stopping.asked):
                return False
            if self._ready(_SLICE_SECONDS, writing=True):
                try:
                    # there is room for so much where a pipe is said to have any
                    rest = rest[os.write(self._out, rest[: select.PIPE_BUF]) :]
                except BrokenPipeError:
                    self._take_rest()
                    return False
        self._sent.append(cursor)
        self._told = cursor
        return True

    def _late(self) -> bool:
        """Return whether somebody has asked to end some seconds ago."""
        if self._ends is None and self._stopping.asked:
            self._ends = time.monotonic() + STOPPING_SECONDS
        return self._ends is not None and time.monotonic() >= self._ends

    def _ready(self, seconds: float, *, writing: bool) -> bool:
        """Wait for one of both ends, take what was acknowledged, and return whether there is room to write."""
        poll = select.poll()
        poll.register(self._acks, select.POLLIN)
        poll.register(self._out, select.POLLOUT if writing else 0)
        found = dict(poll.poll(seconds * 1000.0))
        if self._acks in found and self._open:
            self._take()
        if found.get(self._out, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL) and self._open:
            self._take_rest()
        return bool(found.get(self._out, 0) & select.POLLOUT)

    def _hear(self, seconds: float) -> bool:
        """Wait for what is acknowledged, and return whether anything was; else the cursor is brought to the disk."""
        before = len(self._sent), self._line
        self._ready(seconds, writing=False)
        heard = (len(self._sent), self._line) != before
        if not heard:
            self._reading.keep()
        return heard

    def _take_rest(self) -> None:
        """Take what was acknowledged by one who reads no more."""
        self._out = self._acks  # nothing is written any more
        ends = time.monotonic() + STOPPING_SECONDS
        poll = select.poll()
        poll.register(self._acks, select.POLLIN)
        while self._open and time.monotonic() < ends and poll.poll(STOPPING_SECONDS * 1000.0):
            self._take()
        self._open = False

    def _take(self) -> None:
        data = os.read(self._acks, _READ_BYTES)
        if not data:
            self._open = False
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._acknowledge(line)
        if len(self._line) > _LONGEST_BYTES:
            self._acknowledge(self._line)
        self._move()

    def _acknowledge(self, line: bytes) -> None:
        text = line[:_LONGEST_BYTES].decode(errors="replace").strip()
        try:
            cursor = Cursor.of(text)
        except InputError as error:
            self._reading.keep()
            raise InputError(f"acknowledged was {text!r}: {error}") from None
        if cursor > self._told:
            self._reading.keep()
            raise InputError(
                f"{text} was acknowledged and has not been printed, the last event was {self._told}: the ids of events "
                "are wanted, as they were printed"
            )
        self._heard = True
        while self._sent and self._sent[0] <= cursor:
            self._reading.cursor = self._sent.popleft()

    def _move(self) -> None:
        """Move the reader on to what was acknowledged, and over all that was told where nothing is on its way."""
        at = self._reading.cursor
        self._reading.move(at if self._sent else max(at, self._passed))
