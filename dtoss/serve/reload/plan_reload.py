"""The plan and the list of peers read again: what is new is opened, and what left is let go when others hold it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dtoss.client.peers import Peers, read_peers
from dtoss.errors import InputError
from dtoss.serve.cluster.cluster import Circle
from dtoss.serve.cluster.plan_placement import Placement, read_placement

if TYPE_CHECKING:
    from dtoss.serve.answers.open_snapshots import ServedSnapshot
    from dtoss.serve.core.server_settings import Settings

LETTING_GO_SECONDS = 3.0
"""For which all that leaves is held by others before it goes: all have heard of it by then."""


class PlanFollower:
    """Says what a server is to hold; for one thread."""

    def __init__(
        self,
        settings: Settings,
        circle: Circle,
        on_loop: Callable[[Callable[[], None]], None],
        event: Callable[..., None],
    ) -> None:
        self._settings, self._circle, self._on_loop, self._event = settings, circle, on_loop, event
        self._seen: tuple[object, ...] = ()
        self._refused = ""
        self._agreed: float | None = None

    def wanted(self, served: ServedSnapshot, pivots_hash: str, partitions: int) -> frozenset[int]:
        """Return the partitions that are to be held: those of the plan, and those that nobody else holds yet."""
        share, circle = served.share, self._circle
        assert share is not None
        self._read(pivots_hash, partitions)
        placement = circle.placement
        mine = placement.held_by(circle.me)
        if placement.pivots_hash != pivots_hash:
            raise InputError(self._refused or f"the plan is for pivots {placement.pivots_hash}, not {pivots_hash}")
        if share.index.partitioning.digest != pivots_hash:
            return mine
        leaving = frozenset(share.held) - mine
        held_of = {server: held for server, held in [*circle.held_of.items()] if server in circle.said}
        elsewhere = all(
            any(number in held_of.get(server, ()) for server in placement.holders[number]) for number in leaving
        )
        now = time.monotonic()
        self._agreed = None if not elsewhere else self._agreed or now
        if leaving and (self._agreed is None or now - self._agreed < LETTING_GO_SECONDS):
            return mine | frozenset(share.held)
        return mine

    def _read(self, pivots_hash: str, partitions: int) -> None:
        """Read both files where one has changed; what is no good changes nothing."""
        plan, peers = self._settings.plan, self._settings.peers
        assert plan is not None
        assert peers is not None
        seen = (_state_of(plan), _state_of(peers), pivots_hash)
        if seen == self._seen:
            return
        try:
            read = read_placement(plan, pivots_hash, partitions)
            where = read_peers(peers)
        except InputError as error:
            if str(error) != self._refused:
                self._refused = str(error)
                self._event("plan kept", detail=str(error))
            return
        first = not self._seen
        self._seen, self._refused, self._agreed = seen, "", None
        if first and read == self._circle.placement and where == self._circle.peers:
            return
        self._event("plan read", servers=len(read.servers))
        self._follow(where, read)

    def _follow(self, where: Peers, read: Placement) -> None:
        self._circle.placement = read
        self._on_loop(lambda: self._circle.follow(where, read))


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Return what changes when a file is written anew."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
