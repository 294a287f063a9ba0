"""Events on one descriptor, ids of those that were handled on another: the cursor moves to what was acknowledged."""

from __future__ import annotations

import os
import select
import time
from collections import deque

from dtoss.errors import InputError, Undelivered
from dtoss.watch.events.consumer import Reading
from dtoss.watch.events.event_lines import Lines
from dtoss.watch.events.readers import Cursor
from pipelines.loop.stopping import GRACE_SECONDS, Stopping

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
            self._ends = time.monotonic() + GRACE_SECONDS
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
        ends = time.monotonic() + GRACE_SECONDS
        poll = select.poll()
        poll.register(self._acks, select.POLLIN)
        while self._open and time.monotonic() < ends and poll.poll(GRACE_SECONDS * 1000.0):
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
