"""What one worker has: handed to everything that answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dtoss.serve.answers.open_snapshots import Serving
from dtoss.serve.core.pool import Pool
from dtoss.serve.core.server_settings import PACES, USUAL_SIZES, Paces, Settings, Sizes
from dtoss.serve.windows.open_windows import OpenWindows
from dtoss.watch.subscriptions.current import Pages
from dtoss.watch.watch_folder import Home

if TYPE_CHECKING:
    from dtoss.fresh.fresh_counts import FreshCounts
    from dtoss.fresh.intake import Intake
    from dtoss.serve.auth.admission import Doors
    from dtoss.serve.cluster.cluster import PeerGroup
    from dtoss.serve.events.tail import Tail
    from dtoss.serve.map.map_state import Showing
    from dtoss.serve.observability.access_log import Accesses
    from dtoss.serve.observability.log_lines import Audit, Log
    from dtoss.serve.observability.metrics import Metrics


@dataclass(frozen=True, eq=False)
class WorkerState:
    """What one worker has."""

    number: int  # Of the worker, from 0
    settings: Settings  # What the server was told
    serving: Serving  # The snapshots that are open
    pool: Pool  # Threads for all that takes longer
    accesses: Accesses
    metrics: Metrics  # What Prometheus is told
    doors: Doors  # Who may ask, and how often
    log: Log  # Errors, slow requests and events
    showing: Showing  # What the page shows besides the snapshot
    circle: PeerGroup | None = None  # The other servers of the plan; None where this one holds all
    paces: Paces = PACES  # How often it looks for something new
    sizes: Sizes = USUAL_SIZES  # How much it makes at a time
    audit: Audit | None = None  # Is told of each request; None where nobody wants to know
    intake: Intake | None = None  # Takes rows of positions; None where this server takes none

    fresh: FreshCounts | None = None  # How generations are made; None where snapshots are served as they are

    @cached_property
    def windows(self) -> OpenWindows:
        """The windows of the store, open at their newest commits."""

        def failed(why: str) -> None:
            self.log.event("windows not read", detail=why)

        return OpenWindows(self.settings.store, failed, self.pool.submit, self.paces)

    @cached_property
    def home(self) -> Home | None:
        """Where the watch is whose events and subscriptions are told; None where none is."""
        return self.settings.home()

    @cached_property
    def for_others(self) -> Pool:
        """Threads that answer the other servers: none of them waits for another server."""
        limits, settings = self.settings.limits, self.settings
        queue, unread = 16 * limits.pool_queue, self.pool.unread
        return Pool(settings.threads, queue, limits.pool_seconds, _Unheard(), unread=unread)

    @cached_property
    def asked(self) -> Pages | None:
        """What it is asked, by id; None where no watch is told of."""
        return None if self.home is None else Pages(self.home)

    @cached_property
    def tail(self) -> Tail | None:
        """Its newest events, and the streams of them; None where no watch is told of."""
        from dtoss.serve.events.tail import Tail

        if self.home is None:
            return None
        most = self.settings.limits.event_streams
        return Tail(self.home, self.pool, most, self.watch_not_read, self.paces.tail)

    def watch_not_read(self, why: str) -> None:
        """Take it that the watch could not be read, or changed."""
        self.metrics.watch_failed()
        self.log.event("watch not read", detail=why)


class _Unheard:
    """Is told how many questions of other servers wait; their askers measure how long."""

    def waiting(self, requests: int) -> None:
        """Take it."""
