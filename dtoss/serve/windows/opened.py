"""The windows of a store as a worker has them open, and what is said where they cannot be read."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from dtoss.errors import InputError, StoreError
from dtoss.serve.problems import Problem
from dtoss.windows.stored.asked import Windows, open_windows
from dtoss.windows.stored.home import Home, windows_of

LOOKED_EVERY = 0.5
"""Seconds for which a commit that was found is the newest one, without another look."""
MOST_OPEN = 64
"""Windows of a store that are open at once."""
MOST_BYTES = 32_000_000
"""Of answers that are kept."""
LARGEST_KEPT = MOST_BYTES // 8


class Opened:
    """Windows that are open, at the commit that was newest when they were last looked at; threads share it.

    Parameters
    ----------
    store
        Path or URI.
    failed
        Is told why files cannot be read.
    """

    def __init__(self, store: str, failed: Callable[[str], None]) -> None:
        self.store = store
        self._failed = failed
        self._lock = Lock()
        self._open: OrderedDict[str, tuple[float, Windows]] = OrderedDict()
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0

    def names(self) -> list[str]:
        """Return the names of all windows of the store.

        Raises
        ------
        Problem
            503 if the store cannot be read.
        """
        try:
            return windows_of(self.store)
        except (StoreError, OSError) as error:
            raise self._unread(error) from None

    def find(self, name: str) -> Windows:
        """Return windows by their name.

        Raises
        ------
        Problem
            404 if there are none of it, or they have no batch yet; 503 if they cannot be read.
        """
        with self._lock:
            looked, found = self._open.get(name, (0.0, None))
        now = time.monotonic()
        if found is not None and now - looked < LOOKED_EVERY:
            return found
        try:
            newest = open_windows(self.store, name)
        except InputError as error:
            raise Problem(404, str(error), limit="name") from None
        except (StoreError, OSError) as error:
            if isinstance(error, StoreError) and self._is_missing(name):
                raise Problem(404, str(error), limit="name") from None
            raise self._unread(error) from None
        if found is not None and found.head.commit == newest.head.commit:
            newest = found  # what it has read so far is right
        with self._lock:
            self._open[name] = now, newest
            self._open.move_to_end(name)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        return newest

    def begun(self, name: str) -> list[Windows]:
        """Return windows by their name as a list of one, of none where they have no batch yet."""
        try:
            return [self.find(name)]
        except Problem as problem:
            if problem.status != 404:
                raise
            return []

    def body(self, windows: Windows, tag: bytes, make: Callable[[], bytes]) -> bytes:
        """Return the answer of an ETag, which names the commit and the question: it is made once.

        Raises
        ------
        Problem
            400 for an InputError of what makes it, 503 for a StoreError or an OSError.
        """
        with self._lock:
            body = self._kept.get(tag)
            if body is not None:
                self._kept.move_to_end(tag)
                return body
        try:
            body = make()
        except InputError as error:
            raise Problem(400, str(error)) from None
        except (StoreError, OSError) as error:
            raise self._unread(error) from None
        if len(body) <= LARGEST_KEPT:
            with self._lock:
                self._bytes += len(body) - len(self._kept.pop(tag, b""))
                self._kept[tag] = body
                while self._bytes > MOST_BYTES:
                    self._bytes -= len(self._kept.popitem(last=False)[1])
        return body

    def _is_missing(self, name: str) -> bool:
        """Return whether there is nothing of this name, or no batch of it."""
        return name not in self.names() or Home(self.store, name).batches.hint() is None

    def _unread(self, error: Exception) -> Problem:
        self._failed(str(error))
        return Problem(
            503,
            "the files of the windows cannot be read now: the server's log says why; ask again",
            limit="windows",
            retry_after=5,
        )
