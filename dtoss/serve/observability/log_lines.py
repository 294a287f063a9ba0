"""The log and the audit: lines of JSON of errors, slow requests and who asked what, written beside the loop.

A line is put on a bounded queue, and a thread writes it: where the pipe or the disk is full, lines are dropped and
counted, and nothing waits. No line holds a token.

Handlers note in the scope of a request what its target does not tell: how many hits it had, and the places of a body.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

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


NOTED_HITS, NOTED_PLACES = "dtoss.hits", "dtoss.places"
ASKER = b"x-dtoss-asker"
"""The header by which servers of a plan tell each other for whom they ask."""
MOST_ASKERS = 32
"""Names of a message; others are told as one."""
_HIT = b'"distance":'
"""In each hit of an answer without attributes; in texts a backslash stands before the second quotation mark."""


def note(scope: Any, *, hits: int | None = None, positions: NDArray[np.float64] | None = None) -> None:
    """Note how many hits a request had, and the places that its body asks about, (n, 2)."""
    if hits is not None:
        scope[NOTED_HITS] = hits
    if positions is not None:
        around = [*positions.min(axis=0).tolist(), *positions.max(axis=0).tolist()] if len(positions) else []
        scope[NOTED_PLACES] = len(positions), around


def counting(scope: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield pieces of hits, and note how many have been sent; each has an array ``query``."""
    scope[NOTED_HITS] = 0
    for rows in pieces:
        scope[NOTED_HITS] += len(rows.query)
        yield rows


def hits_in(body: bytes) -> int:
    """Return how many hits the JSON of an answer without attributes has.

    Examples
    --------
    >>> hits_in(b'{"snapshot":"a","hits":[{"id":"x","distance":1.0},{"id":"y","distance":2.0}]}')
    2
    """
    return body.count(_HIT)


def askers(names: Iterable[str]) -> bytes:
    """Return for whom a message asks, each name with how many of its questions; empty where none is known.

    Examples
    --------
    >>> askers(["fleet", "map", "fleet", ""])
    b'fleet=2,map=1'
    """
    if not (named := [name for name in names if name]):
        return b""
    known = Counter(named)
    most = known.most_common(MOST_ASKERS)
    others = known.total() - sum(count for _, count in most)
    return ",".join(f"{name}={count}" for name, count in [*most, *([("*", others)] if others else [])]).encode()


class Audit:
    """The audit of one process."""

    def __init__(self, file: str, worker: int | None = None, dropped: Any = None) -> None:
        try:
            self._log = Log(file, worker=worker, dropped=dropped, most=None)
        except InputError as error:
            raise InputError(f"--audit: {error}") from None
        self.close = self._log.close

    def request(
        self,
        *,
        id: str,
        token: str,
        client: Any,
        method: str,
        route: str,
        target: bytes,
        status: int,
        hits: int | None = None,
        places: tuple[int, list[float]] | None = None,
        asker: bytes | None = None,
    ) -> None:
        """Write a line. ``hits``: how many there were; None where there is no such number."""
        facts: dict[str, Any] = {"id": id, "token": token, "client": client[0] if client else None}
        facts |= {"method": method, "route": route, "target": target.decode("latin-1"), "status": status}
        if hits is not None:
            facts["hits"] = hits
        if places is not None:
            facts["places"], facts["around"] = places
        if asker is not None:
            facts["for"] = asker.decode("latin-1")
        self._log.event("request", **facts)
