"""The windows of a store as a worker has them open, and what is said where they cannot be read."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from dtoss.errors import InputError, StoreError
from dtoss.locks import Recent
from dtoss.serve.core.problems import Problem
from dtoss.serve.core.server_settings import PACES, Paces
from dtoss.windows.query.window_query import Windows, open_windows
from dtoss.windows.storage.sets import current_home
from dtoss.windows.storage.window_document import windows_of

MOST_OPEN = 64
"""Windows of a store that are open at once."""
MOST_BYTES = 32_000_000
"""Of answers that are kept."""
LARGEST_KEPT = MOST_BYTES // 8
MOST_TARGETS = 4_096
"""Paths and queries that are known by their answers."""


class OpenWindows:
    """Windows that are open, at the commit that was newest when they were last looked at; threads share it."""

    def __init__(
        self,
        store: str,
        failed: Callable[[str], None],
        later: Callable[[Callable[[], None]], None] | None = None,
        paces: Paces = PACES,
    ) -> None:
        self.store = store
        self._paces = paces
        self._failed = failed
        self._later = later
        self._lock = Lock()
        self._open: OrderedDict[str, tuple[float, Windows]] = OrderedDict()
        self._bodies: Recent[bytes] = Recent(MOST_BYTES)
        self._tags: Recent[tuple[str, str, bytes]] = Recent(MOST_TARGETS)
        self._looking: set[str] = set()
        self._preparing: dict[str, float] = {}

    def ready(self, target: bytes, snapshot: str) -> tuple[bytes, bytes] | None:
        """Return the ETag and the JSON of a path and query that was answered since the newest commit; for the loop.

        Where the last look is half a second ago, a thread looks again; until a second has passed the answer is right.
        """
        name, commit, tag = self._tags.get(target) or ("", "", b"")
        body = self._bodies.get(tag + snapshot.encode())
        with self._lock:
            looked, windows = self._open.get(name, (0.0, None))
            since = time.monotonic() - looked
            if body is None or windows is None or _version(windows) != commit or since > 2 * self._paces.windows:
                return None
            look = since >= self._paces.windows and self._later is not None and name not in self._looking
            if look:
                self._looking.add(name)
        if look:
            self._look(name)
        return tag, body

    def remember(self, target: bytes, windows: Windows, tag: bytes) -> None:
        """Let the answer of a path and query be found by it."""
        self._tags.keep(target, (windows.home.name, _version(windows), tag))

    def _look(self, name: str) -> None:
        """Have a thread look whether there is a newer commit."""

        def look() -> None:
            try:
                with suppress(Problem):
                    self.find(name)
            finally:
                self._looking.discard(name)

        assert self._later is not None
        try:
            self._later(look)
        except Problem:  # the pool is full: whoever asks next tries again
            self._looking.discard(name)

    def names(self) -> list[str]:
        """Return the names of all windows of the store."""
        try:
            return windows_of(self.store)
        except (StoreError, OSError) as error:
            raise self._unread(error) from None

    def find(self, name: str, *, fresh: bool = False) -> Windows:
        """Return windows by their name.

        Fresh ones are those of the newest commit, whenever that was last looked for.
        """
        with self._lock:
            looked, found = self._open.get(name, (0.0, None))
        now = time.monotonic()
        if found is not None and not fresh and now - looked < self._paces.windows:
            return found
        try:
            newest = open_windows(self.store, name) if found is None else found.newest()
        except InputError as error:
            raise Problem(404, str(error), limit="name") from None
        except (StoreError, OSError) as error:
            if isinstance(error, StoreError) and self._is_missing(name):
                raise Problem(404, str(error), limit="name") from None
            raise self._unread(error) from None
        if found is not None and newest is not found and not newest.state.is_ready():
            newest = self._prepared(name, found, newest, wait=fresh)
        with self._lock:
            held = self._open.get(name, (0.0, newest))[1]
            if held.reader is newest.reader and held.head.number > newest.head.number:
                return held  # another thread has come further meanwhile
            self._open[name] = now, newest
            self._open.move_to_end(name)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return newest

    def _prepared(self, name: str, found: Windows, newest: Windows, *, wait: bool) -> Windows:
        """Return windows at a newer commit once what is asked of them is made of it, or that takes too long.

        Until then those of before answer, so that no request waits; one thread makes it.
        """
        now = time.monotonic()
        with self._lock:
            begun = self._preparing.get(name)
            if begun is None:
                self._preparing[name] = now
        if begun is not None:
            return newest if now - begun > self._paces.behind else found
        if wait or self._later is None:
            self._prepare(name, newest)
            return newest
        try:
            self._later(lambda: self._prepare(name, newest))
        except Problem:  # the pool is full
            self._preparing.pop(name, None)
            return newest
        return found

    def _prepare(self, name: str, windows: Windows) -> None:
        """Make what is asked of windows of their commit, and have the next one who asks look at it."""
        try:
            with suppress(StoreError, OSError):  # who asks is told why
                windows.state.prepare()
        finally:
            with self._lock:
                self._preparing.pop(name, None)
                if name in self._open:
                    self._open[name] = 0.0, self._open[name][1]

    def begun(self, name: str, *, fresh: bool = False) -> list[Windows]:
        """Return windows by their name, as :meth:`find`, as a list of one; of none where they have no batch yet."""
        try:
            return [self.find(name, fresh=fresh)]
        except Problem as problem:
            if problem.status != 404:
                raise
            return []

    def body(self, tag: bytes, snapshot: str, make: Callable[[], bytes]) -> bytes:
        """Return the answer of an ETag, which names the commit and the question, and a snapshot: it is made once."""
        held = tag + snapshot.encode()
        body = self._bodies.get(held)
        if body is not None:
            return body
        try:
            body = make()
        except InputError as error:
            raise Problem(400, str(error)) from None
        except (StoreError, OSError) as error:
            raise self._unread(error) from None
        if len(body) <= LARGEST_KEPT:
            self._bodies.keep(held, body, len(body))
        return body

    def _is_missing(self, name: str) -> bool:
        """Return whether there is nothing of this name, or no batch of it."""
        return name not in self.names() or current_home(self.store, name).batches.hint() is None

    def _unread(self, error: Exception) -> Problem:
        self._failed(str(error))
        return Problem(
            503,
            "the files of the windows cannot be read now: the server's log says why; ask again",
            limit="windows",
            retry_after=5,
        )


def _version(windows: Windows) -> str:
    """Return what names a commit and what is known of the sets of its name."""
    return f"{windows.head.commit.sha256} {windows.sets.change}"
