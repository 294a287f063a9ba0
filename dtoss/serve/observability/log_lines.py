"""The log: lines of JSON for errors, slow requests and what happens to the server, written beside the loop.

A line is put on a bounded queue, and a thread writes it: where the pipe or the disk is full, lines are dropped and
counted, and nothing waits. No line holds a token.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from dtoss.errors import InputError
from dtoss.locks import Lock

WAITING = 10_000
"""Lines that wait to be written; further ones are dropped."""
LONGEST_LINE = 3_000
"""Characters of a text in a line: whole lines of several processes stay whole in one pipe up to 4,096 bytes."""
LINES_A_SECOND = 100
"""Lines of one kind of one process in a second; further ones are dropped, so that a flood of errors fills no disk."""
REFUSALS_A_SECOND = 20
"""Of requests that were answered with 4xx, which anybody can make: they take no other line's place."""
STDERR = 2
SECONDS_TO_FLUSH = 1.0
"""How long :meth:`Log.close` waits for the last lines."""


class Log:
    """A log of one process; it goes on in a forked one, with a thread of its own.

    ``file``: is appended to, and opened anew where it was renamed or removed; None is stderr; ``slow``: seconds from
    which a request is logged that was answered well; ``worker``: the number of the process, which each line tells; None
    where it is the parent; ``most``: events of one kind in a second, as :data:`LINES_A_SECOND`; None leaves none out.
    """

    def __init__(
        self,
        file: str | None = None,
        *,
        slow: float = 0.1,
        worker: int | None = None,
        dropped: Callable[[int], None] | None = None,
        most: int | None = LINES_A_SECOND,
    ) -> None:
        self._slow = slow
        self._most = most
        self._file = None if file is None else Path(file)
        self._worker = {} if worker is None else {"worker": worker}
        self._dropped = dropped
        self._pid = 0
        self._queue: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._second, self._lines = 0, Counter[str]()
        self._thread: threading.Thread | None = None
        self._lock = Lock()
        self._open: int | None = None
        if self._file is not None:
            try:
                os.close(_append(self._file))
            except OSError as error:
                raise InputError(f"the log {file} cannot be written: {error.strerror or error}") from None

    def request(
        self,
        *,
        id: str,
        route: str,
        status: int,
        seconds: float,
        token: str = "",
        detail: str | None = None,
        client: str | None = None,
    ) -> None:
        """Log a request that was slow or not answered well; others leave no line.

        Of those of one second the first hundred are logged, of refused ones twenty, and further ones are counted as
        dropped.
        """
        if 0 < status < 400 and seconds < self._slow and detail is None:
            return
        facts = {"id": id, "route": route, "status": status, "seconds": round(seconds, 6)}
        facts |= {name: value for name, value in (("token", token), ("client", client)) if value}
        refused = 400 <= status < 500
        if self._has_room("refusal" if refused else "request", REFUSALS_A_SECOND if refused else LINES_A_SECOND):
            self._put("request", **facts, **({} if detail is None else {"detail": detail}))

    def event(self, what: str, /, **facts: Any) -> None:
        """Log what has happened, at once and without waiting; an exception among the facts is told with its trace.

        Of one kind a hundred are logged in a second, and further ones counted as dropped.
        """
        if self._most is None or self._has_room(what, self._most):
            self._put(what, **facts)

    def _has_room(self, kind: str, most: int) -> bool:
        """Return whether this second has had fewer lines of a kind; count one that is dropped."""
        if (second := int(time.monotonic())) != self._second:
            self._second, self._lines = second, Counter()
        self._lines[kind] += 1
        if self._lines[kind] <= most:
            return True
        self._drop(1)
        return False

    def _put(self, what: str, /, **facts: Any) -> None:
        told = {name: _shown(value) for name, value in facts.items()}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = orjson.dumps({"time": moment, "event": what, **self._worker, **told}, default=_text) + b"\n"
        if self._pid != os.getpid():
            with self._lock:
                self._begin()
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self._drop(1)

    def close(self) -> None:
        """Write what waits, for a second at most."""
        thread = self._thread
        if self._pid != os.getpid() or thread is None:
            return
        self._pid = 0
        ending = time.monotonic() + SECONDS_TO_FLUSH
        try:
            self._queue.put(None, timeout=SECONDS_TO_FLUSH)
        except queue.Full:
            return
        thread.join(max(ending - time.monotonic(), 0.0))

    def _begin(self) -> None:
        if self._pid == os.getpid():
            return
        # a queue of another process may be locked for ever
        self._queue = queue.Queue(WAITING)
        self._open = None
        self._thread = threading.Thread(target=self._write, args=(self._queue,), name="dtoss-log", daemon=True)
        self._thread.start()
        self._pid = os.getpid()

    def _write(self, lines: queue.Queue[bytes | None]) -> None:
        while (line := lines.get()) is not None:
            try:
                number = self._number()
                while line:
                    line = line[os.write(number, line) :]
            except OSError:
                self._drop(1)
        if self._open is not None:
            os.close(self._open)

    def _number(self) -> int:
        """Return the descriptor to write to; of a file that is still there under its name."""
        if self._file is None:
            return STDERR
        if self._open is not None:
            try:
                if os.path.samestat(os.fstat(self._open), os.stat(self._file)):  # noqa: PTH116
                    return self._open
            except OSError:
                pass
            os.close(self._open)
            self._open = None
        self._open = _append(self._file)
        return self._open

    def _drop(self, lines: int) -> None:
        if self._dropped is not None:
            self._dropped(lines)


def _append(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _shown(value: object) -> object:
    if isinstance(value, BaseException):
        value = "".join(traceback.format_exception(value))
    if isinstance(value, str) and len(value) > LONGEST_LINE:
        # the end of a trace says what was wrong
        return f"{value[: LONGEST_LINE // 3]} ... {value[-LONGEST_LINE * 2 // 3 :]}"
    return value


def _text(value: Any) -> str:
    return str(_shown(str(value)))
