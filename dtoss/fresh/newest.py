"""The newest generation as the process that writes the log knows it, which says of rows what becomes of them."""

from __future__ import annotations

import threading
from contextlib import suppress

import pyarrow as pa

from dtoss.errors import DtossError
from dtoss.fresh.standing import LATE, UNCHANGED, Standing, judge, standing_of
from dtoss.snapshots.store import Store

NEWEST_SECONDS = 0.5
"""Between two looks for a generation: to open one takes as long as to add some hundred rows."""


class Newest:
    """What stood at the last look."""

    def __init__(self, home: Store) -> None:
        self._home = home
        self._standing: Standing | None = None

    def look(self) -> None:
        """Open the newest generation, unless it is open."""
        head = self._home.head()
        if head is None or (self._standing is not None and self._standing.commit == head.number):
            return
        standing = standing_of(self._home, head, verify=False)
        for nobody in (0, ""):
            _ = nobody in standing.index  # who looks for an id opens the files
        self._standing = standing

    def judge(self, rows: pa.Table) -> tuple[int, int]:
        """Return how many rows are late, and how many say what stood."""
        if self._standing is None:
            return 0, 0
        found = judge(self._standing, rows)
        return int((found == LATE).sum()), int((found == UNCHANGED).sum())


def follow_newest(newest: Newest, stop: threading.Event, seconds: float = NEWEST_SECONDS) -> None:
    """Look for generations until told to stop."""
    while True:
        with suppress(DtossError, OSError):  # it goes just now: the next look finds what follows
            newest.look()
        if stop.wait(seconds):
            return
