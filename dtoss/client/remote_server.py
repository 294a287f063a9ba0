"""One server and its snapshot: what is known of it, and questions that are checked here before they go there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.client.chunked_queries import answered_whole
from dtoss.client.http_connections import ARROW_MEDIA, JSON, Answer, Connections
from dtoss.client.server_facts import Facts, facts_of
from dtoss.client.url_and_hits import table_bytes, target
from dtoss.errors import DtossError
from dtoss.frames.frame_types import Places
from dtoss.frames.query_places import as_places, places_of

T = TypeVar("T")


class Server:
    """A server that is asked of one snapshot, or of whichever is current.

    ``pinned``: the snapshot that has to answer; None follows what is current.
    """

    def __init__(self, connections: Connections, pinned: str | None) -> None:
        self.connections, self._pinned = connections, pinned
        self._known: Facts | None = None
        self.answered = pinned

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self.connections.address)

    def ask(
        self,
        method: str,
        route: str,
        parameters: dict[str, Any],
        snapshot: str | None = None,
        body: bytes | None = None,
        accept: str = ARROW_MEDIA,
    ) -> Answer:
        """Return the answer to one request, of the snapshot that is named or pinned.

        ``snapshot``: which one has to answer; None: the one that is pinned, or any.
        """
        told = {**parameters, "snapshot": snapshot or self._pinned}
        answer = self.connections.ask(method, target(route, told), body, accept)
        if self._pinned is None:
            self.answered = answer.snapshot
        return answer

    def whole(
        self,
        queries: int,
        most: int,
        ask: Callable[[slice, str | None], tuple[Answer, T]],
        snapshot: str | None = None,
    ) -> tuple[list[T], str]:
        """Return what was found for all queries, asked in pieces, and the snapshot that answered all of them.

        ``snapshot``: which one has to answer; None: the one that is pinned, or any.
        """
        return answered_whole(queries, most, ask, snapshot or self._pinned, self.url)

    def facts(self) -> Facts:
        """Return what the server says of the snapshot, which is asked anew unless one is pinned."""
        known = self._known
        if known is None or self._pinned is None:
            known = facts_of(self.ask("GET", "/snapshot", {}, accept=JSON).document())
            self._known = known
        return known

    def seen(self) -> Facts:
        """Return what the server last said of the snapshot."""
        return self._known or self.facts()

    def check(self, check: Callable[[Facts], T]) -> T:
        """Return what a check makes of what is known of the snapshot, or where it fails, of what the server says now.

        ``check``: raises ValueError for what does not fit.
        """
        known = self.seen()
        try:
            return check(known)
        except ValueError:
            try:
                now = self.facts()
            except DtossError:
                now = known
            if now == known:
                raise
        return check(now)

    def places(self, positions: Places, crs: str | None) -> NDArray[np.float64]:
        """Return positions as float64 (n, 2), checked as an index in process does."""
        found = places_of(positions)  # once: a stream is read to its end

        def check(facts: Facts) -> NDArray[np.float64]:
            space = facts.space
            places = as_places(positions if found is None else found, space, crs)
            if space.to_lonlat:
                space.vectors(places)
            return places

        return self.check(check)

    def names(self) -> tuple[str, str]:
        """Return as what coordinates are called."""
        return ("lon", "lat") if self.seen().space.geographic else ("x", "y")

    def at(self, place: NDArray[np.float64]) -> dict[str, Any]:
        """Return a place as parameters."""
        return dict(zip(self.names(), place.tolist(), strict=True))

    def table(self, places: NDArray[np.float64], radius: NDArray[np.float64] | None, rows: slice) -> bytes:
        """Return some of the places as they are sent, with their radii if there are any."""
        columns = [places[rows, 0], places[rows, 1]]
        if radius is None:
            return table_bytes(self.names(), columns)
        return table_bytes([*self.names(), "radius"], [*columns, radius[rows]])
