"""One server and its snapshot: what is known of it, and questions that are checked here before they go there.

What a server says of the snapshot that it has open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dtoss.client.chunked_queries import answered_whole
from dtoss.client.http_connections import ARROW_MEDIA, JSON, Answer, Connections
from dtoss.client.url_and_hits import table_bytes, target
from dtoss.errors import DtossError
from dtoss.frames.coordinates import as_places, places_of
from dtoss.frames.frame_types import Places
from dtoss.geometry.space import LONLAT, Space, space_of
from dtoss.names import position_names

T = TypeVar("T")


class Server:
    """A server that is asked of one snapshot, or of whichever is current.

    ``pinned``: the snapshot that has to answer; None follows what is current; ``least``: the sequence number of the log
    up to which answers have to hold all rows; None for any.
    """

    def __init__(self, connections: Connections, pinned: str | None, least: int | None = None) -> None:
        self.connections, self._pinned, self._least = connections, pinned, least
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
        """Return the answer to one request, of the snapshot that is named or pinned."""
        named = snapshot or self._pinned
        told = {**parameters, "snapshot": named, "min_seq": self._least if named is None else None}
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
        """Return what was found for all queries, asked in pieces, and the snapshot that answered all of them."""
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
        """Return what a check makes of what is known of the snapshot, or where that fails, of what is said now."""
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
        return position_names(self.seen().space.geographic)

    def at(self, place: NDArray[np.float64]) -> dict[str, Any]:
        """Return a place as parameters."""
        return dict(zip(self.names(), place.tolist(), strict=True))

    def table(self, places: NDArray[np.float64], radius: NDArray[np.float64] | None, rows: slice) -> bytes:
        """Return some of the places as they are sent, with their radii if there are any."""
        columns = [places[rows, 0], places[rows, 1]]
        if radius is None:
            return table_bytes(self.names(), columns)
        return table_bytes([*self.names(), "radius"], [*columns, radius[rows]])


@dataclass(frozen=True)
class Facts:
    """A snapshot that a server has open."""

    snapshot: str
    # objects, sites, partitions: how many there are; 0 sites where the token may see some objects only, whose places
    # nobody counts
    objects: int
    sites: int
    partitions: int
    space: Space  # What its positions mean
    # The rectangle that planar cells are clipped to; None on the sphere
    bounds: tuple[float, float, float, float] | None
    string_ids: bool  # Whether ids are texts
    columns: Mapping[str, str]  # Attributes of the objects, and their types as Arrow writes them
    version: str


def facts_of(document: Mapping[str, Any]) -> Facts:
    """Return the facts in the answer of ``/snapshot``."""
    try:
        bounds = document["bounds"]
        return Facts(
            snapshot=str(document["snapshot"]),
            objects=int(document["objects"]),
            sites=int(document.get("sites") or 0),
            partitions=int(document["partitions"]),
            space=_space(document["crs"], document["metric"]),
            bounds=None if bounds is None else (bounds[0], bounds[1], bounds[2], bounds[3]),
            string_ids=document["id_type"] != "int64",
            columns=dict(document["columns"]),
            version=str(document["version"]),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DtossError(f"/snapshot says something else than a server of dtoss of this version ({error!r})") from None


def _space(crs: str, metric: str) -> Space:
    """Return a space; a library that reads names of CRS is loaded only where one may be projected."""
    if metric == "plane" or crs == LONLAT:
        return Space(crs, metric)
    return space_of(crs, metric)
