"""The snapshot that the parent holds: a worker that stands in for another begins with it, and shares its memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace

from dtoss.errors import DtossError
from dtoss.serve.answers.open_snapshots import ServedSnapshot
from dtoss.serve.core.server_settings import Settings
from dtoss.serve.observability.shared_counts import SharedCounts
from dtoss.serve.reload.prepare import first_snapshot

PAUSE_SECONDS = 0.0005
"""For which the parent sleeps after each piece of work: the workers are to have the processors."""

GENERATIONS_SECONDS = 60.0
"""For which the parent holds a generation: a worker that stands in for another opens the newest one."""


class _Interrupted(Exception):
    pass


class Following:
    """Holds a snapshot, and the next one once all workers serve that: nobody keeps one that is gone from the store."""

    def __init__(
        self, settings: Settings, served: ServedSnapshot, counts: SharedCounts, failed: Callable[[DtossError], None]
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._failed = failed
        self._refused: str | None = None
        self._held = [served]
        self._next = time.monotonic() + GENERATIONS_SECONDS

    @property
    def served(self) -> ServedSnapshot:
        """What a worker begins with."""
        return self._held[0]

    def take(self) -> ServedSnapshot:
        """Return what a worker begins with, and hold it no longer; in the worker's process."""
        return self._held.pop()

    def look(self, interrupted: Callable[[], bool]) -> None:
        """Open what all workers serve by now, unless it is held already."""
        told = [worker.served() for worker in self._counts.all()]
        names = {one[0] for one in told if one is not None}
        if self._settings.snapshot is not None or len(names) != 1 or names <= {self.served.name, self._refused}:
            return
        if self._settings.generations is not None and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + GENERATIONS_SECONDS
        (name,) = names

        def breathe() -> None:
            if interrupted():
                raise _Interrupted
            time.sleep(PAUSE_SECONDS)

        try:
            # one of the workers has verified it
            pinned = name if self._settings.generations is None else None  # a generation would be gone by then
            fresh = first_snapshot(replace(self._settings, snapshot=pinned, verify=False), breathe=breathe)
        except _Interrupted:
            return
        except DtossError as error:
            self._refused = name
            self._failed(error)
            return
        self._held[:] = [fresh]
        gc.collect()
        gc.freeze()
